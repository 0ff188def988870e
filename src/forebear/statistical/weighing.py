"""The weights of features that make a loss smallest: one convex problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebear.statistical.lbfgs import LBFGSProgressFn, minimize, stable_dot
from forebear.statistical.losses import LossFn
from forebear.statistical.matrices import FeatureMatrix

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
