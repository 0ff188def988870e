"""Random numbers of word2vec: seeds, subsampling, and the table of negative samples.

A random stream is a 64-bit state advanced by xorshift. Each part of a text has its own, so the result does not depend
on which thread works on which part. Window sizes and negatives are sampled in word2vec.py.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import compile_kernel

NEGATIVE_TABLE_SIZE = 1 << 22  # negative samples in the table
KEEP_SCALE = 1 << 32  # probabilities are fixed point, scaled by 2^32
_MASK = (1 << 64) - 1


def hash_seed(*numbers: int) -> int:
    """A 64-bit hash of some numbers, never 0 (splitmix64)."""
    state = 0
    for number in numbers:
        state = int(_splitmix64(np.array([state ^ (number & _MASK)], np.uint64))[0])
    return state or 1


def hash_seeds(numbers: tuple[int, ...], count: int) -> np.ndarray:
    """(count,) uint64: hash_seed(*numbers, 0), hash_seed(*numbers, 1), …"""
    return np.maximum(_splitmix64(np.uint64(hash_seed(*numbers)) ^ np.arange(count, dtype=np.uint64)), 1)


def _splitmix64(bits: np.ndarray) -> np.ndarray:
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def next_random(state: int) -> int:
    """The next 64-bit state of a stream (xorshift)."""
    state ^= state << 13 & _MASK
    state ^= state >> 7
    return state ^ (state << 17 & _MASK)


def keep_probabilities(counts: np.ndarray, sample: float, allowed: np.ndarray) -> np.ndarray:
    """(V,) uint64, scaled by 2^32: the probability of keeping each id when subsampling; 0 where it is not allowed.

    It is √(t / f) + t / f, at most 1, for relative frequency f and threshold t = `sample`, as in word2vec.c: ids are
    always kept up to a frequency of 2.6 t.
    """
    probs = np.ones(len(counts))
    threshold = sample * counts[allowed].sum()
    if threshold > 0:
        ratio = np.maximum(counts, 1) / threshold
        probs = np.minimum((np.sqrt(ratio) + 1) / ratio, 1)
    return np.where(allowed, np.round(probs * float(KEEP_SCALE)), 0).astype(np.uint64)


def negative_sampling_probs(counts: np.ndarray, power: float, allowed: np.ndarray) -> np.ndarray:
    """(V,) the probability of each id as a negative sample, proportional to count ** power; or all 0."""
    is_allowed = allowed & (counts > 0)
    weights = np.where(is_allowed, np.maximum(counts, 1).astype(np.float64) ** power, 0)
    return weights / max(weights.sum(), 1)


def negative_sample_stream(
    counts: np.ndarray, power: float, allowed: np.ndarray, size: int = NEGATIVE_TABLE_SIZE
) -> np.ndarray:
    """(size,) int32 ids in random order, in proportion to their probabilities; empty if all are 0."""
    probs = negative_sampling_probs(counts, power, allowed)
    if not probs.any():
        return np.zeros(0, np.int32)
    ends = np.round(np.cumsum(probs) / probs.sum() * size).astype(np.int64)
    ids = np.repeat(np.arange(len(counts), dtype=np.int32), np.diff(ends, prepend=0))
    return np.random.default_rng(len(counts)).permutation(ids)


def subsample(
    tokens: np.ndarray, lengths: np.ndarray, keep_probs: np.ndarray, rng_key: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The retained ids of all rows, concatenated, and the end of each row."""
    kept_tokens, ends = np.empty(len(tokens), np.int32), np.empty(len(lengths), np.int64)
    num_kept = compile_kernel(subsample_kernel)(
        tokens, lengths, keep_probs, np.uint64(hash_seed(*rng_key)), kept_tokens, ends
    )
    return kept_tokens[:num_kept], ends


def subsample_kernel(tokens, lengths, keep_probs, state, kept_tokens, ends):
    num_kept, begin = 0, 0
    for row in range(len(lengths)):
        for position in range(begin, begin + lengths[row]):
            token = tokens[position]
            keep_prob = keep_probs[token]
            next_state = state ^ state << np.uint64(13)
            next_state ^= next_state >> np.uint64(7)
            next_state ^= next_state << np.uint64(17)
            state = state if keep_prob == 0 else next_state  # ids that are never kept do not advance the stream
            kept_tokens[num_kept] = token  # if dropped, overwritten by the next: no branch to mispredict
            num_kept += np.int64(next_state >> np.uint64(32) < keep_prob)
        begin, ends[row] = begin + lengths[row], num_kept
    return num_kept
