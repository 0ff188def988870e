"""Random texts for linear models, and a target that depends on their tokens."""

from __future__ import annotations

import numpy as np

VOCABULARY = 40  # ids of the random texts
Arrays = dict[str, np.ndarray]


def random_texts(count: int, seed: int = 0, *, pairs: bool = False) -> Arrays:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, count)
    inputs = {"tokens": rng.integers(0, VOCABULARY, lengths.sum()), "lengths": lengths}
    if pairs:
        positions = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        inputs["segments"] = (positions >= np.repeat(lengths // 2, lengths)).astype(np.int64)
    return inputs


def token_weight_sums(inputs: Arrays, seed: int = 9) -> np.ndarray:
    """A target for each text: the sum of a weight of each of its tokens, and noise."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(inputs["lengths"])), inputs["lengths"])
    return np.bincount(rows, rng.normal(size=VOCABULARY)[inputs["tokens"]]) + rng.normal(size=len(inputs["lengths"]))
