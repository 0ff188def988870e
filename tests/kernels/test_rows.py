"""Vectors of the processor: each instruction on rows of a table beside a line of numpy; tables, and chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from forebear.kernels import simd
from forebear.kernels.layout import CACHE_LINE, aligned_table

SKIP, BEGIN, MANY, KINDS = 2, 1, 5, (0,) * 3
IDS = np.array([9, 4, 0, 7, 4, 2, 6], np.int32)
NAMED = IDS[[1, 2, 4, 5, 6]]  # from BEGIN on, without the one at SKIP
TARGETS = np.array([8, 3, 1, 3], np.int32)  # the block begins at 1; row 3 twice


@njit
def run(name, inputs, outputs, numbers, signs, made, first, last, kinds):
    if name == 0:
        simd.average_rows(inputs, IDS, BEGIN, SKIP, MANY, made, 1, first, last)
    elif name == 1:
        simd.add_to_rows(inputs, IDS, BEGIN, SKIP, MANY, made, 1, first, last)
    elif name == 2:
        simd.score_rows(inputs, IDS, BEGIN, SKIP, MANY, outputs, TARGETS, 1, numbers, 4, kinds)
    elif name == 3:
        simd.sigmoid_gradients(numbers, 4, signs, 2, 20, np.float32(0.5))
    elif name == 4:
        simd.repeat_signs(numbers, 4, signs, 2, MANY, kinds)
    elif name < 7:
        simd.update_rows(
            inputs, IDS, BEGIN, SKIP, MANY, outputs, TARGETS, 1, numbers, 4, kinds, made, name == 6, first, last
        )


NAMES = {name: number for number, name in enumerate("averaged added scored weighed repeated changed fresh".split())}


@pytest.fixture(params=[3, 16, 100, 150])
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    rng = np.random.default_rng(request.param)
    made = {name: aligned_table(10, request.param) for name in ("inputs", "outputs", "made")}
    for one in made.values():
        one[:] = rng.normal(size=one.shape)
    return made | {"numbers": rng.normal(size=60).astype(np.float32) * 3, "signs": rng.choice([-1, 0, 1], 60) * 1.0}


def after(name: str, values: dict[str, Any], first: int = 0, last: int | None = None) -> dict[str, np.ndarray]:
    copies = {key: value.astype(np.float32) for key, value in values.items()}
    for key in ("inputs", "outputs", "made"):
        copies[key] = aligned_table(*values[key].shape)
        copies[key][:] = values[key]
    width = copies["inputs"].shape[1]
    given = (copies[key] for key in ("inputs", "outputs", "numbers", "signs", "made"))
    run(NAMES[name], *given, first, width if last is None else last, KINDS)
    return copies


def test_means_and_sums_of_rows(values: dict[str, Any]):
    inputs, made = values["inputs"], values["made"]
    assert np.allclose(after("averaged", values)["made"][1], inputs[NAMED].mean(0), atol=1e-6)
    grown = inputs.copy()
    np.add.at(grown, NAMED, made[1])
    assert np.allclose(after("added", values)["inputs"], grown, atol=1e-6)


def test_products(values: dict[str, Any]):
    told = after("scored", values)["numbers"]
    wanted = values["inputs"][NAMED] @ values["outputs"][TARGETS[1:]].T
    assert np.allclose(told[4 : 4 + wanted.size], wanted.ravel(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(told[:4], values["numbers"][:4])


def test_pulls(values: dict[str, Any]):
    sign, score = values["signs"][2:22], values["numbers"][4:24]
    told = after("weighed", values)["numbers"]
    assert np.allclose(told[4:24], 0.5 * sign / (1 + np.exp(sign * score)), rtol=1e-5, atol=1e-7)
    tile = after("repeated", values)["numbers"]
    assert np.array_equal(tile[4:19], np.tile(values["signs"][2:5], MANY))


@pytest.mark.parametrize("fresh", [False, True])
def test_changes(values: dict[str, Any], fresh: bool):
    told = after("fresh" if fresh else "changed", values)
    pulls = values["numbers"][4 : 4 + MANY * len(KINDS)].reshape(MANY, len(KINDS))
    inputs, outputs, made = values["inputs"], values["outputs"].copy(), values["made"].copy()
    pulled = pulls @ outputs[TARGETS[1:]]
    np.add.at(outputs, TARGETS[1:], pulls.T @ inputs[NAMED])
    if fresh:
        for row, pull in zip(NAMED, pulled, strict=True):
            made[row] = pull
    else:
        np.add.at(made, NAMED, pulled)
    assert np.allclose(told["outputs"], outputs, atol=1e-4)
    assert np.allclose(told["made"], made, atol=1e-4)
    assert np.array_equal(told["inputs"], inputs)


@pytest.mark.parametrize("name", ["averaged", "added", "changed"])
def test_columns_one_by_one_give_the_same_bits(values: dict[str, Any], name: str):
    whole = after(name, values)
    parts = {key: value.copy() for key, value in values.items()}
    for first in range(0, values["inputs"].shape[1], CACHE_LINE):
        parts = after(name, parts, first, first + CACHE_LINE)
    for key in ("inputs", "outputs", "made"):
        assert np.array_equal(whole[key], parts[key])


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32) | st.just(float("nan")) | st.just(float("inf")), min_size=1))
@settings(max_examples=50, deadline=None)
def test_what_is_no_number_stays_none(scores: list[float]):
    scores = (scores * 20)[:20]
    numbers, signs = np.zeros(60, np.float32), np.ones(60, np.float32)
    numbers[4:24] = scores
    empty = aligned_table(10, 1)
    run(NAMES["weighed"], empty, empty, numbers, signs, empty, 0, 16, KINDS)
    with np.errstate(over="ignore"):
        wanted = 0.5 / (1 + np.exp(np.array(scores)))
    assert np.allclose(numbers[4:24], wanted, rtol=1e-5, atol=1e-8, equal_nan=True)


@pytest.mark.parametrize(("many", "width"), [(0, 5), (1, 1), (3, 16), (1000, 300)])
def test_rows_of_tables_begin_with_a_line(many: int, width: int):
    made = aligned_table(many, width)
    assert made.shape == (many, -(-width // CACHE_LINE) * CACHE_LINE)
    assert not many or made.ctypes.data % (4 * CACHE_LINE) == 0
    assert not made.any()
