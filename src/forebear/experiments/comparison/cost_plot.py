"""Cost–quality plots as SVG, without a plotting library: training time or model cost against quality."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from forebear.experiments.comparison.results import (
    CompressionBaseline,
    TaskBaseline,
    TaskComparison,
    TaskComparisonRow,
    TextComparison,
    TextComparisonRow,
    pareto_front,
)
from forebear.experiments.comparison.verdict import format_points, metric_name, time_frontier
from forebear.settings.units import format_bytes, format_duration

# --- Label placement: no label covers another label, a point, or the edge ---

ANGLES = (0, 180, 45, -45, 135, -135, 90, -90)  # degrees: to the right of its point first, then left, above, below
RING_DISTANCE, MAX_RINGS = 7, 80  # pixels between tries, and number of tries
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
    points: Sequence[Point], labels: Sequence[tuple[float, float]], inside: Box, occupied: Sequence[Box] = ()
) -> list[Box]:
    """Place a label of the given (width, height) near each point, inside a box and off the `taken` boxes.

    Points at about the same x share a column of labels to their right, in vertical order, so that leader lines do not
    cross. If its position in the column is occupied, a label is placed at the nearest free position around its point.
    """
    blocked = [*occupied, *map(point_box, points)]
    preferred = _label_columns(points, labels, inside)
    placed = []
    for (x, y), target in zip(points, preferred, strict=True):
        candidates = (box for box in (target, *_spiral(x, y, target)) if inside.contains(box))
        free = (box for box in candidates if not any(box.overlaps(other) for other in blocked))
        placed.append(next(free, target))  # no free position: overlap
        blocked.append(placed[-1])
    return placed


def point_box(point: Point) -> Box:
    """The box that a point covers."""
    return Box(point[0] - POINT_RADIUS, point[1] - POINT_RADIUS, 2 * POINT_RADIUS, 2 * POINT_RADIUS)


def _label_columns(points: Sequence[Point], labels: Sequence[tuple[float, float]], inside: Box) -> list[Box]:
    """A box for each label to the right of its point, in columns without overlap."""
    boxes: dict[int, Box] = {}
    columns: list[list[int]] = []
    for index in sorted(range(len(points)), key=lambda point_index: points[point_index]):
        if columns and points[index][0] - points[columns[-1][-1]][0] < COLUMN_WIDTH:
            columns[-1].append(index)
        else:
            columns.append([index])
    for column in columns:
        left = max(points[index][0] for index in column) + LABEL_GAP
        column.sort(key=lambda point_index: points[point_index][1])
        heights = [labels[index][1] for index in column]
        tops = _stack_labels([points[index][1] - labels[index][1] / 2 for index in column], heights)
        low, high = inside.y - tops[0], inside.y + inside.height - tops[-1] - heights[-1]
        shift = max(low, 0) + min(high, 0)  # back into the plot, if they all fit
        for index, top in zip(column, tops, strict=True):
            boxes[index] = Box(left, top + shift, *labels[index])
    return [boxes[index] for index in range(len(points))]


def _stack_labels(preferred: list[float], heights: list[float]) -> list[float]:
    """Top edges in the same order, as near to the preferred ones as possible, without overlap.

    Neighbors that would overlap are merged into a block, placed at the mean of its members' preferred positions.
    """
    blocks: list[tuple[float, float, int]] = []  # (sum of preferred top edges, height, number of members)
    for wish, height in zip(preferred, heights, strict=True):
        blocks.append((wish, height, 1))
        while len(blocks) > 1:
            (top_sum, height_above, count), (top_sum_below, height_below, num_below) = blocks[-2:]
            if top_sum / count + height_above <= top_sum_below / num_below:
                break
            blocks[-2:] = [
                (top_sum + top_sum_below - height_above * num_below, height_above + height_below, count + num_below)
            ]
    tops: list[float] = []
    remaining = iter(heights)
    for top_sum, _, count in blocks:
        top = top_sum / count
        for _ in range(count):
            tops.append(top)
            top += next(remaining)
    return tops


def _spiral(x: float, y: float, target: Box) -> Iterator[Box]:
    """Boxes around (x, y), nearest first."""
    for ring in range(MAX_RINGS):
        distance = LABEL_GAP + ring * RING_DISTANCE
        for angle in ANGLES:
            dx, dy = math.cos(math.radians(angle)), -math.sin(math.radians(angle))
            left = x + dx * distance - (target.width if dx < -0.1 else target.width / 2 if dx < 0.1 else 0)
            yield Box(left, y + dy * distance - target.height / 2, target.width, target.height)


# --- Bits per byte against seconds of training ---

WIDTH, HEIGHT = 960, 520
LEFT, RIGHT, TOP, BOTTOM = 52, 128, 20, 46  # margins; labels may extend into the right one
PLOT_BOX = Box(LEFT, TOP, WIDTH - LEFT, HEIGHT - TOP - BOTTOM)
LABEL_SIZE = 14  # font size of labels
TICK_SECONDS = (
    *(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    *(60, 180, 600, 1800, 3600, 3 * 3600, 10 * 3600, 30 * 3600, 100 * 3600),
)  # tick marks: round durations


@dataclass(frozen=True)
class Scale:
    """Maps cost (logarithmic x) and quality (linear y) to pixels."""

    quickest: float
    slowest: float
    lowest: float
    highest: float

    def x(self, seconds: float) -> float:
        share = math.log(max(seconds, self.quickest) / self.quickest) / math.log(self.slowest / self.quickest)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, bits: float) -> float:
        share = (bits - self.lowest) / (self.highest - self.lowest)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def text_plot_scale(comparison: TextComparison) -> Scale:
    """Covers all results and the entropy bound; curves may enter from above, and distant baselines are left out."""
    trials = [trial for row in comparison.rows for trial in row.trials]
    results = [
        (trial.seconds, trial.bits_per_byte) for trial in trials if trial.seconds and trial.bits_per_byte is not None
    ]
    bits = [bits for _, bits in results] + ([comparison.limit] if comparison.limit is not None else [])
    low, high = (min(bits), max(bits)) if bits else (0.0, 8.0)
    high += max(0.35 * (high - low), 0.25 * low - (high - low), 0.05)
    low -= 0.1 * (high - low)
    curves = [point for trial in trials for point in trial.curve]
    times = [seconds for seconds, _ in results] + [seconds for seconds, bits in curves if seconds > 0 and bits < high]
    shortest, longest = (min(times), max(times)) if times else (1.0, 60.0)
    return Scale(shortest / 1.6, max(longest, 2 * shortest) * 1.12, max(low, 0), high)


def _visible_text_baselines(comparison: TextComparison, scale: Scale) -> list[CompressionBaseline]:
    return [baseline for baseline in comparison.yardsticks if scale.lowest < baseline.bits_per_byte < scale.highest]


def plot_text_comparison(comparison: TextComparison) -> str:
    """Bits per byte against training time. Colors are CSS classes `m0`, `m1`, … by row, defined in the page."""
    scale = text_plot_scale(comparison)
    parts = [
        _text_axes(scale),
        _entropy_bound(comparison, scale),
        _text_baselines(comparison, scale),
        _text_frontier(comparison, scale),
    ]
    parts += [_learning_curves(number, row, scale) for number, row in enumerate(comparison.rows)]
    parts += [_text_points(number, row, scale) for number, row in enumerate(comparison.rows)]
    parts.append(_text_labels(comparison, scale))
    description = (
        "; ".join(_describe_text_point(row) for row in comparison.rows if row.trial_values("bits_per_byte"))
        or "no results yet"
    )
    area = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT}" height="{HEIGHT - TOP - BOTTOM}"'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="plot-title plot-about">'
        f'<title id="plot-title">Bits per byte of held-out text against seconds of learning</title>'
        f'<desc id="plot-about">{escape(description)}</desc>'
        f'<defs><clipPath id="area"><rect {area}/></clipPath>'
        '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line class="hatch" y2="6"/></pattern></defs>' + "".join(parts) + "</svg>"
    )


def _describe_text_point(row: TextComparisonRow) -> str:
    return (
        f"{row.title}: {row.mean('bits_per_byte'):.3f} bits per byte after {format_duration(row.mean('seconds') or 0)}"
    )


def grid_lines(scale: Scale) -> list[str]:
    """Horizontal grid lines with their values."""
    parts: list[str] = []
    step = grid_step(scale.highest - scale.lowest)
    for count in range(math.ceil(scale.lowest / step), math.floor(scale.highest / step) + 1):
        y = scale.y(count * step)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{count * step:.3g}</text>')
    return parts


def _text_axes(scale: Scale) -> str:
    parts = ['<g class="axes">', *grid_lines(scale)]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    previous_x = -math.inf
    for seconds in TICK_SECONDS:
        if scale.quickest <= seconds <= scale.slowest and (x := scale.x(seconds)) - previous_x > 48:
            previous_x = x
            parts.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{format_duration(seconds)}</text>')
    parts.append(f'<line class="base" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text class="unit" x="{LEFT}" y="{TOP - 7}">bits per byte, lower is better</text>')
    parts.append(f'<text class="unit" x="{right}" y="{bottom + 38}" text-anchor="end">learning took</text></g>')
    return "".join(parts)


def grid_step(span: float) -> float:
    """A round distance between grid lines, so that about six fit."""
    target = span / 6
    magnitude = 10 ** math.floor(math.log10(target))
    return next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= target)


def _entropy_bound(comparison: TextComparison, scale: Scale) -> str:
    if comparison.limit is None:
        return ""
    y, right, bottom = scale.y(comparison.limit), WIDTH - RIGHT, HEIGHT - BOTTOM
    return (
        f'<g class="limit"><rect x="{LEFT}" y="{y:.1f}" width="{right - LEFT}" height="{max(bottom - y, 0):.1f}"'
        f' fill="url(#hatch)"/><line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/></g>'
    )


def _text_baselines(comparison: TextComparison, scale: Scale) -> str:
    lines = (
        f'<line class="yardstick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        for baseline in _visible_text_baselines(comparison, scale)
        for y in [scale.y(baseline.bits_per_byte)]
    )
    return "".join(lines)


def _text_frontier(comparison: TextComparison, scale: Scale) -> str:
    """Best so far: along the leader's curve, and level until another model takes the lead."""
    frontier = time_frontier(comparison.rows)
    path, previous = "", ""
    for seconds, bits, row in frontier:
        x = f"{scale.x(seconds):.1f}"
        start = f"H{x}L" if previous and previous != row.name else "L" if previous else "M"
        path, previous = f"{path}{start}{x} {scale.y(bits):.1f}", row.name
    if not frontier:
        return ""
    path += f"H{WIDTH - RIGHT}"
    return f'<path class="frontier" clip-path="url(#area)" d="{path}"/>'


def _learning_curves(number: int, row: TextComparisonRow, scale: Scale) -> str:
    lines = []
    for trial in row.trials:
        points = [(seconds, bits) for seconds, bits in trial.curve if seconds > 0]
        if trial.seconds and trial.bits_per_byte is not None:
            points.append((trial.seconds, trial.bits_per_byte))
        if len(points) > 1:
            line = " ".join(f"{scale.x(seconds):.1f},{scale.y(bits):.1f}" for seconds, bits in sorted(points))
            lines.append(f'<polyline class="curve m{number}" clip-path="url(#area)" points="{line}"/>')
    return "".join(lines)


def _text_points(number: int, row: TextComparisonRow, scale: Scale) -> str:
    """The mean as a disc with a tooltip; with several seeds, a small ring for each."""
    if (center := _text_center(row)) is None:
        return ""
    parts = [f'<g class="points m{number}" data-row="{number}"><title>{escape(_describe_text_point(row))}</title>']
    x, y = scale.x(center[0]), scale.y(center[1])
    results = [
        (trial.seconds, trial.bits_per_byte)
        for trial in row.trials
        if trial.seconds and trial.bits_per_byte is not None
    ]
    if len(results) > 1:
        rings = ((scale.x(seconds), scale.y(bits)) for seconds, bits in results)
        parts += [f'<circle class="seed" cx="{cx:.1f}" cy="{cy:.1f}" r="3"/>' for cx, cy in rings]
    parts.append(f'<circle class="mean" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>')
    return "".join(parts)


def _text_center(row: TextComparisonRow) -> tuple[float, float] | None:
    seconds, bits = row.mean("seconds"), row.mean("bits_per_byte")
    return (seconds, bits) if seconds and bits is not None else None


def _text_labels(comparison: TextComparison, scale: Scale) -> str:
    """Names next to points, then names above the horizontal lines, without overlap."""
    labeled = [(number, row, center) for number, row in enumerate(comparison.rows) if (center := _text_center(row))]
    points = [(scale.x(seconds), scale.y(bits)) for _, _, (seconds, bits) in labeled]
    svg, occupied = point_labels(points, [row.title for _, row, _ in labeled], [number for number, _, _ in labeled])
    lines = [
        (baseline.name, baseline.bits_per_byte, "yardstick-name")
        for baseline in _visible_text_baselines(comparison, scale)
    ]
    if comparison.limit is not None:
        lines.append((f"true entropy {comparison.limit:.3f}: no model can go below", comparison.limit, "limit-name"))
    return svg + line_labels([(name, scale.y(bits), css_class) for name, bits, css_class in lines], occupied)


def point_labels(points: Sequence[Point], names: Sequence[str], numbers: Sequence[int]) -> tuple[str, list[Box]]:
    """Names next to their points, each in the color of its row; also returns the occupied boxes."""
    boxes = place_labels(points, _label_sizes(names), PLOT_BOX)
    parts = []
    for number, (x, y), box, name in zip(numbers, points, boxes, names, strict=True):
        anchor = box.nearest(x, y)
        if math.dist(anchor, (x, y)) > 12:
            ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{anchor[0] - 2:.1f}" y2="{box.y + box.height / 2:.1f}"'
            parts.append(f'<line class="leader m{number}" {ends}/>')
        parts.append(_svg_text(f"label m{number}", box, name, left_of=box.x + box.width <= x))
    return "".join(parts), [*boxes, *map(point_box, points)]


def line_labels(lines: Sequence[tuple[str, float, str]], occupied: Sequence[Box]) -> str:
    """Names of horizontal lines, given as (name, y, CSS class), each above its line at a free position."""
    starts = [(float(LEFT), y - LABEL_SIZE * 0.7) for _, y, _ in lines]
    placed = place_labels(starts, _label_sizes([name for name, _, _ in lines]), PLOT_BOX, occupied)
    return "".join(_svg_text(css_class, box, name) for (name, _, css_class), box in zip(lines, placed, strict=True))


def _label_sizes(names: Sequence[str]) -> list[tuple[float, float]]:
    return [(text_width(name, LABEL_SIZE), LABEL_SIZE * 1.25) for name in names]


def _svg_text(css_class: str, box: Box, text: str, *, left_of: bool = False) -> str:
    """Text in its box; text to the left of its point is right-aligned, whatever the font."""
    position = f'x="{box.x + box.width:.1f}" text-anchor="end"' if left_of else f'x="{box.x:.1f}"'
    return f'<text class="{css_class}" {position} y="{box.y + LABEL_SIZE:.1f}">{escape(text)}</text>'


# --- Task score against disk size or latency ---

MIN_TICK_DISTANCE = 64  # pixels between two tick marks


@dataclass(frozen=True)
class CostAxis:
    """A cost: the field of the trial, how its values are formatted, and the axis label."""

    name: str
    format_value: Callable[[float], str]
    axis_label: str


def _tick_milliseconds(value: float) -> str:
    return f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s"


COST_AXES = (
    CostAxis("disk", format_bytes, "weights and tokenizer on disk"),
    CostAxis("milliseconds", _tick_milliseconds, "one example takes"),
)


def plot_task_comparison(comparison: TaskComparison, cost_axis: CostAxis) -> str:
    """Task score against one cost. Colors are CSS classes `m0`, `m1`, … by row, defined in the page."""
    scale = task_plot_scale(comparison, cost_axis)
    labeled = [
        (number, row)
        for number, row in enumerate(comparison.rows)
        if row.score is not None and row.trial_values(cost_axis.name)
    ]
    parts = [
        _task_axes(comparison, scale, cost_axis),
        _task_baselines(comparison, scale),
        _task_frontier(comparison, scale, cost_axis),
    ]
    parts += [_task_point(number, row, scale, cost_axis) for number, row in labeled]
    points = [(scale.x(row.mean(cost_axis.name) or 0), scale.y(100 * (row.score or 0))) for _, row in labeled]
    names, occupied = point_labels(points, [row.title for _, row in labeled], [number for number, _ in labeled])
    lines = [
        (baseline.name, scale.y(100 * baseline.score), "yardstick-name")
        for baseline in _visible_task_baselines(comparison, scale)
    ]
    description = "; ".join(_describe_task_point(row, cost_axis) for _, row in labeled) or "no results yet"
    title = f"{metric_name(comparison)} on the test against {cost_axis.name}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-labelledby="{cost_axis.name}-title {cost_axis.name}-about">'
        f'<title id="{cost_axis.name}-title">{escape(title)}</title>'
        f'<desc id="{cost_axis.name}-about">{escape(description)}</desc>'
        f"{''.join(parts)}{names}{line_labels(lines, occupied)}</svg>"
    )


def task_plot_scale(comparison: TaskComparison, cost_axis: CostAxis) -> Scale:
    """Covers all results with their intervals; baselines far below are left out."""
    trials = [trial for row in comparison.rows for trial in row.trials if trial.score is not None]
    costs = [cost for trial in trials if (cost := getattr(trial, cost_axis.name))]
    scores = [100 * bound for trial in trials for bound in (trial.score, trial.low, trial.high) if bound is not None]
    low, high = (min(scores), max(scores)) if scores else (0.0, 100.0)
    margin = max(0.08 * (high - low), 0.5)
    for baseline in sorted(comparison.baselines, key=lambda baseline: -baseline.score):
        if 100 * baseline.score > low - (high - low):
            low = min(low, 100 * baseline.score)
    lowest_cost, highest_cost = (min(costs), max(costs)) if costs else (1.0, 100.0)
    return Scale(lowest_cost / 1.6, max(highest_cost, 2 * lowest_cost) * 1.12, low - margin, high + margin)


def _visible_task_baselines(comparison: TaskComparison, scale: Scale) -> list[TaskBaseline]:
    return [baseline for baseline in comparison.baselines if scale.lowest < 100 * baseline.score < scale.highest]


def _describe_task_point(row: TaskComparisonRow, cost_axis: CostAxis) -> str:
    cost = float(f"{row.mean(cost_axis.name):.3g}")
    return f"{row.title}: {format_points(row.score or 0)} at {cost_axis.format_value(cost)}"


def _task_axes(comparison: TaskComparison, scale: Scale, cost_axis: CostAxis) -> str:
    parts = ['<g class="axes">', *grid_lines(scale)]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    previous_x = -math.inf
    powers = range(math.floor(math.log10(scale.quickest)), math.ceil(math.log10(scale.slowest)) + 1)
    for tick in (digit * 10.0**power for power in powers for digit in (1, 2, 5)):
        if scale.quickest <= tick <= scale.slowest and (x := scale.x(tick)) - previous_x > MIN_TICK_DISTANCE:
            previous_x = x
            parts.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
            label = cost_axis.format_value(float(f"{tick:.3g}"))
            parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{label}</text>')
    parts.append(f'<line class="base" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(
        f'<text class="unit" x="{LEFT}" y="{TOP - 7}">{escape(metric_name(comparison))}, higher is better</text>'
    )
    parts.append(
        f'<text class="unit" x="{right}" y="{bottom + 38}" text-anchor="end">{cost_axis.axis_label}</text></g>'
    )
    return "".join(parts)


def _task_baselines(comparison: TaskComparison, scale: Scale) -> str:
    heights = (scale.y(100 * baseline.score) for baseline in _visible_task_baselines(comparison, scale))
    return "".join(
        f'<line class="yardstick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in heights
    )


def _task_frontier(comparison: TaskComparison, scale: Scale, cost_axis: CostAxis) -> str:
    """The Pareto front as a staircase."""
    path = ""
    for row in pareto_front(comparison.rows, cost_axis.name):
        x, y = scale.x(row.mean(cost_axis.name) or 0), scale.y(100 * (row.score or 0))
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
    return f'<path class="frontier" d="{path}H{WIDTH - RIGHT}"/>' if path else ""


def _task_point(number: int, row: TaskComparisonRow, scale: Scale, cost_axis: CostAxis) -> str:
    """The mean as a disc, a small ring for each of several seeds, and the confidence interval as a line."""
    parts = [
        f'<g class="points m{number}" data-row="{number}"><title>{escape(_describe_task_point(row, cost_axis))}</title>'
    ]
    x, y = scale.x(row.mean(cost_axis.name) or 0), scale.y(100 * (row.score or 0))
    low, high = row.mean("low"), row.mean("high")
    if low is not None and high is not None:
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(100 * low):.1f}" y2="{scale.y(100 * high):.1f}"'
        parts.append(f'<line class="leader m{number}" {ends}/>')
    results = [(getattr(trial, cost_axis.name), trial.score) for trial in row.trials if trial.score is not None]
    for cost, score in results if len(results) > 1 else ():
        if cost:
            parts.append(f'<circle class="seed" cx="{scale.x(cost):.1f}" cy="{scale.y(100 * score):.1f}" r="3"/>')
    parts.append(f'<circle class="mean" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>')
    return "".join(parts)
