"""Labels beside points so that none covers another, a point, or the edge of the picture."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TURNS = (0, 180, 45, -45, 135, -135, 90, -90)  # degrees: right of its point, else left of it, above, below
STEP, FURTHEST = 7, 80  # how far a label moves outward at each try, and how often
DISC, GAP = 6, 9  # half of what a point covers; from its middle to its label
CROWD = 40  # points nearer than this across share a column of labels

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle: its left and top edges and its extent."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def holds(self, other: Box) -> bool:
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """The point of the box that is nearest to (x, y)."""
        return min(max(x, self.x), self.x + self.width), min(max(y, self.y), self.y + self.height)


def text_width(text: str, size: float) -> float:
    """About how wide a bold text is set: Chinese characters are square, others about two thirds as wide."""
    return size * sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.65 for c in text)


def place_labels(
    points: Sequence[Point], labels: Sequence[tuple[float, float]], inside: Box, taken: Sequence[Box] = ()
) -> list[Box]:
    """For each point a box of its label's (width, height), as near as can be.

    Points at about the same place across share a column to their right, in the order of their heights, so that no
    line from a point to its label crosses another. Where a column is not free, the label looks around for itself.
    """
    blocked = [*taken, *map(point_box, points)]
    wishes = _columns(points, labels, inside)
    placed = []
    for (x, y), wish in zip(points, wishes, strict=True):
        tries = (box for box in (wish, *_spiral(x, y, wish)) if inside.holds(box))
        free = (box for box in tries if not any(box.meets(other) for other in blocked))
        placed.append(next(free, wish))  # a picture too full: on top of something
        blocked.append(placed[-1])
    return placed


def point_box(point: Point) -> Box:
    """What a point itself covers."""
    return Box(point[0] - DISC, point[1] - DISC, 2 * DISC, 2 * DISC)


def _columns(points: Sequence[Point], labels: Sequence[tuple[float, float]], inside: Box) -> list[Box]:
    """A box for each label right of its point, in columns in which none covers another."""
    boxes: dict[int, Box] = {}
    crowds: list[list[int]] = []
    for number in sorted(range(len(points)), key=lambda it: points[it]):
        if crowds and points[number][0] - points[crowds[-1][-1]][0] < CROWD:
            crowds[-1].append(number)
        else:
            crowds.append([number])
    for crowd in crowds:
        left = max(points[number][0] for number in crowd) + GAP
        crowd.sort(key=lambda it: points[it][1])
        heights = [labels[number][1] for number in crowd]
        tops = _apart([points[number][1] - labels[number][1] / 2 for number in crowd], heights)
        low, high = inside.y - tops[0], inside.y + inside.height - tops[-1] - heights[-1]
        shift = max(low, 0) + min(high, 0)  # back into the picture, where it has room for all of them
        for number, top in zip(crowd, tops, strict=True):
            boxes[number] = Box(left, top + shift, *labels[number])
    return [boxes[number] for number in range(len(points))]


def _apart(wanted: list[float], heights: list[float]) -> list[float]:
    """Places in the same order, as near to the wanted ones as can be, each below the one before.

    Neighbours that would overlap are joined to a block, which stands where its members want it on the mean.
    """
    blocks: list[tuple[float, float, int]] = []  # the sum of what members want of its top, its height, members
    for wish, height in zip(wanted, heights, strict=True):
        blocks.append((wish, height, 1))
        while len(blocks) > 1:
            (sum_, tall, count), (more, taller, others) = blocks[-2:]
            if sum_ / count + tall <= more / others:
                break
            blocks[-2:] = [(sum_ + more - tall * others, tall + taller, count + others)]
    tops: list[float] = []
    rest = iter(heights)
    for sum_, _, count in blocks:
        top = sum_ / count
        for _ in range(count):
            tops.append(top)
            top += next(rest)
    return tops


def _spiral(x: float, y: float, wish: Box) -> Iterator[Box]:
    """Boxes beside (x, y), the nearest first."""
    for ring in range(FURTHEST):
        away = GAP + ring * STEP
        for turn in TURNS:
            across, down = math.cos(math.radians(turn)), -math.sin(math.radians(turn))
            left = x + across * away - (wish.width if across < -0.1 else wish.width / 2 if across < 0.1 else 0)
            yield Box(left, y + down * away - wish.height / 2, wish.width, wish.height)
