"""Layout of the n-gram hash table: entries per cache line, spare lines; counts in few bits. No numba."""

from __future__ import annotations

import numpy as np

WORDS_PER_LINE = 8  # 64-bit words in a line of the hash table
NGRAMS_PER_LINE, HIGHEST_ORDER_NGRAMS_PER_LINE = (4, 5)  # those with continuations; the longest ones
SPARE_LINES = 64  # lines after all others, for n-grams whose own lines are full


def narrow_ints(values: np.ndarray) -> np.ndarray:
    """The same integers in 16 bits if they fit: most counts are small, and there are very many of them."""
    fits = values.dtype != np.uint16 and int(values.max(initial=0)) <= np.iinfo(np.uint16).max
    return values.astype(np.uint16) if fits else values
