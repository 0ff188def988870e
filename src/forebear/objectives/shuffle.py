"""Stateless shuffle: the i-th index of epoch e from (seed, e, i) alone."""

from __future__ import annotations

import numpy as np

from forebear.objectives.batch import UINT64

FEISTEL_ROUNDS = 6


def shuffled_positions(indices: np.ndarray | int, size: int, *, seed: int, epoch: int = 0) -> np.ndarray:
    """The position of each index of 0..size-1 in this epoch's permutation.

    A Feistel network permutes a range somewhat larger than `size`; results outside 0..size-1 are permuted again until
    they are inside. So the result is a permutation that needs no stored state.
    """
    positions = np.atleast_1d(np.asarray(indices, dtype=np.int64))
    if size < 1 or (positions.size and (positions.min() < 0 or positions.max() >= size)):
        raise IndexError(f"indices must lie in 0..{size - 1}")
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = _round_keys(seed, epoch)
    result = _permute(positions.astype(UINT64), half_bits, keys)
    outside = np.flatnonzero(result >= size)
    while outside.size:
        result[outside] = _permute(result[outside], half_bits, keys)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _permute(values: np.ndarray, half_bits: int, keys: list[np.uint64]) -> np.ndarray:
    """Feistel rounds: each half is mixed into the other, which is invertible and hence a permutation."""
    low_bits = UINT64((1 << half_bits) - 1)
    left, right = values >> UINT64(half_bits), values & low_bits
    for key in keys:
        left, right = right, left ^ (_mix_bits(right + key) & low_bits)
    return (left << UINT64(half_bits)) | right


def _mix_bits(values: np.ndarray) -> np.ndarray:
    """A full avalanche of 64 bits (the finalizer of SplitMix64)."""
    values = (values ^ (values >> UINT64(30))) * UINT64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> UINT64(27))) * UINT64(0x94D049BB133111EB)
    return values ^ (values >> UINT64(31))


def _round_keys(seed: int, epoch: int) -> list[np.uint64]:
    return list(np.random.SeedSequence([seed, epoch]).generate_state(FEISTEL_ROUNDS, dtype=UINT64))
