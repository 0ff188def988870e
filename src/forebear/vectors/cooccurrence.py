"""Which words stand together in a text and how near, counted once in bounded memory and kept on the disk.

The text is read in stretches. Of each, every word's row is counted and written (a run), and at last the runs of every
row are added up. Shares of distance are whole numbers of a fine unit: the counts are exact, and the same bits follow
whatever memory there was and however many runs it took.
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
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.kernels import cooccurrence as kernels
from forebear.objectives.every_text import UNITS
from forebear.text import workfolder
from forebear.text.aside import cache, sync_folder, synced, write_json
from forebear.text.portion import Portion, ranges

FORMAT = "forebear-cooccurrences/1"
FACTS = "cooccurrences.json"
ARRAYS = {"rows": np.int32, "columns": np.int32, "counts": np.float32}
MEMORY = 1 << 30  # bytes, unless somebody says otherwise
UNIT = math.lcm(*range(1, 17))  # a word beside another adds so many; at most distances up to 16 its part is exact
PIECE = 1 << 20  # tokens of the text that are read at a time
ROOM = 1 << 20  # entries that are counted before they are written
A_TOKEN = 8  # bytes that counting wants for each token of a stretch: its word, and where words stand
BAND = 64  # words whose rows, or columns, are learned together: what of them is moved then stays near the processor
LONGEST = 1 << 23  # entries of a band, at most; bands of frequent words have fewer words

Progress = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class Cooccurrences:
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
    def open(cls, folder: Path) -> Cooccurrences:
        try:
            facts = json.loads((folder / FACTS).read_text())
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
            right = facts["format"] == FORMAT and all(
                array.dtype == ARRAYS[name] and array.shape == (facts["entries"],) for name, array in arrays.items()
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ForebearError("these counts are damaged", file=folder, remedy="remove the folder") from error
        if not right:
            raise ForebearError("these counts are not what they should be", file=folder, remedy="remove the folder")
        return cls(**arrays, facts=facts)

    def __len__(self) -> int:
        return len(self.rows)


def counted(
    source: Portion,
    *,
    vocabulary: int,
    window: int,
    unit: str,
    never: frozenset[int] = frozenset(),
    max_memory: int = MEMORY,
    progress: Progress | None = None,
) -> Cooccurrences:
    """The words within `window` words of each other in one unit of the text: opened if they were counted before.

    vocabulary  how many ids there are
    unit        what no window reaches beyond: a "sentence" or a "document"
    never       ids that are skipped, as if they did not stand in the text
    max_memory  bytes; more are wanted for much text than for little, and what does not fit goes to the disk
    """
    if unit not in UNITS:
        raise BadInput(f"no unit of text is named {unit!r}", remedy=f"there are: {', '.join(UNITS)}")
    if window < 1:
        raise BadInput(f"a window of {window} words", remedy="choose a window of 1 or more, such as 10")
    key = _key(source, vocabulary, window, unit, never)
    target = cache() / "cooccurrences" / key[:32]
    if (target / FACTS).exists():
        try:
            return Cooccurrences.open(target)
        except ForebearError:  # damaged: made anew
            pass
    with _disk_told(target), workfolder.held(target) as work:
        if not (target / FACTS).exists():  # another process may have made it while we waited
            _emptied(work)
            text = _Text(source.by_sentence() if unit == "sentence" else source, vocabulary, never)
            _Counting(text, window, work, max_memory, progress or (lambda done, total: None)).count(key)
            if target.exists():
                shutil.rmtree(target)
            os.replace(work / "whole", target)
            sync_folder(target.parent)
        _emptied(work)
    return Cooccurrences.open(target)


class _Text:
    """A portion as ranks of words by falling frequency, a piece at a time, with a border after every unit.

    kept  (words,) the id of each rank
    """

    def __init__(self, source: Portion, vocabulary: int, never: frozenset[int]) -> None:
        self.ids, self.spans = source.corpus.ids, source.spans
        self.ends = np.cumsum(self.spans[:, 1] - self.spans[:, 0])
        self.tokens = int(self.ends[-1]) if len(self.ends) else 0
        self.times = np.zeros(vocabulary, np.int64)
        for ids, _ in self._pieces():
            times = np.bincount(ids, minlength=vocabulary)
            if len(times) > vocabulary:
                raise BadInput(f"the text holds the id {len(times) - 1}, and there are {vocabulary} words")
            self.times += times
        self.times[list(never)] = 0
        self.kept = np.argsort(-self.times, kind="stable")[: np.count_nonzero(self.times)]
        self.ranks = np.full(vocabulary, -2, np.int32)
        self.ranks[self.kept] = np.arange(len(self.kept), dtype=np.int32)

    def _pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Some ids, and after how many of them a unit ends."""
        for begin in range(0, self.tokens, PIECE):
            end = min(begin + PIECE, self.tokens)
            first, last = np.searchsorted(self.ends, [begin, end - 1], side="right")
            starts, sizes = self.spans[first : last + 1, 0].copy(), np.diff(self.spans[first : last + 1])[:, 0]
            ends = self.ends[first : last + 1]
            lead = begin - int(ends[0] - sizes[0])  # of the first unit, what was in the piece before
            starts[0] += lead
            sizes[0] -= lead
            sizes[-1] -= int(ends[-1]) - min(end, int(ends[-1]))
            yield self.ids[ranges(starts, sizes)], ends[ends <= end] - begin

    def pieces(self) -> Iterator[np.ndarray]:
        for ids, ends in self._pieces():
            ranks = np.insert(self.ranks[ids], ends, kernels.BORDER)
            yield ranks[ranks >= kernels.BORDER]


class _Counting:
    """One count on its way: runs are written into `work`, then the whole."""

    def __init__(self, text: _Text, window: int, work: Path, max_memory: int, progress: Progress) -> None:
        self.text, self.window, self.work, self.progress = text, window, work, progress
        self.words = len(text.kept)
        self.shares = np.array([round(UNIT / distance) for distance in range(1, window + 1)], np.int64)
        self.room = ROOM + self.words
        fixed = 12 * self.room + 40 * self.words + 32 * PIECE
        self.stretch = max((max_memory - fixed) // A_TOKEN, PIECE, 4 * window)
        self.runs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def count(self, key: str) -> None:
        total = 2 * self.text.tokens
        held, done = [np.array([kernels.BORDER], np.int32)], 0
        size, first = 1, 1
        for piece in self.text.pieces():
            held.append(piece)
            size += len(piece)
            done = min(done + PIECE, self.text.tokens)
            if size >= self.stretch:
                text = np.concatenate(held)
                self._run(text, first, size - self.window)
                held = [text[size - 2 * self.window :]]  # the last words still want those that follow them
                size, first = len(held[0]), self.window
            self.progress(done, total)
        if size > first:
            self._run(np.concatenate(held), first, size)
        del held
        self._whole(key, total)

    def _run(self, text: np.ndarray, first: int, last: int) -> None:
        """Counts the rows of the words from `first` to `last`, and writes them."""
        number = len(self.runs)
        starts, places = kernels.placed(text, self.words, first, last)
        sums, found = np.zeros(self.words, np.int64), np.zeros(self.words, np.int32)
        columns, counts = np.empty(self.room, np.int32), np.empty(self.room, np.int64)
        sizes, row = np.zeros(self.words, np.int64), 0
        paths = [self.work / f"run-{number}.{name}" for name in ("columns", "counts")]
        with open(paths[0], "wb") as to_columns, open(paths[1], "wb") as to_counts:
            while row < self.words:
                row, filled = kernels.count_rows(
                    text, starts, places, self.shares, row, sums, found, columns, counts, sizes
                )
                to_columns.write(columns[:filled].data)
                to_counts.write(counts[:filled].data)
        ends = np.concatenate(([0], np.cumsum(sizes)))
        self.runs.append((ends, _mapped(paths[0], np.int32), _mapped(paths[1], np.int64)))

    def _whole(self, key: str, total: int) -> None:
        """Adds up the runs, band by band, and writes all entries, tile by tile."""
        folder = self.work / "whole"
        folder.mkdir()
        borders = self._borders()
        bands = np.repeat(np.arange(len(borders) - 1, dtype=np.int32), np.diff(borders))
        sums, found = np.zeros(self.words, np.int64), np.zeros(self.words, np.int32)
        entries = 0
        with ExitStack() as open_files:
            files = {name: open_files.enter_context(open(folder / f".{name}", "wb")) for name in ARRAYS}
            for number, (begin, end) in enumerate(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)):
                band = self._band(begin, end, bands, sums, found, number)
                for name, array in band.items():
                    files[name].write(array.data)
                entries += len(band["rows"])
                self.progress(total // 2 + total // 2 * end // self.words, total)
        for name, kind in ARRAYS.items():
            _with_head(folder / f".{name}", folder / f"{name}.npy", kind, entries)
        facts = {"format": FORMAT, "key": key, "entries": entries, "words": self.words, "window": self.window}
        write_json(folder / FACTS, facts | {"tokens": int(self.text.times.sum())})
        self.progress(total, total)

    def _borders(self) -> np.ndarray:
        """Where bands of words begin: each has few words and not too many entries. The text alone decides."""
        longest = np.minimum(self.text.times[self.text.kept] * 2 * self.window, self.words)
        borders, held = [0], 0
        for word, size in enumerate(longest.tolist()):
            if word > borders[-1] and (word - borders[-1] == BAND or held + size > LONGEST):
                borders.append(word)
                held = 0
            held += size
        return np.array([*borders, self.words] if self.words else [0])

    def _band(
        self, begin: int, end: int, bands: np.ndarray, sums: np.ndarray, found: np.ndarray, number: int
    ) -> dict[str, np.ndarray]:
        starts, parts, at = np.zeros((len(self.runs), end - begin + 1), np.int64), [], 0
        for run, (ends, columns, counts) in enumerate(self.runs):
            mine = slice(ends[begin], ends[end])
            parts.append((columns[mine], counts[mine]))
            starts[run] = at + ends[begin : end + 1] - ends[begin]
            at += len(parts[-1][0])
        columns, counts = (np.concatenate(all_of) for all_of in zip(*parts, strict=True))
        rows, told, added = np.empty(at, np.int32), np.empty(at, np.int32), np.empty(at, np.int64)
        filled = kernels.merge_rows(starts, columns, counts, sums, found, rows, told, added)
        order, tiles = np.empty(filled, np.int64), np.zeros(int(bands[-1]) + 2, np.int64)
        seed = np.uint64(2 * number + 1)
        kernels.tile(rows[:filled], told[:filled], added[:filled], bands, seed, order, tiles)
        kept = self.text.kept.astype(np.int32)
        return {
            "rows": kept[begin + rows[order]],
            "columns": kept[told[order]],
            "counts": (added[order] / UNIT).astype(np.float32),
        }


def _key(source: Portion, vocabulary: int, window: int, unit: str, never: frozenset[int]) -> str:
    """All that decides what the counts are, and in which order."""
    told = [FORMAT, source.corpus.key, vocabulary, window, unit, sorted(never), UNIT, BAND, LONGEST]
    digest = hashlib.sha256(json.dumps(told).encode())
    digest.update(np.ascontiguousarray(source.units, np.int64).data)
    return digest.hexdigest()


def _mapped(path: Path, kind: type) -> np.ndarray:
    return np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)


def _with_head(data: Path, target: Path, kind: type, entries: int) -> None:
    """Numbers as a .npy file: how many there are is known only when all are written."""
    with open(target, "wb") as file, open(data, "rb") as numbers:
        head = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (entries,)}
        np.lib.format.write_array_header_1_0(file, head)
        shutil.copyfileobj(numbers, file, 1 << 20)
        synced(file)
    data.unlink()


def _emptied(work: Path) -> None:
    """What a count that was broken off left behind cannot be gone on with."""
    for item in work.iterdir():
        shutil.rmtree(item) if item.is_dir() else item.unlink()


@contextmanager
def _disk_told(target: Path) -> Iterator[None]:
    """What a disk refuses, in words: these files lie where things are kept that can be made again."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space there, or set FOREBEAR_CACHE to a folder on another disk"
        place = error.filename if isinstance(error.filename, str) else target
        other = "set FOREBEAR_CACHE to a folder that can be written"
        raise ForebearError(error.strerror or str(error), file=place, remedy=remedy if full else other) from error
