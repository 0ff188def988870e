"""One window of word2vec: how its words score beside its targets, and how all of them change for it.

The readable twin is around_plainly.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.compiling import inlined
from forebear.kernels.rows import added, averaged, changed, repeated, scored


class Pulls(NamedTuple):
    """How far the words around pull at targets, window after window: first scores, then pulls."""

    pulls: np.ndarray  # float32, and room for some more behind them
    signs: np.ndarray  # float32, the sign of each
    alone: np.ndarray  # (n,) int32, 0, 1, …: the rows of the next
    means: np.ndarray  # (n, width), the means of the words around
    sums: np.ndarray  # (n, width), what all words around are pulled by


@inlined
def measure(places, shift, here, windows, at, slots, inputs, outputs, kinds, work, start, mean, which):
    """Scores of the words around one word (or of their mean), from place `start` on; how many there are.

    The rows of words are places[here - shift]; `mean` is None or True, `which` the row for the mean.
    """
    count, left = len(kinds), windows.lefts[at]
    around = windows.rights[at] - left - 1
    many = around
    if mean is not None:
        many = 1
        averaged(inputs, places, left - shift, here - left, around, work.means, which, 0, inputs.shape[1])
    for block in range(windows.blocks[at]):
        target, mine = at * slots + block * count, start + block * many * count
        repeated(work.signs, mine, windows.signs, target, many, kinds)
        if mean is not None:
            scored(work.means, work.alone, which, 1, 1, outputs, windows.targets, target, work.pulls, mine, kinds)
        else:
            scored(
                inputs, places, left - shift, here - left, many, outputs, windows.targets, target, work.pulls, mine,
                kinds,
            )  # fmt: skip
    return windows.blocks[at] * many * count


@inlined
def apply(places, shift, here, windows, at, slots, inputs, outputs, kinds, work, start, mean, which, first, last):
    """Pulls, between two columns; how many there were."""
    count, left = len(kinds), windows.lefts[at]
    around = windows.rights[at] - left - 1
    many = around
    if mean is not None:
        many = 1
    for block in range(windows.blocks[at]):
        target, mine = at * slots + block * count, start + block * many * count
        if mean is not None:
            changed(
                work.means, work.alone, which, 1, 1, outputs, windows.targets, target, work.pulls, mine, kinds,
                work.sums, block == 0, first, last,
            )  # fmt: skip
        else:
            changed(
                inputs, places, left - shift, here - left, many, outputs, windows.targets, target, work.pulls, mine,
                kinds, inputs, False, first, last,
            )  # fmt: skip
    if mean is not None and windows.blocks[at]:
        added(inputs, places, left - shift, here - left, around, work.sums, which, first, last)
    return windows.blocks[at] * many * count


@inlined
def tell(work, start, many, told, part):
    """Adds losses: the negative logarithm of how likely each truth seems."""
    for at in range(start, start + many):
        if work.signs[at] != 0:
            score = np.float64(work.signs[at] * work.pulls[at])
            told[part, 0] += max(-score, 0.0) + np.log1p(np.exp(-abs(score)))
