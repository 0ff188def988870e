"""What a score costs, as SVG: bytes on disk, or milliseconds, against the score, and the front that nothing beats."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from forebear.experiments.comparison.plot import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    grid_lines,
    line_labels,
    point_labels,
)
from forebear.experiments.comparison.results import TaskBaseline, TaskComparison, TaskComparisonRow, pareto_front
from forebear.experiments.comparison.verdict import format_points, metric_name
from forebear.settings.units import format_bytes

APART = 64  # at least, between two marks of the scale below


@dataclass(frozen=True)
class CostAxis:
    """One of the costs: the name of the trial's figure, how it is said, and what stands under its axis."""

    name: str
    say: Callable[[float], str]
    under: str


def _milliseconds(value: float) -> str:
    return f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s"


COST_AXES = (
    CostAxis("disk", format_bytes, "weights and tokenizer on disk"),
    CostAxis("milliseconds", _milliseconds, "one example takes"),
)


def plot_task_comparison(comparison: TaskComparison, price: CostAxis) -> str:
    """The picture. Colours are classes `m0`, `m1`, … in the order of the rows; their values stand in the page."""
    scale = scale_of(comparison, price)
    shown = [
        (number, row) for number, row in enumerate(comparison.rows) if row.score is not None and row.values(price.name)
    ]
    parts = [_axes(comparison, scale, price), _baselines(comparison, scale), _front(comparison, scale, price)]
    parts += [_point(number, row, scale, price) for number, row in shown]
    places = [(scale.x(row.mean(price.name) or 0), scale.y(100 * (row.score or 0))) for _, row in shown]
    names, taken = point_labels(places, [row.title for _, row in shown], [number for number, _ in shown])
    lines = [(base.name, scale.y(100 * base.score), "yardstick-name") for base in _seen(comparison, scale)]
    about = "; ".join(_about(row, price) for _, row in shown) or "no results yet"
    told = f"{metric_name(comparison)} on the test against {price.name}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{price.name}-title {price.name}-about">'
        f'<title id="{price.name}-title">{escape(told)}</title>'
        f'<desc id="{price.name}-about">{escape(about)}</desc>{"".join(parts)}{names}{line_labels(lines, taken)}</svg>'
    )


def scale_of(comparison: TaskComparison, price: CostAxis) -> Scale:
    """All results with their intervals are in the picture; baselines far below them stay outside."""
    trials = [trial for row in comparison.rows for trial in row.trials if trial.score is not None]
    costs = [cost for trial in trials if (cost := getattr(trial, price.name))]
    scores = [100 * bound for trial in trials for bound in (trial.score, trial.low, trial.high) if bound is not None]
    low, high = (min(scores), max(scores)) if scores else (0.0, 100.0)
    room = max(0.08 * (high - low), 0.5)
    for base in sorted(comparison.baselines, key=lambda one: -one.score):
        if 100 * base.score > low - (high - low):
            low = min(low, 100 * base.score)
    cheap, dear = (min(costs), max(costs)) if costs else (1.0, 100.0)
    return Scale(cheap / 1.6, max(dear, 2 * cheap) * 1.12, low - room, high + room)


def _seen(comparison: TaskComparison, scale: Scale) -> list[TaskBaseline]:
    return [base for base in comparison.baselines if scale.lowest < 100 * base.score < scale.highest]


def _about(row: TaskComparisonRow, price: CostAxis) -> str:
    return f"{row.title}: {format_points(row.score or 0)} at {price.say(float(f'{row.mean(price.name):.3g}'))}"


def _axes(comparison: TaskComparison, scale: Scale, price: CostAxis) -> str:
    made = ['<g class="axes">', *grid_lines(scale)]
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    before = -math.inf
    powers = range(math.floor(math.log10(scale.quickest)), math.ceil(math.log10(scale.slowest)) + 1)
    for mark in (digit * 10.0**power for power in powers for digit in (1, 2, 5)):
        if scale.quickest <= mark <= scale.slowest and (x := scale.x(mark)) - before > APART:
            before = x
            made.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 5}"/>')
            told = price.say(float(f"{mark:.3g}"))
            made.append(f'<text x="{x:.1f}" y="{floor + 20}" text-anchor="middle">{told}</text>')
    made.append(f'<line class="base" x1="{LEFT}" x2="{right}" y1="{floor}" y2="{floor}"/>')
    made.append(
        f'<text class="unit" x="{LEFT}" y="{TOP - 7}">{escape(metric_name(comparison))}, higher is better</text>'
    )
    made.append(f'<text class="unit" x="{right}" y="{floor + 38}" text-anchor="end">{price.under}</text></g>')
    return "".join(made)


def _baselines(comparison: TaskComparison, scale: Scale) -> str:
    heights = (scale.y(100 * base.score) for base in _seen(comparison, scale))
    return "".join(
        f'<line class="yardstick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in heights
    )


def _front(comparison: TaskComparison, scale: Scale, price: CostAxis) -> str:
    """A stair along those that nothing beats: level until the next one, which costs more, is better."""
    path = ""
    for row in pareto_front(comparison.rows, price.name):
        x, y = scale.x(row.mean(price.name) or 0), scale.y(100 * (row.score or 0))
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
    return f'<path class="frontier" d="{path}H{WIDTH - RIGHT}"/>' if path else ""


def _point(number: int, row: TaskComparisonRow, scale: Scale, price: CostAxis) -> str:
    """The mean as a disc, with several seeds a small ring for each, and how far the test can tell as a line."""
    made = [f'<g class="points m{number}" data-row="{number}"><title>{escape(_about(row, price))}</title>']
    x, y = scale.x(row.mean(price.name) or 0), scale.y(100 * (row.score or 0))
    low, high = row.mean("low"), row.mean("high")
    if low is not None and high is not None:
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(100 * low):.1f}" y2="{scale.y(100 * high):.1f}"'
        made.append(f'<line class="leader m{number}" {ends}/>')
    seeds = [(getattr(trial, price.name), trial.score) for trial in row.trials if trial.score is not None]
    for cost, score in seeds if len(seeds) > 1 else ():
        if cost:
            made.append(f'<circle class="seed" cx="{scale.x(cost):.1f}" cy="{scale.y(100 * score):.1f}" r="3"/>')
    made.append(f'<circle class="mean" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>')
    return "".join(made)
