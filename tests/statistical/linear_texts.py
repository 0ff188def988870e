"""Made-up texts for linear models, and something to learn from them."""

from __future__ import annotations

import numpy as np

SIZE = 40  # ids of these made-up texts
Arrays = dict[str, np.ndarray]


def texts(count: int, seed: int = 0, *, pairs: bool = False) -> Arrays:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, count)
    told = {"tokens": rng.integers(0, SIZE, lengths.sum()), "lengths": lengths}
    if pairs:
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        told["segments"] = (places >= np.repeat(lengths // 2, lengths)).astype(np.int64)
    return told


def sums(inputs: Arrays, seed: int = 9) -> np.ndarray:
    """Something to learn: the sum of a number that each id has, by row, and some noise."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(inputs["lengths"])), inputs["lengths"])
    return np.bincount(rows, rng.normal(size=SIZE)[inputs["tokens"]]) + rng.normal(size=len(inputs["lengths"]))
