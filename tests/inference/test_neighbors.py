"""Neighbors among sentences equal cosines of single vectors; vectors are computed once, and invalid ones refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.data.io.arrays import write_vectors
from forebear.errors import InputError
from forebear.inference import similarity
from forebear.inference.embed import TextEmbeddings, embed_texts
from forebear.inference.run import Run
from small_runs import open_small_run

pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCES = ["The cat sat by the mat.", "The dog ran to the hill.", "Number 3 is over.", "The cat sat by the mat."]
SENTENCES += [f"The bird saw the {noun}." for noun in ("tree", "river", "red roof", "old fox")]


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("neighbours")
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        return open_small_run("bert", folder, steps=20).folder.path


@pytest.fixture
def run(run_path: Path) -> Run:
    return Run.open(run_path)


def test_nearest_sentences_have_the_largest_cosines(run: Run):
    queries = ["The cat sat by the tree.", "Number 3 is over."]
    for result in run.neighbours(queries, among=SENTENCES, top=len(SENTENCES)):
        vector = run.embed(result.text)[0].vector
        expected = {number: float(vector @ run.embed(text)[0].vector) for number, text in enumerate(SENTENCES, 1)}
        assert {near.line: near.cosine for near in result.nearest} == pytest.approx(expected, abs=2e-6)
        assert [near.cosine for near in result.nearest] == pytest.approx(
            sorted(expected.values(), reverse=True), abs=2e-6
        )
        assert all(near.text == SENTENCES[near.line - 1] for near in result.nearest)
    (copies,) = run.neighbours("The cat sat by the mat.", among=SENTENCES, top=3)
    assert [near.line for near in copies.nearest[:2]] == [1, 4]  # copies, in their order
    assert copies.nearest[0].cosine == pytest.approx(1, abs=1e-6)


def test_sentence_vectors_are_computed_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(SENTENCES), encoding="utf-8")
    first = run.neighbours("The cat", among=file, top=3)
    batch_sizes: list[int] = []

    def count_and_embed(run: Run, texts: list[str], **options: Any) -> TextEmbeddings:
        batch_sizes.append(len(texts))
        return embed_texts(run, texts, **options)

    monkeypatch.setattr(similarity, "embed_texts", count_and_embed)
    assert run.neighbours("The cat", among=SENTENCES, top=3) == first  # by content, in a file or a list
    assert batch_sizes == [1]
    assert run.neighbours("The cat", among=[*SENTENCES, "The end."], top=3)
    assert batch_sizes == [1, len(SENTENCES) + 1, 1]
    run.neighbours("The cat", among=SENTENCES, top=3, layers=1)
    assert batch_sizes[3:] == [len(SENTENCES), 1]


def test_given_vectors_must_be_those_of_the_texts(run: Run, tmp_path: Path):
    vectors = embed_texts(run, SENTENCES).vectors
    write_vectors(tmp_path / "v.npy", [vectors])
    result = run.neighbours("The cat", among=SENTENCES, vectors=tmp_path / "v.npy")
    assert result == run.neighbours("The cat", among=SENTENCES)
    invalid = {
        "short": vectors[:-1],
        "narrow": vectors[:, :-1],
        "turned": vectors[::-1],
        "none": np.zeros_like(vectors),
    }
    messages = {"short": "7 vectors", "narrow": "31 wide", "turned": "vector 1 is not", "none": "vector 1 is not"}
    for name, array in invalid.items():
        write_vectors(tmp_path / f"{name}.npy", [array])
        with pytest.raises(InputError, match=messages[name]) as caught:
            run.neighbours("The cat", among=SENTENCES, vectors=tmp_path / f"{name}.npy")
        assert caught.value.hint


def test_approximate_index_equals_exact_search_of_few_vectors(run: Run):
    pytest.importorskip("usearch")
    exact = run.neighbours(SENTENCES, among=SENTENCES, top=3)
    approximate = run.neighbours(SENTENCES, among=SENTENCES, top=3, approximate=True)
    assert [[near.cosine for near in result.nearest] for result in approximate] == [
        pytest.approx([near.cosine for near in result.nearest], abs=2e-6) for result in exact
    ]


def test_invalid_neighbor_searches_are_refused(run: Run):
    with pytest.raises(InputError, match="no text to search"):
        run.neighbours("a", among=[])
    with pytest.raises(InputError, match="--top is 0"):
        run.neighbours("a", among=SENTENCES, top=0)
    with pytest.raises(InputError, match="no tokens") as caught:
        run.neighbours("a", among=["The cat", "", "The dog"])
    assert caught.value.line == 2
