"""Text classification (single-label, multi-label, regression) and sentence-pair classification."""

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
    """One or two texts with the most probable label, all labels above 0.5, or a number."""

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | float
    probabilities: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {"text": self.texts[0]} if len(self.texts) == 1 else {"texts": list(self.texts)}
        result["label"] = list(self.label) if isinstance(self.label, tuple) else self.label
        rounded = {label: round(p, 6) for label, p in self.probabilities.items()}
        return result | ({"probabilities": rounded} if rounded else {})


@dataclass(frozen=True)
class Classification(Task):
    """Classification of single texts.

    Attributes:
        labels: Labels in id order; empty for regression.
        kind: One label, several, or a number.
        temperature: Calibrated divisor of logits.
        centre: Mean of numeric labels.
        spread: Standard deviation of numeric labels; the network predicts standardized numbers.
        windows: Maximum number of windows of a text that exceeds the maximum length.
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
        labels = [example.label for example in examples if example.label is not None]
        if not labels:
            raise InputError("no example has a label", hint="name the column with --label-column")
        if all(isinstance(label, float) for label in labels):
            values = np.array(labels, float)
            return cls(kind="number", centre=float(values.mean()), spread=float(values.std()) or 1.0, **options)
        is_multi_label = any(isinstance(label, tuple) for label in labels)
        counts = Counter(name for label in labels for name in (label if isinstance(label, tuple) else (str(label),)))
        if (len(counts) < 2 and not is_multi_label) or not counts:
            message = f"there is only one label: {', '.join(counts) or 'none'}"
            raise InputError(message, hint="give examples of at least two classes; nothing can be told apart otherwise")
        return cls(
            labels=tuple(sorted(counts, key=_natural_sort_key)), kind="several" if is_multi_label else "one", **options
        )

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
        self,
        examples: Sequence[LabeledExample],
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        is_training: bool = False,
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([example.texts[0] for example in examples])
        rows, num_truncated, max_tokens = [], 0, input_format.max_text_tokens(1)
        for index, text in enumerate(np.split(ids, np.cumsum(counts)[:-1])):
            starts = _window_starts(len(text), max_tokens, self.windows)
            num_truncated += max(0, len(text) - max_tokens * len(starts))
            rows += [ExampleRow(index, *input_format.make_row(text[start : start + max_tokens])) for start in starts]
        grouped = len(rows) > len(examples)
        return ExampleRows.from_rows(
            rows,
            uses_segments=input_format.segments,
            grouped=grouped,
            example_targets=self._targets(examples),
            num_truncated=num_truncated,
        )

    def _targets(self, examples: Sequence[LabeledExample]) -> TargetArrays:
        """The targets of the examples."""
        if self.kind == "number":
            values = [np.nan if example.label is None else example.label for example in examples]
            return {"label": ((np.array(values, np.float32) - self.centre) / self.spread).astype(np.float32)}
        label_ids = {label: number for number, label in enumerate(self.labels)}
        if self.kind == "one":
            return {
                "label": np.array([label_ids.get(str(example.label), IGNORE_INDEX) for example in examples], np.int64)
            }
        targets = np.full((len(examples), len(self.labels)), IGNORE_INDEX, np.int64)
        for row, example in zip(targets, examples, strict=True):
            if example.label is not None:
                row[:] = 0
                row[[label_ids[example] for example in _label_tuple(example.label) if example in label_ids]] = 1
        return {"label": targets}

    def build_heads(self, head_spec: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import LabelHead

        head = LabelHead(
            head_spec.width,
            self.num_answers,
            head_spec.read,
            kind=self.kind,
            dense=head_spec.dense,
            mixture=head_spec.make_mix(),
            dropout=head_spec.dropout,
            weights=head_spec.weights,
        )
        return {"label": head}

    def predictions(
        self, examples: Sequence[LabeledExample], rows: ExampleRows, logits: Logits
    ) -> list[LabelPrediction]:
        predictions = []
        for example, scores in zip(examples, logits["label"], strict=True):
            if self.kind == "number":
                value = float(scores[0]) * self.spread + self.centre
                predictions.append(LabelPrediction(example.texts, value, {}))
                continue
            probabilities = self.probabilities(scores)
            label_probabilities = dict(zip(self.labels, probabilities.tolist(), strict=True))
            best = self.labels[int(probabilities.argmax())]
            predicted = (
                best
                if self.kind == "one"
                else tuple(label for label, probability in label_probabilities.items() if probability > 0.5)
            )
            predictions.append(LabelPrediction(example.texts, predicted, label_probabilities))
        return predictions

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(labels,) probabilities of one example."""
        scores = logits.astype(np.float64) / self.temperature
        if self.kind == "several":
            return 1 / (1 + np.exp(-scores))
        return softmax(scores)

    def judge(self, example: LabeledExample, answer: LabelPrediction) -> Judgment:
        if self.kind == "number":
            expected, predicted = float(example.label or 0.0), float(answer.label)  # pyright: ignore[reportArgumentType]
            return Judgment(abs(expected - predicted) < self.spread / 2, f"{expected:g}", f"{predicted:.4g}")
        expected, predicted = _label_tuple(example.label), _label_tuple(answer.label)
        probability = answer.probabilities[predicted[0]] if self.kind == "one" else None
        return Judgment({*expected} == {*predicted}, ",".join(expected), ",".join(predicted), probability)

    def calibrate(self, examples: Sequence[LabeledExample], rows: ExampleRows, logits: Logits) -> Classification:
        """Fit the temperature to the labels of the dev set."""
        targets = rows.targets["label"]
        supervised = is_supervised(targets)
        if self.kind == "number" or not supervised.any():
            return self
        temperature = metrics.fit_temperature(np.stack(logits["label"])[supervised], targets[supervised])
        return replace(self, temperature=temperature)

    def evaluate(self, examples: Sequence[LabeledExample], answers: Sequence[LabelPrediction]) -> dict[str, Any]:
        pairs = [(name.label, answer.label) for name, answer in zip(examples, answers, strict=True)]
        gold = [label for label, _ in pairs if label is not None]
        predicted_labels = [answer for label, answer in pairs if label is not None]
        if self.kind == "number":
            return metrics.regression_metrics(np.array(gold, float), np.array(predicted_labels, float))
        unseen = sorted({name for label in gold for name in _label_tuple(label)} - {*self.labels})
        labels = (*self.labels, *unseen)  # unseen in training: they count as errors, and are reported
        label_ids = {label: number for number, label in enumerate(labels)}
        if self.kind == "several":
            matrices = [np.zeros((len(gold), len(labels)), bool) for _ in range(2)]
            for matrix, values in zip(matrices, (gold, predicted_labels), strict=True):
                for row, label in zip(matrix, values, strict=True):
                    row[[label_ids[name] for name in _label_tuple(label)]] = True
            return metrics.multi_label_metrics(matrices[0], matrices[1], labels) | {"unseen": unseen}
        true, predicted = (
            np.array([label_ids[str(name)] for name in values], np.int64) for values in (gold, predicted_labels)
        )
        return metrics.classification_metrics(true, predicted, labels) | {"unseen": unseen}


def _label_tuple(label: Any) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _natural_sort_key(label: str) -> tuple[Any, ...]:
    """Sorts numeric labels by value, before others."""
    return (0, int(label), label) if label.isascii() and label.isdecimal() else (1, 0, label)


def _window_starts(length: int, room: int, most: int) -> list[int]:
    """Starts of windows in a long text: adjacent, or evenly spaced if there would be too many."""
    if length <= room:
        return [0]
    count = -(-length // room)
    if count <= most:
        return [min(number * room, length - room) for number in range(count)]
    return np.linspace(0, length - room, most).round().astype(int).tolist()


# --- Sentence pairs: paraphrase, entailment, question and answer ---


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
    """Classification of text pairs by a cross-encoder.

    Attributes:
        ordered: Whether the relation is asymmetric, as entailment; causal models encode symmetric pairs in both orders.
    """

    texts: ClassVar[int] = 2

    ordered: bool = False

    @classmethod
    def from_examples(cls, examples: Sequence[LabeledExample], **options: Any) -> Classification:
        labels = {str(example.label).lower() for example in examples}
        ordered = any(word in label for label in labels for word in ORDERED_PAIR_WORDS)
        return super().from_examples(examples, **{"ordered": ordered, **options})

    def encode(
        self,
        examples: Sequence[LabeledExample],
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        is_training: bool = False,
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([text for example in examples for text in example.texts])
        token_ids = np.split(ids, np.cumsum(counts)[:-1])
        both_orders = input_format.both_orders and not self.ordered
        rows, num_truncated, max_tokens = [], 0, input_format.max_text_tokens(2)
        for index in range(len(examples)):
            first, second = truncate_pair(token_ids[2 * index], token_ids[2 * index + 1], max_tokens)
            num_truncated += len(token_ids[2 * index]) + len(token_ids[2 * index + 1]) - len(first) - len(second)
            rows.append(ExampleRow(index, *input_format.make_row(first, second)))
            if both_orders:
                rows.append(ExampleRow(index, *input_format.make_row(second, first)))
        return ExampleRows.from_rows(
            rows,
            uses_segments=input_format.segments,
            grouped=both_orders,
            example_targets=self._targets(examples),
            num_truncated=num_truncated,
        )


def truncate_pair(first: np.ndarray, second: np.ndarray, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Truncate the longer text until both fit into `max_tokens`."""
    spare = max_tokens - len(first) - len(second)
    if spare >= 0:
        return first, second
    shorter = min(len(first), len(second))
    if 2 * shorter > max_tokens:
        return first[: max_tokens - max_tokens // 2], second[: max_tokens // 2]
    remaining = max_tokens - shorter
    return (first[:remaining], second) if len(first) > len(second) else (first, second[:remaining])
