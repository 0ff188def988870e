"""The lowest point of a smooth, convex function, by what its last few gradients tell of its curvature (L-BFGS)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import numpy as np

MEMORY, KEPT = 10, 1 << 27  # steps that are remembered, at most, and numbers in all of them; never fewer than 3 steps
ENOUGH, STEEP = 1e-4, 0.9  # Wolfe's conditions: of the promised fall, and of the first slope
NOISE = 1e-13  # of a value: less tells nothing, and the slope alone has to (Hager & Zhang 2005)
HALVINGS = 60
LAST = 10  # steps that are looked back on

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
Progress = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class Lowest:
    """Where the function is lowest, as far as it was found, and why the search ended.

    ended  "found": as flat as was asked for; "still": the last steps hardly went lower; "exact": numbers of this
           precision tell nothing lower; "time" and "iterations": stopped on the way, at the lowest point so far
    """

    point: np.ndarray
    value: float
    iterations: int
    ended: Literal["found", "still", "exact", "time", "iterations"]


def lowest(
    function: Function,
    begin: np.ndarray,
    is_flat: Callable[[np.ndarray, np.ndarray], bool],
    *,
    still: float = 0.0,
    most: int = 10_000,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Lowest:
    """From `begin` down to a point of which `is_flat(point, gradient)`; `function` gives value and gradient.

    It also ends where LAST steps together went lower by less than the share `still` of the value.

    Nothing is drawn by chance: the same function and beginning give the same bits, unless `seconds` end the search.
    """
    until = None if seconds is None else monotonic() + seconds
    memory = deque[tuple[np.ndarray, np.ndarray, float]](maxlen=max(3, min(MEMORY, KEPT // (2 * max(1, begin.size)))))
    point = begin
    value, gradient = function(point)
    values = deque([value], maxlen=LAST + 1)
    for iteration in range(most):
        if is_flat(point, gradient):
            return Lowest(point, value, iteration, "found")
        if still and len(values) > LAST and values[0] - value < still * abs(value):
            return Lowest(point, value, iteration, "still")
        if until is not None and monotonic() >= until:
            return Lowest(point, value, iteration, "time")
        direction = _direction(gradient, memory)
        first = 1.0 if memory else min(1.0, 1 / float(np.abs(gradient).sum()))
        step = _step(function, point, value, gradient, direction, first)
        if step is None:
            if not memory:
                return Lowest(point, value, iteration, "exact")
            memory.clear()  # what was remembered may mislead; the gradient itself does not
            continue
        moved, fallen, tilted = step
        change, bend = moved - point, tilted - gradient
        if (curved := dot(change, bend)) > 0:
            memory.append((change, bend, curved))
        point, value, gradient = moved, fallen, tilted
        values.append(value)
        if progress is not None:
            progress(iteration + 1, value)
    return Lowest(point, value, most, "iterations")


def _direction(gradient: np.ndarray, memory: deque[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """Downhill, as the crow flies: the gradient, corrected by the curvature along the remembered steps (two loops)."""
    direction, part = -gradient, np.empty_like(gradient)  # a new array for each sum would take longer than the sum
    shares = []
    for change, bend, curved in reversed(memory):
        shares.append(dot(change, direction) / curved)
        direction -= np.multiply(bend, shares[-1], out=part)
    if memory:
        _, bend, curved = memory[-1]
        direction *= curved / dot(bend, bend)
    for (change, bend, curved), share in zip(memory, reversed(shares), strict=True):
        direction += np.multiply(change, share - dot(bend, direction) / curved, out=part)
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
    slope = dot(gradient, direction)
    short, long = 0.0, np.inf
    for _ in range(HALVINGS):
        moved = point + length * direction
        fallen, tilted = function(moved)
        tilt = dot(tilted, direction)
        is_low = fallen <= value + ENOUGH * length * slope  # and is not where it is no number
        if not is_low and not (fallen <= value + NOISE * abs(value) and tilt <= (2 * ENOUGH - 1) * slope):
            long = length
        elif tilt < STEEP * slope:
            short = length
        else:
            return moved, fallen, tilted
        length = 2 * length if np.isinf(long) else (short + long) / 2
    return None


def dot(one: np.ndarray, other: np.ndarray) -> float:
    """Their product, by one thread: BLAS would share it among all cores, and wait for those that others use."""
    return float(np.einsum("i,i->", one, other))
