"""Counting n-grams of all lengths by sorting text positions, level by level.

A text is token ids with ROW_SEPARATOR after each row. Positions with the same next n - 1 tokens form a group; sorting
each group by the following token gives the n-grams of length n in lexicographic order. Groups of one position need no
more sorting. The n-gram at the next position is this one's suffix, so the text is overwritten by the id of the n-gram
that begins at each position, at first the token id.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.intrinsics import PREFETCH_DISTANCE, prefetch
from forebear.kernels.jit import compile_kernel
from forebear.kernels.ngram_layout import narrow_ints

ROW_SEPARATOR = -1  # after each row
GROUPS_PER_STEP = 1 << 8  # partitions of threads begin at multiples of so many groups
MAX_INSERTION_SORT = 24  # maximum positions of a group that are sorted by insertion


class NgramLevel(NamedTuple):
    """The n-grams of one length in lexicographic order."""

    last_tokens: np.ndarray  # (size,) int32
    counts: np.ndarray  # (size,)
    num_continuations: np.ndarray  # (contexts,) number of n-grams that extend each (n-1)-gram
    suffixes: np.ndarray  # (size,) int32, the id of each without its first token


# -- numpy reference


def ngram_levels_reference(text: np.ndarray, vocab_size: int, order: int) -> list[NgramLevel]:
    """Reference of `ngram_levels`."""
    is_token = text != ROW_SEPARATOR
    ids, num_ngrams, levels = np.where(is_token, text, -1).astype(np.int64), vocab_size, []
    for n in range(2, order + 1):
        positions = np.flatnonzero(is_token[: len(text) - n + 1])
        is_inside = [not (text[position : position + n] == ROW_SEPARATOR).any() for position in positions]
        positions = positions[np.array(is_inside, bool)]
        keys = ids[positions] * vocab_size + text[positions + n - 1]
        distinct_keys, first, inverse, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        num_continuations = np.bincount(distinct_keys // vocab_size, minlength=num_ngrams)
        suffixes = ids[positions[first] + 1]
        levels.append(
            NgramLevel(*(a.astype(np.int32) for a in (distinct_keys % vocab_size, counts, num_continuations, suffixes)))
        )
        ids, num_ngrams = np.full(len(text), -1), len(distinct_keys)
        ids[positions] = inverse
    return levels


# -- compiled


def ngram_levels(text: np.ndarray, vocab_size: int, order: int, threads: int = 1) -> list[NgramLevel]:
    """The n-grams of 2 to `order` tokens of an int32 text of fewer than 2³¹ elements, which is consumed."""
    if order < 2 or len(text) < 2:
        empty, num_contexts_by_order = np.zeros(0, np.int32), [vocab_size, *[0] * order][: max(0, order - 1)]
        return [NgramLevel(empty, empty, np.zeros(size, np.int32), empty) for size in num_contexts_by_order]
    positions, group_sizes = np.empty_like(text), np.zeros(vocab_size, np.int32)
    positions.resize(compile_kernel(group_by_token_kernel)(text, positions, group_sizes), refcheck=False)
    levels: list[NgramLevel] = []
    separators, ids, placeholder = np.flatnonzero(text == ROW_SEPARATOR).astype(np.int32), text, np.zeros(0, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for n in range(2, order + 1):
            partitions, previous_sizes = _partition(group_sizes, threads), group_sizes
            if n > 2:  # the id of a unigram is its token
                _run_partitions(pool, assign_ids_kernel, partitions, positions, group_sizes, ids)
                compile_kernel(mark_row_ends_kernel)(ids, separators, n - 1)
            positions, group_sizes, suffixes, num_continuations = _refine_groups(
                ids, vocab_size, positions, group_sizes, partitions, pool
            )
            if n > 2:
                levels[-1] = levels[-1]._replace(counts=narrow_ints(previous_sizes))
                num_continuations = narrow_ints(num_continuations)
            del previous_sizes
            levels.append(NgramLevel(placeholder, group_sizes, num_continuations, suffixes))
    levels[-1] = levels[-1]._replace(counts=narrow_ints(group_sizes))
    del positions, group_sizes
    text.resize(0, refcheck=False)  # frees its memory
    return _with_last_tokens(levels)


def _with_last_tokens(levels: list[NgramLevel]) -> list[NgramLevel]:
    """Fill in the last token of each n-gram, which is that of its suffix."""
    last_tokens, completed = levels[0].suffixes, []
    for n, level in enumerate(levels, start=2):
        if n > 2:
            last_tokens = compile_kernel(last_tokens_kernel)(last_tokens, level.suffixes, np.empty_like(level.suffixes))
        completed.append(level._replace(last_tokens=last_tokens))
    return completed


class _NgramPartition(NamedTuple):
    """A range of groups and the offset of its first position."""

    first: int
    last: int
    begin: int


def _partition(sizes: np.ndarray, threads: int) -> list[_NgramPartition]:
    """Split the groups into one range per thread, with about equally many positions."""
    if threads == 1 or len(sizes) < threads * GROUPS_PER_STEP:
        return [_NgramPartition(0, len(sizes), 0)]
    starts = np.arange(0, len(sizes), GROUPS_PER_STEP)
    ends = np.cumsum(np.add.reduceat(sizes, starts, dtype=np.int64))
    boundaries = np.searchsorted(ends, np.arange(1, threads) * (int(ends[-1]) / threads)).tolist()
    bounds = sorted({0, *boundaries, len(starts)})
    partitions = []
    for first, last in pairwise(bounds):
        end, begin = min(last * GROUPS_PER_STEP, len(sizes)), int(ends[first - 1]) if first else 0
        partitions.append(_NgramPartition(first * GROUPS_PER_STEP, end, begin))
    return partitions


def _run_partitions(
    pool: ThreadPoolExecutor, kernel: Callable[..., Any], partitions: list[_NgramPartition], *args: Any
) -> list[Any]:
    """Run a kernel on each partition in the pool."""
    return [task.result() for task in [pool.submit(compile_kernel(kernel), *part, *args) for part in partitions]]


def _refine_groups(
    ids: np.ndarray,
    vocab_size: int,
    positions: np.ndarray,
    sizes: np.ndarray,
    partitions: list[_NgramPartition],
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Refine the groups by one more token.

    Returns:
        The remaining positions, the sizes of the new groups, their suffix ids, and the number of new groups for each
        group.
    """
    num_continuations = np.empty(len(sizes), np.int32)
    new_sizes, suffixes = np.empty(len(positions), np.int32), np.empty(len(positions), np.int32)
    sizes_by_partition = _run_partitions(
        pool,
        refine_groups_kernel,
        partitions,
        ids,
        vocab_size,
        positions,
        sizes,
        num_continuations,
        new_sizes,
        suffixes,
    )
    position_counts, group_counts = map(list, zip(*sizes_by_partition, strict=True))
    compacted = (
        _compact(positions, partitions, position_counts),
        _compact(new_sizes, partitions, group_counts),
        _compact(suffixes, partitions, group_counts),
    )
    return *compacted, num_continuations


def _compact(array: np.ndarray, partitions: list[_NgramPartition], sizes: list[int]) -> np.ndarray:
    """The first `sizes` elements of each partition, moved together in place."""
    end = 0
    for partition, size in zip(partitions, sizes, strict=True):
        array[end : end + size] = array[partition.begin : partition.begin + size]
        end += size
    array.resize(end, refcheck=False)  # shrinks without copying
    return array


def group_by_token_kernel(text, positions, sizes):
    """Group the positions by token, in text order within a group; returns the number of positions."""
    for token in text:
        if token >= 0:
            sizes[token] += 1
    starts, num_positions = np.empty(len(sizes), np.int32), np.int32(0)
    for token in range(len(sizes)):
        starts[token], num_positions = num_positions, num_positions + sizes[token]
    for position in range(len(text)):
        token = text[position]
        if token >= 0:
            positions[starts[token]] = position
            starts[token] += 1
    return num_positions


def refine_groups_kernel(first, last, begin, ids, vocab_size, positions, sizes, num_continuations, new_sizes, suffixes):
    """Sort the positions of each group by the id of their suffix, and drop those where the row ends.

    Writes the remaining positions to `positions` from `begin` on, the sizes of the new groups to `new_sizes` and their
    suffix ids to `suffixes`. Positions with the same suffix stay in text order. The suffixes of a group differ in their
    last token only, so their ids are within one vocabulary size. Returns the number of positions and of groups.
    """
    keys, key_positions, distinct_keys = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.int32)
    starts, read_index, write_index, group_index = np.zeros(vocab_size, np.int32), begin, begin, begin
    for group in range(first, last):
        size, num_keys, num_distinct, min_key = sizes[group], 0, 0, np.int32(0x7FFFFFFF)
        if size == 1:  # most groups: no sorting, and no branch to mispredict
            if read_index + PREFETCH_DISTANCE < len(positions):
                prefetch(ids, np.int64(positions[read_index + PREFETCH_DISTANCE]) + 1)
            position = positions[read_index]
            key = ids[position + 1]
            continues = np.int32(key >= 0)
            positions[write_index], new_sizes[group_index], suffixes[group_index] = position, 1, key
            read_index, write_index, group_index = read_index + 1, write_index + continues, group_index + continues
            num_continuations[group] = continues
            continue
        if size > len(keys):
            keys, key_positions = np.empty(2 * size, np.int32), np.empty(2 * size, np.int32)
            distinct_keys = np.empty(2 * size, np.int32)
        for i in range(read_index, read_index + size):
            if i + PREFETCH_DISTANCE < len(positions):
                prefetch(ids, np.int64(positions[i + PREFETCH_DISTANCE]) + 1)
            key = ids[positions[i] + 1]
            if key >= 0:
                keys[num_keys], key_positions[num_keys] = key, positions[i]
                min_key, num_keys = min(min_key, key), num_keys + 1
        read_index += size
        if num_keys <= MAX_INSERTION_SORT:
            for i in range(1, num_keys):  # insertion sort
                key, position, slot = keys[i], key_positions[i], i
                while slot > 0 and keys[slot - 1] > key:
                    keys[slot], key_positions[slot] = keys[slot - 1], key_positions[slot - 1]
                    slot -= 1
                keys[slot], key_positions[slot] = key, position
            for i in range(num_keys):
                positions[write_index + i] = key_positions[i]
                if i == 0 or keys[i] != keys[i - 1]:
                    new_sizes[group_index + num_distinct], suffixes[group_index + num_distinct] = 0, keys[i]
                    num_distinct += 1
                new_sizes[group_index + num_distinct - 1] += 1
        else:
            for i in range(num_keys):  # counting sort: scatter to the start of each suffix
                key = keys[i] - min_key
                distinct_keys[num_distinct] = key
                num_distinct += np.int32(starts[key] == 0)
                starts[key] += 1
            distinct_keys[:num_distinct].sort()
            next_start = write_index
            for i in range(num_distinct):
                key = distinct_keys[i]
                new_sizes[group_index + i], suffixes[group_index + i] = starts[key], key + min_key
                starts[key], next_start = next_start, next_start + starts[key]
            for i in range(num_keys):
                key = keys[i] - min_key
                positions[starts[key]] = key_positions[i]
                starts[key] += 1
            for i in range(num_distinct):
                starts[distinct_keys[i]] = 0
        write_index, group_index = write_index + num_keys, group_index + num_distinct
        num_continuations[group] = num_distinct
    return write_index - begin, group_index - begin


def assign_ids_kernel(first, last, begin, positions, sizes, ids):
    """Write the id of each group's n-gram to its positions."""
    read_index = begin
    for group in range(first, last):
        for i in range(read_index, read_index + sizes[group]):
            if i + PREFETCH_DISTANCE < len(positions):
                prefetch(ids, np.int64(positions[i + PREFETCH_DISTANCE]))
            ids[positions[i]] = group
        read_index += sizes[group]


def mark_row_ends_kernel(ids, separators, n):
    """Mark the first position of each row where no n-gram of n tokens begins."""
    previous_separator = -1
    for separator in separators:
        if separator - n + 1 > previous_separator:
            ids[separator - n + 1] = ROW_SEPARATOR
        previous_separator = separator


def last_tokens_kernel(shorter_last_tokens, suffixes, last_tokens):
    """The last token of each n-gram, which is that of its suffix."""
    for i in range(len(suffixes)):
        if i + PREFETCH_DISTANCE < len(suffixes):
            prefetch(shorter_last_tokens, np.int64(suffixes[i + PREFETCH_DISTANCE]))
        last_tokens[i] = shorter_last_tokens[suffixes[i]]
    return last_tokens


# --- Preparing a text and merging counts; the references are in statistical/ngram/counts.py ---


def write_rows_kernel(tokens, lengths, targets, eos_id, allowed, text):
    """Compiled version of `write_rows` in statistical/ngram/counts.py."""
    position, out_position = 0, 0
    for length in lengths:
        for step in range(length):
            token, target = tokens[position], targets[position]
            expected = tokens[position + 1] if step + 1 < length else eos_id
            if target != expected or (token == eos_id) != (step == 0):
                return len(tokens)
            if target < 0 or target >= len(allowed) or not allowed[target]:
                return position
            text[out_position] = token
            position, out_position = position + 1, out_position + 1
        text[out_position], text[out_position + 1] = eos_id, ROW_SEPARATOR
        out_position += 2
    return -1


def unigram_counts_kernel(text, counts):
    """Count the tokens, except the first of each row."""
    previous_token = np.int32(ROW_SEPARATOR)
    for token in text:
        if token != ROW_SEPARATOR and previous_token != ROW_SEPARATOR:
            counts[token] += 1
        previous_token = token
    return counts


def merge_counts_kernel(
    sources,
    num_continuations,
    words,
    counts,
    num_continuations_b,
    words_b,
    counts_b,
    first,
    offsets,
    offsets_b,
    out_words,
    out_counts,
    out_sources,
    out_num_continuations,
):
    """Merge the n-grams of two texts from context `first` on, while the buffers suffice.

    sources  of each context: 1: in the first text, 2: in the second, 3: in both
    num_continuations, words, counts, offsets
             of the first text: number of continuations of each context, their last tokens and counts, and the number of
             contexts and n-grams read so far; `…_b` of the second text
    out_words, out_counts, out_sources, out_num_continuations
             last tokens, counts and sources of the merged n-grams, and the number of them in each context

    Returns the next context and the number of merged n-grams.
    """
    context, num_merged = first, 0
    while context < len(sources):
        remaining = num_continuations[offsets[0]] if sources[context] & 1 else 0
        remaining_b = num_continuations_b[offsets_b[0]] if sources[context] & 2 else 0
        if num_merged + remaining + remaining_b > len(out_words) or context - first == len(out_num_continuations):
            break
        offsets[0] += sources[context] & 1
        offsets_b[0] += sources[context] >> 1
        end, end_b, previous_merged = offsets[1] + remaining, offsets_b[1] + remaining_b, num_merged
        while offsets[1] < end or offsets_b[1] < end_b:
            token = words[offsets[1]] if offsets[1] < end else np.int32(0x7FFFFFFF)
            token_b = words_b[offsets_b[1]] if offsets_b[1] < end_b else np.int32(0x7FFFFFFF)
            out_words[num_merged], out_counts[num_merged], out_sources[num_merged] = min(token, token_b), 0, 0
            if token <= token_b:
                out_counts[num_merged] += counts[offsets[1]]
                out_sources[num_merged] += 1
                offsets[1] += 1
            if token_b <= token:
                out_counts[num_merged] += counts_b[offsets_b[1]]
                out_sources[num_merged] += 2
                offsets_b[1] += 1
            num_merged += 1
        out_num_continuations[context - first] = num_merged - previous_merged
        context += 1
    return context, num_merged
