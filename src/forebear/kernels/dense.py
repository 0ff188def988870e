"""Products of a tall matrix of single precision with a narrow one, summed in double: compiled loops, and numpy's way.

numpy would have to make the tall one exact first, which takes longer than the product.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import COMPILE_THRESHOLD, compile_kernel

FREELY = frozenset({"reassoc", "contract"})  # sums may be taken eight at a time


def dense_product(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """(R, C) `values` (R, F) float32 times (F, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if values.size * dense.shape[1] < COMPILE_THRESHOLD:
        return values.astype(np.float64) @ dense
    return compile_kernel(product_in_loops, FREELY)(values, dense)


def dense_transposed_product(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """(F, C) `values` (R, F) float32, lying on its side, times (R, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if values.size * dense.shape[1] < COMPILE_THRESHOLD:
        return values.astype(np.float64).T @ dense
    return compile_kernel(transposed_product_in_loops, FREELY)(values, dense)


def product_in_loops(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    told = np.zeros((values.shape[0], dense.shape[1]))
    side = np.ascontiguousarray(dense.T)
    for row in range(values.shape[0]):
        for column in range(dense.shape[1]):
            total = 0.0
            for feature in range(values.shape[1]):
                total += values[row, feature] * side[column, feature]
            told[row, column] = total
    return told


def transposed_product_in_loops(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    told = np.zeros((dense.shape[1], values.shape[1]))
    for row in range(values.shape[0]):
        for column in range(dense.shape[1]):
            factor = dense[row, column]
            for feature in range(values.shape[1]):
                told[column, feature] += values[row, feature] * factor
    return np.ascontiguousarray(told.T)
