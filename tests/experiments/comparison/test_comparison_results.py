"""Rows, trials and comparisons on a text: derived metrics, and JSON."""

import json

import pytest
from text_comparisons import COUNTS, NETWORK, TWO_MODELS, comparison, row, trial

from forebear.experiments.comparison.results import TextComparison, TextTrial


def test_comparison_json_round_trip():
    assert TextComparison.from_dict(json.loads(json.dumps(TWO_MODELS.to_dict()))) == TWO_MODELS


def test_comparison_json_holds_derived_metrics():
    document = TWO_MODELS.to_dict()
    assert document["best"] == "network"
    assert [entry["bits_per_byte"] for entry in document["rows"]] == [2.5, 2.0]  # in historical order, however given
    assert document["rows"][0]["trials"][0]["tokens_per_second"] == 500


@pytest.mark.parametrize("document", [{"format": "other"}, {}, {**TWO_MODELS.to_dict(), "rows": [{}]}])
def test_invalid_comparison_json_is_refused(document):
    with pytest.raises((ValueError, KeyError, TypeError)):
        TextComparison.from_dict(document)


def test_row_mean_and_spread_ignore_failed_trials():
    three_trials = row("x", 2000, trial(1, 2.0), trial(3, 2.2, seed=1), TextTrial(2, error="out of memory"))
    assert three_trials.mean("bits_per_byte") == pytest.approx(2.1)
    assert three_trials.spread == pytest.approx(0.1 * 2**0.5)
    assert three_trials.mean("seconds") == 2
    assert three_trials.error == "out of memory"
    assert COUNTS.spread is None
    assert row("y", 2000, TextTrial(0, error="x")).mean("bits_per_byte") is None


def test_best_so_far_never_rises():
    fluctuating = row("x", 2000, trial(9.0, 2.5, curve=[(1, 4.0), (2, 3.0), (3, 3.5), (5, 2.2)]))
    assert fluctuating.running_minimum() == [(1, 4.0), (2, 3.0), (5, 2.2)]


def test_best_so_far_of_seeds_is_their_mean_once_all_have_a_value():
    two_seeds = row("x", 2000, trial(4.0, 2.0, curve=[(1, 4.0)]), trial(6.0, 1.0, seed=1, curve=[(2, 3.0)]))
    assert two_seeds.running_minimum() == [(2, 3.5), (4, 2.5), (6, 1.5)]


def test_new_trial_replaces_one_with_the_same_seed():
    updated = NETWORK.with_trial(trial(1, 1.0)).with_trial(trial(1, 1.5, seed=1))
    assert [(item.seed, item.bits_per_byte) for item in updated.trials] == [(0, 1.0), (1, 1.5)]
    assert comparison(NETWORK).with_row(updated).rows == (updated,)
