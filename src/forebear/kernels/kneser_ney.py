"""Kneser–Ney kernels: interpolation, counts of counts, suffixes; references in statistical/ngram/smoothing.py."""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import PREFETCH_DISTANCE, prefetch


def interpolate_kernel(
    counts, num_continuations, suffixes, discounts, pruned_counts, lower_probs, first_context, first_id, probs, backoffs
):
    """(count - discount) / total + backoff · lower for the n-grams from `first_context` on, while the buffers suffice.

    counts         adjusted counts; those of a context are contiguous, starting with id `first_id`
    discounts      (4,) of counts 0, 1, 2 and 3 or more
    pruned_counts  pruned counts of each context, all of which go to the back-off; or empty
    lower_probs    probabilities of the (n-1)-grams, looked up by suffix id

    Returns the next context and the id of its first n-gram; fills `probs` and `backoffs`.
    """
    first_ngram, context = first_id, first_context
    while context < len(num_continuations) and context - first_context < len(backoffs):
        end = first_ngram + num_continuations[context]
        if end - first_id > len(probs):
            break
        total, discounted = 0.0, 0.0
        for i in range(first_ngram, end):
            if i + PREFETCH_DISTANCE < len(suffixes):
                prefetch(lower_probs, np.int64(suffixes[i + PREFETCH_DISTANCE]))
            total += counts[i]
            discounted += discounts[min(counts[i], 3)]
        if len(pruned_counts):
            total += pruned_counts[context]
            discounted += pruned_counts[context]
        if total == 0:  # unseen context: all mass goes to the back-off
            total, discounted = 1.0, 1.0
        backoff_weight = discounted / total
        for i in range(first_ngram, end):
            count = counts[i]
            probs[i - first_id] = (count - discounts[min(count, 3)]) / total + backoff_weight * lower_probs[suffixes[i]]
        backoffs[context - first_context] = backoff_weight
        first_ngram, context = end, context + 1
    return context, first_ngram


def count_of_counts_kernel(counts, count_of_counts):
    """Count the n-grams with each count from 0 to 4, and 5 or more."""
    for count in counts:
        count_of_counts[min(count, 5)] += 1
    return count_of_counts


def count_suffix_types_kernel(suffixes, counts):
    """Add to `counts` the number of n-grams with each suffix."""
    for suffix in suffixes:
        counts[suffix] += 1
    return counts


def suffix_ids_kernel(
    num_continuations,
    words,
    starts,
    shorter_words,
    shorter_suffixes,
    first_context,
    last_context,
    first_ngram,
    suffix_ids,
):
    """The id of each n-gram's suffix (-1: absent), given those of the (n-1)-grams.

    The continuations of an n-gram are sorted and a subset of those of its suffix, so each search starts where the
    previous one ended.
    """
    for context in range(first_context, last_context):
        end = first_ngram + num_continuations[context]
        low, high = np.int64(0), np.int64(0)
        if shorter_suffixes[context] >= 0:
            low, high = starts[shorter_suffixes[context]], starts[shorter_suffixes[context] + 1]
        for i in range(first_ngram, end):
            word, step, bound = words[i], 1, low
            while bound < high and shorter_words[bound] < word:  # exponential search, then binary search
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
            suffix_ids[i] = low if low < high and shorter_words[low] == word else -1
        first_ngram = end
