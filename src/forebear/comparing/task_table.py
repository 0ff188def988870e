"""The table of a comparison on a task: the same cells for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from forebear.comparing.task_outcomes import TaskComparison, TaskRow, front
from forebear.comparing.task_verdict import figure, points
from forebear.comparing.wording import duration, short, size

FRONT = "◆"  # nothing that costs less is as good
LEGEND = f"{FRONT} nothing smaller, or faster, is as good"


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number behind it to sort by; None: there is none."""

    text: str
    value: float | None = None
    marked: bool = False  # on the front of those that nothing beats

    def __str__(self) -> str:
        return f"{self.text} {FRONT}" if self.marked else self.text


def columns(comparison: TaskComparison) -> list[str]:
    """Names of the columns behind the year and the title; all hold numbers."""
    versus = ["to the whole"] if comparison.whole else []
    costs = ["parameters", "on disk", "pre-training", "adapting", "one takes", "a second", "memory"]
    return [figure(comparison), *versus, *costs]


def cells(row: TaskRow, comparison: TaskComparison) -> list[Cell]:
    """Means over the seeds."""
    return [
        _score(row),
        *([_versus(row)] if comparison.whole else []),
        _cell(row.mean("parameters"), short),
        _cell(row.mean("disk"), size, marked=row in front(comparison.rows, "disk")),
        _cell(row.mean("pretraining"), duration),
        _cell(row.mean("adapting"), duration),
        _cell(row.mean("milliseconds"), _milliseconds, marked=row in front(comparison.rows, "milliseconds")),
        _cell(row.mean("speed"), short),
        _cell(row.mean("memory"), size),
    ]


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
    return Cell(f"{sign}{points(abs(value))} (noise ± {points(noise)})", value)


def _milliseconds(value: float) -> str:
    return f"{value:.2g} ms" if value < 99.5 else f"{value:,.0f} ms"


def _cell(value: float | None, say: Callable[[float], str], *, marked: bool = False) -> Cell:
    return Cell("—") if value is None else Cell(say(value), value, marked)
