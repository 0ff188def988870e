"""GloVe as a milestone: from text through its tokenizer and objective to vectors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.errors import BadInput
from forebear.milestones.glove import Glove
from forebear.objectives.batch import Moment
from forebear.text.corpus import Corpus
from forebear.text.preparing import prepare
from forebear.text.reading import Reading
from forebear.text.training import train
from forebear.training.recipe import recipe_from

KINDS = {"drink": ("tea", "milk", "water"), "animal": ("cat", "dog", "cow")}
SAID = {"drink": "she drank cold {} from a cup", "animal": "the hungry {} ran over fields"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("glove")
    lines = [SAID[kind].format(word) for kind, words in KINDS.items() for word in words] * 20 + ["an unknownword"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
        tokenizer = train("words", lines, min_count=5)
        return prepare([folder / "text.txt"], tokenizer, reading=Reading(documents="lines"), to=folder / "corpus")


def test_words_of_a_kind_are_near_each_other(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path))
    milestone, tokenizer, source = Glove(width=8, largest=10.0), corpus.tokenizer, corpus.whole()
    objective, network = milestone.objective(tokenizer), milestone.network(tokenizer)
    objective.check(source)
    objective.prepare(source)
    network.begin(0)
    for step in range(200):
        network.sweep(objective.batch(source, 10_000, Moment(0, step)), rate=milestone.recipe()["rate"])
    unit = network.matrix / np.maximum(np.linalg.norm(network.matrix, axis=1, keepdims=True), 1e-9)
    cosines = unit @ unit.T
    drinks, animals = ([tokenizer.id(word) for word in KINDS[kind]] for kind in ("drink", "animal"))
    inside = min(cosines[np.ix_(ids, ids)].min() for ids in (drinks, animals))
    assert inside > cosines[np.ix_(drinks, animals)].max() + 0.3
    assert not network.matrix[list(tokenizer.specials)].any(), "neither special tokens nor unknown words have a vector"
    assert set(network.heads) == set(objective.batch(source, 10, Moment(0, 0)).targets)


@pytest.mark.parametrize(
    "fields",
    [{"width": 0}, {"window": 0}, {"min_count": 0}, {"largest": 0.0}, {"power": float("inf")}, {"unit": "page"}],
)
def test_what_cannot_be_is_refused_at_once(fields: dict[str, Any]):
    with pytest.raises(BadInput):
        Glove(**fields)


def test_sizes_and_recipe_are_real():
    for fields in Glove.sizes.values():
        made = Glove(**fields)
        assert Glove(**asdict(made)) == made
        assert recipe_from(made.recipe()).epochs == made.recipe()["epochs"]
    assert Glove.size in Glove.sizes
    assert (Glove().largest, Glove().power, Glove().window) == (100, 0.75, 10), "the paper's"
