"""Very many analogies at once: the cosines of all words that are asked about with a block of words, each used often."""

from __future__ import annotations

import numpy as np

from forebear.using.lexicon import Lexicon, Method, multiplied, scaled
from forebear.using.nearest import BLOCK, cosines_with

TOGETHER = 128  # analogies whose scores of a block are in memory at once
WIDE = 2048  # words of a block, at most


def solved(lexicon: Lexicon, order: np.ndarray, asked: np.ndarray, method: Method = "add") -> np.ndarray:
    """(Q,) the best answer to each analogy a : b = c : ?, by its place in `order`; of equals the first.

    order  (V,) rows of the table that may answer
    asked  (Q, 3 or more) places in it: a, b, c; they are no answers
    """
    matrix = lexicon.table.matrix
    words, which = np.unique(asked[:, :3], return_inverse=True)
    which = which.reshape(-1, 3)
    units = scaled(np.asarray(matrix[order[words]], np.float32))
    best, found = np.full(len(asked), -np.inf, np.float32), np.full(len(asked), -1, np.int64)
    wide = max(1, min(WIDE, BLOCK // matrix.shape[1]))
    for at in range(0, len(order) if len(asked) else 0, wide):
        cosines = cosines_with(units, matrix, order[at : at + wide], lexicon.lengths)
        for begin in range(0, len(asked), TOGETHER):
            here = slice(begin, begin + TOGETHER)
            a, b, c = (cosines[which[here, part]] for part in range(3))
            scores = multiplied(a, b, c) if method == "multiply" else b - a + c
            lines, part = np.nonzero((asked[here, :3] >= at) & (asked[here, :3] < at + wide))
            scores[lines, asked[here][lines, part] - at] = -np.inf
            places = scores.argmax(1)
            largest = scores[np.arange(len(scores)), places]
            better = largest > best[here]
            best[here][better], found[here][better] = largest[better], places[better] + at
    return found
