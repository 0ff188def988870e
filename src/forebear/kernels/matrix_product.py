"""Products of feature matrices (sparse rows, or dense float32) with dense float64 matrices.

Large products are compiled, small ones use numpy.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import COMPILE_THRESHOLD, compile_kernel

SUM_IN_ANY_ORDER = frozenset({"reassoc", "contract"})  # sums may be taken eight at a time

# --- Sparse matrices ---
# Row r has the entries indptr[r] to indptr[r + 1], each a column and a value. Kernels and references add in the same
# order, so they give the same bits.


def sparse_product(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """(R, C) the sparse matrix times a dense one (F, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if len(indices) * dense.shape[1] < COMPILE_THRESHOLD:
        return sparse_product_reference(indptr, indices, values, dense)
    return compile_kernel(sparse_product_kernel)(indptr, indices, values, dense)


def sparse_transposed_product(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray, width: int
) -> np.ndarray:
    """(F, C) the transposed sparse matrix, which has `width` columns, times a dense one (R, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if len(indices) * dense.shape[1] < COMPILE_THRESHOLD:
        return sparse_transposed_product_reference(indptr, indices, values, dense, width)
    return compile_kernel(sparse_transposed_product_kernel)(indptr, indices, values, dense, width)


def sparse_product_reference(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray
) -> np.ndarray:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    product = [np.bincount(rows, values * column[indices], len(indptr) - 1) for column in dense.T]
    return np.stack(product, axis=1) if product else np.zeros((len(indptr) - 1, 0))


def sparse_product_kernel(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    product = np.zeros((len(indptr) - 1, dense.shape[1]))
    for row in range(len(product)):
        if dense.shape[1] == 1:  # the sum stays in a register
            total = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                total += np.float64(values[entry]) * dense[indices[entry], 0]
            product[row, 0] = total
            continue
        for entry in range(indptr[row], indptr[row + 1]):
            feature, value = indices[entry], np.float64(values[entry])
            for column in range(dense.shape[1]):
                product[row, column] += value * dense[feature, column]
    return product


def sparse_transposed_product_reference(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray, width: int
) -> np.ndarray:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    product = [np.bincount(indices, values * column[rows], width) for column in dense.T]
    return np.stack(product, axis=1) if product else np.zeros((width, 0))


def sparse_transposed_product_kernel(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray, width: int
) -> np.ndarray:
    product = np.zeros((width, dense.shape[1]))
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            feature, value = indices[entry], np.float64(values[entry])
            for column in range(dense.shape[1]):
                product[feature, column] += value * dense[row, column]
    return product


# --- Dense matrices ---
# Tall float32 matrices times narrow ones, summed in float64. numpy would convert the tall matrix first, which takes
# longer than the product.


def dense_product(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """(R, C) `values` (R, F) float32 times `dense` (F, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if values.size * dense.shape[1] < COMPILE_THRESHOLD:
        return values.astype(np.float64) @ dense
    return compile_kernel(dense_product_kernel, SUM_IN_ANY_ORDER)(values, dense)


def dense_transposed_product(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """(F, C) the transpose of `values` (R, F) float32 times `dense` (R, C)."""
    dense = np.ascontiguousarray(dense, np.float64)
    if values.size * dense.shape[1] < COMPILE_THRESHOLD:
        return values.astype(np.float64).T @ dense
    return compile_kernel(dense_transposed_product_kernel, SUM_IN_ANY_ORDER)(values, dense)


def dense_product_kernel(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    product = np.zeros((values.shape[0], dense.shape[1]))
    columns = np.ascontiguousarray(dense.T)
    for row in range(values.shape[0]):
        for column in range(dense.shape[1]):
            total = 0.0
            for feature in range(values.shape[1]):
                total += values[row, feature] * columns[column, feature]
            product[row, column] = total
    return product


def dense_transposed_product_kernel(values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    product = np.zeros((dense.shape[1], values.shape[1]))
    for row in range(values.shape[0]):
        for column in range(dense.shape[1]):
            factor = dense[row, column]
            for feature in range(values.shape[1]):
                product[column, feature] += values[row, feature] * factor
    return np.ascontiguousarray(product.T)
