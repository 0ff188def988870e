"""Chains of labels in numpy: the readable twin of `crf`, chain by chain and in logarithms."""

from __future__ import annotations

import numpy as np


def scored(features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, weights: np.ndarray, width: int):
    """(N, width) what the features (N, T) of each word weigh for each label."""
    scores = np.zeros((len(features), width))
    for word, own in enumerate(features):
        for feature in own[own >= 0]:
            here = slice(offsets[feature], offsets[feature + 1])
            np.add.at(scores[word], labels[here], weights[here])
    return scores


def gradient(features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, surplus: np.ndarray):
    """(P,) for each weight the sum of what words that have its feature have too much of its label."""
    found = np.zeros(len(labels))
    for word, own in enumerate(features):
        for feature in own[own >= 0]:
            here = slice(offsets[feature], offsets[feature + 1])
            found[here] += surplus[word, labels[here]]
    return found


def chain(scores: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray):
    """Of one chain: ln of the sum of all labellings, (n, K) P of each label, (K, K) how often a move is expected."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    before[0], after[-1] = start + scores[0], end
    for word in range(1, len(scores)):
        before[word] = scores[word] + _sum(before[word - 1][:, None] + moves, 0)
    for word in range(len(scores) - 2, -1, -1):
        after[word] = _sum(moves + (scores[word + 1] + after[word + 1])[None, :], 1)
    total = float(_sum(before[-1] + end, 0))
    expected = np.zeros_like(moves)
    for word in range(1, len(scores)):
        expected += np.exp(before[word - 1][:, None] + moves + (scores[word] + after[word])[None, :] - total)
    return total, np.exp(before + after - total), expected


def _sum(logarithms: np.ndarray, axis: int) -> np.ndarray:
    level = logarithms.max(axis, keepdims=True)
    return np.squeeze(level, axis) + np.log(np.exp(logarithms - level).sum(axis))
