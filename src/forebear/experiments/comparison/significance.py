"""What of a score is chance: each test example's part in it, how far a score may be off, and two scores beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

import numpy as np

from forebear.data.labeled.tag_schemes import entity_spans
from forebear.tasks.classification import Classification
from forebear.tasks.metrics import answer_language, answer_score
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task

SURE = 1.96  # standard errors on either side: 95 of 100 such intervals hold the truth


@dataclass(frozen=True)
class ScoreDifference:
    """How much more one scores than another, and how much of that chance alone may make of nothing."""

    value: float
    noise: float

    @property
    def is_significant(self) -> bool:
        """Whether it is more than chance."""
        return abs(self.value) > self.noise


def example_scores(task: Task, examples: Sequence[Any], answers: Sequence[Any]) -> np.ndarray:
    """(N,) each example's part in the task's score: their mean is the score, their spread is what chance makes of it.

    Where the score is a mean (of right answers, or of each answer's F1) these are what is averaged. An F1 over all
    examples, or a rank correlation, is no mean; its parts are the score plus each example's influence on it (the
    infinitesimal jackknife), whose spread over √N is the score's standard error.
    """
    both = list(zip(examples, answers, strict=True))
    if isinstance(task, SequenceTagging) and task.is_plain:
        right = [sum(map(eq, one.tags or (), answer.tags)) for one, answer in both]
        return _share_parts(np.array(right, float), np.array([len(one.tags or ()) for one in examples], float))
    if isinstance(task, SequenceTagging):
        found = [({*entity_spans(one.tags or ())}, {*entity_spans(answer.tags)}) for one, answer in both]
        return _f1_parts(found)
    if isinstance(task, QuestionAnswering):
        golds = [tuple(span.text for span in one.predictions or ()) for one in examples]
        language = answer_language(golds)
        return np.array(
            [answer_score(gold, answer.text, language)[1] for gold, (_, answer) in zip(golds, both, strict=True)]
        )
    if isinstance(task, MultipleChoice):
        return np.array([float(one.right == answer.choice) for one, answer in both])
    assert isinstance(task, Classification)
    if task.kind == "several":
        return _f1_parts([({*one.label}, {*answer.label}) for one, answer in both])
    if task.kind == "number":
        return _rank_parts(np.array([float(one.label) for one in examples]), np.array([it.label for it in answers]))
    return np.array([float(str(one.label) == answer.label) for one, answer in both])


def _share_parts(right: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Of words that were right and words asked in each example: A + (right − A · asked) / mean of asked."""
    if not asked.any():
        return np.zeros(len(asked))
    whole = right.sum() / asked.sum()
    return whole + (right - whole * asked) / asked.mean()


def _f1_parts(found: Sequence[tuple[set[Any], set[Any]]]) -> np.ndarray:
    """Of what was meant and what was said in each example: F + (2 hits − F · (said + meant)) / mean of said + meant."""
    hits = np.array([len(meant & said) for meant, said in found], float)
    both = np.array([len(meant) + len(said) for meant, said in found], float)
    if not both.any():
        return np.zeros(len(found))
    whole = 2 * hits.sum() / both.sum()
    return whole + (2 * hits - whole * both) / both.mean()


def _rank_parts(wanted: np.ndarray, said: np.ndarray) -> np.ndarray:
    """ρ + x·y − ρ/2 · (x² + y²), where x and y are ranks in units of their spread: Pearson's influence, of ranks."""
    x, y = (_standing(values) for values in (wanted, said))
    rho = float((x * y).mean())
    return rho + x * y - rho / 2 * (x**2 + y**2)


def _standing(values: np.ndarray) -> np.ndarray:
    """Ranks around 0, equal values in the middle of theirs, with a spread of 1; all 0 where all values are equal."""
    distinct, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place] - (len(values) + 1) / 2
    return ranks / ranks.std() if len(distinct) > 1 else ranks


def confidence_interval(values: np.ndarray) -> tuple[float, float]:
    """Where the score would lie on very many examples like these, with 95 % confidence.

    Wilson's interval where every part is a share (it holds for few examples too, and where all are right), else the
    normal one.
    """
    count, mean = len(values), float(values.mean())
    if values.min() >= 0 and values.max() <= 1:
        weight = SURE**2 / count
        middle = (mean + weight / 2) / (1 + weight)
        half = SURE / (1 + weight) * math.sqrt(mean * (1 - mean) / count + weight / (4 * count))
        return max(0.0, middle - half), min(1.0, middle + half)
    half = SURE * float(values.std()) / math.sqrt(count)
    return mean - half, mean + half


def score_difference(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> ScoreDifference:
    """Of two that answered the same examples, each with one or more seeds: (N,) parts for each seed.

    Pairs are compared, as McNemar does: what is hard for both says nothing about which is better, and if neither were,
    each example that only one has right might as well be the other's. One such example more either way is added, so
    that few never seem sure. With several seeds their spread counts too.
    """
    apart = np.mean(one, axis=0) - np.mean(other, axis=0)
    variance = (float((apart**2).sum()) + 2) / len(apart) ** 2
    variance += sum(_spread(side) for side in (one, other))
    return ScoreDifference(float(apart.mean()), SURE * math.sqrt(variance))


def _spread(seeds: Sequence[np.ndarray]) -> float:
    """The variance of a mean over seeds; with one seed nothing is known of it."""
    scores = [float(values.mean()) for values in seeds]
    return float(np.var(scores, ddof=1)) / len(scores) if len(scores) > 1 else 0.0
