"""Where a text is cut so that no word is learned from too often while tables stand still: real text repeats itself."""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import compiled


def parted(
    tokens: np.ndarray, vocabulary: int, *, longest: int, each: float, again: float, near: int, most: float
) -> np.ndarray:
    """(n + 1,) the places where stretches begin, and the end of the text; none is empty.

    longest  words of a stretch
    each     what a word weighs
    again    what it weighs where it stood before, so near or nearer
    most     what all occurrences of a word in a stretch may weigh; the first of them is always in it
    """
    seen, weights = np.full(vocabulary, -1, np.int64), np.zeros(vocabulary)
    borders = np.empty(len(tokens) + 1, np.int64)
    many = compiled(cut_in_loops)(tokens, longest, each, again, near, most, seen, weights, borders)
    return borders[:many].copy()


def cut_in_loops(tokens, longest, each, again, near, most, seen, weights, borders):
    """`seen` is where each word stood last, `weights` what it weighs in this stretch."""
    begin, many = 0, 0
    for here in range(len(tokens)):
        word = tokens[here]
        before = seen[word]
        weight = again if before >= max(here - near, 0) else each
        total = weight + (weights[word] if before >= begin else 0.0)
        if here == 0 or here - begin == longest or (total > most and here > begin):
            begin, borders[many], many = here, here, many + 1
            total = weight
        seen[word], weights[word] = here, total
    borders[many] = len(tokens)
    return many + 1
