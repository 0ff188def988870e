"""Whole numbers in as little room as they need, for those too who need no compiled loops."""

from __future__ import annotations

import numpy as np


def compact(numbers: np.ndarray) -> np.ndarray:
    """The same whole numbers in 16 bits, where they fit: most counts are small, and there are very many of them."""
    fit = numbers.dtype != np.uint16 and int(numbers.max(initial=0)) <= np.iinfo(np.uint16).max
    return numbers.astype(np.uint16) if fit else numbers
