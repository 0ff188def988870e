"""The encoder–decoder Transformer against torch.nn.Transformer with equal weights: logits, gradients and maps."""

from __future__ import annotations

import pytest
import torch
from small_networks import rows_of
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.transformer import EncoderDecoder, Transformer, TransformerDecoder

VOCABULARY, WIDTH, HEADS, INNER, DEPTH, CONTEXT = 53, 32, 4, 48, 3, 24
LENGTHS = {"equal": ((9, 9, 9), (6, 6, 6)), "ragged": ((7, 24, 1, 12, 12), (3, 1, 24, 9, 9))}
ENCODER_NAMES = {
    "attention.query_key_value.weight": "self_attn.in_proj_weight",
    "attention.query_key_value.bias": "self_attn.in_proj_bias",
    "attention.output.weight": "self_attn.out_proj.weight",
    "attention.output.bias": "self_attn.out_proj.bias",
    **{f"attention_norm.{kind}": f"norm1.{kind}" for kind in ("weight", "bias")},
    **{f"expand.{kind}": f"linear1.{kind}" for kind in ("weight", "bias")},
    **{f"contract.{kind}": f"linear2.{kind}" for kind in ("weight", "bias")},
}
DECODER_NAMES = {
    **ENCODER_NAMES,
    **{f"cross_norm.{kind}": f"norm2.{kind}" for kind in ("weight", "bias")},
    "cross.output.weight": "multihead_attn.out_proj.weight",
    "cross.output.bias": "multihead_attn.out_proj.bias",
    **{f"feedforward_norm.{kind}": f"norm3.{kind}" for kind in ("weight", "bias")},
}
ENCODER_NAMES |= {f"feedforward_norm.{kind}": f"norm2.{kind}" for kind in ("weight", "bias")}


def encoder_decoder(norm: str, *, joint: bool) -> Model:
    """An untrained model whose weights are large enough that any error changes the logits."""
    embedding_settings = {"positions": CONTEXT, "placing": "sinusoid", "scale": WIDTH**0.5}
    source_embedding = InputEmbedding(VOCABULARY, WIDTH, **embedding_settings)
    target_embedding = source_embedding if joint else InputEmbedding(VOCABULARY, WIDTH, **embedding_settings)
    settings = {"depth": DEPTH, "width": WIDTH, "num_heads": HEADS, "inner": INNER, "norm": norm, "activation": "relu"}
    network = EncoderDecoder(
        Transformer(source_embedding, sees="all", **settings), TransformerDecoder(target_embedding, **settings)
    )
    model = Model(network, {"translation": LMHead(target_embedding)}).initialize(3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(0.2 * torch.randn(value.shape, generator=generator) + (name.endswith("norm.weight")))
    return model


class TorchTransformer(nn.Module):
    """torch's Transformer over padded sequences."""

    def __init__(self, model: Model, norm: str) -> None:
        super().__init__()
        self.model = (model,)
        options = {"dropout": 0.0, "activation": "relu", "norm_first": norm == "pre", "batch_first": True}
        self.transformer = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, INNER, **options)
        if norm == "post":  # torch adds a final norm to encoder and decoder, the paper does not
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        torch_parameters, values = dict(self.transformer.named_parameters()), model.tensors()
        unfilled = set(torch_parameters)

        def fill(name: str, value: Tensor) -> None:
            torch_parameters[name].data.copy_(value)
            unfilled.discard(name)

        for number in range(DEPTH):
            for name_ours, name_torch in ENCODER_NAMES.items():
                fill(f"encoder.layers.{number}.{name_torch}", values[f"encoder.reader.blocks.{number}.{name_ours}"])
            for name_ours, name_torch in DECODER_NAMES.items():
                fill(f"decoder.layers.{number}.{name_torch}", values[f"encoder.writer.blocks.{number}.{name_ours}"])
            for kind in ("weight", "bias"):
                cross = f"encoder.writer.blocks.{number}.cross"
                joined = torch.cat([values[f"{cross}.query.{kind}"], values[f"{cross}.key_value.{kind}"]])
                fill(f"decoder.layers.{number}.multihead_attn.in_proj_{kind}", joined)
        if norm == "pre":
            for part, name in (("encoder", "reader"), ("decoder", "writer")):
                for kind in ("weight", "bias"):
                    fill(f"{part}.norm.{kind}", values[f"encoder.{name}.final_norm.{kind}"])
        assert not unfilled

    def forward(self, sources: list[Tensor], rows: list[Tensor]) -> Tensor:
        source_embedding, target_embedding = (
            self.model[0].encoder.reader.embedding,
            self.model[0].encoder.writer.embedding,
        )
        (x, x_padded), (y, y_padded) = (
            self.pad_and_embed(source_embedding, sources),
            self.pad_and_embed(target_embedding, rows),
        )
        future = torch.ones(y.shape[1], y.shape[1]).triu(1).bool()
        padding = {"src_key_padding_mask": x_padded, "memory_key_padding_mask": x_padded}
        states = self.transformer(x, y, tgt_mask=future, tgt_key_padding_mask=y_padded, **padding)[~y_padded]
        return states @ target_embedding.token.weight.T

    def pad_and_embed(self, embedding: InputEmbedding, rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        tokens = pad_sequence(rows, batch_first=True)
        x = functional.embedding(tokens, embedding.token.weight) * WIDTH**0.5
        x = x + embedding.position.weight[: tokens.shape[1]]
        return x, torch.arange(tokens.shape[1]) >= torch.tensor([len(row) for row in rows])[:, None]


def inputs(sources, rows) -> dict[str, Tensor]:
    return {
        "tokens": torch.cat(rows),
        "lengths": torch.tensor([len(row) for row in rows]),
        "source": torch.cat(sources),
        "source_lengths": torch.tensor([len(row) for row in sources]),
    }


def texts(lengths: tuple[int, ...], seed: int) -> list[Tensor]:
    return [torch.from_numpy(row) for row in rows_of(*lengths, seed=seed)]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_encoder_decoder_logits_and_gradients_equal_torch(lengths, norm, joint):
    source_lengths, target_lengths = LENGTHS[lengths]
    sources, rows = texts(source_lengths, 0), texts(target_lengths, 1)
    target = texts((sum(target_lengths),), 2)[0]
    model = encoder_decoder(norm, joint=joint)
    peer = TorchTransformer(model, norm)
    expected = peer(sources, rows)
    actual = model.logits(inputs(sources, rows))["translation"]
    assert float(expected.detach().std()) > 0.5
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    functional.cross_entropy(expected, target).backward()
    embedding = model.encoder.writer.embedding.token.weight
    expected_gradient = embedding.grad.clone()  # the peer shares this table, so its gradient is in the same tensor
    model.zero_grad()
    (model(inputs(sources, rows), {"translation": target})["translation"] / sum(target_lengths)).backward()
    torch.testing.assert_close(embedding.grad, expected_gradient, rtol=1e-5, atol=1e-5)
    torch_parameters = dict(peer.transformer.named_parameters())
    for name_ours, name_torch in (("cross.key_value", "multihead_attn.in_proj_weight"), ("expand", "linear1.weight")):
        gradient = model.encoder.writer.blocks[0].get_submodule(name_ours).weight.grad
        torch.testing.assert_close(
            gradient, torch_parameters[f"decoder.layers.0.{name_torch}"].grad[-len(gradient) :], rtol=1e-5, atol=1e-5
        )


def test_decoder_logits_depend_on_own_source_and_past_targets_only():
    model = encoder_decoder("post", joint=True)
    sources, rows = texts((5, 8), 0), texts((6, 4), 1)
    before = model.logits(inputs(sources, rows))["translation"]
    other_sources = [sources[0], torch.flip(sources[1], (0,))]
    after = model.logits(inputs(other_sources, rows))["translation"]
    torch.testing.assert_close(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:])
    changed_rows = [torch.cat((rows[0][:-1], (rows[0][-1:] + 1) % VOCABULARY)), rows[1]]
    torch.testing.assert_close(model.logits(inputs(sources, changed_rows))["translation"][:5], before[:5])


def test_encoder_decoder_attention_maps_sum_to_one_and_equal_torch():
    model = encoder_decoder("post", joint=True)
    sources, rows = texts((7,), 0), texts((5,), 1)
    peer, torch_maps = TorchTransformer(model, "post"), []
    for layer in peer.transformer.decoder.layers:
        layer.multihead_attn.forward = _recording_forward(layer.multihead_attn, torch_maps)
    peer(sources, rows)
    maps = model.encoder.attention_maps(**inputs(sources, rows))
    assert {name: tuple(layer_maps[0][0].shape) for name, layer_maps in maps.items()} == {
        "read": (HEADS, 7, 7),
        "written": (HEADS, 5, 5),
        "cross": (HEADS, 5, 7),
    }
    for layer_maps, expected in zip(maps["cross"], torch_maps, strict=True):
        torch.testing.assert_close(layer_maps[0], expected[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(layer_maps[0].sum(-1), torch.ones(HEADS, 5))
    assert not maps["written"][0][0].triu(1).any()


def _recording_forward(attention: nn.MultiheadAttention, maps: list[Tensor]):
    plain_forward = attention.forward

    def forward(*args, **options):
        result = plain_forward(*args, **{**options, "need_weights": True, "average_attn_weights": False})
        maps.append(result[1].detach())
        return result

    return forward
