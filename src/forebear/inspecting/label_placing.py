"""Where the labels of dots go, so that none lies on another: the first come first, and some have no room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

Box = tuple[float, float, float, float]  # left, lower, right, upper
# Which way from its dot a label lies, the best first: of its width and height, how far its lower left corner is moved.
WAYS = ((0.0, -0.5), (-1.0, -0.5), (-0.5, 0.0), (-0.5, -1.0), (0.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0))


def boxes_for(dots: np.ndarray, sizes: Sequence[tuple[float, float]], room: Box, *, gap: float) -> list[Box | None]:
    """The box of each label beside its dot (n, 2), or None where it would lie on another label or beyond the room.

    Of the ways that are free the one that hides the fewest dots is taken. Everything is in one unit.
    """
    taken = np.empty((0, 4))
    made: list[Box | None] = []
    for dot, size in zip(dots, sizes, strict=True):
        free = [box for box in _around(dot, size, gap) if _inside(box, room) and not _on_any(box, taken)]
        best = min(free, key=lambda box: _hidden(box, dots), default=None)
        made.append(best)
        if best is not None:
            taken = np.vstack((taken, best))
    return made


def _around(dot: np.ndarray, size: tuple[float, float], gap: float) -> Iterator[Box]:
    wide, high = size
    for right, up in WAYS:
        left = float(dot[0]) + right * wide + gap * (1 if right == 0 else -1 if right == -1 else 0)
        lower = float(dot[1]) + up * high + gap * (1 if up == 0 else -1 if up == -1 else 0)
        yield left, lower, left + wide, lower + high


def _inside(box: Box, room: Box) -> bool:
    return box[0] >= room[0] and box[1] >= room[1] and box[2] <= room[2] and box[3] <= room[3]


def _on_any(box: Box, taken: np.ndarray) -> bool:
    left, lower, right, upper = box
    apart = (taken[:, 2] <= left) | (taken[:, 0] >= right) | (taken[:, 3] <= lower) | (taken[:, 1] >= upper)
    return not bool(apart.all())


def _hidden(box: Box, dots: np.ndarray) -> int:
    left, lower, right, upper = box
    return int(((dots[:, 0] > left) & (dots[:, 0] < right) & (dots[:, 1] > lower) & (dots[:, 1] < upper)).sum())
