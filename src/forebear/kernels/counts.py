"""Text laid out to be counted, and counts of two texts joined: compiled loops, beside numpy's way.

The readable twins are in `statistics.counting`.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.ngrams import BORDER


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
