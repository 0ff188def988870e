"""word2vec in plain numpy: the readable twin of learning.py, which takes the same chance and ends with the same tables.

Only in one thing is it no descent along the gradient: each word around is pulled by all of what its mean is pulled by,
not by its share of it, and so is each row of a word that is spelled. word2vec.c, gensim and fastText do the same; it
makes as many steps of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from forebear.kernels.word2vec import OutputTargets
from forebear.kernels.word2vec_sampling import next_random


@dataclass(frozen=True, eq=False)
class TrainingWindow:
    """A word to be told, and from what: by the words around it, blocks of targets with signs (1 true, -1 not true)."""

    around: np.ndarray  # ids
    blocks: list[tuple[np.ndarray, np.ndarray]]


def windows_of(
    tokens: np.ndarray,
    ends: np.ndarray,
    first: int,
    last: int,
    state: int,
    window: int,
    supply: OutputTargets,
    kinds: int,
) -> list[TrainingWindow]:
    """The windows around tokens[first:last]; without blocks where there is nothing to learn."""
    found = []
    drawn = state % max(len(supply.stream), 1)
    for here in range(first, last):
        row = int(np.searchsorted(ends, here, side="right"))
        state = next_random(state)
        reach = 1 + ((state >> 32) * window >> 32)
        left, right = max(ends[row - 1] if row else 0, here - reach), min(ends[row], here + reach + 1)
        around = np.concatenate((tokens[left:here], tokens[here + 1 : right]))
        targets, signs = np.zeros(0, np.int64), np.zeros(0)
        if len(around) and len(supply.stream):
            others = supply.stream[(drawn + np.arange(supply.negatives)) % len(supply.stream)]
            drawn += supply.negatives
            targets = np.concatenate(([tokens[here]], others))
            signs = np.concatenate(([1.0], np.where(others == tokens[here], 0, -1)))
        elif len(around):
            path = slice(supply.indptr[tokens[here]], supply.indptr[tokens[here] + 1])
            targets, signs = supply.nodes[path], 1.0 - 2.0 * supply.turns[path]
        cuts = [slice(start, start + kinds) for start in range(0, len(targets), kinds)]
        found.append(TrainingWindow(around, [(targets[cut], signs[cut]) for cut in cuts]))
    return found


def loss_of(inputs: np.ndarray, outputs: np.ndarray, window: TrainingWindow, mean: bool) -> float:
    """How unlikely the truth seems to the words around, one by one, or to their mean: summed negative logarithms."""
    if not window.blocks:
        return 0.0
    rows = inputs[window.around]
    rows = rows.mean(0, keepdims=True) if mean else rows
    return sum(
        float((np.logaddexp(0, -signs * (rows @ outputs[targets].T)) * (signs != 0)).sum())
        for targets, signs in window.blocks
    )


def learn(inputs: np.ndarray, outputs: np.ndarray, windows: list[TrainingWindow], rate: float, mean: bool) -> None:
    """Learns in place from windows that are measured together, then applied one after the other."""
    windows = [window for window in windows if window.blocks]
    rows = [inputs[window.around].mean(0, keepdims=True) if mean else inputs[window.around] for window in windows]
    pulls = [
        [rate * signs / (1 + np.exp(signs * (mine @ outputs[targets].T))) for targets, signs in window.blocks]
        for window, mine in zip(windows, rows, strict=True)
    ]
    for window, mine, strengths in zip(windows, rows, pulls, strict=True):
        sums = np.zeros_like(mine)
        for (targets, _), pull in zip(window.blocks, strengths, strict=True):
            before, change = outputs[targets], np.zeros((len(targets), inputs.shape[1]), inputs.dtype)
            if mean:
                change, sums = pull.T @ mine, sums + pull @ before
            else:
                for word, strength in zip(window.around, pull, strict=True):
                    change += np.outer(strength, inputs[word])
                    inputs[word] += strength @ before
            np.add.at(outputs, targets, change)
        if mean:
            np.add.at(inputs, window.around, sums)


def spelled(inputs: np.ndarray, spelling: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The vectors of all words, where each is the mean of rows: to be learned like any other for a stretch of text."""
    indptr, rows = spelling
    return np.stack([inputs[rows[begin:end]].mean(0) for begin, end in pairwise(indptr.tolist())])


def spread(inputs: np.ndarray, spelling: tuple[np.ndarray, np.ndarray], changes: np.ndarray) -> None:
    """Then each row of a word takes up the whole change of its vector."""
    indptr, rows = spelling
    np.add.at(inputs, rows, np.repeat(changes, np.diff(indptr), axis=0))
