"""Tables of vectors as compiled loops want them: rows that begin with a line of the cache."""

from __future__ import annotations

import numpy as np

CACHE_LINE = 16  # numbers in a line of the cache


def aligned_table(rows: int, width: int) -> np.ndarray:
    """(rows, width rounded up to lines) zeros."""
    padded = -(-width // CACHE_LINE) * CACHE_LINE
    raw = np.empty(rows * padded + CACHE_LINE, np.float32)
    raw[:] = 0
    start = -raw.ctypes.data % (4 * CACHE_LINE) // 4
    return raw[start : start + rows * padded].reshape(rows, padded)
