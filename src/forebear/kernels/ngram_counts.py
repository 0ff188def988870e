"""Counting n-grams of all lengths by sorting text positions, level by level.

A text is token ids with TEXT_BORDER after each row. Positions with the same n - 1 next tokens form a group; sorting
each group by the following token gives the n-grams of length n in dictionary order. Groups of one position need no more
sorting. The n-gram one position further is the same one without its first token, so the text is overwritten by the
number of the n-gram that begins at each position, at first the token id.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.intrinsics import PREFETCH_DISTANCE, prefetch
from forebear.kernels.jit import compile_kernel
from forebear.kernels.layout import narrow_ints

TEXT_BORDER = -1  # after each row
PARTITION_STEP = 1 << 8  # groups of places, at the beginning of which a thread's share may begin
MAX_INSERTION_SORT = 24  # places of a group that are sorted by putting each where it belongs


class NgramLevel(NamedTuple):
    """The n-grams of one length in dictionary order."""

    words: np.ndarray  # (size,) int32, their last tokens
    times: np.ndarray  # (size,) how often each is there
    continuations: np.ndarray  # (shorter ones,) how many of them begin with each n-gram that is one shorter
    suffixes: np.ndarray  # (size,) int32, the number of each without its first token


# -- numpy reference


def ngram_levels_reference(text: np.ndarray, vocabulary: int, order: int) -> list[NgramLevel]:
    """Readable twin of `ngram_levels`."""
    is_token = text != TEXT_BORDER
    numbers, size, levels = np.where(is_token, text, -1).astype(np.int64), vocabulary, []
    for n in range(2, order + 1):
        positions = np.flatnonzero(is_token[: len(text) - n + 1])
        positions = (
            positions[[not (text[at : at + n] == TEXT_BORDER).any() for at in positions]]
            if len(positions)
            else positions
        )
        keys = numbers[positions] * vocabulary + text[positions + n - 1]
        keys_found, first, ids, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        continuations = np.bincount(keys_found // vocabulary, minlength=size)
        suffixes = numbers[positions[first] + 1]
        levels.append(
            NgramLevel(*(a.astype(np.int32) for a in (keys_found % vocabulary, times, continuations, suffixes)))
        )
        numbers, size = np.full(len(text), -1), len(keys_found)
        numbers[positions] = ids
    return levels


# -- compiled


def ngram_levels(text: np.ndarray, vocabulary: int, order: int, threads: int = 1) -> list[NgramLevel]:
    """The n-grams of 2 to `order` tokens of an int32 text of fewer than 2³¹ tokens and borders, which is consumed."""
    if order < 2 or len(text) < 2:
        none, sizes = np.zeros(0, np.int32), [vocabulary, *[0] * order]
        return [NgramLevel(none, none, np.zeros(size, np.int32), none) for size in sizes[: max(0, order - 1)]]
    at, sizes = np.empty_like(text), np.zeros(vocabulary, np.int32)
    at.resize(compile_kernel(group_by_token_kernel)(text, at, sizes), refcheck=False)
    levels: list[NgramLevel] = []
    borders, numbers, later = np.flatnonzero(text == TEXT_BORDER).astype(np.int32), text, np.zeros(0, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for n in range(2, order + 1):
            partitions, previous_sizes = _partition(sizes, threads), sizes
            if n > 2:  # the number of a single token is its id
                _run_partitions(pool, assign_ids_kernel, partitions, at, sizes, numbers)
                compile_kernel(mark_row_ends_kernel)(numbers, borders, n - 1)
            at, sizes, suffixes, continuations = _refine_groups(numbers, vocabulary, at, sizes, partitions, pool)
            if n > 2:
                levels[-1] = levels[-1]._replace(times=narrow_ints(previous_sizes))
                continuations = narrow_ints(continuations)
            del previous_sizes
            levels.append(NgramLevel(later, sizes, continuations, suffixes))
    levels[-1] = levels[-1]._replace(times=narrow_ints(sizes))
    del at, sizes
    text.resize(0, refcheck=False)  # frees its memory for the next step
    return _with_last_tokens(levels)


def _with_last_tokens(levels: list[NgramLevel]) -> list[NgramLevel]:
    """Fill in the last tokens: that of an n-gram is the last token of its suffix."""
    words, levels_with_words = levels[0].suffixes, []
    for n, level in enumerate(levels, start=2):
        if n > 2:
            words = compile_kernel(last_tokens_kernel)(words, level.suffixes, np.empty_like(level.suffixes))
        levels_with_words.append(level._replace(words=words))
    return levels_with_words


class _NgramPartition(NamedTuple):
    """A run of groups and the offset of its first position."""

    first: int
    last: int
    begin: int


def _partition(sizes: np.ndarray, threads: int) -> list[_NgramPartition]:
    """Groups split into runs with about equally many positions, for the threads."""
    if threads == 1 or len(sizes) < threads * PARTITION_STEP:
        return [_NgramPartition(0, len(sizes), 0)]
    begins = np.arange(0, len(sizes), PARTITION_STEP)
    ends = np.cumsum(np.add.reduceat(sizes, begins, dtype=np.int64))
    before = np.searchsorted(ends, np.arange(1, threads) * (int(ends[-1]) / threads)).tolist()
    cuts = sorted({0, *before, len(begins)})
    partitions = []
    for first, last in pairwise(cuts):
        end, begin = min(last * PARTITION_STEP, len(sizes)), int(ends[first - 1]) if first else 0
        partitions.append(_NgramPartition(first * PARTITION_STEP, end, begin))
    return partitions


def _run_partitions(
    pool: ThreadPoolExecutor, loop: Callable[..., Any], partitions: list[_NgramPartition], *args: Any
) -> list[Any]:
    """Run a kernel on each partition in the pool."""
    return [task.result() for task in [pool.submit(compile_kernel(loop), *part, *args) for part in partitions]]


def _refine_groups(
    numbers: np.ndarray,
    vocabulary: int,
    at: np.ndarray,
    sizes: np.ndarray,
    parts: list[_NgramPartition],
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Refine the groups by one more token.

    Returns:
        The remaining positions, the sizes of the new groups, their suffix ids, and the number of new groups for each
        group.
    """
    continuations = np.empty(len(sizes), np.int32)
    smaller, suffixes = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    sizes_by_partition = _run_partitions(
        pool, refine_groups_kernel, parts, numbers, vocabulary, at, sizes, continuations, smaller, suffixes
    )
    groups = [num_groups for _, num_groups in sizes_by_partition]
    places = [num_groups for num_groups, _ in sizes_by_partition]
    compacted = (_compact(at, parts, places), _compact(smaller, parts, groups), _compact(suffixes, parts, groups))
    return *compacted, continuations


def _compact(array: np.ndarray, partitions: list[_NgramPartition], sizes: list[int]) -> np.ndarray:
    """The first `sizes` elements of each partition, moved together in place."""
    end = 0
    for partition, size in zip(partitions, sizes, strict=True):
        array[end : end + size] = array[partition.begin : partition.begin + size]
        end += size
    array.resize(end, refcheck=False)  # gives the rest back without copying
    return array


def group_by_token_kernel(text, at, sizes):
    """Positions grouped by token, in text order within a group; returns how many there are."""
    for token in text:
        if token >= 0:
            sizes[token] += 1
    starts, places = np.empty(len(sizes), np.int32), np.int32(0)
    for token in range(len(sizes)):
        starts[token], places = places, places + sizes[token]
    for place in range(len(text)):
        token = text[place]
        if token >= 0:
            at[starts[token]] = place
            starts[token] += 1
    return places


def refine_groups_kernel(first, last, begin, numbers, vocabulary, at, sizes, continuations, smaller, suffixes):
    """Sort the positions of each group by the number of what begins one position further, if their row goes on.

    Writes the remaining positions to `at` from `begin` on, the sizes of their groups to `smaller` and their suffix ids
    to `suffixes`. Positions with the same suffix stay in text order. The suffixes of a group differ in their last token
    only, so their numbers are within one vocabulary size. Returns the number of positions and of groups.
    """
    keys, places, found = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.int32)
    starts, read, left, groups = np.zeros(vocabulary, np.int32), begin, begin, begin
    for group in range(first, last):
        size, many, different, low = sizes[group], 0, 0, np.int32(0x7FFFFFFF)
        if size == 1:  # most are: no sorting, and no jump that might be guessed wrong
            if read + PREFETCH_DISTANCE < len(at):
                prefetch(numbers, np.int64(at[read + PREFETCH_DISTANCE]) + 1)
            place = at[read]
            key = numbers[place + 1]
            continues = np.int32(key >= 0)
            at[left], smaller[groups], suffixes[groups] = place, 1, key
            read, left, groups = read + 1, left + continues, groups + continues
            continuations[group] = continues
            continue
        if size > len(keys):
            room = 2 * size
            keys, places, found = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
        for number in range(read, read + size):
            if number + PREFETCH_DISTANCE < len(at):
                prefetch(numbers, np.int64(at[number + PREFETCH_DISTANCE]) + 1)
            key = numbers[at[number] + 1]
            if key >= 0:
                keys[many], places[many] = key, at[number]
                low, many = min(low, key), many + 1
        read += size
        if many <= MAX_INSERTION_SORT:
            for number in range(1, many):  # each is put where it belongs
                key, place, slot = keys[number], places[number], number
                while slot > 0 and keys[slot - 1] > key:
                    keys[slot], places[slot] = keys[slot - 1], places[slot - 1]
                    slot -= 1
                keys[slot], places[slot] = key, place
            for number in range(many):
                at[left + number] = places[number]
                if number == 0 or keys[number] != keys[number - 1]:
                    smaller[groups + different], suffixes[groups + different] = 0, keys[number]
                    different += 1
                smaller[groups + different - 1] += 1
        else:
            for number in range(many):  # counted, and then put where their suffix's places begin
                key = keys[number] - low
                found[different] = key
                different += np.int32(starts[key] == 0)
                starts[key] += 1
            found[:different].sort()
            where = left
            for number in range(different):
                key = found[number]
                smaller[groups + number], suffixes[groups + number] = starts[key], key + low
                starts[key], where = where, where + starts[key]
            for number in range(many):
                key = keys[number] - low
                at[starts[key]] = places[number]
                starts[key] += 1
            for number in range(different):
                starts[found[number]] = 0
        left, groups = left + many, groups + different
        continuations[group] = different
    return left - begin, groups - begin


def assign_ids_kernel(first, last, begin, at, sizes, numbers):
    """Write the number of each group's n-gram to the positions where it begins."""
    read = begin
    for group in range(first, last):
        for number in range(read, read + sizes[group]):
            if number + PREFETCH_DISTANCE < len(at):
                prefetch(numbers, np.int64(at[number + PREFETCH_DISTANCE]))
            numbers[at[number]] = group
        read += sizes[group]


def mark_row_ends_kernel(numbers, borders, n):
    """Mark the first position of each row where no n-gram of n tokens begins any more."""
    before = -1
    for border in borders:
        if border - n + 1 > before:
            numbers[border - n + 1] = TEXT_BORDER
        before = border


def last_tokens_kernel(words, suffixes, last_tokens):
    """The last token of each n-gram, which is that of its suffix."""
    for number in range(len(suffixes)):
        if number + PREFETCH_DISTANCE < len(suffixes):
            prefetch(words, np.int64(suffixes[number + PREFETCH_DISTANCE]))
        last_tokens[number] = words[suffixes[number]]
    return last_tokens


# --- Preparing text and merging counts; the readable twins are in statistical/ngram/counts.py ---


def add_borders_kernel(tokens, lengths, targets, end, allowed, text):
    """Compiled twin of `add_borders` in statistical/ngram/counts.py."""
    place, to = 0, 0
    for length in lengths:
        for step in range(length):
            token, asked = tokens[place], targets[place]
            expected = tokens[place + 1] if step + 1 < length else end
            if asked != expected or (token == end) != (step == 0):
                return len(tokens)
            if asked < 0 or asked >= len(allowed) or not allowed[asked]:
                return place
            text[to] = token
            place, to = place + 1, to + 1
        text[to], text[to + 1] = end, TEXT_BORDER
        to += 2
    return -1


def unigram_counts_kernel(text, times):
    """Token counts; the first token of each row is not counted."""
    before = np.int32(TEXT_BORDER)
    for token in text:
        if token != TEXT_BORDER and before != TEXT_BORDER:
            times[token] += 1
        before = token
    return times


def merge_counts_kernel(
    kinds, many, words, times, many_b, words_b, times_b, first, at, at_b, made, sums, marks, pieces
):
    """Merge the n-grams of two texts from context `first` on, while the buffers suffice.

    kinds   for each context: 1: in the first text, 2: in the second, 3: in both
    many …  for each text the number of continuations of its contexts, their last tokens and counts; `at` is the number
            of contexts and n-grams read so far
    made, sums, marks, pieces
            output: last tokens, counts and kinds of the merged n-grams, and the number of them in each context

    Returns the next context and the number of merged n-grams.
    """
    context, filled = first, 0
    while context < len(kinds):
        left = many[at[0]] if kinds[context] & 1 else 0
        left_b = many_b[at_b[0]] if kinds[context] & 2 else 0
        if filled + left + left_b > len(made) or context - first == len(pieces):
            break
        at[0] += kinds[context] & 1
        at_b[0] += kinds[context] >> 1
        end, end_b, before = at[1] + left, at_b[1] + left_b, filled
        while at[1] < end or at_b[1] < end_b:
            token = words[at[1]] if at[1] < end else np.int32(0x7FFFFFFF)
            token_b = words_b[at_b[1]] if at_b[1] < end_b else np.int32(0x7FFFFFFF)
            made[filled], sums[filled], marks[filled] = min(token, token_b), 0, 0
            if token <= token_b:
                sums[filled] += times[at[1]]
                marks[filled] += 1
                at[1] += 1
            if token_b <= token:
                sums[filled] += times_b[at_b[1]]
                marks[filled] += 2
                at_b[1] += 1
            filled += 1
        pieces[context - first] = filled - before
        context += 1
    return context, filled
