"""How GloVe's loops want the numbers of a word to lie in memory.

A table has a row for each word: its vector, the sum of squared steps that AdaGrad keeps for each number of it, the
bias, and the bias's own sum; and then nothing until a line of the cache is full.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels import tables

ABREAST, FEW = 32, 8  # numbers that loops take at once; how many more they may take one by one


def padded_width(width: int) -> int:
    """How many numbers a vector of so many is given; what is added is 0, and stays so. 50 in 64 take half the time."""
    return width if width % ABREAST <= FEW else -(-width // ABREAST) * ABREAST


def glove_table(words: int, width: int) -> np.ndarray:
    """(words, …) for vectors of this width: zeros but for the sums of squares, which begin with 1."""
    made = tables.aligned_table(words, 2 * width + 2)
    made[:, width : 2 * width] = made[:, 2 * width + 1] = 1
    return made
