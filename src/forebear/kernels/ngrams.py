"""N-grams of all lengths, found by sorting the places of a text where they begin: compiled loops, beside numpy's way.

A text is ids of tokens, and BORDER behind each row. Places that begin with the same n - 1 tokens stand together, and
sorting each such group by the token that comes next gives the n-grams of n tokens, in the order of a dictionary. A
group of one place needs no more sorting, however long its n-grams grow; and the n-gram that begins one place further
is the same one without its first token.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from forebear.kernels.compiling import compiled

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
    at = compiled(paired_in_loops)(text, vocabulary)
    sizes, continuations = compiled(sizes_of_pairs_in_loops)(text, at, vocabulary)
    numbers = text.copy()
    made: list[Found] = []
    with ThreadPoolExecutor(threads) as pool:
        for n in range(2, order + 1):
            if n > 2:
                at, sizes, continuations = _refined(text, n, vocabulary, at, sizes, threads, pool)
            words, suffixes = np.empty(len(sizes), np.int32), np.empty(len(sizes), np.int32)
            renewed = np.empty(len(text), np.int32)
            told = compiled(numbered_in_loops)
            parts = _parts(sizes, threads)
            begins = np.concatenate(([0], np.cumsum([int(sizes[a:b].sum()) for a, b in parts])))
            tasks = [
                pool.submit(told, text, n, at, sizes, a, b, int(begin), numbers, renewed, words, suffixes)
                for (a, b), begin in zip(parts, begins[:-1], strict=True)
            ]
            for task in tasks:
                task.result()
            numbers = renewed
            made.append(Found(words, sizes, continuations, suffixes))
    return made


def _parts(sizes: np.ndarray, threads: int) -> list[tuple[int, int]]:
    """Groups from … to …, of about equally many places."""
    if threads == 1 or len(sizes) < threads:
        return [(0, len(sizes))]
    ends = np.cumsum(sizes, dtype=np.int64)
    cuts = np.searchsorted(ends, np.arange(1, threads) * (int(ends[-1]) / threads)).tolist()
    return list(pairwise([0, *cuts, len(sizes)]))


def _refined(
    text: np.ndarray,
    n: int,
    vocabulary: int,
    at: np.ndarray,
    sizes: np.ndarray,
    threads: int,
    pool: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places and the sizes of their groups by n tokens, from those by n - 1; and into how many each group falls."""
    parts = _parts(sizes, threads)
    continuations, smaller = np.empty(len(sizes), np.int32), np.empty(len(at), np.int32)
    begins = np.concatenate(([0], np.cumsum([int(sizes[a:b].sum()) for a, b in parts]))).tolist()
    loop = compiled(refined_in_loops)
    tasks = [
        pool.submit(loop, text, n, vocabulary, at, sizes, a, b, begin, continuations, smaller)
        for (a, b), begin in zip(parts, begins[:-1], strict=True)
    ]
    told = [task.result() for task in tasks]
    if len(parts) == 1:
        places, groups = told[0]
        return at[:places].copy(), smaller[:groups].copy(), continuations
    left = [at[begin : begin + places] for begin, (places, _) in zip(begins, told, strict=False)]
    made = [smaller[begin : begin + groups] for begin, (_, groups) in zip(begins, told, strict=False)]
    return np.concatenate(left), np.concatenate(made), continuations


def paired_in_loops(text, vocabulary):
    """The places at which two tokens of a row begin, by the first token, then by the second, then as they come."""
    firsts, seconds = np.zeros(vocabulary + 1, np.int64), np.zeros(vocabulary + 1, np.int64)
    for place in range(len(text) - 1):
        if text[place] >= 0 and text[place + 1] >= 0:
            firsts[text[place] + 1] += 1
            seconds[text[place + 1] + 1] += 1
    for token in range(vocabulary):
        firsts[token + 1] += firsts[token]
        seconds[token + 1] += seconds[token]
    by_second, at = np.empty(seconds[vocabulary], np.int32), np.empty(firsts[vocabulary], np.int32)
    for place in range(len(text) - 1):
        if text[place] >= 0 and text[place + 1] >= 0:
            token = text[place + 1]
            by_second[seconds[token]] = place
            seconds[token] += 1
    for place in by_second:
        token = text[place]
        at[firsts[token]] = place
        firsts[token] += 1
    return at


def sizes_of_pairs_in_loops(text, at, vocabulary):
    """How many places each pair of tokens has, and how many pairs begin with each token."""
    sizes, continuations = np.empty(len(at), np.int32), np.zeros(vocabulary, np.int32)
    groups, first, second = 0, np.int32(-1), np.int32(-1)
    for place in at:
        if text[place] != first or text[place + 1] != second:
            first, second = text[place], text[place + 1]
            continuations[first] += 1
            sizes[groups] = 0
            groups += 1
        sizes[groups - 1] += 1
    return sizes[:groups].copy(), continuations


def refined_in_loops(text, n, vocabulary, at, sizes, first, last, begin, continuations, smaller):
    """Sorts the places of each group by their token number n, where their row has one.

    From `begin` on, where the places of the first group stand, `at` then has those that are left, and `smaller` the
    sizes of their groups. How many there are of both is told. Places with the same token stay in the order of the text.
    """
    tokens, places, found = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.int32)
    starts, read, left, groups = np.zeros(vocabulary, np.int32), begin, begin, begin
    for group in range(first, last):
        size, many, different = sizes[group], 0, 0
        if size > len(tokens):
            tokens, places = np.empty(2 * size, np.int32), np.empty(2 * size, np.int32)
            found = np.empty(2 * size, np.int32)
        for number in range(read, read + size):
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
                    smaller[groups + different] = 0
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
                smaller[groups + number] = starts[token]
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


def numbered_in_loops(text, n, at, sizes, first, last, begin, numbers, renewed, words, suffixes):
    """The last token of each group's n-gram, the number of what is left without its first; and by place, its number.

    `numbers` are those of the n-grams that are one shorter, by the place where they begin; `renewed` become ours.
    """
    read = begin
    for group in range(first, last):
        place = at[read]
        words[group] = text[place + n - 1]
        suffixes[group] = numbers[place + 1]
        for number in range(read, read + sizes[group]):
            renewed[at[number]] = group
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
