"""Confidence intervals of scores and paired differences between models, from per-example scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

import numpy as np

from forebear.data.labeled.tag_schemes import entity_spans
from forebear.numerics import is_constant, ranks
from forebear.tasks.classification import Classification
from forebear.tasks.metrics import answer_language, answer_score
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task

Z_95 = 1.96  # standard errors of a 95% confidence interval


@dataclass(frozen=True)
class ScoreDifference:
    """The difference between two scores and its 95% noise level."""

    value: float
    noise: float

    @property
    def is_significant(self) -> bool:
        """Whether the difference exceeds the noise."""
        return abs(self.value) > self.noise


def example_scores(task: Task, examples: Sequence[Any], answers: Sequence[Any]) -> np.ndarray:
    """(N,) each example's part in the task's score: their mean is the score, their spread its sampling error.

    If the score is a mean (accuracy, or the mean F1 of answers), these are the values averaged. F1 over all examples
    and rank correlation are not means; their parts are the score plus each example's influence on it (the
    infinitesimal jackknife), whose standard deviation over √N is the standard error of the score.
    """
    pairs = list(zip(examples, answers, strict=True))
    if isinstance(task, SequenceTagging) and task.is_plain:
        num_correct = [sum(map(eq, example.tags or (), answer.tags)) for example, answer in pairs]
        return _share_parts(
            np.array(num_correct, float), np.array([len(example.tags or ()) for example in examples], float)
        )
    if isinstance(task, SequenceTagging):
        spans = [({*entity_spans(example.tags or ())}, {*entity_spans(answer.tags)}) for example, answer in pairs]
        return _f1_parts(spans)
    if isinstance(task, QuestionAnswering):
        golds = [tuple(span.text for span in example.answers or ()) for example in examples]
        language = answer_language(golds)
        return np.array(
            [answer_score(gold, answer.text, language)[1] for gold, (_, answer) in zip(golds, pairs, strict=True)]
        )
    if isinstance(task, MultipleChoice):
        return np.array([float(example.right == answer.choice) for example, answer in pairs])
    assert isinstance(task, Classification)
    if task.kind == "several":
        return _f1_parts([({*example.label}, {*answer.label}) for example, answer in pairs])
    if task.kind == "number":
        return _rank_parts(
            np.array([float(example.label) for example in examples]),
            np.array([prediction.label for prediction in answers]),
        )
    return np.array([float(str(example.label) == answer.label) for example, answer in pairs])


def _share_parts(num_correct: np.ndarray, num_asked: np.ndarray) -> np.ndarray:
    """Parts of a micro-average A: A + (correct − A · asked) / mean of asked."""
    if not num_asked.any():
        return np.zeros(len(num_asked))
    accuracy = num_correct.sum() / num_asked.sum()
    return accuracy + (num_correct - accuracy * num_asked) / num_asked.mean()


def _f1_parts(label_sets: Sequence[tuple[set[Any], set[Any]]]) -> np.ndarray:
    """Parts of micro F1 from (gold, predicted) sets: F + (2 hits − F · n) / mean of n, where n = gold + predicted."""
    hits = np.array([len(gold & predicted) for gold, predicted in label_sets], float)
    num_labels = np.array([len(gold) + len(predicted) for gold, predicted in label_sets], float)
    if not num_labels.any():
        return np.zeros(len(label_sets))
    f1 = 2 * hits.sum() / num_labels.sum()
    return f1 + (2 * hits - f1 * num_labels) / num_labels.mean()


def _rank_parts(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Parts of Spearman's ρ: ρ + x·y − ρ/2 · (x² + y²) with standardized ranks x and y (Pearson's influence)."""
    gold_ranks, predicted_ranks = (_standardized_ranks(values) for values in (gold, predicted))
    rho = float((gold_ranks * predicted_ranks).mean())
    return rho + gold_ranks * predicted_ranks - rho / 2 * (gold_ranks**2 + predicted_ranks**2)


def _standardized_ranks(values: np.ndarray) -> np.ndarray:
    """Average ranks, centered and scaled to standard deviation 1; all 0 if all values are equal."""
    centered = ranks(values) - (len(values) + 1) / 2
    return centered if is_constant(values) else centered / centered.std()


def confidence_interval(values: np.ndarray) -> tuple[float, float]:
    """95% confidence interval of the mean.

    Wilson's interval if all values are in [0, 1] (valid for few examples and for perfect scores), else the normal
    approximation.
    """
    count, mean = len(values), float(values.mean())
    if values.min() >= 0 and values.max() <= 1:
        weight = Z_95**2 / count
        center = (mean + weight / 2) / (1 + weight)
        half = Z_95 / (1 + weight) * math.sqrt(mean * (1 - mean) / count + weight / (4 * count))
        return max(0.0, center - half), min(1.0, center + half)
    half = Z_95 * float(values.std()) / math.sqrt(count)
    return mean - half, mean + half


def score_difference(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> ScoreDifference:
    """Paired difference of two models on the same examples: (N,) per-example scores for each seed.

    Examples are compared in pairs, as in McNemar's test. One discordant example is added either way, so that small test
    sets never look certain. With several seeds, their variance is added.
    """
    differences = np.mean(first, axis=0) - np.mean(second, axis=0)
    variance = (float((differences**2).sum()) + 2) / len(differences) ** 2
    variance += sum(_mean_variance(seeds) for seeds in (first, second))
    return ScoreDifference(float(differences.mean()), Z_95 * math.sqrt(variance))


def _mean_variance(seeds: Sequence[np.ndarray]) -> float:
    """Variance of the mean over seeds; 0 with one seed, where it is unknown."""
    scores = [float(values.mean()) for values in seeds]
    return float(np.var(scores, ddof=1)) / len(scores) if len(scores) > 1 else 0.0
