"""Feature matrices of every kind have the same products as the dense matrix of the same values."""

from __future__ import annotations

import numpy as np

from forebear.statistical.feature_matrix import (
    ColumnStack,
    DenseMatrix,
    RowRepeat,
    SparseMatrix,
    stack_repeated_rows,
    stack_rows,
)


def dense_matrix(matrix: SparseMatrix) -> np.ndarray:
    dense = np.zeros(matrix.shape)
    for row in range(len(dense)):
        for column, value in zip(*matrix.get_row(row), strict=True):
            dense[row, column] += value
    return dense


def random_sparse(rng: np.random.Generator, rows: int, width: int) -> SparseMatrix:
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 4, rows))))
    num_values = int(indptr[-1])
    return SparseMatrix(
        indptr,
        rng.integers(0, width, num_values).astype(np.int32),
        rng.normal(size=num_values).astype(np.float32),
        width,
    )


def test_column_stack_and_row_repeat_equal_the_dense_matrix():
    rng = np.random.default_rng(3)
    left, repeated_rows, dense_part = (
        random_sparse(rng, 20, 6),
        random_sparse(rng, 4, 5),
        rng.normal(size=(20, 3)).astype(np.float32),
    )
    row_ids = rng.integers(0, 4, 20)
    matrix = ColumnStack((left, DenseMatrix(dense_part), RowRepeat(repeated_rows, row_ids)))
    expected = np.concatenate(
        [dense_matrix(left), dense_part.astype(np.float64), dense_matrix(repeated_rows)[row_ids]], axis=1
    )
    right, transposed_right = rng.normal(size=(14, 2)), rng.normal(size=(20, 2))
    assert matrix.shape == expected.shape
    assert np.allclose(matrix.multiply(right), expected @ right)
    assert np.allclose(matrix.transposed_multiply(transposed_right), expected.T @ transposed_right)
    assert np.allclose(
        ColumnStack((DenseMatrix(dense_part), RowRepeat(repeated_rows, row_ids))).column_square_sums()[:3],
        np.square(expected[:, 6:9]).sum(axis=0),
    )
    assert matrix.transposed_multiply(transposed_right[:, :0]).shape == (14, 0)
    columns, values = matrix.get_row(7)
    row = np.zeros(14)
    np.add.at(row, columns, values)
    assert np.allclose(row, expected[7])


def test_column_square_sums_of_repeated_rows_equal_the_dense_ones():
    rng = np.random.default_rng(4)
    rows = SparseMatrix(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), rng.normal(size=3).astype(np.float32), 3)
    row_ids = np.array([1, 0, 0, 1, 1])
    assert np.allclose(
        RowRepeat(rows, row_ids).column_square_sums(), np.square(dense_matrix(rows)[row_ids]).sum(axis=0)
    )


def test_stacked_rows_equal_the_concatenation():
    rng = np.random.default_rng(5)
    parts = [
        RowRepeat(random_sparse(rng, 3, 5), rng.integers(0, 3, 7)),
        RowRepeat(random_sparse(rng, 2, 5), rng.integers(0, 2, 4)),
    ]
    stacked = stack_repeated_rows(parts, 5)
    right = rng.normal(size=(5, 2))
    assert np.allclose(stacked.multiply(right), np.concatenate([part.multiply(right) for part in parts]))
    assert stack_repeated_rows([], 5).shape == (0, 5)
    assert stack_rows([], 5).shape == (0, 5)
