"""Which words stand together in a text, and how near: a table of counts that is made once and kept on the disk.

Shares of distance are whole numbers of a fine unit, so the counts are exact, and their order follows from the text: the
same bits come about whatever memory there was.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from forebear.data.corpus.subset import Subset, concat_ranges
from forebear.data.io import atomic
from forebear.data.io.atomic import cache_folder, sync_file, sync_folder, write_json
from forebear.errors import ForebearError, InputError
from forebear.objectives.batch import Batch, BatchKey, shuffled_positions
from forebear.objectives.whole_texts import TEXT_UNITS

# Counting which words stand together, row by row, with no more memory than was given.
#
# The text is read in stretches. Where one holds all of it, every row is counted and done. Else what a stretch has of each
# row is written down (a run), and at last the runs of each row are added up.


WEIGHT_DENOMINATOR = math.lcm(
    *range(1, 17)
)  # what a word beside another counts: up to 16 words away, its parts are whole numbers
PIECE = 1 << 20  # tokens of the text that are read at a time
ROOM = 1 << 20  # entries that are held before they are written
A_TOKEN, AN_ENTRY, A_WORD = 8, 36, 64  # bytes that are wanted for each: of a stretch; held at a time; of the vocabulary
BAND_ROWS = 64  # words whose rows, and columns, make up a tile
MAX_CHUNK_TOKENS = 1 << 22  # entries of a band, if it has more than one word: those of frequent words have fewer words
SCATTER = 0x9E3779B97F4A7C15  # odd, and its bits in no order: what is multiplied by it looks like chance

ProgressFn = Callable[[int, int], object]
Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # how many each row has; their columns and counts, row after row


@dataclass(frozen=True, eq=False)
class TokenChunks:
    """A portion of a corpus, a piece at a time.

    source      unit by unit: words of different ones never stand together
    vocabulary  how many ids there are
    never       ids that are skipped, as if they did not stand in the text
    """

    source: Subset
    vocabulary: int
    blocked_ids: frozenset[int]

    def chunks(self) -> Iterator[np.ndarray]:
        """int32 ids, with a border after every unit."""
        from forebear.kernels.cooccurrence import ROW_BORDER

        spans = self.source.spans
        ends, skipped = np.cumsum(spans[:, 1] - spans[:, 0]), np.zeros(self.vocabulary, bool)
        skipped[list(self.blocked_ids)] = True
        for begin in range(0, self.source.num_tokens, PIECE):
            end = min(begin + PIECE, self.source.num_tokens)
            first, last = np.searchsorted(ends, [begin, end - 1], side="right")
            starts, stops, over = spans[first : last + 1, 0].copy(), spans[first : last + 1, 1], ends[first : last + 1]
            starts[0] += begin - int(over[0] - (stops[0] - starts[0]))  # what was in the piece before
            sizes = stops - starts
            sizes[-1] -= int(over[-1]) - min(int(over[-1]), end)
            ids = self.source.corpus.ids[concat_ranges(starts, sizes)].astype(np.int32)
            if int(ids.max()) >= self.vocabulary:
                raise InputError(f"the text holds the id {ids.max()}, and there are {self.vocabulary} words")
            borders = over[over <= end] - begin
            yield np.insert(ids, borders, ROW_BORDER)[np.insert(~skipped[ids], borders, True)]


class CooccurrenceRows(Protocol):
    """What was counted."""

    @property
    def row_counts(self) -> np.ndarray:
        """(vocabulary,) how often each word stands there."""
        ...

    def entries(self, begin: int, end: int, most: int) -> Entries:
        """What the rows from `begin` to `end` have, which is so much at most."""
        ...


class _InMemoryRows:
    """A text that is all in memory: rows are counted when they are asked for."""

    def __init__(self, text: np.ndarray, first: int, last: int, vocabulary: int, shares: np.ndarray) -> None:
        from forebear.kernels import cooccurrence as kernels

        self.kernels, self.text, self.shares = kernels, text, shares
        self.starts, self.places = kernels.word_positions(text, vocabulary, first, last)
        self.slate, self.sizes = kernels.row_accumulator(vocabulary), np.zeros(vocabulary, np.int64)

    @property
    def row_counts(self) -> np.ndarray:
        return np.diff(self.starts)

    def entries(self, begin: int, end: int, most: int) -> Entries:
        columns, counts = np.empty(most + 1, np.int32), np.empty(most + 1, np.int64)
        _, filled = self.counted(begin, end, columns, counts)
        return self.sizes[begin:end], columns[:filled], counts[:filled]

    def counted(self, begin: int, end: int, columns: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
        """The next row that there was no room for, and how much is filled."""
        given = self.text, self.starts, self.places, self.shares, begin, end
        return self.kernels.count_rows(*given, self.slate, columns, counts, self.sizes)


class _OnDiskRows:
    """What several stretches had of each row, on the disk."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        self.folder, self.vocabulary = folder, vocabulary
        self.starts: list[np.ndarray] = []  # of each run, where each row begins in its files
        self.row_counts = np.zeros(vocabulary, np.int64)

    def _files(self, run: int) -> list[Path]:
        return [self.folder / f"run-{run}.{name}" for name in ("columns", "counts")]

    def add(self, stretch: _InMemoryRows) -> None:
        paths, room = self._files(len(self.starts)), ROOM + self.vocabulary + 1
        columns, counts, row = np.empty(room, np.int32), np.empty(room, np.int64), 0
        with open(paths[0], "wb") as to_columns, open(paths[1], "wb") as to_counts:
            while row < self.vocabulary:
                row, filled = stretch.counted(row, self.vocabulary, columns, counts)
                to_columns.write(columns[:filled].data)
                to_counts.write(counts[:filled].data)
        self.row_counts += stretch.row_counts
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
        filled = kernels.merge_rows(starts, *given, kernels.row_accumulator(self.vocabulary), columns, counts, sizes)
        return sizes, columns[:filled], counts[:filled]

    def _read(self, run: int, first: int, many: int) -> list[np.ndarray]:
        """Not memory-mapped: all that was read of it would still count as memory that is used."""
        kinds = np.dtype(np.int32), np.dtype(np.int64)
        pairs = zip(self._files(run), kinds, strict=True)
        return [np.fromfile(path, kind, many, offset=first * kind.itemsize) for path, kind in pairs]


def count_rows(
    text: TokenChunks, window: int, folder: Path, max_memory: int, progress: Callable[[int], object]
) -> CooccurrenceRows:
    """Reads the text; rows can then be asked for. What memory does not hold goes into the folder."""
    from forebear.kernels import cooccurrence as kernels

    shares = np.array([round(WEIGHT_DENOMINATOR / distance) for distance in range(1, window + 1)], np.int64)
    words, whole = text.vocabulary, text.source.num_tokens + len(text.source) + 1
    wanted = max_memory - AN_ENTRY * max(MAX_CHUNK_TOKENS, ROOM + words) - A_WORD * words - AN_ENTRY * PIECE
    most = min(max(wanted // A_TOKEN, 4 * PIECE, 4 * window), np.iinfo(np.int32).max)  # places are small numbers
    stretch = np.empty(min(most, whole), np.int32)
    stretch[0], size, first, runs = kernels.ROW_BORDER, 1, 1, _OnDiskRows(folder, words)
    for number, piece in enumerate(text.chunks()):
        if size + len(piece) > len(stretch):
            last = size - window  # the last words still want those that follow them
            runs.add(_InMemoryRows(stretch[:size], first, last, words, shares))
            stretch[: 2 * window] = stretch[last - window : size].copy()
            size, first = 2 * window, window
        stretch[size : size + len(piece)] = piece
        size += len(piece)
        progress(min((number + 1) * PIECE, text.source.num_tokens))
    last_one = _InMemoryRows(stretch[:size], first, size, words, shares)
    if not runs.starts:
        return last_one
    runs.add(last_one)
    return runs


def row_bands(times: np.ndarray, window: int) -> Iterator[tuple[int, int, int]]:
    """Words from … to …, and how many entries their rows have at most: a few words each. The text alone decides."""
    words = len(times)
    most = np.minimum(times * 2 * window, words)
    for begin in range(0, words, BAND_ROWS):
        step = BAND_ROWS
        while step > 1 and int(most[begin : begin + BAND_ROWS].sum()) * step > MAX_CHUNK_TOKENS * BAND_ROWS:
            step //= 2
        for first in range(begin, min(begin + BAND_ROWS, words), step):
            last = min(first + step, begin + BAND_ROWS, words)
            yield first, last, int(most[first:last].sum())


def tile_entries(rows: CooccurrenceRows, begin: int, end: int, most: int) -> Entries:
    """All entries of some words: ids of rows and columns, and counts, tile after tile, shuffled inside each."""
    from forebear.kernels import cooccurrence as kernels

    sizes, columns, counts = rows.entries(begin, end, most)
    made = np.empty(len(columns), np.int32), np.empty(len(columns), np.int32), np.empty(len(columns), np.float32)
    seed = np.uint64((begin + 1) * SCATTER % (1 << 64))
    kernels.tile_rows(begin, sizes, columns, counts, BAND_ROWS, float(WEIGHT_DENOMINATOR), seed, *made)
    return made


FORMAT = "forebear-cooccurrences/1"
FACTS, WHOLE = "cooccurrences.json", "whole"
ARRAYS = {"rows": np.int32, "columns": np.int32, "counts": np.float32}
DEFAULT_RAM = 1 << 30  # bytes, unless somebody says otherwise


@dataclass(frozen=True, eq=False)
class CooccurrenceTable:
    """Entries of a symmetric table, on the disk: how often a word (row) has another (column) beside it.

    rows, columns  (N,) ids of words
    counts         (N,) above 0: a word next to another counts 1, one that is d words away 1/d

    Entries stand in tiles, of some rows and some columns that are about equally frequent, and inside a tile they are
    shuffled: whoever goes through stretches of them finds the same words again and again, in no order.
    """

    rows: np.ndarray
    columns: np.ndarray
    counts: np.ndarray
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> CooccurrenceTable:
        try:
            facts = json.loads((folder / FACTS).read_text())
            arrays = {name: _mapped(folder / f"{name}.npy") for name in ARRAYS}
            right = facts["format"] == FORMAT and all(
                array.dtype == ARRAYS[name] and array.shape == (facts["entries"],) for name, array in arrays.items()
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise ForebearError("these counts are damaged", file=folder, hint="remove the folder") from error
        if not right:
            raise ForebearError("these counts are not what they should be", file=folder, hint="remove the folder")
        return cls(**arrays, facts=facts)

    def __len__(self) -> int:
        return len(self.rows)


def count_cooccurrences(
    source: Subset,
    *,
    vocabulary: int,
    window: int,
    unit: str,
    never: frozenset[int] = frozenset(),
    max_memory: int = DEFAULT_RAM,
    progress: ProgressFn | None = None,
) -> CooccurrenceTable:
    """The words within `window` words of each other in one unit of the text: opened if they were counted before.

    vocabulary  how many ids there are
    unit        what no window reaches beyond: a "sentence" or a "document"
    never       ids that are skipped, as if they did not stand in the text
    max_memory  bytes, but some 200 million are wanted in any case; what does not fit goes to the disk
    """
    if unit not in TEXT_UNITS:
        raise InputError(f"no unit of text is named {unit!r}", hint=f"there are: {', '.join(TEXT_UNITS)}")
    if window < 1:
        raise InputError(f"a window of {window} words", hint="choose a window of 1 or more, such as 10")
    key = _key(source, vocabulary, window, unit, never)
    target = cache_folder() / "cooccurrences" / key[:32]
    if (there := _already(target)) is not None:
        return there
    with _disk_told(target), atomic.lock_work_folder(target) as work, _emptied(work):
        if _already(target) is None:  # another process may have made it while we waited
            text = TokenChunks(source.by_sentence() if unit == "sentence" else source, vocabulary, never)
            _write(text, window, work, max_memory, progress or (lambda done, total: None), key)
            if target.exists():
                shutil.rmtree(target)
            os.replace(work / WHOLE, target)
            sync_folder(target.parent)
    return CooccurrenceTable.open(target)


def _already(target: Path) -> CooccurrenceTable | None:
    """What was counted before; None where it was not, or is damaged."""
    try:
        return CooccurrenceTable.open(target)
    except ForebearError:
        return None


def _write(text: TokenChunks, window: int, work: Path, max_memory: int, progress: ProgressFn, key: str) -> None:
    """Counts, and writes the table into the folder `whole` of the work folder."""
    folder, entries, total = work / WHOLE, 0, 2 * text.source.num_tokens
    folder.mkdir()
    rows = count_rows(text, window, work, max_memory, lambda done: progress(done, total))
    with ExitStack() as files:
        opened = [files.enter_context(open(folder / f".{name}", "wb")) for name in ARRAYS]
        for begin, end, most in row_bands(rows.row_counts, window):
            made = tile_entries(rows, begin, end, most)
            for file, array in zip(opened, made, strict=True):
                file.write(array.data)
            entries += len(made[0])
            progress((total + total * end // text.vocabulary) // 2, total)
    for name, kind in ARRAYS.items():
        _with_head(folder / f".{name}", folder / f"{name}.npy", kind, entries)
    facts = {"format": FORMAT, "key": key, "entries": entries, "tokens": int(rows.row_counts.sum()), "window": window}
    write_json(folder / FACTS, facts | {"words": int(np.count_nonzero(rows.row_counts))})


def _key(source: Subset, vocabulary: int, window: int, unit: str, never: frozenset[int]) -> str:
    """All that decides what the counts are, and in which order."""
    told = [
        FORMAT,
        source.corpus.key,
        vocabulary,
        window,
        unit,
        sorted(never),
        WEIGHT_DENOMINATOR,
        BAND_ROWS,
        MAX_CHUNK_TOKENS,
    ]
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(np.ascontiguousarray(source.units, np.int64).data)
    return digest.hexdigest()


def _mapped(path: Path) -> np.ndarray:
    """An array on the disk as a plain one: of numpy's own kind for these, small parts are slow to take."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _with_head(data: Path, target: Path, kind: type, entries: int) -> None:
    """Numbers as a .npy file: how many there are is known only when all are written."""
    with open(target, "wb") as file, open(data, "rb") as numbers:
        head = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (entries,)}
        np.lib.format.write_array_header_1_0(file, head)
        shutil.copyfileobj(numbers, file, 1 << 20)
        sync_file(file)
    data.unlink()


@contextmanager
def _emptied(work: Path) -> Iterator[None]:
    """A folder that is empty before and after, however it ends: a count that was broken off cannot be gone on with."""

    def empty() -> None:
        for item in work.iterdir():
            shutil.rmtree(item) if item.is_dir() else item.unlink()

    empty()
    try:
        yield
    finally:
        empty()


@contextmanager
def _disk_told(target: Path) -> Iterator[None]:
    """What a disk refuses, in words: these files lie where things are kept that can be made again."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some space there, or set FOREBEAR_CACHE to a folder on another disk"
        place = error.filename if isinstance(error.filename, str) else target
        other = "set FOREBEAR_CACHE to a folder that can be written"
        raise ForebearError(error.strerror or str(error), file=place, hint=hint if full else other) from error


# Show which words stand together, and how often: what GloVe learns from.


STRETCHES = 1024  # about so many the entries are cut into, each shown as one
LEAST, MOST = 16, 4096  # entries of a stretch


@dataclass(frozen=True)
class Cooccurrences:
    """Entries of the table that says which words stand together, each once an epoch: the log of its count is asked.

    The table is counted once, before the first batch. It is cut into stretches of entries that share words, and their
    order is another one in every epoch. A batch is one row: inputs `tokens` and `beside` (T,) are the two words of an
    entry, `weights` (T,) how much it matters; the target `together` (T,) is the log of its count.

    vocabulary  how many ids there are
    never       ids that are skipped, as if they did not stand in the text
    window      how many words away another one may be
    unit        what no window reaches beyond: a "sentence" or a "document"
    largest     from this count on all matter alike
    power       below, an entry matters as much as its share of `largest` to this power
    max_memory  bytes that counting may use
    """

    target_heads: ClassVar[tuple[str, ...]] = ("together",)  # known without counting
    batch_unit: ClassVar[str] = "entries"  # of the table, and no tokens

    vocabulary: int
    blocked_ids: frozenset[int]
    window: int
    text_unit: str
    count_cap: float
    power: float
    ram: int = DEFAULT_RAM

    def __post_init__(self) -> None:
        if self.text_unit not in TEXT_UNITS:
            raise InputError(f"no unit of text is named {self.text_unit!r}", hint=f"there are: {', '.join(TEXT_UNITS)}")

    def prepass(self, source: Subset, progress: ProgressFn | None = None) -> None:
        """Counts, if this text was not counted before."""
        self.counts(source, progress)

    def counts(self, source: Subset, progress: ProgressFn | None = None) -> CooccurrenceTable:
        """The whole table."""
        settings = (self.vocabulary, self.blocked_ids, self.window, self.text_unit, self.ram)
        if (known := _opened(source)).get(settings) is None:
            known[settings] = count_cooccurrences(
                source,
                vocabulary=self.vocabulary,
                window=self.window,
                unit=self.text_unit,
                never=self.blocked_ids,
                max_memory=self.ram,
                progress=progress,
            )
        return known[settings]

    def steps(self, source: Subset, size: int) -> int:
        return max(1, -(-len(self.counts(source)) // size))

    def batch(self, source: Subset, size: int, moment: BatchKey) -> Batch:
        table = self.counts(source)
        epoch, number = divmod(moment.step, self.steps(source, size))
        begin, end = number * size, min((number + 1) * size, len(table))
        stretches = _stretches(len(table), begin, end, moment.seed, epoch)

        def taken(array: np.ndarray) -> np.ndarray:
            return np.concatenate([np.zeros(0, array.dtype), *(array[first:last] for first, last in stretches)])

        logs = taken(table.counts)
        np.log(logs, out=logs)
        # A power by way of logs, which numpy takes of many numbers at once.
        weights = logs * np.float32(self.power)
        weights -= np.float32(self.power * np.log(self.count_cap))
        np.exp(np.minimum(weights, 0, out=weights), out=weights)
        tokens = taken(table.rows)
        inputs = {"tokens": tokens, "lengths": np.array([len(tokens)]), "beside": taken(table.columns)}
        return Batch(inputs | {"weights": weights}, {"together": logs})

    def check(self, source: Subset) -> None:
        units, before = source.by_sentence() if self.text_unit == "sentence" else source, np.zeros(0, np.int32)
        for piece in TokenChunks(units, self.vocabulary, self.blocked_ids).chunks():
            words = np.append(before, piece) >= 0
            if (words[1:] & words[:-1]).any():
                return
            before = piece[-1:]
        raise InputError(f"no {self.text_unit} of this text has two words that stand together", hint="give more text")


def _stretches(entries: int, begin: int, end: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """Where the entries number `begin` to `end` of this epoch's order stand in the table.

    Stretches are shuffled whole; what is left of the table behind the last of them comes last.
    """
    size = min(max(entries // STRETCHES, LEAST), MOST)
    whole = entries // size
    numbers = np.arange(begin // size, -(-end // size))
    starts = numbers * size
    inside = numbers < whole
    if inside.any():
        starts[inside] = size * shuffled_positions(numbers[inside], whole, seed=seed, epoch=epoch)
    first = np.maximum(numbers * size, begin) - numbers * size
    last = np.minimum((numbers + 1) * size, end) - numbers * size
    return list(zip((starts + first).tolist(), (starts + last).tolist(), strict=True))


@lru_cache(maxsize=8)
def _opened(source: Subset) -> dict[tuple[object, ...], CooccurrenceTable]:
    """The tables of a text that are open."""
    return {}
