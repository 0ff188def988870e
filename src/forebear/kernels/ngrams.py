"""N-grams of all lengths, found by sorting the places of a text where they begin: compiled loops, beside numpy's way.

A text is ids of tokens, and BORDER behind each row. Places that begin with the same n - 1 tokens stand together, and
sorting each such group by the token that comes next gives the n-grams of n tokens, in the order of a dictionary. A
group of one place needs no more sorting, however long its n-grams grow; and the n-gram that begins one place further
is the same one without its first token.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.compiling import compiled
from forebear.kernels.memory import AHEAD, wanted

BORDER = -1  # behind each row
SMALL = 24  # places of a group that are sorted by putting each where it belongs


class Found(NamedTuple):
    """The n-grams of one length, in the order of a dictionary."""

    words: np.ndarray  # (size,) int32, their last tokens
    times: np.ndarray  # (size,) int32, how often each is there
    continuations: np.ndarray  # (shorter ones,) int32, how many of them begin with each n-gram that is one shorter
    suffixes: np.ndarray  # (size,) int32, the number of each without its first token


# -- numpy's way


def levels_in_numpy(text: np.ndarray, vocabulary: int, order: int) -> list[Found]:
    """The n-grams of 2 to `order` tokens: the number of each comes from those of the shorter ones it is made of."""
    there = text != BORDER
    numbers, size, made = np.where(there, text, -1).astype(np.int64), vocabulary, []
    for n in range(2, order + 1):
        inside = np.flatnonzero(there[: len(text) - n + 1])
        inside = inside[[not (text[at : at + n] == BORDER).any() for at in inside]] if len(inside) else inside
        keys = numbers[inside] * vocabulary + text[inside + n - 1]
        found, first, mine, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        continuations = np.bincount(found // vocabulary, minlength=size)
        suffixes = numbers[inside[first] + 1]
        made.append(Found(*(a.astype(np.int32) for a in (found % vocabulary, times, continuations, suffixes))))
        numbers, size = np.full(len(text), -1), len(found)
        numbers[inside] = mine
    return made


# -- compiled


def levels(text: np.ndarray, vocabulary: int, order: int, threads: int = 1) -> list[Found]:
    """The same. The text is int32, ends with BORDER and has fewer than 2³¹ tokens."""
    if order < 2 or len(text) < 2:
        nothing, none = np.zeros(0, np.int32), np.zeros(vocabulary, np.int32)
        return [Found(nothing, nothing, none if n == 2 else nothing, nothing) for n in range(2, order + 1)]
    at, sizes, words, continuations = _paired(text, vocabulary)
    made, numbers = [Found(words, sizes, continuations, words)], np.empty(len(text) if order > 2 else 0, np.int32)
    with ThreadPoolExecutor(threads) as pool:
        for n in range(3, order + 1):
            _spread(pool, entered_in_loops, _parts(sizes, threads), at, sizes, numbers)
            at, sizes, words, continuations = _refined(text, n, vocabulary, at, sizes, threads, pool)
            suffixes = np.empty(len(sizes), np.int32)
            _spread(pool, suffixes_in_loops, _parts(sizes, threads), at, sizes, numbers, suffixes)
            made.append(Found(words, sizes, continuations, suffixes))
    return made


def _paired(text: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `_refined` tells, of two tokens."""
    at = np.empty_like(text)
    places = compiled(paired_in_loops)(text, vocabulary, np.empty_like(text), at)
    at.resize(places, refcheck=False)
    sizes, words, continuations = np.empty_like(at), np.empty_like(at), np.zeros(vocabulary, np.int32)
    groups = compiled(sizes_of_pairs_in_loops)(text, at, sizes, words, continuations)
    for array in (sizes, words):
        array.resize(groups, refcheck=False)
    return at, sizes, words, continuations


class _Part(NamedTuple):
    """A run of groups, and where the places of the first of them begin."""

    first: int
    last: int
    begin: int


def _parts(sizes: np.ndarray, threads: int) -> list[_Part]:
    """All groups, in runs of about equally many places."""
    if threads == 1 or len(sizes) < threads:
        return [_Part(0, len(sizes), 0)]
    ends = np.cumsum(sizes, dtype=np.int64)
    cuts = [0, *np.searchsorted(ends, np.arange(1, threads) * (int(ends[-1]) / threads)).tolist(), len(sizes)]
    return [_Part(first, last, int(ends[first - 1]) if first else 0) for first, last in pairwise(cuts)]


def _spread(pool: ThreadPoolExecutor, loop: Callable[..., Any], parts: list[_Part], *given: Any) -> list[Any]:
    """What the loop tells of each part."""
    return [task.result() for task in [pool.submit(compiled(loop), *part, *given) for part in parts]]


def _refined(
    text: np.ndarray,
    n: int,
    vocabulary: int,
    at: np.ndarray,
    sizes: np.ndarray,
    threads: int,
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places, the sizes of their groups by n tokens, from those by n - 1, and their last tokens; and into how many each
    group falls.
    """
    parts = _parts(sizes, threads)
    continuations = np.empty(len(sizes), np.int32)
    smaller, words = np.empty(len(at), np.int32), np.empty(len(at), np.int32)
    told = _spread(pool, refined_in_loops, parts, text, n, vocabulary, at, sizes, continuations, smaller, words)
    groups = [many for _, many in told]
    places = [many for many, _ in told]
    made = (_closed_up(at, parts, places), _closed_up(smaller, parts, groups), _closed_up(words, parts, groups))
    return *made, continuations


def _closed_up(array: np.ndarray, parts: list[_Part], many: list[int]) -> np.ndarray:
    """The first numbers of each part, `many` of them, one after the other in as little room."""
    end = 0
    for part, mine in zip(parts, many, strict=True):
        array[end : end + mine] = array[part.begin : part.begin + mine]
        end += mine
    array.resize(end, refcheck=False)  # gives the rest back without copying
    return array


def bordered_in_loops(tokens, lengths, targets, end, allowed, text):
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
        text[to], text[to + 1] = end, BORDER
        to += 2
    return -1


def predicted_in_loops(text, times):
    """How often each token stands in a row, but at its beginning."""
    before = np.int32(BORDER)
    for token in text:
        if token != BORDER and before != BORDER:
            times[token] += 1
        before = token
    return times


def paired_in_loops(text, vocabulary, by_second, at):
    """The places at which two tokens of a row begin, by the first token, then by the second, then as they come; and how
    many there are.
    """
    firsts, seconds = np.zeros(vocabulary + 1, np.int64), np.zeros(vocabulary + 1, np.int64)
    for place in range(len(text) - 1):
        if text[place] >= 0 and text[place + 1] >= 0:
            firsts[text[place] + 1] += 1
            seconds[text[place + 1] + 1] += 1
    for token in range(vocabulary):
        firsts[token + 1] += firsts[token]
        seconds[token + 1] += seconds[token]
    places = firsts[vocabulary]
    for place in range(len(text) - 1):
        if text[place] >= 0 and text[place + 1] >= 0:
            token = text[place + 1]
            by_second[seconds[token]] = place
            seconds[token] += 1
    for number in range(places):
        if number + AHEAD < places:
            wanted(text, np.int64(by_second[number + AHEAD]))
        place = by_second[number]
        token = text[place]
        at[firsts[token]] = place
        firsts[token] += 1
    return places


def sizes_of_pairs_in_loops(text, at, sizes, words, continuations):
    """How many places each pair of tokens has, its second token, and how many pairs begin with each token; and how many
    pairs there are.
    """
    groups, first, second = 0, np.int32(-1), np.int32(-1)
    for number in range(len(at)):
        if number + AHEAD < len(at):
            wanted(text, np.int64(at[number + AHEAD]))
        place = at[number]
        if text[place] != first or text[place + 1] != second:
            first, second = text[place], text[place + 1]
            continuations[first] += 1
            sizes[groups], words[groups] = 0, second
            groups += 1
        sizes[groups - 1] += 1
    return groups


def refined_in_loops(first, last, begin, text, n, vocabulary, at, sizes, continuations, smaller, words):
    """Sorts the places of each group by their token number n, where their row has one.

    From `begin` on, where the places of the first group stand, `at` then has those that are left, `smaller` the sizes
    of their groups and `words` their tokens. How many places and groups there are is told. Places with the same token
    stay in the order of the text.
    """
    tokens, places, found = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.int32)
    starts, read, left, groups = np.zeros(vocabulary, np.int32), begin, begin, begin
    for group in range(first, last):
        size, many, different = sizes[group], 0, 0
        if size == 1:  # most are: no sorting, and no jump that might be guessed wrong
            if read + AHEAD < len(at):
                wanted(text, np.int64(at[read + AHEAD]) + n - 1)
            place = at[read]
            token = text[place + n - 1]
            there = np.int32(token >= 0)
            at[left], smaller[groups], words[groups] = place, 1, token
            read, left, groups = read + 1, left + there, groups + there
            continuations[group] = there
            continue
        if size > len(tokens):
            tokens, places = np.empty(2 * size, np.int32), np.empty(2 * size, np.int32)
            found = np.empty(2 * size, np.int32)
        for number in range(read, read + size):
            if number + AHEAD < len(at):
                wanted(text, np.int64(at[number + AHEAD]) + n - 1)
            token = text[at[number] + n - 1]
            if token >= 0:
                tokens[many], places[many] = token, at[number]
                many += 1
        read += size
        if many <= SMALL:
            for number in range(1, many):  # each is put where it belongs
                token, place, slot = tokens[number], places[number], number
                while slot > 0 and tokens[slot - 1] > token:
                    tokens[slot], places[slot] = tokens[slot - 1], places[slot - 1]
                    slot -= 1
                tokens[slot], places[slot] = token, place
            for number in range(many):
                at[left + number] = places[number]
                if number == 0 or tokens[number] != tokens[number - 1]:
                    smaller[groups + different], words[groups + different] = 0, tokens[number]
                    different += 1
                smaller[groups + different - 1] += 1
        else:
            for number in range(many):  # counted, and then put where their token's places begin
                if starts[tokens[number]] == 0:
                    found[different] = tokens[number]
                    different += 1
                starts[tokens[number]] += 1
            found[:different].sort()
            where = left
            for number in range(different):
                token = found[number]
                smaller[groups + number], words[groups + number] = starts[token], token
                starts[token], where = where, where + starts[token]
            for number in range(many):
                token = tokens[number]
                at[starts[token]] = places[number]
                starts[token] += 1
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
            if number + AHEAD < len(at):
                wanted(numbers, np.int64(at[number + AHEAD]))
            numbers[at[number]] = group
        read += sizes[group]


def suffixes_in_loops(first, last, begin, at, sizes, numbers, suffixes):
    """The number of each group's n-gram without its first token: `numbers`, of those one shorter, by their places."""
    read = begin
    for group in range(first, last):
        if read + AHEAD < len(at):
            wanted(numbers, np.int64(at[read + AHEAD]) + 1)
        suffixes[group] = numbers[at[read] + 1]
        read += sizes[group]


# -- counts of two texts


def joined_in_loops(kinds, many, words, times, many_b, words_b, times_b, first, at, at_b, made, sums, marks, pieces):
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
