"""Positions: the sinusoid against its formula, how it moves and is saved, and what segments add."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from building import VOCABULARY, inputs, rows_of
from torch.nn import functional

from forebear.errors import InputError
from forebear.nn.causal_lm import TransformerCausalLM
from forebear.nn.embedding import InputEmbedding, position_ids, sinusoid_table
from forebear.nn.heads import LMHead
from forebear.nn.layers import embedding_lookup
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer


def unfilled(placing, *, sees="past", segments=0, norm=False) -> Model:
    embedding = InputEmbedding(VOCABULARY, 32, positions=24, placing=placing, num_segments=segments, norm=norm)
    encoder = Transformer(
        embedding, depth=2, width=32, num_heads=4, inner=64, norm="post", sees=sees, activation="gelu-tanh"
    )
    return Model(encoder, {"next": LMHead(embedding)})


def filled(placing, **more) -> Model:
    model = unfilled(placing, **more).initialize(3).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(8 if value.dim() > 1 else 1)
    return model


@pytest.mark.parametrize("width", [8, 64, 7])
def test_even_dimensions_are_sines_and_odd_ones_cosines(width):
    found = sinusoid_table(40, width)
    assert found.shape == (40, width)
    for position in (0, 1, 17, 39):
        for dimension in range(width):
            angle = position / 10000 ** (2 * (dimension // 2) / width)
            wanted = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert float(found[position, dimension]) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("step", [1, 5, 30])
def test_a_step_further_is_one_linear_map_wherever_it_is_taken(step):
    waves = sinusoid_table(30_000, 16).double()
    where = torch.randperm(30_000 - step, generator=torch.Generator().manual_seed(step))
    solved, others = where[:1000], where[1000:]
    moved = torch.linalg.lstsq(waves[solved], waves[solved + step]).solution
    torch.testing.assert_close(waves[others] @ moved, waves[others + step], rtol=0, atol=1e-5)
    torch.testing.assert_close(moved @ moved.T, torch.eye(16).double(), rtol=0, atol=1e-5)  # it turns, and no more


def test_a_sinusoid_is_no_parameter_and_is_not_saved():
    model, learned = filled("sinusoid"), filled("learned")
    assert learned.tensors().keys() - model.tensors().keys() == {"encoder.embedding.position.weight"}
    assert "encoder.embedding.position.weight" not in model.state_dict()
    rows = inputs(rows_of(9, 4))
    again = unfilled("sinusoid").load(model.tensors()).eval()  # strict: neither missing nor extra
    assert torch.equal(model.logits(rows)["next"], again.logits(rows)["next"])
    lower = filled("sinusoid").bfloat16()
    assert lower.encoder.embedding.position.weight.dtype == torch.bfloat16


def test_a_sinusoid_is_there_whatever_becomes_of_the_model():
    rows = inputs(rows_of(9, 4))
    model = filled("sinusoid")
    wanted = model.logits(rows)["next"]
    with torch.device("meta"):
        inside = unfilled("sinusoid")
    for other in (inside, filled("sinusoid").to("meta"), filled("sinusoid").to("cpu")):
        assert torch.equal(other.encoder.embedding.position.weight, sinusoid_table(24, 32))
        assert torch.equal(other.load(model.tensors()).eval().logits(rows)["next"], wanted)


def test_rows_of_equal_and_unequal_lengths_are_placed_alike():
    for placing in ("learned", "sinusoid", "none"):
        model, rows = filled(placing), rows_of(9, 9, 4)
        equal, unequal = (model.encoder(**inputs(some)).layers[0] for some in (rows[:2], rows))
        torch.testing.assert_close(unequal[:18], equal)
    embedding = filled("sinusoid").encoder.embedding
    tokens, lengths = inputs(rows)["tokens"], (9, 9, 4)
    wanted = embedding.token.weight[tokens] + torch.cat([sinusoid_table(24, 32)[:length] for length in lengths])
    torch.testing.assert_close(embedding(tokens, lengths), wanted)


def test_permuting_a_row_without_positions_permutes_its_states():
    order = np.random.default_rng(5).permutation(12)
    (row,) = rows_of(12)
    for placing, alike in (("none", True), ("sinusoid", False), ("learned", False)):
        model = filled(placing, sees="all")
        plain, permuted = (model.logits(inputs([each]))["next"] for each in (row, row[order]))
        assert torch.allclose(plain[order], permuted, atol=1e-4) == alike
    past = filled("none")  # who sees only the past can count: order matters even so
    plain, permuted = (past.logits(inputs([each]))["next"] for each in (row, row[order]))
    assert not torch.allclose(plain[order], permuted, atol=1e-4)


@pytest.mark.parametrize("placing", ["learned", "sinusoid", "none"])
def test_the_context_holds_and_rows_are_continued_however_they_are_placed(placing):
    model, rows = filled(placing), rows_of(5, 9)
    assert model.encoder.max_length == 24
    with pytest.raises(InputError, match="longer than the context of 24"):
        model.logits(inputs(rows_of(25)))
    reader = TransformerCausalLM(model).start_decoding(rows, 3)
    for _ in range(3):
        scores = reader.next_logits()
        wanted = [model.logits(inputs([row]))["next"][-1].detach().numpy() for row in rows]
        np.testing.assert_allclose(scores, wanted, atol=2e-5)
        reader.append(scores.argmax(1))
        rows = [np.append(row, token) for row, token in zip(rows, scores.argmax(1), strict=True)]


@pytest.mark.parametrize("norm", [False, True])
def test_without_segments_all_tokens_are_of_the_first(norm):
    rows = inputs(rows_of(9, 4))
    said, unsaid = (filled("learned", segments=2, norm=norm) for _ in range(2))
    target = torch.from_numpy(rows_of(13, seed=1)[0])
    costs = [said(rows | {"segments": torch.zeros(13, dtype=torch.long)}, {"next": target})["next"]]
    costs += [unsaid(rows, {"next": target})["next"]]
    torch.testing.assert_close(*costs)
    for cost in costs:
        cost.backward()
    for one, other in zip(said.parameters(), unsaid.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)
    assert bool(unsaid.encoder.embedding.segment.weight.grad[0].any())
    second = said(rows | {"segments": torch.ones(13, dtype=torch.long)}, {"next": target})["next"]
    assert abs(second.item() - costs[0].item()) > 1e-2


@pytest.mark.parametrize("entries", [2, 24, 900])
def test_looking_up_and_its_gradient_are_torchs_own(entries):
    torch.manual_seed(0)
    numbers = position_ids((24,) * 20 + (7, 3)) % entries if entries < 900 else torch.randint(0, entries, (490,))
    weight, upon = torch.randn(entries, 64), torch.randn(490, 64)
    ours, theirs = (weight.clone().requires_grad_() for _ in range(2))
    found, wanted = embedding_lookup(ours, numbers), functional.embedding(numbers, theirs)
    assert torch.equal(found, wanted)
    found.backward(upon)
    wanted.backward(upon)
    assert torch.equal(ours.grad, theirs.grad)
    with pytest.raises(IndexError):
        embedding_lookup(weight, torch.tensor([entries]))
