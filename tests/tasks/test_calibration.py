"""Calibration: against scikit-learn, by hand, and on logits whose true temperature is known."""

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
    probabilities,
    reliability,
    temperature,
)
from forebear.tasks.multiple_choice import MultipleChoice


def softmax_cases(true_temperature: float, cases: int = 20_000, classes: int = 4, seed: int = 0):
    """Logits that are too large by this factor: the targets were drawn by what they say after division by it."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(0, 1.5, (cases, classes))
    drawn = (probabilities(honest).cumsum(1) < rng.random((cases, 1))).sum(1)
    return honest * true_temperature, drawn


def sigmoid_cases(true_temperature: float, cases: int = 8_000, classes: int = 3):
    rng = np.random.default_rng(1)
    honest = rng.normal(-0.5, 1.5, (cases, classes))
    return honest * true_temperature, rng.random((cases, classes)) < 1 / (1 + np.exp(-honest))


@pytest.mark.parametrize("made", [softmax_cases, sigmoid_cases])
@pytest.mark.parametrize("wanted", [0.3, 1.0, 3.0, 8.0])
def test_the_true_temperature_is_found_again(made, wanted):
    logits, targets = made(wanted)
    found = temperature(logits, targets)
    assert found == pytest.approx(wanted, rel=0.05)
    for other in (found * 0.99, found * 1.01):  # it is a least one
        assert log_loss(logits, targets, other) > log_loss(logits, targets, found)
    if wanted == 3.0:
        before, after = calibration(logits, targets), calibration(logits, targets, found)
        assert after["calibration_error"] < 0.02 < 0.1 < before["calibration_error"]
        assert after["log_loss"] < before["log_loss"]
        assert after["brier"] < before["brier"]
        assert json.loads(json.dumps(after)) == after


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.01, 1.0, 40.0]))
def test_no_temperature_within_bounds_is_better(seed, several, scale):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, scale, (rng.integers(1, 12), 3))
    targets = rng.random(logits.shape) < 0.5 if several else rng.integers(0, 3, len(logits))
    found = temperature(logits, targets)
    assert MIN_TEMPERATURE <= found <= MAX_TEMPERATURE
    best = log_loss(logits, targets, found)
    assert all(
        best <= log_loss(logits, targets, other) + 1e-9 for other in np.geomspace(MIN_TEMPERATURE, MAX_TEMPERATURE, 80)
    )


def test_where_there_is_no_best_temperature():
    right = np.array([[2.0, 0.0], [0.0, 1.0]])
    assert temperature(right, np.array([0, 1])) == MIN_TEMPERATURE  # all right: the surer, the better
    assert temperature(right, np.array([1, 0])) == MAX_TEMPERATURE
    assert temperature(np.full((3, 2), 7.0), np.array([0, 1, 1])) == 1  # nothing is said
    assert temperature(np.zeros((3, 2)), np.ones((3, 2), bool)) == 1


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_losses_equal_scikit_learn(seed, classes):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(0, 3, (20, classes)), rng.integers(0, classes, 20)
    probable, every = probabilities(logits, temperature=1.7), range(classes)
    assert log_loss(logits, targets, 1.7) == pytest.approx(peer.log_loss(targets, probable, labels=every), abs=1e-12)
    wanted = peer.brier_score_loss(targets, probable, labels=[*every], scale_by_half=False) if classes > 2 else (
        2 * peer.brier_score_loss(targets, probable[:, 1], labels=[0, 1], pos_label=1)
    )  # fmt: skip
    assert brier(probable, targets) == pytest.approx(wanted, abs=1e-12)
    several = rng.random((20, classes)) < 0.5
    each = probabilities(logits, is_sigmoid=True)
    loss = np.mean([peer.log_loss(several[:, one], each[:, one], labels=[0, 1]) for one in every])
    assert log_loss(logits, several) == pytest.approx(loss, abs=1e-12)
    assert brier(each, several) == pytest.approx(np.mean((each - several) ** 2), abs=1e-12)


def test_bins_by_hand():
    bins = reliability(np.array([0.1, 0.55, 0.6, 0.95, 1.0, 0.0]), np.array([0, 1, 0, 1, 1, 0]))
    assert [one["count"] for one in bins] == [2, 0, 0, 0, 0, 2, 0, 0, 0, 2]  # 0.1 and 0.6 end their bins
    assert bins[5] == {"from": 0.5, "to": 0.6, "count": 2, "confidence": pytest.approx(0.575), "accuracy": 0.5}
    assert bins[1] == {"from": 0.1, "to": 0.2, "count": 0}
    wanted = (2 * 0.05 + 2 * 0.075 + 2 * 0.025) / 6
    assert calibration_error(bins) == pytest.approx(wanted)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_the_error_is_zero_for_the_honest_and_every_answer_is_in_a_bin(answers):
    confidence, right = (np.array(side, float) for side in zip(*answers, strict=True))
    bins = reliability(confidence, right)
    assert sum(one["count"] for one in bins) == len(answers)
    for one in bins:
        if one["count"]:
            assert one["from"] - 1e-9 <= one["confidence"] <= one["to"] + 1e-9
    assert 0 <= calibration_error(bins) <= 1
    assert calibration_error(reliability(right, right)) == 0


def test_large_logits_do_not_overflow():
    logits, targets = np.array([[1e4, -1e4], [-1e4, 1e4]]), np.array([0, 0])
    with np.errstate(all="raise", under="ignore"):
        assert log_loss(logits, targets) == 1e4
        assert log_loss(logits, np.array([[True, False], [True, False]])) == 5e3
        assert temperature(logits, targets) == MAX_TEMPERATURE


def test_what_cannot_be_calibrated_is_refused():
    for logits, targets in (
        (np.zeros((2, 3)), np.zeros(3, int)),
        (np.zeros(3), np.zeros(3, int)),
        (np.zeros((0, 2)), np.zeros(0, int)),
        (np.array([[np.nan, 1.0]]), np.array([0])),
        (np.array([[-np.inf, 1.0]]), np.array([0])),
    ):
        with pytest.raises(InputError, match="logits"):
            temperature(logits, targets)


def test_choices_are_as_sure_as_they_are_right_whatever_their_number():
    rng = np.random.default_rng(0)
    examples, scores = [], []
    for number in range(600):
        true = rng.normal(size=2 + number % 3) * 2
        right = rng.choice(len(true), p=np.exp(true) / np.exp(true).sum())
        examples.append(ChoiceExample("x", tuple(f"c{one}" for one in range(len(true))), int(right)))
        scores.append(true * 3)  # three times too sure
    rows = cast("Any", None)
    assert MultipleChoice().calibrate(examples, rows, {"choice": scores}).temperature == pytest.approx(3, rel=0.15)
    assert MultipleChoice().calibrate(examples[:9], rows, {"choice": scores[:9]}).temperature == 1  # too few to say
