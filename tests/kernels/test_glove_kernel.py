"""GloVe's sweep: a case worked by hand, its gradient against differences, and compiled loops against numpy's way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import glove as kernels
from forebear.kernels import layout

BLOCKS = kernels.ROW_GROUPS**2


def tables(words: int, width: int, seed: int = 0, kind: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = [layout.glove_table(words, width).astype(kind) for _ in "wc"]
    for table in made:
        table[:, :width] = rng.normal(size=(words, width)) / np.sqrt(width)
        table[:, width : 2 * width] += rng.random((words, width))
        table[:, 2 * width] = rng.normal(size=words)
        table[:, 2 * width + 1] += rng.random(words)
    return made


def entries(words: int, many: int, seed: int = 0, kind: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, columns = ((words * rng.random(many) ** 3).astype(np.int32) for _ in "rc")
    return [rows, columns, rng.normal(size=many).astype(kind), rng.random(many).astype(kind)]


def lost(moments: tuple[float, ...]) -> float:
    """Σ ½ f (p - l)²."""
    return 0.5 * (moments[3] - 2 * moments[4] + moments[5])


def test_one_entry_worked_by_hand():
    # vector 2, its sum of squares 4, bias 1, its sum 9; context 3, 1, bias -1, 1; log 5, weight 1/2, rate 1/10
    words, contexts = np.array([[2.0, 4.0, 1.0, 9.0]]), np.array([[3.0, 1.0, -1.0, 1.0]])
    entry = np.array([0]), np.array([0]), np.array([0]), np.array([5.0]), np.array([0.5])
    assert kernels.sweep_reference(*entry, words, contexts, 1, 0.1) == pytest.approx(0.25)  # ½ · ½ · (6 + 1 - 1 - 5)²
    step = 0.05  # rate · weight · error
    assert words[0] == pytest.approx([2 - 3 * step / 2, 4 + (3 * step) ** 2, 1 - step / 3, 9 + step**2])
    assert contexts[0] == pytest.approx([3 - 2 * step, 1 + (2 * step) ** 2, -1 - step, 1 + step**2])


def test_the_step_is_the_gradient_of_the_loss():
    here, entry = tables(1, 3), entries(1, 1)
    moved = [table.copy() for table in here]
    kernels.sweep_reference(np.array([0]), *entry, *moved, 3, 1e-3)
    for side in range(2):
        for place, square in ((0, 3), (1, 4), (2, 5), (6, 7)):  # the vector, the bias
            losses = []
            for nudge in (1e-6, -1e-6):
                nudged = [table.copy() for table in here]
                nudged[side][0, place] += nudge
                losses.append(kernels.sweep_reference(np.array([0]), *entry, *nudged, 3, 0.0))
            slope = (losses[0] - losses[1]) / 2e-6
            change = moved[side][0, place] - here[side][0, place]
            assert change == pytest.approx(-1e-3 * slope / np.sqrt(here[side][0, square]), rel=1e-5)


@pytest.mark.parametrize("width", [1, 7, 8, 100])
def test_compiled_loops_do_what_numpy_does(width: int):
    exact, single = tables(5, width), [np.ascontiguousarray(table, np.float32) for table in tables(5, width)]
    given_exactly, narrow = entries(5, 400), entries(5, 400, kind=np.float32)
    before = kernels.batch_moments_reference(*given_exactly, *exact, width)
    assert kernels.batch_moments(*narrow, *single, width) == pytest.approx(before, rel=1e-4, abs=1e-4)
    order, starts = kernels.group_blocks(*narrow[:2], 5)
    total = kernels.sweep_reference(order, *given_exactly, *exact, width, 0.05)
    told = np.zeros(BLOCKS)
    kernels.glove_sweeper(width)(order, starts, np.arange(BLOCKS), *narrow, *single, 0.05, told)
    assert told.sum() == pytest.approx(total, rel=1e-4)
    for mine, right in zip(single, exact, strict=True):
        assert np.allclose(mine, right, atol=2e-4, rtol=2e-4)
    assert lost(kernels.batch_moments_reference(*given_exactly, *exact, width)) < 0.7 * lost(before)


@given(words=st.integers(1, 40), many=st.integers(0, 300), seed=st.integers(0, 99))
def test_blocks_of_a_turn_share_no_word(words: int, many: int, seed: int):
    rows, columns = entries(words, many, seed)[:2]
    order, starts = kernels.group_blocks(rows, columns, words)
    right = kernels.group_blocks_reference(rows, columns, words)
    assert np.array_equal(order, right[0])
    assert np.array_equal(starts, right[1])
    assert np.array_equal(np.sort(order), np.arange(many)), "every entry once"
    for turn in range(kernels.ROW_GROUPS):
        mine = [
            order[starts[b] : starts[b + 1]] for b in range(turn * kernels.ROW_GROUPS, (turn + 1) * kernels.ROW_GROUPS)
        ]
        for ids in (rows, columns):
            assert sum(len(set(ids[block].tolist())) for block in mine) == len(set(ids[np.concatenate(mine)].tolist()))
        assert all((np.diff(block) > 0).all() for block in mine), "inside, they keep their order"


def test_blocks_are_about_equally_large():
    rows, columns = entries(5000, 100_000)[:2]
    _, starts = kernels.group_blocks(rows, columns, 5000)
    sizes = np.diff(starts).reshape(kernels.ROW_GROUPS, kernels.ROW_GROUPS)
    assert sizes.sum(axis=0).max() < 1.3 * 100_000 / kernels.ROW_GROUPS


def test_rows_begin_with_a_line_of_the_cache():
    table = layout.glove_table(3, 5)
    assert table.ctypes.data % 64 == 0
    assert table.strides[0] % 64 == 0
    assert table[2].tolist() == [0] * 5 + [1] * 5 + [0, 1] + [0] * 4


def test_what_is_added_to_a_vector_stays_nothing():
    assert [layout.padded_width(width) for width in (1, 8, 9, 32, 50, 100, 300)] == [1, 8, 32, 32, 64, 100, 320]
    single = [np.ascontiguousarray(table, np.float32) for table in tables(5, 32)]
    for table in single:
        table[:, 20:32], table[:, 52:64] = 0, 1
    narrow = entries(5, 400, kind=np.float32)
    order, starts = kernels.group_blocks(*narrow[:2], 5)
    kernels.glove_sweeper(32)(order, starts, np.arange(BLOCKS), *narrow, *single, 0.05, np.zeros(BLOCKS))
    for table in single:
        assert not table[:, 20:32].any()
        assert (table[:, 52:64] == 1).all()
