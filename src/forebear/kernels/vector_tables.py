"""Tables of float32 vectors whose rows begin at cache lines; shared by kernels and by callers without numba."""

from __future__ import annotations

import numpy as np

CACHE_LINE = 16  # float32 values in a cache line


def aligned_table(num_rows: int, width: int) -> np.ndarray:
    """Zeros (num_rows, width rounded up to cache lines) whose rows begin at cache lines."""
    padded = -(-width // CACHE_LINE) * CACHE_LINE
    raw = np.empty(num_rows * padded + CACHE_LINE, np.float32)
    raw[:] = 0
    start = -raw.ctypes.data % (4 * CACHE_LINE) // 4
    return raw[start : start + num_rows * padded].reshape(num_rows, padded)


# --- GloVe ---
# A row per word: its vector, AdaGrad's sum of squared steps for each of its values, the bias, the bias's own sum, and
# padding up to the end of a cache line.

GLOVE_LANES, MAX_REMAINDER = 32, 8  # values processed at once; maximum processed one by one


def padded_width(width: int) -> int:
    """The padded size of a vector (the padding stays 0). Padding 50 to 64 takes half the time."""
    return width if width % GLOVE_LANES <= MAX_REMAINDER else -(-width // GLOVE_LANES) * GLOVE_LANES


def glove_table(num_words: int, width: int) -> np.ndarray:
    """(num_words, …) for vectors of this width: zeros, except for the sums of squares, which start at 1."""
    table = aligned_table(num_words, 2 * width + 2)
    table[:, width : 2 * width] = table[:, 2 * width + 1] = 1
    return table
