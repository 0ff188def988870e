"""N-gram sets and counts: sorted index, counting in bounded memory, and merging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.io.arrays import release_pages
from forebear.kernels.jit import compile_kernel
from forebear.kernels.ngram_layout import narrow_ints
from forebear.statistical.disk_backed_arrays import (
    UNBOUNDED_POOL,
    ArrayPool,
    SpillArray,
    array_chunks,
    narrowest_dtype,
    ram_limit,
    trim_malloc,
)
from forebear.statistical.ngram.index import MIN_COMPILED_NGRAMS, NgramIndex, corrupt_error, load_array

MERGED_NGRAMS_PER_BLOCK = 1 << 20  # n-grams merged at once


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """For each length, the number of occurrences of each n-gram that end at a predicted token.

    suffixes  as `NgramIndex.suffixes`, if counting has computed them; removed by `take_suffixes`
    """

    ngrams: NgramIndex
    counts: tuple[np.ndarray, ...]
    suffixes: list[np.ndarray] = field(default_factory=list)

    def take_suffixes(self) -> list[np.ndarray]:
        """Hand over the suffix ids, which are large and needed once."""
        suffixes = self.suffixes.copy()
        self.suffixes.clear()
        return suffixes

    @classmethod
    def empty(cls, vocab_size: int, order: int) -> NgramCounts:
        no_tokens = np.zeros(0, np.int32)
        num_continuations = (np.zeros(vocab_size, np.int32), *(no_tokens,) * (order - 2))[: order - 1]
        ngrams = NgramIndex(vocab_size, (no_tokens,) * (order - 1), num_continuations)
        return cls(ngrams, (np.zeros(vocab_size, np.int64), *(no_tokens,) * (order - 1)))

    @property
    def size(self) -> int:
        return sum(map(len, self.counts))

    def on_disk(self, folder: Path) -> NgramCounts:
        """The same counts in temporary files of a folder."""

        def spill(array: np.ndarray) -> np.ndarray:
            spilled = SpillArray(np.int32 if array.dtype.itemsize == 2 else array.dtype, folder)
            for chunk in array_chunks(array):
                spilled.append(chunk)
            return spilled.finish()

        words, num_continuations = (
            tuple(map(spill, arrays)) for arrays in (self.ngrams.last_tokens, self.ngrams.num_continuations)
        )
        ngrams = NgramIndex(self.ngrams.vocab_size, words, num_continuations)
        return NgramCounts(ngrams, (self.counts[0], *map(spill, self.counts[1:])))

    def storage_layout(self) -> dict[str, tuple[np.ndarray, Any]]:
        """All arrays by name, and the narrowest types for them."""
        layout = self.ngrams.storage_layout()
        return layout | {
            f"counts.{n}": (counts, narrowest_dtype(counts)) for n, counts in enumerate(self.counts, start=1)
        }

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: array.astype(kind) for name, (array, kind) in self.storage_layout().items()}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocab_size: int, order: int) -> NgramCounts:
        ngrams = NgramIndex.load(arrays, vocab_size=vocab_size, order=order)
        unigram_counts = load_array(arrays, "counts.1", ngrams.num_ngrams(1)).astype(np.int64)
        longer_counts = [
            narrow_ints(load_array(arrays, f"counts.{n}", ngrams.num_ngrams(n))) for n in range(2, order + 1)
        ]
        for n, counts in enumerate(longer_counts, start=2):
            if not counts.all():
                raise corrupt_error(f"counts.{n}", "says that an n-gram occurs not at all")
        return cls(ngrams, (unigram_counts, *longer_counts))


def write_rows(
    tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray, eos_id: int, allowed: np.ndarray, text: np.ndarray
) -> int:
    """Write rows [eos, w1 … wn] with targets [w1 … wn, eos] to `text`, each followed by EOS and ROW_SEPARATOR.

    Returns -1 if they are valid, the position of a target that is not `allowed`, or len(tokens) or more if rows or
    targets do not have this structure.
    """
    from forebear.kernels.ngram_counts import ROW_SEPARATOR, write_rows_kernel

    if len(tokens) > MIN_COMPILED_NGRAMS:
        return int(compile_kernel(write_rows_kernel)(tokens, lengths, targets, eos_id, allowed, text))
    last_positions = np.cumsum(lengths) - 1
    expected_targets, is_first = np.roll(tokens, -1), np.zeros(len(tokens), bool)
    expected_targets[last_positions] = eos_id
    is_first[last_positions + 1 - lengths] = True
    if not np.array_equal(expected_targets, targets) or not np.array_equal(np.asarray(tokens) == eos_id, is_first):
        return len(tokens)
    is_valid = (targets >= 0) & (targets < len(allowed))
    is_valid[is_valid] = allowed[targets[is_valid]]
    if not is_valid.all():
        return int(np.argmin(is_valid))
    ends = last_positions + 1 + 2 * np.arange(1, len(lengths) + 1)  # after the separator of each row
    is_token = np.ones(len(text), bool)
    is_token[ends - 1], is_token[ends - 2] = False, False
    text[ends - 1], text[ends - 2], text[is_token] = ROW_SEPARATOR, eos_id, tokens
    return -1


def count_ngrams(text: np.ndarray, *, vocab_size: int, order: int, threads: int = 1) -> NgramCounts:
    """Count the n-grams of rows and separators, which are consumed; the first token of a row is only context."""
    from forebear.kernels.ngram_counts import ROW_SEPARATOR, ngram_levels, ngram_levels_reference, unigram_counts_kernel

    if len(text) * order > MIN_COMPILED_NGRAMS:
        unigram_counts = compile_kernel(unigram_counts_kernel)(text, np.zeros(vocab_size, np.int64))
        levels = ngram_levels(text, vocab_size, order, threads)
    else:
        is_predicted = (text != ROW_SEPARATOR) & (np.concatenate(([ROW_SEPARATOR], text[:-1])) != ROW_SEPARATOR)
        unigram_counts = np.bincount(text[is_predicted], minlength=vocab_size)
        levels = ngram_levels_reference(text, vocab_size, order)
    words, counts, num_continuations, suffixes = zip(*levels, strict=True) if levels else ((),) * 4
    no_suffixes = np.zeros(vocab_size, np.int32)
    return NgramCounts(
        NgramIndex(vocab_size, words, num_continuations), (unigram_counts, *counts), [no_suffixes, *suffixes]
    )


def merge_counts(parts: Sequence[NgramCounts], folder: Path | None = None) -> NgramCounts:
    """Sum the counts, merging in pairs, in memory or in files of a folder."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [parts[first : first + 2] for first in range(0, len(parts), 2)]
        parts = [_merge_pair(*pair, folder) if len(pair) > 1 else pair[0] for pair in pairs]
    return parts[0]


def _merge_pair(left: NgramCounts, right: NgramCounts, folder: Path | None) -> NgramCounts:
    if folder is None and left.size + right.size <= MIN_COMPILED_NGRAMS:
        return _merge_pair_reference(left, right)
    from forebear.kernels.ngram_counts import merge_counts_kernel

    vocab_size, order = left.ngrams.vocab_size, left.ngrams.order
    unigram_counts = left.counts[0].astype(np.int64) + right.counts[0]
    count_dtype = np.int32 if int(unigram_counts.sum()) <= np.iinfo(np.int32).max else np.int64
    sources = np.full(vocab_size, 3, np.uint8)
    words, num_continuations, merged_counts = [], [], [unigram_counts]
    buffer_size, dtypes = max(MERGED_NGRAMS_PER_BLOCK, 2 * vocab_size), (np.int32, count_dtype, np.uint8)
    buffers = [*(np.empty(buffer_size, dtype) for dtype in dtypes), np.empty(MERGED_NGRAMS_PER_BLOCK, np.int32)]
    for n in range(2, order + 1):
        outputs = [SpillArray(dtype, folder) for dtype in (*dtypes, np.int32)]
        inputs = [
            (_widen(part.ngrams.num_continuations[n - 2]), part.ngrams.last_tokens[n - 2], _widen(part.counts[n - 1]))
            for part in (left, right)
        ]
        context, positions = 0, (np.zeros(2, np.int64), np.zeros(2, np.int64))
        while context < len(sources):
            next_context, num_merged = compile_kernel(merge_counts_kernel)(
                sources, *inputs[0], *inputs[1], context, *positions, *buffers
            )
            for output, buffer, size in zip(
                outputs, buffers, (*(num_merged,) * 3, next_context - context), strict=True
            ):
                output.append(buffer[:size])
            release_pages(sources, *inputs[0], *inputs[1])
            context = next_context
        last_tokens, counts, sources, num_children = (output.finish() for output in outputs)
        words.append(last_tokens)
        merged_counts.append(counts)
        num_continuations.append(num_children)
    return NgramCounts(NgramIndex(vocab_size, tuple(words), tuple(num_continuations)), tuple(merged_counts))


def _widen(values: np.ndarray) -> np.ndarray:
    """Convert to at least 32 bits, so that the kernel is not compiled for every combination of types."""
    return values if values.dtype.itemsize > 2 else values.astype(np.int32)


def _merge_pair_reference(left: NgramCounts, right: NgramCounts) -> NgramCounts:
    """Ids of n-grams depend on the whole set, so prefixes are renumbered, level by level."""
    vocab_size, order = left.ngrams.vocab_size, left.ngrams.order
    levels: list[np.ndarray] = []
    merged_counts = [left.counts[0].astype(np.int64) + right.counts[0]]
    ids_by_part = [np.arange(vocab_size)] * 2
    for n in range(2, order + 1):
        renumbered = [
            merged_ids[part.ngrams.prefixes(n)] * vocab_size + part.ngrams.last_tokens_of_length(n)
            for merged_ids, part in zip(ids_by_part, (left, right), strict=True)
        ]
        merged_keys = np.sort(np.concatenate(renumbered), kind="stable")  # sorted runs: merged in one pass
        levels.append(merged_keys[np.flatnonzero(np.diff(merged_keys, prepend=-1))])
        ids_by_part = [np.searchsorted(levels[-1], keys) for keys in renumbered]
        total = np.zeros(len(levels[-1]), np.int64)
        for new_ids, part in zip(ids_by_part, (left, right), strict=True):
            total[new_ids] += part.counts[n - 1]
        merged_counts.append(total)
    return NgramCounts(NgramIndex.from_sorted_keys(vocab_size, levels), tuple(merged_counts))


# --- Counting in bounded memory ---

MIN_DEFAULT_MEMORY, MEMORY_DIVISOR = 1 << 31, 4  # default limit: 2 GB, or a quarter of all memory if that is more
BYTES_PER_TOKEN, BYTES_PER_NGRAM = 24, 16  # memory for each token of a text, and for each n-gram ending at it
MIN_TEXT_TOKENS = 1 << 16  # tokens counted at once, regardless of memory


class NgramCounter:
    """Counts text in bounded memory; the result does not depend on batches.

    memory   bytes that counting may use
    folder   where counts that do not fit are stored; None: in memory
    threads  number of counting threads
    """

    def __init__(self, vocab_size: int, order: int) -> None:
        self.vocab_size, self.order = vocab_size, order
        self.memory, self.threads = max(MIN_DEFAULT_MEMORY, ram_limit() // MEMORY_DIVISOR), 1
        self.folder: Path | None = None
        self._parts: list[NgramCounts] = []
        self._text, self._num_filled = np.zeros(0, np.int32), 0  # uncounted text, and its length
        self._is_spilled = False
        self._pool = UNBOUNDED_POOL

    @property
    def pool(self) -> ArrayPool:
        """Array pool for everything derived from the counts."""
        if self.folder is None:
            return UNBOUNDED_POOL
        if (self._pool.max_memory, self._pool.folder) != (self.memory, self.folder):
            self._pool = ArrayPool(self.memory, self.folder)
        return self._pool

    def reset(self, counts: NgramCounts) -> None:
        """Continue from these counts."""
        self._parts, self._num_filled, self._is_spilled = [counts], 0, False

    def reserve(self, count: int) -> np.ndarray:
        """Reserve space in the text for `count` more ids: rows, each followed by EOS and a separator."""
        if self._num_filled and self._num_filled + count > self.max_tokens:
            self._count()
            if self.folder is not None:
                self._parts[-1] = self._parts[-1].on_disk(self.folder)
                self._is_spilled = True
            # Parts of similar size are merged, so that each n-gram is merged about log₂(parts) times.
            while len(self._parts) > 1 and self._parts[-2].size <= 2 * self._parts[-1].size:
                self._parts[-2:] = [merge_counts(self._parts[-2:], self._merge_folder)]
        begin, self._num_filled = self._num_filled, self._num_filled + count
        if self._num_filled > len(self._text):  # grows by half, without a copy where realloc can move pages
            self._text.resize(max(self._num_filled, min(len(self._text) * 3 // 2, self.max_tokens)), refcheck=False)
        return self._text[begin : self._num_filled]

    def discard_last(self, count: int) -> None:
        """Discard the last `count` ids."""
        self._num_filled -= count

    @property
    def max_tokens(self) -> int:
        """Maximum tokens counted at once; positions fit into 32 bits."""
        bytes_per_token = BYTES_PER_TOKEN + BYTES_PER_NGRAM * (self.order - 1)
        return max(MIN_TEXT_TOKENS, min(self.memory // bytes_per_token, 1 << 30))

    def _count(self) -> None:
        if self._num_filled:
            text, self._text = self._text, np.zeros(0, np.int32)
            text.resize(self._num_filled, refcheck=False)
            self._num_filled = 0
            trim_malloc()
            self._parts.append(count_ngrams(text, vocab_size=self.vocab_size, order=self.order, threads=self.threads))

    @property
    def _merge_folder(self) -> Path | None:
        return self.folder if self._is_spilled else None

    @property
    def counts(self) -> NgramCounts:
        """All counts so far."""
        self._count()
        parts = self._parts or [NgramCounts.empty(self.vocab_size, self.order)]
        self._parts = [merge_counts(parts, self._merge_folder)]
        return self._parts[0]
