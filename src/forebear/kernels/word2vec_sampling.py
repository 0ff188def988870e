"""Chance for word vectors: which words of a text are looked at, which words are drawn against them, all from a seed.

A stream of chance is 64 bits that xorshift changes again and again. A text is cut into parts of equal length, each with
a stream of its own, so that who works on which part, and when, changes nothing about what is drawn.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import compile_kernel

STREAM = 1 << 22  # drawn words that are laid out in advance
ALWAYS = 1 << 32  # of so many times
_MASK = (1 << 64) - 1


def hash_seed(*numbers: int) -> int:
    """64 bits that follow from some numbers, never all 0 (splitmix64 of each in turn)."""
    mixed = 0
    for number in numbers:
        mixed = int(_mixed(np.array([mixed ^ (number & _MASK)], np.uint64))[0])
    return mixed or 1


def hash_seeds(numbers: tuple[int, ...], many: int) -> np.ndarray:
    """(many,) uint64: scrambled(*numbers, 0), scrambled(*numbers, 1), …"""
    return np.maximum(_mixed(np.uint64(hash_seed(*numbers)) ^ np.arange(many, dtype=np.uint64)), 1)


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def next_random(state: int) -> int:
    """The next 64 bits of a stream."""
    state ^= state << 13 & _MASK
    state ^= state >> 7
    return state ^ (state << 17 & _MASK)


def keep_probabilities(counts: np.ndarray, sample: float, allowed: np.ndarray) -> np.ndarray:
    """(V,) uint64 of 2^32, how often each id is looked at: always at or below a share of `sample` of the text, more
    seldom the more frequent it is beyond; never where it is not allowed."""
    kept = np.ones(len(counts))
    much = sample * counts[allowed].sum()
    if much > 0:
        often = np.maximum(counts, 1) / much
        kept = np.minimum((np.sqrt(often) + 1) / often, 1)
    return np.where(allowed, np.round(kept * float(ALWAYS)), 0).astype(np.uint64)


def negative_sampling_probs(counts: np.ndarray, power: float, allowed: np.ndarray) -> np.ndarray:
    """(V,) how often each id is drawn: in proportion to its count to the power; all 0 where there is none."""
    seen = allowed & (counts > 0)
    shares = np.where(seen, np.maximum(counts, 1).astype(np.float64) ** power, 0)
    return shares / max(shares.sum(), 1)


def negative_sample_stream(counts: np.ndarray, power: float, allowed: np.ndarray, size: int = STREAM) -> np.ndarray:
    """(size,) int32 ids in random order, each as often as its share tells; empty where there are none."""
    shares = negative_sampling_probs(counts, power, allowed)
    if not shares.any():
        return np.zeros(0, np.int32)
    ends = np.round(np.cumsum(shares) / shares.sum() * size).astype(np.int64)
    ids = np.repeat(np.arange(len(counts), dtype=np.int32), np.diff(ends, prepend=0))
    return np.random.default_rng(len(counts)).permutation(ids)


def subsample(
    tokens: np.ndarray, lengths: np.ndarray, kept: np.ndarray, moment: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The ids that are looked at, rows one after the other, and where each row ends."""
    found, ends = np.empty(len(tokens), np.int32), np.empty(len(lengths), np.int64)
    many = compile_kernel(thinned_in_loops)(tokens, lengths, kept, np.uint64(hash_seed(*moment)), found, ends)
    return found[:many], ends


def thinned_in_loops(tokens, lengths, kept, state, found, ends):
    many, begin = 0, 0
    for row in range(len(lengths)):
        for token in range(begin, begin + lengths[row]):
            word = tokens[token]
            often = kept[word]
            after = state ^ state << np.uint64(13)
            after ^= after >> np.uint64(7)
            after ^= after << np.uint64(17)
            state = state if often == 0 else after  # as if it were not in the text: no chance is spent on it
            found[many] = word  # overwritten by the next where it is not looked at: no branch to be guessed
            many += np.int64(after >> np.uint64(32) < often)
        begin, ends[row] = begin + lengths[row], many
    return many
