"""Hash table of n-grams: building it, looking entries up, and scoring texts.

The readable twin is statistical/ngram/backoff.py, which uses binary search. Here an n-gram is identified by a 64-bit
hash that extends the hash of its prefix, so that its cache line can be prefetched.

A table is cache lines of eight 64-bit numbers. A line holds the hashes of four n-grams, followed by their
log-probabilities and back-offs, two float32 in a number; or, for the longest n-grams, which have no back-off, five
hashes followed by their log-probabilities. All hashes of a line are compared without branches. When a line is full, the
next one continues it and the lowest bit of its first hash is set. No hash has that bit, so searches for absent n-grams
seldom read a second line.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import bits_as_float, prefetch
from forebear.kernels.jit import inline_kernel
from forebear.kernels.layout import LINE_BACKOFF, LINE_LONGEST, LINE_MIDDLE, SPARE_LINES

FIRST, SECOND = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
HALF, LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
ONE, TWO, THREE, FOUR, EIGHT = (np.uint64(number) for number in (1, 2, 3, 4, 8))
EVEN, FULL = np.uint64(0xFFFF_FFFF_FFFF_FFFE), np.uint64(1)  # bits of a hash, and the flag of a line that overflowed
AHEAD = 12  # n-grams whose lines are prefetched
BLOCK = 1 << 12  # n-grams selected before those of the present lines are inserted


@inline_kernel
def extend_hash(before, token):
    """Hash of an n-gram, from the hash of its prefix and its last token."""
    hashed = (before ^ (np.uint64(token) + np.uint64(1)) * SECOND) * FIRST
    hashed ^= hashed >> np.uint64(31)
    hashed &= EVEN
    return hashed if hashed else np.uint64(2)


@inline_kernel
def home_slot(hashed, lines):
    """The line where the search for a hash begins; never one of the spare lines."""
    return ((hashed >> HALF) * np.uint64(lines - SPARE_LINES)) >> HALF


def hash_tokens_kernel(tokens, salt):
    hashes = np.empty(len(tokens), np.uint64)
    for number in range(len(tokens)):
        hashes[number] = extend_hash(salt, tokens[number])
    return hashes


def hash_level_kernel(before, continuations, words, hashes, context, at):
    """Hash the n-grams from one context on until the buffer is full; returns the next context and its first n-gram."""
    begin = at
    while context < len(before) and at - begin + np.int64(continuations[context]) <= len(hashes):
        for number in range(at, at + np.int64(continuations[context])):
            hashes[number - begin] = extend_hash(before[context], words[number])
        at += np.int64(continuations[context])
        context += 1
    return context, at


def fill_table_kernel(lines, used, begin, size, hashes, logs, backoffs, longest):
    """Insert n-grams with the bits of their log-probabilities and, unless they are the longest, back-offs.

    lines  the lines from `begin` on, of `size` in all; n-grams of other lines are skipped. The last SPARE_LINES are
           only overflow
    used   number of n-grams in each line, kept apart so that no line has to be read

    Returns how many lines from its own an n-gram had to be moved at most; -1: a collision, or no space. Collisions
    within a line are found by `has_duplicates_kernel`.
    """
    many, farthest, flat = LINE_LONGEST if longest else LINE_MIDDLE, np.int64(0), lines.reshape(-1)
    at_home, homes, first = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), 0
    while first < len(hashes):
        found, last = 0, min(first + BLOCK, len(hashes))
        for number in range(first, last):  # without a branch, which would often be mispredicted
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
                for position in range(many):
                    if lines[line, position] & EVEN == hashed:
                        return -1
                lines[line, 0] |= FULL
                line += 1
                if line == len(lines):
                    return -1
            position = np.int64(used[line])
            used[line] = position + 1
            lines[line, position] = hashed
            if longest:
                lines[line, LINE_LONGEST + position // 2] |= np.uint64(logs[number]) << (HALF * np.uint64(position % 2))
            else:
                lines[line, LINE_MIDDLE + position] = np.uint64(logs[number]) | np.uint64(backoffs[number]) << HALF
            farthest = max(farthest, line - homes[turn])
    return farthest


def has_duplicates_kernel(lines, used):
    """Whether any line has two equal hashes."""
    for line in range(len(lines)):
        for one in range(1, used[line]):
            for other in range(one):
                if (lines[line, one] ^ lines[line, other]) & EVEN == 0:
                    return True
    return False


def checksum_kernel(lines, sums):
    """Update the checksums of the columns, which depend on every bit and on the order of lines."""
    for line in range(len(lines)):
        for column in range(LINE_BACKOFF):
            mixed = (sums[column] ^ lines[line, column]) * FIRST
            sums[column] = mixed ^ (mixed >> HALF)


@inline_kernel
def find_entry(lines, home, hashed, last):
    """Whether an n-gram below the highest order is present; its log-probability and back-off (undefined if absent)."""
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
    """The same for an n-gram of the highest order, which has no back-off."""
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
def _lookup_entry(hashed, n, order, lines, begins, far):
    """Log-probability and back-off weight of an n-gram of n tokens; NaN if it is absent."""
    home, nothing = (np.uint64(begins[n]) + home_slot(hashed, begins[n + 1] - begins[n])) * EIGHT, np.float32(np.nan)
    last = home + np.uint64(far[n]) * EIGHT
    if n < order:
        hit, log, weight = find_entry(lines, home, hashed, last)
    else:
        hit, log = find_longest_entry(lines, home, hashed, last)
        weight = nothing
    return (log, weight) if hit else (nothing, nothing)


def lookup_log_probs_kernel(before, tokens, n, order, lines, begins, far, log_probs):
    """log P of these tokens after one context of n - 1 tokens; NaN for n-grams that are absent."""
    for number in range(len(tokens)):
        log_probs[number] = _lookup_entry(extend_hash(before, tokens[number]), n, order, lines, begins, far)[0]


def hash_context_kernel(tokens, salt):
    """Hash of one n-gram."""
    hashed = extend_hash(salt, tokens[0])
    for number in range(1, len(tokens)):
        hashed = extend_hash(hashed, tokens[number])
    return hashed


def backoff_weight_kernel(hashed, n, order, lines, begins, far):
    """Back-off weight of one n-gram of n tokens; NaN if it is absent."""
    return _lookup_entry(hashed, n, order, lines, begins, far)[1]


# --- Scoring texts; the readable twin is statistical/ngram/backoff.py ---
# Tokens are processed in blocks: all bigrams of a block are looked up, then the trigrams of those found, and so on. The
# remaining ones are selected by summing zeros and ones, without branches to mispredict. An n-gram is only looked up if
# its prefix and its suffix are present, so that no line is fetched in vain.

NGRAM_SCORING_BLOCK = 256  # tokens: their buffers stay in the cache, and there are more than prefetches in flight
NGRAM_SCORING_AHEAD = 24  # n-grams whose lines are prefetched
NGRAM_SCORING_ONE = np.uint64(1)  # unsigned indices need no check for negative ones


def scoring_buffers(order: int) -> tuple[np.ndarray, ...]:
    """Work arrays for scoring.

    For the tokens of a block, and at index 0 for the token before it:
    hashes, weights  by length, for the n-gram that ends there: its hash and its back-off
    matched          length of the longest n-gram that is present
    For the tokens of a block:
    words, logs      token ids, and log P by the longest n-gram
    reach            tokens of context that count
    For the n-grams that are looked up:
    at, homes        token index within the block, and offset of the first line
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
    tokens, lengths, end, order, salt, single, lines, begins, far, even, log_probs, matches,
    hashes, weights, matched, words, logs, reach, at, homes,
):  # fmt: skip
    """log P of each token of concatenated rows, given the tokens before it in its row.

    The first token of a row is only context, and no context reaches across an `end`.

    lines      (8 · lines,), and begins (order + 2,): where the lines of n-grams of n tokens begin
    far        (order + 1,) how many lines from its own an n-gram of n tokens is at most
    even       (V,) or empty: fallback of tokens that a context lacks, instead of the shorter context
    log_probs  (tokens,) output
    matches    (tokens,) or empty, output: length of the longest n-gram that is present and ends at each token
    """
    row, left, before = -1, np.int64(0), np.int32(-1)
    for begin in range(0, len(tokens), NGRAM_SCORING_BLOCK):
        many = min(NGRAM_SCORING_BLOCK, len(tokens) - begin)
        for position in range(many):
            token = tokens[begin + position]
            reach[position] = min(1, order - 1) if before == end else order - 1
            if left == 0:
                while left == 0:
                    row += 1
                    left = lengths[row]
                reach[position] = 0
            left -= 1
            before = token
            words[position], hashes[1, position + 1] = token, extend_hash(salt, token)
            matched[position + 1], at[position] = 1, position
            logs[position], weights[1, position + 1] = single[np.uint32(token), 0], single[np.uint32(token), 1]
        found = many
        for n in range(2, order):
            found = _match_ngrams(n, found, lines, begins, far, hashes, weights, matched, words, logs, reach, at, homes)
        if order > 1:
            _match_longest_ngrams(order, found, lines, begins, far, hashes, matched, words, logs, reach, at, homes)
        if len(even):
            for position in range(many):
                known = min(reach[position], matched[position])
                if matched[position + 1] <= known:
                    logs[position] = np.float64(even[words[position]]) + weights[known, position]
        else:
            for n in range(1, order):
                for position in range(many):
                    counts = (n >= matched[position + 1]) & (n <= reach[position]) & (n <= matched[position])
                    logs[position] += weights[n, position] if counts else 0.0
        for position in range(many):
            log_probs[begin + position] = logs[position]
        if len(matches):
            for position in range(many):
                matches[begin + position] = matched[position + 1]
        for n in range(1, order + 1):
            hashes[n, 0], weights[n, 0] = hashes[n, many], weights[n, many]
        matched[0] = matched[many]


@inline_kernel
def _possible_ngrams(n, many, lines, begins, hashes, matched, words, reach, at, homes):
    """Select the n-grams whose prefix and suffix are present, and prefetch the first; returns how many there are."""
    first, size, possible = np.uint64(begins[n]), begins[n + 1] - begins[n], np.uint64(0)
    for number in range(many):
        position = at[np.uint64(number)]
        hashed = extend_hash(hashes[n - 1, position], words[position])
        hashes[n, position + NGRAM_SCORING_ONE], at[possible] = hashed, position
        homes[possible] = (first + home_slot(hashed, size)) * EIGHT
        possible += np.uint64((matched[position] >= n - 1) & (reach[position] >= n - 1))
    for number in range(min(NGRAM_SCORING_AHEAD, np.int64(possible))):
        prefetch(lines, np.int64(homes[np.uint64(number)]))
    return np.int64(possible)


@inline_kernel
def _match_ngrams(n, many, lines, begins, far, hashes, weights, matched, words, logs, reach, at, homes):
    """Look up the possible n-grams of n tokens; returns how many are present."""
    possible, found = _possible_ngrams(n, many, lines, begins, hashes, matched, words, reach, at, homes), np.uint64(0)
    last = np.uint64(far[n]) * EIGHT
    for number in range(possible):
        if number + NGRAM_SCORING_AHEAD < possible:
            prefetch(lines, np.int64(homes[np.uint64(number + NGRAM_SCORING_AHEAD)]))
        position, home = at[np.uint64(number)], homes[np.uint64(number)]
        hit, log, weight = find_entry(lines, home, hashes[n, position + NGRAM_SCORING_ONE], home + last)
        logs[position], weights[n, position + NGRAM_SCORING_ONE] = np.float64(log) if hit else logs[position], weight
        matched[position + NGRAM_SCORING_ONE] += np.int32(hit)
        at[found] = position
        found += np.uint64(hit)
    return np.int64(found)


@inline_kernel
def _match_longest_ngrams(n, many, lines, begins, far, hashes, matched, words, logs, reach, at, homes):
    """The same for the highest order."""
    possible = _possible_ngrams(n, many, lines, begins, hashes, matched, words, reach, at, homes)
    last = np.uint64(far[n]) * EIGHT
    for number in range(possible):
        if number + NGRAM_SCORING_AHEAD < possible:
            prefetch(lines, np.int64(homes[np.uint64(number + NGRAM_SCORING_AHEAD)]))
        position, home = at[np.uint64(number)], homes[np.uint64(number)]
        hit, log = find_longest_entry(lines, home, hashes[n, position + NGRAM_SCORING_ONE], home + last)
        logs[position] = np.float64(log) if hit else logs[position]
        matched[position + NGRAM_SCORING_ONE] += np.int32(hit)
