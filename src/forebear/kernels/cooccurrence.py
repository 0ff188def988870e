"""Which words stand together, counted word by word: loops that are compiled, beside numpy's way.

A text is numbers of words, -1 where one unit of text ends and the next begins. Two words of a unit that stand `d` apart
add `shares[d - 1]` to what each has counted for the other. Shares are whole numbers, so that sums are exact, and the
same in whatever order and in however many parts the text is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forebear.kernels.compiling import compiled

BORDER = -1  # between units of text
SPARSE = 32  # a row with fewer than one word in so many is sorted; of others every word is looked at


def placed(text: np.ndarray, words: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """(words + 1,) and (n,): the places from `first` to `last` where each word stands, word after word."""
    loops: Any = compiled(placed_in_loops)
    return loops(text, words, first, last)


def count_rows(*given: Any) -> tuple[int, int]:
    """As `count_rows_in_loops`, compiled."""
    loops: Any = compiled(count_rows_in_loops)
    return loops(*given)


def merge_rows(*given: Any) -> int:
    """As `merge_rows_in_loops`, compiled."""
    loops: Any = compiled(merge_rows_in_loops)
    return loops(*given)


def tile(*given: Any) -> None:
    """As `tile_in_loops`, compiled."""
    compiled(tile_in_loops)(*given)


def counted_in_numpy(
    text: np.ndarray, words: int, shares: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) three times, by row and column: for each word that stands from `first` to `last`, which others it has beside
    it, and the sum of their shares.
    """
    units, places = np.cumsum(text == BORDER), np.arange(len(text))
    keys, added = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for distance, share in enumerate(shares.tolist(), start=1):
        one, other = places[:-distance], places[distance:]
        beside = (units[one] == units[other]) & (text[one] != BORDER)  # the border itself belongs to what follows it
        for centre, context in ((one[beside], other[beside]), (other[beside], one[beside])):
            mine = (centre >= first) & (centre < last)
            keys.append(text[centre[mine]].astype(np.int64) * words + text[context[mine]])
            added.append(np.full(np.count_nonzero(mine), share, np.int64))
    pairs, which = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, which, np.concatenate(added))
    return pairs // words, pairs % words, sums


def placed_in_loops(text: np.ndarray, words: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    starts = np.zeros(words + 1, np.int64)
    for place in range(first, last):
        if text[place] >= 0:
            starts[text[place] + 1] += 1
    for word in range(words):
        starts[word + 1] += starts[word]
    free, places = starts[:-1].copy(), np.empty(starts[words], np.int32)
    for place in range(first, last):
        word = text[place]
        if word >= 0:
            places[free[word]] = place
            free[word] += 1
    return starts, places


def count_rows_in_loops(
    text: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    shares: np.ndarray,
    row: int,
    sums: np.ndarray,
    found: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
    sizes: np.ndarray,
) -> tuple[int, int]:
    """Counts one word after the other from `row` on, as long as there is room; the next row, and how much was filled.

    sums     (words,) zeros, before and after
    found    (words,) room for the words beside one
    columns, counts  (room,) are filled with what each row has, in no order
    sizes    (words,) how many these are
    """
    words, filled = len(sums), 0
    while row < words and filled + words <= len(columns):
        many = 0
        for at in range(starts[row], starts[row + 1]):
            for step in (-1, 1):
                place = places[at]
                for share in shares:
                    place += step
                    word = text[place]
                    if word < 0:
                        break
                    if sums[word] == 0:
                        found[many] = word
                        many += 1
                    sums[word] += share
        for at in range(many):
            columns[filled + at], counts[filled + at] = found[at], sums[found[at]]
            sums[found[at]] = 0
        sizes[row] = many
        filled += many
        row += 1
    return row, filled


def merge_rows_in_loops(
    starts: np.ndarray,
    parts_columns: np.ndarray,
    parts_counts: np.ndarray,
    sums: np.ndarray,
    found: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Adds up what several parts counted for a few rows; how many entries there are, by row and column.

    starts  (parts, rows + 1) where each row begins in `parts_columns` and `parts_counts`
    """
    filled = 0
    for row in range(starts.shape[1] - 1):
        many = 0
        for part in range(starts.shape[0]):
            for at in range(starts[part, row], starts[part, row + 1]):
                word = parts_columns[at]
                if sums[word] == 0:
                    found[many] = word
                    many += 1
                sums[word] += parts_counts[at]
        if many * SPARSE < len(sums):
            found[:many].sort()
        else:
            many = 0
            for word in range(len(sums)):
                if sums[word]:
                    found[many] = word
                    many += 1
        for at in range(many):
            word = found[at]
            rows[filled], columns[filled], counts[filled] = row, word, sums[word]
            sums[word] = 0
            filled += 1
    return filled


def tile_in_loops(
    rows: np.ndarray,
    columns: np.ndarray,
    counts: np.ndarray,
    bands: np.ndarray,
    seed: np.uint64,
    order: np.ndarray,
    starts: np.ndarray,
) -> None:
    """Fills `order` with the entries of a few rows, band of columns after band, each of these tiles well shuffled.

    bands   (words,) the band of each column
    starts  (bands + 1,) zeros; becomes where each tile begins
    """
    for at in range(len(columns)):
        starts[bands[columns[at]] + 1] += 1
    for band in range(len(starts) - 1):
        starts[band + 1] += starts[band]
    free = starts[:-1].copy()
    for at in range(len(columns)):
        band = bands[columns[at]]
        order[free[band]] = at
        free[band] += 1
    state = seed
    for band in range(len(starts) - 1):
        first = starts[band]
        for left in range(starts[band + 1] - first, 1, -1):  # Fisher and Yates
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            drawn = np.int64((state >> np.uint64(32)) * np.uint64(left) >> np.uint64(32))
            order[first + left - 1], order[first + drawn] = order[first + drawn], order[first + left - 1]
