"""What is this text? One label of several, any number of labels, or a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING, Arrays, is_asked
from forebear.objectives.layout import Layout
from forebear.tasks.examples import Labelled
from forebear.tasks.figures import calibration, metrics
from forebear.tasks.rows import Row, Rows
from forebear.tasks.task import Logits, Making, Task, Verdict

if TYPE_CHECKING:
    from torch import nn

    from forebear.text.tokenizer import Tokenizer

Kind = Literal["one", "several", "number"]


@dataclass(frozen=True)
class Classified:
    """A text (or two) and what it was found to be: the likeliest label, all that are likelier than not, or a number."""

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | float
    probabilities: dict[str, float]

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"text": self.texts[0]} if len(self.texts) == 1 else {"texts": list(self.texts)}
        told["label"] = list(self.label) if isinstance(self.label, tuple) else self.label
        rounded = {label: round(p, 6) for label, p in self.probabilities.items()}
        return told | ({"probabilities": rounded} if rounded else {})


@dataclass(frozen=True)
class Classification(Task):
    """labels       in the order of their numbers, none where a number is asked
    kind         one label, several, or a number
    temperature  by which logits are divided, so that probabilities are as sure as they may be
    centre       of numbers, and their spread: a network answers in these units
    windows      a text longer than a row is read in so many windows at most, evenly over its length
    """

    verb: ClassVar[str] = "classify"
    texts: ClassVar[int] = 1

    labels: tuple[str, ...] = ()
    kind: Kind = "one"
    temperature: float = 1.0
    centre: float = 0.0
    spread: float = 1.0
    windows: int = 8

    @classmethod
    def learned(cls, examples: Sequence[Labelled], **options: Any) -> Classification:
        given = [example.label for example in examples if example.label is not None]
        if not given:
            raise BadInput("no example has a label", remedy="name the column with --label-column")
        if all(isinstance(label, float) for label in given):
            values = np.array(given, float)
            return cls(kind="number", centre=float(values.mean()), spread=float(values.std()) or 1.0, **options)
        several = any(isinstance(label, tuple) for label in given)
        counts = Counter(one for label in given for one in (label if isinstance(label, tuple) else (str(label),)))
        if (len(counts) < 2 and not several) or not counts:
            what = f"there is only one label: {', '.join(counts) or 'none'}"
            raise BadInput(what, remedy="give examples of at least two classes; nothing can be told apart otherwise")
        return cls(labels=tuple(sorted(counts, key=_natural)), kind="several" if several else "one", **options)

    @property
    def score(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - it depends on the kind
        return {"one": "accuracy", "several": "micro_f1", "number": "spearman"}[self.kind]

    @property
    def weighed_as(self) -> tuple[str, bool]:
        return {"one": "label", "several": "labels", "number": "number"}[self.kind], self.texts == 2

    @property
    def answers_are_several(self) -> bool:
        return self.kind == "several"

    @property
    def reads_rows(self) -> bool:
        return True

    @property
    def answers_count(self) -> int:
        return max(1, len(self.labels))

    def rows(
        self, examples: Sequence[Labelled], tokenizer: Tokenizer, layout: Layout, *, learning: bool = False
    ) -> Rows:
        ids, counts = tokenizer.encode_many([example.texts[0] for example in examples])
        made, cut, room = [], 0, layout.room(1)
        for number, text in enumerate(np.split(ids, np.cumsum(counts)[:-1])):
            begins = _windows(len(text), room, self.windows)
            cut += max(0, len(text) - room * len(begins))
            made += [Row(number, *layout.row(text[begin : begin + room])) for begin in begins]
        grouped = len(made) > len(examples)
        return Rows.of(made, tells=layout.segments, grouped=grouped, of_examples=self._targets(examples), cut=cut)

    def _targets(self, examples: Sequence[Labelled]) -> Arrays:
        """What is right of each example, as numbers."""
        if self.kind == "number":
            given = [np.nan if example.label is None else example.label for example in examples]
            return {"label": ((np.array(given, np.float32) - self.centre) / self.spread).astype(np.float32)}
        numbers = {label: number for number, label in enumerate(self.labels)}
        if self.kind == "one":
            return {"label": np.array([numbers.get(str(one.label), NOTHING) for one in examples], np.int64)}
        targets = np.full((len(examples), len(self.labels)), NOTHING, np.int64)
        for row, example in zip(targets, examples, strict=True):
            if example.label is not None:
                row[:] = 0
                row[[numbers[one] for one in _several(example.label) if one in numbers]] = 1
        return {"label": targets}

    def heads(self, making: Making) -> dict[str, nn.Module]:
        from forebear.networks.answers import LabelHead

        head = LabelHead(
            making.width,
            self.answers_count,
            making.read,
            kind=self.kind,
            dense=making.dense,
            mixture=making.mixture(),
            dropout=making.dropout,
            weights=making.weights,
        )
        return {"label": head}

    def answers(self, examples: Sequence[Labelled], rows: Rows, logits: Logits) -> list[Classified]:
        made = []
        for example, scores in zip(examples, logits["label"], strict=True):
            if self.kind == "number":
                value = float(scores[0]) * self.spread + self.centre
                made.append(Classified(example.texts, value, {}))
                continue
            p = self.probabilities(scores)
            told = dict(zip(self.labels, p.tolist(), strict=True))
            best = self.labels[int(p.argmax())]
            chosen = best if self.kind == "one" else tuple(label for label, one in told.items() if one > 0.5)
            made.append(Classified(example.texts, chosen, told))
        return made

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(labels,) of one example."""
        scores = logits.astype(np.float64) / self.temperature
        if self.kind == "several":
            return 1 / (1 + np.exp(-scores))
        e = np.exp(scores - scores.max())
        return e / e.sum()

    def verdict(self, example: Labelled, answer: Classified) -> Verdict:
        if self.kind == "number":
            wanted, said = float(example.label or 0.0), float(answer.label)  # pyright: ignore[reportArgumentType]
            return Verdict(abs(wanted - said) < self.spread / 2, f"{wanted:g}", f"{said:.4g}")
        wanted, said = _several(example.label), _several(answer.label)
        sure = answer.probabilities[said[0]] if self.kind == "one" else None
        return Verdict({*wanted} == {*said}, ",".join(wanted), ",".join(said), sure)

    def calibrated(self, examples: Sequence[Labelled], rows: Rows, logits: Logits) -> Classification:
        """With the temperature under which the held-out labels are likeliest."""
        told = rows.targets["label"]
        asked = is_asked(told)
        if self.kind == "number" or not asked.any():
            return self
        found = calibration.trusted_temperature(np.stack(logits["label"])[asked], told[asked])
        return replace(self, temperature=found)

    def measured(self, examples: Sequence[Labelled], answers: Sequence[Classified]) -> dict[str, Any]:
        told = [(one.label, answer.label) for one, answer in zip(examples, answers, strict=True)]
        right = [label for label, _ in told if label is not None]
        said = [answer for label, answer in told if label is not None]
        if self.kind == "number":
            return metrics.of_numbers(np.array(right, float), np.array(said, float))
        unseen = sorted({one for label in right for one in _several(label)} - {*self.labels})
        labels = (*self.labels, *unseen)  # nobody can have learned them: they count as mistakes, and are told
        numbers = {label: number for number, label in enumerate(labels)}
        if self.kind == "several":
            matrices = [np.zeros((len(right), len(labels)), bool) for _ in range(2)]
            for matrix, side in zip(matrices, (right, said), strict=True):
                for row, label in zip(matrix, side, strict=True):
                    row[[numbers[one] for one in _several(label)]] = True
            return metrics.of_label_sets(matrices[0], matrices[1], labels) | {"unseen": unseen}
        true, predicted = (np.array([numbers[str(one)] for one in side], np.int64) for side in (right, said))
        return metrics.of_labels(true, predicted, labels) | {"unseen": unseen}


def _several(label: Any) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _natural(label: str) -> tuple[Any, ...]:
    """Numbers by their value, before words."""
    return (0, int(label), label) if label.isascii() and label.isdecimal() else (1, 0, label)


def _windows(length: int, room: int, most: int) -> list[int]:
    """Where windows of `room` tokens begin in a text: side by side, or evenly apart where they would be too many."""
    if length <= room:
        return [0]
    count = -(-length // room)
    if count <= most:
        return [min(number * room, length - room) for number in range(count)]
    return np.linspace(0, length - room, most).round().astype(int).tolist()
