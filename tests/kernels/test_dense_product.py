"""Products of tall dense matrices: kernels, compiled or not, are as exact as numpy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.kernels import matrix_product


@pytest.mark.parametrize(("rows", "features", "columns"), [(500, 40, 2), (3, 1, 1), (0, 5, 2), (7, 9, 0)])
def test_dense_products_equal_numpy_compiled_or_not(monkeypatch, rows: int, features: int, columns: int):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(rows, features)).astype(np.float32)
    right, left = rng.normal(size=(features, columns)), rng.normal(size=(rows, columns))
    exact = values.astype(np.float64)
    for threshold in (0, 1 << 60):  # always compiled, never compiled
        monkeypatch.setattr(matrix_product, "COMPILE_THRESHOLD", threshold)
        assert np.allclose(matrix_product.dense_product(values, right), exact @ right, rtol=1e-12, atol=1e-12)
        assert np.allclose(
            matrix_product.dense_transposed_product(values, left), exact.T @ left, rtol=1e-12, atol=1e-12
        )
    assert np.allclose(matrix_product.dense_product_kernel(values, right), exact @ right, rtol=1e-12, atol=1e-12)
    assert np.allclose(
        matrix_product.dense_transposed_product_kernel(values, left), exact.T @ left, rtol=1e-12, atol=1e-12
    )
