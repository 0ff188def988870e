"""Matrices of features: whatever they are made of, their products are those of the same numbers written out."""

from __future__ import annotations

import numpy as np

from forebear.statistics.matrices import Beside, Dense, Repeated, Sparse, joined, joined_repeated


def written_out(matrix: Sparse) -> np.ndarray:
    told = np.zeros(matrix.shape)
    for number in range(len(told)):
        for column, value in zip(*matrix.row(number), strict=True):
            told[number, column] += value
    return told


def some(rng: np.random.Generator, rows: int, width: int) -> Sparse:
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 4, rows))))
    many = int(indptr[-1])
    return Sparse(
        indptr, rng.integers(0, width, many).astype(np.int32), rng.normal(size=many).astype(np.float32), width
    )


def test_side_by_side_and_repeated():
    rng = np.random.default_rng(3)
    left, few, figures = some(rng, 20, 6), some(rng, 4, 5), rng.normal(size=(20, 3)).astype(np.float32)
    which = rng.integers(0, 4, 20)
    matrix = Beside((left, Dense(figures), Repeated(few, which)))
    exact = np.concatenate([written_out(left), figures.astype(np.float64), written_out(few)[which]], axis=1)
    right, turned = rng.normal(size=(14, 2)), rng.normal(size=(20, 2))
    assert matrix.shape == exact.shape
    assert np.allclose(matrix.times(right), exact @ right)
    assert np.allclose(matrix.turned_times(turned), exact.T @ turned)
    assert np.allclose(
        Beside((Dense(figures), Repeated(few, which))).squares()[:3], np.square(exact[:, 6:9]).sum(axis=0)
    )
    assert matrix.turned_times(turned[:, :0]).shape == (14, 0)
    columns, values = matrix.row(7)
    row = np.zeros(14)
    np.add.at(row, columns, values)
    assert np.allclose(row, exact[7])


def test_squares_say_how_much_a_column_bends_the_loss():
    rng = np.random.default_rng(4)
    few = Sparse(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), rng.normal(size=3).astype(np.float32), 3)
    which = np.array([1, 0, 0, 1, 1])
    assert np.allclose(Repeated(few, which).squares(), np.square(written_out(few)[which]).sum(axis=0))


def test_joined_rows_follow_each_other():
    rng = np.random.default_rng(5)
    parts = [Repeated(some(rng, 3, 5), rng.integers(0, 3, 7)), Repeated(some(rng, 2, 5), rng.integers(0, 2, 4))]
    whole = joined_repeated(parts, 5)
    right = rng.normal(size=(5, 2))
    assert np.allclose(whole.times(right), np.concatenate([part.times(right) for part in parts]))
    assert joined_repeated([], 5).shape == (0, 5)
    assert joined([], 5).shape == (0, 5)
