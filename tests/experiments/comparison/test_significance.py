"""Scores per example, confidence intervals and significance, against bootstrap, Wilson and McNemar."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample, TaggedExample
from forebear.experiments.comparison.significance import confidence_interval, example_scores, score_difference
from forebear.tasks.classification import Classification, LabelPrediction
from forebear.tasks.multiple_choice import ChoicePrediction, MultipleChoice
from forebear.tasks.question_answering import AnswerCandidate, AnswerPrediction, QuestionAnswering
from forebear.tasks.tagging import SequenceTagging, TagPrediction

RNG = np.random.default_rng(5)


def single_label(count: int = 80):
    gold, predicted = (RNG.choice(["好", "坏", "中"], count).tolist() for _ in range(2))
    examples = [LabeledExample((f"文{number}",), label) for number, label in enumerate(gold)]
    return Classification(("中", "坏", "好")), examples, [LabelPrediction((), label, {}) for label in predicted]


def multi_label(count: int = 80):
    sets = [tuple(label for label in "abcd" if RNG.random() < 0.4) for _ in range(2 * count)]
    examples = [LabeledExample(("x",), label) for label in sets[:count]]
    return (
        Classification(tuple("abcd"), kind="several"),
        examples,
        [LabelPrediction((), label_set, {}) for label_set in sets[count:]],
    )


def regression(count: int = 80):
    gold = RNG.normal(size=count).round(1)  # with ties
    predicted = gold + RNG.normal(size=count)
    examples = [LabeledExample(("x",), float(value)) for value in gold]
    return Classification(kind="number"), examples, [LabelPrediction((), float(value), {}) for value in predicted]


def tagging(count: int = 60):
    def sentence() -> tuple[str, ...]:
        indices = RNG.integers(0, 4, 4)
        pieces = (("O",), ("S-PER",), ("B-LOC", "E-LOC"), ("O", "O"))
        return tuple(tag for number in indices for tag in pieces[number])

    sentences = [sentence() for _ in range(count)]
    predicted = [tuple(RNG.permutation(tags)) if RNG.random() < 0.4 else tags for tags in sentences]
    examples = [TaggedExample(tuple("x" * len(tags_of_sentence)), tags_of_sentence) for tags_of_sentence in sentences]
    return (
        SequenceTagging(("O",)),
        examples,
        [TagPrediction((), tuple(map(str, tags_of_sentence)), (), (), np.zeros(0)) for tags_of_sentence in predicted],
    )


def question_answering(count: int = 60):
    texts = ["the red house", "a red house", "house", "blue", "", "the blue house by the sea"]
    examples, predictions = [], []
    for number in range(count):
        gold = texts[number % 6]
        examples.append(QuestionExample("?", "x", (AnswerSpan(0, gold),) if gold else ()))
        text = texts[int(RNG.integers(0, 6))]
        predictions.append(AnswerPrediction("?", "x", AnswerCandidate(text, 0, 1.0) if text else None, (), 0.0, ()))
    return QuestionAnswering(unanswered=True), examples, predictions


def multiple_choice(count: int = 60):
    gold, predicted = RNG.integers(0, 3, count), RNG.integers(0, 3, count)
    examples = [ChoiceExample("x", ("a", "b", "c"), int(index)) for index in gold]
    return (
        MultipleChoice(),
        examples,
        [ChoicePrediction("x", ("a", "b", "c"), int(index), (1.0, 0.0, 0.0)) for index in predicted],
    )


CASES = [single_label, multi_label, regression, tagging, question_answering, multiple_choice]


@pytest.mark.parametrize("make_case", CASES)
def test_mean_of_example_scores_is_the_task_score(make_case):
    task, examples, predictions = make_case()
    scores = example_scores(task, examples, predictions)
    assert scores.shape == (len(examples),)
    assert scores.mean() == pytest.approx(task.evaluate(examples, predictions)[task.metric], abs=1e-12)


@pytest.mark.parametrize("make_case", [multi_label, regression, tagging])
def test_standard_error_of_example_scores_agrees_with_bootstrap(make_case):
    """The bootstrap evaluates the task's own score on examples sampled with replacement."""
    task, examples, predictions = make_case(300)
    standard_error = example_scores(task, examples, predictions).std() / np.sqrt(len(examples))
    samples = np.random.default_rng(1).integers(0, len(examples), (400, len(examples)))
    scores = [
        task.evaluate([examples[i] for i in sample], [predictions[i] for i in sample])[task.metric]
        for sample in samples
    ]
    assert standard_error == pytest.approx(np.std(scores), rel=0.2)


@pytest.mark.parametrize(("correct", "count"), [(0, 20), (1, 7), (50, 100), (200, 200), (871, 872)])
def test_confidence_interval_of_a_proportion_is_wilsons(correct, count):
    low, high = confidence_interval(np.array([1.0] * correct + [0.0] * (count - correct)))
    expected = stats.binomtest(correct, count).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=2e-5)


def test_confidence_interval_of_other_scores_is_normal():
    low, high = confidence_interval(np.array([-1.0, 1.0, 3.0, 1.0]))  # mean 1, standard deviation √2, four scores
    assert (low, high) == pytest.approx((1 - 1.96 * 2**0.5 / 2, 1 + 1.96 * 2**0.5 / 2))


@pytest.mark.parametrize("count", [60, 1000])
@pytest.mark.parametrize(
    ("only_first_correct", "only_second_correct"), [(3, 0), (5, 0), (6, 0), (9, 2), (12, 2), (20, 15), (30, 12), (0, 0)]
)
def test_score_difference_is_significant_where_mcnemars_exact_test_is(only_first_correct, only_second_correct, count):
    """Both rows agree on all other examples, half of them correct."""
    shared = (np.arange(count - only_first_correct - only_second_correct) % 2).astype(float)
    first = np.concatenate([np.ones(only_first_correct), np.zeros(only_second_correct), shared])
    second = np.concatenate([np.zeros(only_first_correct), np.ones(only_second_correct), shared])
    difference = score_difference([first], [second])
    assert difference.value == pytest.approx((only_first_correct - only_second_correct) / count)
    expected = (
        stats.binomtest(only_first_correct, only_first_correct + only_second_correct).pvalue < 0.05
        if only_first_correct + only_second_correct
        else False
    )
    assert difference.is_significant == expected


def test_paired_difference_is_significant_within_the_interval_of_one_score():
    first, second = np.tile([1.0, 0.0], 500), np.tile([1.0, 0.0], 500)
    second[:20:2] = 0.0  # ten fewer of a thousand: a difference of 1 point; the interval of one score is ± 3
    assert score_difference([first], [second]).is_significant
    assert confidence_interval(first)[1] - first.mean() > 0.03


def test_variance_over_seeds_makes_a_difference_insignificant():
    reference = np.tile([1.0, 1.0, 1.0, 0.0], 250)
    worse = reference.copy()
    worse[:120:4] = 0.0  # 30 of 1,000 examples
    assert score_difference([reference], [worse]).is_significant
    best, worst = reference.copy(), reference.copy()
    best[3::4] = 1.0
    worst[:500] = 0.0
    difference = score_difference([best, worst], [worse, worse])
    standard_error = np.std([best.mean(), worst.mean()], ddof=1) / 2**0.5
    assert not difference.is_significant
    assert difference.margin > 1.96 * standard_error
