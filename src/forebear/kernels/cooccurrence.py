"""Counting co-occurrences within a window, word by word: compiled loops and their numpy twin.

A text is word ids with ROW_BORDER between units of text. Two words of a unit at distance `d` add `shares[d - 1]` to
each other's count. These weights are integers, so sums are exact and independent of order and partitioning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.jit import compile_kernel

UNIT_BORDER = -1  # between units of text
EIGHT = 8  # marks read at a time


class RowAccumulator(NamedTuple):
    """Buffers for counting one row, zero before and after: a sum for each word, and a flag where it is not zero."""

    sums: np.ndarray  # int64
    marks: np.ndarray  # uint8
    eights: np.ndarray  # uint64: the same marks, eight in one


def row_accumulator(words: int) -> RowAccumulator:
    room = -(-words // EIGHT) * EIGHT
    marks = np.zeros(room, np.uint8)
    return RowAccumulator(np.zeros(room, np.int64), marks, marks.view(np.uint64))


# -- numpy reference


def count_rows_reference(
    text: np.ndarray, words: int, shares: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and weighted counts (n,) of the words at positions `first` to `last`, sorted by row and column."""
    units, places = np.cumsum(text == UNIT_BORDER), np.arange(len(text))
    keys, fractions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for distance, share in enumerate(shares.tolist(), start=1):
        left, right = places[:-distance], places[distance:]
        # A border counts to the unit that follows it.
        same_unit = (units[left] == units[right]) & (text[left] != UNIT_BORDER)
        for centre, context in ((left[same_unit], right[same_unit]), (right[same_unit], left[same_unit])):
            in_range = (centre >= first) & (centre < last)
            keys.append(text[centre[in_range]].astype(np.int64) * words + text[context[in_range]])
            fractions.append(np.full(np.count_nonzero(in_range), share, np.int64))
    pairs, pair_ids = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, pair_ids, np.concatenate(fractions))
    return pairs // words, pairs % words, sums


# -- compiled


@compile_kernel
def word_positions(text, words, first, last):
    """Positions from `first` to `last` grouped by word, (n,), and where each word's group begins, (words + 1,)."""
    starts = np.zeros(words + 1, np.int64)
    for place in range(first, last):
        if text[place] >= 0:
            starts[text[place] + 1] += 1
    for word in range(words):
        starts[word + 1] += starts[word]
    free, places = starts.copy(), np.empty(starts[words], np.int32)
    for place in range(first, last):
        word = text[place]
        if word >= 0:
            places[free[word]] = place
            free[word] += 1
    return starts, places


@compile_kernel
def _flush_row(clean, columns, counts, filled):
    """Append the accumulated row, sorted by column, and clear it; returns the number of entries written so far."""
    for group in range(len(clean.eights)):
        if clean.eights[group]:
            clean.eights[group] = 0
            for word in range(group * EIGHT, group * EIGHT + EIGHT):
                # Without a branch: each is written, and overwritten by the next if its sum is 0.
                columns[filled], counts[filled] = word, clean.sums[word]
                filled += clean.sums[word] != 0
                clean.sums[word] = 0
    return filled


@compile_kernel
def count_rows(text, starts, places, shares, row, last, clean, columns, counts, sizes):
    """Count the words from `row` on up to `last`, as long as the buffers suffice.

    columns, counts  (capacity,) output: the entries of each row, sorted by column
    sizes            (words,) output: the number of entries of each row

    Returns the next word and the number of entries written.
    """
    filled, num_words = 0, len(starts) - 1
    while row < last:
        frequency = starts[row + 1] - starts[row]
        if filled + min(num_words, 2 * len(shares) * frequency) >= len(columns):
            break
        for at in range(starts[row], starts[row + 1]):
            here = places[at]
            for distance in range(len(shares)):
                word = text[here - 1 - distance]
                if word < 0:
                    break
                clean.sums[word] += shares[distance]
                clean.marks[word] = 1
            for distance in range(len(shares)):
                word = text[here + 1 + distance]
                if word < 0:
                    break
                clean.sums[word] += shares[distance]
                clean.marks[word] = 1
        before = filled
        if frequency:
            filled = _flush_row(clean, columns, counts, filled)
        sizes[row] = filled - before
        row += 1
    return row, filled


@compile_kernel
def merge_rows(starts, parts_columns, parts_counts, clean, columns, counts, sizes):
    """Add up the rows that several parts counted; returns the number of entries.

    starts  (parts, rows + 1) where each row begins in `parts_columns` and `parts_counts`
    sizes   (rows,) output: the number of entries of each row
    """
    filled = 0
    for row in range(starts.shape[1] - 1):
        for part in range(starts.shape[0]):
            for at in range(starts[part, row], starts[part, row + 1]):
                clean.sums[parts_columns[at]] += parts_counts[at]
                clean.marks[parts_columns[at]] = 1
        before = filled
        filled = _flush_row(clean, columns, counts, filled)
        sizes[row] = filled - before
    return filled


@compile_kernel
def tile_rows(first, sizes, columns, counts, band, unit, seed, made_rows, made_columns, made_counts):
    """Write the entries of rows `first`, `first` + 1, … as tiles of `band` columns, each tile shuffled.

    sizes  number of entries of each row, sorted by column
    band   words per tile
    unit   the weight of a count of 1
    seed   xorshift seed above 0
    """
    many = len(columns)
    starts = np.zeros(columns.max() // band + 2 if many else 1, np.int64)
    for at in range(many):
        starts[columns[at] // band + 1] += 1
    for tile in range(len(starts) - 1):
        starts[tile + 1] += starts[tile]
    order, rows, free, at = np.empty(many, np.int32), np.empty(many, np.int32), starts.copy(), 0
    for row in range(len(sizes)):
        for _ in range(sizes[row]):
            tile = columns[at] // band
            order[free[tile]], rows[at] = at, first + row
            free[tile] += 1
            at += 1
    for tile in range(len(starts) - 1):
        for left in range(starts[tile + 1] - starts[tile], 1, -1):  # Fisher and Yates; xorshift draws
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            drawn = starts[tile] + np.int64(((seed >> np.uint64(32)) * np.uint64(left)) >> np.uint64(32))
            one = starts[tile] + left - 1
            order[one], order[drawn] = order[drawn], order[one]
    for at in range(many):
        entry = order[at]
        made_rows[at], made_columns[at] = rows[entry], columns[entry]
        made_counts[at] = counts[entry] / unit
