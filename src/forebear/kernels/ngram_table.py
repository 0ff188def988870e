"""N-grams in a table that is asked by hash: compiled loops.

The readable twin is `statistics.backoff`, which looks n-grams up by halving. Here an n-gram is known by 64 bits, made
of those of all its tokens but the last: so where it would stand is known before it is looked at, and memory is asked.

A table is lines of 64 bytes, as memory gives them: eight numbers of 64 bits. In a line stand the hashes of four
n-grams, then of each its logarithm and its back-off in one number; or, of the longest n-grams, which nothing continues,
five hashes, then their logarithms, two in a number. All of a line are compared at once: jumps that are guessed wrong
cost more than comparing. Where a line is full, the next one goes on with it: then the lowest bit of its first hash is
set, which no hash has by itself, so that who looks for what is not there seldom looks into a second line.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import inlined
from forebear.kernels.lines import ABOVE, LONGEST, MIDDLE, SPARE
from forebear.kernels.memory import as_float, wanted

FIRST, SECOND = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
HALF, LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
ONE, TWO, THREE, FOUR, EIGHT = (np.uint64(number) for number in (1, 2, 3, 4, 8))
EVEN, FULL = np.uint64(0xFFFF_FFFF_FFFF_FFFE), np.uint64(1)  # all bits of a hash; and the one that says: see next line
AHEAD = 12  # n-grams
BLOCK = 1 << 12  # n-grams that are looked at before those at home are entered


@inlined
def joined(before, token):
    """The 64 bits of an n-gram, from those of all its tokens but the last."""
    hashed = (before ^ (np.uint64(token) + np.uint64(1)) * SECOND) * FIRST
    hashed ^= hashed >> np.uint64(31)
    hashed &= EVEN
    return hashed if hashed else np.uint64(2)


@inlined
def home_of(hashed, lines):
    """The line where the search for it begins among so many; never among the spare."""
    return ((hashed >> HALF) * np.uint64(lines - SPARE)) >> HALF


def of_tokens_in_loops(tokens, salt):
    made = np.empty(len(tokens), np.uint64)
    for number in range(len(tokens)):
        made[number] = joined(salt, tokens[number])
    return made


def of_level_in_loops(before, continuations, words, made, context, at):
    """The 64 bits of each n-gram, from those of the n-grams that are one shorter.

    From one context on, whose n-grams begin at number `at`, as far as there is room for all of a context. The next
    context is told, and where its n-grams begin.
    """
    begin = at
    while context < len(before) and at - begin + np.int64(continuations[context]) <= len(made):
        for number in range(at, at + np.int64(continuations[context])):
            made[number - begin] = joined(before[context], words[number])
        at += np.int64(continuations[context])
        context += 1
    return context, at


def filled_in_loops(lines, used, begin, size, hashes, logs, backoffs, longest):
    """Enters n-grams with the bits of their logarithms and, unless they are the longest, back-offs.

    lines  those from number `begin` on, of `size` in all; who is at home elsewhere is passed over. The last SPARE are
           nobody's home here, but for who finds those before full.
    used   how many n-grams each line has: so few numbers that they stay near, and no line is read to enter one more

    How many lines from home any of them stands; -1: two are alike, or there is no room. Two that are alike and in the
    same line are not seen here.
    """
    many, farthest, flat = LONGEST if longest else MIDDLE, np.int64(0), lines.reshape(-1)
    at_home, homes, first = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), 0
    while first < len(hashes):
        found, last = 0, min(first + BLOCK, len(hashes))
        for number in range(first, last):  # without a jump, as it would often be guessed wrong
            home = np.int64(home_of(hashes[number], size)) - begin
            at_home[found], homes[found] = number, home
            found += np.int64(home >= 0) & np.int64(home < len(lines) - SPARE)
        first = last
        for turn in range(found):
            if turn + AHEAD < found:
                wanted(flat, homes[turn + AHEAD] * ABOVE)
            number, line = at_home[turn], homes[turn]
            hashed = hashes[number]
            while used[line] == many:
                for place in range(many):
                    if lines[line, place] & EVEN == hashed:
                        return -1
                lines[line, 0] |= FULL
                line += 1
                if line == len(lines):
                    return -1
            place = np.int64(used[line])
            used[line] = place + 1
            lines[line, place] = hashed
            if longest:
                lines[line, LONGEST + place // 2] |= np.uint64(logs[number]) << (HALF * np.uint64(place % 2))
            else:
                lines[line, MIDDLE + place] = np.uint64(logs[number]) | np.uint64(backoffs[number]) << HALF
            farthest = max(farthest, line - homes[turn])
    return farthest


def alike_in_loops(lines, used):
    """Whether any line has two n-grams that are alike."""
    for line in range(len(lines)):
        for one in range(1, used[line]):
            for other in range(one):
                if (lines[line, one] ^ lines[line, other]) & EVEN == 0:
                    return True
    return False


def summed_in_loops(lines, sums):
    """Goes on with the sums of the columns of a table, which change with any bit of it and with the order of lines."""
    for line in range(len(lines)):
        for column in range(ABOVE):
            mixed = (sums[column] ^ lines[line, column]) * FIRST
            sums[column] = mixed ^ (mixed >> HALF)


@inlined
def looked_up(lines, home, hashed, last):
    """Whether an n-gram that may go on is there, its logarithm and its back-off; numbers of another's, or none, if not.

    Its own line, which begins at `home`, is looked at, and where that was too full others up to the one at `last`.
    Which of a line's hashes is the same is added up: a jump for each would often be guessed wrong.
    """
    at = home
    while True:
        first, two, three, four = lines[at], lines[at + ONE], lines[at + TWO], lines[at + THREE]
        second, third, fourth = two == hashed, three == hashed, four == hashed
        hit = ((first & EVEN) == hashed) | second | third | fourth
        if (not hit) & ((first & FULL) != 0) & (at != last):
            at += EIGHT
            continue
        where = at + np.uint64(MIDDLE) + np.uint64(second) + TWO * np.uint64(third) + THREE * np.uint64(fourth)
        return hit, as_float(np.uint32(lines[where] & LOW)), as_float(np.uint32(lines[where] >> HALF))


@inlined
def looked_up_longest(lines, home, hashed, last):
    """The same of one of the longest, which has no back-off."""
    at = home
    while True:
        first, two, three, four = lines[at], lines[at + ONE], lines[at + TWO], lines[at + THREE]
        second, third, fourth, fifth = two == hashed, three == hashed, four == hashed, lines[at + FOUR] == hashed
        hit = ((first & EVEN) == hashed) | second | third | fourth | fifth
        if (not hit) & ((first & FULL) != 0) & (at != last):
            at += EIGHT
            continue
        pair = lines[at + np.uint64(LONGEST) + np.uint64(third | fourth) + TWO * np.uint64(fifth)]
        return hit, as_float(np.uint32((pair >> (HALF * np.uint64(second | fourth))) & LOW))


@inlined
def _asked(hashed, n, order, lines, begins, far):
    """The logarithm and the back-off weight of an n-gram of n tokens; no numbers where it is not there."""
    home, nothing = (np.uint64(begins[n]) + home_of(hashed, begins[n + 1] - begins[n])) * EIGHT, np.float32(np.nan)
    last = home + np.uint64(far[n]) * EIGHT
    if n < order:
        hit, log, weight = looked_up(lines, home, hashed, last)
    else:
        hit, log = looked_up_longest(lines, home, hashed, last)
        weight = nothing
    return (log, weight) if hit else (nothing, nothing)


def asked_in_loops(before, tokens, n, order, lines, begins, far, told):
    """log P of these tokens after one context of n - 1 tokens, which they were all seen after; else no number."""
    for number in range(len(tokens)):
        told[number] = _asked(joined(before, tokens[number]), n, order, lines, begins, far)[0]


def context_in_loops(tokens, salt):
    """The 64 bits of one n-gram."""
    hashed = joined(salt, tokens[0])
    for number in range(1, len(tokens)):
        hashed = joined(hashed, tokens[number])
    return hashed


def weight_in_loops(hashed, n, order, lines, begins, far):
    """The back-off weight of one n-gram of n tokens; no number where it is not there."""
    return _asked(hashed, n, order, lines, begins, far)[1]
