"""Losses of linear models and the weights that minimize them, a convex problem (L-BFGS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from forebear.statistical.feature_matrix import FeatureMatrix
from forebear.statistical.lbfgs import LBFGSProgressFn, minimize, stable_dot

# --- Losses ---

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


# --- Fitting ---

PRECISION = 1e-4  # how far the weights may be from the best ones, as a share of their size
BEND = 0.0005  # a usual p(1 - p) where a model is done: how much losses bend by the square of a feature


@dataclass(frozen=True, eq=False)
class LinearFit:
    """weights (F, C), bias (C,) or (0,), and how they were found: see `Lowest`; the loss is the mean, with penalty."""

    weights: np.ndarray
    bias: np.ndarray
    iterations: int
    loss: float
    stop_reason: str


def fit_linear(
    matrix: FeatureMatrix,
    loss: LossFn,
    columns: int,
    *,
    penalty: float,
    biased: bool,
    total: float,
    still: float = 0.0,
    seconds: float | None = None,
    progress: LBFGSProgressFn | None = None,
) -> LinearFit:
    """The least Σ loss + penalty/2 · Σ weight²; a bias costs nothing. `total` is what the losses weigh in all.

    The penalty bends the sum everywhere by at least itself, so the weights are no farther from the best ones than the
    gradient by the penalty: the search ends when that is a small share of their size, and not at a guess. That may
    take long; with `still` it also ends where ten steps lower the loss by less than this share of it.
    """
    width = matrix.shape[1]
    many = width * columns
    # Common features bend the loss thousands of times more than rare ones. Measured in units in which all bend about
    # alike, the way down is five times as short.
    units = np.repeat(1 / np.sqrt(penalty + BEND * matrix.column_square_sums()), columns)
    if biased:
        units = np.append(units, np.full(columns, 1 / np.sqrt(BEND * total)))

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        point = point * units
        weights = point[:many].reshape(width, columns)
        value, wrong = loss(matrix.multiply(weights) + point[many:] if biased else matrix.multiply(weights))
        gradient = np.empty_like(point)
        gradient[:many] = (matrix.turned_times(wrong) + penalty * weights).ravel()
        gradient[many:] = wrong.sum(axis=0)[: len(point) - many]
        return (value + penalty / 2 * stable_dot(point[:many], point[:many])) / total, gradient * units / total

    def is_flat(point: np.ndarray, gradient: np.ndarray) -> bool:
        size = max(1.0, float(np.linalg.norm(point[:many] * units[:many])))
        return float(np.linalg.norm(gradient / units)) * total <= PRECISION * penalty * size

    found = minimize(function, np.zeros(len(units)), is_flat, still=still, seconds=seconds, progress=progress)
    point = found.solution * units
    return LinearFit(
        point[:many].reshape(width, columns), point[many:], found.iterations, found.value, found.stop_reason
    )
