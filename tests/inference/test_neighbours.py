"""Neighbours among sentences: beside cosines of single vectors; vectors are made once, and strange ones refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.data.io.safetensors import write_vectors
from forebear.errors import InputError
from forebear.inference import similarity
from forebear.inference.embed import TextEmbeddings, embed_texts
from forebear.inference.run import Run
from small_runs import opened

pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCES = ["The cat sat by the mat.", "The dog ran to the hill.", "Number 3 is over.", "The cat sat by the mat."]
SENTENCES += [f"The bird saw the {place}." for place in ("tree", "river", "red roof", "old fox")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("neighbours")
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        return opened("bert", folder, steps=20).folder.path


@pytest.fixture
def run(trained: Path) -> Run:
    return Run.open(trained)


def test_the_nearest_have_the_largest_cosines(run: Run):
    asked = ["The cat sat by the tree.", "Number 3 is over."]
    for one in run.neighbours(asked, among=SENTENCES, top=len(SENTENCES)):
        vector = run.embed(one.text)[0].vector
        expected = {number: float(vector @ run.embed(text)[0].vector) for number, text in enumerate(SENTENCES, 1)}
        assert {near.line: near.cosine for near in one.nearest} == pytest.approx(expected, abs=2e-6)
        assert [near.cosine for near in one.nearest] == pytest.approx(sorted(expected.values(), reverse=True), abs=2e-6)
        assert all(near.text == SENTENCES[near.line - 1] for near in one.nearest)
    (same,) = run.neighbours("The cat sat by the mat.", among=SENTENCES, top=3)
    assert [near.line for near in same.nearest[:2]] == [1, 4]  # copies, in their order
    assert same.nearest[0].cosine == pytest.approx(1, abs=1e-6)


def test_vectors_are_made_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(SENTENCES), encoding="utf-8")
    first = run.neighbours("The cat", among=file, top=3)
    made: list[int] = []

    def counted(run: Run, texts: list[str], **how: Any) -> TextEmbeddings:
        made.append(len(texts))
        return embed_texts(run, texts, **how)

    monkeypatch.setattr(similarity, "embed_texts", counted)
    assert run.neighbours("The cat", among=SENTENCES, top=3) == first  # by what they say, wherever they stand
    assert made == [1]
    assert run.neighbours("The cat", among=[*SENTENCES, "The end."], top=3)
    assert made == [1, len(SENTENCES) + 1, 1]
    run.neighbours("The cat", among=SENTENCES, top=3, layers=1)
    assert made[3:] == [len(SENTENCES), 1]


def test_given_vectors_are_those_of_the_texts(run: Run, tmp_path: Path):
    own = embed_texts(run, SENTENCES).vectors
    write_vectors(tmp_path / "v.npy", [own])
    found = run.neighbours("The cat", among=SENTENCES, vectors=tmp_path / "v.npy")
    assert found == run.neighbours("The cat", among=SENTENCES)
    wrong = {"short": own[:-1], "narrow": own[:, :-1], "turned": own[::-1], "none": np.zeros_like(own)}
    said = {"short": "7 vectors", "narrow": "31 wide", "turned": "vector 1 is not", "none": "vector 1 is not"}
    for name, array in wrong.items():
        write_vectors(tmp_path / f"{name}.npy", [array])
        with pytest.raises(InputError, match=said[name]) as caught:
            run.neighbours("The cat", among=SENTENCES, vectors=tmp_path / f"{name}.npy")
        assert caught.value.hint


def test_an_index_gives_the_same_where_there_are_few(run: Run):
    pytest.importorskip("usearch")
    exact = run.neighbours(SENTENCES, among=SENTENCES, top=3)
    found = run.neighbours(SENTENCES, among=SENTENCES, top=3, approximate=True)
    assert [[near.cosine for near in one.nearest] for one in found] == [
        pytest.approx([near.cosine for near in one.nearest], abs=2e-6) for one in exact
    ]


def test_what_cannot_be_searched_is_told(run: Run):
    with pytest.raises(InputError, match="no text to search"):
        run.neighbours("a", among=[])
    with pytest.raises(InputError, match="--top is 0"):
        run.neighbours("a", among=SENTENCES, top=0)
    with pytest.raises(InputError, match="no tokens") as caught:
        run.neighbours("a", among=["The cat", "", "The dog"])
    assert caught.value.line == 2
