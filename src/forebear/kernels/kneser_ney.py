"""Shares of interpolated Kneser–Ney, context by context: compiled loops; numpy's way is in `statistics.smoothing`."""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import PREFETCH_DISTANCE, prefetch


def interpolate_kernel(times, continuations, suffixes, taken, lost, lower, first, begin, shares, left):
    """(times - taken) / total + left · lower of n-grams, and what is left of their contexts, from context `first` on.

    As far as there is room for them; how far that is, is told: the next context, and the number of its first n-gram.

    times    of each n-gram, as Kneser and Ney want them; those of a context stand side by side, from number `begin` on
    taken    (4,) what is taken from a count of 0, 1, 2, and 3 or more
    lost     counts of each context's n-grams that were pruned, all of which is left; or none at all
    lower    shares of the n-grams that are one shorter, by the number of each n-gram without its first token
    """
    at, context = begin, first
    while context < len(continuations) and context - first < len(left):
        end = at + continuations[context]
        if end - begin > len(shares):
            break
        total, rest = 0.0, 0.0
        for number in range(at, end):
            if number + PREFETCH_DISTANCE < len(suffixes):
                prefetch(lower, np.int64(suffixes[number + PREFETCH_DISTANCE]))
            total += times[number]
            rest += taken[min(times[number], 3)]
        if len(lost):
            total += lost[context]
            rest += lost[context]
        if total == 0:  # nothing was seen, and all is left
            total, rest = 1.0, 1.0
        part = rest / total
        for number in range(at, end):
            mine = times[number]
            shares[number - begin] = (mine - taken[min(mine, 3)]) / total + part * lower[suffixes[number]]
        left[context - first] = part
        at, context = end, context + 1
    return context, at


def count_of_counts_kernel(times, often):
    """How many n-grams were seen 0 to 4 times, and more often."""
    for number in times:
        often[min(number, 5)] += 1
    return often


def count_suffix_types_kernel(suffixes, told):
    """How many n-grams end with each that is one shorter; `told` begins at zero."""
    for number in suffixes:
        told[number] += 1
    return told


def suffix_ids_kernel(continuations, words, starts, shorter_words, before, first, last, at, told):
    """The number of each n-gram without its first token, from `before`, those of the n-grams that are one shorter.

    Both an n-gram's continuations and those of what is left without its first token are sorted, and the first are all
    among the second: so each is looked for from where the last was found. -1: it is not there.
    """
    for context in range(first, last):
        end = at + continuations[context]
        low, high = np.int64(0), np.int64(0)
        if before[context] >= 0:
            low, high = starts[before[context]], starts[before[context] + 1]
        for number in range(at, end):
            word, step, bound = words[number], 1, low
            while bound < high and shorter_words[bound] < word:  # longer and longer strides, then halving
                low = bound + 1
                bound += step
                step *= 2
            bound = min(bound, high)
            while low < bound:
                middle = (low + bound) // 2
                if shorter_words[middle] < word:
                    low = middle + 1
                else:
                    bound = middle
            told[number] = low if low < high and shorter_words[low] == word else -1
        at = end
