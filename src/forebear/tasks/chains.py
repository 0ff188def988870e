"""A chain of labels judged as a whole: the best one, and how probable each label is at each place (a CRF's answers).

The arithmetic of `networks.crf`, for one sentence of any length and without torch: learned moves are given as numbers.
"""

from __future__ import annotations

import numpy as np


def best(scores: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """(n,) the labels whose scores (n, K), moves (K, K), start and end add up to most: Viterbi's way."""
    if not len(scores):
        return np.zeros(0, np.int64)
    came_from = np.zeros(scores.shape, np.int64)
    total = scores[0] + start
    for word in range(1, len(scores)):
        through = total[:, None] + moves
        came_from[word] = through.argmax(0)
        total = through.max(0) + scores[word]
    path = np.zeros(len(scores), np.int64)
    path[-1] = (total + end).argmax()
    for word in range(len(scores) - 1, 0, -1):
        path[word - 1] = came_from[word, path[word]]
    return path


def marginals(scores: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """(n, K) P of each label at each place, over all chains: forwards and backwards."""
    if not len(scores):
        return np.zeros(scores.shape)
    forwards, backwards = np.empty(scores.shape), np.empty(scores.shape)
    forwards[0], backwards[-1] = scores[0] + start, end
    for word in range(1, len(scores)):
        forwards[word] = _log_sum(forwards[word - 1][:, None] + moves, 0) + scores[word]
    for word in range(len(scores) - 2, -1, -1):
        backwards[word] = _log_sum(moves + (scores[word + 1] + backwards[word + 1])[None], 1)
    both = forwards + backwards
    return np.exp(both - _log_sum(both, 1)[:, None])


def _log_sum(numbers: np.ndarray, axis: int) -> np.ndarray:
    most = numbers.max(axis=axis, keepdims=True)
    return np.log(np.exp(numbers - most).sum(axis=axis)) + most.squeeze(axis)
