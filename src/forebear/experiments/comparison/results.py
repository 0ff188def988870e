"""Results of comparisons, stored as JSON: a row for each model, a trial for each seed."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import PurePath
from types import UnionType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from forebear.registry import LINEAGE
from forebear.tasks.baselines import TaskBaseline

LearningCurve = tuple[tuple[float, float], ...]  # (seconds, bits per byte), in the order of time


@dataclass(frozen=True)
class TextTrial:
    """A model trained with one seed: cost and quality, or partial results with an error."""

    seed: int
    run: str = ""  # its folder, relative to the comparison
    size: str = ""
    parameters: int | None = None
    seconds: float | None = None  # of training, without text preparation and evaluation
    tokens: int | None = None  # trained on
    memory: int | None = None  # peak, in bytes
    bits_per_byte: float | None = None  # of the held-out text; None: infinite, or not a language model
    pseudo_bits: float | None = None  # pseudo-likelihood of a masked LM, in bits per byte
    found: float | None = None  # masked-LM accuracy
    guess: float | None = None  # accuracy of always predicting the most frequent token
    paired: float | None = None  # NSP or SOP accuracy
    told_apart: float | None = None  # neighbor accuracy of word vectors
    words: dict[str, float] = field(default_factory=dict)  # score by word-evaluation file
    covered: dict[str, tuple[int, int]] = field(default_factory=dict)  # covered and total questions of these files
    perplexity: float | None = None  # per token: comparable between equal tokenizers only
    impossible: int = 0  # held-out tokens with probability 0
    tokenizer: str = ""
    vocabulary: int | None = None
    unknown_rate: float | None = None
    forgotten: tuple[str, ...] = ()  # lossy features of its tokenizer, which are not counted
    held_out_bytes: int | None = None
    unit: str = "document"  # that is scored with an end-of-text token
    ends: int | None = None  # number of such units in the held-out text
    curve: LearningCurve = ()
    sample: str = ""
    finished: bool = False
    error: str = ""

    @property
    def speed(self) -> float | None:
        """Training tokens per second."""
        return self.tokens / self.seconds if self.tokens and self.seconds else None

    def running_minimum(self) -> Iterator[tuple[float, float]]:
        """(seconds, bits per byte) at each new minimum."""
        points = [*self.curve]
        if self.seconds is not None and self.bits_per_byte is not None:
            points.append((self.seconds, self.bits_per_byte))
        lowest_bits = float("inf")
        for seconds, bits in sorted(points):
            if bits < lowest_bits:
                lowest_bits = bits
                yield seconds, bits


class ComparisonRow:
    """Base of comparison rows: trials, one for each seed."""

    METRIC: ClassVar[str]  # the field of a trial by which rows are compared
    name: str
    title: str
    year: int
    trials: tuple[Any, ...]

    def trial_values(self, name: str) -> list[Any]:
        """This value of every trial that has it, by field or property name."""
        return [value for trial in self.trials if (value := getattr(trial, name)) is not None]

    def mean(self, name: str) -> float | None:
        values = self.trial_values(name)
        return statistics.fmean(values) if values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation of the metric over several seeds."""
        values = self.trial_values(self.METRIC)
        return statistics.stdev(values) if len(values) > 1 else None

    @property
    def size(self) -> str:
        """The preset size that was trained."""
        return next((trial.size for trial in self.trials if trial.size), "")

    @property
    def error(self) -> str:
        """The first error among its trials."""
        return next((trial.error for trial in self.trials if trial.error), "")

    def with_trial(self, trial: Any) -> Self:
        """A copy of the row in which this trial replaces one with the same seed."""
        others = [other for other in self.trials if other.seed != trial.seed]
        trials = tuple(sorted([*others, trial], key=lambda item: item.seed))
        return replace(self, trials=trials)  # pyright: ignore[reportArgumentType] - rows are dataclasses


@dataclass(frozen=True)
class TextComparisonRow(ComparisonRow):
    """A model and its trials."""

    METRIC = "bits_per_byte"
    name: str
    title: str
    year: int
    idea: str = ""
    authors: str = ""
    trials: tuple[TextTrial, ...] = ()

    @property
    def lossy_features(self) -> tuple[str, ...]:
        """Features of text that its tokenizer does not keep."""
        return next((trial.forgotten for trial in self.trials if trial.forgotten), ())

    @property
    def other_metrics(self) -> str:
        """Masked-LM or neighbor accuracy as text; "" for other models."""
        if (neighbor_accuracy := self.mean("told_apart")) is not None:
            return f"tells {neighbor_accuracy:.1%} of neighbours from words that stand elsewhere (by chance 50%)"
        accuracy, baseline, pair_accuracy = self.mean("found"), self.mean("guess"), self.mean("paired")
        if accuracy is None or baseline is None:
            return ""
        pairs = "" if pair_accuracy is None else f", answers {pair_accuracy:.0%} of questions about two halves"
        return f"finds {accuracy:.1%} of hidden tokens (always the commonest: {baseline:.1%}){pairs}"

    def word_score(self, file: str) -> float | None:
        """The score on a word-evaluation file, averaged over the seeds."""
        scores = [trial.words[file] for trial in self.trials if file in trial.words]
        return statistics.fmean(scores) if scores else None

    def word_coverage(self, file: str) -> tuple[int, int] | None:
        """Covered and total pairs or analogies of a word-evaluation file."""
        return next((trial.covered[file] for trial in self.trials if file in trial.covered), None)

    def running_minimum(self) -> list[tuple[float, float]]:
        """(seconds, bits per byte) at each new minimum: the best so far, averaged over the seeds with a result.

        It starts when all of them have a value.
        """
        all_curves = [list(trial.running_minimum()) for trial in self.trials if trial.bits_per_byte is not None]
        curves = [curve for curve in all_curves if curve]
        points: list[tuple[float, float]] = []
        for time in sorted({seconds for curve in curves for seconds, _ in curve}):
            counts = [bisect_right(curve, time, key=lambda point: point[0]) for curve in curves]
            if all(counts):
                bits = [curve[count - 1][1] for curve, count in zip(curves, counts, strict=True)]
                points.append((time, statistics.fmean(bits)))
        return points


class Comparison(ABC):
    """Base of comparisons: rows on the same data with the same settings."""

    FORMAT: ClassVar[str]  # of its JSON
    texts: tuple[str, ...]
    settings: dict[str, Any]
    facts: dict[str, Any]  # of the data and the machine
    rows: tuple[Any, ...]
    finished: bool

    @property
    @abstractmethod
    def best(self) -> Any:
        """The row with the best result, if any."""

    @property
    def num_seeds(self) -> int:
        return len(self.settings.get("seeds", ()))

    def find_row(self, name: str) -> Any:
        """The row of this name, or None."""
        return next((row for row in self.rows if row.name == name), None)

    def with_row(self, row: Any) -> Self:
        """A copy in which this row replaces one of the same name, or is appended."""
        rows = tuple(row if other.name == row.name else other for other in self.rows)
        return self.with_fields(rows=rows if self.find_row(row.name) else (*rows, row))

    def with_fields(self, **values: Any) -> Self:
        return replace(self, **values)  # pyright: ignore[reportArgumentType] - comparisons are dataclasses

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_dict`. Raise ValueError, KeyError or TypeError for other data."""
        if data["format"] != cls.FORMAT:
            raise ValueError(f"a comparison of format {data['format']!r}")
        return _from_json(cls, data)


@dataclass(frozen=True)
class CompressionBaseline:
    """A model-free baseline: a compressor, or byte frequencies."""

    name: str
    bits_per_byte: float
    meaning: str


@dataclass(frozen=True)
class TextComparison(Comparison):
    """All models on the same text. `limit` is its entropy if known, `yardsticks` are the baselines."""

    FORMAT = "forebear-comparison/3"
    texts: tuple[str, ...]
    settings: dict[str, Any]
    facts: dict[str, Any]  # of the text and the machine
    rows: tuple[TextComparisonRow, ...] = ()
    yardsticks: tuple[CompressionBaseline, ...] = ()
    limit: float | None = None
    prompt: str = ""
    finished: bool = False

    def __post_init__(self) -> None:
        positions = {name: position for position, name in enumerate(LINEAGE)}
        rows = sorted(self.rows, key=lambda row: (row.year, positions.get(row.name, 0), row.name))
        object.__setattr__(self, "rows", tuple(rows))

    @property
    def word_file_names(self) -> list[str]:
        """The names of the word-evaluation files."""
        return [PurePath(file).stem for file in self.settings.get("words", ())]

    @property
    def best(self) -> TextComparisonRow | None:
        """The row with the fewest bits per byte."""
        scored = [(bits, row.name, row) for row in self.rows if (bits := row.mean("bits_per_byte")) is not None]
        return min(scored)[2] if scored else None

    def to_dict(self) -> dict[str, Any]:
        result = {"format": self.FORMAT, **asdict(self)}
        for row, row_data in zip(self.rows, result["rows"], strict=True):
            row_data["bits_per_byte"], row_data["spread"] = row.mean("bits_per_byte"), row.spread
            for trial, trial_data in zip(row.trials, row_data["trials"], strict=True):
                trial_data["tokens_per_second"] = trial.speed
        return {**result, "best": self.best.name if self.best else None}


def _from_json(type_hint: Any, value: Any) -> Any:
    """A value of this type from its JSON, in which unknown fields of dataclasses are ignored."""
    if isinstance(type_hint, type) and is_dataclass(type_hint):
        hints = get_type_hints(type_hint)
        return type_hint(**{item.name: _from_json(hints[item.name], value[item.name]) for item in fields(type_hint)})
    origin, type_args = get_origin(type_hint), get_args(type_hint)
    if origin is UnionType:  # a type or None
        return None if value is None else _from_json(type_args[0], value)
    if origin is tuple:
        type_args = [type_args[0]] * len(value) if type_args[-1] is ... else type_args
        return tuple(_from_json(type_arg, item) for type_arg, item in zip(type_args, value, strict=True))
    if origin is dict:
        return {key: _from_json(type_args[1], value[key]) for key in value}
    return value


# --- Comparison on a task ---


@dataclass(frozen=True)
class TaskTrial:
    """A model adapted with one seed: score and cost, or partial results with an error."""

    seed: int
    run: str = ""  # folder of the adapted run, relative to the comparison
    size: str = ""
    score: float | None = None  # main metric on the test set
    figures: dict[str, float] | None = None  # all metrics
    low: float | None = None  # 95% confidence interval
    high: float | None = None
    parameters: int | None = None
    disk: int | None = None  # bytes of weights and tokenizer
    pretraining: float | None = None  # seconds; None: not pre-trained here
    adapting: float | None = None  # seconds
    steps: int | None = None  # of adaptation
    milliseconds: float | None = None  # median latency of a single example
    speed: float | None = None  # examples per second in batches
    memory: int | None = None  # peak during training, in bytes
    finished: bool = False
    error: str = ""


@dataclass(frozen=True)
class TaskComparisonRow(ComparisonRow):
    """A model, a run or an ablation, and its trials.

    differs  how an ablation differs from the reference
    papers   what papers found about it
    versus   its score minus that of the reference, and the margin of error of this difference
    """

    METRIC = "score"
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
    def best(self) -> TaskTrial | None:
        """The trial with the highest score."""
        scored = [trial for trial in self.trials if trial.score is not None]
        return max(scored, key=lambda trial: trial.score or 0.0, default=None)


@dataclass(frozen=True)
class TaskComparison(Comparison):
    """Rows on the same examples. `whole` names the reference row of ablations, if any."""

    FORMAT = "forebear-task-comparison/1"
    task: str
    figure: str  # the name of the score
    verb: str  # the command that answers the task
    texts: tuple[str, ...]
    settings: dict[str, Any]
    facts: dict[str, Any]  # of the examples and the machine
    rows: tuple[TaskComparisonRow, ...] = ()
    baselines: tuple[TaskBaseline, ...] = ()
    whole: str = ""
    remarks: tuple[str, ...] = ()
    finished: bool = False

    @property
    def scored_rows(self) -> list[TaskComparisonRow]:
        return [row for row in self.rows if row.score is not None]

    @property
    def best(self) -> TaskComparisonRow | None:
        """The row with the highest score; the smallest of ties."""
        return max(self.scored_rows, key=lambda row: (row.score, -(row.mean("disk") or 0.0)), default=None)

    @property
    def smallest(self) -> TaskComparisonRow | None:
        """The row with the smallest disk size among those within one point of the best."""
        return self._cheapest("disk")

    @property
    def fastest(self) -> TaskComparisonRow | None:
        """The row with the lowest latency among those within one point of the best."""
        return self._cheapest("milliseconds")

    def _cheapest(self, cost_name: str) -> TaskComparisonRow | None:
        best = self.best
        if best is None or best.score is None:
            return None
        min_score = best.score - NEAR_BEST_MARGIN - 1e-12
        near_best = [row for row in self.scored_rows if (row.score or 0.0) >= min_score and row.trial_values(cost_name)]
        return min(near_best, key=lambda row: (row.mean(cost_name), -(row.score or 0.0)), default=None)

    def to_dict(self) -> dict[str, Any]:
        result = {"format": self.FORMAT, **asdict(self)}
        fronts = {cost: [row.name for row in pareto_front(self.rows, cost)] for cost in ("disk", "milliseconds")}
        for row, row_data in zip(self.rows, result["rows"], strict=True):
            row_data["score"], row_data["spread"] = row.score, row.spread
        highlights = {"best": self.best, "smallest": self.smallest, "fastest": self.fastest}
        return {**result, "fronts": fronts, **{name: row.name if row else None for name, row in highlights.items()}}


NEAR_BEST_MARGIN = 0.01  # one point of a score


def pareto_front(rows: Sequence[TaskComparisonRow], cost_name: str) -> list[TaskComparisonRow]:
    """The Pareto front of score against a cost, a field of the trials, by rising cost."""
    points = [
        (cost, row.score, row) for row in rows if row.score is not None and (cost := row.mean(cost_name)) is not None
    ]
    front: list[tuple[float, float, TaskComparisonRow]] = []
    for cost, score, row in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or score > front[-1][1] or (cost, score) == front[-1][:2]:
            front.append((cost, score, row))
    return [row for _, _, row in front]
