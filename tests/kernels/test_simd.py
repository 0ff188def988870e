"""SIMD intrinsics on rows of a table against numpy, and aligned tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from forebear.kernels import simd
from forebear.kernels.vector_tables import CACHE_LINE, aligned_table

SKIP, BEGIN, COUNT, KINDS = 2, 1, 5, (0,) * 3
IDS = np.array([9, 4, 0, 7, 4, 2, 6], np.int32)
USED_IDS = IDS[[1, 2, 4, 5, 6]]  # from BEGIN, without the one at SKIP
TARGETS = np.array([8, 3, 1, 3], np.int32)  # the block begins at 1; row 3 twice


@njit
def run_operation(name, inputs, outputs, numbers, signs, results, first, last, kinds):
    if name == 0:
        simd.average_rows(inputs, IDS, BEGIN, SKIP, COUNT, results, 1, first, last)
    elif name == 1:
        simd.add_to_rows(inputs, IDS, BEGIN, SKIP, COUNT, results, 1, first, last)
    elif name == 2:
        simd.score_rows(inputs, IDS, BEGIN, SKIP, COUNT, outputs, TARGETS, 1, numbers, 4, kinds)
    elif name == 3:
        simd.sigmoid_gradients(numbers, 4, signs, 2, 20, np.float32(0.5))
    elif name == 4:
        simd.repeat_signs(numbers, 4, signs, 2, COUNT, kinds)
    elif name < 7:
        simd.update_rows(
            inputs, IDS, BEGIN, SKIP, COUNT, outputs, TARGETS, 1, numbers, 4, kinds, results, name == 6, first, last
        )


OPERATIONS = {
    "average_rows": 0, "add_to_rows": 1, "score_rows": 2, "sigmoid_gradients": 3, "repeat_signs": 4, "update_rows": 5,
    "replace_rows": 6,
}  # fmt: skip


@pytest.fixture(params=[3, 16, 100, 150])
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    rng = np.random.default_rng(request.param)
    tables = {name: aligned_table(10, request.param) for name in ("inputs", "outputs", "results")}
    for table in tables.values():
        table[:] = rng.normal(size=table.shape)
    return tables | {"numbers": rng.normal(size=60).astype(np.float32) * 3, "signs": rng.choice([-1, 0, 1], 60) * 1.0}


def values_after(name: str, values: dict[str, Any], first: int = 0, last: int | None = None) -> dict[str, np.ndarray]:
    copies = {key: value.astype(np.float32) for key, value in values.items()}
    for key in ("inputs", "outputs", "results"):
        copies[key] = aligned_table(*values[key].shape)
        copies[key][:] = values[key]
    width = copies["inputs"].shape[1]
    arguments = (copies[key] for key in ("inputs", "outputs", "numbers", "signs", "results"))
    run_operation(OPERATIONS[name], *arguments, first, width if last is None else last, KINDS)
    return copies


def test_average_rows_and_add_to_rows_equal_numpy(values: dict[str, Any]):
    inputs, results = values["inputs"], values["results"]
    assert np.allclose(values_after("average_rows", values)["results"][1], inputs[USED_IDS].mean(0), atol=1e-6)
    expected = inputs.copy()
    np.add.at(expected, USED_IDS, results[1])
    assert np.allclose(values_after("add_to_rows", values)["inputs"], expected, atol=1e-6)


def test_score_rows_equals_numpys_matrix_product(values: dict[str, Any]):
    scores = values_after("score_rows", values)["numbers"]
    expected = values["inputs"][USED_IDS] @ values["outputs"][TARGETS[1:]].T
    assert np.allclose(scores[4 : 4 + expected.size], expected.ravel(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(scores[:4], values["numbers"][:4])


def test_sigmoid_gradients_and_repeated_signs_equal_numpy(values: dict[str, Any]):
    sign, score = values["signs"][2:22], values["numbers"][4:24]
    gradients = values_after("sigmoid_gradients", values)["numbers"]
    assert np.allclose(gradients[4:24], 0.5 * sign / (1 + np.exp(sign * score)), rtol=1e-5, atol=1e-7)
    tile = values_after("repeat_signs", values)["numbers"]
    assert np.array_equal(tile[4:19], np.tile(values["signs"][2:5], COUNT))


@pytest.mark.parametrize("fresh", [False, True])
def test_update_rows_equals_numpy(values: dict[str, Any], fresh: bool):
    updated = values_after("replace_rows" if fresh else "update_rows", values)
    gradients = values["numbers"][4 : 4 + COUNT * len(KINDS)].reshape(COUNT, len(KINDS))
    inputs, outputs, results = values["inputs"], values["outputs"].copy(), values["results"].copy()
    changes = gradients @ outputs[TARGETS[1:]]
    np.add.at(outputs, TARGETS[1:], gradients.T @ inputs[USED_IDS])
    if fresh:
        for row, change in zip(USED_IDS, changes, strict=True):
            results[row] = change
    else:
        np.add.at(results, USED_IDS, changes)
    assert np.allclose(updated["outputs"], outputs, atol=1e-4)
    assert np.allclose(updated["results"], results, atol=1e-4)
    assert np.array_equal(updated["inputs"], inputs)


@pytest.mark.parametrize("name", ["average_rows", "add_to_rows", "update_rows"])
def test_columns_in_blocks_give_bit_identical_results(values: dict[str, Any], name: str):
    expected = values_after(name, values)
    partial = {key: value.copy() for key, value in values.items()}
    for first in range(0, values["inputs"].shape[1], CACHE_LINE):
        partial = values_after(name, partial, first, first + CACHE_LINE)
    for key in ("inputs", "outputs", "results"):
        assert np.array_equal(expected[key], partial[key])


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32) | st.just(float("nan")) | st.just(float("inf")), min_size=1))
@settings(max_examples=50, deadline=None)
def test_sigmoid_gradients_of_nan_and_infinity_equal_numpys(scores: list[float]):
    scores = (scores * 20)[:20]
    numbers, signs = np.zeros(60, np.float32), np.ones(60, np.float32)
    numbers[4:24] = scores
    empty = aligned_table(10, 1)
    run_operation(OPERATIONS["sigmoid_gradients"], empty, empty, numbers, signs, empty, 0, 16, KINDS)
    with np.errstate(over="ignore"):
        expected = 0.5 / (1 + np.exp(np.array(scores)))
    assert np.allclose(numbers[4:24], expected, rtol=1e-5, atol=1e-8, equal_nan=True)


@pytest.mark.parametrize(("num_rows", "width"), [(0, 5), (1, 1), (3, 16), (1000, 300)])
def test_aligned_table_is_zero_and_aligned_to_cache_lines(num_rows: int, width: int):
    table = aligned_table(num_rows, width)
    assert table.shape == (num_rows, -(-width // CACHE_LINE) * CACHE_LINE)
    assert not num_rows or table.ctypes.data % (4 * CACHE_LINE) == 0
    assert not table.any()
