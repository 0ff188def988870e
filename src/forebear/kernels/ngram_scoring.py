"""Texts scored by a table of n-grams, length by length: compiled loops.

The readable twin is `statistics.backoff`. Tokens are taken in blocks. Of each token in a block its pair is looked up,
then of those whose pair was found the n-gram of three tokens, and so on: who is left is told by adding up zeros and
ones, so that no jump has to be guessed, and memory is asked for no line in vain. A longer n-gram can be there only
where both parts of it are that are a token shorter: the one that ends here, and the one that ends a token earlier.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import inlined
from forebear.kernels.memory import wanted
from forebear.kernels.ngram_table import EIGHT, home_of, joined, looked_up, looked_up_longest

BLOCK = 256  # tokens: so few that all that is known of them stays near, and more than memory can be asked for at once
AHEAD = 24  # n-grams whose lines are asked of memory before they are looked at
ONE = np.uint64(1)  # numbers without a sign count nothing from an array's end, which need not be looked at then


def rooms(order: int) -> tuple[np.ndarray, ...]:
    """Room to compute in. Of the tokens of a block, and of the one before them, which stands at place 0:

    hashes, weights  by length: of the n-gram that ends there, its 64 bits and its back-off
    matched          tokens of the longest n-gram that is there
    Of the tokens of a block, from place 0 on:
    words, logs      their ids, and log P by the longest n-gram
    reach            tokens of the context that counts
    Of the n-grams that are looked for:
    at, homes        of which token in the block, and where their lines begin
    """
    return (
        np.zeros((order + 1, BLOCK + 1), np.uint64),
        np.zeros((order + 1, BLOCK + 1), np.float32),
        np.zeros(BLOCK + 1, np.int32),
        np.zeros(BLOCK, np.int32),
        np.zeros(BLOCK),
        np.zeros(BLOCK, np.int32),
        np.zeros(BLOCK + 1, np.uint64),
        np.zeros(BLOCK + 1, np.uint64),
    )


def scored_in_loops(
    tokens, lengths, end, order, salt, single, lines, begins, far, even, told, matches,
    hashes, weights, matched, words, logs, reach, at, homes,
):  # fmt: skip
    """log P of each token of rows that stand one after the other, after those before it in its row.

    The first token of a row is only seen; what stands before an end is not looked at behind it.

    lines    (8 · lines,), and begins (order + 2,): where the lines of n-grams of n tokens begin
    far      (order + 1,) how many lines from home n-grams of n tokens stand
    even     (V,) or none: a token that a context lacks falls back to it instead of to the shorter context
    told     (tokens,) to be filled; and `matches`, or none: tokens of the longest n-gram that is there and ends at each
    """
    row, left, before = -1, np.int64(0), np.int32(-1)
    for begin in range(0, len(tokens), BLOCK):
        many = min(BLOCK, len(tokens) - begin)
        for place in range(many):
            token = tokens[begin + place]
            reach[place] = min(1, order - 1) if before == end else order - 1
            if left == 0:
                while left == 0:
                    row += 1
                    left = lengths[row]
                reach[place] = 0
            left -= 1
            before = token
            words[place], hashes[1, place + 1] = token, joined(salt, token)
            matched[place + 1], at[place] = 1, place
            logs[place], weights[1, place + 1] = single[np.uint32(token), 0], single[np.uint32(token), 1]
        found = many
        for n in range(2, order):
            found = _found_of(n, found, lines, begins, far, hashes, weights, matched, words, logs, reach, at, homes)
        if order > 1:
            _found_of_longest(order, found, lines, begins, far, hashes, matched, words, logs, reach, at, homes)
        if len(even):
            for place in range(many):
                known = min(reach[place], matched[place])
                if matched[place + 1] <= known:
                    logs[place] = np.float64(even[words[place]]) + weights[known, place]
        else:
            for n in range(1, order):
                for place in range(many):
                    counts = (n >= matched[place + 1]) & (n <= reach[place]) & (n <= matched[place])
                    logs[place] += weights[n, place] if counts else 0.0
        for place in range(many):
            told[begin + place] = logs[place]
        if len(matches):
            for place in range(many):
                matches[begin + place] = matched[place + 1]
        for n in range(1, order + 1):
            hashes[n, 0], weights[n, 0] = hashes[n, many], weights[n, many]
        matched[0] = matched[many]


@inlined
def _possible(n, many, lines, begins, hashes, matched, words, reach, at, homes):
    """Which of so many n-grams of n tokens may be there, and where; and how many. Memory is asked for the first."""
    first, size, possible = np.uint64(begins[n]), begins[n + 1] - begins[n], np.uint64(0)
    for number in range(many):
        place = at[np.uint64(number)]
        hashed = joined(hashes[n - 1, place], words[place])
        hashes[n, place + ONE], at[possible] = hashed, place
        homes[possible] = (first + home_of(hashed, size)) * EIGHT
        possible += np.uint64((matched[place] >= n - 1) & (reach[place] >= n - 1))
    for number in range(min(AHEAD, np.int64(possible))):
        wanted(lines, np.int64(homes[np.uint64(number)]))
    return np.int64(possible)


@inlined
def _found_of(n, many, lines, begins, far, hashes, weights, matched, words, logs, reach, at, homes):
    """Looks the n-grams of n tokens up that may be there, among so many; and how many were found."""
    possible, found = _possible(n, many, lines, begins, hashes, matched, words, reach, at, homes), np.uint64(0)
    last = np.uint64(far[n]) * EIGHT
    for number in range(possible):
        if number + AHEAD < possible:
            wanted(lines, np.int64(homes[np.uint64(number + AHEAD)]))
        place, home = at[np.uint64(number)], homes[np.uint64(number)]
        hit, log, weight = looked_up(lines, home, hashes[n, place + ONE], home + last)
        logs[place], weights[n, place + ONE] = np.float64(log) if hit else logs[place], weight
        matched[place + ONE] += np.int32(hit)
        at[found] = place
        found += np.uint64(hit)
    return np.int64(found)


@inlined
def _found_of_longest(n, many, lines, begins, far, hashes, matched, words, logs, reach, at, homes):
    """The same of the longest n-grams."""
    possible = _possible(n, many, lines, begins, hashes, matched, words, reach, at, homes)
    last = np.uint64(far[n]) * EIGHT
    for number in range(possible):
        if number + AHEAD < possible:
            wanted(lines, np.int64(homes[np.uint64(number + AHEAD)]))
        place, home = at[np.uint64(number)], homes[np.uint64(number)]
        hit, log = looked_up_longest(lines, home, hashes[n, place + ONE], home + last)
        logs[place] = np.float64(log) if hit else logs[place]
        matched[place + ONE] += np.int32(hit)
