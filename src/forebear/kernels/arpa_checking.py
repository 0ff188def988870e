"""Whether every n-gram is there once and has what it begins with: hash tables of row numbers instead of sorted keys.

The readable twin is `checked` in interop/arpa.py.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import compile_kernel, inline_kernel

FIRST, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # numbers whose bits look random
HALF, LOW, EMPTY = np.uint64(32), np.uint64((1 << 32) - 1), -1
ROW = (1 << 40) - 1  # the part of a slot that is a row's number; the bits above it are of the row's hash
TAG = ~ROW & ((1 << 63) - 1)
AHEAD = 32  # rows whose slots are fetched together


def check_ngram_prefixes(known: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> tuple[int, int]:
    """The first of these n-grams (size, n) whose first n - 1 words are no n-gram, or the first that was there before;
    -1 where there is none.

    `known` keeps the n-grams that were checked last, which must be those of n - 1 words, and their table.
    """
    work = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int64)
    lost = int(compile_kernel(lost_in_loops, bare=True)(*known[0], rows, work)) if known else -1
    known.clear()  # before the next table is made, so that there is only one at a time
    if lost >= 0:
        return lost, -1
    slots = np.full(len(rows) * 4 // 3 + 1, EMPTY, np.int64)
    known.append((rows, slots))
    return -1, int(compile_kernel(insert_rows_kernel, bare=True)(rows, slots, work))


@inline_kernel
def hashed(rows, row, width):
    value = FIRST
    for column in range(width):
        value = (value ^ np.uint64(rows[row, column])) * MIX
        value ^= value >> HALF
    return value


@inline_kernel
def nearest(slots, value):
    """The slot to begin with: any number of them is shared out evenly, not only powers of two."""
    return np.int64(((value & LOW) * np.uint64(len(slots))) >> HALF)


@inline_kernel
def place(rows, slots, wanted, row, width, value):
    """The slot of the row whose words are these, or of none."""
    slot = nearest(slots, value)
    while slots[slot] != EMPTY:
        if slots[slot] & TAG == np.int64(value) & TAG:
            other, same = slots[slot] & ROW, 0
            while same < width and rows[other, same] == wanted[row, same]:
                same += 1
            if same == width:
                break
        slot = slot + 1 if slot + 1 < len(slots) else 0
    return slot


@inline_kernel
def fetch(slots, rows, begin, end, width, work):
    """The hashes of a few rows. Their slots are asked for together, which takes hardly longer than for one."""
    hashes, near = work
    for row in range(begin, end):
        hashes[row - begin] = hashed(rows, row, width)
        near[row - begin] = slots[nearest(slots, hashes[row - begin])]


def lost_in_loops(shorter, slots, rows, work):
    width = shorter.shape[1]
    for begin in range(0, len(rows), AHEAD):
        end = min(begin + AHEAD, len(rows))
        fetch(slots, rows, begin, end, width, work)
        for row in range(begin, end):
            if slots[place(shorter, slots, rows, row, width, work[0][row - begin])] == EMPTY:
                return row
    return -1


def insert_rows_kernel(rows, slots, work):
    width = rows.shape[1]
    for begin in range(0, len(rows), AHEAD):
        end = min(begin + AHEAD, len(rows))
        fetch(slots, rows, begin, end, width, work)
        for row in range(begin, end):
            value = work[0][row - begin]
            slot = place(rows, slots, rows, row, width, value)
            if slots[slot] != EMPTY:
                return row
            slots[slot] = (np.int64(value) & TAG) | row
    return -1
