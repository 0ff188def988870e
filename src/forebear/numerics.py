"""Numerical functions shared by several packages: softmax, log-sum-exp, perplexity, ranks, correlations, checks.

scipy has most of them, but importing `scipy.stats` takes 0.6 s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from forebear.errors import ForebearError, InputError


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """Probabilities proportional to exp(scores) along an axis, without overflow."""
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def log_softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """The logarithm of `softmax`, computed without leaving log space."""
    shifted = scores - scores.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def logsumexp(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """ln Σ exp(scores) along an axis; -inf where all scores are -inf."""
    highest = scores.max(axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(scores - highest).sum(axis=axis)) + highest.squeeze(axis)


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-scores)), without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * scores))


def unit_rows(matrix: np.ndarray, min_norm: float = 1e-12) -> np.ndarray:
    """Rows divided by their Euclidean norm; norms below `min_norm` count as `min_norm`, so that zero rows stay zero."""
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), min_norm)


def mean_cosine(vector_sum: np.ndarray, count: int) -> float | None:
    """Mean pairwise cosine similarity of `count` unit vectors, from their sum; None for fewer than two."""
    return float(((vector_sum**2).sum() - count) / (count * (count - 1))) if count > 1 else None


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, in ascending order; ties share their mean rank."""
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[groups]


# --- Saved states ---


def require_names(owner: str, actual: Iterable[str], expected: Iterable[str], hint: str = "") -> None:
    """Raise ForebearError unless the saved state of a model has exactly the expected arrays."""
    missing, extra = set(expected) - set(actual), set(actual) - set(expected)
    if missing or extra:
        problem = f"lacks {sorted(missing)}" if missing else f"has, but should not, {sorted(extra)}"
        raise ForebearError(f"the state of {owner} {problem}", hint=hint)


def require_state(owner: str, arrays: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Raise ForebearError unless the arrays have the names, types and shapes of the expected ones."""
    require_names(f"a {owner}", arrays, expected)
    for name, array in expected.items():
        if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            actual, required = (f"{value.dtype} {list(value.shape)}" for value in (arrays[name], array))
            raise ForebearError(f"the array {name!r} of a {owner} is {actual} instead of {required}")


def require_finite(
    owner: str, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], hint: str = ""
) -> None:
    """Raise ForebearError unless the arrays named in `shapes` are finite float32 arrays of that shape."""
    for name, shape in shapes.items():
        array = arrays[name]
        if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
            problem = f"the array {name!r} of {owner} holds {array.dtype} {list(array.shape)}"
            raise ForebearError(f"{problem} instead of finite float32 {list(shape)}", hint=hint)


# --- Correlations ---


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson correlation of two series; 0 if either is constant.

    Raises:
        InputError: The series are empty, differ in shape, or contain NaN or infinity.
    """
    x, y = finite_series(x, y)
    if is_constant(x) or is_constant(y):  # the mean of equal numbers may differ from them by rounding
        return 0.0
    return float(np.clip(_unit_deviations(x) @ _unit_deviations(y), -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman rank correlation of two series; 0 if either is constant. Raises InputError as `pearson` does."""
    x, y = finite_series(x, y)
    return pearson(ranks(x), ranks(y))


def is_constant(values: np.ndarray) -> bool:
    """Whether all values are equal, so that no correlation is defined."""
    return bool(values.min() == values.max())


def finite_series(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert two series to float64; raise InputError unless they are finite, not empty, and equally long."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    require_same_length(x, y)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("infinite, or no number at all, cannot be measured", hint="look for NaN in data and answers")
    return x, y


def require_same_length(true: np.ndarray, predicted: np.ndarray) -> None:
    """Raise InputError unless both are one-dimensional, of one length, and not empty."""
    if true.ndim != 1 or true.shape != predicted.shape:
        raise InputError(f"{predicted.shape} answers to {true.shape} questions")
    require_examples(len(true))


def require_examples(num_examples: int) -> None:
    """Raise InputError if there is nothing to compute a metric on."""
    if not num_examples:
        raise InputError("there are no examples to measure with", hint="give at least one")


def _unit_deviations(values: np.ndarray) -> np.ndarray:
    """Deviations from the mean, scaled to unit length; scaled before squaring to avoid overflow and underflow."""
    values = np.ldexp(values, -np.frexp(np.abs(values).max())[1])  # scaling by a power of two is exact
    deviations = values - values.mean()
    deviations /= np.abs(deviations).max()
    return deviations / np.sqrt(deviations @ deviations)


def perplexity(nats: float, tokens: int) -> float:
    """Perplexity from total nats and tokens."""
    mean = nats / tokens
    return math.exp(mean) if mean < 700 else math.inf


def finite_or_none(value: float) -> float | None:
    """The value, or None if it is infinite or NaN, which JSON cannot represent."""
    return value if math.isfinite(value) else None
