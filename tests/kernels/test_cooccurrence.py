"""Counting which words stand together: loops, compiled or not, numpy's way and a plain count all agree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import cooccurrence as kernels

WORDS = 6
texts = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=9), max_size=6)


def laid(units: list[list[int]]) -> np.ndarray:
    """Units with a border before, between and after them."""
    return np.array([-1, *(word for unit in units for word in [*unit, -1])], np.int32)


def dense(rows: np.ndarray, columns: np.ndarray, sums: np.ndarray) -> np.ndarray:
    table = np.zeros((WORDS, WORDS), np.int64)
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows), "an entry stands there twice"
    table[rows, columns] = sums
    return table


def by_loops(text: np.ndarray, shares: np.ndarray, first: int, last: int, loops: bool) -> np.ndarray:
    """Rows are counted with so little room that each is counted by itself."""
    place, count = (
        (kernels.placed_in_loops, kernels.count_rows_in_loops) if loops else (kernels.placed, kernels.count_rows)
    )
    starts, places = place(text, WORDS, first, last)
    sums, found, row, table = np.zeros(WORDS, np.int64), np.zeros(WORDS, np.int32), 0, np.zeros((WORDS, WORDS), int)
    columns, counts, sizes = np.zeros(WORDS, np.int32), np.zeros(WORDS, np.int64), np.zeros(WORDS, np.int64)
    while row < WORDS:
        before = row
        row, filled = count(text, starts, places, shares, row, sums, found, columns, counts, sizes)
        rows = np.repeat(np.arange(before, row), sizes[before:row])
        table += dense(rows, columns[:filled], counts[:filled])
        assert not sums.any()
    return table


@given(units=texts, window=st.integers(1, 5), cut=st.tuples(st.floats(0, 1), st.floats(0, 1)), loops=st.booleans())
def test_every_way_counts_alike(units: list[list[int]], window: int, cut: tuple[float, float], loops: bool):
    text, shares = laid(units), np.array([60, 30, 20, 15, 12][:window])
    first, last = sorted(1 + int(share * (len(text) - 1)) for share in cut)
    mine = by_loops(text, shares, first, last, loops)
    assert np.array_equal(mine, dense(*kernels.counted_in_numpy(text, WORDS, shares, first, last)))
    by_hand, at = np.zeros((WORDS, WORDS), int), 1
    for unit in units:
        for here, word in enumerate(unit):
            for there, other in enumerate(unit):
                if 0 < abs(here - there) <= window and first <= at + here < last:
                    by_hand[word, other] += shares[abs(here - there) - 1]
        at += len(unit) + 1
    assert np.array_equal(mine, by_hand)


def test_merged_rows_are_sums_by_row_and_column():
    rng = np.random.default_rng(0)
    for words in (8, 400):  # rows that are scanned, and rows that are sorted
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
        made = np.zeros(at, np.int32), np.zeros(at, np.int32), np.zeros(at, np.int64)
        filled = kernels.merge_rows(
            starts, given_columns, given_counts, np.zeros(words, np.int64), np.zeros(words, np.int32), *made
        )
        whole = sum(parts)
        assert np.array_equal(np.stack([array[:filled] for array in made[:2]]), np.nonzero(whole))
        assert np.array_equal(made[2][:filled], whole[np.nonzero(whole)])


def test_tiles_hold_their_own_entries_shuffled():
    rng = np.random.default_rng(0)
    columns, bands = rng.integers(0, 30, 3000).astype(np.int32), np.repeat(np.arange(3, dtype=np.int32), 10)
    order, starts = np.zeros(3000, np.int64), np.zeros(4, np.int64)
    kernels.tile(columns, columns, columns, bands, np.uint64(7), order, starts)
    assert np.array_equal(np.sort(order), np.arange(3000))
    assert np.array_equal(np.diff(starts), np.bincount(bands[columns]))
    for band in range(3):
        mine = order[starts[band] : starts[band + 1]]
        assert (bands[columns[mine]] == band).all()
        assert abs(np.corrcoef(mine, np.arange(len(mine)))[0, 1]) < 0.1
