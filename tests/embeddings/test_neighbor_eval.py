"""Neighbor accuracy: 0.75 for vectors of the true topics, 0.5 for random vectors, undefined without known words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.evaluation import neighbor_eval
from forebear.embeddings.word_table import WordVectors
from forebear.inference.run import Run
from small_runs import open_small_run, small_text


@pytest.fixture(scope="module")
def two_topics(tmp_path_factory: pytest.TempPathFactory):
    """Documents on two topics with disjoint vocabularies."""
    folder = tmp_path_factory.mktemp("company")
    rng = np.random.default_rng(0)
    texts = [" ".join(f"{topic}{number}" for number in rng.integers(50, size=40)) for topic in "ab" for _ in range(100)]
    (folder / "text.txt").write_text("\n\n".join(texts))
    tokenizer = train_tokenizer("words", texts)
    return prepare_corpus([folder / "text.txt"], tokenizer, to=folder / "corpus").all_documents(), tokenizer


def word_vectors(tokens: list[str], width: int, vector_of) -> WordVectors:
    words = [token for token in tokens if not token.startswith("[")]
    return WordVectors(words, np.array([vector_of(word) for word in words], np.float32).reshape(len(words), width))


def test_neighbor_accuracy_of_topic_vectors_is_three_quarters(two_topics):
    """A context word is always on topic, a random word half of the time; ties count one half: 0.75."""
    documents, tokenizer = two_topics
    topic_vectors = word_vectors(tokenizer.vocabulary(), 2, lambda word: [word[0] == "a", word[0] == "b"])
    assert neighbor_eval(topic_vectors, tokenizer, documents).told_apart == pytest.approx(0.75, abs=0.02)


def test_neighbor_accuracy_of_random_vectors_is_one_half_and_none_without_pairs(two_topics):
    documents, tokenizer = two_topics
    rng = np.random.default_rng(1)
    random_vectors = word_vectors(tokenizer.vocabulary(), 20, lambda word: rng.normal(size=20))
    assert neighbor_eval(random_vectors, tokenizer, documents).told_apart == pytest.approx(0.5, abs=0.03)
    no_known_word = WordVectors(["elsewhere"], np.ones((1, 2), np.float32))
    result = neighbor_eval(no_known_word, tokenizer, documents)
    assert (result.told_apart, result.pairs, result.unknown_rate) == (None, 0, 1.0)


def test_run_measures_neighbor_accuracy_on_a_file(tmp_path: Path):
    run: Run = open_small_run("word2vec", tmp_path, steps=200, rate=0.1)
    (tmp_path / "other.txt").write_text(small_text(30).replace("Number", "Count"))
    result = run.measure(tmp_path / "other.txt").to_dict()
    assert 0.4 < result["told_apart"] < 1
    assert result["unknown_rate"] > 0
    assert result["documents"] == 30
