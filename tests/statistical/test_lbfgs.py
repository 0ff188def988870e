"""L-BFGS: known minima, stop reasons, and gradients of the losses of linear models."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.statistical import lbfgs
from forebear.statistical import linear as losses


def quadratic(size: int, seed: int = 0):
    """½ x·A·x - b·x with a wide range of curvatures, and its minimum."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = rotation @ np.diag(np.logspace(0, 3, size)) @ rotation.T
    linear = rng.normal(size=size)
    return (lambda x: (float(x @ matrix @ x / 2 - linear @ x), matrix @ x - linear)), np.linalg.solve(matrix, linear)


def is_flat(tolerance: float):
    return lambda point, gradient: float(np.abs(gradient).max()) <= tolerance


def test_lbfgs_finds_the_minimum_of_a_quadratic():
    function, minimum = quadratic(40)
    result = lbfgs.minimize(function, np.zeros(40), is_flat(1e-9))
    assert result.stop_reason == "found"
    assert np.allclose(result.solution, minimum, atol=1e-9)


def test_lbfgs_needs_about_as_few_evaluations_as_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    function, _ = quadratic(40)
    evaluations = 0

    def counted(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        evaluations += 1
        return function(point)

    lbfgs.minimize(counted, np.zeros(40), is_flat(1e-6))
    options = {"gtol": 1e-6, "ftol": 0, "maxcor": lbfgs.MAX_STEPS}
    peer = optimize.minimize(function, np.zeros(40), jac=True, method="L-BFGS-B", options=options)
    assert evaluations < 1.2 * peer.nfev


def test_lbfgs_finds_the_minimum_of_rosenbrocks_function():
    def rosenbrock(point: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = point.tolist()
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2, np.array(
            [-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)]
        )

    result = lbfgs.minimize(rosenbrock, np.array([-1.2, 1.0]), is_flat(1e-8))
    assert np.allclose(result.solution, 1, atol=1e-7)
    assert result.iterations < 60


def test_every_lbfgs_step_lowers_the_value_and_is_reported():
    function, _ = quadratic(20)
    reported: list[tuple[int, float]] = []
    result = lbfgs.minimize(function, np.zeros(20), is_flat(1e-6), progress=lambda *step: reported.append(step))
    assert [iteration for iteration, _ in reported] == list(range(1, result.iterations + 1))
    assert (np.diff([value for _, value in reported]) < 0).all()
    assert reported[-1][1] == result.value


def test_lbfgs_stops_at_max_iterations_or_out_of_time():
    function, minimum = quadratic(40)
    limited = lbfgs.minimize(function, np.zeros(40), is_flat(1e-9), max_iterations=5)
    assert (limited.stop_reason, limited.iterations) == ("iterations", 5)
    assert function(minimum)[0] < limited.value < 0
    timed_out = lbfgs.minimize(function, np.zeros(40), is_flat(1e-9), seconds=0)
    assert (timed_out.stop_reason, timed_out.iterations) == ("time", 0)


def test_lbfgs_with_min_decrease_stops_when_progress_is_small():
    function, minimum = quadratic(40)
    full = lbfgs.minimize(function, np.zeros(40), is_flat(1e-9))
    values: list[float] = []
    result = lbfgs.minimize(
        function, np.zeros(40), is_flat(1e-9), min_decrease=1e-3, progress=lambda _, value: values.append(value)
    )
    assert result.stop_reason == "still"
    assert result.iterations < full.iterations
    assert values[-1 - lbfgs.LOOKBACK] - values[-1] < 1e-3 * abs(values[-1])
    assert result.value - function(minimum)[0] < 1e-2 * abs(result.value)


def test_lbfgs_stops_where_no_step_lowers_the_value():
    result = lbfgs.minimize(lambda x: (1.0, np.ones(1)), np.array([7.0]), lambda *_: False)
    assert (result.stop_reason, result.iterations) == ("exact", 0)
    result = lbfgs.minimize(
        lambda x: (float("nan") if x[0] < 7 else 1.0, np.ones(1)), np.array([7.0]), lambda *_: False
    )
    assert (result.stop_reason, result.value) == ("exact", 1.0)


@pytest.mark.parametrize("name", ["softmax", "logistic", "squared", "group_softmax"])
def test_gradients_of_losses_equal_finite_differences(name: str):
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 2, 6)
    loss = {
        "softmax": losses.softmax_loss(rng.integers(0, 3, 6), weights),
        "logistic": losses.logistic_loss(rng.integers(0, 2, (6, 3)), weights),
        "squared": losses.squared_loss(rng.normal(size=(6, 3)), weights),
        "group_softmax": losses.group_softmax_loss(
            np.array([0, 2, 5]), np.array([[1, 0, -1], [2, 4, 4], [5, 5, 5]]), rng.uniform(0.5, 2, (3, 1))
        ),
    }[name]
    scores = rng.normal(size=(6, 3)) * 3
    _, gradient = loss(scores)
    for position in np.ndindex(6, 3):
        step = np.zeros((6, 3))
        step[position] = 1e-5
        slope = (loss(scores + step)[0] - loss(scores - step)[0]) / 2e-5
        assert gradient[position] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("size", [1e3, -1e3])
def test_losses_of_huge_scores_are_finite(size: float):
    scores = np.array([[size, 0.0], [0.0, size]])
    ones = np.ones(2)
    for loss in (
        losses.softmax_loss(np.array([0, 0]), ones),
        losses.logistic_loss(np.eye(2), ones),
        losses.group_softmax_loss(np.array([0]), np.array([[0, 1]]), np.ones((1, 1))),
    ):
        value, gradient = loss(scores)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() <= 1
