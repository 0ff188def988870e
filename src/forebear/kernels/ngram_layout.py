"""Whole numbers in as little room as they need, for those too who need no compiled loops."""

from __future__ import annotations

import numpy as np


def narrow_ints(numbers: np.ndarray) -> np.ndarray:
    """The same whole numbers in 16 bits, where they fit: most counts are small, and there are very many of them."""
    fit = numbers.dtype != np.uint16 and int(numbers.max(initial=0)) <= np.iinfo(np.uint16).max
    return numbers.astype(np.uint16) if fit else numbers


# How a table of n-grams is laid out: numbers that those who only open one want too, who need no compiled loops.


LINE_BACKOFF = 8  # numbers of 64 bits in a line of memory
LINE_MIDDLE, LINE_LONGEST = 4, 5  # n-grams in a line: those that may go on, and the longest
SPARE_LINES = 64  # lines behind all others, for n-grams whose own are full
