"""A shuffle without memory: the i-th index of epoch e from (seed, e, i) alone; every epoch is a permutation."""

from __future__ import annotations

import numpy as np

ROUNDS = 6
U64 = np.uint64


def shuffled(indices: np.ndarray | int, size: int, *, seed: int, epoch: int = 0) -> np.ndarray:
    """Where each index of 0..size-1 goes in this epoch's order.

    A Feistel network permutes a square of numbers a little larger than `size`; what lands outside is sent through
    again until it lands inside, so that exactly 0..size-1 remain: nothing is stored, nothing drawn twice.
    """
    places = np.atleast_1d(np.asarray(indices, dtype=np.int64))
    if size < 1 or (places.size and (places.min() < 0 or places.max() >= size)):
        raise IndexError(f"indices must lie in 0..{size - 1}")
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = _keys(seed, epoch)
    result = _permuted(places.astype(U64), half, keys)
    outside = np.flatnonzero(result >= size)
    while outside.size:
        result[outside] = _permuted(result[outside], half, keys)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _permuted(numbers: np.ndarray, half: int, keys: list[np.uint64]) -> np.ndarray:
    """Each half in turn is mixed into the other: invertible whatever the mixing, hence a permutation."""
    low_bits = U64((1 << half) - 1)
    left, right = numbers >> U64(half), numbers & low_bits
    for key in keys:
        left, right = right, left ^ (_mixed(right + key) & low_bits)
    return (left << U64(half)) | right


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """A full avalanche of 64 bits (the finaliser of SplitMix64)."""
    numbers = (numbers ^ (numbers >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> U64(27))) * U64(0x94D049BB133111EB)
    return numbers ^ (numbers >> U64(31))


def _keys(seed: int, epoch: int) -> list[np.uint64]:
    words = np.random.SeedSequence([seed, epoch]).generate_state(ROUNDS, dtype=U64)
    return list(words)
