"""Chains of labels, each judged as a whole, as a CRF does: the best one, and how probable each label is at each place.

The arithmetic of `networks.crf` without torch: learned moves are given as numbers. All chains are gone through
together, word by word; the longest come first, so that those that still go on are the first few.

K labels · N words of all chains, one chain behind the other · scores add up: start, words, moves (from, to), end
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FORBIDDEN, WORST = -1e12, -1e6  # what a forbidden move costs, and the least that a word may say of a label
MUCH = 1 << 24  # moves from label to label, of all words; below, loading compiled loops takes longer
LEAST = 1e-300  # what is rarer counts as this rare, so that its logarithm is a number


def best(
    scores: np.ndarray, lengths: Sequence[int], moves: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N,) the labels whose scores (N, K), moves (K, K), start and end add up to most: Viterbi's way."""
    if scores.size * len(start) > MUCH:
        from forebear.kernels import crf

        return crf.best(scores, np.asarray(lengths, np.int64), moves, start, end)
    times, came_from, found = _times(lengths), np.zeros(scores.shape, np.int64), np.zeros(len(scores), np.int64)
    if not times:
        return found
    total = scores[times[0]] + start
    for here in times[1:]:
        through = total[: len(here), :, None] + moves
        came_from[here] = through.argmax(1)
        total[: len(here)] = through.max(1) + scores[here]
    label = (total + end).argmax(1)
    for here in reversed(times):
        found[here] = label[: len(here)]
        label[: len(here)] = came_from[here, label[: len(here)]]
    return found


def best_allowed(scores: np.ndarray, lengths: Sequence[int], *allowed: np.ndarray) -> np.ndarray:
    """The same where moves, starts and ends are allowed or not; if no chain is, one with as few forbidden as can be."""
    return best(np.maximum(scores, WORST), lengths, *(np.where(one, 0.0, FORBIDDEN) for one in allowed))


def marginals(
    scores: np.ndarray, lengths: Sequence[int], moves: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N, K) P of each label at each place, over all chains: forwards and backwards."""
    times, weights = _times(lengths), np.exp(moves.astype(np.float64))
    scores, found = scores.astype(np.float64), np.zeros(scores.shape)
    if not times:
        return found
    before = _level(scores[times[0]] + start)
    found[times[0]] = before
    for here in times[1:]:
        before = _level(_moved(before[: len(here)], weights) + scores[here])
        found[here] = before
    after = np.tile(end.astype(np.float64), (len(times[0]), 1))
    for here in reversed(times):
        found[here] += after[: len(here)]
        after[: len(here)] = _moved(_level(after[: len(here)] + scores[here]), weights.T)
    p = np.exp(_level(found))
    return p / p.sum(1, keepdims=True)


def _times(lengths: Sequence[int]) -> list[np.ndarray]:
    """For each moment the numbers of the words that stand there, that of the longest chain first."""
    sizes = np.asarray(lengths, np.int64)
    begins, order = np.cumsum(sizes) - sizes, np.argsort(-sizes, kind="stable")
    alive = len(sizes) - np.searchsorted(np.sort(sizes), np.arange(sizes.max(initial=0)), side="right")
    return [begins[order[:count]] + time for time, count in enumerate(alive.tolist())]


def _level(scores: np.ndarray) -> np.ndarray:
    """The same with 0 as the largest of each row."""
    return scores - scores.max(1, keepdims=True)


def _moved(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, K) ln Σ_j e^score_j weight_jk."""
    return np.log(np.maximum(np.exp(scores) @ weights, LEAST))
