"""N-grams in a table that is asked by hash, and texts scored by it: compiled loops.

The readable twin is `statistics.backoff`, which looks n-grams up by halving. Here the n-gram of a text that ends at a
token is known by 64 bits, made of those of the one that ends a token earlier: so where all of a token's n-grams would
stand is known a dozen tokens before they are looked at, and memory is asked for them then.

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
HALF, LOW, EIGHT = np.uint64(32), np.uint64(0xFFFF_FFFF), np.uint64(8)
EVEN, FULL = np.uint64(0xFFFF_FFFF_FFFF_FFFE), np.uint64(1)  # all bits of a hash; and the one that says: see next line
AHEAD, RING = 12, 16  # tokens that are looked ahead, and a power of two above that
BLOCK = 1 << 12  # n-grams that are looked at before those at home are entered
ROOM = 16  # tokens of an n-gram, and more than any has


@inlined
def _joined(before, token):
    """The 64 bits of an n-gram, from those of all its tokens but the last."""
    hashed = (before ^ (np.uint64(token) + np.uint64(1)) * SECOND) * FIRST
    hashed ^= hashed >> np.uint64(31)
    hashed &= EVEN
    return hashed if hashed else np.uint64(2)


@inlined
def _home(hashed, lines):
    """The line where the search for it begins among so many; never among the spare."""
    return ((hashed >> HALF) * np.uint64(lines - SPARE)) >> HALF


def of_tokens_in_loops(tokens, salt):
    made = np.empty(len(tokens), np.uint64)
    for number in range(len(tokens)):
        made[number] = _joined(salt, tokens[number])
    return made


def of_level_in_loops(before, continuations, words, made, context, at):
    """The 64 bits of each n-gram, from those of the n-grams that are one shorter.

    From one context on, whose n-grams begin at number `at`, as far as there is room for all of a context. The next
    context is told, and where its n-grams begin.
    """
    begin = at
    while context < len(before) and at - begin + np.int64(continuations[context]) <= len(made):
        for number in range(at, at + np.int64(continuations[context])):
            made[number - begin] = _joined(before[context], words[number])
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
            home = np.int64(_home(hashes[number], size)) - begin
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


@inlined
def _found(lines, at, hashed, last):
    """Where the hash of an n-gram stands that may go on, in its own line, which begins at `at`, or in one after it."""
    while True:
        first, two, three = lines[at], lines[at + np.uint64(1)], lines[at + np.uint64(2)]
        one, four = first & EVEN, lines[at + np.uint64(3)]
        if (one == hashed) | (two == hashed) | (three == hashed) | (four == hashed):
            return np.int64(at) + (two == hashed) + 2 * (three == hashed) + 3 * (four == hashed)
        if not first & FULL or at == last:
            return np.int64(-1)
        at += EIGHT


@inlined
def _found_longest(lines, at, hashed, last):
    """The same of one of the longest; instead of its place, its line's place times eight, and its own in that line."""
    while True:
        first, two, three = lines[at], lines[at + np.uint64(1)], lines[at + np.uint64(2)]
        one, four, five = first & EVEN, lines[at + np.uint64(3)], lines[at + np.uint64(4)]
        if (one == hashed) | (two == hashed) | (three == hashed) | (four == hashed) | (five == hashed):
            return np.int64(at) + (two == hashed) + 2 * (three == hashed) + 3 * (four == hashed) + 4 * (five == hashed)
        if not first & FULL or at == last:
            return np.int64(-1)
        at += EIGHT


@inlined
def _log_of_longest(lines, place):
    number = place & 7
    pair = lines[np.uint64(place - number + LONGEST + (number >> 1))]
    return as_float(np.uint32((pair >> (HALF * np.uint64(number & 1))) & LOW))


@inlined
def _hashed(place, reach, token, end, order, salt, lines, begins, hashes, homes):
    """The hashes of all n-grams that end at a token, from those of the token before; memory is asked for their lines.

    hashes  (RING, ROOM) by place: [is it an end, of one token, of two, …], and 0 where a row has none so long
    homes   (RING, ROOM) where their lines begin
    """
    mine, before = place & (RING - 1), (place - 1) & (RING - 1)
    hashes[mine, 0] = np.uint64(token == end)
    hashes[mine, 1] = _joined(salt, token)
    for n in range(2, order + 1):
        shorter = hashes[before, n - 1]
        if n > reach or shorter == 0:
            hashes[mine, n] = 0
            continue
        hashed = _joined(shorter, token)
        home = (np.uint64(begins[n]) + _home(hashed, begins[n + 1] - begins[n])) * EIGHT
        hashes[mine, n], homes[mine, n] = hashed, home
        wanted(lines, np.int64(home))


@inlined
def _looked_up(mine, alone, order, known, lines, far, hashes, homes, weights):
    """log P of a token by the longest of its n-grams that is there, and how long that is.

    Their back-off weights are put into weights[1]. Longer ones than by a token more than the token before had (`known`)
    cannot be there; `alone` is log P of the token by itself.
    """
    log, matched = np.float64(alone), 1
    for n in range(2, min(order, known + 1) + 1):
        hashed, home = hashes[mine, n], homes[mine, n]
        if hashed == 0:
            break
        last = home + np.uint64(far[n]) * EIGHT
        if n < order:
            found = _found(lines, home, hashed, last)
            if found < 0:
                break
            bits = lines[np.uint64(found + MIDDLE)]
            log = np.float64(as_float(np.uint32(bits & LOW)))
            weights[1, n] = np.float64(as_float(np.uint32(bits >> HALF)))
        else:
            found = _found_longest(lines, home, hashed, last)
            if found < 0:
                break
            log = np.float64(_log_of_longest(lines, found))
        matched = n
    return log, matched


def scored_in_loops(
    tokens,
    lengths,
    end,
    order,
    known_order,
    salt,
    single,
    lines,
    begins,
    far,
    even,
    hashes,
    homes,
    weights,
    told,
    matches,
):
    """log P of each token of rows that stand one after the other, after those before it in its row.

    The first token of a row is only seen; what stands before an end is not looked at behind it.

    known_order
             a tuple as long as the order, so that loops over lengths are compiled for this one; or an empty one
    lines    (8 · lines,), and begins (order + 2,): where the lines of n-grams of n tokens begin
    far      (order + 1,) how many lines from home n-grams of n tokens stand
    even     (V,) or none: a token that a context lacks falls back to it instead of to the shorter context
    hashes   and homes, as in `_hashed`, and weights (2, ROOM) float64: room to compute in
    told     (tokens,) to be filled; and `matches`, or none: tokens of the longest n-gram that is there and ends at each
    """
    if len(known_order):
        order = len(known_order)
    ahead, ahead_row, ahead_left, place = 0, -1, 0, 0
    for row in range(len(lengths)):
        known = 0
        weights[0, :] = 0.0
        for _ in range(lengths[row]):
            while ahead < len(tokens) and ahead <= place + AHEAD:
                reach = 1 if ahead_left == 0 else 2 if hashes[(ahead - 1) & (RING - 1), 0] else order
                while ahead_left == 0:
                    ahead_row += 1
                    ahead_left = lengths[ahead_row]
                _hashed(ahead, reach, tokens[ahead], end, order, salt, lines, begins, hashes, homes)
                ahead_left, ahead = ahead_left - 1, ahead + 1
            token, mine = tokens[place], place & (RING - 1)
            weights[1, 1] = single[token, 1]
            log, matched = _looked_up(mine, single[token, 0], order, known, lines, far, hashes, homes, weights)
            if len(even) and matched <= known:
                log = np.float64(even[token]) + weights[0, known]
            elif not len(even):
                for n in range(1, order):  # always as many rounds, and no jump that would be guessed wrong
                    log += weights[0, n] if n >= matched else 0.0
            told[place] = log
            if len(matches):
                matches[place] = matched
            known = min(1 if token == end else matched, order - 1)
            for n in range(1, order):
                weights[0, n] = weights[1, n] if n <= known else 0.0
            place += 1


@inlined
def _place(hashed, n, order, lines, begins, far):
    """Where the hash of an n-gram of n tokens stands; -1: it is not there."""
    home = (np.uint64(begins[n]) + _home(hashed, begins[n + 1] - begins[n])) * EIGHT
    last = home + np.uint64(far[n]) * EIGHT
    return _found(lines, home, hashed, last) if n < order else _found_longest(lines, home, hashed, last)


def asked_in_loops(before, tokens, n, order, lines, begins, far, told):
    """log P of these tokens after one context of n - 1 tokens, which they were all seen after; else no number."""
    for number in range(len(tokens)):
        found = _place(_joined(before, tokens[number]), n, order, lines, begins, far)
        if found < 0:
            told[number] = np.nan
        elif n < order:
            told[number] = as_float(np.uint32(lines[found + MIDDLE] & LOW))
        else:
            told[number] = _log_of_longest(lines, found)


def context_in_loops(tokens, salt):
    """The 64 bits of one n-gram."""
    hashed = _joined(salt, tokens[0])
    for number in range(1, len(tokens)):
        hashed = _joined(hashed, tokens[number])
    return hashed


def weight_in_loops(hashed, n, order, lines, begins, far):
    """The back-off weight of one n-gram of n tokens; no number where it is not there."""
    found = _place(hashed, n, order, lines, begins, far)
    return as_float(np.uint32(lines[found + MIDDLE] >> HALF)) if found >= 0 else np.float32(np.nan)
