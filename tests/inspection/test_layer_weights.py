"""Mixtures of layers: found wherever they are, weights by hand, and runs that have none."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

import forebear as fb
from forebear.errors import InputError
from forebear.inspection import layer_weights
from forebear.nn.encoder import ScalarMix
from planted_runs import Runs


def given(weights: list[float], gain: float) -> ScalarMix:
    made = ScalarMix(len(weights) - 1).to_empty(device="cpu")
    with torch.no_grad():
        made.layer_bias.copy_(torch.tensor([math.log(weight) for weight in weights]))
        made.gain_bias.fill_(gain - 1)
    return made


def test_weights_by_hand_wherever_a_mixture_is():
    network = nn.Module()
    network.encoder = nn.Module()
    network.encoder.mixtures = nn.ModuleDict({"before": given([1, 2, 1], 1.5), "after": given([3, 1], 0.5)})
    network.heads = nn.ModuleDict({"tag": nn.Module()})
    cast(Any, network.heads["tag"]).mixture = given([1, 1, 1, 1], 1.0)
    run = SimpleNamespace(network=network, name="made", task=None)
    found = fb.layer_weights(cast(Any, run))
    assert [one.position for one in found] == ["before the reader", "after the reader", "head tag"]
    assert found[0].weights == pytest.approx((0.25, 0.5, 0.25))
    assert [one.gain for one in found] == pytest.approx([1.5, 0.5, 1.0])
    assert found[1].to_dict() == {
        "run": "made",
        "task": "",
        "place": "after the reader",
        "gain": 0.5,
        "first": 0,
        "normed": False,
        "weights": [0.75, 0.25],
    }
    assert found[2].uniform_weight == 0.25
    assert layer_weights.plot_layer_weights(found, "svg").startswith(b"<?xml")


def test_a_run_that_reads_features(runs: Runs):
    found = fb.layer_weights(runs("bert", how="features", steps=20))
    assert [(one.task, one.position, len(one.weights)) for one in found] == [("classification", "head label", 3)]
    assert sum(found[0].weights) == pytest.approx(1)
    assert max(found[0].weights) > 1 / 3 + 1e-4  # it has learned something


def test_a_run_without_one_is_told_how_to_get_one(runs: Runs):
    for name in ("bert", "ngram"):
        with pytest.raises(InputError, match="no mixture") as told:
            fb.layer_weights(runs(name))
        assert "--how features" in (told.value.hint or "")
