"""Interpolated Kneser–Ney, context by context; the numpy twin is in statistical/ngram/smoothing.py."""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import PREFETCH_DISTANCE, prefetch


def interpolate_kernel(times, continuations, suffixes, taken, lost, lower, first, begin, shares, left):
    """(times - discount) / total + backoff · lower for the n-grams from context `first` on, while the buffers suffice.

    times   adjusted counts; those of a context are contiguous, starting with number `begin`
    taken   (4,) discounts of counts 0, 1, 2 and 3 or more
    lost    pruned counts of each context, all of which go to the back-off; or empty
    lower   probabilities of the (n-1)-grams, looked up by suffix id

    Returns the next context and the number of its first n-gram. `shares` becomes the probabilities, `left` the
    back-offs.
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
        backoff_weight = rest / total
        for number in range(at, end):
            count = times[number]
            shares[number - begin] = (count - taken[min(count, 3)]) / total + backoff_weight * lower[suffixes[number]]
        left[context - first] = backoff_weight
        at, context = end, context + 1
    return context, at


def count_of_counts_kernel(times, often):
    """How many n-grams have the counts 0 to 4, and 5 or more."""
    for number in times:
        often[min(number, 5)] += 1
    return often


def count_suffix_types_kernel(suffixes, counts):
    """For each suffix id the number of n-grams with that suffix, added to `counts`."""
    for number in suffixes:
        counts[number] += 1
    return counts


def suffix_ids_kernel(continuations, words, starts, shorter_words, shorter_suffixes, first, last, at, suffix_ids):
    """The id of each n-gram without its first token (-1: absent), given those of the shorter n-grams.

    The continuations of an n-gram are sorted and a subset of those of its suffix, so each search starts where the last
    one ended.
    """
    for context in range(first, last):
        end = at + continuations[context]
        low, high = np.int64(0), np.int64(0)
        if shorter_suffixes[context] >= 0:
            low, high = starts[shorter_suffixes[context]], starts[shorter_suffixes[context] + 1]
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
            suffix_ids[number] = low if low < high and shorter_words[low] == word else -1
        at = end
