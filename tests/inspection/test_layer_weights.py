"""Layer weights (scalar mixes): found in encoders and heads, compared with worked examples; runs without one."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

import forebear as fb
from cue_word_runs import RunCache
from forebear.errors import InputError
from forebear.inspection import layer_weights
from forebear.nn.scalar_mix import ScalarMix


def scalar_mix(weights: list[float], gain: float) -> ScalarMix:
    mix = ScalarMix(len(weights) - 1).to_empty(device="cpu")
    with torch.no_grad():
        mix.layer_bias.copy_(torch.tensor([math.log(weight) for weight in weights]))
        mix.gain_bias.fill_(gain - 1)
    return mix


def test_layer_weights_of_encoder_and_head_mixes_match_worked_example():
    network = nn.Module()
    network.encoder = nn.Module()
    network.encoder.mixtures = nn.ModuleDict({"before": scalar_mix([1, 2, 1], 1.5), "after": scalar_mix([3, 1], 0.5)})
    network.heads = nn.ModuleDict({"tag": nn.Module()})
    cast(Any, network.heads["tag"]).mixture = scalar_mix([1, 1, 1, 1], 1.0)
    run = SimpleNamespace(network=network, name="made", task=None)
    mixes = fb.layer_weights(cast(Any, run))
    assert [mix.position for mix in mixes] == ["before the reader", "after the reader", "head tag"]
    assert mixes[0].weights == pytest.approx((0.25, 0.5, 0.25))
    assert [mix.gain for mix in mixes] == pytest.approx([1.5, 0.5, 1.0])
    assert mixes[1].to_dict() == {
        "run": "made",
        "task": "",
        "place": "after the reader",
        "gain": 0.5,
        "first": 0,
        "normed": False,
        "weights": [0.75, 0.25],
    }
    assert mixes[2].uniform_weight == 0.25
    assert layer_weights.plot_layer_weights(mixes, "svg").startswith(b"<?xml")


def test_layer_weights_of_feature_extraction_run_are_learned_and_sum_to_one(runs: RunCache):
    mixes = fb.layer_weights(runs("bert", how="features", steps=20))
    assert [(mix.task, mix.position, len(mix.weights)) for mix in mixes] == [("classification", "head label", 3)]
    assert sum(mixes[0].weights) == pytest.approx(1)
    assert max(mixes[0].weights) > 1 / 3 + 1e-4  # training moved the weights away from uniform


def test_layer_weights_of_run_without_scalar_mix_are_refused_with_hint(runs: RunCache):
    for name in ("bert", "ngram"):
        with pytest.raises(InputError, match="no mixture") as error:
            fb.layer_weights(runs(name))
        assert "--how features" in (error.value.hint or "")
