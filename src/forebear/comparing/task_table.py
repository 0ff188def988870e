"""The table of a comparison on a task: the same cells for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forebear.comparing.task_outcomes import TaskComparison, TaskRow, front
from forebear.comparing.task_verdict import figure, points
from forebear.comparing.wording import duration, short, size

FRONT = "◆"  # nothing that costs less is as good


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number behind it to sort by; None: there is none."""

    text: str
    value: float | None = None
    marked: bool = False  # on the front of those that nothing beats

    def __str__(self) -> str:
        return f"{self.text} {FRONT}" if self.marked else self.text


def legend(comparison: TaskComparison) -> str:
    """What the signs in the table mean."""
    if comparison.whole:
        return "to the whole: difference in points, ± what chance alone may make of nothing"
    return f"{FRONT} nothing smaller, or faster, is as good"


def columns(comparison: TaskComparison) -> list[str]:
    """Names of the columns behind the year and the title; all hold numbers."""
    if comparison.whole:  # variants are about as large and as fast as the whole
        return [figure(comparison), "to the whole", "parameters", "pre-training", "adapting", "memory"]
    costs = ["parameters", "on disk", "pre-training", "adapting", "one takes", "a second", "memory"]
    return [figure(comparison), *costs]


def cells(row: TaskRow, comparison: TaskComparison) -> list[Cell]:
    """Means over the seeds."""
    each = {
        figure(comparison): _score(row),
        "to the whole": _versus(row),
        "parameters": _cell(row.mean("parameters"), short),
        "on disk": _cell(row.mean("disk"), size, marked=row in front(comparison.rows, "disk")),
        "pre-training": _cell(row.mean("pretraining"), duration),
        "adapting": _cell(row.mean("adapting"), duration),
        "one takes": _cell(
            row.mean("milliseconds"), _milliseconds, marked=row in front(comparison.rows, "milliseconds")
        ),
        "a second": _cell(row.mean("speed"), short),
        "memory": _cell(row.mean("memory"), size),
    }
    return [each[name] for name in columns(comparison)]


def _score(row: TaskRow) -> Cell:
    if row.score is None:
        return Cell("—")
    spread = "" if row.spread is None else f" ± {points(row.spread)}"
    return Cell(points(row.score) + spread, row.score)


def _versus(row: TaskRow) -> Cell:
    if row.versus is None:
        return Cell("—")
    value, noise = row.versus
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return Cell(f"{sign}{points(abs(value))} ± {points(noise)}", value)


def _milliseconds(value: float) -> str:
    return f"{value:.2g} ms" if value < 99.5 else f"{value:,.0f} ms"


def _cell(value: float | None, say: Callable[[float], str], *, marked: bool = False) -> Cell:
    return Cell("—") if value is None else Cell(say(value), value, marked)
