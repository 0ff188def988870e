"""Rows of a task: which nothing beats, which is the smallest near the best, and the way through JSON."""

import json

import pytest
from task_comparisons import ALL, BEST, BROKEN, LINEAR, SMALL, comparison, row, trial

from forebear.experiments.comparison.results import TaskComparison, TaskTrial, pareto_front


def test_the_front_by_hand():
    rows = [
        row("a", 2000, trial(0.80, 100, 1.0)),
        row("b", 2001, trial(0.79, 200, 2.0)),  # dearer than a, and worse
        row("c", 2002, trial(0.85, 300, 3.0)),
        row("d", 2003, trial(0.85, 400, 2.5)),  # no better than c, and larger; but faster
        row("e", 2004, trial(0.90, 900, 2.5)),
        row("f", 2005, trial(0.90, 900, 2.5)),  # the same: neither beats the other
        row("g", 2006, TaskTrial(0, error="no")),
    ]
    assert [one.name for one in pareto_front(rows, "disk")] == ["a", "c", "e", "f"]
    assert [one.name for one in pareto_front(rows, "milliseconds")] == ["a", "e", "f"]
    assert pareto_front([], "disk") == []


def test_the_smallest_and_the_fastest_within_a_point():
    assert ALL.best is BEST
    assert BEST.score == pytest.approx(0.899)
    assert ALL.smallest is SMALL  # 0.8 points below
    assert ALL.fastest is BEST
    further = row("gpt", 2018, trial(0.8889, 2_000_000, 1.0))  # 1.01 points below
    assert comparison(LINEAR, further, BEST).smallest is BEST
    exactly = row("gpt", 2018, trial(0.889, 2_000_000, 1.0))
    assert comparison(LINEAR, exactly, BEST).smallest is exactly


def test_of_equals_the_smaller_is_best():
    one, other = row("gpt", 2018, trial(0.9, 10, 1.0)), row("bert", 2018, trial(0.9, 5, 9.0))
    assert comparison(one, other).best is other


def test_nothing_has_no_best():
    none = comparison(BROKEN)
    assert (none.best, none.smallest, none.fastest) == (None, None, None)


def test_spread_and_best_of_seeds():
    assert BEST.spread == pytest.approx(0.002 / 2**0.5)
    assert LINEAR.spread is None
    assert BEST.best is BEST.trials[0]
    assert BEST.with_trial(trial(0.5, 1, 1.0)).score == pytest.approx((0.5 + 0.898) / 2)


def test_json_gives_back_the_same():
    there = json.loads(json.dumps(ALL.to_dict()))
    assert TaskComparison.from_dict(there) == ALL
    assert (there["best"], there["smallest"], there["fastest"]) == ("bert", "gpt", "bert")
    assert there["fronts"] == {"disk": ["ngram", "gpt", "bert"], "milliseconds": ["ngram", "bert"]}
    with pytest.raises(ValueError, match="format"):
        TaskComparison.from_dict({**there, "format": "forebear-comparison/2"})
