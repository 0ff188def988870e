"""GloVe's kernel: a case by hand, its gradient against finite differences, and the compiled kernel against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import glove as kernels
from forebear.kernels import vector_tables

BLOCKS = kernels.ROW_GROUPS**2


def random_tables(words: int, width: int, seed: int = 0, kind: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    both_tables = [vector_tables.glove_table(words, width).astype(kind) for _ in "wc"]
    for table in both_tables:
        table[:, :width] = rng.normal(size=(words, width)) / np.sqrt(width)
        table[:, width : 2 * width] += rng.random((words, width))
        table[:, 2 * width] = rng.normal(size=words)
        table[:, 2 * width + 1] += rng.random(words)
    return both_tables


def random_entries(words: int, count: int, seed: int = 0, kind: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, columns = ((words * rng.random(count) ** 3).astype(np.int32) for _ in "rc")
    return [rows, columns, rng.normal(size=count).astype(kind), rng.random(count).astype(kind)]


def loss_of(moments: tuple[float, ...]) -> float:
    """Σ ½ f (p - l)²."""
    return 0.5 * (moments[3] - 2 * moments[4] + moments[5])


def test_glove_update_of_one_entry_by_hand():
    # vector 2, its sum of squares 4, bias 1, its sum 9; context 3, 1, bias -1, 1; log 5, weight 1/2, rate 1/10
    words, contexts = np.array([[2.0, 4.0, 1.0, 9.0]]), np.array([[3.0, 1.0, -1.0, 1.0]])
    entry = np.array([0]), np.array([0]), np.array([0]), np.array([5.0]), np.array([0.5])
    assert kernels.adagrad_pass_reference(*entry, words, contexts, 1, 0.1) == pytest.approx(
        0.25
    )  # ½ · ½ · (6 + 1 - 1 - 5)²
    step = 0.05  # rate · weight · error
    assert words[0] == pytest.approx([2 - 3 * step / 2, 4 + (3 * step) ** 2, 1 - step / 3, 9 + step**2])
    assert contexts[0] == pytest.approx([3 - 2 * step, 1 + (2 * step) ** 2, -1 - step, 1 + step**2])


def test_glove_step_is_the_adagrad_step_along_the_gradient_of_the_loss():
    before, entry = random_tables(1, 3), random_entries(1, 1)
    moved = [table.copy() for table in before]
    kernels.adagrad_pass_reference(np.array([0]), *entry, *moved, 3, 1e-3)
    for table_index in range(2):
        for column, squares_column in ((0, 3), (1, 4), (2, 5), (6, 7)):  # the vector, the bias
            losses = []
            for delta in (1e-6, -1e-6):
                nudged = [table.copy() for table in before]
                nudged[table_index][0, column] += delta
                losses.append(kernels.adagrad_pass_reference(np.array([0]), *entry, *nudged, 3, 0.0))
            slope = (losses[0] - losses[1]) / 2e-6
            change = moved[table_index][0, column] - before[table_index][0, column]
            assert change == pytest.approx(-1e-3 * slope / np.sqrt(before[table_index][0, squares_column]), rel=1e-5)


@pytest.mark.parametrize("width", [1, 7, 8, 100])
def test_glove_kernel_equals_the_numpy_reference(width: int):
    reference_tables, kernel_tables = (
        random_tables(5, width),
        [np.ascontiguousarray(table, np.float32) for table in random_tables(5, width)],
    )
    exact_entries, single_entries = random_entries(5, 400), random_entries(5, 400, kind=np.float32)
    before = kernels.batch_moments_reference(*exact_entries, *reference_tables, width)
    assert kernels.batch_moments(*single_entries, *kernel_tables, width) == pytest.approx(before, rel=1e-4, abs=1e-4)
    order, starts = kernels.group_blocks(*single_entries[:2], 5)
    total = kernels.adagrad_pass_reference(order, *exact_entries, *reference_tables, width, 0.05)
    block_losses = np.zeros(BLOCKS)
    kernels.compile_adagrad_pass(width)(
        order, starts, np.arange(BLOCKS), *single_entries, *kernel_tables, 0.05, block_losses
    )
    assert block_losses.sum() == pytest.approx(total, rel=1e-4)
    for kernel_table, expected in zip(kernel_tables, reference_tables, strict=True):
        assert np.allclose(kernel_table, expected, atol=2e-4, rtol=2e-4)
    assert loss_of(kernels.batch_moments_reference(*exact_entries, *reference_tables, width)) < 0.7 * loss_of(before)


@given(words=st.integers(1, 40), count=st.integers(0, 300), seed=st.integers(0, 99))
def test_blocks_of_one_turn_share_no_word_and_keep_their_order(words: int, count: int, seed: int):
    rows, columns = random_entries(words, count, seed)[:2]
    order, starts = kernels.group_blocks(rows, columns, words)
    expected = kernels.group_blocks_reference(rows, columns, words)
    assert np.array_equal(order, expected[0])
    assert np.array_equal(starts, expected[1])
    assert np.array_equal(np.sort(order), np.arange(count)), "every entry once"
    for turn in range(kernels.ROW_GROUPS):
        blocks = [
            order[starts[b] : starts[b + 1]] for b in range(turn * kernels.ROW_GROUPS, (turn + 1) * kernels.ROW_GROUPS)
        ]
        for ids in (rows, columns):
            assert sum(len(set(ids[block].tolist())) for block in blocks) == len(
                set(ids[np.concatenate(blocks)].tolist())
            )
        assert all((np.diff(block) > 0).all() for block in blocks), "inside, they keep their order"


def test_blocks_have_about_equal_sizes():
    rows, columns = random_entries(5000, 100_000)[:2]
    _, starts = kernels.group_blocks(rows, columns, 5000)
    sizes = np.diff(starts).reshape(kernels.ROW_GROUPS, kernels.ROW_GROUPS)
    assert sizes.sum(axis=0).max() < 1.3 * 100_000 / kernels.ROW_GROUPS


def test_rows_of_a_glove_table_are_aligned_to_cache_lines():
    table = vector_tables.glove_table(3, 5)
    assert table.ctypes.data % 64 == 0
    assert table.strides[0] % 64 == 0
    assert table[2].tolist() == [0] * 5 + [1] * 5 + [0, 1] + [0] * 4


def test_padding_columns_of_glove_tables_stay_unchanged():
    assert [vector_tables.padded_width(width) for width in (1, 8, 9, 32, 50, 100, 300)] == [1, 8, 32, 32, 64, 100, 320]
    kernel_tables = [np.ascontiguousarray(table, np.float32) for table in random_tables(5, 32)]
    for table in kernel_tables:
        table[:, 20:32], table[:, 52:64] = 0, 1
    single_entries = random_entries(5, 400, kind=np.float32)
    order, starts = kernels.group_blocks(*single_entries[:2], 5)
    kernels.compile_adagrad_pass(32)(
        order, starts, np.arange(BLOCKS), *single_entries, *kernel_tables, 0.05, np.zeros(BLOCKS)
    )
    for table in kernel_tables:
        assert not table[:, 20:32].any()
        assert (table[:, 52:64] == 1).all()
