"""Rows, trials and comparisons: figures that follow from them, and the way through JSON."""

import json

import pytest
from comparisons import BOTH, COUNTS, NETWORK, comparison, row, trial

from forebear.experiments.comparison.results import TextComparison, TextTrial


def test_a_comparison_survives_json():
    assert TextComparison.from_dict(json.loads(json.dumps(BOTH.to_dict()))) == BOTH


def test_json_holds_the_figures_that_follow():
    told = BOTH.to_dict()
    assert told["best"] == "network"
    assert [one["bits_per_byte"] for one in told["rows"]] == [2.5, 2.0]  # in the order of history, however given
    assert told["rows"][0]["trials"][0]["tokens_per_second"] == 500


@pytest.mark.parametrize("broken", [{"format": "other"}, {}, {**BOTH.to_dict(), "rows": [{}]}])
def test_what_is_no_comparison_is_refused(broken):
    with pytest.raises((ValueError, KeyError, TypeError)):
        TextComparison.from_dict(broken)


def test_means_and_spread_leave_out_what_failed():
    several = row("x", 2000, trial(1, 2.0), trial(3, 2.2, seed=1), TextTrial(2, error="out of memory"))
    assert several.mean("bits_per_byte") == pytest.approx(2.1)
    assert several.spread == pytest.approx(0.1 * 2**0.5)
    assert several.mean("seconds") == 2
    assert several.error == "out of memory"
    assert COUNTS.spread is None
    assert row("y", 2000, TextTrial(0, error="x")).mean("bits_per_byte") is None


def test_what_was_reached_when_never_rises():
    bumpy = row("x", 2000, trial(9.0, 2.5, curve=[(1, 4.0), (2, 3.0), (3, 3.5), (5, 2.2)]))
    assert bumpy.running_minimum() == [(1, 4.0), (2, 3.0), (5, 2.2)]


def test_what_was_reached_is_the_mean_of_the_seeds_once_all_have_something():
    two = row("x", 2000, trial(4.0, 2.0, curve=[(1, 4.0)]), trial(6.0, 1.0, seed=1, curve=[(2, 3.0)]))
    assert two.running_minimum() == [(2, 3.5), (4, 2.5), (6, 1.5)]


def test_a_trial_takes_the_place_of_one_with_its_seed():
    again = NETWORK.with_trial(trial(1, 1.0)).with_trial(trial(1, 1.5, seed=1))
    assert [(one.seed, one.bits_per_byte) for one in again.trials] == [(0, 1.0), (1, 1.5)]
    assert comparison(NETWORK).with_row(again).rows == (again,)
