"""Position embeddings: the sinusoid against its formula, saving and moving, and segment embeddings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_networks import VOCABULARY, inputs, rows_of
from torch.nn import functional

from forebear.errors import InputError
from forebear.nn.embedding import InputEmbedding, position_ids, sinusoid_table
from forebear.nn.heads import LMHead
from forebear.nn.layers import embedding_lookup
from forebear.nn.model import Model
from forebear.nn.next_token_predictors import TransformerPredictor
from forebear.nn.transformer import Transformer


def uninitialized_model(placing, *, sees="past", segments=0, norm=False) -> Model:
    embedding = InputEmbedding(VOCABULARY, 32, positions=24, placing=placing, num_segments=segments, norm=norm)
    encoder = Transformer(
        embedding, depth=2, width=32, num_heads=4, inner=64, norm="post", sees=sees, activation="gelu-tanh"
    )
    return Model(encoder, {"next": LMHead(embedding)})


def initialized_model(placing, **more) -> Model:
    model = uninitialized_model(placing, **more).initialize(3).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(8 if value.dim() > 1 else 1)
    return model


@pytest.mark.parametrize("width", [8, 64, 7])
def test_sinusoid_has_sines_in_even_and_cosines_in_odd_dimensions(width):
    table = sinusoid_table(40, width)
    assert table.shape == (40, width)
    for position in (0, 1, 17, 39):
        for dimension in range(width):
            angle = position / 10000 ** (2 * (dimension // 2) / width)
            expected = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert float(table[position, dimension]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("step", [1, 5, 30])
def test_sinusoid_offset_is_one_rotation_at_every_position(step):
    table = sinusoid_table(30_000, 16).double()
    positions = torch.randperm(30_000 - step, generator=torch.Generator().manual_seed(step))
    fitted, others = positions[:1000], positions[1000:]
    rotation = torch.linalg.lstsq(table[fitted], table[fitted + step]).solution
    torch.testing.assert_close(table[others] @ rotation, table[others + step], rtol=0, atol=1e-5)
    # orthogonal: a rotation
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(16).double(), rtol=0, atol=1e-5)


def test_sinusoid_is_neither_parameter_nor_saved():
    model, learned = initialized_model("sinusoid"), initialized_model("learned")
    assert learned.tensors().keys() - model.tensors().keys() == {"encoder.embedding.position.weight"}
    assert "encoder.embedding.position.weight" not in model.state_dict()
    rows = inputs(rows_of(9, 4))
    restored = uninitialized_model("sinusoid").load(model.tensors()).eval()  # strict: neither missing nor extra
    assert torch.equal(model.logits(rows)["next"], restored.logits(rows)["next"])
    lower = initialized_model("sinusoid").bfloat16()
    assert lower.encoder.embedding.position.weight.dtype == torch.bfloat16


def test_sinusoid_survives_meta_device_and_moves():
    rows = inputs(rows_of(9, 4))
    model = initialized_model("sinusoid")
    expected = model.logits(rows)["next"]
    with torch.device("meta"):
        made_on_meta = uninitialized_model("sinusoid")
    for other in (made_on_meta, initialized_model("sinusoid").to("meta"), initialized_model("sinusoid").to("cpu")):
        assert torch.equal(other.encoder.embedding.position.weight, sinusoid_table(24, 32))
        assert torch.equal(other.load(model.tensors()).eval().logits(rows)["next"], expected)


def test_positions_are_equal_in_batches_of_equal_and_unequal_lengths():
    for placing in ("learned", "sinusoid", "none"):
        model, rows = initialized_model(placing), rows_of(9, 9, 4)
        equal, unequal = (model.encoder(**inputs(batch_rows)).layers[0] for batch_rows in (rows[:2], rows))
        torch.testing.assert_close(unequal[:18], equal)
    embedding = initialized_model("sinusoid").encoder.embedding
    tokens, lengths = inputs(rows)["tokens"], (9, 9, 4)
    expected = embedding.token.weight[tokens] + torch.cat([sinusoid_table(24, 32)[:length] for length in lengths])
    torch.testing.assert_close(embedding(tokens, lengths), expected)


def test_model_without_positions_is_permutation_equivariant():
    order = np.random.default_rng(5).permutation(12)
    (row,) = rows_of(12)
    for placing, is_equivariant in (("none", True), ("sinusoid", False), ("learned", False)):
        model = initialized_model(placing, sees="all")
        plain, permuted = (model.logits(inputs([token_ids]))["next"] for token_ids in (row, row[order]))
        assert torch.allclose(plain[order], permuted, atol=1e-4) == is_equivariant
    causal = initialized_model("none")  # the causal mask alone reveals the order
    plain, permuted = (causal.logits(inputs([token_ids]))["next"] for token_ids in (row, row[order]))
    assert not torch.allclose(plain[order], permuted, atol=1e-4)


@pytest.mark.parametrize("placing", ["learned", "sinusoid", "none"])
def test_maximum_length_and_decoding_hold_for_each_position_embedding(placing):
    model, rows = initialized_model(placing), rows_of(5, 9)
    assert model.encoder.max_length == 24
    with pytest.raises(InputError, match="longer than the context of 24"):
        model.logits(inputs(rows_of(25)))
    decoding = TransformerPredictor(model).start_decoding(rows, 3)
    for _ in range(3):
        scores = decoding.next_logits()
        expected = [model.logits(inputs([row]))["next"][-1].detach().numpy() for row in rows]
        np.testing.assert_allclose(scores, expected, atol=2e-5)
        decoding.append(scores.argmax(1))
        rows = [np.append(row, token) for row, token in zip(rows, scores.argmax(1), strict=True)]


@pytest.mark.parametrize("norm", [False, True])
def test_missing_segments_equal_first_segment(norm):
    rows = inputs(rows_of(9, 4))
    with_segments, without_segments = (initialized_model("learned", segments=2, norm=norm) for _ in range(2))
    target = torch.from_numpy(rows_of(13, seed=1)[0])
    losses = [with_segments(rows | {"segments": torch.zeros(13, dtype=torch.long)}, {"next": target})["next"]]
    losses += [without_segments(rows, {"next": target})["next"]]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    for parameter, expected_parameter in zip(with_segments.parameters(), without_segments.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected_parameter.grad, rtol=1e-4, atol=1e-4)
    assert bool(without_segments.encoder.embedding.segment.weight.grad[0].any())
    second = with_segments(rows | {"segments": torch.ones(13, dtype=torch.long)}, {"next": target})["next"]
    assert abs(second.item() - losses[0].item()) > 1e-2


@pytest.mark.parametrize("entries", [2, 24, 900])
def test_embedding_lookup_and_gradient_equal_torch(entries):
    torch.manual_seed(0)
    ids = position_ids((24,) * 20 + (7, 3)) % entries if entries < 900 else torch.randint(0, entries, (490,))
    weight, output_gradient = torch.randn(entries, 64), torch.randn(490, 64)
    table, torch_table = (weight.clone().requires_grad_() for _ in range(2))
    actual, expected = embedding_lookup(table, ids), functional.embedding(ids, torch_table)
    assert torch.equal(actual, expected)
    actual.backward(output_gradient)
    expected.backward(output_gradient)
    assert torch.equal(table.grad, torch_table.grad)
    with pytest.raises(IndexError):
        embedding_lookup(weight, torch.tensor([entries]))
