"""Neighbours told from words that stand elsewhere: right on vectors that know, half by chance, none without words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.evaluation import neighbor_eval
from forebear.embeddings.word_table import WordVectors
from forebear.inference.run import Run
from small_runs import opened, text


@pytest.fixture(scope="module")
def two_worlds(tmp_path_factory: pytest.TempPathFactory):
    """Documents of either of two sets of words, never of both."""
    folder = tmp_path_factory.mktemp("company")
    rng = np.random.default_rng(0)
    texts = [" ".join(f"{world}{number}" for number in rng.integers(50, size=40)) for world in "ab" for _ in range(100)]
    (folder / "text.txt").write_text("\n\n".join(texts))
    tokenizer = train_tokenizer("words", texts)
    return prepare_corpus([folder / "text.txt"], tokenizer, to=folder / "corpus").all_documents(), tokenizer


def table(tokens: list[str], width: int, of) -> WordVectors:
    words = [token for token in tokens if not token.startswith("[")]
    return WordVectors(words, np.array([of(word) for word in words], np.float32).reshape(len(words), width))


def test_vectors_that_know_their_world_tell_what_can_be_told(two_worlds):
    """A neighbour is of the same world; what stands elsewhere is so half of the time, and then both are as near."""
    portion, tokenizer = two_worlds
    known = table(tokenizer.vocabulary(), 2, lambda word: [word[0] == "a", word[0] == "b"])
    assert neighbor_eval(known, tokenizer, portion).told_apart == pytest.approx(0.75, abs=0.02)


def test_vectors_that_know_nothing_guess(two_worlds):
    portion, tokenizer = two_worlds
    rng = np.random.default_rng(1)
    blind = table(tokenizer.vocabulary(), 20, lambda word: rng.normal(size=20))
    assert neighbor_eval(blind, tokenizer, portion).told_apart == pytest.approx(0.5, abs=0.03)
    nothing = WordVectors(["elsewhere"], np.ones((1, 2), np.float32))
    told = neighbor_eval(nothing, tokenizer, portion)
    assert (told.told_apart, told.pairs, told.unknown_rate) == (None, 0, 1.0)


def test_a_run_is_measured_on_a_file(tmp_path: Path):
    run: Run = opened("word2vec", tmp_path, steps=200, rate=0.1)
    (tmp_path / "other.txt").write_text(text(30).replace("Number", "Count"))
    told = run.measure(tmp_path / "other.txt").to_dict()
    assert 0.4 < told["told_apart"] < 1
    assert told["unknown_rate"] > 0
    assert told["documents"] == 30
