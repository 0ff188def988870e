"""Tables of vectors as compiled loops want them: rows that begin with a line of the cache."""

from __future__ import annotations

import numpy as np

LINE = 16  # numbers in a line of the cache


def table(rows: int, width: int) -> np.ndarray:
    """(rows, width rounded up to lines) zeros."""
    padded = -(-width // LINE) * LINE
    raw = np.empty(rows * padded + LINE, np.float32)
    raw[:] = 0
    start = -raw.ctypes.data % (4 * LINE) // 4
    return raw[start : start + rows * padded].reshape(rows, padded)
