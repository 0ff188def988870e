"""word2vec in plain numpy: the reference of word2vec.py, with the same random stream and the same result.

As in word2vec.c, gensim and fastText, every context word (and every subword row) receives the full gradient of the mean
instead of its fraction, which is several gradient steps in one.
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

    context_ids: np.ndarray  # ids
    blocks: list[tuple[np.ndarray, np.ndarray]]


def training_windows(
    tokens: np.ndarray,
    ends: np.ndarray,
    first: int,
    last: int,
    state: int,
    window: int,
    target_source: OutputTargets,
    block_size: int,
) -> list[TrainingWindow]:
    """The windows around tokens[first:last]; without blocks where there is nothing to learn."""
    windows = []
    stream_position = state % max(len(target_source.stream), 1)
    for position in range(first, last):
        row = int(np.searchsorted(ends, position, side="right"))
        state = next_random(state)
        reach = 1 + ((state >> 32) * window >> 32)
        left, right = max(ends[row - 1] if row else 0, position - reach), min(ends[row], position + reach + 1)
        context_ids = np.concatenate((tokens[left:position], tokens[position + 1 : right]))
        targets, signs = np.zeros(0, np.int64), np.zeros(0)
        if len(context_ids) and len(target_source.stream):
            others = target_source.stream[
                (stream_position + np.arange(target_source.negatives)) % len(target_source.stream)
            ]
            stream_position += target_source.negatives
            targets = np.concatenate(([tokens[position]], others))
            signs = np.concatenate(([1.0], np.where(others == tokens[position], 0, -1)))
        elif len(context_ids):
            path = slice(target_source.indptr[tokens[position]], target_source.indptr[tokens[position] + 1])
            targets, signs = target_source.nodes[path], 1.0 - 2.0 * target_source.codes[path]
        block_slices = [slice(start, start + block_size) for start in range(0, len(targets), block_size)]
        windows.append(
            TrainingWindow(context_ids, [(targets[block_slice], signs[block_slice]) for block_slice in block_slices])
        )
    return windows


def window_loss(inputs: np.ndarray, outputs: np.ndarray, window: TrainingWindow, mean: bool) -> float:
    """Summed negative log-likelihood of the targets, given each context word or their mean."""
    if not window.blocks:
        return 0.0
    rows = inputs[window.context_ids]
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
    rows = [
        inputs[window.context_ids].mean(0, keepdims=True) if mean else inputs[window.context_ids] for window in windows
    ]
    gradients = [
        [rate * signs / (1 + np.exp(signs * (row_vectors @ outputs[targets].T))) for targets, signs in window.blocks]
        for window, row_vectors in zip(windows, rows, strict=True)
    ]
    for window, row_vectors, window_gradients in zip(windows, rows, gradients, strict=True):
        sums = np.zeros_like(row_vectors)
        for (targets, _), block_gradients in zip(window.blocks, window_gradients, strict=True):
            previous_outputs, update = outputs[targets], np.zeros((len(targets), inputs.shape[1]), inputs.dtype)
            if mean:
                update, sums = block_gradients.T @ row_vectors, sums + block_gradients @ previous_outputs
            else:
                for word, target_gradients in zip(window.context_ids, block_gradients, strict=True):
                    update += np.outer(target_gradients, inputs[word])
                    inputs[word] += target_gradients @ previous_outputs
            np.add.at(outputs, targets, update)
        if mean:
            np.add.at(inputs, window.context_ids, sums)


def subword_vectors(inputs: np.ndarray, subwords: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The vectors of all words as means of subword rows."""
    indptr, rows = subwords
    return np.stack([inputs[rows[begin:end]].mean(0) for begin, end in pairwise(indptr.tolist())])


def apply_subword_updates(inputs: np.ndarray, subwords: tuple[np.ndarray, np.ndarray], changes: np.ndarray) -> None:
    """Add the change of each word's vector to all of its subword rows."""
    indptr, rows = subwords
    np.add.at(inputs, rows, np.repeat(changes, np.diff(indptr), axis=0))
