"""One window of word2vec: how its words score beside its targets, and how all of them change for it.

The readable twin is around_plainly.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.compiling import inlined
from forebear.kernels.rows import added, averaged, changed, repeated, scored
from forebear.kernels.windows import Windows


class Pulls(NamedTuple):
    """How far the words around pull at targets, window after window: first scores, then pulls."""

    pulls: np.ndarray  # float32, and room for some more behind them
    signs: np.ndarray  # float32, the sign of each
    alone: np.ndarray  # (n,) int32, 0, 1, …: the rows of the next
    means: np.ndarray  # (n, width), the means of the words around
    sums: np.ndarray  # (n, width), what all words around are pulled by


class Lesson(NamedTuple):
    """What is learned, and where there is room to work."""

    outputs: np.ndarray  # (rows, width)
    windows: Windows
    work: Pulls
    kinds: tuple[int, ...]  # as long as a block of targets
    slots: int  # targets of a window, whole blocks
    window: int  # the furthest word that is looked at
    few: int  # words around that are measured at once, where all of them would be too many
    rate: np.float32
    told: np.ndarray  # (parts, 2) float64, losses and how many
    every: int  # a window tells its loss if its place & every is 0


@inlined
def measure(lesson, mean, inputs, places, shift, here, at, left, around, start, which):
    """Scores of so many words around one word, from place `left` on (or of their mean), written from place `start` on;
    how many there are.

    The row of the word at a place is places[place - shift]; `mean` is None or True; `which` is the row for the mean.
    """
    windows, work, kinds = lesson.windows, lesson.work, lesson.kinds
    count, many = len(kinds), around
    if mean is not None:
        many = 1
        averaged(inputs, places, left - shift, here - left, around, work.means, which, 0, inputs.shape[1])
    for block in range(windows.blocks[at]):
        target, mine = at * lesson.slots + block * count, start + block * many * count
        repeated(work.signs, mine, windows.signs, target, many, kinds)
        if mean is not None:
            scored(
                work.means, work.alone, which, 1, 1, lesson.outputs, windows.targets, target, work.pulls, mine, kinds
            )  # fmt: skip
        else:
            scored(
                inputs, places, left - shift, here - left, many, lesson.outputs, windows.targets, target, work.pulls,
                mine, kinds,
            )  # fmt: skip
    return windows.blocks[at] * many * count


@inlined
def apply(lesson, mean, inputs, places, shift, here, at, left, around, start, which, first, last):
    """Pulls, between two columns; how many there were."""
    windows, work, kinds = lesson.windows, lesson.work, lesson.kinds
    count, many = len(kinds), around
    if mean is not None:
        many = 1
    for block in range(windows.blocks[at]):
        target, mine = at * lesson.slots + block * count, start + block * many * count
        if mean is not None:
            changed(
                work.means, work.alone, which, 1, 1, lesson.outputs, windows.targets, target, work.pulls, mine, kinds,
                work.sums, block == 0, first, last,
            )  # fmt: skip
        else:
            changed(
                inputs, places, left - shift, here - left, many, lesson.outputs, windows.targets, target, work.pulls,
                mine, kinds, inputs, False, first, last,
            )  # fmt: skip
    if mean is not None:
        added(inputs, places, left - shift, here - left, around, work.sums, which, first, last)
    return windows.blocks[at] * many * count


@inlined
def tell(lesson, mean, here, around, start, many, part):
    """Adds the losses of a window whose turn it is: the negative logarithm of how likely each truth seems."""
    work, told = lesson.work, lesson.told
    if here & lesson.every:
        return
    for place in range(start, start + many):
        if work.signs[place] != 0:
            score = np.float64(work.signs[place] * work.pulls[place])
            told[part, 0] += max(-score, 0.0) + np.log1p(np.exp(-abs(score)))
    told[part, 1] += 1 if mean is not None else around
