"""Sparse products: loops, compiled loops and numpy's way give the same bits, and what scipy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from forebear.kernels import matrix_product

scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")


def made(rows: int, width: int, most: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, most + 1, rows))))
    many = int(indptr[-1])
    return indptr, rng.integers(0, width, many).astype(np.int32), rng.normal(size=many).astype(np.float32)


@pytest.mark.parametrize("columns", [1, 3])
def test_both_ways_give_the_same_bits_and_scipys_numbers(monkeypatch, columns: int):
    indptr, indices, values = made(500, 200, 30)
    rng = np.random.default_rng(1)
    right, left = rng.normal(size=(200, columns)), rng.normal(size=(500, columns))
    there = scipy_sparse.csr_matrix((values.astype(np.float64), indices, indptr), shape=(500, 200))
    told = []
    for much in (0, 1 << 60):  # always compiled, never compiled
        monkeypatch.setattr(matrix_product, "COMPILE_THRESHOLD", much)
        told.append(matrix_product.sparse_product(indptr, indices, values, right))
        told.append(matrix_product.sparse_transposed_product(indptr, indices, values, left, 200))
    assert np.array_equal(told[0], told[2])
    assert np.array_equal(told[1], told[3])
    assert np.allclose(told[0], there @ right, rtol=1e-12)
    assert np.allclose(told[1], there.T @ left, rtol=1e-12)


@given(
    rows=st.integers(0, 6),
    width=st.integers(1, 5),
    most=st.integers(0, 4),
    seed=st.integers(0, 99),
    columns=st.integers(0, 3),
    data=st.data(),
)
def test_loops_are_what_numpy_does(rows, width, most, seed, columns, data):
    indptr, indices, values = made(rows, width, most, seed)
    numbers = st.floats(-1e6, 1e6)
    right = data.draw(arrays.arrays(np.float64, (width, columns), elements=numbers))
    left = data.draw(arrays.arrays(np.float64, (rows, columns), elements=numbers))
    assert np.array_equal(
        matrix_product.sparse_product_kernel(indptr, indices, values, right),
        matrix_product.sparse_product_reference(indptr, indices, values, right),
    )
    assert np.array_equal(
        matrix_product.sparse_transposed_product_kernel(indptr, indices, values, left, width),
        matrix_product.sparse_transposed_product_reference(indptr, indices, values, left, width),
    )


def test_a_small_product_does_not_load_numba(monkeypatch):
    def never(*loops: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(matrix_product, "compile_kernel", never)
    indptr, indices, values = made(5, 4, 3)
    assert matrix_product.sparse_product(indptr, indices, values, np.ones((4, 2))).shape == (5, 2)
    monkeypatch.setattr(matrix_product, "COMPILE_THRESHOLD", 0)
    with pytest.raises(AssertionError, match="compiled"):
        matrix_product.sparse_product(indptr, indices, values, np.ones((4, 2)))
