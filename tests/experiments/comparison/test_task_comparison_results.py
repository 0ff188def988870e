"""Rows of a task comparison: Pareto front, smallest and fastest near the best, and JSON."""

import json

import pytest
from task_comparisons import ALL_MODELS, BEST, BROKEN, LINEAR, SMALL, comparison, row, trial

from forebear.experiments.comparison.results import TaskComparison, TaskTrial, pareto_front


def test_pareto_front_matches_worked_example():
    rows = [
        row("a", 2000, trial(0.80, 100, 1.0)),
        row("b", 2001, trial(0.79, 200, 2.0)),  # costs more than a, and worse
        row("c", 2002, trial(0.85, 300, 3.0)),
        row("d", 2003, trial(0.85, 400, 2.5)),  # no better than c, and larger; but faster
        row("e", 2004, trial(0.90, 900, 2.5)),
        row("f", 2005, trial(0.90, 900, 2.5)),  # equal: neither dominates the other
        row("g", 2006, TaskTrial(0, error="no")),
    ]
    assert [front_row.name for front_row in pareto_front(rows, "disk")] == ["a", "c", "e", "f"]
    assert [front_row.name for front_row in pareto_front(rows, "milliseconds")] == ["a", "e", "f"]
    assert pareto_front([], "disk") == []


def test_smallest_and_fastest_are_within_one_point_of_the_best():
    assert ALL_MODELS.best is BEST
    assert BEST.score == pytest.approx(0.899)
    assert ALL_MODELS.smallest is SMALL  # 0.8 points below
    assert ALL_MODELS.fastest is BEST
    further = row("gpt", 2018, trial(0.8889, 2_000_000, 1.0))  # 1.01 points below
    assert comparison(LINEAR, further, BEST).smallest is BEST
    exactly = row("gpt", 2018, trial(0.889, 2_000_000, 1.0))
    assert comparison(LINEAR, exactly, BEST).smallest is exactly


def test_smaller_of_equal_scores_is_best():
    larger, smaller = row("gpt", 2018, trial(0.9, 10, 1.0)), row("bert", 2018, trial(0.9, 5, 9.0))
    assert comparison(larger, smaller).best is smaller


def test_comparison_without_scores_has_no_best():
    failed = comparison(BROKEN)
    assert (failed.best, failed.smallest, failed.fastest) == (None, None, None)


def test_row_spread_and_best_trial_over_seeds():
    assert BEST.spread == pytest.approx(0.002 / 2**0.5)
    assert LINEAR.spread is None
    assert BEST.best is BEST.trials[0]
    assert BEST.with_trial(trial(0.5, 1, 1.0)).score == pytest.approx((0.5 + 0.898) / 2)


def test_task_comparison_json_round_trip():
    document = json.loads(json.dumps(ALL_MODELS.to_dict()))
    assert TaskComparison.from_dict(document) == ALL_MODELS
    assert (document["best"], document["smallest"], document["fastest"]) == ("bert", "gpt", "bert")
    assert document["fronts"] == {"disk": ["ngram", "gpt", "bert"], "milliseconds": ["ngram", "bert"]}
    with pytest.raises(ValueError, match="format"):
        TaskComparison.from_dict({**document, "format": "forebear-comparison/2"})
