"""word2vec against gensim: with equal settings and text, nearest neighbors share a category about as often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forebear.embeddings.word2vec import Word2VecModel

CATEGORIES, MEMBERS, EPOCHS, RATE = 12, 25, 4, 0.05
# Mean difference over ten such texts: -0.006 (skip-gram, negatives), -0.021 (skip-gram, tree), -0.009 (CBOW,
# negatives), +0.001 (CBOW, tree), with standard errors of 0.004 to 0.014; a single text differs by up to 0.09.
MAX_GAP = 0.08
JOB_WORDS = 10_000  # words between gensim's learning-rate updates: a large part of so short a text
WORDS, SHARE = CATEGORIES * MEMBERS, 0.35


def category_text(rows: int = 1000, size: int = 20, seed: int = 0) -> np.ndarray:
    """(rows, size) words: in each row, a share of one category, the rest of random categories."""
    rng = np.random.default_rng(seed)
    members = (MEMBERS * rng.random((rows, size)) ** 2).astype(np.int64)
    row_category, random_category = (rng.integers(0, CATEGORIES, (rows, width)) for width in (1, size))
    categories = np.where(rng.random((rows, size)) < SHARE, row_category, random_category)
    return (categories * MEMBERS + members).astype(np.int32)


def neighbor_accuracy(vectors: np.ndarray) -> float:
    """The share of words whose nearest neighbor has the same category; chance is 1 / CATEGORIES."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T - 2 * np.eye(len(unit))
    return float((cosines.argmax(1) // MEMBERS == np.arange(len(unit)) // MEMBERS).mean())


@pytest.mark.sample(1)
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("output", ["negatives", "tree"])
def test_word2vec_neighbor_accuracy_is_close_to_gensim(architecture: str, output: str):
    word2vec = pytest.importorskip("gensim.models.word2vec")
    settings = {"window": 5, "sample": 0.0}
    accuracies, gensim_accuracies = [], []
    for seed in range(3):
        text = category_text(seed=seed)
        model = Word2VecModel(
            vocab_size=WORDS, excluded_ids=[], width=24, architecture=architecture, output=output, **settings
        )
        model.set_token_counts(np.bincount(text.ravel(), minlength=WORDS))
        model.initialize(seed)
        chunks = np.array_split(text, text.size // JOB_WORDS)
        for step in range(EPOCHS * len(chunks)):
            chunk, remaining = chunks[step % len(chunks)], 1 - step / (EPOCHS * len(chunks))
            model.train_batch(chunk.ravel(), np.full(len(chunk), 20), rate=RATE * remaining, rng_key=(seed, step))
        accuracies.append(neighbor_accuracy(model.matrix))
        gensim_settings: dict[str, Any] = {"sg": int(architecture == "skipgram"), "hs": int(output == "tree")}
        gensim_settings |= {"negative": 0 if output == "tree" else 5, "alpha": RATE, "min_alpha": 0, "epochs": EPOCHS}
        gensim_model = word2vec.Word2Vec(
            [[str(word) for word in row] for row in text.tolist()],
            vector_size=24, min_count=1, workers=1, seed=seed, **settings, **gensim_settings,
        )  # fmt: skip
        gensim_accuracies.append(neighbor_accuracy(np.array([gensim_model.wv[str(word)] for word in range(WORDS)])))
    assert np.mean(accuracies) > 3 / CATEGORIES
    assert np.mean(accuracies) > np.mean(gensim_accuracies) - MAX_GAP
