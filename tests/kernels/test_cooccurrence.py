"""Counting which words stand together: compiled loops, numpy's way and a plain count all agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import cooccurrence as kernels

WORDS = 11
texts = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=9), max_size=6)


def laid(units: list[list[int]]) -> np.ndarray:
    """Units with a border before, between and after them."""
    return np.array([-1, *(word for unit in units for word in [*unit, -1])], np.int32)


def dense(rows: np.ndarray, columns: np.ndarray, sums: np.ndarray) -> np.ndarray:
    table = np.zeros((WORDS, WORDS), np.int64)
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows), "an entry stands there twice"
    table[rows, columns] = sums
    return table


def by_loops(text: np.ndarray, shares: np.ndarray, first: int, last: int, room: int) -> np.ndarray:
    starts, places = kernels.word_positions(text, WORDS, first, last)
    clean, sizes, row, table = (
        kernels.row_accumulator(WORDS),
        np.zeros(WORDS, np.int64),
        0,
        np.zeros((WORDS, WORDS), int),
    )
    columns, counts = np.zeros(room, np.int32), np.zeros(room, np.int64)
    while row < WORDS:
        before = row
        row, filled = kernels.count_rows(text, starts, places, shares, row, WORDS, clean, columns, counts, sizes)
        assert row > before
        rows = np.repeat(np.arange(before, row), sizes[before:row])
        assert (np.diff(rows * WORDS + columns[:filled]) > 0).all(), "by row and column"
        table += dense(rows, columns[:filled], counts[:filled])
        assert not clean.sums.any()
        assert not clean.marks.any()
    return table


@given(
    units=texts,
    window=st.integers(1, 5),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    room=st.sampled_from([WORDS + 1, 1000]),
)
def test_every_way_counts_alike(units: list[list[int]], window: int, cut: tuple[float, float], room: int):
    text, shares = laid(units), np.array([60, 30, 20, 15, 12][:window])
    first, last = sorted(1 + int(share * (len(text) - 1)) for share in cut)
    mine = by_loops(text, shares, first, last, room)
    assert np.array_equal(mine, dense(*kernels.count_rows_reference(text, WORDS, shares, first, last)))
    by_hand, at = np.zeros((WORDS, WORDS), int), 1
    for unit in units:
        for here, word in enumerate(unit):
            for there, other in enumerate(unit):
                if 0 < abs(here - there) <= window and first <= at + here < last:
                    by_hand[word, other] += shares[abs(here - there) - 1]
        at += len(unit) + 1
    assert np.array_equal(mine, by_hand)


@pytest.mark.parametrize("words", [8, 400])
def test_merged_rows_are_sums_by_row_and_column(words: int):
    rng = np.random.default_rng(0)
    parts = [np.where(rng.random((3, words)) < 0.02 + 3 / words, rng.integers(1, 9, (3, words)), 0) for _ in "abc"]
    starts, columns, counts, at = np.zeros((3, 4), np.int64), [], [], 0
    for part, starting in zip(parts, starts, strict=True):
        for row, line in enumerate(part):
            starting[row], mine = at, rng.permutation(np.flatnonzero(line))
            columns.append(mine)
            counts.append(line[mine])
            at += len(mine)
        starting[3] = at
    given_columns, given_counts = np.concatenate(columns).astype(np.int32), np.concatenate(counts)
    made = np.zeros(at + 1, np.int32), np.zeros(at + 1, np.int64), np.zeros(3, np.int64)
    filled = kernels.merge_rows(starts, given_columns, given_counts, kernels.row_accumulator(words), *made)
    whole = np.sum(parts, axis=0)
    assert np.array_equal(made[2], (whole > 0).sum(axis=1))
    assert np.array_equal(made[0][:filled], np.nonzero(whole)[1])
    assert np.array_equal(made[1][:filled], whole[np.nonzero(whole)])


def test_tiles_hold_their_own_entries_shuffled():
    sizes = np.array([30, 0, 25])
    columns = np.concatenate([np.arange(30), np.arange(25)]).astype(np.int32)
    counts = np.arange(1, 56) * 60
    made = np.zeros(55, np.int32), np.zeros(55, np.int32), np.zeros(55, np.float32)
    kernels.tile_rows(7, sizes, columns, counts, 10, 60.0, np.uint64(12345), *made)
    rows, told, shares = made
    assert set(zip(rows.tolist(), told.tolist(), shares.tolist(), strict=True)) == {
        *((7, column, column + 1.0) for column in range(30)),
        *((9, column, column + 31.0) for column in range(25)),
    }
    assert (np.diff(told // 10) >= 0).all(), "tile after tile"
    assert (np.diff(told[told < 10]) < 0).sum() > 5, "in no order inside"
    again = [np.zeros_like(array) for array in made]
    kernels.tile_rows(7, sizes, columns, counts, 10, 60.0, np.uint64(12345), *again)
    assert all(np.array_equal(one, other) for one, other in zip(made, again, strict=True))
    nothing = [array[:0] for array in made]
    kernels.tile_rows(7, np.zeros(3, int), columns[:0], counts[:0], 10, 60.0, np.uint64(1), *nothing)
