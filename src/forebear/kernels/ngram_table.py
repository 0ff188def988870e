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

from forebear.kernels.intrinsics import bits_as_float, prefetch
from forebear.kernels.jit import inline_kernel
from forebear.kernels.layout import LINE_BACKOFF, LINE_LONGEST, LINE_MIDDLE, SPARE_LINES

FIRST, SECOND = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
HALF, LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
ONE, TWO, THREE, FOUR, EIGHT = (np.uint64(number) for number in (1, 2, 3, 4, 8))
EVEN, FULL = np.uint64(0xFFFF_FFFF_FFFF_FFFE), np.uint64(1)  # all bits of a hash; and the one that says: see next line
AHEAD = 12  # n-grams
BLOCK = 1 << 12  # n-grams that are looked at before those at home are entered


@inline_kernel
def extend_hash(before, token):
    """The 64 bits of an n-gram, from those of all its tokens but the last."""
    hashed = (before ^ (np.uint64(token) + np.uint64(1)) * SECOND) * FIRST
    hashed ^= hashed >> np.uint64(31)
    hashed &= EVEN
    return hashed if hashed else np.uint64(2)


@inline_kernel
def home_slot(hashed, lines):
    """The line where the search for it begins among so many; never among the spare."""
    return ((hashed >> HALF) * np.uint64(lines - SPARE_LINES)) >> HALF


def hash_tokens_kernel(tokens, salt):
    made = np.empty(len(tokens), np.uint64)
    for number in range(len(tokens)):
        made[number] = extend_hash(salt, tokens[number])
    return made


def hash_level_kernel(before, continuations, words, made, context, at):
    """The 64 bits of each n-gram, from those of the n-grams that are one shorter.

    From one context on, whose n-grams begin at number `at`, as far as there is room for all of a context. The next
    context is told, and where its n-grams begin.
    """
    begin = at
    while context < len(before) and at - begin + np.int64(continuations[context]) <= len(made):
        for number in range(at, at + np.int64(continuations[context])):
            made[number - begin] = extend_hash(before[context], words[number])
        at += np.int64(continuations[context])
        context += 1
    return context, at


def fill_table_kernel(lines, used, begin, size, hashes, logs, backoffs, longest):
    """Enters n-grams with the bits of their logarithms and, unless they are the longest, back-offs.

    lines  those from number `begin` on, of `size` in all; who is at home elsewhere is passed over. The last SPARE are
           nobody's home here, but for who finds those before full.
    used   how many n-grams each line has: so few numbers that they stay near, and no line is read to enter one more

    How many lines from home any of them stands; -1: two are alike, or there is no room. Two that are alike and in the
    same line are not seen here.
    """
    many, farthest, flat = LINE_LONGEST if longest else LINE_MIDDLE, np.int64(0), lines.reshape(-1)
    at_home, homes, first = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), 0
    while first < len(hashes):
        found, last = 0, min(first + BLOCK, len(hashes))
        for number in range(first, last):  # without a jump, as it would often be guessed wrong
            home = np.int64(home_slot(hashes[number], size)) - begin
            at_home[found], homes[found] = number, home
            found += np.int64(home >= 0) & np.int64(home < len(lines) - SPARE_LINES)
        first = last
        for turn in range(found):
            if turn + AHEAD < found:
                prefetch(flat, homes[turn + AHEAD] * LINE_BACKOFF)
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
                lines[line, LINE_LONGEST + place // 2] |= np.uint64(logs[number]) << (HALF * np.uint64(place % 2))
            else:
                lines[line, LINE_MIDDLE + place] = np.uint64(logs[number]) | np.uint64(backoffs[number]) << HALF
            farthest = max(farthest, line - homes[turn])
    return farthest


def has_duplicates_kernel(lines, used):
    """Whether any line has two n-grams that are alike."""
    for line in range(len(lines)):
        for one in range(1, used[line]):
            for other in range(one):
                if (lines[line, one] ^ lines[line, other]) & EVEN == 0:
                    return True
    return False


def checksum_kernel(lines, sums):
    """Goes on with the sums of the columns of a table, which change with any bit of it and with the order of lines."""
    for line in range(len(lines)):
        for column in range(LINE_BACKOFF):
            mixed = (sums[column] ^ lines[line, column]) * FIRST
            sums[column] = mixed ^ (mixed >> HALF)


@inline_kernel
def find_entry(lines, home, hashed, last):
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
        where = at + np.uint64(LINE_MIDDLE) + np.uint64(second) + TWO * np.uint64(third) + THREE * np.uint64(fourth)
        return hit, bits_as_float(np.uint32(lines[where] & LOW)), bits_as_float(np.uint32(lines[where] >> HALF))


@inline_kernel
def find_longest_entry(lines, home, hashed, last):
    """The same of one of the longest, which has no back-off."""
    at = home
    while True:
        first, two, three, four = lines[at], lines[at + ONE], lines[at + TWO], lines[at + THREE]
        second, third, fourth, fifth = two == hashed, three == hashed, four == hashed, lines[at + FOUR] == hashed
        hit = ((first & EVEN) == hashed) | second | third | fourth | fifth
        if (not hit) & ((first & FULL) != 0) & (at != last):
            at += EIGHT
            continue
        pair = lines[at + np.uint64(LINE_LONGEST) + np.uint64(third | fourth) + TWO * np.uint64(fifth)]
        return hit, bits_as_float(np.uint32((pair >> (HALF * np.uint64(second | fourth))) & LOW))


@inline_kernel
def _asked(hashed, n, order, lines, begins, far):
    """The logarithm and the back-off weight of an n-gram of n tokens; no numbers where it is not there."""
    home, nothing = (np.uint64(begins[n]) + home_slot(hashed, begins[n + 1] - begins[n])) * EIGHT, np.float32(np.nan)
    last = home + np.uint64(far[n]) * EIGHT
    if n < order:
        hit, log, weight = find_entry(lines, home, hashed, last)
    else:
        hit, log = find_longest_entry(lines, home, hashed, last)
        weight = nothing
    return (log, weight) if hit else (nothing, nothing)


def lookup_log_probs_kernel(before, tokens, n, order, lines, begins, far, told):
    """log P of these tokens after one context of n - 1 tokens, which they were all seen after; else no number."""
    for number in range(len(tokens)):
        told[number] = _asked(extend_hash(before, tokens[number]), n, order, lines, begins, far)[0]


def hash_context_kernel(tokens, salt):
    """The 64 bits of one n-gram."""
    hashed = extend_hash(salt, tokens[0])
    for number in range(1, len(tokens)):
        hashed = extend_hash(hashed, tokens[number])
    return hashed


def backoff_weight_kernel(hashed, n, order, lines, begins, far):
    """The back-off weight of one n-gram of n tokens; no number where it is not there."""
    return _asked(hashed, n, order, lines, begins, far)[1]


# Texts scored by a table of n-grams, length by length: compiled loops.
#
# The readable twin is `statistics.backoff`. Tokens are taken in blocks. Of each token in a block its pair is looked up,
# then of those whose pair was found the n-gram of three tokens, and so on: who is left is told by adding up zeros and
# ones, so that no jump has to be guessed, and memory is asked for no line in vain. A longer n-gram can be there only
# where both parts of it are that are a token shorter: the one that ends here, and the one that ends a token earlier.


NGRAM_SCORING_BLOCK = (
    256  # tokens: so few that all that is known of them stays near, and more than memory can be asked for at once
)
NGRAM_SCORING_AHEAD = 24  # n-grams whose lines are asked of memory before they are looked at
NGRAM_SCORING_ONE = np.uint64(
    1
)  # numbers without a sign count nothing from an array's end, which need not be looked at then


def scoring_buffers(order: int) -> tuple[np.ndarray, ...]:
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
        np.zeros((order + 1, NGRAM_SCORING_BLOCK + 1), np.uint64),
        np.zeros((order + 1, NGRAM_SCORING_BLOCK + 1), np.float32),
        np.zeros(NGRAM_SCORING_BLOCK + 1, np.int32),
        np.zeros(NGRAM_SCORING_BLOCK, np.int32),
        np.zeros(NGRAM_SCORING_BLOCK),
        np.zeros(NGRAM_SCORING_BLOCK, np.int32),
        np.zeros(NGRAM_SCORING_BLOCK + 1, np.uint64),
        np.zeros(NGRAM_SCORING_BLOCK + 1, np.uint64),
    )


def score_ngrams_kernel(
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
    for begin in range(0, len(tokens), NGRAM_SCORING_BLOCK):
        many = min(NGRAM_SCORING_BLOCK, len(tokens) - begin)
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
            words[place], hashes[1, place + 1] = token, extend_hash(salt, token)
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


@inline_kernel
def _possible(n, many, lines, begins, hashes, matched, words, reach, at, homes):
    """Which of so many n-grams of n tokens may be there, and where; and how many. Memory is asked for the first."""
    first, size, possible = np.uint64(begins[n]), begins[n + 1] - begins[n], np.uint64(0)
    for number in range(many):
        place = at[np.uint64(number)]
        hashed = extend_hash(hashes[n - 1, place], words[place])
        hashes[n, place + NGRAM_SCORING_ONE], at[possible] = hashed, place
        homes[possible] = (first + home_slot(hashed, size)) * EIGHT
        possible += np.uint64((matched[place] >= n - 1) & (reach[place] >= n - 1))
    for number in range(min(NGRAM_SCORING_AHEAD, np.int64(possible))):
        prefetch(lines, np.int64(homes[np.uint64(number)]))
    return np.int64(possible)


@inline_kernel
def _found_of(n, many, lines, begins, far, hashes, weights, matched, words, logs, reach, at, homes):
    """Looks the n-grams of n tokens up that may be there, among so many; and how many were found."""
    possible, found = _possible(n, many, lines, begins, hashes, matched, words, reach, at, homes), np.uint64(0)
    last = np.uint64(far[n]) * EIGHT
    for number in range(possible):
        if number + NGRAM_SCORING_AHEAD < possible:
            prefetch(lines, np.int64(homes[np.uint64(number + NGRAM_SCORING_AHEAD)]))
        place, home = at[np.uint64(number)], homes[np.uint64(number)]
        hit, log, weight = find_entry(lines, home, hashes[n, place + NGRAM_SCORING_ONE], home + last)
        logs[place], weights[n, place + NGRAM_SCORING_ONE] = np.float64(log) if hit else logs[place], weight
        matched[place + NGRAM_SCORING_ONE] += np.int32(hit)
        at[found] = place
        found += np.uint64(hit)
    return np.int64(found)


@inline_kernel
def _found_of_longest(n, many, lines, begins, far, hashes, matched, words, logs, reach, at, homes):
    """The same of the longest n-grams."""
    possible = _possible(n, many, lines, begins, hashes, matched, words, reach, at, homes)
    last = np.uint64(far[n]) * EIGHT
    for number in range(possible):
        if number + NGRAM_SCORING_AHEAD < possible:
            prefetch(lines, np.int64(homes[np.uint64(number + NGRAM_SCORING_AHEAD)]))
        place, home = at[np.uint64(number)], homes[np.uint64(number)]
        hit, log = find_longest_entry(lines, home, hashes[n, place + NGRAM_SCORING_ONE], home + last)
        logs[place] = np.float64(log) if hit else logs[place]
        matched[place + NGRAM_SCORING_ONE] += np.int32(hit)
