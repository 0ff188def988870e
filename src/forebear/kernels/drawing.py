"""Chance for word vectors: which words of a text are looked at, which words are drawn against them, all from a seed.

A stream of chance is 64 bits that xorshift changes again and again. A text is cut into parts of `PART` words, each with
a stream of its own, so that who works on which part, and when, changes nothing about what is drawn.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import compiled

PART = 1 << 13  # words that share a stream
STREAM = 1 << 22  # drawn words that are laid out in advance
_MASK = (1 << 64) - 1


def scrambled(*numbers: int) -> int:
    """64 bits that follow from some numbers, never all 0 (splitmix64 of each in turn)."""
    mixed = 0x9E3779B97F4A7C15
    for number in numbers:
        mixed = (mixed ^ (number & _MASK)) + 0x9E3779B97F4A7C15 & _MASK
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
        mixed ^= mixed >> 31
    return mixed or 1


def following(state: int) -> int:
    """The next 64 bits of a stream."""
    state ^= state << 13 & _MASK
    state ^= state >> 7
    return state ^ (state << 17 & _MASK)


def thinning(counts: np.ndarray, sample: float, allowed: np.ndarray) -> np.ndarray:
    """(V,) uint64 of 2^32, how often each id is looked at: always at or below a share of `sample` of the text, more
    seldom the more frequent it is beyond; never where it is not allowed."""
    kept = np.ones(len(counts))
    much = sample * counts[allowed].sum()
    if much > 0:
        often = np.maximum(counts, 1) / much
        kept = np.minimum((np.sqrt(often) + 1) / often, 1)
    return np.where(allowed, np.round(kept * 2.0**32), 0).astype(np.uint64)


def stream_of_words(counts: np.ndarray, power: float, allowed: np.ndarray, size: int = STREAM) -> np.ndarray:
    """(size,) int32 ids in random order, each as often as its count to the power tells; empty where there are none."""
    shares = np.where(allowed, counts, 0).astype(np.float64) ** power * (counts > 0)
    if not shares.sum() > 0:
        return np.zeros(0, np.int32)
    ends = np.round(np.cumsum(shares) / shares.sum() * size).astype(np.int64)
    ids = np.repeat(np.arange(len(counts), dtype=np.int32), np.diff(ends, prepend=0))
    return np.random.default_rng(len(counts)).permutation(ids)


def thinned(tokens: np.ndarray, lengths: np.ndarray, kept: np.ndarray, state: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids that are looked at, rows one after the other, and where each row ends."""
    found, ends = np.empty(len(tokens), np.int32), np.empty(len(lengths), np.int64)
    many = compiled(thinned_in_loops)(tokens, lengths, kept, np.uint64(state), found, ends)
    return found[:many], ends


def thinned_in_loops(tokens, lengths, kept, state, found, ends):
    many, token = 0, 0
    for row in range(len(lengths)):
        for _ in range(lengths[row]):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            if state >> np.uint64(32) < kept[tokens[token]]:
                found[many] = tokens[token]
                many += 1
            token += 1
        ends[row] = many
    return many
