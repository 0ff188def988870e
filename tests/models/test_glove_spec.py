"""GloVe from text to vectors, through its tokenizer and objective."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.models.glove import GloveSpec
from forebear.objectives.batch import BatchKey
from forebear.training.settings import merge_recipe

KINDS = {"drink": ("tea", "milk", "water"), "animal": ("cat", "dog", "cow")}
TEMPLATES = {"drink": "she drank cold {} from a cup", "animal": "the hungry {} ran over fields"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("glove")
    lines = [TEMPLATES[kind].format(word) for kind, words in KINDS.items() for word in words] * 20 + ["an unknownword"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
        tokenizer = train_tokenizer("words", lines, min_count=5)
        return prepare_corpus(
            [folder / "text.txt"], tokenizer, text_format=TextFormat(documents="lines"), to=folder / "corpus"
        )


def test_glove_vectors_of_words_of_a_kind_are_similar(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path))
    spec, tokenizer, source = GloveSpec(width=8, largest=10.0), corpus.tokenizer, corpus.all_documents()
    objective, network = spec.objective(tokenizer), spec.build(tokenizer)
    objective.check(source)
    objective.run_first_pass(source)
    network.initialize(0)
    for step in range(200):
        network.train_batch(objective.batch(source, 10_000, BatchKey(0, step)), rate=spec.default_recipe()["rate"])
    normalized = network.matrix / np.maximum(np.linalg.norm(network.matrix, axis=1, keepdims=True), 1e-9)
    cosines = normalized @ normalized.T
    drinks, animals = ([tokenizer.token_to_id(word) for word in KINDS[kind]] for kind in ("drink", "animal"))
    min_within_kind = min(cosines[np.ix_(ids, ids)].min() for ids in (drinks, animals))
    assert min_within_kind > cosines[np.ix_(drinks, animals)].max() + 0.3
    assert not network.matrix[list(tokenizer.special_ids)].any(), (
        "neither special tokens nor unknown words have a vector"
    )
    assert set(network.heads) == set(objective.batch(source, 10, BatchKey(0, 0)).targets)


@pytest.mark.parametrize(
    "fields",
    [{"width": 0}, {"window": 0}, {"min_count": 0}, {"largest": 0.0}, {"power": float("inf")}, {"unit": "page"}],
)
def test_glove_spec_refuses_invalid_values(fields: dict[str, Any]):
    with pytest.raises(InputError):
        GloveSpec(**fields)


def test_glove_sizes_and_recipe_are_valid():
    for fields in GloveSpec.sizes.values():
        spec = GloveSpec(**fields)
        assert GloveSpec(**asdict(spec)) == spec
        assert merge_recipe(spec.default_recipe()).epochs == spec.default_recipe()["epochs"]
    assert GloveSpec.size in GloveSpec.sizes
    assert (GloveSpec().largest, GloveSpec().power, GloveSpec().window) == (100, 0.75, 10), "the paper's"
