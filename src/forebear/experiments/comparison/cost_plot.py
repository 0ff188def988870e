"""Cost–quality plots: training time or model cost against quality."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from forebear.experiments.comparison.results import (
    ComparisonRow,
    TaskComparison,
    TextComparison,
    TextComparisonRow,
    pareto_front,
)
from forebear.experiments.comparison.svg_plot import (
    BOTTOM_EDGE,
    LEFT,
    PLOT_BOX,
    RIGHT_EDGE,
    TOP,
    PlottedRow,
    Point,
    Scale,
    axes_svg,
    svg_line,
    svg_plot,
)
from forebear.experiments.comparison.verdict import format_points, metric_name, pareto_front_over_time
from forebear.settings.units import format_bytes, format_duration


def _seed_results(row: ComparisonRow, cost_field: str, quality_field: str, factor: float = 1) -> list[Point]:
    """(cost, quality) of each trial that has both."""
    trials = ((getattr(trial, cost_field), getattr(trial, quality_field)) for trial in row.trials)
    return [(cost, factor * value) for cost, value in trials if cost and value is not None]


# --- Bits per byte against seconds of training ---

TICK_SECONDS = (
    *(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    *(60, 180, 600, 1800, 3600, 3 * 3600, 10 * 3600, 30 * 3600, 100 * 3600),
)  # tick marks: round durations
TEXT_PLOT_DEFS = (
    f'<defs><clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{PLOT_BOX.width}" height="{PLOT_BOX.height}"/>'
    '</clipPath><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line class="hatch" y2="6"/></pattern></defs>'
)


def text_plot_scale(comparison: TextComparison) -> Scale:
    """The scale that covers all results and the entropy bound; not the start of curves, nor distant baselines."""
    results = [result for row in comparison.rows for result in _seed_results(row, "seconds", "bits_per_byte")]
    bits = [bits for _, bits in results] + ([comparison.limit] if comparison.limit is not None else [])
    low, high = (min(bits), max(bits)) if bits else (0.0, 8.0)
    high += max(0.35 * (high - low), 0.25 * low - (high - low), 0.05)
    low -= 0.1 * (high - low)
    curves = [point for row in comparison.rows for trial in row.trials for point in trial.curve]
    times = [seconds for seconds, _ in results] + [seconds for seconds, bits in curves if seconds > 0 and bits < high]
    return Scale.covering(times or (1.0, 60.0), max(low, 0), high)


def plot_text_comparison(comparison: TextComparison) -> str:
    """Bits per byte against training time."""
    scale, entropy_bound = text_plot_scale(comparison), comparison.limit
    descriptions, rows = [], []
    for index, row in enumerate(comparison.rows):
        seconds, bits = row.mean("seconds"), row.mean("bits_per_byte")
        if bits is not None:
            descriptions.append(f"{row.title}: {bits:.3f} bits per byte after {format_duration(seconds or 0)}")
            if seconds:
                results = _seed_results(row, "seconds", "bits_per_byte")
                rows.append(PlottedRow(index, row.title, descriptions[-1], (seconds, bits), results))
    ticks = ((seconds, format_duration(seconds)) for seconds in TICK_SECONDS)
    background = TEXT_PLOT_DEFS + axes_svg(scale, "bits per byte, lower is better", "learning took", ticks, 48)
    bound_lines = []
    if entropy_bound is not None:
        y = scale.y(entropy_bound)
        height = f"{max(BOTTOM_EDGE - y, 0):.1f}"
        background += (
            f'<g class="limit"><rect x="{LEFT}" y="{y:.1f}" width="{RIGHT_EDGE - LEFT}" height="{height}"'
            f' fill="url(#hatch)"/><line {svg_line(LEFT, y, RIGHT_EDGE, y)}/></g>'
        )
        bound_lines.append((f"true entropy {entropy_bound:.3f}: no model can go below", entropy_bound, "limit-name"))
    baselines = [(baseline.name, baseline.bits_per_byte) for baseline in comparison.yardsticks]
    curves = (_learning_curves(index, row, scale) for index, row in enumerate(comparison.rows))
    layers = [_text_frontier(comparison, scale), *curves]
    title = "Bits per byte of held-out text against seconds of learning"
    return svg_plot("plot", title, descriptions, scale, background, baselines, layers, rows, bound_lines)


def _text_frontier(comparison: TextComparison, scale: Scale) -> str:
    """The best result over time: the curve of the leading model, and level until another takes the lead."""
    path, previous_name = "", ""
    for seconds, bits, row in pareto_front_over_time(comparison.rows):
        x = f"{scale.x(seconds):.1f}"
        command = f"H{x}L" if previous_name and previous_name != row.name else "L" if previous_name else "M"
        path, previous_name = f"{path}{command}{x} {scale.y(bits):.1f}", row.name
    return f'<path class="frontier" clip-path="url(#area)" d="{path}H{RIGHT_EDGE}"/>' if path else ""


def _learning_curves(index: int, row: TextComparisonRow, scale: Scale) -> str:
    lines = []
    for trial in row.trials:
        points = [(seconds, bits) for seconds, bits in trial.curve if seconds > 0]
        if trial.seconds and trial.bits_per_byte is not None:
            points.append((trial.seconds, trial.bits_per_byte))
        if len(points) > 1:
            line = " ".join(f"{scale.x(seconds):.1f},{scale.y(bits):.1f}" for seconds, bits in sorted(points))
            lines.append(f'<polyline class="curve m{index}" clip-path="url(#area)" points="{line}"/>')
    return "".join(lines)


# --- Task score against disk size or latency ---


@dataclass(frozen=True)
class CostAxis:
    """A cost: the field of the trial, the format of its values, and the axis label."""

    name: str
    format_value: Callable[[float], str]
    axis_label: str


COST_AXES = (
    CostAxis("disk", format_bytes, "weights and tokenizer on disk"),
    CostAxis(
        "milliseconds", lambda value: f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s", "one example takes"
    ),
)


def plot_task_comparison(comparison: TaskComparison, cost_axis: CostAxis) -> str:
    """Task score in points of a hundred against one cost."""
    scale = task_plot_scale(comparison, cost_axis)
    rows = []
    for index, row in enumerate(comparison.rows):
        cost, low, high = row.mean(cost_axis.name), row.mean("low"), row.mean("high")
        if row.score is not None and cost is not None:
            description = f"{row.title}: {format_points(row.score)} at {cost_axis.format_value(float(f'{cost:.3g}'))}"
            interval = (100 * low, 100 * high) if low is not None and high is not None else None
            seeds = _seed_results(row, cost_axis.name, "score", 100)
            rows.append(PlottedRow(index, row.title, description, (cost, 100 * row.score), seeds, interval))
    powers = range(math.floor(math.log10(scale.min_cost)), math.ceil(math.log10(scale.max_cost)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    labeled_ticks = ((tick, cost_axis.format_value(float(f"{tick:.3g}"))) for tick in ticks)
    quality = metric_name(comparison)
    background = axes_svg(scale, f"{quality}, higher is better", cost_axis.axis_label, labeled_ticks, 64)
    front_rows = pareto_front(comparison.rows, cost_axis.name)
    front = [(scale.x(row.mean(cost_axis.name) or 0), scale.y(100 * (row.score or 0))) for row in front_rows]
    staircase = "".join(f"H{x:.1f}V{y:.1f}" if index else f"M{x:.1f} {y:.1f}" for index, (x, y) in enumerate(front))
    layers = [f'<path class="frontier" d="{staircase}H{RIGHT_EDGE}"/>'] if front else []
    baselines = [(baseline.name, 100 * baseline.score) for baseline in comparison.baselines]
    title, descriptions = f"{quality} on the test against {cost_axis.name}", [row.description for row in rows]
    return svg_plot(cost_axis.name, title, descriptions, scale, background, baselines, layers, rows)


def task_plot_scale(comparison: TaskComparison, cost_axis: CostAxis) -> Scale:
    """The scale that covers all results with their intervals; baselines far below are omitted."""
    trials = [trial for row in comparison.rows for trial in row.trials if trial.score is not None]
    costs = [cost for trial in trials if (cost := getattr(trial, cost_axis.name))]
    scores = [100 * bound for trial in trials for bound in (trial.score, trial.low, trial.high) if bound is not None]
    low, high = (min(scores), max(scores)) if scores else (0.0, 100.0)
    margin = max(0.08 * (high - low), 0.5)
    for baseline in sorted(comparison.baselines, key=lambda baseline: -baseline.score):
        if 100 * baseline.score > low - (high - low):
            low = min(low, 100 * baseline.score)
    return Scale.covering(costs or (1.0, 100.0), low - margin, high + margin)
