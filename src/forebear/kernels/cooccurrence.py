"""Which words stand together, counted word by word: compiled loops, beside numpy's way.

A text is ids of words, and BORDER where one unit of text ends and the next begins. Two words of a unit that stand `d`
apart add `shares[d - 1]` to what each has counted for the other. Shares are whole numbers, so that sums are exact, and
the same in whatever order and in however many parts the text is counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.jit import compile_kernel

ROW_BORDER = -1  # between units of text
EIGHT = 8  # marks are looked at so many at a time


class RowAccumulator(NamedTuple):
    """Room to count one row on, clean before and after: a sum for each word, and a mark where there is one."""

    sums: np.ndarray  # int64
    marks: np.ndarray  # uint8
    eights: np.ndarray  # uint64: the same marks, eight in one


def row_accumulator(words: int) -> RowAccumulator:
    room = -(-words // EIGHT) * EIGHT
    marks = np.zeros(room, np.uint8)
    return RowAccumulator(np.zeros(room, np.int64), marks, marks.view(np.uint64))


# -- numpy's way


def counted_in_numpy(
    text: np.ndarray, words: int, shares: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) three times, by row and column: for each word that stands from `first` to `last`, which others it has beside
    it, and the sum of their shares.
    """
    units, places = np.cumsum(text == ROW_BORDER), np.arange(len(text))
    keys, added = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for distance, share in enumerate(shares.tolist(), start=1):
        one, other = places[:-distance], places[distance:]
        beside = (units[one] == units[other]) & (
            text[one] != ROW_BORDER
        )  # the border itself belongs to what follows it
        for centre, context in ((one[beside], other[beside]), (other[beside], one[beside])):
            mine = (centre >= first) & (centre < last)
            keys.append(text[centre[mine]].astype(np.int64) * words + text[context[mine]])
            added.append(np.full(np.count_nonzero(mine), share, np.int64))
    pairs, which = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, which, np.concatenate(added))
    return pairs // words, pairs % words, sums


# -- compiled


@compile_kernel
def word_positions(text, words, first, last):
    """(words + 1,) and (n,): the places from `first` to `last` where each word stands, word after word."""
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
def _told(clean, columns, counts, filled):
    """Writes what stands on the slate, by column, and wipes it; how much is filled then."""
    for eight in range(len(clean.eights)):
        if clean.eights[eight]:
            clean.eights[eight] = 0
            for word in range(eight * EIGHT, eight * EIGHT + EIGHT):
                # Nothing to be guessed: each is written, and overwritten by the next if there was nothing to write.
                columns[filled], counts[filled] = word, clean.sums[word]
                filled += clean.sums[word] != 0
                clean.sums[word] = 0
    return filled


@compile_kernel
def count_rows(text, starts, places, shares, row, last, clean, columns, counts, sizes):
    """Counts one word after the other from `row` to `last`, or as long as there is room; the next, and what is filled.

    columns, counts  (room,) are filled with what each row has, by column, and then a little with nothing
    sizes            (words,) how many these are
    """
    filled, most = 0, len(starts) - 1
    while row < last:
        often = starts[row + 1] - starts[row]
        if filled + min(most, 2 * len(shares) * often) >= len(columns):
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
        if often:
            filled = _told(clean, columns, counts, filled)
        sizes[row] = filled - before
        row += 1
    return row, filled


@compile_kernel
def merge_rows(starts, parts_columns, parts_counts, clean, columns, counts, sizes):
    """Adds up what several parts counted for a few rows; how much is filled.

    starts  (parts, rows + 1) where each row begins in `parts_columns` and `parts_counts`
    sizes   (rows,) how many entries each has
    """
    filled = 0
    for row in range(starts.shape[1] - 1):
        for part in range(starts.shape[0]):
            for at in range(starts[part, row], starts[part, row + 1]):
                clean.sums[parts_columns[at]] += parts_counts[at]
                clean.marks[parts_columns[at]] = 1
        before = filled
        filled = _told(clean, columns, counts, filled)
        sizes[row] = filled - before
    return filled


@compile_kernel
def tile_rows(first, sizes, columns, counts, band, unit, seed, made_rows, made_columns, made_counts):
    """Writes the entries of rows `first`, `first` + 1, … band of columns after band, each of these tiles well shuffled.

    sizes  how many entries each row has, by column
    band   how many words a tile has
    unit   what a count of 1 is
    seed   above 0: the same gives the same order
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
