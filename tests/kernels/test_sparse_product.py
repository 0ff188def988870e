"""Sparse products: kernels and the numpy reference are bit-identical and equal scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from forebear.kernels import matrix_product

scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")


def random_csr(rows: int, width: int, max_entries: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, max_entries + 1, rows))))
    num_entries = int(indptr[-1])
    return indptr, rng.integers(0, width, num_entries).astype(np.int32), rng.normal(size=num_entries).astype(np.float32)


@pytest.mark.parametrize("columns", [1, 3])
def test_sparse_products_are_bit_identical_compiled_or_not_and_equal_scipys(monkeypatch, columns: int):
    indptr, indices, values = random_csr(500, 200, 30)
    rng = np.random.default_rng(1)
    right, left = rng.normal(size=(200, columns)), rng.normal(size=(500, columns))
    scipy_matrix = scipy_sparse.csr_matrix((values.astype(np.float64), indices, indptr), shape=(500, 200))
    products = []
    for threshold in (0, 1 << 60):  # always compiled, never compiled
        monkeypatch.setattr(matrix_product, "COMPILE_THRESHOLD", threshold)
        products.append(matrix_product.sparse_product(indptr, indices, values, right))
        products.append(matrix_product.sparse_transposed_product(indptr, indices, values, left, 200))
    assert np.array_equal(products[0], products[2])
    assert np.array_equal(products[1], products[3])
    assert np.allclose(products[0], scipy_matrix @ right, rtol=1e-12)
    assert np.allclose(products[1], scipy_matrix.T @ left, rtol=1e-12)


@given(
    rows=st.integers(0, 6),
    width=st.integers(1, 5),
    max_entries=st.integers(0, 4),
    seed=st.integers(0, 99),
    columns=st.integers(0, 3),
    data=st.data(),
)
def test_sparse_kernels_equal_the_numpy_reference(rows, width, max_entries, seed, columns, data):
    indptr, indices, values = random_csr(rows, width, max_entries, seed)
    finite_floats = st.floats(-1e6, 1e6)
    right = data.draw(arrays.arrays(np.float64, (width, columns), elements=finite_floats))
    left = data.draw(arrays.arrays(np.float64, (rows, columns), elements=finite_floats))
    assert np.array_equal(
        matrix_product.sparse_product_kernel(indptr, indices, values, right),
        matrix_product.sparse_product_reference(indptr, indices, values, right),
    )
    assert np.array_equal(
        matrix_product.sparse_transposed_product_kernel(indptr, indices, values, left, width),
        matrix_product.sparse_transposed_product_reference(indptr, indices, values, left, width),
    )


def test_small_sparse_product_does_not_load_numba(monkeypatch):
    def fail(*loops: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(matrix_product, "compile_kernel", fail)
    indptr, indices, values = random_csr(5, 4, 3)
    assert matrix_product.sparse_product(indptr, indices, values, np.ones((4, 2))).shape == (5, 2)
    monkeypatch.setattr(matrix_product, "COMPILE_THRESHOLD", 0)
    with pytest.raises(AssertionError, match="compiled"):
        matrix_product.sparse_product(indptr, indices, values, np.ones((4, 2)))
