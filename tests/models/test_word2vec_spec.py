"""word2vec's default recipe: a learning rate that its window and negatives can bear."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.embeddings.word2vec import Word2VecModel
from forebear.models.word2vec import Word2VecSpec


def test_word2vec_learning_rate_is_the_papers_unless_negatives_are_many():
    assert Word2VecSpec().default_recipe()["rate"] == Word2VecSpec(negatives=50).default_recipe()["rate"] == 0.025
    assert Word2VecSpec(architecture="cbow", negatives=100).default_recipe()["rate"] == 0.05
    assert Word2VecSpec(output="tree").default_recipe()["rate"] == 0.025
    assert Word2VecSpec(negatives=100).default_recipe()["rate"] < 0.02


@pytest.mark.parametrize("deterministic", [False, True])
def test_word2vec_with_many_negatives_does_not_diverge(deterministic: bool):
    rng = np.random.default_rng(0)
    tokens = (400 * rng.random(40_000) ** 3).astype(np.int32)  # some are frequent, most are rare
    model = Word2VecModel(
        vocab_size=400, excluded_ids=[], width=20, window=5, architecture="skipgram", output="negatives", negatives=150
    )
    model.set_token_counts(np.bincount(tokens, minlength=400))
    model.initialize(0)
    rate, lengths = Word2VecSpec(negatives=150).default_recipe()["rate"], np.full(400, 100)
    for step in range(3):
        model.train_batch(tokens, lengths, rate=rate, rng_key=(0, step), deterministic=deterministic)
    assert np.isfinite(model.matrix).all()
    assert np.abs(model.matrix).max() < 10
