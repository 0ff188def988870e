"""Layout of the n-gram hash table, and counts in few bits; shared with callers that do not load numba."""

from __future__ import annotations

import numpy as np

VALUES_PER_BUCKET = 8  # 64-bit numbers in a bucket of the hash table: one cache line
NGRAMS_PER_BUCKET, HIGHEST_ORDER_NGRAMS_PER_BUCKET = 4, 5
SPARE_BUCKETS = 64  # buckets after all others, for n-grams whose own buckets are full


def narrow_ints(values: np.ndarray) -> np.ndarray:
    """The same integers in 16 bits if they fit: most counts are small."""
    fits = values.dtype != np.uint16 and int(values.max(initial=0)) <= np.iinfo(np.uint16).max
    return values.astype(np.uint16) if fits else values
