"""Encoding many sequences: the packed encoder against the Transformer, batches against single sequences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from forebear.nn import encode_rows
from forebear.nn.encode_rows import PackedEncoder, pack_for_batch, pooled_vectors, token_vectors
from forebear.nn.model import Model
from forebear.nn.weight_packing import can_pack
from hf_peers import Rows, build_model, model_inputs
from small_runs import TRANSFORMER_MODELS

SMALL = {"width": 24, "depth": 3, "heads": 3, "context": 20}
pytestmark = pytest.mark.skipif(not can_pack(torch.zeros(2, 2)), reason="this torch does not pack weights")


def random_model(name: str, factor: float = 4) -> Model:
    """Large parameters, so that all of them matter; a smaller `factor` avoids rounding errors."""
    model = build_model(name, SMALL | ({"table": 10} if name == "albert" else {})).initialize(3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(factor).add_(0.1 * torch.randn(value.shape, generator=generator))
    return model.eval()


@pytest.mark.parametrize("name", TRANSFORMER_MODELS)
@torch.inference_mode()
def test_packed_encoder_equals_transformer(name: str):
    model = random_model(name)
    table = model.encoder.embedding.segment
    rows = Rows.random((9, 4, 9, 13, 1, 20), segments=1 if table is None else table.num_embeddings)
    packed = PackedEncoder(model.encoder)
    for positions in (None, torch.tensor([0, 9, 12, 30, 55])):
        inputs = model_inputs(model, rows)
        expected, actual = model.encoder(**inputs, positions=positions), packed(**inputs, positions=positions)
        assert len(actual.layers) == len(expected.layers)
        assert actual.lengths == expected.lengths
        for layer, expected_layer in zip(actual.layers, expected.layers, strict=True):
            assert layer.shape == expected_layer.shape
            assert (layer - expected_layer).abs().max() < 3e-5 * max(1, expected_layer.abs().max())
    assert (packed.depth, packed.width, packed.max_length, packed.sees) == (3, 24, 20, model.encoder.sees)


def test_logits_with_packed_encoder_equal_original(monkeypatch: pytest.MonkeyPatch):
    model, rows = random_model("bert"), Rows.random()
    monkeypatch.setattr(encode_rows, "MIN_PACKED_TOKENS", 1)
    fast = pack_for_batch(model, 10)
    assert isinstance(fast.encoder, PackedEncoder)
    with torch.inference_mode():
        expected, actual = (each_model.logits(rows.inputs) for each_model in (model, fast))
    for name, value in expected.items():
        assert (actual[name] - value).abs().max() < 3e-5 * max(1, value.abs().max())
    assert (fast.device, fast.tensors().keys() > {"heads.token.bias"}) == (model.device, True)


def test_pack_for_batch_skips_small_batches_other_encoders_and_compiled_blocks(monkeypatch: pytest.MonkeyPatch):
    model = random_model("bert")
    assert pack_for_batch(model, encode_rows.MIN_PACKED_TOKENS - 1) is model
    assert pack_for_batch(model, encode_rows.MIN_PACKED_TOKENS) is not model
    other = Model(nn.Identity(), {})
    assert pack_for_batch(other, 10**6) is other
    monkeypatch.setattr(encode_rows, "MAX_COPIED_BYTES", 10)
    assert pack_for_batch(model, 10**6) is model
    monkeypatch.undo()
    model.encoder.blocks[0].feedforward = lambda x: x  # as compile_blocks replaces it
    assert pack_for_batch(model, 10**6) is model


def test_packed_encoder_calls_overridden_layers():
    """Such layers, like the quantized ones, are called instead of copied."""
    model = random_model("bert")

    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    for block in model.encoder.blocks:
        doubled = Doubled(24, 96)
        doubled.load_state_dict(block.expand.state_dict())
        block.expand = doubled
    rows = Rows.random()
    with torch.inference_mode():
        expected, actual = (
            encoder(**model_inputs(model, rows)).last for encoder in (model.encoder, PackedEncoder(model.encoder))
        )
    assert (expected - actual).abs().max() < 3e-5 * max(1, actual.abs().max())


MODELS = {name: random_model(name, 1.5) for name in ("bert", "gpt2")}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=40)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=25), st.integers(1, 60), st.booleans())
def test_pooled_and_token_vectors_are_independent_of_batching(name: str, lengths: list[int], at_once: int, laid: bool):
    """Each sequence alone through the Transformer equals all in batches of any size, packed or not, in order."""
    model, rng = MODELS[name], np.random.default_rng(sum(lengths))
    rows = [rng.integers(0, 37, length) for length in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_rows, "BATCH_TOKENS", at_once)
        patch.setattr(encode_rows, "MIN_PACKED_TOKENS", 0 if laid else 10**9)
        tokens = token_vectors(model, rows, {-1: 1.0, 1: 0.5})
        means, firsts, lasts, largest = (
            pooled_vectors(model, rows, {-1: 1.0, 1: 0.5}, pooling) for pooling in ("mean", "first", "last", "max")
        )
    for number, row in enumerate(rows):
        with torch.inference_mode():
            layers = model.encoder(torch.from_numpy(row), [len(row)]).layers
            expected = (layers[-1] + 0.5 * layers[1]).numpy()
        assert tokens[number] == pytest.approx(expected, abs=2e-5)
        assert means[number] == pytest.approx(expected.mean(0), abs=2e-5)
        assert firsts[number] == pytest.approx(expected[0], abs=2e-5)
        assert lasts[number] == pytest.approx(expected[-1], abs=2e-5)
        assert largest[number] == pytest.approx(expected.max(0), abs=2e-5)
