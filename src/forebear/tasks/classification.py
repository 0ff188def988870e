"""What is this text? One label of several, any number of labels, or a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from forebear.data.labeled.examples import LabeledExample
from forebear.errors import InputError
from forebear.numerics import softmax
from forebear.objectives.batch import IGNORE_INDEX, TargetArrays, is_supervised
from forebear.objectives.input_format import InputFormat
from forebear.tasks import metrics
from forebear.tasks.task import HeadSpec, Judgment, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer

Kind = Literal["one", "several", "number"]


@dataclass(frozen=True)
class LabelPrediction:
    """A text (or two) and what it was found to be: the likeliest label, all that are likelier than not, or a number."""

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | float
    probabilities: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
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
    def from_examples(cls, examples: Sequence[LabeledExample], **options: Any) -> Classification:
        given = [example.label for example in examples if example.label is not None]
        if not given:
            raise InputError("no example has a label", hint="name the column with --label-column")
        if all(isinstance(label, float) for label in given):
            values = np.array(given, float)
            return cls(kind="number", centre=float(values.mean()), spread=float(values.std()) or 1.0, **options)
        several = any(isinstance(label, tuple) for label in given)
        counts = Counter(one for label in given for one in (label if isinstance(label, tuple) else (str(label),)))
        if (len(counts) < 2 and not several) or not counts:
            what = f"there is only one label: {', '.join(counts) or 'none'}"
            raise InputError(what, hint="give examples of at least two classes; nothing can be told apart otherwise")
        return cls(labels=tuple(sorted(counts, key=_natural)), kind="several" if several else "one", **options)

    @property
    def score(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - it depends on the kind
        return {"one": "accuracy", "several": "micro_f1", "number": "spearman"}[self.kind]

    @property
    def linear_kind(self) -> tuple[str, bool]:
        return {"one": "label", "several": "labels", "number": "number"}[self.kind], self.texts == 2

    @property
    def is_multi_label(self) -> bool:
        return self.kind == "several"

    @property
    def pools_rows(self) -> bool:
        return True

    @property
    def num_answers(self) -> int:
        return max(1, len(self.labels))

    def encode(
        self, examples: Sequence[LabeledExample], tokenizer: Tokenizer, layout: InputFormat, *, learning: bool = False
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([example.texts[0] for example in examples])
        made, cut, room = [], 0, layout.max_text_tokens(1)
        for number, text in enumerate(np.split(ids, np.cumsum(counts)[:-1])):
            begins = _windows(len(text), room, self.windows)
            cut += max(0, len(text) - room * len(begins))
            made += [ExampleRow(number, *layout.make_row(text[begin : begin + room])) for begin in begins]
        grouped = len(made) > len(examples)
        return ExampleRows.from_rows(
            made, tells=layout.segments, grouped=grouped, of_examples=self._targets(examples), cut=cut
        )

    def _targets(self, examples: Sequence[LabeledExample]) -> TargetArrays:
        """What is right of each example, as numbers."""
        if self.kind == "number":
            given = [np.nan if example.label is None else example.label for example in examples]
            return {"label": ((np.array(given, np.float32) - self.centre) / self.spread).astype(np.float32)}
        numbers = {label: number for number, label in enumerate(self.labels)}
        if self.kind == "one":
            return {"label": np.array([numbers.get(str(one.label), IGNORE_INDEX) for one in examples], np.int64)}
        targets = np.full((len(examples), len(self.labels)), IGNORE_INDEX, np.int64)
        for row, example in zip(targets, examples, strict=True):
            if example.label is not None:
                row[:] = 0
                row[[numbers[one] for one in _several(example.label) if one in numbers]] = 1
        return {"label": targets}

    def build_heads(self, making: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import LabelHead

        head = LabelHead(
            making.width,
            self.num_answers,
            making.read,
            kind=self.kind,
            dense=making.dense,
            mixture=making.make_mix(),
            dropout=making.dropout,
            weights=making.weights,
        )
        return {"label": head}

    def predictions(
        self, examples: Sequence[LabeledExample], rows: ExampleRows, logits: Logits
    ) -> list[LabelPrediction]:
        made = []
        for example, scores in zip(examples, logits["label"], strict=True):
            if self.kind == "number":
                value = float(scores[0]) * self.spread + self.centre
                made.append(LabelPrediction(example.texts, value, {}))
                continue
            p = self.probabilities(scores)
            told = dict(zip(self.labels, p.tolist(), strict=True))
            best = self.labels[int(p.argmax())]
            chosen = best if self.kind == "one" else tuple(label for label, one in told.items() if one > 0.5)
            made.append(LabelPrediction(example.texts, chosen, told))
        return made

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(labels,) of one example."""
        scores = logits.astype(np.float64) / self.temperature
        if self.kind == "several":
            return 1 / (1 + np.exp(-scores))
        return softmax(scores)

    def judge(self, example: LabeledExample, answer: LabelPrediction) -> Judgment:
        if self.kind == "number":
            wanted, said = float(example.label or 0.0), float(answer.label)  # pyright: ignore[reportArgumentType]
            return Judgment(abs(wanted - said) < self.spread / 2, f"{wanted:g}", f"{said:.4g}")
        wanted, said = _several(example.label), _several(answer.label)
        sure = answer.probabilities[said[0]] if self.kind == "one" else None
        return Judgment({*wanted} == {*said}, ",".join(wanted), ",".join(said), sure)

    def calibrate(self, examples: Sequence[LabeledExample], rows: ExampleRows, logits: Logits) -> Classification:
        """With the temperature under which the held-out labels are likeliest."""
        told = rows.targets["label"]
        asked = is_supervised(told)
        if self.kind == "number" or not asked.any():
            return self
        found = metrics.fit_temperature(np.stack(logits["label"])[asked], told[asked])
        return replace(self, temperature=found)

    def evaluate(self, examples: Sequence[LabeledExample], answers: Sequence[LabelPrediction]) -> dict[str, Any]:
        told = [(one.label, answer.label) for one, answer in zip(examples, answers, strict=True)]
        right = [label for label, _ in told if label is not None]
        said = [answer for label, answer in told if label is not None]
        if self.kind == "number":
            return metrics.regression_metrics(np.array(right, float), np.array(said, float))
        unseen = sorted({one for label in right for one in _several(label)} - {*self.labels})
        labels = (*self.labels, *unseen)  # nobody can have learned them: they count as mistakes, and are told
        numbers = {label: number for number, label in enumerate(labels)}
        if self.kind == "several":
            matrices = [np.zeros((len(right), len(labels)), bool) for _ in range(2)]
            for matrix, side in zip(matrices, (right, said), strict=True):
                for row, label in zip(matrix, side, strict=True):
                    row[[numbers[one] for one in _several(label)]] = True
            return metrics.multi_label_metrics(matrices[0], matrices[1], labels) | {"unseen": unseen}
        true, predicted = (np.array([numbers[str(one)] for one in side], np.int64) for side in (right, said))
        return metrics.classification_metrics(true, predicted, labels) | {"unseen": unseen}


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


# What are these two texts to each other? A paraphrase, an entailment, a question and its answer.


ORDERED_PAIR_WORDS = (
    "entail",
    "contradict",
    "neutral",
    "follow",
    "蕴",
    "矛盾",
    "中立",
)  # labels of what is not the same both ways


@dataclass(frozen=True)
class PairClassification(Classification):
    """Two texts in one row, so that each is read in the light of the other.

    ordered  the first is not to the second what the second is to the first, as in entailment; else a network that only
             looks back is shown both orders (GPT's similarity)
    """

    texts: ClassVar[int] = 2

    ordered: bool = False

    @classmethod
    def from_examples(cls, examples: Sequence[LabeledExample], **options: Any) -> Classification:
        labels = {str(example.label).lower() for example in examples}
        ordered = any(mark in label for label in labels for mark in ORDERED_PAIR_WORDS)
        return super().from_examples(examples, **{"ordered": ordered, **options})

    def encode(
        self, examples: Sequence[LabeledExample], tokenizer: Tokenizer, layout: InputFormat, *, learning: bool = False
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([text for example in examples for text in example.texts])
        parts = np.split(ids, np.cumsum(counts)[:-1])
        both = layout.both_orders and not self.ordered
        made, cut, room = [], 0, layout.max_text_tokens(2)
        for number in range(len(examples)):
            first, second = truncate_pair(parts[2 * number], parts[2 * number + 1], room)
            cut += len(parts[2 * number]) + len(parts[2 * number + 1]) - len(first) - len(second)
            made.append(ExampleRow(number, *layout.make_row(first, second)))
            if both:
                made.append(ExampleRow(number, *layout.make_row(second, first)))
        return ExampleRows.from_rows(
            made, tells=layout.segments, grouped=both, of_examples=self._targets(examples), cut=cut
        )


def truncate_pair(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Both texts, the longer one cut at its end until they have room."""
    spare = room - len(first) - len(second)
    if spare >= 0:
        return first, second
    short = min(len(first), len(second))
    if 2 * short > room:
        return first[: room - room // 2], second[: room // 2]
    longer = room - short
    return (first[:longer], second) if len(first) > len(second) else (first, second[:longer])
