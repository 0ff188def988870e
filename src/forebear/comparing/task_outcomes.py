"""What a comparison on a person's own labels found: a row for each milestone, run or variant; survives JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from forebear.comparing.outcomes import Tried, own_fields
from forebear.using.baselines import Baseline

FORMAT = "forebear-task-comparison/1"


@dataclass(frozen=True)
class TaskTrial:
    """One row's model with one seed: what it reached and what it costs; with an error, how far it came."""

    seed: int
    run: str = ""  # the folder of what was adapted, seen from the comparison's
    size: str = ""
    score: float | None = None  # the task's own figure on the test
    figures: dict[str, float] | None = None  # all others
    low: float | None = None  # between these the score would lie on very many such examples
    high: float | None = None
    parameters: int | None = None
    disk: int | None = None  # bytes of weights and tokenizer
    pretraining: float | None = None  # seconds; None: it was not pre-trained here
    adapting: float | None = None  # seconds
    steps: int | None = None  # of adapting
    milliseconds: float | None = None  # for one example, asked alone: the median
    speed: float | None = None  # examples in a second, asked together
    memory: int | None = None  # bytes, at the peak of learning
    finished: bool = False
    error: str = ""


@dataclass(frozen=True)
class TaskRow(Tried):
    """A milestone, a run or a variant, and its trials.

    differs  of a variant: in what it differs from the whole
    papers   and what papers found of that
    versus   and its score minus that of the whole, with what chance may make of nothing
    """

    name: str
    title: str
    year: int
    idea: str = ""
    milestone: str = ""
    trials: tuple[TaskTrial, ...] = ()
    differs: str = ""
    papers: str = ""
    versus: tuple[float, float] | None = None

    @property
    def score(self) -> float | None:
        return self.mean("score")

    @property
    def spread(self) -> float | None:
        """Of the score, over the seeds."""
        return self.deviation("score")

    @property
    def best(self) -> TaskTrial | None:
        """The trial with the highest score."""
        scored = [trial for trial in self.trials if trial.score is not None]
        return max(scored, key=lambda trial: trial.score or 0.0, default=None)


@dataclass(frozen=True)
class TaskComparison:
    """Rows on the same examples, in their order. `whole` names the row that variants are held against, if any."""

    task: str
    figure: str  # the name of the score
    verb: str  # what a run is asked to do it
    texts: tuple[str, ...]
    settings: dict[str, Any]
    facts: dict[str, Any]  # of the examples and the machine
    rows: tuple[TaskRow, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    whole: str = ""
    remarks: tuple[str, ...] = ()
    finished: bool = False

    def row(self, name: str) -> TaskRow | None:
        return next((row for row in self.rows if row.name == name), None)

    def with_row(self, row: TaskRow) -> TaskComparison:
        """The same, this row in the place of one of its name, or at the end."""
        if self.row(row.name) is None:
            return replace(self, rows=(*self.rows, row))
        return replace(self, rows=tuple(row if other.name == row.name else other for other in self.rows))

    @property
    def scored(self) -> list[TaskRow]:
        return [row for row in self.rows if row.score is not None]

    @property
    def best(self) -> TaskRow | None:
        """The row with the highest score; of equals the smallest."""
        return max(self.scored, key=lambda row: (row.score, -(row.mean("disk") or 0.0)), default=None)

    @property
    def smallest(self) -> TaskRow | None:
        """The row with the fewest bytes among those within a point of the best."""
        return self._least("disk")

    @property
    def fastest(self) -> TaskRow | None:
        """The row with the fewest milliseconds among those within a point of the best."""
        return self._least("milliseconds")

    def _least(self, cost: str) -> TaskRow | None:
        best = self.best
        if best is None or best.score is None:
            return None
        near = [row for row in self.scored if (row.score or 0.0) >= best.score - POINT - 1e-12 and row.of(cost)]
        return min(near, key=lambda row: (row.mean(cost), -(row.score or 0.0)), default=None)

    def to_json(self) -> dict[str, Any]:
        told = {"format": FORMAT, **asdict(self)}
        fronts = {cost: [row.name for row in front(self.rows, cost)] for cost in ("disk", "milliseconds")}
        for row, one in zip(self.rows, told["rows"], strict=True):
            one["score"], one["spread"] = row.score, row.spread
        named = {"best": self.best, "smallest": self.smallest, "fastest": self.fastest}
        return {**told, "fronts": fronts, **{what: row.name if row else None for what, row in named.items()}}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> TaskComparison:
        """What `to_json` gave; ValueError, KeyError or TypeError where it is something else."""
        if told["format"] != FORMAT:
            raise ValueError(f"a comparison of format {told['format']!r}")
        rows = tuple(map(_row, told["rows"]))
        tuples = {name: tuple(told[name]) for name in ("texts", "remarks")}
        baselines = tuple(Baseline(**one) for one in told["baselines"])
        return cls(**{**own_fields(cls, told), **tuples, "rows": rows, "baselines": baselines})


POINT = 0.01  # of a score


def front(rows: tuple[TaskRow, ...] | list[TaskRow], cost: str) -> list[TaskRow]:
    """The rows that no other beats: none is as good for less, nor better for as much. From cheap to dear."""
    known = [(row.mean(cost), row.score, row) for row in rows]
    priced: list[tuple[float, float, TaskRow]] = [
        (price, score, row) for price, score, row in known if price is not None and score is not None
    ]
    order: Callable[[tuple[float, float, TaskRow]], tuple[float, float]] = lambda one: (one[0], -one[1])  # noqa: E731
    found: list[tuple[float, float, TaskRow]] = []
    for price, score, row in sorted(priced, key=order):
        if not found or score > found[-1][1] or (price, score) == found[-1][:2]:
            found.append((price, score, row))
    return [row for _, _, row in found]


def _row(told: dict[str, Any]) -> TaskRow:
    trials = tuple(TaskTrial(**own_fields(TaskTrial, trial)) for trial in told["trials"])
    versus = None if told["versus"] is None else (float(told["versus"][0]), float(told["versus"][1]))
    return TaskRow(**{**own_fields(TaskRow, told), "trials": trials, "versus": versus})
