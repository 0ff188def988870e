"""Layout of the n-gram hash table, and counts in few bits; shared with callers that do not load numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BUCKET_SIZE = 8  # 64-bit numbers in a bucket of the hash table: one cache line
NGRAMS_PER_BUCKET, HIGHEST_ORDER_PER_BUCKET = 4, 5
SPARE_BUCKETS = 64  # buckets after all others, for n-grams whose own buckets are full


class NgramTable(NamedTuple):
    """The hash table of n-grams of two or more tokens, as kernels read it."""

    buckets: np.ndarray  # (BUCKET_SIZE · buckets,) uint64
    offsets: np.ndarray  # (order + 2,) the first bucket of the n-grams of each length
    max_probe: np.ndarray  # (order + 1,) maximum probe distance of n-grams of each length, in buckets


def narrow_ints(values: np.ndarray) -> np.ndarray:
    """The same integers in 16 bits if they fit: most counts are small."""
    fits = values.dtype != np.uint16 and int(values.max(initial=0)) <= np.iinfo(np.uint16).max
    return values.astype(np.uint16) if fits else values
