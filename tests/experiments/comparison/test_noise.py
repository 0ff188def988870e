"""What of a score is chance: parts add up to the score, intervals and differences agree with outside truth."""

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

RANDOM = np.random.default_rng(5)


def one_label(count: int = 80):
    wanted, said = (RANDOM.choice(["好", "坏", "中"], count).tolist() for _ in range(2))
    examples = [LabeledExample((f"文{number}",), label) for number, label in enumerate(wanted)]
    return Classification(("中", "坏", "好")), examples, [LabelPrediction((), label, {}) for label in said]


def several_labels(count: int = 80):
    sets = [tuple(label for label in "abcd" if RANDOM.random() < 0.4) for _ in range(2 * count)]
    examples = [LabeledExample(("x",), label) for label in sets[:count]]
    return Classification(tuple("abcd"), kind="several"), examples, [LabelPrediction((), it, {}) for it in sets[count:]]


def numbers(count: int = 80):
    wanted = RANDOM.normal(size=count).round(1)  # with ties
    said = wanted + RANDOM.normal(size=count)
    examples = [LabeledExample(("x",), float(value)) for value in wanted]
    return Classification(kind="number"), examples, [LabelPrediction((), float(value), {}) for value in said]


def tags(count: int = 60):
    def sentence() -> tuple[str, ...]:
        choice = RANDOM.integers(0, 4, 4)
        pieces = (("O",), ("S-PER",), ("B-LOC", "E-LOC"), ("O", "O"))
        return tuple(tag for number in choice for tag in pieces[number])

    sentences = [sentence() for _ in range(count)]
    other = [tuple(RANDOM.permutation(tags)) if RANDOM.random() < 0.4 else tags for tags in sentences]
    examples = [TaggedExample(tuple("x" * len(one)), one) for one in sentences]
    return (
        SequenceTagging(("O",)),
        examples,
        [TagPrediction((), tuple(map(str, one)), (), (), np.zeros(0)) for one in other],
    )


def answers(count: int = 60):
    texts = ["the red house", "a red house", "house", "blue", "", "the blue house by the sea"]
    examples, said = [], []
    for number in range(count):
        gold = texts[number % 6]
        examples.append(QuestionExample("?", "x", (AnswerSpan(0, gold),) if gold else ()))
        text = texts[int(RANDOM.integers(0, 6))]
        said.append(AnswerPrediction("?", "x", AnswerCandidate(text, 0, 1.0) if text else None, (), 0.0, ()))
    return QuestionAnswering(unanswered=True), examples, said


def choices(count: int = 60):
    rights, said = RANDOM.integers(0, 3, count), RANDOM.integers(0, 3, count)
    examples = [ChoiceExample("x", ("a", "b", "c"), int(right)) for right in rights]
    return (
        MultipleChoice(),
        examples,
        [ChoicePrediction("x", ("a", "b", "c"), int(one), (1.0, 0.0, 0.0)) for one in said],
    )


EVERY = [one_label, several_labels, numbers, tags, answers, choices]


@pytest.mark.parametrize("made", EVERY)
def test_the_mean_of_the_parts_is_the_score(made):
    task, examples, given = made()
    found = example_scores(task, examples, given)
    assert found.shape == (len(examples),)
    assert found.mean() == pytest.approx(task.evaluate(examples, given)[task.score], abs=1e-12)


@pytest.mark.parametrize("made", [several_labels, numbers, tags])
def test_the_spread_of_the_parts_is_what_drawing_the_examples_again_gives(made):
    """The bootstrap asks the task's own score of examples drawn with replacement."""
    task, examples, given = made(300)
    error = example_scores(task, examples, given).std() / np.sqrt(len(examples))
    draws = np.random.default_rng(1).integers(0, len(examples), (400, len(examples)))
    scores = [task.evaluate([examples[i] for i in draw], [given[i] for i in draw])[task.score] for draw in draws]
    assert error == pytest.approx(np.std(scores), rel=0.2)


@pytest.mark.parametrize(("right", "count"), [(0, 20), (1, 7), (50, 100), (200, 200), (871, 872)])
def test_intervals_of_shares_are_wilsons(right, count):
    low, high = confidence_interval(np.array([1.0] * right + [0.0] * (count - right)))
    wanted = stats.binomtest(right, count).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((wanted.low, wanted.high), abs=2e-5)


def test_an_interval_of_what_is_no_share():
    low, high = confidence_interval(np.array([-1.0, 1.0, 3.0, 1.0]))  # mean 1, spread √2, four of them
    assert (low, high) == pytest.approx((1 - 1.96 * 2**0.5 / 2, 1 + 1.96 * 2**0.5 / 2))


@pytest.mark.parametrize("count", [60, 1000])
@pytest.mark.parametrize(("more", "less"), [(3, 0), (5, 0), (6, 0), (9, 2), (12, 2), (20, 15), (30, 12), (0, 0)])
def test_a_difference_tells_where_mcnemars_exact_test_does(more, less, count):
    """`more` examples only the one has right, `less` only the other; all else both have, half of them right."""
    both = (np.arange(count - more - less) % 2).astype(float)
    one = np.concatenate([np.ones(more), np.zeros(less), both])
    other = np.concatenate([np.zeros(more), np.ones(less), both])
    found = score_difference([one], [other])
    assert found.value == pytest.approx((more - less) / count)
    exact = stats.binomtest(more, more + less).pvalue < 0.05 if more + less else False
    assert found.is_significant == exact


def test_what_both_find_hard_is_no_noise():
    one, other = np.tile([1.0, 0.0], 500), np.tile([1.0, 0.0], 500)
    other[:20:2] = 0.0  # ten fewer of a thousand: a difference of 1 point, where a single score is known to 3
    assert score_difference([one], [other]).is_significant
    assert confidence_interval(one)[1] - one.mean() > 0.03


def test_seeds_that_differ_make_a_difference_doubtful():
    right = np.tile([1.0, 1.0, 1.0, 0.0], 250)
    worse = right.copy()
    worse[:120:4] = 0.0  # 30 of 1,000 examples
    assert score_difference([right], [worse]).is_significant
    best, worst = right.copy(), right.copy()
    best[3::4] = 1.0
    worst[:500] = 0.0
    found = score_difference([best, worst], [worse, worse])
    spread = np.std([best.mean(), worst.mean()], ddof=1) / 2**0.5
    assert not found.is_significant
    assert found.margin > 1.96 * spread
