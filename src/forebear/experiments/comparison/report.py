"""The table of a comparison on a task: the same cells for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forebear.experiments.comparison.results import TaskComparison, TaskComparisonRow, pareto_front
from forebear.experiments.comparison.verdict import format_points, metric_name
from forebear.settings.units import format_bytes, format_count, format_duration

FRONT = "◆"  # nothing that costs less is as good


@dataclass(frozen=True)
class TableCell:
    """What is shown, and the number behind it to sort by; None: there is none."""

    text: str
    value: float | None = None
    is_marked: bool = False  # on the front of those that nothing beats

    def __str__(self) -> str:
        return f"{self.text} {FRONT}" if self.is_marked else self.text


def table_legend(comparison: TaskComparison) -> str:
    """What the signs in the table mean."""
    if comparison.whole:
        return "to the whole: difference in points, ± what chance alone may make of nothing"
    return f"{FRONT} nothing smaller, or faster, is as good"


def table_columns(comparison: TaskComparison) -> list[str]:
    """Names of the columns behind the year and the title; all hold numbers."""
    if comparison.whole:  # variants are about as large and as fast as the whole
        return [metric_name(comparison), "to the whole", "parameters", "pre-training", "adapting", "memory"]
    costs = ["parameters", "on disk", "pre-training", "adapting", "one takes", "a second", "memory"]
    return [metric_name(comparison), *costs]


def table_cells(row: TaskComparisonRow, comparison: TaskComparison) -> list[TableCell]:
    """Means over the seeds."""
    each = {
        metric_name(comparison): _score(row),
        "to the whole": _versus(row),
        "parameters": _cell(row.mean("parameters"), format_count),
        "on disk": _cell(row.mean("disk"), format_bytes, marked=row in pareto_front(comparison.rows, "disk")),
        "pre-training": _cell(row.mean("pretraining"), format_duration),
        "adapting": _cell(row.mean("adapting"), format_duration),
        "one takes": _cell(
            row.mean("milliseconds"), _milliseconds, marked=row in pareto_front(comparison.rows, "milliseconds")
        ),
        "a second": _cell(row.mean("speed"), format_count),
        "memory": _cell(row.mean("memory"), format_bytes),
    }
    return [each[name] for name in table_columns(comparison)]


def _score(row: TaskComparisonRow) -> TableCell:
    if row.score is None:
        return TableCell("—")
    spread = "" if row.spread is None else f" ± {format_points(row.spread)}"
    return TableCell(format_points(row.score) + spread, row.score)


def _versus(row: TaskComparisonRow) -> TableCell:
    if row.versus is None:
        return TableCell("—")
    value, noise = row.versus
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return TableCell(f"{sign}{format_points(abs(value))} ± {format_points(noise)}", value)


def _milliseconds(value: float) -> str:
    return f"{value:.2g} ms" if value < 99.5 else f"{value:,.0f} ms"


def _cell(value: float | None, say: Callable[[float], str], *, marked: bool = False) -> TableCell:
    return TableCell("—") if value is None else TableCell(say(value), value, marked)
