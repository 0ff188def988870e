"""The search for the lowest point: known valleys, and why it ends."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.statistical import lbfgs
from forebear.statistical import linear as losses


def bowl(size: int, seed: int = 0):
    """½ x·A·x - b·x with a wide range of curvatures, and its lowest point."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = turn @ np.diag(np.logspace(0, 3, size)) @ turn.T
    along = rng.normal(size=size)
    return (lambda x: (float(x @ matrix @ x / 2 - along @ x), matrix @ x - along)), np.linalg.solve(matrix, along)


def flat(size: float):
    return lambda point, gradient: float(np.abs(gradient).max()) <= size


def test_a_bowl():
    function, best = bowl(40)
    found = lbfgs.minimize(function, np.zeros(40), flat(1e-9))
    assert found.stop_reason == "found"
    assert np.allclose(found.solution, best, atol=1e-9)


def test_as_few_looks_as_scipy_takes():
    optimize = pytest.importorskip("scipy.optimize")
    function, _ = bowl(40)
    looks = 0

    def counted(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal looks
        looks += 1
        return function(point)

    lbfgs.minimize(counted, np.zeros(40), flat(1e-6))
    options = {"gtol": 1e-6, "ftol": 0, "maxcor": lbfgs.MAX_STEPS}
    peer = optimize.minimize(function, np.zeros(40), jac=True, method="L-BFGS-B", options=options)
    assert looks < 1.2 * peer.nfev


def test_a_bent_valley():
    def rosenbrock(point: np.ndarray) -> tuple[float, np.ndarray]:
        x, y = point.tolist()
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2, np.array(
            [-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)]
        )

    found = lbfgs.minimize(rosenbrock, np.array([-1.2, 1.0]), flat(1e-8))
    assert np.allclose(found.solution, 1, atol=1e-7)
    assert found.iterations < 60


def test_every_step_goes_down_and_is_told():
    function, _ = bowl(20)
    told: list[tuple[int, float]] = []
    found = lbfgs.minimize(function, np.zeros(20), flat(1e-6), progress=lambda *step: told.append(step))
    assert [iteration for iteration, _ in told] == list(range(1, found.iterations + 1))
    assert (np.diff([value for _, value in told]) < 0).all()
    assert told[-1][1] == found.value


def test_stopping_on_the_way():
    function, best = bowl(40)
    few = lbfgs.minimize(function, np.zeros(40), flat(1e-9), max_iterations=5)
    assert (few.stop_reason, few.iterations) == ("iterations", 5)
    assert function(best)[0] < few.value < 0
    none = lbfgs.minimize(function, np.zeros(40), flat(1e-9), seconds=0)
    assert (none.stop_reason, none.iterations) == ("time", 0)


def test_where_hardly_anything_is_gained_it_may_end_sooner():
    function, best = bowl(40)
    whole = lbfgs.minimize(function, np.zeros(40), flat(1e-9))
    values: list[float] = []
    found = lbfgs.minimize(
        function, np.zeros(40), flat(1e-9), min_decrease=1e-3, progress=lambda _, value: values.append(value)
    )
    assert found.stop_reason == "still"
    assert found.iterations < whole.iterations
    assert values[-1 - lbfgs.LOOKBACK] - values[-1] < 1e-3 * abs(values[-1])
    assert found.value - function(best)[0] < 1e-2 * abs(found.value)


def test_a_gradient_that_leads_nowhere_ends_the_search():
    found = lbfgs.minimize(lambda x: (1.0, np.ones(1)), np.array([7.0]), lambda *_: False)
    assert (found.stop_reason, found.iterations) == ("exact", 0)
    found = lbfgs.minimize(lambda x: (float("nan") if x[0] < 7 else 1.0, np.ones(1)), np.array([7.0]), lambda *_: False)
    assert (found.stop_reason, found.value) == ("exact", 1.0)


@pytest.mark.parametrize("which", ["classes", "yes", "squares", "rows"])
def test_gradients_of_losses(which: str):
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 2, 6)
    loss = {
        "classes": losses.softmax_loss(rng.integers(0, 3, 6), weights),
        "yes": losses.logistic_loss(rng.integers(0, 2, (6, 3)), weights),
        "squares": losses.squared_loss(rng.normal(size=(6, 3)), weights),
        "rows": losses.group_softmax_loss(
            np.array([0, 2, 5]), np.array([[1, 0, -1], [2, 4, 4], [5, 5, 5]]), rng.uniform(0.5, 2, (3, 1))
        ),
    }[which]
    scores = rng.normal(size=(6, 3)) * 3
    _, gradient = loss(scores)
    for place in np.ndindex(6, 3):
        step = np.zeros((6, 3))
        step[place] = 1e-5
        slope = (loss(scores + step)[0] - loss(scores - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("size", [1e3, -1e3])
def test_losses_of_huge_scores_are_numbers(size: float):
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
