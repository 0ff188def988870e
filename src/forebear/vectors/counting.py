"""Counting which words stand together, row by row, with no more memory than was given.

The text is read in stretches. Where one holds all of it, every row is counted and done. Else what a stretch has of each
row is written down (a run), and at last the runs of each row are added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from forebear.errors import BadInput
from forebear.text.portion import Portion, ranges

UNIT = math.lcm(*range(1, 17))  # what a word beside another counts: up to 16 words away, its parts are whole numbers
PIECE = 1 << 20  # tokens of the text that are read at a time
ROOM = 1 << 20  # entries that are held before they are written
A_TOKEN, AN_ENTRY, A_WORD = 8, 36, 64  # bytes that are wanted for each: of a stretch; held at a time; of the vocabulary
BAND = 64  # words whose rows, and columns, make up a tile
LONGEST = 1 << 22  # entries of a band, if it has more than one word: those of frequent words have fewer words
SCATTER = 0x9E3779B97F4A7C15  # odd, and its bits in no order: what is multiplied by it looks like chance

Progress = Callable[[int, int], object]
Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # how many each row has; their columns and counts, row after row


@dataclass(frozen=True, eq=False)
class Text:
    """A portion of a corpus, a piece at a time.

    source      unit by unit: words of different ones never stand together
    vocabulary  how many ids there are
    never       ids that are skipped, as if they did not stand in the text
    """

    source: Portion
    vocabulary: int
    never: frozenset[int]

    def pieces(self) -> Iterator[np.ndarray]:
        """int32 ids, with a border after every unit."""
        from forebear.kernels.cooccurrence import BORDER

        spans = self.source.spans
        ends, skipped = np.cumsum(spans[:, 1] - spans[:, 0]), np.zeros(self.vocabulary, bool)
        skipped[list(self.never)] = True
        for begin in range(0, self.source.tokens, PIECE):
            end = min(begin + PIECE, self.source.tokens)
            first, last = np.searchsorted(ends, [begin, end - 1], side="right")
            starts, stops, over = spans[first : last + 1, 0].copy(), spans[first : last + 1, 1], ends[first : last + 1]
            starts[0] += begin - int(over[0] - (stops[0] - starts[0]))  # what was in the piece before
            sizes = stops - starts
            sizes[-1] -= int(over[-1]) - min(int(over[-1]), end)
            ids = self.source.corpus.ids[ranges(starts, sizes)].astype(np.int32)
            if int(ids.max()) >= self.vocabulary:
                raise BadInput(f"the text holds the id {ids.max()}, and there are {self.vocabulary} words")
            borders = over[over <= end] - begin
            yield np.insert(ids, borders, BORDER)[np.insert(~skipped[ids], borders, True)]


class Rows(Protocol):
    """What was counted."""

    @property
    def times(self) -> np.ndarray:
        """(vocabulary,) how often each word stands there."""
        ...

    def entries(self, begin: int, end: int, most: int) -> Entries:
        """What the rows from `begin` to `end` have, which is so much at most."""
        ...


class _OneStretch:
    """A text that is all in memory: rows are counted when they are asked for."""

    def __init__(self, text: np.ndarray, first: int, last: int, vocabulary: int, shares: np.ndarray) -> None:
        from forebear.kernels import cooccurrence as kernels

        self.kernels, self.text, self.shares = kernels, text, shares
        self.starts, self.places = kernels.placed(text, vocabulary, first, last)
        self.slate, self.sizes = kernels.slate(vocabulary), np.zeros(vocabulary, np.int64)

    @property
    def times(self) -> np.ndarray:
        return np.diff(self.starts)

    def entries(self, begin: int, end: int, most: int) -> Entries:
        columns, counts = np.empty(most + 1, np.int32), np.empty(most + 1, np.int64)
        _, filled = self.counted(begin, end, columns, counts)
        return self.sizes[begin:end], columns[:filled], counts[:filled]

    def counted(self, begin: int, end: int, columns: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
        """The next row that there was no room for, and how much is filled."""
        given = self.text, self.starts, self.places, self.shares, begin, end
        return self.kernels.count_rows(*given, self.slate, columns, counts, self.sizes)


class _Runs:
    """What several stretches had of each row, on the disk."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        self.folder, self.vocabulary = folder, vocabulary
        self.starts: list[np.ndarray] = []  # of each run, where each row begins in its files
        self.times = np.zeros(vocabulary, np.int64)

    def _files(self, run: int) -> list[Path]:
        return [self.folder / f"run-{run}.{name}" for name in ("columns", "counts")]

    def add(self, stretch: _OneStretch) -> None:
        paths, room = self._files(len(self.starts)), ROOM + self.vocabulary + 1
        columns, counts, row = np.empty(room, np.int32), np.empty(room, np.int64), 0
        with open(paths[0], "wb") as to_columns, open(paths[1], "wb") as to_counts:
            while row < self.vocabulary:
                row, filled = stretch.counted(row, self.vocabulary, columns, counts)
                to_columns.write(columns[:filled].data)
                to_counts.write(counts[:filled].data)
        self.times += stretch.times
        self.starts.append(np.concatenate(([0], np.cumsum(stretch.sizes))))

    def entries(self, begin: int, end: int, most: int) -> Entries:
        from forebear.kernels import cooccurrence as kernels

        starts = np.stack([mine[begin : end + 1] for mine in self.starts])
        first, lengths = starts[:, 0], starts[:, -1] - starts[:, 0]
        parts = [self._read(run, *cut) for run, cut in enumerate(zip(first.tolist(), lengths.tolist(), strict=True))]
        starts += (np.cumsum(lengths) - lengths - first)[:, None]  # where they begin, put one after the other
        columns, counts = np.empty(most + 1, np.int32), np.empty(most + 1, np.int64)
        sizes = np.zeros(end - begin, np.int64)
        given = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        filled = kernels.merge_rows(starts, *given, kernels.slate(self.vocabulary), columns, counts, sizes)
        return sizes, columns[:filled], counts[:filled]

    def _read(self, run: int, first: int, many: int) -> list[np.ndarray]:
        """Not memory-mapped: all that was read of it would still count as memory that is used."""
        kinds = np.dtype(np.int32), np.dtype(np.int64)
        pairs = zip(self._files(run), kinds, strict=True)
        return [np.fromfile(path, kind, many, offset=first * kind.itemsize) for path, kind in pairs]


def counted_rows(text: Text, window: int, folder: Path, max_memory: int, progress: Callable[[int], object]) -> Rows:
    """Reads the text; rows can then be asked for. What memory does not hold goes into the folder."""
    from forebear.kernels import cooccurrence as kernels

    shares = np.array([round(UNIT / distance) for distance in range(1, window + 1)], np.int64)
    words, whole = text.vocabulary, text.source.tokens + len(text.source) + 1
    wanted = max_memory - AN_ENTRY * max(LONGEST, ROOM + words) - A_WORD * words - AN_ENTRY * PIECE
    most = min(max(wanted // A_TOKEN, 4 * PIECE, 4 * window), np.iinfo(np.int32).max)  # places are small numbers
    stretch = np.empty(min(most, whole), np.int32)
    stretch[0], size, first, runs = kernels.BORDER, 1, 1, _Runs(folder, words)
    for number, piece in enumerate(text.pieces()):
        if size + len(piece) > len(stretch):
            last = size - window  # the last words still want those that follow them
            runs.add(_OneStretch(stretch[:size], first, last, words, shares))
            stretch[: 2 * window] = stretch[last - window : size].copy()
            size, first = 2 * window, window
        stretch[size : size + len(piece)] = piece
        size += len(piece)
        progress(min((number + 1) * PIECE, text.source.tokens))
    last_one = _OneStretch(stretch[:size], first, size, words, shares)
    if not runs.starts:
        return last_one
    runs.add(last_one)
    return runs


def bands(times: np.ndarray, window: int) -> Iterator[tuple[int, int, int]]:
    """Words from … to …, and how many entries their rows have at most: a few words each. The text alone decides."""
    words = len(times)
    most = np.minimum(times * 2 * window, words)
    for begin in range(0, words, BAND):
        step = BAND
        while step > 1 and int(most[begin : begin + BAND].sum()) * step > LONGEST * BAND:
            step //= 2
        for first in range(begin, min(begin + BAND, words), step):
            last = min(first + step, begin + BAND, words)
            yield first, last, int(most[first:last].sum())


def tiled(rows: Rows, begin: int, end: int, most: int) -> Entries:
    """All entries of some words: ids of rows and columns, and counts, tile after tile, shuffled inside each."""
    from forebear.kernels import cooccurrence as kernels

    sizes, columns, counts = rows.entries(begin, end, most)
    made = np.empty(len(columns), np.int32), np.empty(len(columns), np.int32), np.empty(len(columns), np.float32)
    seed = np.uint64((begin + 1) * SCATTER % (1 << 64))
    kernels.tiled(begin, sizes, columns, counts, BAND, float(UNIT), seed, *made)
    return made
