"""N-grams of all lengths, found by sorting the places of a text where they begin: compiled loops, beside numpy's way.

A text is ids of tokens, and BORDER behind each row. Places that begin with the same n - 1 tokens stand together, and
sorting each such group by the token that comes next gives the n-grams of n tokens, in the order of a dictionary. A
group of one place needs no more sorting, however long its n-grams grow. The n-gram that begins one place further is
the same one without its first token; among those of a group its number rises with the token that comes next. So the
text itself is needed no more: in its room stands for each place the number of what begins there, at first a token's id.
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

TEXT_BORDER = -1  # behind each row
APART = 1 << 8  # groups of places, at the beginning of which a thread's share may begin
SMALL = 24  # places of a group that are sorted by putting each where it belongs


class NgramLevel(NamedTuple):
    """The n-grams of one length, in the order of a dictionary."""

    words: np.ndarray  # (size,) int32, their last tokens
    times: np.ndarray  # (size,) how often each is there
    continuations: np.ndarray  # (shorter ones,) how many of them begin with each n-gram that is one shorter
    suffixes: np.ndarray  # (size,) int32, the number of each without its first token


# -- numpy's way


def ngram_levels_reference(text: np.ndarray, vocabulary: int, order: int) -> list[NgramLevel]:
    """The n-grams of 2 to `order` tokens: the number of each comes from those of the shorter ones it is made of."""
    there = text != TEXT_BORDER
    numbers, size, made = np.where(there, text, -1).astype(np.int64), vocabulary, []
    for n in range(2, order + 1):
        inside = np.flatnonzero(there[: len(text) - n + 1])
        inside = inside[[not (text[at : at + n] == TEXT_BORDER).any() for at in inside]] if len(inside) else inside
        keys = numbers[inside] * vocabulary + text[inside + n - 1]
        found, first, mine, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        continuations = np.bincount(found // vocabulary, minlength=size)
        suffixes = numbers[inside[first] + 1]
        made.append(NgramLevel(*(a.astype(np.int32) for a in (found % vocabulary, times, continuations, suffixes))))
        numbers, size = np.full(len(text), -1), len(found)
        numbers[inside] = mine
    return made


# -- compiled


def ngram_levels(text: np.ndarray, vocabulary: int, order: int, threads: int = 1) -> list[NgramLevel]:
    """The same. The text is int32, ends with BORDER and has fewer than 2³¹ tokens; it is used up."""
    if order < 2 or len(text) < 2:
        nothing, none = np.zeros(0, np.int32), np.zeros(vocabulary, np.int32)
        return [NgramLevel(nothing, nothing, none if n == 2 else nothing, nothing) for n in range(2, order + 1)]
    at, sizes = _by_token(text, vocabulary)
    made: list[NgramLevel] = []
    borders, numbers, later = np.flatnonzero(text == TEXT_BORDER).astype(np.int32), text, np.zeros(0, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for n in range(2, order + 1):
            parts, before = _parts(sizes, threads), sizes
            if n > 2:  # the number of a single token is its id
                _spread(pool, entered_in_loops, parts, at, sizes, numbers)
                compile_kernel(ended_in_loops)(numbers, borders, n - 1)
            at, sizes, suffixes, continuations = _refined(numbers, vocabulary, at, sizes, parts, pool)
            if n > 2:
                made[-1], continuations = made[-1]._replace(times=narrow_ints(before)), narrow_ints(continuations)
            del before
            made.append(NgramLevel(later, sizes, continuations, suffixes))
    made[-1] = made[-1]._replace(times=narrow_ints(sizes))
    del at, sizes
    text.resize(0, refcheck=False)  # its room is wanted for what comes
    return _with_last_tokens(made)


def _with_last_tokens(levels: list[NgramLevel]) -> list[NgramLevel]:
    """Told at the end, as they can be: the last token of an n-gram is that of what it is without its first."""
    words, told = levels[0].suffixes, []
    for n, level in enumerate(levels, start=2):
        if n > 2:
            words = compile_kernel(last_tokens_in_loops)(words, level.suffixes, np.empty_like(level.suffixes))
        told.append(level._replace(words=words))
    return told


def _by_token(text: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """What `_refined` tells, of single tokens: their places, and how many each has."""
    at, sizes = np.empty_like(text), np.zeros(vocabulary, np.int32)
    places = compile_kernel(by_token_in_loops)(text, at, sizes)
    at.resize(places, refcheck=False)
    return at, sizes


class _NgramPartition(NamedTuple):
    """A run of groups, and where the places of the first of them begin."""

    first: int
    last: int
    begin: int


def _parts(sizes: np.ndarray, threads: int) -> list[_NgramPartition]:
    """All groups, in runs of about equally many places: cut only at every so many groups, which is near enough."""
    if threads == 1 or len(sizes) < threads * APART:
        return [_NgramPartition(0, len(sizes), 0)]
    begins = np.arange(0, len(sizes), APART)
    ends = np.cumsum(np.add.reduceat(sizes, begins, dtype=np.int64))
    before = np.searchsorted(ends, np.arange(1, threads) * (int(ends[-1]) / threads)).tolist()
    cuts = sorted({0, *before, len(begins)})
    return [
        _NgramPartition(first * APART, min(last * APART, len(sizes)), int(ends[first - 1]) if first else 0)
        for first, last in pairwise(cuts)
    ]


def _spread(pool: ThreadPoolExecutor, loop: Callable[..., Any], parts: list[_NgramPartition], *given: Any) -> list[Any]:
    """What the loop tells of each part."""
    return [task.result() for task in [pool.submit(compile_kernel(loop), *part, *given) for part in parts]]


def _refined(
    numbers: np.ndarray,
    vocabulary: int,
    at: np.ndarray,
    sizes: np.ndarray,
    parts: list[_NgramPartition],
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places, the sizes of their groups by a token more than before, and what those are without their first token; and
    into how many each group falls.
    """
    continuations = np.empty(len(sizes), np.int32)
    smaller, suffixes = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    told = _spread(pool, refined_in_loops, parts, numbers, vocabulary, at, sizes, continuations, smaller, suffixes)
    groups = [many for _, many in told]
    places = [many for many, _ in told]
    made = (_closed_up(at, parts, places), _closed_up(smaller, parts, groups), _closed_up(suffixes, parts, groups))
    return *made, continuations


def _closed_up(array: np.ndarray, parts: list[_NgramPartition], many: list[int]) -> np.ndarray:
    """The first numbers of each part, `many` of them, one after the other in as little room."""
    end = 0
    for part, mine in zip(parts, many, strict=True):
        array[end : end + mine] = array[part.begin : part.begin + mine]
        end += mine
    array.resize(end, refcheck=False)  # gives the rest back without copying
    return array


def by_token_in_loops(text, at, sizes):
    """The places of tokens, by the token, then as they come; how many each has, and how many there are."""
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


def refined_in_loops(first, last, begin, numbers, vocabulary, at, sizes, continuations, smaller, suffixes):
    """Sorts the places of each group by what begins one place further, where their row has that.

    From `begin` on, where the places of the first group stand, `at` then has those that are left, `smaller` the sizes
    of their groups and `suffixes` what begins one place further. How many places and groups there are is told. Places
    with the same suffix stay in the order of the text. Those of a group differ in their last token only, so their
    numbers lie within as many as there are tokens.
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
            there = np.int32(key >= 0)
            at[left], smaller[groups], suffixes[groups] = place, 1, key
            read, left, groups = read + 1, left + there, groups + there
            continuations[group] = there
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
        if many <= SMALL:
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


def entered_in_loops(first, last, begin, at, sizes, numbers):
    """The number of each group's n-gram, by the places where it begins."""
    read = begin
    for group in range(first, last):
        for number in range(read, read + sizes[group]):
            if number + PREFETCH_DISTANCE < len(at):
                prefetch(numbers, np.int64(at[number + PREFETCH_DISTANCE]))
            numbers[at[number]] = group
        read += sizes[group]


def ended_in_loops(numbers, borders, n):
    """Marks the first place of each row at which no n-gram of n tokens begins any more, though a shorter one did."""
    before = -1
    for border in borders:
        if border - n + 1 > before:
            numbers[border - n + 1] = TEXT_BORDER
        before = border


def last_tokens_in_loops(words, suffixes, told):
    """The last token of each n-gram: that of what it is without its first token."""
    for number in range(len(suffixes)):
        if number + PREFETCH_DISTANCE < len(suffixes):
            prefetch(words, np.int64(suffixes[number + PREFETCH_DISTANCE]))
        told[number] = words[suffixes[number]]
    return told


# Text laid out to be counted, and counts of two texts joined: compiled loops, beside numpy's way.
#
# The readable twins are in `statistics.counting`.


def add_borders_kernel(tokens, lengths, targets, end, allowed, text):
    """As `statistics.counting.bordered`."""
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
    """How often each token stands in a row, but at its beginning."""
    before = np.int32(TEXT_BORDER)
    for token in text:
        if token != TEXT_BORDER and before != TEXT_BORDER:
            times[token] += 1
        before = token
    return times


def merge_counts_kernel(
    kinds, many, words, times, many_b, words_b, times_b, first, at, at_b, made, sums, marks, pieces
):
    """The n-grams of two texts together, from context `first` on, as far as there is room for them.

    kinds   of each context of both: 1, the first text has it; 2, the second; 3, both have
    many …  continuations of each text's own contexts, their last tokens and how often each is there; `at` is how many
            contexts and n-grams of it were read
    made, sums, marks, pieces
            become last tokens, counts and kinds of all n-grams, and how many there are of each context

    How far it came: the next context, what was read of both, and how many n-grams there are.
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
            one = words[at[1]] if at[1] < end else np.int32(0x7FFFFFFF)
            other = words_b[at_b[1]] if at_b[1] < end_b else np.int32(0x7FFFFFFF)
            made[filled], sums[filled], marks[filled] = min(one, other), 0, 0
            if one <= other:
                sums[filled] += times[at[1]]
                marks[filled] += 1
                at[1] += 1
            if other <= one:
                sums[filled] += times_b[at_b[1]]
                marks[filled] += 2
                at_b[1] += 1
            filled += 1
        pieces[context - first] = filled - before
        context += 1
    return context, filled
