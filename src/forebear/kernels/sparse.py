"""Products of a sparse matrix with a dense one: loops that are compiled where there is much to do, and numpy's way.

A sparse matrix is its rows one after the other: row r has the entries indptr[r] to indptr[r + 1], each the number of a
column and a value. Both ways add in the same order, so they give the same bits, and which was taken cannot be told.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import COMPILE_THRESHOLD, compile_kernel


def sparse_product(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """(R, C) the sparse matrix times a dense one (F, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if len(indices) * dense.shape[1] < COMPILE_THRESHOLD:
        return product_in_numpy(indptr, indices, values, dense)
    return compile_kernel(product_in_loops)(indptr, indices, values, dense)


def sparse_transposed_product(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray, width: int
) -> np.ndarray:
    """(F, C) the sparse matrix of `width` columns, lying on its side, times a dense one (R, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if len(indices) * dense.shape[1] < COMPILE_THRESHOLD:
        return transposed_product_in_numpy(indptr, indices, values, dense, width)
    return compile_kernel(transposed_product_in_loops)(indptr, indices, values, dense, width)


def product_in_numpy(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    told = [np.bincount(rows, values * column[indices], len(indptr) - 1) for column in dense.T]
    return np.stack(told, axis=1) if told else np.zeros((len(indptr) - 1, 0))


def product_in_loops(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    told = np.zeros((len(indptr) - 1, dense.shape[1]))
    for row in range(len(told)):
        if dense.shape[1] == 1:  # the sum stays in a register
            total = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                total += np.float64(values[entry]) * dense[indices[entry], 0]
            told[row, 0] = total
            continue
        for entry in range(indptr[row], indptr[row + 1]):
            feature, value = indices[entry], np.float64(values[entry])
            for column in range(dense.shape[1]):
                told[row, column] += value * dense[feature, column]
    return told


def transposed_product_in_numpy(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray, width: int
) -> np.ndarray:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    told = [np.bincount(indices, values * column[rows], width) for column in dense.T]
    return np.stack(told, axis=1) if told else np.zeros((width, 0))


def transposed_product_in_loops(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray, width: int
) -> np.ndarray:
    told = np.zeros((width, dense.shape[1]))
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            feature, value = indices[entry], np.float64(values[entry])
            for column in range(dense.shape[1]):
                told[feature, column] += value * dense[row, column]
    return told
