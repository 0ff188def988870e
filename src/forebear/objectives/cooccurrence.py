"""Co-occurrence counts for GloVe: counted once in bounded memory, cached on disk, and batched for training.

Distance weights are integers over a common denominator, so counts are exact, and the order of entries depends on the
text alone: the table is bit-identical for any memory limit.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from forebear.data.corpus.subset import Subset
from forebear.data.io.arrays import NpyAppender
from forebear.data.io.atomic import (
    cache_folder,
    clear_folder,
    explain_disk_errors,
    lock_work_folder,
    sync_folder,
    write_json,
)
from forebear.data.io.sources import ProgressFn
from forebear.errors import ForebearError, InputError
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.ordered_texts import require_text_unit
from forebear.objectives.shuffle import shuffled_positions

# --- Counting in bounded memory ---
#
# The text is read in chunks. If one chunk holds all of it, rows are counted in memory. Otherwise the rows of each chunk
# are written to disk as a sorted run, and the runs are merged row by row at the end (external sorting).


WEIGHT_DENOMINATOR = math.lcm(*range(1, 17))  # weight of adjacent words: divisible by all distances up to 16
CHUNK_TOKENS = 1 << 20  # tokens read at a time
BUFFER_ENTRIES = 1 << 20  # entries buffered before they are written
# Memory per token of a chunk, per buffered entry, and per word of the vocabulary.
BYTES_PER_TOKEN, BYTES_PER_ENTRY, BYTES_PER_WORD = 8, 36, 64
TILE_SIZE = 64  # rows and columns of a tile
MAX_BAND_ENTRIES = 1 << 22  # entries of a band; bands of frequent words have fewer words
SEED_MULTIPLIER = 0x9E3779B97F4A7C15  # odd with irregular bits: spreads consecutive seeds

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # sizes of rows; their columns and counts, concatenated


@dataclass(frozen=True, eq=False)
class TokenChunks:
    """A subset of a corpus in chunks.

    Attributes:
        source: Units (sentences or documents); windows do not cross them.
        vocab_size: Vocabulary size.
        ignored_ids: Ids that are skipped as if they were not in the text.
    """

    source: Subset
    vocab_size: int
    ignored_ids: frozenset[int]

    def chunks(self) -> Iterator[np.ndarray]:
        """int32 ids with a boundary marker after every unit."""
        from forebear.kernels.cooccurrence import UNIT_SEPARATOR

        is_ignored = np.zeros(self.vocab_size, bool)
        is_ignored[list(self.ignored_ids)] = True
        unit_ends, num_tokens = self.source.token_ends, self.source.num_tokens
        for begin in range(0, num_tokens, CHUNK_TOKENS):
            end = min(begin + CHUNK_TOKENS, num_tokens)
            ids, sizes = self.source.token_slice(begin, end)
            if int(ids.max()) >= self.vocab_size:
                raise InputError(f"the text holds the id {ids.max()}, and there are {self.vocab_size} words")
            is_cut = int(unit_ends[np.searchsorted(unit_ends, end)] > end)  # the last unit continues in the next chunk
            boundaries = np.cumsum(sizes)[: len(sizes) - is_cut]
            yield np.insert(ids, boundaries, UNIT_SEPARATOR)[np.insert(~is_ignored[ids], boundaries, True)]


class CooccurrenceRows(Protocol):
    """Counted rows of the co-occurrence matrix."""

    @property
    def row_counts(self) -> np.ndarray:
        """(vocab_size,) frequency of each word."""
        ...

    def entries(self, begin: int, end: int, max_entries: int) -> Entries:
        """The entries of rows `begin` to `end`, at most `max_entries`."""
        ...


class _InMemoryRows:
    """Rows of a text in memory, counted on demand."""

    def __init__(self, text: np.ndarray, first: int, last: int, vocab_size: int, weights: np.ndarray) -> None:
        from forebear.kernels import cooccurrence as kernels

        self.kernels, self.text, self.weights = kernels, text, weights
        self.starts, self.positions = kernels.word_positions(text, vocab_size, first, last)
        self.accumulator, self.sizes = kernels.row_accumulator(vocab_size), np.zeros(vocab_size, np.int64)

    @property
    def row_counts(self) -> np.ndarray:
        return np.diff(self.starts)

    def entries(self, begin: int, end: int, max_entries: int) -> Entries:
        columns, counts = np.empty(max_entries + 1, np.int32), np.empty(max_entries + 1, np.int64)
        _, num_entries = self.count_into(begin, end, columns, counts)
        return self.sizes[begin:end], columns[:num_entries], counts[:num_entries]

    def count_into(self, begin: int, end: int, columns: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
        """Fill the arrays; return the first row that did not fit, and the number of filled entries."""
        inputs = self.text, self.starts, self.positions, self.weights, begin, end
        return self.kernels.count_rows(*inputs, self.accumulator, columns, counts, self.sizes)


class _OnDiskRows:
    """Sorted runs on disk, each with the rows of one chunk; rows are merged on demand."""

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self.folder, self.vocab_size = folder, vocab_size
        self.starts: list[np.ndarray] = []  # for each run, the start of each row in its files
        self.row_counts = np.zeros(vocab_size, np.int64)

    def _files(self, run: int) -> list[Path]:
        return [self.folder / f"run-{run}.{name}" for name in ("columns", "counts")]

    def add(self, counted_rows: _InMemoryRows) -> None:
        paths, capacity = self._files(len(self.starts)), BUFFER_ENTRIES + self.vocab_size + 1
        columns, counts, row = np.empty(capacity, np.int32), np.empty(capacity, np.int64), 0
        with open(paths[0], "wb") as to_columns, open(paths[1], "wb") as to_counts:
            while row < self.vocab_size:
                row, num_entries = counted_rows.count_into(row, self.vocab_size, columns, counts)
                to_columns.write(columns[:num_entries].data)
                to_counts.write(counts[:num_entries].data)
        self.row_counts += counted_rows.row_counts
        self.starts.append(np.concatenate(([0], np.cumsum(counted_rows.sizes))))

    def entries(self, begin: int, end: int, max_entries: int) -> Entries:
        from forebear.kernels import cooccurrence as kernels

        starts = np.stack([run_starts[begin : end + 1] for run_starts in self.starts])
        first, lengths = starts[:, 0], starts[:, -1] - starts[:, 0]
        run_arrays = [
            self._read(run, *extent) for run, extent in enumerate(zip(first.tolist(), lengths.tolist(), strict=True))
        ]
        starts += (np.cumsum(lengths) - lengths - first)[:, None]  # starts in the concatenated arrays
        columns, counts = np.empty(max_entries + 1, np.int32), np.empty(max_entries + 1, np.int64)
        sizes = np.zeros(end - begin, np.int64)
        arrays_of_runs = [np.concatenate(arrays) for arrays in zip(*run_arrays, strict=True)]
        num_entries = kernels.merge_rows(
            starts, *arrays_of_runs, kernels.row_accumulator(self.vocab_size), columns, counts, sizes
        )
        return sizes, columns[:num_entries], counts[:num_entries]

    def _read(self, run: int, first: int, count: int) -> list[np.ndarray]:
        """Read without memory mapping, whose pages would count as used memory."""
        dtypes = np.dtype(np.int32), np.dtype(np.int64)
        pairs = zip(self._files(run), dtypes, strict=True)
        return [np.fromfile(path, dtype, count, offset=first * dtype.itemsize) for path, dtype in pairs]


def count_rows(
    text: TokenChunks, window: int, folder: Path, max_memory: int, progress: Callable[[int], object]
) -> CooccurrenceRows:
    """Read the text and return its rows; what exceeds the memory limit goes to the folder."""
    from forebear.kernels import cooccurrence as kernels

    weights = np.array([round(WEIGHT_DENOMINATOR / distance) for distance in range(1, window + 1)], np.int64)
    num_words, text_size = text.vocab_size, text.source.num_tokens + len(text.source) + 1
    num_buffered = max(MAX_BAND_ENTRIES, BUFFER_ENTRIES + num_words) + CHUNK_TOKENS
    available = max_memory - BYTES_PER_ENTRY * num_buffered - BYTES_PER_WORD * num_words
    capacity = max(available // BYTES_PER_TOKEN, 4 * CHUNK_TOKENS, 4 * window)
    buffer = np.empty(min(capacity, np.iinfo(np.int32).max, text_size), np.int32)  # positions are int32
    buffer[0], text_end, first, runs = kernels.UNIT_SEPARATOR, 1, 1, _OnDiskRows(folder, num_words)
    for index, chunk in enumerate(text.chunks()):
        if text_end + len(chunk) > len(buffer):
            last = text_end - window  # the last words are counted with the next chunk, which has their right contexts
            runs.add(_InMemoryRows(buffer[:text_end], first, last, num_words, weights))
            buffer[: 2 * window] = buffer[last - window : text_end].copy()
            text_end, first = 2 * window, window
        buffer[text_end : text_end + len(chunk)] = chunk
        text_end += len(chunk)
        progress(min((index + 1) * CHUNK_TOKENS, text.source.num_tokens))
    last_rows = _InMemoryRows(buffer[:text_end], first, text_end, num_words, weights)
    if not runs.starts:
        return last_rows
    runs.add(last_rows)
    return runs


def row_bands(counts: np.ndarray, window: int) -> Iterator[tuple[int, int, int]]:
    """(first, last, maximum entries) of bands of a few words each; they depend on the text alone."""
    num_words = len(counts)
    max_entries = np.minimum(counts * 2 * window, num_words)
    for begin in range(0, num_words, TILE_SIZE):
        step = TILE_SIZE
        while step > 1 and int(max_entries[begin : begin + TILE_SIZE].sum()) * step > MAX_BAND_ENTRIES * TILE_SIZE:
            step //= 2
        for first in range(begin, min(begin + TILE_SIZE, num_words), step):
            last = min(first + step, begin + TILE_SIZE, num_words)
            yield first, last, int(max_entries[first:last].sum())


def tile_entries(rows: CooccurrenceRows, begin: int, end: int, max_entries: int) -> Entries:
    """All entries of some words (rows, columns, counts), tile by tile, shuffled within each."""
    from forebear.kernels import cooccurrence as kernels

    sizes, columns, counts = rows.entries(begin, end, max_entries)
    entries = np.empty(len(columns), np.int32), np.empty(len(columns), np.int32), np.empty(len(columns), np.float32)
    seed = np.uint64((begin + 1) * SEED_MULTIPLIER % (1 << 64))
    kernels.tile_rows(begin, sizes, columns, counts, TILE_SIZE, float(WEIGHT_DENOMINATOR), seed, *entries)
    return entries


FORMAT = "forebear-cooccurrences/1"
METADATA_FILE, TABLE_FOLDER = "cooccurrences.json", "whole"
ARRAYS = {"rows": np.int32, "columns": np.int32, "counts": np.float32}
DEFAULT_MAX_MEMORY = 1 << 30  # bytes


@dataclass(frozen=True, eq=False)
class CooccurrenceTable:
    """Entries of a symmetric co-occurrence matrix, memory-mapped.

    Attributes:
        rows: (N,) word ids.
        columns: (N,) word ids.
        counts: (N,) positive counts, weighted by 1/distance.
        metadata: As in the table's file.

    Entries are ordered in tiles of words of similar frequency and shuffled within tiles, so that consecutive entries
    share words (cache locality) in random order.
    """

    rows: np.ndarray
    columns: np.ndarray
    counts: np.ndarray
    metadata: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> CooccurrenceTable:
        try:
            metadata = json.loads((folder / METADATA_FILE).read_text())
            arrays = {name: _load_memmap(folder / f"{name}.npy") for name in ARRAYS}
            is_valid = metadata["format"] == FORMAT and all(
                array.dtype == ARRAYS[name] and array.shape == (metadata["entries"],) for name, array in arrays.items()
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise ForebearError("these counts are damaged", file=folder, hint="remove the folder") from error
        if not is_valid:
            raise ForebearError("these counts are not what they should be", file=folder, hint="remove the folder")
        return cls(**arrays, metadata=metadata)

    def __len__(self) -> int:
        return len(self.rows)


def count_cooccurrences(
    source: Subset,
    *,
    vocab_size: int,
    window: int,
    unit: str,
    ignored_ids: frozenset[int] = frozenset(),
    max_memory: int = DEFAULT_MAX_MEMORY,
    progress: ProgressFn | None = None,
) -> CooccurrenceTable:
    """Count words within `window` words of each other, or open the cached table of the same text and settings.

    Args:
        source: The text.
        vocab_size: Vocabulary size.
        window: Maximum distance of two words.
        unit: "sentence" or "document"; windows do not cross it.
        ignored_ids: Ids that are skipped as if they were not in the text.
        max_memory: Memory limit in bytes (at least about 200 MB are used); the rest goes to disk.
        progress: Called with (done, total).
    """
    require_text_unit(unit)
    if window < 1:
        raise InputError(f"a window of {window} words", hint="choose a window of 1 or more, such as 10")
    key = _cache_key(source, vocab_size, window, unit, ignored_ids)
    target = cache_folder() / "cooccurrences" / key[:32]
    if (existing := _open_existing(target)) is not None:
        return existing
    with explain_disk_errors(target), lock_work_folder(target) as work:
        clear_folder(work)  # an interrupted count cannot be resumed
        try:
            if _open_existing(target) is None:  # another process may have finished it while we waited
                text = TokenChunks(source.by_sentence() if unit == "sentence" else source, vocab_size, ignored_ids)
                _write_table(text, window, work, max_memory, progress or (lambda done, total: None), key)
                if target.exists():
                    shutil.rmtree(target)
                os.replace(work / TABLE_FOLDER, target)
                sync_folder(target.parent)
        finally:
            clear_folder(work)
    return CooccurrenceTable.open(target)


def _open_existing(target: Path) -> CooccurrenceTable | None:
    """A cached table; None if there is none, or it is corrupt."""
    try:
        return CooccurrenceTable.open(target)
    except ForebearError:
        return None


def _write_table(text: TokenChunks, window: int, work: Path, max_memory: int, progress: ProgressFn, key: str) -> None:
    """Count, and write the table to a folder inside the work folder."""
    folder, total = work / TABLE_FOLDER, 2 * text.source.num_tokens
    folder.mkdir()
    rows = count_rows(text, window, work, max_memory, lambda done: progress(done, total))
    with ExitStack() as stack:
        files = [stack.enter_context(closing(NpyAppender(folder / f"{name}.npy", ARRAYS[name]))) for name in ARRAYS]
        for begin, end, max_entries in row_bands(rows.row_counts, window):
            for file, values in zip(files, tile_entries(rows, begin, end, max_entries), strict=True):
                file.append(values)
            progress((total + total * end // text.vocab_size) // 2, total)
        for file in files:
            file.finish()
    entries = files[0].length
    num_tokens, num_words = int(rows.row_counts.sum()), int(np.count_nonzero(rows.row_counts))
    metadata = {"format": FORMAT, "key": key, "entries": entries, "tokens": num_tokens, "window": window}
    write_json(folder / METADATA_FILE, metadata | {"words": num_words})


def _cache_key(source: Subset, vocab_size: int, window: int, unit: str, ignored_ids: frozenset[int]) -> str:
    """The cache key: everything that determines the counts and their order."""
    constants = (WEIGHT_DENOMINATOR, TILE_SIZE, MAX_BAND_ENTRIES)
    settings = [FORMAT, source.corpus.key, vocab_size, window, unit, sorted(ignored_ids), *constants]
    digest = hashlib.sha256(json.dumps(settings).encode())
    digest.update(np.ascontiguousarray(source.units, np.int64).data)
    return digest.hexdigest()


def _load_memmap(path: Path) -> np.ndarray:
    """A memory-mapped array as a plain ndarray: slicing np.memmap is slow."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


# --- The objective: batches of entries ---


NUM_BLOCKS = 1024  # about as many blocks of entries; a block is shuffled as a whole
MIN_BLOCK_ENTRIES, MAX_BLOCK_ENTRIES = 16, 4096  # entries of a block


@dataclass(frozen=True)
class Cooccurrences:
    """GloVe's objective: predict the log count of every entry of the co-occurrence table, once per epoch.

    The table is counted before the first batch, and split into blocks of entries that share words; blocks are shuffled
    every epoch. A batch is one sequence: inputs `tokens` and `beside` (T,) are the two words of an entry, `weights`
    (T,) its weight; the target `together` (T,) is the log of its count.

    Attributes:
        vocab_size: Vocabulary size.
        ignored_ids: Ids that are skipped as if they were not in the text.
        window: Maximum distance of two words.
        text_unit: "sentence" or "document"; windows do not cross it.
        x_max: Count from which all entries have weight 1.
        alpha: Exponent of count / x_max for smaller counts.
        max_memory: Memory limit of counting, in bytes.
    """

    target_heads: ClassVar[tuple[str, ...]] = ("together",)  # heads of the targets, known without counting
    batch_unit: ClassVar[str] = "entries"  # of the table, not tokens

    vocab_size: int
    ignored_ids: frozenset[int]
    window: int
    text_unit: str
    x_max: float
    alpha: float
    max_memory: int = DEFAULT_MAX_MEMORY

    def __post_init__(self) -> None:
        require_text_unit(self.text_unit)

    def run_first_pass(self, source: Subset, progress: ProgressFn | None = None) -> None:
        """Count co-occurrences, unless the table is cached."""
        self.counts(source, progress)

    def counts(self, source: Subset, progress: ProgressFn | None = None) -> CooccurrenceTable:
        """The table of a text."""
        settings = (self.vocab_size, self.ignored_ids, self.window, self.text_unit, self.max_memory)
        if (tables := _open_tables(source)).get(settings) is None:
            tables[settings] = count_cooccurrences(
                source,
                vocab_size=self.vocab_size,
                window=self.window,
                unit=self.text_unit,
                ignored_ids=self.ignored_ids,
                max_memory=self.max_memory,
                progress=progress,
            )
        return tables[settings]

    def steps(self, source: Subset, batch_size: int) -> int:
        return max(1, -(-len(self.counts(source)) // batch_size))

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        table = self.counts(source)
        epoch, index = divmod(key.step, self.steps(source, batch_size))
        begin, end = index * batch_size, min((index + 1) * batch_size, len(table))
        ranges = _block_ranges(len(table), begin, end, key.seed, epoch)

        def gather(array: np.ndarray) -> np.ndarray:
            return np.concatenate([np.zeros(0, array.dtype), *(array[first:last] for first, last in ranges)])

        log_counts = gather(table.counts)
        np.log(log_counts, out=log_counts)
        # (count / x_max)^alpha by logarithms, which NumPy vectorizes.
        weights = log_counts * np.float32(self.alpha)
        weights -= np.float32(self.alpha * np.log(self.x_max))
        np.exp(np.minimum(weights, 0, out=weights), out=weights)
        tokens = gather(table.rows)
        inputs = {"tokens": tokens, "lengths": np.array([len(tokens)]), "beside": gather(table.columns)}
        return Batch(inputs | {"weights": weights}, {"together": log_counts})

    def check(self, source: Subset) -> None:
        units, previous = source.by_sentence() if self.text_unit == "sentence" else source, np.zeros(0, np.int32)
        for chunk in TokenChunks(units, self.vocab_size, self.ignored_ids).chunks():
            is_word = np.append(previous, chunk) >= 0
            if (is_word[1:] & is_word[:-1]).any():
                return
            previous = chunk[-1:]
        raise InputError(f"no {self.text_unit} of this text has two words that stand together", hint="give more text")


def _block_ranges(num_entries: int, begin: int, end: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """The ranges of the table that are entries `begin` to `end` of this epoch's order.

    Whole blocks are shuffled; the rest of the table after the last full block comes last.
    """
    block_size = min(max(num_entries // NUM_BLOCKS, MIN_BLOCK_ENTRIES), MAX_BLOCK_ENTRIES)
    num_full_blocks = num_entries // block_size
    block_ids = np.arange(begin // block_size, -(-end // block_size))
    starts = block_ids * block_size
    is_full = block_ids < num_full_blocks
    if is_full.any():
        starts[is_full] = block_size * shuffled_positions(block_ids[is_full], num_full_blocks, seed=seed, epoch=epoch)
    first = np.maximum(block_ids * block_size, begin) - block_ids * block_size
    last = np.minimum((block_ids + 1) * block_size, end) - block_ids * block_size
    return list(zip((starts + first).tolist(), (starts + last).tolist(), strict=True))


@lru_cache(maxsize=8)
def _open_tables(source: Subset) -> dict[tuple[object, ...], CooccurrenceTable]:
    """The open tables of a text, by settings."""
    return {}
