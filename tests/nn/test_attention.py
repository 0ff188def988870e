"""Attention maps of every layer, head and sequence equal what the fast attention computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_networks import decoder_model, inputs, rows_of

from forebear.nn.attention import SelfAttention, attend, attend_reference
from forebear.nn.attention_scores import DotProductScore, attend_with_scores
from forebear.nn.embedding import InputEmbedding
from forebear.nn.layers import initial_values
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer


def encoder_of(*, norm="post", sees="all", placing="learned", shared=False, segments=0) -> Transformer:
    embedding = InputEmbedding(53, 32, positions=24, placing=placing, num_segments=segments)
    encoder = Transformer(
        embedding, depth=3, width=32, num_heads=4, inner=64, norm=norm, sees=sees, activation="relu", shared=shared
    )
    Model(encoder, {}).initialize(1)
    with torch.no_grad():
        for value in encoder.parameters():
            value.mul_(9 if value.dim() > 1 else 1)
    return encoder.eval()


def layer(heads: int, *, is_causal: bool = False) -> SelfAttention:
    """Attention of width 24 with large weights and biases."""
    attention = SelfAttention(24, heads, is_causal=is_causal)
    values = initial_values(attention, 2)
    torch.manual_seed(0)
    attention.load_state_dict(
        {name: value * 12 + 0.2 * torch.randn(value.shape) for name, value in values.items()}, assign=True
    )
    return attention.eval()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("lengths", [(4,), (5, 5, 5), (1, 7, 7, 3)])
def test_attend_equals_its_reference_implementation(lengths, is_causal):
    torch.manual_seed(0)
    query_key_value, output_gradient = torch.randn(sum(lengths), 72), torch.randn(sum(lengths), 24)
    leaves = [query_key_value.clone().requires_grad_() for _ in range(2)]
    fast = attend(leaves[0], lengths, 4, is_causal=is_causal)
    reference, maps = attend_reference(leaves[1], lengths, 4, is_causal=is_causal)
    torch.testing.assert_close(reference, fast, rtol=1e-5, atol=1e-6)
    for output in (fast, reference):
        output.backward(output_gradient)
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad, rtol=1e-5, atol=1e-5)
    values = query_key_value[:, 48:].split(lengths)
    for weights, value, expected in zip(maps, values, fast.split(lengths), strict=True):
        heads = [weights[head] @ value[:, 6 * head : 6 * head + 6] for head in range(4)]
        torch.testing.assert_close(torch.cat(heads, 1), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sees", ["all", "past"])
def test_attention_maps_sum_to_one_and_causal_maps_are_triangular(sees):
    """The maps of `i have a dream`: with the causal mask, token i has weight on tokens 1 … i only."""
    words = "i have a dream".split()
    tokens = torch.arange(len(words))
    maps = encoder_of(sees=sees).attention_maps(tokens, [len(words)])
    assert [len(layer_maps) for layer_maps in maps] == [1, 1, 1]
    for (weights,) in maps:
        assert weights.shape == (4, 4, 4)  # heads, from, to
        torch.testing.assert_close(weights.sum(-1), torch.ones(4, 4))
        visible = torch.ones(4, 4).tril().bool() if sees == "past" else torch.ones(4, 4).bool()
        assert torch.equal(weights > 0, visible.expand(4, 4, 4))
        assert bool((weights[:, ~visible] == 0).all())
    if sees == "past":
        torch.testing.assert_close(maps[0][0][:, 0], torch.tensor([1.0, 0, 0, 0]).expand(4, 4))


def test_multi_head_attention_is_concatenated_single_heads_times_output():
    attention, lengths = layer(4), (5, 2)
    x = torch.randn(7, 24, generator=torch.Generator().manual_seed(1))
    weight, bias = attention.query_key_value.weight.detach(), attention.query_key_value.bias.detach()
    heads = []
    for head in range(4):
        # columns of query, key and value
        columns = torch.cat([torch.arange(6) + 6 * head + 24 * part for part in range(3)])
        query, key, value = (x @ weight[columns].T + bias[columns]).split(6, 1)
        parts = zip(query.split(lengths), key.split(lengths), value.split(lengths), strict=True)
        heads.append(
            torch.cat([attend_with_scores(DotProductScore()(query, key), value)[0] for query, key, value in parts])
        )
    expected = torch.cat(heads, 1) @ attention.output.weight.T + attention.output.bias
    torch.testing.assert_close(attention(x, lengths), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(layer(1)(x, lengths), expected, atol=1e-2)  # the same weights as one wide head


def test_unmasked_self_attention_is_permutation_equivariant():
    x = torch.randn(9, 24, generator=torch.Generator().manual_seed(1))
    order = torch.from_numpy(np.random.default_rng(2).permutation(9))
    unmasked, causal = layer(4), layer(4, is_causal=True)
    torch.testing.assert_close(unmasked(x[order], (9,)), unmasked(x, (9,))[order], rtol=1e-5, atol=1e-5)
    (before,), (after,) = unmasked.attention_weights(x, (9,)), unmasked.attention_weights(x[order], (9,))
    torch.testing.assert_close(after, before[:, order][:, :, order], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(causal(x[order], (9,)), causal(x, (9,))[order], atol=1e-2)


@pytest.mark.parametrize("switches", [{"norm": "pre", "sees": "past"}, {"norm": "post"}, {"shared": True}])
def test_attention_maps_times_values_give_the_attended_vectors(switches):
    """Each layer's map, multiplied by its values, gives what the fast attention computed."""
    encoder, rows = encoder_of(**switches), rows_of(6, 11, 6)
    lengths = [len(row) for row in rows]
    attended: list[torch.Tensor] = []
    hooks = [
        block.attention.output.register_forward_pre_hook(lambda module, arguments: attended.append(arguments[0]))
        for block in encoder.blocks
    ]
    with torch.no_grad():
        layers = encoder(**inputs(rows)).layers
        for hook in hooks:
            hook.remove()
        maps = encoder.attention_maps(**inputs(rows))
        assert len(maps) == len(attended) == 3
        for number, (layer_maps, expected) in enumerate(zip(maps, attended, strict=True)):
            block = encoder.blocks[number % len(encoder.blocks)]
            x = block.attention_norm(layers[number]) if encoder.norm_position == "pre" else layers[number]
            values = block.attention.query_key_value(x)[:, 64:].view(-1, 4, 8).transpose(0, 1).split(lengths, 1)
            actual = [(w @ v).transpose(0, 1).flatten(1) for w, v in zip(layer_maps, values, strict=True)]
            torch.testing.assert_close(torch.cat(actual), expected, rtol=1e-4, atol=1e-5)


def test_attention_maps_are_independent_of_other_sequences_and_use_segments():
    encoder, rows = encoder_of(segments=2), rows_of(6, 11)
    batched = encoder.attention_maps(**inputs(rows))
    for layer_number, alone in enumerate(encoder.attention_maps(**inputs(rows[1:]))):
        torch.testing.assert_close(batched[layer_number][1], alone[0], rtol=1e-5, atol=1e-5)
    segments = (torch.arange(17) > 8).long()
    assert not torch.allclose(encoder.attention_maps(**inputs(rows), segments=segments)[0][1], batched[0][1], atol=1e-3)


def test_attention_maps_leave_logits_unchanged():
    model, rows = decoder_model(), inputs(rows_of(6, 11))
    before = model.logits(rows)["next"]
    model.encoder.attention_maps(**rows)
    assert torch.equal(model.logits(rows)["next"], before)
