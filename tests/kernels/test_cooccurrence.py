"""Co-occurrence counts: compiled kernels, the numpy reference and a count by hand agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import cooccurrence as kernels

WORDS = 11
unit_lists = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=9), max_size=6)


def joined_units(units: list[list[int]]) -> np.ndarray:
    """The ids of all units with a border before, between and after them."""
    return np.array([-1, *(word for unit in units for word in [*unit, -1])], np.int32)


def dense_matrix(rows: np.ndarray, columns: np.ndarray, sums: np.ndarray) -> np.ndarray:
    table = np.zeros((WORDS, WORDS), np.int64)
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows), "duplicate entry"
    table[rows, columns] = sums
    return table


def count_by_kernels(text: np.ndarray, shares: np.ndarray, first: int, last: int, buffer_size: int) -> np.ndarray:
    starts, positions = kernels.word_positions(text, WORDS, first, last)
    accumulator, sizes, next_row, table = (
        kernels.row_accumulator(WORDS),
        np.zeros(WORDS, np.int64),
        0,
        np.zeros((WORDS, WORDS), int),
    )
    columns, counts = np.zeros(buffer_size, np.int32), np.zeros(buffer_size, np.int64)
    while next_row < WORDS:
        first_row = next_row
        next_row, filled = kernels.count_rows(
            text, starts, positions, shares, next_row, WORDS, accumulator, columns, counts, sizes
        )
        assert next_row > first_row
        rows = np.repeat(np.arange(first_row, next_row), sizes[first_row:next_row])
        assert (np.diff(rows * WORDS + columns[:filled]) > 0).all(), "by row and column"
        table += dense_matrix(rows, columns[:filled], counts[:filled])
        assert not accumulator.sums.any()
        assert not accumulator.marks.any()
    return table


@given(
    units=unit_lists,
    window=st.integers(1, 5),
    shares_of_text=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    buffer_size=st.sampled_from([WORDS + 1, 1000]),
)
def test_cooccurrence_kernels_equal_the_reference_and_a_count_by_hand(
    units: list[list[int]], window: int, shares_of_text: tuple[float, float], buffer_size: int
):
    text, shares = joined_units(units), np.array([60, 30, 20, 15, 12][:window])
    first, last = sorted(1 + int(share * (len(text) - 1)) for share in shares_of_text)
    table = count_by_kernels(text, shares, first, last, buffer_size)
    assert np.array_equal(table, dense_matrix(*kernels.count_rows_reference(text, WORDS, shares, first, last)))
    by_hand, unit_start = np.zeros((WORDS, WORDS), int), 1
    for unit in units:
        for position, word in enumerate(unit):
            for other_position, other in enumerate(unit):
                if 0 < abs(position - other_position) <= window and first <= unit_start + position < last:
                    by_hand[word, other] += shares[abs(position - other_position) - 1]
        unit_start += len(unit) + 1
    assert np.array_equal(table, by_hand)


@pytest.mark.parametrize("words", [8, 400])
def test_merge_rows_sums_entries_by_row_and_column(words: int):
    rng = np.random.default_rng(0)
    parts = [np.where(rng.random((3, words)) < 0.02 + 3 / words, rng.integers(1, 9, (3, words)), 0) for _ in "abc"]
    starts, columns, counts, num_entries = np.zeros((3, 4), np.int64), [], [], 0
    for part, row_starts in zip(parts, starts, strict=True):
        for row, row_counts in enumerate(part):
            row_starts[row], order = num_entries, rng.permutation(np.flatnonzero(row_counts))
            columns.append(order)
            counts.append(row_counts[order])
            num_entries += len(order)
        row_starts[3] = num_entries
    given_columns, given_counts = np.concatenate(columns).astype(np.int32), np.concatenate(counts)
    merged = np.zeros(num_entries + 1, np.int32), np.zeros(num_entries + 1, np.int64), np.zeros(3, np.int64)
    filled = kernels.merge_rows(starts, given_columns, given_counts, kernels.row_accumulator(words), *merged)
    total = np.sum(parts, axis=0)
    assert np.array_equal(merged[2], (total > 0).sum(axis=1))
    assert np.array_equal(merged[0][:filled], np.nonzero(total)[1])
    assert np.array_equal(merged[1][:filled], total[np.nonzero(total)])


def test_tile_rows_shuffles_entries_within_tiles():
    sizes = np.array([30, 0, 25])
    columns = np.concatenate([np.arange(30), np.arange(25)]).astype(np.int32)
    counts = np.arange(1, 56) * 60
    tiles = np.zeros(55, np.int32), np.zeros(55, np.int32), np.zeros(55, np.float32)
    kernels.tile_rows(7, sizes, columns, counts, 10, 60.0, np.uint64(12345), *tiles)
    rows, tile_columns, shares = tiles
    assert set(zip(rows.tolist(), tile_columns.tolist(), shares.tolist(), strict=True)) == {
        *((7, column, column + 1.0) for column in range(30)),
        *((9, column, column + 31.0) for column in range(25)),
    }
    assert (np.diff(tile_columns // 10) >= 0).all(), "tile after tile"
    assert (np.diff(tile_columns[tile_columns < 10]) < 0).sum() > 5, "in no order inside"
    again = [np.zeros_like(array) for array in tiles]
    kernels.tile_rows(7, sizes, columns, counts, 10, 60.0, np.uint64(12345), *again)
    assert all(np.array_equal(first, other) for first, other in zip(tiles, again, strict=True))
    nothing = [array[:0] for array in tiles]
    kernels.tile_rows(7, np.zeros(3, int), columns[:0], counts[:0], 10, 60.0, np.uint64(1), *nothing)
