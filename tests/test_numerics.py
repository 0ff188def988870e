"""numerics.py agrees with SciPy, and holds where plain formulas overflow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from forebear import numerics
from forebear.errors import InputError

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(scale=5, size=(7, 11))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_softmax_and_its_logarithms_agree_with_scipy(axis: int, shift: float):
    scores = SCORES + shift
    np.testing.assert_allclose(numerics.softmax(scores, axis), special.softmax(scores, axis), rtol=1e-12)
    np.testing.assert_allclose(numerics.log_softmax(scores, axis), special.log_softmax(scores, axis), rtol=1e-9)
    np.testing.assert_allclose(numerics.logsumexp(scores, axis), special.logsumexp(scores, axis), rtol=1e-12)


def test_softmax_of_no_rows_is_empty():
    assert numerics.softmax(np.zeros((0, 3))).shape == (0, 3)


def test_logsumexp_of_impossible_events_is_minus_infinity():
    scores = np.array([[-np.inf, -np.inf], [-np.inf, 0.0]])
    np.testing.assert_array_equal(numerics.logsumexp(scores), [-np.inf, 0.0])


def test_sigmoid_does_not_overflow():
    scores = np.array([-1e4, -3.0, 0.0, 3.0, 1e4])
    with np.errstate(all="raise"):
        np.testing.assert_allclose(numerics.sigmoid(scores), special.expit(scores), atol=1e-15)


def test_unit_rows_leave_zero_rows_at_zero():
    rows = numerics.unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(rows, [[0.6, 0.8], [0.0, 0.0]])


def test_ranks_of_ties_are_their_mean_rank():
    values = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    np.testing.assert_array_equal(numerics.ranks(values), stats.rankdata(values))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_correlations_agree_with_scipy_at_every_scale(scale: float):
    true = RANDOM.integers(0, 6, 50).astype(float)
    predicted = true + RANDOM.integers(0, 3, 50)
    assert numerics.pearson(true * scale, predicted * scale) == pytest.approx(stats.pearsonr(true, predicted)[0])
    assert numerics.spearman(true * scale, predicted * scale) == pytest.approx(stats.spearmanr(true, predicted)[0])


def test_correlation_with_a_constant_series_is_zero():
    assert numerics.is_constant(np.full(9, 0.1))
    assert numerics.pearson(np.full(9, 0.1), np.arange(9.0)) == 0.0
    assert numerics.spearman(np.arange(9.0), np.full(9, 0.1)) == 0.0


@pytest.mark.parametrize(
    ("true", "predicted"), [([], []), ([1.0], [1.0, 2.0]), ([1.0, np.nan], [1.0, 2.0]), ([1.0, 2.0], [np.inf, 2.0])]
)
def test_correlation_refuses_empty_unequal_and_non_finite_series(true: list[float], predicted: list[float]):
    with pytest.raises(InputError):
        numerics.pearson(np.array(true), np.array(predicted))
