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
    """The difference between two scores and its 95% margin of error."""

    value: float
    margin: float

    @property
    def is_significant(self) -> bool:
        """Whether the difference exceeds the margin."""
        return abs(self.value) > self.margin


def example_scores(task: Task, examples: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """(N,) a value per example: the mean is the score, the standard deviation / √N its standard error.

    If the score is a mean (accuracy, or the mean F1 of answers), these are the values averaged. F1 over all examples
    and rank correlation are not means; their pseudo-values are the score plus each example's influence on it (the
    infinitesimal jackknife).
    """
    pairs = list(zip(examples, predictions, strict=True))
    if isinstance(task, SequenceTagging) and task.is_plain:
        num_correct = [sum(map(eq, example.tags or (), prediction.tags)) for example, prediction in pairs]
        return _ratio_pseudo_values(num_correct, [len(example.tags or ()) for example in examples])
    if isinstance(task, SequenceTagging):
        spans = ([{*entity_spans(item.tags or ())} for item in items] for items in (examples, predictions))
        return _f1_pseudo_values(list(zip(*spans, strict=True)))
    if isinstance(task, QuestionAnswering):
        golds = [tuple(span.text for span in example.answers or ()) for example in examples]
        language, answers = answer_language(golds), zip(golds, predictions, strict=True)
        return np.array([answer_score(gold, prediction.text, language)[1] for gold, prediction in answers])
    if isinstance(task, MultipleChoice):
        return np.array([float(example.answer_index == prediction.choice) for example, prediction in pairs])
    assert isinstance(task, Classification)
    if task.kind == "several":
        return _f1_pseudo_values([({*example.label}, {*prediction.label}) for example, prediction in pairs])
    if task.kind == "number":
        gold = np.array([float(example.label) for example in examples])
        return _rank_pseudo_values(gold, np.array([prediction.label for prediction in predictions]))
    return np.array([float(str(example.label) == prediction.label) for example, prediction in pairs])


def _ratio_pseudo_values(numerators: Sequence[int], denominators: Sequence[int]) -> np.ndarray:
    """Pseudo-values of R, the ratio of the sums: R + (numerator − R · denominator) / mean of denominators."""
    num, den = np.array(numerators, float), np.array(denominators, float)
    if not den.any():
        return np.zeros(len(den))
    ratio = num.sum() / den.sum()
    return ratio + (num - ratio * den) / den.mean()


def _f1_pseudo_values(label_sets: Sequence[tuple[set[Any], set[Any]]]) -> np.ndarray:
    """Pseudo-values of micro F1 from (gold, predicted) sets: the ratio of 2 hits to gold + predicted."""
    double_hits = [2 * len(gold & predicted) for gold, predicted in label_sets]
    return _ratio_pseudo_values(double_hits, [len(gold) + len(predicted) for gold, predicted in label_sets])


def _rank_pseudo_values(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Pseudo-values of Spearman's ρ: ρ + x·y − ρ/2 · (x² + y²), x and y standardized ranks (Pearson's influence)."""

    def standardized_ranks(values: np.ndarray) -> np.ndarray:
        centered = ranks(values) - (len(values) + 1) / 2
        return centered if is_constant(values) else centered / centered.std()  # all 0 if all values are equal

    x, y = standardized_ranks(gold), standardized_ranks(predicted)
    rho = float((x * y).mean())
    return rho + x * y - rho / 2 * (x**2 + y**2)


def confidence_interval(values: np.ndarray) -> tuple[float, float]:
    """95% confidence interval of the mean: the normal approximation, or Wilson's if all values are in [0, 1].

    Wilson's is valid for few examples and for perfect scores.
    """
    count, mean = len(values), float(values.mean())
    if values.min() >= 0 and values.max() <= 1:
        weight = Z_95**2 / count
        center = (mean + weight / 2) / (1 + weight)
        half_width = Z_95 / (1 + weight) * math.sqrt(mean * (1 - mean) / count + weight / (4 * count))
        return max(0.0, center - half_width), min(1.0, center + half_width)
    half_width = Z_95 * float(values.std()) / math.sqrt(count)
    return mean - half_width, mean + half_width


def score_difference(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> ScoreDifference:
    """Paired difference of two models on the same examples: (N,) per-example scores for each seed.

    Examples are compared in pairs, as in McNemar's test. One discordant example is added either way, so that small test
    sets never look certain. With several seeds, their variance is added.
    """
    differences = np.mean(first, axis=0) - np.mean(second, axis=0)
    variance = (float((differences**2).sum()) + 2) / len(differences) ** 2
    for scores_by_seed in (first, second):
        if len(scores_by_seed) > 1:  # with one seed, the variance of the mean over seeds is unknown
            variance += float(np.var([scores.mean() for scores in scores_by_seed], ddof=1)) / len(scores_by_seed)
    return ScoreDifference(float(differences.mean()), Z_95 * math.sqrt(variance))
