"""Counting co-occurrences within a window, word by word: compiled kernels and their numpy reference.

A text is word ids with UNIT_SEPARATOR between units. Two words of a unit at distance `d` add `weights[d - 1]` to each
other's count. These weights are integers, so sums are exact and independent of order and partitioning.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.jit import compile_kernel

UNIT_SEPARATOR = -1  # between units of text
FLAGS_PER_GROUP = 8  # flags read as one 64-bit number


class RowAccumulator(NamedTuple):
    """Buffers for counting one row, all zero between rows: a sum for each word, and a flag where it is not zero."""

    sums: np.ndarray  # int64
    flags: np.ndarray  # uint8
    flag_groups: np.ndarray  # uint64 view of the flags, eight in one number


def row_accumulator(num_words: int) -> RowAccumulator:
    capacity = -(-num_words // FLAGS_PER_GROUP) * FLAGS_PER_GROUP
    flags = np.zeros(capacity, np.uint8)
    return RowAccumulator(np.zeros(capacity, np.int64), flags, flags.view(np.uint64))


# -- numpy reference


def count_rows_reference(
    text: np.ndarray, num_words: int, weights: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and weighted counts (n,) of the words at positions `first` to `last`, sorted by row and column."""
    units, positions = np.cumsum(text == UNIT_SEPARATOR), np.arange(len(text))
    keys, weight_parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for distance, weight in enumerate(weights.tolist(), start=1):
        left, right = positions[:-distance], positions[distance:]
        # A separator belongs to the unit that follows it.
        same_unit = (units[left] == units[right]) & (text[left] != UNIT_SEPARATOR)
        for centre, context in ((left[same_unit], right[same_unit]), (right[same_unit], left[same_unit])):
            in_range = (centre >= first) & (centre < last)
            keys.append(text[centre[in_range]].astype(np.int64) * num_words + text[context[in_range]])
            weight_parts.append(np.full(np.count_nonzero(in_range), weight, np.int64))
    pairs, pair_ids = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, pair_ids, np.concatenate(weight_parts))
    return pairs // num_words, pairs % num_words, sums


# -- compiled


@compile_kernel
def word_positions(text, num_words, first, last):
    """Positions from `first` to `last`, grouped by word (n,), and the start of each word's group (num_words + 1,)."""
    starts = np.zeros(num_words + 1, np.int64)
    for position in range(first, last):
        if text[position] >= 0:
            starts[text[position] + 1] += 1
    for word in range(num_words):
        starts[word + 1] += starts[word]
    next_slots, positions = starts.copy(), np.empty(starts[num_words], np.int32)
    for position in range(first, last):
        word = text[position]
        if word >= 0:
            positions[next_slots[word]] = position
            next_slots[word] += 1
    return starts, positions


@compile_kernel
def _flush_row(accumulator, columns, counts, num_entries):
    """Append the accumulated row, sorted by column, and clear it; returns the total number of entries."""
    for group in range(len(accumulator.flag_groups)):
        if accumulator.flag_groups[group]:
            accumulator.flag_groups[group] = 0
            for word in range(group * FLAGS_PER_GROUP, group * FLAGS_PER_GROUP + FLAGS_PER_GROUP):
                # Branch-free: each entry is written, and overwritten by the next one if its sum is 0.
                columns[num_entries], counts[num_entries] = word, accumulator.sums[word]
                num_entries += accumulator.sums[word] != 0
                accumulator.sums[word] = 0
    return num_entries


@compile_kernel
def count_rows(text, starts, positions, weights, row, last, accumulator, columns, counts, sizes):
    """Count the context words of the words `row` to `last`, while the buffers suffice.

    columns, counts  (capacity,) output: the entries of each row, sorted by column
    sizes            (words,) output: the number of entries of each row

    Returns the next word and the number of entries written.
    """
    num_entries, num_words = 0, len(starts) - 1
    while row < last:
        frequency = starts[row + 1] - starts[row]
        if num_entries + min(num_words, 2 * len(weights) * frequency) >= len(columns):
            break
        for index in range(starts[row], starts[row + 1]):
            position = positions[index]
            for distance in range(len(weights)):
                word = text[position - 1 - distance]
                if word < 0:
                    break
                accumulator.sums[word] += weights[distance]
                accumulator.flags[word] = 1
            for distance in range(len(weights)):
                word = text[position + 1 + distance]
                if word < 0:
                    break
                accumulator.sums[word] += weights[distance]
                accumulator.flags[word] = 1
        previous_entries = num_entries
        if frequency:
            num_entries = _flush_row(accumulator, columns, counts, num_entries)
        sizes[row] = num_entries - previous_entries
        row += 1
    return row, num_entries


@compile_kernel
def merge_rows(starts, part_columns, part_counts, accumulator, columns, counts, sizes):
    """Sum the rows of several parts; returns the number of entries.

    starts  (parts, rows + 1) where each row begins in `part_columns` and `part_counts`
    sizes   (rows,) output: the number of entries of each row
    """
    num_entries = 0
    for row in range(starts.shape[1] - 1):
        for part in range(starts.shape[0]):
            for entry in range(starts[part, row], starts[part, row + 1]):
                accumulator.sums[part_columns[entry]] += part_counts[entry]
                accumulator.flags[part_columns[entry]] = 1
        previous_entries = num_entries
        num_entries = _flush_row(accumulator, columns, counts, num_entries)
        sizes[row] = num_entries - previous_entries
    return num_entries


@compile_kernel
def tile_rows(first, sizes, columns, counts, columns_per_tile, count_unit, seed, out_rows, out_columns, out_counts):
    """Write the entries of rows `first`, `first` + 1, … as tiles of `columns_per_tile` columns, each tile shuffled.

    sizes             number of entries of each row, sorted by column
    columns_per_tile  words per tile
    count_unit        the weight of a count of 1
    seed              xorshift seed above 0
    """
    num_entries = len(columns)
    starts = np.zeros(columns.max() // columns_per_tile + 2 if num_entries else 1, np.int64)
    for index in range(num_entries):
        starts[columns[index] // columns_per_tile + 1] += 1
    for tile in range(len(starts) - 1):
        starts[tile + 1] += starts[tile]
    order, rows, next_slots, index = np.empty(num_entries, np.int32), np.empty(num_entries, np.int32), starts.copy(), 0
    for row in range(len(sizes)):
        for _ in range(sizes[row]):
            tile = columns[index] // columns_per_tile
            order[next_slots[tile]], rows[index] = index, first + row
            next_slots[tile] += 1
            index += 1
    for tile in range(len(starts) - 1):
        for remaining in range(
            starts[tile + 1] - starts[tile], 1, -1
        ):  # Fisher–Yates shuffle with xorshift random numbers
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            other = starts[tile] + np.int64(((seed >> np.uint64(32)) * np.uint64(remaining)) >> np.uint64(32))
            last = starts[tile] + remaining - 1
            order[last], order[other] = order[other], order[last]
    for index in range(num_entries):
        entry = order[index]
        out_rows[index], out_columns[index] = rows[entry], columns[entry]
        out_counts[index] = counts[entry] / count_unit
