"""Reading very many rows: the laid-out twin against the Transformer, batches against rows one by one."""

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
from peers import Rows, inputs_for, model_of
from small_runs import TRANSFORMERS

SMALL = {"width": 24, "depth": 3, "heads": 3, "context": 20}
pytestmark = pytest.mark.skipif(not can_pack(torch.zeros(2, 2)), reason="this torch does not pack weights")


def drawn(name: str, factor: float = 4) -> Model:
    """With values so large that every part matters, and, where many ways are compared, no rounding does."""
    model = model_of(name, SMALL | ({"table": 10} if name == "albert" else {})).initialize(3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(factor).add_(0.1 * torch.randn(value.shape, generator=generator))
    return model.eval()


@pytest.mark.parametrize("name", TRANSFORMERS)
@torch.inference_mode()
def test_the_twin_gives_what_the_transformer_gives(name: str):
    model = drawn(name)
    table = model.encoder.embedding.segment
    rows = Rows.drawn((9, 4, 9, 13, 1, 20), segments=1 if table is None else table.num_embeddings)
    twin = PackedEncoder(model.encoder)
    for kept in (None, torch.tensor([0, 9, 12, 30, 55])):
        inputs = inputs_for(model, rows)
        expected, found = model.encoder(**inputs, positions=kept), twin(**inputs, positions=kept)
        assert len(found.layers) == len(expected.layers)
        assert found.lengths == expected.lengths
        for one, other in zip(found.layers, expected.layers, strict=True):
            assert one.shape == other.shape
            assert (one - other).abs().max() < 3e-5 * max(1, other.abs().max())
    assert (twin.depth, twin.width, twin.max_length, twin.sees) == (3, 24, 20, model.encoder.sees)


def test_heads_answer_alike(monkeypatch: pytest.MonkeyPatch):
    model, rows = drawn("bert"), Rows.drawn()
    monkeypatch.setattr(encode_rows, "MIN_PACKED_TOKENS", 1)
    fast = pack_for_batch(model, 10)
    assert isinstance(fast.encoder, PackedEncoder)
    with torch.inference_mode():
        expected, found = (one.logits(rows.inputs) for one in (model, fast))
    for name, value in expected.items():
        assert (found[name] - value).abs().max() < 3e-5 * max(1, value.abs().max())
    assert (fast.device, fast.tensors().keys() > {"heads.token.bias"}) == (model.device, True)


def test_it_is_not_laid_out_where_that_gains_nothing_or_changes_what_is_computed(monkeypatch: pytest.MonkeyPatch):
    model = drawn("bert")
    assert pack_for_batch(model, encode_rows.MIN_PACKED_TOKENS - 1) is model
    assert pack_for_batch(model, encode_rows.MIN_PACKED_TOKENS) is not model
    other = Model(nn.Identity(), {})
    assert pack_for_batch(other, 10**6) is other
    monkeypatch.setattr(encode_rows, "MAX_COPIED_BYTES", 10)
    assert pack_for_batch(model, 10**6) is model
    monkeypatch.undo()
    model.encoder.blocks[0].feedforward = lambda x: x  # as compiling.py has it
    assert pack_for_batch(model, 10**6) is model


def test_layers_of_another_kind_keep_their_own_way():
    """Such as those of small integers: they are called, not copied."""
    model = drawn("bert")

    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    for block in model.encoder.blocks:
        odd = Doubled(24, 96)
        odd.load_state_dict(block.expand.state_dict())
        block.expand = odd
    rows = Rows.drawn()
    with torch.inference_mode():
        one, other = (part(**inputs_for(model, rows)).last for part in (model.encoder, PackedEncoder(model.encoder)))
    assert (one - other).abs().max() < 3e-5 * max(1, other.abs().max())


MODELS = {name: drawn(name, 1.5) for name in ("bert", "gpt2")}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=40)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=25), st.integers(1, 60), st.booleans())
def test_neither_batches_nor_lengths_change_anything(name: str, lengths: list[int], at_once: int, laid: bool):
    """Every row alone through the Transformer, beside all of them in batches of any size, laid out or not; in order."""
    model, rng = MODELS[name], np.random.default_rng(sum(lengths))
    rows = [rng.integers(0, 37, length) for length in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_rows, "BATCH_TOKENS", at_once)
        patch.setattr(encode_rows, "MIN_PACKED_TOKENS", 0 if laid else 10**9)
        tokens = token_vectors(model, rows, {-1: 1.0, 1: 0.5})
        means, firsts, lasts, largest = (
            pooled_vectors(model, rows, {-1: 1.0, 1: 0.5}, how) for how in ("mean", "first", "last", "max")
        )
    for number, row in enumerate(rows):
        with torch.inference_mode():
            layers = model.encoder(torch.from_numpy(row), [len(row)]).layers
            own = (layers[-1] + 0.5 * layers[1]).numpy()
        assert tokens[number] == pytest.approx(own, abs=2e-5)
        assert means[number] == pytest.approx(own.mean(0), abs=2e-5)
        assert firsts[number] == pytest.approx(own[0], abs=2e-5)
        assert lasts[number] == pytest.approx(own[-1], abs=2e-5)
        assert largest[number] == pytest.approx(own.max(0), abs=2e-5)
