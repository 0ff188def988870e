"""Text classification (single-label, multi-label, regression) and sentence-pair classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from forebear.data.labeled.examples import LabeledExample
from forebear.errors import InputError
from forebear.numerics import softmax
from forebear.objectives.batch import IGNORE_INDEX, TargetArrays, is_supervised
from forebear.objectives.input_format import InputFormat
from forebear.tasks import metrics
from forebear.tasks.task import AnswerComparison, HeadSpec, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer

Examples = Sequence[LabeledExample]

LabelType = Literal["one", "several", "number"]


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
    """Classification of single texts."""

    verb: ClassVar[str] = "classify"
    num_texts: ClassVar[int] = 1
    pools_rows: ClassVar[bool] = True

    labels: tuple[str, ...] = ()  # in id order; empty for regression
    kind: LabelType = "one"  # one label, several, or a number
    temperature: float = 1.0  # calibrated divisor of logits
    centre: float = 0.0  # mean of numeric labels
    spread: float = 1.0  # standard deviation of numeric labels; the network predicts standardized numbers
    windows: int = 8  # maximum number of windows of a text that exceeds the maximum length

    @classmethod
    def from_examples(cls, examples: Examples, **options: Any) -> Classification:
        labels = [example.label for example in examples if example.label is not None]
        if not labels:
            raise InputError("no example has a label", hint="name the column with --label-column")
        if all(isinstance(label, float) for label in labels):
            values = np.array(labels, float)
            return cls(kind="number", centre=float(values.mean()), spread=float(values.std()) or 1.0, **options)
        is_multi_label = any(isinstance(label, tuple) for label in labels)
        names = {name for label in labels for name in _label_tuple(label)}
        if (len(names) < 2 and not is_multi_label) or not names:
            message = f"there is only one label: {', '.join(names) or 'none'}"
            raise InputError(message, hint="give examples of at least two classes; nothing can be told apart otherwise")
        # Numeric labels are sorted by value, before others.
        numeric_names = {name for name in names if name.isascii() and name.isdecimal()}
        sorted_names = (*sorted(numeric_names, key=lambda name: (int(name), name)), *sorted(names - numeric_names))
        return cls(labels=sorted_names, kind="several" if is_multi_label else "one", **options)

    @property
    def metric(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - it depends on the kind
        return {"one": "accuracy", "several": "micro_f1", "number": "spearman"}[self.kind]

    @property
    def linear_kind(self) -> tuple[str, bool]:  # pyright: ignore[reportIncompatibleVariableOverride] - so does this
        return {"one": "label", "several": "labels", "number": "number"}[self.kind], self.num_texts == 2

    def encode(
        self, examples: Examples, tokenizer: Tokenizer, input_format: InputFormat, *, is_training: bool = False
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([text for example in examples for text in example.texts[: self.num_texts]])
        token_ids = iter(np.split(ids, np.cumsum(counts)[:-1]))
        rows, num_truncated = [], 0
        for index in range(len(examples)):
            sequences, num_dropped = self._sequences(tuple(islice(token_ids, self.num_texts)), input_format)
            rows += [ExampleRow(index, *input_format.make_row(*sequence)) for sequence in sequences]
            num_truncated += num_dropped
        return ExampleRows.from_rows(
            rows,
            uses_segments=input_format.segments,
            groups_rows=len(rows) > len(examples),
            example_targets=self._targets(examples),
            num_truncated=num_truncated,
        )

    def _sequences(
        self, texts: tuple[np.ndarray, ...], input_format: InputFormat
    ) -> tuple[list[tuple[np.ndarray, ...]], int]:
        """The sequences of an example, each of one or two texts, and the number of tokens in none of them.

        Windows of a long text are adjacent, or evenly spaced if there would be too many.
        """
        (text,), max_tokens = texts, input_format.max_text_tokens(1)
        num_windows, last_start = -(-len(text) // max_tokens), max(0, len(text) - max_tokens)
        if num_windows > self.windows:
            window_starts = np.linspace(0, last_start, self.windows).round().astype(int).tolist()
        else:
            window_starts = [min(index * max_tokens, last_start) for index in range(max(1, num_windows))]
        windows = [(text[start : start + max_tokens],) for start in window_starts]
        return windows, max(0, len(text) - max_tokens * len(window_starts))

    def _targets(self, examples: Examples) -> TargetArrays:
        if self.kind == "number":
            values = [np.nan if example.label is None else example.label for example in examples]
            return {"label": ((np.array(values, np.float32) - self.centre) / self.spread).astype(np.float32)}
        label_ids = {label: index for index, label in enumerate(self.labels)}
        if self.kind == "one":
            ids = [label_ids.get(str(example.label), IGNORE_INDEX) for example in examples]
            return {"label": np.array(ids, np.int64)}
        targets = np.full((len(examples), len(self.labels)), IGNORE_INDEX, np.int64)
        for row, example in zip(targets, examples, strict=True):
            if example.label is not None:
                row[:] = 0
                row[[label_ids[label] for label in _label_tuple(example.label) if label in label_ids]] = 1
        return {"label": targets}

    def build_heads(self, head_spec: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import LabelHead

        head = LabelHead(
            head_spec.width,
            self.num_classes,
            head_spec.pooling,
            kind=self.kind,
            dense=head_spec.dense,
            mixture=head_spec.make_mix(),
            dropout=head_spec.dropout,
            class_weights=head_spec.class_weights,
        )
        return {"label": head}

    def predictions(self, examples: Examples, rows: ExampleRows, logits: Logits) -> list[LabelPrediction]:
        predictions = []
        for example, scores in zip(examples, logits["label"], strict=True):
            if self.kind == "number":
                value = float(scores[0]) * self.spread + self.centre
                predictions.append(LabelPrediction(example.texts, value, {}))
                continue
            probabilities = dict(zip(self.labels, self.probabilities(scores).tolist(), strict=True))
            if self.kind == "one":
                predicted = max(self.labels, key=probabilities.__getitem__)
            else:
                predicted = tuple(label for label, probability in probabilities.items() if probability > 0.5)
            predictions.append(LabelPrediction(example.texts, predicted, probabilities))
        return predictions

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(labels,) probabilities of one example."""
        scores = logits.astype(np.float64) / self.temperature
        if self.kind == "several":
            return 1 / (1 + np.exp(-scores))
        return softmax(scores)

    def compare_to_gold(self, example: LabeledExample, prediction: LabelPrediction) -> AnswerComparison:
        if self.kind == "number":
            expected, predicted = float(example.label or 0.0), float(prediction.label)  # pyright: ignore[reportArgumentType]
            return AnswerComparison(abs(expected - predicted) < self.spread / 2, f"{expected:g}", f"{predicted:.4g}")
        expected, predicted = _label_tuple(example.label), _label_tuple(prediction.label)
        probability = prediction.probabilities[predicted[0]] if self.kind == "one" else None
        return AnswerComparison({*expected} == {*predicted}, ",".join(expected), ",".join(predicted), probability)

    def calibrate(self, examples: Examples, rows: ExampleRows, logits: Logits) -> Classification:
        """Fit the temperature to the labels of the dev set."""
        targets = rows.targets["label"]
        supervised = is_supervised(targets)
        if self.kind == "number" or not supervised.any():
            return self
        label_logits = np.stack(logits["label"])[supervised]
        return replace(self, temperature=metrics.fit_temperature(label_logits, targets[supervised]))

    def evaluate(self, examples: Examples, predictions: Sequence[LabelPrediction]) -> dict[str, Any]:
        labeled = metrics.labeled_pairs(examples, predictions)
        gold, predicted_labels = (
            [example.label for example, _ in labeled],
            [prediction.label for _, prediction in labeled],
        )
        if self.kind == "number":
            return metrics.regression_metrics(np.array(gold, float), np.array(predicted_labels, float))
        unseen_labels = sorted({name for label in gold for name in _label_tuple(label)} - {*self.labels})
        labels = (*self.labels, *unseen_labels)  # unseen in training: they count as errors, and are reported
        label_ids = {label: index for index, label in enumerate(labels)}
        if self.kind == "several":
            matrices = [np.zeros((len(gold), len(labels)), bool) for _ in range(2)]
            for matrix, values in zip(matrices, (gold, predicted_labels), strict=True):
                for row, label in zip(matrix, values, strict=True):
                    row[[label_ids[name] for name in _label_tuple(label)]] = True
            return metrics.multi_label_metrics(matrices[0], matrices[1], labels) | {"unseen": unseen_labels}
        ids = ([label_ids[str(name)] for name in values] for values in (gold, predicted_labels))
        gold_ids, predicted_ids = (np.array(values, np.int64) for values in ids)
        return metrics.classification_metrics(gold_ids, predicted_ids, labels) | {"unseen": unseen_labels}


def _label_tuple(label: Any) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


# --- Sentence pairs: paraphrase, entailment, question and prediction ---

# Parts of the labels of asymmetric relations.
ORDERED_PAIR_WORDS = ("entail", "contradict", "neutral", "follow", "蕴", "矛盾", "中立")


@dataclass(frozen=True)
class PairClassification(Classification):
    """Classification of text pairs by a cross-encoder."""

    num_texts: ClassVar[int] = 2

    # Whether the relation is asymmetric, as entailment; causal models encode symmetric pairs in both orders.
    ordered: bool = False

    @classmethod
    def from_examples(cls, examples: Examples, **options: Any) -> Classification:
        labels = {str(example.label).lower() for example in examples}
        ordered = any(word in label for label in labels for word in ORDERED_PAIR_WORDS)
        return super().from_examples(examples, **{"ordered": ordered, **options})

    def _sequences(
        self, texts: tuple[np.ndarray, ...], input_format: InputFormat
    ) -> tuple[list[tuple[np.ndarray, ...]], int]:
        pair = truncate_pair(texts[0], texts[1], input_format.max_text_tokens(2))
        sequences = [pair, pair[::-1]] if input_format.both_orders and not self.ordered else [pair]
        return sequences, sum(map(len, texts)) - sum(map(len, pair))


def truncate_pair(first: np.ndarray, second: np.ndarray, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Truncate the longer text until both fit into `max_tokens`."""
    num_free = max_tokens - len(first) - len(second)
    if num_free >= 0:
        return first, second
    shorter_length = min(len(first), len(second))
    if 2 * shorter_length > max_tokens:
        return first[: max_tokens - max_tokens // 2], second[: max_tokens // 2]
    max_longer = max_tokens - shorter_length
    return (first[:max_longer], second) if len(first) > len(second) else (first, second[:max_longer])
