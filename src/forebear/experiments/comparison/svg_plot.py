"""Scatter plots as SVG: scale, axes, points, and placement of labels without overlap."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, product
from statistics import fmean

WIDTH, HEIGHT = 960, 520
LEFT, RIGHT, TOP, BOTTOM = 52, 128, 20, 46  # margins; labels may extend into the right one
RIGHT_EDGE, BOTTOM_EDGE = WIDTH - RIGHT, HEIGHT - BOTTOM  # of the axes
LABEL_FONT_SIZE = 14  # font size of labels
ANGLES = (0, 180, 45, -45, 135, -135, 90, -90)  # degrees: to the right of its point first, then left, above, below
RING_DISTANCE, MAX_RINGS = 7, 80  # pixels between candidate positions, and number of rings of them
POINT_RADIUS, LABEL_GAP = 6, 9  # radius covered by a point; distance from its center to its label
COLUMN_WIDTH = 40  # points nearer than this horizontally share a column of labels
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle: left and top edge, width and height."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def contains(self, other: Box) -> bool:
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
    """Approximate width of bold text: Chinese characters are square, others about two thirds as wide."""
    return size * sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.65 for character in text)


def place_labels(
    points: Sequence[Point], labels: Sequence[tuple[float, float]], bounds: Box, occupied: Sequence[Box] = ()
) -> list[Box]:
    """Place a label of the given (width, height) near each point, inside `bounds` and off the `occupied` boxes.

    Points at about the same x share a column of labels to their right, in vertical order, so that leader lines do not
    cross. If its position in the column is occupied, a label is placed at the nearest free position around its point.
    """
    occupied_boxes = [*occupied, *map(point_box, points)]
    preferred = _label_columns(points, labels, bounds)
    placed = []
    for (x, y), target in zip(points, preferred, strict=True):
        candidates = (box for box in (target, *_spiral(x, y, target)) if bounds.contains(box))
        free_boxes = (box for box in candidates if not any(box.overlaps(other) for other in occupied_boxes))
        placed.append(next(free_boxes, target))  # no free position: overlap
        occupied_boxes.append(placed[-1])
    return placed


def point_box(point: Point) -> Box:
    """The box that a point covers."""
    return Box(point[0] - POINT_RADIUS, point[1] - POINT_RADIUS, 2 * POINT_RADIUS, 2 * POINT_RADIUS)


def _label_columns(points: Sequence[Point], labels: Sequence[tuple[float, float]], bounds: Box) -> list[Box]:
    """A box for each label to the right of its point, in columns without overlap."""
    columns: list[list[int]] = []
    for index in sorted(range(len(points)), key=points.__getitem__):
        if columns and points[index][0] - points[columns[-1][-1]][0] < COLUMN_WIDTH:
            columns[-1].append(index)
        else:
            columns.append([index])
    boxes: dict[int, Box] = {}
    for column in columns:
        left = max(points[index][0] for index in column) + LABEL_GAP
        column.sort(key=lambda index: points[index][1])
        heights = [labels[index][1] for index in column]
        tops = _stack_labels([points[index][1] - labels[index][1] / 2 for index in column], heights)
        low, high = bounds.y - tops[0], bounds.y + bounds.height - tops[-1] - heights[-1]
        shift = max(low, 0) + min(high, 0)  # back into the plot, if they all fit
        boxes |= {index: Box(left, top + shift, *labels[index]) for index, top in zip(column, tops, strict=True)}
    return [boxes[index] for index in range(len(points))]


def _stack_labels(preferred: list[float], heights: list[float]) -> list[float]:
    """Top edges in the same order, as near to the preferred ones as possible, without overlap.

    Without the heights above it, each top edge is an isotonic regression of the preferred ones: its min-max formula.
    """
    offsets = list(accumulate(heights, initial=0.0))
    offset_free = [top - offset for top, offset in zip(preferred, offsets, strict=False)]
    tops: list[float] = []
    for index, offset in enumerate(offsets[:-1]):
        fitted = max(
            min(fmean(offset_free[first : end + 1]) for end in range(index, len(offset_free)))
            for first in range(index + 1)
        )
        tops.append(max(fitted + offset, tops[-1] + heights[index - 1] if tops else -math.inf))  # rounding: no overlap
    return tops


def _spiral(x: float, y: float, target: Box) -> Iterator[Box]:
    """Boxes around (x, y), nearest first."""
    for ring, angle in product(range(MAX_RINGS), ANGLES):
        distance = LABEL_GAP + ring * RING_DISTANCE
        dx, dy = math.cos(math.radians(angle)), -math.sin(math.radians(angle))
        left = x + dx * distance - (target.width if dx < -0.1 else target.width / 2 if dx < 0.1 else 0)
        yield Box(left, y + dy * distance - target.height / 2, target.width, target.height)


PLOT_BOX = Box(LEFT, TOP, WIDTH - LEFT, HEIGHT - TOP - BOTTOM)
HorizontalLine = tuple[str, float, str]  # name, quality and CSS class of the name


@dataclass(frozen=True)
class Scale:
    """Maps cost (logarithmic x) and quality (linear y) to pixels."""

    min_cost: float
    max_cost: float
    min_quality: float
    max_quality: float

    @classmethod
    def covering(cls, costs: Sequence[float], min_quality: float, max_quality: float) -> Scale:
        """With some space before and after these costs, of which there is at least one."""
        lowest_cost, highest_cost = min(costs), max(costs)
        return cls(lowest_cost / 1.6, max(highest_cost, 2 * lowest_cost) * 1.12, min_quality, max_quality)

    def x(self, cost: float) -> float:
        fraction = math.log(max(cost, self.min_cost) / self.min_cost) / math.log(self.max_cost / self.min_cost)
        return LEFT + fraction * (WIDTH - LEFT - RIGHT)

    def y(self, quality: float) -> float:
        fraction = (quality - self.min_quality) / (self.max_quality - self.min_quality)
        return HEIGHT - BOTTOM - fraction * (HEIGHT - TOP - BOTTOM)


@dataclass(frozen=True)
class PlottedRow:
    """A row with results as (cost, quality). Its color is the CSS class `m` with its number, defined in the page."""

    index: int
    title: str
    description: str
    mean: Point
    seeds: list[Point]
    interval: tuple[float, float] | None = None  # confidence interval of the quality

    def svg(self, scale: Scale) -> str:
        """The mean as a disc with a tooltip, a small ring for each of several seeds, and the interval as a line."""
        svg = f'<g class="points m{self.index}" data-row="{self.index}"><title>{escape(self.description)}</title>'
        x, y = scale.x(self.mean[0]), scale.y(self.mean[1])
        if self.interval is not None:
            low, high = map(scale.y, self.interval)
            svg += f'<line class="leader m{self.index}" {svg_line(x, low, x, high)}/>'
        for cost, quality in self.seeds if len(self.seeds) > 1 else ():
            svg += f'<circle class="seed" cx="{scale.x(cost):.1f}" cy="{scale.y(quality):.1f}" r="3"/>'
        return f'{svg}<circle class="mean" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>'


def svg_line(x1: float, y1: float, x2: float, y2: float) -> str:
    """The attributes of an SVG line."""
    return f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'


def svg_plot(
    name: str,
    title: str,
    descriptions: Sequence[str],
    scale: Scale,
    background: str,
    baselines: Iterable[tuple[str, float]],
    layers: Iterable[str],
    rows: Sequence[PlottedRow],
    bound_lines: Sequence[HorizontalLine] = (),
) -> str:
    """From back to front: background, visible baselines, layers, points, and the names of points, baselines, limits."""
    labeled_lines = [
        (label, value, "yardstick-name") for label, value in baselines if scale.min_quality < value < scale.max_quality
    ]
    heights = [scale.y(value) for _, value, _ in labeled_lines]
    parts = [
        background,
        *(f'<line class="yardstick" {svg_line(LEFT, y, RIGHT_EDGE, y)}/>' for y in heights),
        *layers,
        *(row.svg(scale) for row in rows),
        _labels(rows, [*labeled_lines, *bound_lines], scale),
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-title {name}-about">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-about">{escape("; ".join(descriptions) or "no results yet")}</desc>{"".join(parts)}</svg>'
    )


def axes_svg(
    scale: Scale, quality_label: str, cost_label: str, ticks: Iterable[tuple[float, str]], min_distance: float
) -> str:
    """Grid lines with their values, and those of the labeled ticks that are `min_distance` pixels apart."""
    svg = '<g class="axes">'
    min_step = (scale.max_quality - scale.min_quality) / 6  # so that about six grid lines fit
    magnitude = 10 ** math.floor(math.log10(min_step))
    step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= min_step)
    for multiple in range(math.ceil(scale.min_quality / step), math.floor(scale.max_quality / step) + 1):
        y = scale.y(multiple * step)
        svg += f'<line class="grid" {svg_line(LEFT, y, RIGHT_EDGE, y)}/>'
        svg += f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{multiple * step:.3g}</text>'
    previous_x = -math.inf
    for cost, label in ticks:
        x = scale.x(cost)
        if scale.min_cost <= cost <= scale.max_cost and x - previous_x > min_distance:
            previous_x = x
            svg += f'<line class="tick" {svg_line(x, BOTTOM_EDGE, x, BOTTOM_EDGE + 5)}/>'
            svg += f'<text x="{x:.1f}" y="{BOTTOM_EDGE + 20}" text-anchor="middle">{label}</text>'
    return (
        f'{svg}<line class="base" {svg_line(LEFT, BOTTOM_EDGE, RIGHT_EDGE, BOTTOM_EDGE)}/>'
        f'<text class="unit" x="{LEFT}" y="{TOP - 7}">{escape(quality_label)}</text>'
        f'<text class="unit" x="{RIGHT_EDGE}" y="{BOTTOM_EDGE + 38}" text-anchor="end">{cost_label}</text></g>'
    )


def _labels(rows: Sequence[PlottedRow], lines: Sequence[HorizontalLine], scale: Scale) -> str:
    """Names next to points, each in the color of its row, then names above horizontal lines, without overlap."""
    points = [(scale.x(cost), scale.y(quality)) for cost, quality in (row.mean for row in rows)]
    boxes = place_labels(points, _label_sizes([row.title for row in rows]), PLOT_BOX)
    parts = []
    for row, (x, y), box in zip(rows, points, boxes, strict=True):
        anchor = box.nearest(x, y)
        if math.dist(anchor, (x, y)) > 12:
            leader = svg_line(x, y, anchor[0] - 2, box.y + box.height / 2)
            parts.append(f'<line class="leader m{row.index}" {leader}/>')
        parts.append(_svg_text(f"label m{row.index}", box, row.title, is_left_of_point=box.x + box.width <= x))
    starts = [(float(LEFT), scale.y(quality) - LABEL_FONT_SIZE * 0.7) for _, quality, _ in lines]
    sizes = _label_sizes([name for name, _, _ in lines])
    line_boxes = place_labels(starts, sizes, PLOT_BOX, [*boxes, *map(point_box, points)])
    parts += [_svg_text(css_class, box, name) for (name, _, css_class), box in zip(lines, line_boxes, strict=True)]
    return "".join(parts)


def _label_sizes(names: Sequence[str]) -> list[tuple[float, float]]:
    return [(text_width(name, LABEL_FONT_SIZE), LABEL_FONT_SIZE * 1.25) for name in names]


def _svg_text(css_class: str, box: Box, text: str, *, is_left_of_point: bool = False) -> str:
    """Text in its box; text to the left of its point is right-aligned, whatever the font."""
    position = f'x="{box.x + box.width:.1f}" text-anchor="end"' if is_left_of_point else f'x="{box.x:.1f}"'
    return f'<text class="{css_class}" {position} y="{box.y + LABEL_FONT_SIZE:.1f}">{escape(text)}</text>'
