"""How good answers are: labels, several labels at once, and numbers, against what people said.

Labels are given as numbers into a list of names. Where a figure has nothing to divide by (a class that nobody
predicted, numbers that are all alike) it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forebear.errors import BadInput

Average = Literal["macro", "micro", "weighted"]
MOST_SHOWN = 200  # classes of which the table of confusions is worth its room


@dataclass(frozen=True)
class Counts:
    """Of each class: how often it was said rightly, how often it was said at all, how often it was meant."""

    hits: np.ndarray
    said: np.ndarray
    meant: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        return _ratio(self.hits, self.said)

    @property
    def recall(self) -> np.ndarray:
        return _ratio(self.hits, self.meant)

    @property
    def f1(self) -> np.ndarray:
        return _ratio(2 * self.hits, self.said + self.meant)

    def average_f1(self, average: Average) -> float:
        """Of all classes alike (macro), of all cases together (micro), or of classes by how often they are meant."""
        if average == "micro":
            return float(_ratio(2 * self.hits.sum(), self.said.sum() + self.meant.sum()))
        if average == "weighted":
            return float(_ratio((self.f1 * self.meant).sum(), self.meant.sum()))
        return float(self.f1.mean()) if len(self.f1) else 0.0

    def occurring(self) -> Counts:
        """Without the classes that were neither said nor meant: they would lower a mean for nothing."""
        there = (self.said + self.meant) > 0
        return Counts(self.hits[there], self.said[there], self.meant[there])

    def facts(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        figures = zip(names, self.precision.tolist(), self.recall.tolist(), self.f1.tolist(), self.meant.tolist(),
                      strict=True)  # fmt: skip
        return {
            name: {"precision": precision, "recall": recall, "f1": f1, "support": int(support)}
            for name, precision, recall, f1, support in figures
        }


def of_labels(true: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """One label a case. Means are over the classes that occur in either; rows of `confusion` are what was meant."""
    true, predicted = _ids(true, predicted, len(labels))
    counts = counted(true, predicted, len(labels))
    occurring = counts.occurring()
    return {
        "accuracy": accuracy(true, predicted),
        "macro_f1": occurring.average_f1("macro"),
        "micro_f1": occurring.average_f1("micro"),
        "weighted_f1": occurring.average_f1("weighted"),
        "mcc": matthews(counts, len(true)),
        "examples": len(true),
        "per_class": counts.facts(labels),
        "confusion": confusion(true, predicted, len(labels)).tolist() if len(labels) <= MOST_SHOWN else None,
    }


def of_label_sets(true: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Any number of labels a case, (N, L) yes or no. The macro mean is over all labels."""
    true, predicted = np.asarray(true, bool), np.asarray(predicted, bool)
    if true.shape != predicted.shape or true.shape[1:] != (len(labels),):
        raise BadInput(f"answers of the shape {predicted.shape}, not {true.shape}, for {len(labels)} labels")
    _refuse_nothing(len(true))
    counts = Counts((true & predicted).sum(0), predicted.sum(0), true.sum(0))
    return {
        "exact_match": float((true == predicted).all(1).mean()),
        "micro_f1": counts.average_f1("micro"),
        "macro_f1": counts.average_f1("macro"),
        "weighted_f1": counts.average_f1("weighted"),
        "examples": len(true),
        "per_class": counts.facts(labels),
    }


def of_numbers(true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    true, predicted = _numbers(true, predicted)
    return {
        "pearson": pearson(true, predicted),
        "spearman": spearman(true, predicted),
        "rmse": float(np.sqrt(np.mean((true - predicted) ** 2))),
        "mae": float(np.mean(np.abs(true - predicted))),
        "examples": len(true),
    }


def accuracy(true: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(np.asarray(true) == np.asarray(predicted)))


def confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes) how often what was meant (the row) was taken for what (the column)."""
    true, predicted = _ids(true, predicted, classes)
    return np.bincount(true * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def counted(true: np.ndarray, predicted: np.ndarray, classes: int) -> Counts:
    true, predicted = _ids(true, predicted, classes)
    hits = np.bincount(true[true == predicted], minlength=classes)
    return Counts(hits, np.bincount(predicted, minlength=classes), np.bincount(true, minlength=classes))


def matthews(counts: Counts, cases: int) -> float:
    """Matthews' correlation of what was said and what was meant, for any number of classes: 1 right, 0 by chance."""
    # In floating numbers: the fourth power of a million cases is more than 64 bits hold.
    said, meant, every = counts.said.astype(float), counts.meant.astype(float), float(cases)
    together = counts.hits.sum() * every - said @ meant
    alone = (every**2 - said @ said) * (every**2 - meant @ meant)
    return float(together / np.sqrt(alone)) if alone > 0 else 0.0


def pearson(true: np.ndarray, predicted: np.ndarray) -> float:
    """The correlation of two series; 0 where one of them never changes."""
    true, predicted = _numbers(true, predicted)
    if unchanging(true) or unchanging(predicted):  # a mean of equals need not equal them
        return 0.0
    left, right = _direction(true), _direction(predicted)
    return float(np.clip(left @ right, -1.0, 1.0))


def unchanging(numbers: np.ndarray) -> bool:
    """Whether all are equal, so that no correlation is defined."""
    return bool(numbers.min() == numbers.max())


def spearman(true: np.ndarray, predicted: np.ndarray) -> float:
    """The correlation of ranks; equals share the mean of theirs."""
    true, predicted = _numbers(true, predicted)
    return pearson(_ranks(true), _ranks(predicted))


def _direction(numbers: np.ndarray) -> np.ndarray:
    """The series around its mean, with length 1; scaled first, so that no square is too large or too small."""
    numbers = np.ldexp(numbers, -np.frexp(np.abs(numbers).max())[1])  # a power of two: what differs stays different
    away = numbers - numbers.mean()
    away /= np.abs(away).max()
    return away / np.sqrt(away @ away)


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, which, often = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(often) - (often - 1) / 2)[which]


def _ratio(part: Any, whole: Any) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=np.asarray(whole) != 0)


def _ids(true: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    true, predicted = np.asarray(true), np.asarray(predicted)
    _refuse_unlike(true, predicted)
    for ids in (true, predicted):
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= classes:
            raise BadInput(f"a label that is none of the numbers 0 to {classes - 1}")
    return true.astype(np.int64, copy=False), predicted.astype(np.int64, copy=False)


def _numbers(true: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    true, predicted = np.asarray(true, np.float64), np.asarray(predicted, np.float64)
    _refuse_unlike(true, predicted)
    if not (np.isfinite(true).all() and np.isfinite(predicted).all()):
        raise BadInput("infinite, or no number at all, cannot be measured", remedy="look for NaN in data and answers")
    return true, predicted


def _refuse_unlike(true: np.ndarray, predicted: np.ndarray) -> None:
    if true.ndim != 1 or true.shape != predicted.shape:
        raise BadInput(f"{predicted.shape} answers to {true.shape} questions")
    _refuse_nothing(len(true))


def _refuse_nothing(cases: int) -> None:
    if not cases:
        raise BadInput("there are no examples to measure with", remedy="give at least one")
