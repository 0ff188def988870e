"""word2vec in plain numpy: the readable twin of word2vec.py, with the same random stream and the same result.

As in word2vec.c, gensim and fastText, every context word (and every subword row) receives the full gradient of the mean
instead of its share, which is several gradient steps in one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from forebear.kernels.word2vec import OutputTargets
from forebear.kernels.word2vec_sampling import next_random


@dataclass(frozen=True, eq=False)
class TrainingWindow:
    """The context of a word, and its targets in blocks with signs (1 true, -1 false)."""

    around: np.ndarray  # ids
    blocks: list[tuple[np.ndarray, np.ndarray]]


def training_windows(
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
    windows = []
    stream_position = state % max(len(supply.stream), 1)
    for here in range(first, last):
        row = int(np.searchsorted(ends, here, side="right"))
        state = next_random(state)
        reach = 1 + ((state >> 32) * window >> 32)
        left, right = max(ends[row - 1] if row else 0, here - reach), min(ends[row], here + reach + 1)
        around = np.concatenate((tokens[left:here], tokens[here + 1 : right]))
        targets, signs = np.zeros(0, np.int64), np.zeros(0)
        if len(around) and len(supply.stream):
            others = supply.stream[(stream_position + np.arange(supply.negatives)) % len(supply.stream)]
            stream_position += supply.negatives
            targets = np.concatenate(([tokens[here]], others))
            signs = np.concatenate(([1.0], np.where(others == tokens[here], 0, -1)))
        elif len(around):
            path = slice(supply.indptr[tokens[here]], supply.indptr[tokens[here] + 1])
            targets, signs = supply.nodes[path], 1.0 - 2.0 * supply.turns[path]
        cuts = [slice(start, start + kinds) for start in range(0, len(targets), kinds)]
        windows.append(TrainingWindow(around, [(targets[cut], signs[cut]) for cut in cuts]))
    return windows


def window_loss(inputs: np.ndarray, outputs: np.ndarray, window: TrainingWindow, mean: bool) -> float:
    """Summed negative log-likelihood of the targets, given the context words one by one or their mean."""
    if not window.blocks:
        return 0.0
    rows = inputs[window.around]
    rows = rows.mean(0, keepdims=True) if mean else rows
    return sum(
        float((np.logaddexp(0, -signs * (rows @ outputs[targets].T)) * (signs != 0)).sum())
        for targets, signs in window.blocks
    )


def train_windows(
    inputs: np.ndarray, outputs: np.ndarray, windows: list[TrainingWindow], rate: float, mean: bool
) -> None:
    """Update in place from windows that are scored together, then applied one after the other."""
    windows = [window for window in windows if window.blocks]
    rows = [inputs[window.around].mean(0, keepdims=True) if mean else inputs[window.around] for window in windows]
    pulls = [
        [rate * signs / (1 + np.exp(signs * (row_vectors @ outputs[targets].T))) for targets, signs in window.blocks]
        for window, row_vectors in zip(windows, rows, strict=True)
    ]
    for window, row_vectors, window_pulls in zip(windows, rows, pulls, strict=True):
        sums = np.zeros_like(row_vectors)
        for (targets, _), pull in zip(window.blocks, window_pulls, strict=True):
            before, change = outputs[targets], np.zeros((len(targets), inputs.shape[1]), inputs.dtype)
            if mean:
                change, sums = pull.T @ row_vectors, sums + pull @ before
            else:
                for word, strength in zip(window.around, pull, strict=True):
                    change += np.outer(strength, inputs[word])
                    inputs[word] += strength @ before
            np.add.at(outputs, targets, change)
        if mean:
            np.add.at(inputs, window.around, sums)


def subword_vectors(inputs: np.ndarray, spelling: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The vectors of all words as means of subword rows."""
    indptr, rows = spelling
    return np.stack([inputs[rows[begin:end]].mean(0) for begin, end in pairwise(indptr.tolist())])


def apply_subword_updates(inputs: np.ndarray, spelling: tuple[np.ndarray, np.ndarray], changes: np.ndarray) -> None:
    """Add the change of each word's vector to all of its subword rows."""
    indptr, rows = spelling
    np.add.at(inputs, rows, np.repeat(changes, np.diff(indptr), axis=0))
