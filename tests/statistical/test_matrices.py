"""Matrices of features: whatever they are made of, their products are those of the same numbers written out."""

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


def written_out(matrix: SparseMatrix) -> np.ndarray:
    told = np.zeros(matrix.shape)
    for number in range(len(told)):
        for column, value in zip(*matrix.get_row(number), strict=True):
            told[number, column] += value
    return told


def some(rng: np.random.Generator, rows: int, width: int) -> SparseMatrix:
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 4, rows))))
    many = int(indptr[-1])
    return SparseMatrix(
        indptr, rng.integers(0, width, many).astype(np.int32), rng.normal(size=many).astype(np.float32), width
    )


def test_side_by_side_and_repeated():
    rng = np.random.default_rng(3)
    left, few, figures = some(rng, 20, 6), some(rng, 4, 5), rng.normal(size=(20, 3)).astype(np.float32)
    which = rng.integers(0, 4, 20)
    matrix = ColumnStack((left, DenseMatrix(figures), RowRepeat(few, which)))
    exact = np.concatenate([written_out(left), figures.astype(np.float64), written_out(few)[which]], axis=1)
    right, turned = rng.normal(size=(14, 2)), rng.normal(size=(20, 2))
    assert matrix.shape == exact.shape
    assert np.allclose(matrix.multiply(right), exact @ right)
    assert np.allclose(matrix.transposed_multiply(turned), exact.T @ turned)
    assert np.allclose(
        ColumnStack((DenseMatrix(figures), RowRepeat(few, which))).column_square_sums()[:3],
        np.square(exact[:, 6:9]).sum(axis=0),
    )
    assert matrix.transposed_multiply(turned[:, :0]).shape == (14, 0)
    columns, values = matrix.get_row(7)
    row = np.zeros(14)
    np.add.at(row, columns, values)
    assert np.allclose(row, exact[7])


def test_squares_say_how_much_a_column_bends_the_loss():
    rng = np.random.default_rng(4)
    few = SparseMatrix(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), rng.normal(size=3).astype(np.float32), 3)
    which = np.array([1, 0, 0, 1, 1])
    assert np.allclose(RowRepeat(few, which).column_square_sums(), np.square(written_out(few)[which]).sum(axis=0))


def test_joined_rows_follow_each_other():
    rng = np.random.default_rng(5)
    parts = [RowRepeat(some(rng, 3, 5), rng.integers(0, 3, 7)), RowRepeat(some(rng, 2, 5), rng.integers(0, 2, 4))]
    whole = stack_repeated_rows(parts, 5)
    right = rng.normal(size=(5, 2))
    assert np.allclose(whole.multiply(right), np.concatenate([part.multiply(right) for part in parts]))
    assert stack_repeated_rows([], 5).shape == (0, 5)
    assert stack_rows([], 5).shape == (0, 5)
