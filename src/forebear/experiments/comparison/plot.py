"""The cost–quality plot as SVG: seconds of learning against bits per byte, drawn without any library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from forebear.experiments.comparison.placing import Box, Point, place_labels, point_box, text_width
from forebear.experiments.comparison.results import CompressionBaseline, TextComparison, TextComparisonRow
from forebear.experiments.comparison.verdict import time_frontier
from forebear.settings.units import format_duration

WIDTH, HEIGHT = 960, 520
LEFT, RIGHT, TOP, BOTTOM = 52, 128, 20, 46  # margins; labels may stand in the right one
INSIDE = Box(LEFT, TOP, WIDTH - LEFT, HEIGHT - TOP - BOTTOM)
LABEL = 14  # size of the labels' letters
MOMENTS = (
    *(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    *(60, 180, 600, 1800, 3600, 3 * 3600, 10 * 3600, 30 * 3600, 100 * 3600),
)  # seconds that people have words for


@dataclass(frozen=True)
class Scale:
    """Where seconds and bits per byte stand in the picture."""

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


def scale_of(comparison: TextComparison) -> Scale:
    """All results and the limit are in the picture; learning curves come in from above, far yardsticks stay outside."""
    trials = [trial for row in comparison.rows for trial in row.trials]
    results = [(t.seconds, t.bits_per_byte) for t in trials if t.seconds and t.bits_per_byte is not None]
    bits = [bits for _, bits in results] + ([comparison.limit] if comparison.limit is not None else [])
    low, high = (min(bits), max(bits)) if bits else (0.0, 8.0)
    high += max(0.35 * (high - low), 0.25 * low - (high - low), 0.05)
    low -= 0.1 * (high - low)
    curves = [point for trial in trials for point in trial.curve]
    times = [seconds for seconds, _ in results] + [at for at, bits in curves if at > 0 and bits < high]
    quick, slow = (min(times), max(times)) if times else (1.0, 60.0)
    return Scale(quick / 1.6, max(slow, 2 * quick) * 1.12, max(low, 0), high)


def _seen(comparison: TextComparison, scale: Scale) -> list[CompressionBaseline]:
    return [stick for stick in comparison.yardsticks if scale.lowest < stick.bits_per_byte < scale.highest]


def plot_text_comparison(comparison: TextComparison) -> str:
    """The picture. Colours are classes `m0`, `m1`, … in the order of the rows; their values stand in the page."""
    scale = scale_of(comparison)
    parts = [_axes(scale), _limit(comparison, scale), _yardsticks(comparison, scale), _frontier(comparison, scale)]
    parts += [_curves(number, row, scale) for number, row in enumerate(comparison.rows)]
    parts += [_points(number, row, scale) for number, row in enumerate(comparison.rows)]
    parts.append(_labels(comparison, scale))
    about = "; ".join(_about(row) for row in comparison.rows if row.values("bits_per_byte")) or "no results yet"
    area = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT}" height="{HEIGHT - TOP - BOTTOM}"'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="plot-title plot-about">'
        f'<title id="plot-title">Bits per byte of held-out text against seconds of learning</title>'
        f'<desc id="plot-about">{escape(about)}</desc>'
        f'<defs><clipPath id="area"><rect {area}/></clipPath>'
        '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line class="hatch" y2="6"/></pattern></defs>' + "".join(parts) + "</svg>"
    )


def _about(row: TextComparisonRow) -> str:
    return (
        f"{row.title}: {row.mean('bits_per_byte'):.3f} bits per byte after {format_duration(row.mean('seconds') or 0)}"
    )


def grid_lines(scale: Scale) -> list[str]:
    """Lines across, with their figures."""
    made: list[str] = []
    step = step_of(scale.highest - scale.lowest)
    for count in range(math.ceil(scale.lowest / step), math.floor(scale.highest / step) + 1):
        y = scale.y(count * step)
        made.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        made.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{count * step:.3g}</text>')
    return made


def _axes(scale: Scale) -> str:
    made = ['<g class="axes">', *grid_lines(scale)]
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    before = -math.inf
    for moment in MOMENTS:
        if scale.quickest <= moment <= scale.slowest and (x := scale.x(moment)) - before > 48:
            before = x
            made.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 5}"/>')
            made.append(f'<text x="{x:.1f}" y="{floor + 20}" text-anchor="middle">{format_duration(moment)}</text>')
    made.append(f'<line class="base" x1="{LEFT}" x2="{right}" y1="{floor}" y2="{floor}"/>')
    made.append(f'<text class="unit" x="{LEFT}" y="{TOP - 7}">bits per byte, lower is better</text>')
    made.append(f'<text class="unit" x="{right}" y="{floor + 38}" text-anchor="end">learning took</text></g>')
    return "".join(made)


def step_of(span: float) -> float:
    """A round distance between lines, so that about six fit."""
    rough = span / 6
    power = 10 ** math.floor(math.log10(rough))
    return next(power * round_one for round_one in (1, 2, 5, 10) if power * round_one >= rough)


def _limit(comparison: TextComparison, scale: Scale) -> str:
    if comparison.limit is None:
        return ""
    y, right, floor = scale.y(comparison.limit), WIDTH - RIGHT, HEIGHT - BOTTOM
    return (
        f'<g class="limit"><rect x="{LEFT}" y="{y:.1f}" width="{right - LEFT}" height="{max(floor - y, 0):.1f}"'
        f' fill="url(#hatch)"/><line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/></g>'
    )


def _yardsticks(comparison: TextComparison, scale: Scale) -> str:
    lines = (
        f'<line class="yardstick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        for stick in _seen(comparison, scale)
        for y in [scale.y(stick.bits_per_byte)]
    )
    return "".join(lines)


def _frontier(comparison: TextComparison, scale: Scale) -> str:
    """The lowest that anyone had reached by then: along a winner's curve, and level until the next one takes over."""
    falls = time_frontier(comparison.rows)
    path, before = "", ""
    for seconds, bits, row in falls:
        across = f"{scale.x(seconds):.1f}"
        start = f"H{across}L" if before and before != row.name else "L" if before else "M"
        path, before = f"{path}{start}{across} {scale.y(bits):.1f}", row.name
    if not falls:
        return ""
    path += f"H{WIDTH - RIGHT}"
    return f'<path class="frontier" clip-path="url(#area)" d="{path}"/>'


def _curves(number: int, row: TextComparisonRow, scale: Scale) -> str:
    made = []
    for trial in row.trials:
        points = [(seconds, bits) for seconds, bits in trial.curve if seconds > 0]
        if trial.seconds and trial.bits_per_byte is not None:
            points.append((trial.seconds, trial.bits_per_byte))
        if len(points) > 1:
            line = " ".join(f"{scale.x(seconds):.1f},{scale.y(bits):.1f}" for seconds, bits in sorted(points))
            made.append(f'<polyline class="curve m{number}" clip-path="url(#area)" points="{line}"/>')
    return "".join(made)


def _points(number: int, row: TextComparisonRow, scale: Scale) -> str:
    """The mean as a disc that tells its figures when pointed at; with several seeds a small ring for each."""
    if (centre := _centre(row)) is None:
        return ""
    made = [f'<g class="points m{number}" data-row="{number}"><title>{escape(_about(row))}</title>']
    x, y = scale.x(centre[0]), scale.y(centre[1])
    results = [(t.seconds, t.bits_per_byte) for t in row.trials if t.seconds and t.bits_per_byte is not None]
    if len(results) > 1:
        rings = ((scale.x(seconds), scale.y(bits)) for seconds, bits in results)
        made += [f'<circle class="seed" cx="{across:.1f}" cy="{down:.1f}" r="3"/>' for across, down in rings]
    made.append(f'<circle class="mean" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>')
    return "".join(made)


def _centre(row: TextComparisonRow) -> tuple[float, float] | None:
    seconds, bits = row.mean("seconds"), row.mean("bits_per_byte")
    return (seconds, bits) if seconds and bits is not None else None


def _labels(comparison: TextComparison, scale: Scale) -> str:
    """Names beside points, then names above the horizontal lines; nothing covers anything."""
    shown = [(number, row, centre) for number, row in enumerate(comparison.rows) if (centre := _centre(row))]
    points = [(scale.x(seconds), scale.y(bits)) for _, _, (seconds, bits) in shown]
    made, taken = point_labels(points, [row.title for _, row, _ in shown], [number for number, _, _ in shown])
    lines = [(stick.name, stick.bits_per_byte, "yardstick-name") for stick in _seen(comparison, scale)]
    if comparison.limit is not None:
        lines.append((f"true entropy {comparison.limit:.3f}: no model can go below", comparison.limit, "limit-name"))
    return made + line_labels([(name, scale.y(bits), kind) for name, bits, kind in lines], taken)


def point_labels(points: Sequence[Point], names: Sequence[str], numbers: Sequence[int]) -> tuple[str, list[Box]]:
    """Names beside their points, each in the colour of its number; and what is then covered."""
    boxes = place_labels(points, _extents(names), INSIDE)
    made = []
    for number, (x, y), box, name in zip(numbers, points, boxes, names, strict=True):
        near = box.nearest(x, y)
        if math.dist(near, (x, y)) > 12:
            ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{near[0] - 2:.1f}" y2="{box.y + box.height / 2:.1f}"'
            made.append(f'<line class="leader m{number}" {ends}/>')
        made.append(_text(f"label m{number}", box, name, left_of=box.x + box.width <= x))
    return "".join(made), [*boxes, *map(point_box, points)]


def line_labels(lines: Sequence[tuple[str, float, str]], taken: Sequence[Box]) -> str:
    """(name, height, class) of horizontal lines, each name above its line, where nothing else is."""
    starts = [(float(LEFT), y - LABEL * 0.7) for _, y, _ in lines]
    placed = place_labels(starts, _extents([name for name, _, _ in lines]), INSIDE, taken)
    return "".join(_text(kind, box, name) for (name, _, kind), box in zip(lines, placed, strict=True))


def _extents(names: Sequence[str]) -> list[tuple[float, float]]:
    return [(text_width(name, LABEL), LABEL * 1.25) for name in names]


def _text(kind: str, box: Box, text: str, *, left_of: bool = False) -> str:
    """A text in its box; one that stands left of its point ends at the box's end, however wide letters are."""
    where = f'x="{box.x + box.width:.1f}" text-anchor="end"' if left_of else f'x="{box.x:.1f}"'
    return f'<text class="{kind}" {where} y="{box.y + LABEL:.1f}">{escape(text)}</text>'
