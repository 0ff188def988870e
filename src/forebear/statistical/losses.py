"""How wrong scores are, and how each of them would have to change: the losses of linear models, all of them convex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Scores (R, C) → the sum of the losses, and its gradient (R, C).
LossFn = Callable[[np.ndarray], tuple[float, np.ndarray]]


def softmax_loss(right: np.ndarray, weights: np.ndarray) -> LossFn:
    """A softmax over the columns: -log of what the right one (R,) gets."""
    here = np.arange(len(right))

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        highest = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - highest)
        total = shares.sum(axis=1, keepdims=True)
        value = float(weights @ ((highest + np.log(total))[:, 0] - scores[here, right]))
        shares /= total
        shares[here, right] -= 1
        return value, shares * weights[:, None]

    return loss


def logistic_loss(right: np.ndarray, weights: np.ndarray) -> LossFn:
    """Each column for itself: -log of the probability of what is right (R, C), 1 for yes and 0 for no."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        value = float(weights @ (np.logaddexp(0, scores) - right * scores).sum(axis=1))
        # As a tanh, which is exact for scores of any size.
        return value, ((1 + np.tanh(scores / 2)) / 2 - right) * weights[:, None]

    return loss


def squared_loss(right: np.ndarray, weights: np.ndarray) -> LossFn:
    """Half the squared distance to what is right (R, C)."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        away = scores - right
        return float(weights @ (away * away).sum(axis=1)) / 2, away * weights[:, None]

    return loss


def group_softmax_loss(begins: np.ndarray, right: np.ndarray, weights: np.ndarray) -> LossFn:
    """A softmax over the rows of a group, in each column for itself: -log of what the right row gets.

    begins   (G,) the first row of each group; none is empty
    right    (G, C) the number of the right row, among all; -1: the group asks for nothing in this column
    weights  (G, C)
    """
    weights = np.where(right < 0, 0.0, weights)
    columns = np.arange(right.shape[1])

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        sizes = np.diff(np.append(begins, len(scores)))
        highest = np.maximum.reduceat(scores, begins, axis=0)
        shares = np.exp(scores - np.repeat(highest, sizes, axis=0))
        total = np.add.reduceat(shares, begins, axis=0)
        value = float((weights * (highest + np.log(total) - scores[right, columns])).sum())
        shares *= np.repeat(weights / total, sizes, axis=0)
        np.subtract.at(shares, (right, columns), weights)
        return value, shares

    return loss
