"""Losses of linear models and the weights that minimize them, a convex problem (L-BFGS)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forebear.statistical.feature_matrix import FeatureMatrix
from forebear.statistical.lbfgs import LBFGSProgressFn, LBFGSResult, minimize, stable_dot

# --- Losses ---

# Scores (R, C) → the sum of the losses, and its gradient (R, C).
LossFn = Callable[[np.ndarray], tuple[float, np.ndarray]]


def softmax_loss(gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Cross-entropy of a softmax over the columns, with gold column indices (R,)."""
    rows = np.arange(len(gold))

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        max_scores = scores.max(axis=1, keepdims=True)
        probs = np.exp(scores - max_scores)
        total = probs.sum(axis=1, keepdims=True)
        value = float(weights @ ((max_scores + np.log(total))[:, 0] - scores[rows, gold]))
        probs /= total
        probs[rows, gold] -= 1
        return value, probs * weights[:, None]

    return loss


def logistic_loss(gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Binary cross-entropy of each column, with targets 0 and 1 (R, C)."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        value = float(weights @ (np.logaddexp(0, scores) - gold * scores).sum(axis=1))
        # As a tanh, which is exact for scores of any size.
        return value, ((1 + np.tanh(scores / 2)) / 2 - gold) * weights[:, None]

    return loss


def squared_loss(gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Half the squared error from `gold` (R, C)."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        errors = scores - gold
        return float(weights @ (errors * errors).sum(axis=1)) / 2, errors * weights[:, None]

    return loss


def group_softmax_loss(starts: np.ndarray, gold: np.ndarray, weights: np.ndarray) -> LossFn:
    """Cross-entropy of a softmax over the rows of each group, separately for each column.

    starts   (G,) the first row of each group; no group is empty
    gold     (G, C) the gold row, counted over all rows; -1: no target
    weights  (G, C)
    """
    weights = np.where(gold < 0, 0.0, weights)
    columns = np.arange(gold.shape[1])

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        sizes = np.diff(np.append(starts, len(scores)))
        max_scores = np.maximum.reduceat(scores, starts, axis=0)
        probs = np.exp(scores - np.repeat(max_scores, sizes, axis=0))
        total = np.add.reduceat(probs, starts, axis=0)
        value = float((weights * (max_scores + np.log(total) - scores[gold, columns])).sum())
        probs *= np.repeat(weights / total, sizes, axis=0)
        np.subtract.at(probs, (gold, columns), weights)
        return value, probs

    return loss


# --- Fitting ---

WEIGHT_TOLERANCE = 1e-4  # maximum distance of the weights from the optimum, as a share of their norm
TYPICAL_CURVATURE = 0.0005  # a typical p(1 - p) at the optimum: curvature of the loss per squared feature


def fit_linear(
    matrix: FeatureMatrix,
    loss: LossFn,
    num_columns: int,
    *,
    penalty: float,
    has_bias: bool,
    total: float,
    min_decrease: float = 0.0,
    seconds: float | None = None,
    progress: LBFGSProgressFn | None = None,
) -> tuple[np.ndarray, np.ndarray, LBFGSResult]:
    """Minimize Σ loss + penalty/2 · Σ weight², with an unregularized bias; `total` is the sum of example weights.

    Returns weights (F, C), bias (C,) or (0,), and the result of the search, whose value is the mean regularized loss.

    The curvature is at least `penalty`, so the distance to the optimum is at most |gradient| / penalty: the search
    stops when that is a small fraction of the weights. With `min_decrease` it also stops when ten steps decrease the
    loss by less than this fraction.
    """
    width = matrix.shape[1]
    num_weights = width * num_columns
    # The curvature along common features is thousands of times that along rare ones. Rescaled to about equal
    # curvature, the search takes a fifth of the steps.
    scales = np.repeat(1 / np.sqrt(penalty + TYPICAL_CURVATURE * matrix.column_square_sums()), num_columns)
    if has_bias:
        scales = np.append(scales, np.full(num_columns, 1 / np.sqrt(TYPICAL_CURVATURE * total)))

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        point = point * scales
        weights = point[:num_weights].reshape(width, num_columns)
        scores = matrix.multiply(weights)
        value, score_gradient = loss(scores + point[num_weights:] if has_bias else scores)
        gradient = np.empty_like(point)
        gradient[:num_weights] = (matrix.transposed_multiply(score_gradient) + penalty * weights).ravel()
        gradient[num_weights:] = score_gradient.sum(axis=0)[: len(point) - num_weights]
        value += penalty / 2 * stable_dot(point[:num_weights], point[:num_weights])
        return value / total, gradient * scales / total

    def is_flat(point: np.ndarray, gradient: np.ndarray) -> bool:
        size = max(1.0, float(np.linalg.norm(point[:num_weights] * scales[:num_weights])))
        return float(np.linalg.norm(gradient / scales)) * total <= WEIGHT_TOLERANCE * penalty * size

    result = minimize(
        function, np.zeros(len(scales)), is_flat, min_decrease=min_decrease, seconds=seconds, progress=progress
    )
    point = result.solution * scales
    return point[:num_weights].reshape(width, num_columns), point[num_weights:], result
