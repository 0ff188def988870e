"""What a comparison found: a row for each milestone, a trial for each seed; survives JSON."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any, Self

from forebear.lineage import LINEAGE

FORMAT = "forebear-comparison/3"
Curve = tuple[tuple[float, float], ...]  # (seconds, bits per byte), in the order of time


@dataclass(frozen=True)
class Trial:
    """One milestone with one seed: what it cost and what it reached; with an error, how far it came."""

    seed: int
    run: str = ""  # its folder, seen from the comparison's
    size: str = ""
    parameters: int | None = None
    seconds: float | None = None  # of learning alone: without reading text, without being examined
    tokens: int | None = None  # that it learned from
    memory: int | None = None  # bytes, at its peak
    bits_per_byte: float | None = None  # of the held-out text; None: infinite, or not a model that scores
    pseudo_bits: float | None = None  # per byte, of one that finds hidden tokens: no bits of the text
    found: float | None = None  # share of hidden tokens that it finds
    guess: float | None = None  # share that is found by always saying the commonest
    paired: float | None = None  # share of questions about two halves that it answers
    told_apart: float | None = None  # share of true neighbours that word vectors tell from words that stand elsewhere
    words: dict[str, float] = field(default_factory=dict)  # by file of judged words: what its vectors reach there
    covered: dict[str, tuple[int, int]] = field(default_factory=dict)  # of those, how many it knows, and of how many
    perplexity: float | None = None  # for each of its own tokens: comparable between equal tokenizers only
    impossible: int = 0  # held-out tokens to which it gives no probability at all
    tokenizer: str = ""
    vocabulary: int | None = None
    unknown_rate: float | None = None
    forgotten: tuple[str, ...] = ()  # what its tokenizer does not keep of a text, and it does not pay for
    held_out_bytes: int | None = None
    unit: str = "document"  # what it takes for a text of its own, whose end it pays for
    ends: int | None = None  # of such in the held-out text
    curve: Curve = ()
    sample: str = ""
    finished: bool = False
    error: str = ""

    @property
    def speed(self) -> float | None:
        """Tokens learned from in a second."""
        return self.tokens / self.seconds if self.tokens and self.seconds else None

    def reached(self) -> Iterator[tuple[float, float]]:
        """(seconds, the fewest bits so far), each time they fall."""
        points = [*self.curve]
        if self.seconds is not None and self.bits_per_byte is not None:
            points.append((self.seconds, self.bits_per_byte))
        best = float("inf")
        for seconds, bits in sorted(points):
            if bits < best:
                best = bits
                yield seconds, bits


class Tried:
    """What rows of every kind of comparison have: trials, one for each seed."""

    trials: tuple[Any, ...]

    def of(self, what: str) -> list[Any]:
        """This value of every trial that has it."""
        return [value for trial in self.trials if (value := getattr(trial, what)) is not None]

    def mean(self, what: str) -> float | None:
        values = self.of(what)
        return statistics.fmean(values) if values else None

    def deviation(self, what: str) -> float | None:
        """The standard deviation over the seeds, where there are several."""
        values = self.of(what)
        return statistics.stdev(values) if len(values) > 1 else None

    @property
    def size(self) -> str:
        """The name of the size that was trained."""
        return next((trial.size for trial in self.trials if trial.size), "")

    @property
    def error(self) -> str:
        """The first complaint among its trials."""
        return next((trial.error for trial in self.trials if trial.error), "")

    def with_trial(self, trial: Any) -> Self:
        """The same row, this trial in the place of one of the same seed."""
        others = [other for other in self.trials if other.seed != trial.seed]
        trials = tuple(sorted([*others, trial], key=lambda it: it.seed))
        return replace(self, trials=trials)  # pyright: ignore[reportArgumentType] - rows are dataclasses


@dataclass(frozen=True)
class Row(Tried):
    """A milestone and its trials."""

    name: str
    title: str
    year: int
    idea: str = ""
    authors: str = ""
    trials: tuple[Trial, ...] = ()

    @property
    def spread(self) -> float | None:
        """Of bits per byte, over the seeds."""
        return self.deviation("bits_per_byte")

    @property
    def forgotten(self) -> tuple[str, ...]:
        """What its tokenizer does not keep of a text."""
        return next((trial.forgotten for trial in self.trials if trial.forgotten), ())

    @property
    def finds(self) -> str:
        """What one that finds hidden tokens, or knows words by their company, reached, in words; nothing for others."""
        if (told_apart := self.mean("told_apart")) is not None:
            return f"tells {told_apart:.1%} of neighbours from words that stand elsewhere (by chance 50%)"
        found, guess, paired = self.mean("found"), self.mean("guess"), self.mean("paired")
        if found is None or guess is None:
            return ""
        pairs = "" if paired is None else f", answers {paired:.0%} of questions about two halves"
        return f"finds {found:.1%} of hidden tokens (always the commonest: {guess:.1%}){pairs}"

    def words(self, file: str) -> float | None:
        """What its vectors reach on a file of judged words, in the mean over the seeds."""
        found = [trial.words[file] for trial in self.trials if file in trial.words]
        return statistics.fmean(found) if found else None

    def covered(self, file: str) -> tuple[int, int] | None:
        """Of how many pairs or analogies of a file it knows all words, and how many there are."""
        return next((trial.covered[file] for trial in self.trials if file in trial.covered), None)

    def reached(self) -> list[tuple[float, float]]:
        """(seconds, bits per byte), each time they fall: the mean over the seeds of the fewest so far, from the moment
        when every seed that came to a result has one."""
        paths = [path for trial in self.trials if trial.bits_per_byte is not None and (path := list(trial.reached()))]
        points: list[tuple[float, float]] = []
        for now in sorted({seconds for path in paths for seconds, _ in path}):
            past = [bisect_right(path, now, key=lambda point: point[0]) for path in paths]
            if all(past):
                bits = [path[count - 1][1] for path, count in zip(paths, past, strict=True)]
                points.append((now, statistics.fmean(bits)))
        return points


@dataclass(frozen=True)
class Yardstick:
    """What no milestone did, beside which milestones are seen: a familiar compressor, the frequencies of bytes."""

    name: str
    bits_per_byte: float
    meaning: str


@dataclass(frozen=True)
class Comparison:
    """Every milestone on the same text. `limit` is the text's true entropy, where it is known."""

    texts: tuple[str, ...]
    settings: dict[str, Any]
    facts: dict[str, Any]  # of the text and the machine
    rows: tuple[Row, ...] = ()
    yardsticks: tuple[Yardstick, ...] = ()
    limit: float | None = None
    prompt: str = ""
    finished: bool = False

    def __post_init__(self) -> None:
        order = list(LINEAGE)
        places = {row.name: order.index(row.name) if row.name in order else 0 for row in self.rows}
        rows = sorted(self.rows, key=lambda row: (row.year, places[row.name], row.name))
        object.__setattr__(self, "rows", tuple(rows))

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def with_row(self, row: Row) -> Comparison:
        others = [other for other in self.rows if other.name != row.name]
        return replace(self, rows=(*others, row))

    @property
    def judged(self) -> list[str]:
        """The names of the files of words that people judged."""
        return [PurePath(file).stem for file in self.settings.get("words", ())]

    @property
    def best(self) -> Row | None:
        """The row with the fewest bits per byte."""
        scored = [(bits, row.name, row) for row in self.rows if (bits := row.mean("bits_per_byte")) is not None]
        return min(scored)[2] if scored else None

    def to_json(self) -> dict[str, Any]:
        told = {"format": FORMAT, **asdict(self)}
        for row, facts in zip(self.rows, told["rows"], strict=True):
            facts["bits_per_byte"], facts["spread"] = row.mean("bits_per_byte"), row.spread
            for trial, one in zip(row.trials, facts["trials"], strict=True):
                one["tokens_per_second"] = trial.speed
        return {**told, "best": self.best.name if self.best else None}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Comparison:
        """What `to_json` gave; ValueError, KeyError or TypeError where it is something else."""
        if told["format"] != FORMAT:
            raise ValueError(f"a comparison of format {told['format']!r}")
        rows = [Row(**{**own_fields(Row, row), "trials": tuple(map(_trial, row["trials"]))}) for row in told["rows"]]
        sticks = [Yardstick(**stick) for stick in told["yardsticks"]]
        more = {"texts": tuple(told["texts"]), "rows": tuple(rows), "yardsticks": tuple(sticks)}
        return cls(**{**own_fields(cls, told), **more})


def _trial(told: dict[str, Any]) -> Trial:
    curve = tuple((float(seconds), float(bits)) for seconds, bits in told["curve"])
    covered = {file: (known, total) for file, (known, total) in told["covered"].items()}
    return Trial(
        **{**own_fields(Trial, told), "curve": curve, "forgotten": tuple(told["forgotten"]), "covered": covered}
    )


def own_fields(kind: type, told: dict[str, Any]) -> dict[str, Any]:
    """The fields of `kind` alone: JSON holds figures beside them that follow from them."""
    return {one.name: told[one.name] for one in fields(kind)}
