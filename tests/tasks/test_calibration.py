"""Calibration: against scikit-learn, by hand, and on logits with a known temperature."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as peer

from forebear.data.labeled.examples import ChoiceExample
from forebear.errors import InputError
from forebear.tasks.metrics import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    brier,
    calibration,
    calibration_error,
    log_loss,
    optimal_temperature,
    probabilities,
    reliability,
)
from forebear.tasks.multiple_choice import MultipleChoice


def softmax_cases(true_temperature: float, cases: int = 20_000, classes: int = 4, seed: int = 0):
    """Logits that are too large by this factor: targets are sampled from the softmax of the logits divided by it."""
    rng = np.random.default_rng(seed)
    calibrated = rng.normal(0, 1.5, (cases, classes))
    targets = (probabilities(calibrated).cumsum(1) < rng.random((cases, 1))).sum(1)
    return calibrated * true_temperature, targets


def sigmoid_cases(true_temperature: float, cases: int = 8_000, classes: int = 3):
    rng = np.random.default_rng(1)
    calibrated = rng.normal(-0.5, 1.5, (cases, classes))
    return calibrated * true_temperature, rng.random((cases, classes)) < 1 / (1 + np.exp(-calibrated))


@pytest.mark.parametrize("cases", [softmax_cases, sigmoid_cases])
@pytest.mark.parametrize("true_temperature", [0.3, 1.0, 3.0, 8.0])
def test_fitted_temperature_equals_the_true_one(cases, true_temperature):
    logits, targets = cases(true_temperature)
    fitted = optimal_temperature(logits, targets)
    assert fitted == pytest.approx(true_temperature, rel=0.05)
    for other in (fitted * 0.99, fitted * 1.01):  # it is a minimum
        assert log_loss(logits, targets, other) > log_loss(logits, targets, fitted)
    if true_temperature == 3.0:
        before, after = calibration(logits, targets), calibration(logits, targets, fitted)
        assert after["calibration_error"] < 0.02 < 0.1 < before["calibration_error"]
        assert after["log_loss"] < before["log_loss"]
        assert after["brier"] < before["brier"]
        assert json.loads(json.dumps(after)) == after


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.01, 1.0, 40.0]))
def test_fitted_temperature_has_the_lowest_loss_within_bounds(seed, several, scale):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, scale, (rng.integers(1, 12), 3))
    targets = rng.random(logits.shape) < 0.5 if several else rng.integers(0, 3, len(logits))
    fitted = optimal_temperature(logits, targets)
    assert MIN_TEMPERATURE <= fitted <= MAX_TEMPERATURE
    best = log_loss(logits, targets, fitted)
    assert all(
        best <= log_loss(logits, targets, other) + 1e-9 for other in np.geomspace(MIN_TEMPERATURE, MAX_TEMPERATURE, 80)
    )


def test_temperature_without_a_minimum_is_a_bound_or_one():
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    assert optimal_temperature(logits, np.array([0, 1])) == MIN_TEMPERATURE  # all correct: the sharper, the better
    assert optimal_temperature(logits, np.array([1, 0])) == MAX_TEMPERATURE
    assert optimal_temperature(np.full((3, 2), 7.0), np.array([0, 1, 1])) == 1  # uniform logits carry no information
    assert optimal_temperature(np.zeros((3, 2)), np.ones((3, 2), bool)) == 1


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_log_loss_and_brier_score_equal_scikit_learns(seed, classes):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(0, 3, (20, classes)), rng.integers(0, classes, 20)
    probs, class_ids = probabilities(logits, temperature=1.7), range(classes)
    assert log_loss(logits, targets, 1.7) == pytest.approx(peer.log_loss(targets, probs, labels=class_ids), abs=1e-12)
    if classes > 2:
        expected_brier = peer.brier_score_loss(targets, probs, labels=[*class_ids], scale_by_half=False)
    else:
        expected_brier = 2 * peer.brier_score_loss(targets, probs[:, 1], labels=[0, 1], pos_label=1)
    assert brier(probs, targets) == pytest.approx(expected_brier, abs=1e-12)
    multi_label = rng.random((20, classes)) < 0.5
    sigmoid_probs = probabilities(logits, is_sigmoid=True)
    loss = np.mean(
        [peer.log_loss(multi_label[:, class_id], sigmoid_probs[:, class_id], labels=[0, 1]) for class_id in class_ids]
    )
    assert log_loss(logits, multi_label) == pytest.approx(loss, abs=1e-12)
    assert brier(sigmoid_probs, multi_label) == pytest.approx(np.mean((sigmoid_probs - multi_label) ** 2), abs=1e-12)


def test_reliability_bins_by_hand():
    bins = reliability(np.array([0.1, 0.55, 0.6, 0.95, 1.0, 0.0]), np.array([0, 1, 0, 1, 1, 0]))
    assert [bin_stats["count"] for bin_stats in bins] == [2, 0, 0, 0, 0, 2, 0, 0, 0, 2]  # 0.1 and 0.6 end their bins
    assert bins[5] == {"from": 0.5, "to": 0.6, "count": 2, "confidence": pytest.approx(0.575), "accuracy": 0.5}
    assert bins[1] == {"from": 0.1, "to": 0.2, "count": 0}
    expected = (2 * 0.05 + 2 * 0.075 + 2 * 0.025) / 6
    assert calibration_error(bins) == pytest.approx(expected)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_calibration_error_of_perfect_confidence_is_zero(answers):
    confidence, is_right = (np.array(column, float) for column in zip(*answers, strict=True))
    bins = reliability(confidence, is_right)
    assert sum(bin_stats["count"] for bin_stats in bins) == len(answers)
    for bin_stats in bins:
        if bin_stats["count"]:
            assert bin_stats["from"] - 1e-9 <= bin_stats["confidence"] <= bin_stats["to"] + 1e-9
    assert 0 <= calibration_error(bins) <= 1
    assert calibration_error(reliability(is_right, is_right)) == 0


def test_losses_of_large_logits_do_not_overflow():
    logits, targets = np.array([[1e4, -1e4], [-1e4, 1e4]]), np.array([0, 0])
    with np.errstate(all="raise", under="ignore"):
        assert log_loss(logits, targets) == 1e4
        assert log_loss(logits, np.array([[True, False], [True, False]])) == 5e3
        assert optimal_temperature(logits, targets) == MAX_TEMPERATURE


def test_temperature_refuses_invalid_logits():
    for logits, targets in (
        (np.zeros((2, 3)), np.zeros(3, int)),
        (np.zeros(3), np.zeros(3, int)),
        (np.zeros((0, 2)), np.zeros(0, int)),
        (np.array([[np.nan, 1.0]]), np.array([0])),
        (np.array([[-np.inf, 1.0]]), np.array([0])),
    ):
        with pytest.raises(InputError, match="logits"):
            optimal_temperature(logits, targets)


def test_multiple_choice_calibrates_any_number_of_choices():
    rng = np.random.default_rng(0)
    examples, scores = [], []
    for example in range(600):
        true_scores = rng.normal(size=2 + example % 3) * 2
        gold = rng.choice(len(true_scores), p=np.exp(true_scores) / np.exp(true_scores).sum())
        examples.append(ChoiceExample("x", tuple(f"c{index}" for index in range(len(true_scores))), int(gold)))
        scores.append(true_scores * 3)  # overconfident by a factor of three
    rows = cast("Any", None)
    assert MultipleChoice().calibrate(examples, rows, {"choice": scores}).temperature == pytest.approx(3, rel=0.15)
    assert MultipleChoice().calibrate(examples[:9], rows, {"choice": scores[:9]}).temperature == 1  # too few examples
