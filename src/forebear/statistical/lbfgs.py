"""L-BFGS minimization of smooth convex functions, and OWL-QN for L1 regularization; resumable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import numpy as np

MAX_STEPS, MAX_MEMORY = 10, 1 << 27  # maximum steps and values of the history; at least 3 steps are kept
ARMIJO, WOLFE = 1e-4, 0.9  # sufficient decrease, and curvature condition
VALUE_NOISE = 1e-13  # relative rounding noise of a value; below it only the slope is tested (Hager & Zhang 2005)
MAX_HALVINGS = 60
MIN_NORM = 1e-300
LOOKBACK = 10  # steps over which `min_decrease` is measured

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
Evaluation = tuple[np.ndarray, float, np.ndarray]  # a point, its value and its gradient
LBFGSProgressFn = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class LBFGSResult:
    """The minimum found, and why the search stopped.

    stop_reason  "found": converged; "still": the last steps hardly decreased the value; "exact": no decrease is
                 possible at this precision; "time" and "iterations": stopped early, at the best point so far
    """

    solution: np.ndarray
    value: float
    iterations: int
    stop_reason: Literal["found", "still", "exact", "time", "iterations"]


def minimize(
    function: Function,
    start: np.ndarray,
    has_converged: Callable[[np.ndarray, np.ndarray], bool],
    *,
    min_decrease: float = 0.0,
    max_iterations: int = 10_000,
    seconds: float | None = None,
    progress: LBFGSProgressFn | None = None,
) -> LBFGSResult:
    """Minimize `function` (value and gradient) from `start` until `has_converged(point, gradient)`.

    The search also stops when LOOKBACK steps decrease the value by less than the fraction `min_decrease` of it. It is
    deterministic, unless `seconds` ends it.
    """
    deadline = None if seconds is None else monotonic() + seconds
    optimizer = LBFGSOptimizer(function, start)
    for iteration in range(max_iterations):
        if has_converged(optimizer.point, optimizer.gradient):
            return LBFGSResult(optimizer.point, optimizer.value, iteration, "found")
        if min_decrease and optimizer.recent_decrease() < min_decrease * abs(optimizer.value):
            return LBFGSResult(optimizer.point, optimizer.value, iteration, "still")
        if deadline is not None and monotonic() >= deadline:
            return LBFGSResult(optimizer.point, optimizer.value, iteration, "time")
        if not optimizer.step():
            return LBFGSResult(optimizer.point, optimizer.value, iteration, "exact")
        if progress is not None:
            progress(iteration + 1, optimizer.value)
    return LBFGSResult(optimizer.point, optimizer.value, max_iterations, "iterations")


class LBFGSOptimizer:
    """L-BFGS step by step; its state can be saved and restored.

    memory     maximum steps of the history; None: as many as fit
    curvature  estimated curvature along each component, a preconditioner that saves most steps where components differ
               by a factor of a thousand
    l1         weight of Σ |component|, which makes many of them 0 (OWL-QN, Andrew & Gao 2007)
    state      of an interrupted search, from `arrays`
    """

    def __init__(
        self,
        function: Function,
        start: np.ndarray,
        *,
        memory: int | None = None,
        curvature: np.ndarray | None = None,
        l1: float = 0.0,
        state: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.function, self.l1 = function, l1
        self.inverse_curvature = None if curvature is None else 1 / curvature
        max_steps = max(3, min(MAX_STEPS, MAX_MEMORY // (2 * max(1, start.size)))) if memory is None else memory
        self.memory = deque[tuple[np.ndarray, np.ndarray, float]](maxlen=max_steps)
        self.values = deque[float](maxlen=LOOKBACK + 1)
        if state is None:
            self.point = start
            self.value, self.gradient = self._evaluate(start)
            self.values.append(self.value)
            return
        self.point, self.gradient = state["point"], state["gradient"]
        self.values.extend(state["values"].tolist())
        self.value = self.values[-1]
        for change, gradient_change in zip(state["changes"], state["bends"], strict=True):
            self.memory.append((change, gradient_change, stable_dot(change, gradient_change)))

    def arrays(self) -> dict[str, np.ndarray]:
        """The state needed to resume."""
        empty = np.empty((0, len(self.point)))
        return {
            "point": self.point,
            "gradient": self.gradient,
            "values": np.array(self.values),
            "changes": np.stack([change for change, _, _ in self.memory]) if self.memory else empty,
            "bends": np.stack([gradient_change for _, gradient_change, _ in self.memory]) if self.memory else empty,
        }

    def recent_decrease(self) -> float:
        """Decrease of the value over the last LOOKBACK steps; infinite after fewer steps."""
        return self.values[0] - self.value if len(self.values) > LOOKBACK else np.inf

    @property
    def pseudo_gradient(self) -> np.ndarray:
        """The gradient, or with L1 the pseudo-gradient."""
        return pseudo_gradient(self.point, self.gradient, self.l1) if self.l1 else self.gradient

    def step(self) -> bool:
        """Take one step; False: no decrease is possible at this precision."""
        result = self._next_point()
        while result is None and self.memory:
            self.memory.clear()  # restart from steepest descent
            result = self._next_point()
        if result is None:
            return False
        new_point, new_value, new_gradient = result
        change, gradient_change = new_point - self.point, new_gradient - self.gradient
        if (curvature := stable_dot(change, gradient_change)) > 0:
            self.memory.append((change, gradient_change, curvature))
        self.point, self.value, self.gradient = new_point, new_value, new_gradient
        self.values.append(new_value)
        return True

    def _evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.function(point)
        return (value + self.l1 * float(np.abs(point).sum()) if self.l1 else value), gradient

    def _next_point(self) -> Evaluation | None:
        gradient = self.pseudo_gradient
        direction = _direction(gradient, self.memory, self.inverse_curvature)
        initial_length = 1.0
        if not self.memory:
            norm = (
                np.abs(gradient).sum() if self.inverse_curvature is None else np.sqrt(-stable_dot(gradient, direction))
            )
            initial_length = min(1.0, 1 / max(float(norm), MIN_NORM))
        if not self.l1:
            return _wolfe_search(self.function, self.point, self.value, self.gradient, direction, initial_length)
        direction[direction * gradient >= 0] = 0.0  # descent components only
        return self._orthant_search(gradient, direction, initial_length)

    def _orthant_search(self, gradient: np.ndarray, direction: np.ndarray, length: float) -> Evaluation | None:
        """A lower point in the same orthant: components that would change sign become 0."""
        signs = np.where(self.point != 0, np.sign(self.point), -np.sign(gradient))
        for _ in range(MAX_HALVINGS):
            new_point = self.point + length * direction
            new_point[new_point * signs <= 0] = 0.0
            new_value, new_gradient = self._evaluate(new_point)
            expected_change = stable_dot(gradient, new_point - self.point)
            if expected_change < 0 and new_value <= self.value + ARMIJO * expected_change:
                return new_point, new_value, new_gradient
            length /= 2
        return None


def pseudo_gradient(point: np.ndarray, gradient: np.ndarray, l1: float) -> np.ndarray:
    """Pseudo-gradient of a function plus l1 · Σ|x|: the one-sided derivative of steepest descent, or 0."""
    at_zero = np.where(gradient > l1, gradient - l1, np.where(gradient < -l1, gradient + l1, 0.0))
    return np.where(point != 0, gradient + l1 * np.sign(point), at_zero)


def _direction(
    gradient: np.ndarray,
    memory: deque[tuple[np.ndarray, np.ndarray, float]],
    inverse_curvature: np.ndarray | None = None,
) -> np.ndarray:
    """The L-BFGS direction (two-loop recursion)."""
    direction, buffer = -gradient, np.empty_like(gradient)  # allocating temporaries would take longer than the sums
    coefficients = []
    for change, gradient_change, curvature in reversed(memory):
        coefficients.append(stable_dot(change, direction) / curvature)
        direction -= np.multiply(gradient_change, coefficients[-1], out=buffer)
    if inverse_curvature is not None:
        direction *= inverse_curvature
    if memory:
        _, gradient_change, curvature = memory[-1]
        scaled = (
            gradient_change
            if inverse_curvature is None
            else np.multiply(gradient_change, inverse_curvature, out=buffer)
        )
        direction *= curvature / stable_dot(gradient_change, scaled)
    for (change, gradient_change, curvature), coefficient in zip(memory, reversed(coefficients), strict=True):
        direction += np.multiply(change, coefficient - stable_dot(gradient_change, direction) / curvature, out=buffer)
    return direction


def _wolfe_search(
    function: Function, point: np.ndarray, value: float, gradient: np.ndarray, direction: np.ndarray, length: float
) -> Evaluation | None:
    """A point along the direction that satisfies the (approximate) Wolfe conditions, its value and gradient; or None.

    The step length is doubled while too short, and bisected once an upper bound is known.
    """
    slope = stable_dot(gradient, direction)
    lower, upper = 0.0, np.inf
    for _ in range(MAX_HALVINGS):
        new_point = point + length * direction
        new_value, new_gradient = function(new_point)
        new_slope = stable_dot(new_gradient, direction)
        is_low = new_value <= value + ARMIJO * length * slope  # False where the value is NaN
        if not is_low and not (new_value <= value + VALUE_NOISE * abs(value) and new_slope <= (2 * ARMIJO - 1) * slope):
            upper = length
        elif new_slope < WOLFE * slope:
            lower = length
        else:
            return new_point, new_value, new_gradient
        length = 2 * length if np.isinf(upper) else (lower + upper) / 2
    return None


def stable_dot(x: np.ndarray, y: np.ndarray) -> float:
    """Dot product by one thread: BLAS would use all cores and wait for busy ones."""
    return float(np.einsum("i,i->", x, y))
