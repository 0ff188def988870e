"""The lowest point of a smooth, convex function, by what its last few gradients tell of its curvature (L-BFGS)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import numpy as np

MEMORY, KEPT = 10, 1 << 27  # steps that are remembered, at most, and numbers in all of them; never fewer than 3 steps
ENOUGH, STEEP = 1e-4, 0.9  # Wolfe's conditions: of the promised fall, and of the first slope
NOISE = 1e-13  # of a value: less tells nothing, and the slope alone has to (Hager & Zhang 2005)
HALVINGS = 60
TINY = 1e-300
LAST = 10  # steps that are looked back on

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
LBFGSProgressFn = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class LBFGSResult:
    """Where the function is lowest, as far as it was found, and why the search ended.

    ended  "found": as flat as was asked for; "still": the last steps hardly went lower; "exact": numbers of this
           precision tell nothing lower; "time" and "iterations": stopped on the way, at the lowest point so far
    """

    solution: np.ndarray
    value: float
    iterations: int
    stop_reason: Literal["found", "still", "exact", "time", "iterations"]


def minimize(
    function: Function,
    begin: np.ndarray,
    is_flat: Callable[[np.ndarray, np.ndarray], bool],
    *,
    still: float = 0.0,
    most: int = 10_000,
    seconds: float | None = None,
    progress: LBFGSProgressFn | None = None,
) -> LBFGSResult:
    """From `begin` down to a point of which `is_flat(point, gradient)`; `function` gives value and gradient.

    It also ends where LAST steps together went lower by less than the share `still` of the value.

    Nothing is drawn by chance: the same function and beginning give the same bits, unless `seconds` end the search.
    """
    until = None if seconds is None else monotonic() + seconds
    search = LBFGSOptimizer(function, begin)
    for iteration in range(most):
        if is_flat(search.point, search.gradient):
            return LBFGSResult(search.point, search.value, iteration, "found")
        if still and search.has_decreased() < still * abs(search.value):
            return LBFGSResult(search.point, search.value, iteration, "still")
        if until is not None and monotonic() >= until:
            return LBFGSResult(search.point, search.value, iteration, "time")
        if not search.step():
            return LBFGSResult(search.point, search.value, iteration, "exact")
        if progress is not None:
            progress(iteration + 1, search.value)
    return LBFGSResult(search.point, search.value, most, "iterations")


class LBFGSOptimizer:
    """The same, step by step: where it is, and what it remembers, can be taken elsewhere and gone on with.

    memory  steps that are remembered at most; None: as many as fit
    curvature  about how much the gradient bends along each number, as far as that is known beforehand: where some bend
            a thousand times as much as others, far fewer steps are needed
    l1      what the sum of all |numbers| counts besides: then many of them become 0 (OWL-QN, Andrew & Gao 2007)
    state   of a search that was broken off, as `arrays` gave it
    """

    def __init__(
        self,
        function: Function,
        begin: np.ndarray,
        *,
        memory: int | None = None,
        curvature: np.ndarray | None = None,
        l1: float = 0.0,
        state: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.function, self.l1 = function, l1
        self.inverse = None if curvature is None else 1 / curvature
        most = max(3, min(MEMORY, KEPT // (2 * max(1, begin.size)))) if memory is None else memory
        self.memory = deque[tuple[np.ndarray, np.ndarray, float]](maxlen=most)
        self.values = deque[float](maxlen=LAST + 1)
        if state is None:
            self.point = begin
            self.value, self.gradient = self._looked(begin)
            self.values.append(self.value)
            return
        self.point, self.gradient = state["point"], state["gradient"]
        self.values.extend(state["values"].tolist())
        self.value = self.values[-1]
        for change, bend in zip(state["changes"], state["bends"], strict=True):
            self.memory.append((change, bend, stable_dot(change, bend)))

    def arrays(self) -> dict[str, np.ndarray]:
        """All that is needed to go on."""
        empty = np.empty((0, len(self.point)))
        return {
            "point": self.point,
            "gradient": self.gradient,
            "values": np.array(self.values),
            "changes": np.stack([change for change, _, _ in self.memory]) if self.memory else empty,
            "bends": np.stack([bend for _, bend, _ in self.memory]) if self.memory else empty,
        }

    def has_decreased(self) -> float:
        """How much lower it is than LAST steps ago; without end where it has not gone so many."""
        return self.values[0] - self.value if len(self.values) > LAST else np.inf

    @property
    def slope(self) -> np.ndarray:
        """The gradient, with what |numbers| count: at 0 the part that leads away from it, if any."""
        return pseudo_gradient(self.point, self.gradient, self.l1) if self.l1 else self.gradient

    def step(self) -> bool:
        """Goes lower by one step; False: numbers of this precision tell nothing lower."""
        found = self._stepped()
        while found is None and self.memory:
            self.memory.clear()  # what was remembered may mislead; the gradient itself does not
            found = self._stepped()
        if found is None:
            return False
        moved, fallen, tilted = found
        change, bend = moved - self.point, tilted - self.gradient
        if (curved := stable_dot(change, bend)) > 0:
            self.memory.append((change, bend, curved))
        self.point, self.value, self.gradient = moved, fallen, tilted
        self.values.append(fallen)
        return True

    def _looked(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.function(point)
        return (value + self.l1 * float(np.abs(point).sum()) if self.l1 else value), gradient

    def _stepped(self) -> tuple[np.ndarray, float, np.ndarray] | None:
        slope = self.slope
        direction = _direction(slope, self.memory, self.inverse)
        first = 1.0
        if not self.memory:
            steep = np.abs(slope).sum() if self.inverse is None else np.sqrt(-stable_dot(slope, direction))
            first = min(1.0, 1 / max(float(steep), TINY))
        if not self.l1:
            return _step(self.function, self.point, self.value, self.gradient, direction, first)
        direction[direction * slope >= 0] = 0.0  # only where it is downhill
        return self._within(slope, direction, first)

    def _within(
        self, slope: np.ndarray, direction: np.ndarray, length: float
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """A lower point of the same signs: a number that would change its own becomes 0."""
        signs = np.where(self.point != 0, np.sign(self.point), -np.sign(slope))
        for _ in range(HALVINGS):
            moved = self.point + length * direction
            moved[moved * signs <= 0] = 0.0
            fallen, tilted = self._looked(moved)
            promised = stable_dot(slope, moved - self.point)
            if promised < 0 and fallen <= self.value + ENOUGH * promised:
                return moved, fallen, tilted
            length /= 2
        return None


def pseudo_gradient(point: np.ndarray, gradient: np.ndarray, l1: float) -> np.ndarray:
    """Of a function and l1 · Σ|numbers|: that of the side on which it falls; 0 at a 0 from which all rises."""
    beside = np.where(gradient > l1, gradient - l1, np.where(gradient < -l1, gradient + l1, 0.0))
    return np.where(point != 0, gradient + l1 * np.sign(point), beside)


def _direction(
    gradient: np.ndarray, memory: deque[tuple[np.ndarray, np.ndarray, float]], inverse: np.ndarray | None = None
) -> np.ndarray:
    """Downhill, as the crow flies: the gradient, corrected by the curvature along the remembered steps (two loops)."""
    direction, part = -gradient, np.empty_like(gradient)  # a new array for each sum would take longer than the sum
    shares = []
    for change, bend, curved in reversed(memory):
        shares.append(stable_dot(change, direction) / curved)
        direction -= np.multiply(bend, shares[-1], out=part)
    if inverse is not None:
        direction *= inverse
    if memory:
        _, bend, curved = memory[-1]
        direction *= curved / stable_dot(bend, bend if inverse is None else np.multiply(bend, inverse, out=part))
    for (change, bend, curved), share in zip(memory, reversed(shares), strict=True):
        direction += np.multiply(change, share - stable_dot(bend, direction) / curved, out=part)
    return direction


def _step(
    function: Function,
    point: np.ndarray,
    value: float,
    gradient: np.ndarray,
    direction: np.ndarray,
    length: float,
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """A point along the direction that is low enough and no longer steep, its value and gradient; None: there is none.

    The length is doubled while it is too short and halved into the interval that is left as soon as one was too long.
    """
    slope = stable_dot(gradient, direction)
    short, long = 0.0, np.inf
    for _ in range(HALVINGS):
        moved = point + length * direction
        fallen, tilted = function(moved)
        tilt = stable_dot(tilted, direction)
        is_low = fallen <= value + ENOUGH * length * slope  # and is not where it is no number
        if not is_low and not (fallen <= value + NOISE * abs(value) and tilt <= (2 * ENOUGH - 1) * slope):
            long = length
        elif tilt < STEEP * slope:
            short = length
        else:
            return moved, fallen, tilted
        length = 2 * length if np.isinf(long) else (short + long) / 2
    return None


def stable_dot(one: np.ndarray, other: np.ndarray) -> float:
    """Their product, by one thread: BLAS would share it among all cores, and wait for those that others use."""
    return float(np.einsum("i,i->", one, other))
