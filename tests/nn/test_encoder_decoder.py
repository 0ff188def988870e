"""Both halves of the Transformer against torch.nn.Transformer with the same weights: logits, gradients and maps."""

from __future__ import annotations

import pytest
import torch
from building import rows_of
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.transformer import EncoderDecoder, Transformer, TransformerDecoder

VOCABULARY, WIDTH, HEADS, INNER, DEPTH, CONTEXT = 53, 32, 4, 48, 3, 24
LENGTHS = {"equal": ((9, 9, 9), (6, 6, 6)), "ragged": ((7, 24, 1, 12, 12), (3, 1, 24, 9, 9))}
READ = {
    "attention.query_key_value.weight": "self_attn.in_proj_weight",
    "attention.query_key_value.bias": "self_attn.in_proj_bias",
    "attention.output.weight": "self_attn.out_proj.weight",
    "attention.output.bias": "self_attn.out_proj.bias",
    **{f"attention_norm.{kind}": f"norm1.{kind}" for kind in ("weight", "bias")},
    **{f"expand.{kind}": f"linear1.{kind}" for kind in ("weight", "bias")},
    **{f"contract.{kind}": f"linear2.{kind}" for kind in ("weight", "bias")},
}
WRITTEN = {
    **READ,
    **{f"cross_norm.{kind}": f"norm2.{kind}" for kind in ("weight", "bias")},
    "cross.output.weight": "multihead_attn.out_proj.weight",
    "cross.output.bias": "multihead_attn.out_proj.bias",
    **{f"feedforward_norm.{kind}": f"norm3.{kind}" for kind in ("weight", "bias")},
}
READ |= {f"feedforward_norm.{kind}": f"norm2.{kind}" for kind in ("weight", "bias")}


def ours(norm: str, *, joint: bool) -> Model:
    """Untrained, with weights large enough that a wrong part would change what it says."""
    places = {"positions": CONTEXT, "placing": "sinusoid", "scale": WIDTH**0.5}
    read = InputEmbedding(VOCABULARY, WIDTH, **places)
    written = read if joint else InputEmbedding(VOCABULARY, WIDTH, **places)
    shape = {"depth": DEPTH, "width": WIDTH, "num_heads": HEADS, "inner": INNER, "norm": norm, "activation": "relu"}
    both = EncoderDecoder(Transformer(read, sees="all", **shape), TransformerDecoder(written, **shape))
    model = Model(both, {"translation": LMHead(written)}).initialize(3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(0.2 * torch.randn(value.shape, generator=generator) + (name.endswith("norm.weight")))
    return model


class Peer(nn.Module):
    """torch's own, over padded rows."""

    def __init__(self, model: Model, norm: str) -> None:
        super().__init__()
        self.model = (model,)
        options = {"dropout": 0.0, "activation": "relu", "norm_first": norm == "pre", "batch_first": True}
        self.both = nn.Transformer(WIDTH, HEADS, DEPTH, DEPTH, INNER, **options)
        if norm == "post":  # torch puts a last norm after either half, which the paper does not
            self.both.encoder.norm = self.both.decoder.norm = None
        theirs, values = dict(self.both.named_parameters()), model.tensors()
        left = set(theirs)

        def fill(name: str, value: Tensor) -> None:
            theirs[name].data.copy_(value)
            left.discard(name)

        for number in range(DEPTH):
            for one, two in READ.items():
                fill(f"encoder.layers.{number}.{two}", values[f"encoder.reader.blocks.{number}.{one}"])
            for one, two in WRITTEN.items():
                fill(f"decoder.layers.{number}.{two}", values[f"encoder.writer.blocks.{number}.{one}"])
            for kind in ("weight", "bias"):
                cross = f"encoder.writer.blocks.{number}.cross"
                joined = torch.cat([values[f"{cross}.query.{kind}"], values[f"{cross}.key_value.{kind}"]])
                fill(f"decoder.layers.{number}.multihead_attn.in_proj_{kind}", joined)
        if norm == "pre":
            for half, name in (("encoder", "reader"), ("decoder", "writer")):
                for kind in ("weight", "bias"):
                    fill(f"{half}.norm.{kind}", values[f"encoder.{name}.final_norm.{kind}"])
        assert not left

    def forward(self, sources: list[Tensor], rows: list[Tensor]) -> Tensor:
        read, written = self.model[0].encoder.reader.embedding, self.model[0].encoder.writer.embedding
        (x, x_padded), (y, y_padded) = self.placed(read, sources), self.placed(written, rows)
        future = torch.ones(y.shape[1], y.shape[1]).triu(1).bool()
        padding = {"src_key_padding_mask": x_padded, "memory_key_padding_mask": x_padded}
        found = self.both(x, y, tgt_mask=future, tgt_key_padding_mask=y_padded, **padding)[~y_padded]
        return found @ written.token.weight.T

    def placed(self, embedding: InputEmbedding, rows: list[Tensor]) -> tuple[Tensor, Tensor]:
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
def test_logits_and_gradients_are_torchs(lengths, norm, joint):
    read, written = LENGTHS[lengths]
    sources, rows = texts(read, 0), texts(written, 1)
    target = texts((sum(written),), 2)[0]
    model = ours(norm, joint=joint)
    peer = Peer(model, norm)
    wanted = peer(sources, rows)
    found = model.logits(inputs(sources, rows))["translation"]
    assert float(wanted.detach().std()) > 0.5
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    functional.cross_entropy(wanted, target).backward()
    table = model.encoder.writer.embedding.token.weight
    tables = table.grad.clone()  # theirs is our own table: its gradient is in the same place
    model.zero_grad()
    (model(inputs(sources, rows), {"translation": target})["translation"] / sum(written)).backward()
    torch.testing.assert_close(table.grad, tables, rtol=1e-5, atol=1e-5)
    theirs = dict(peer.both.named_parameters())
    for one, two in (("cross.key_value", "multihead_attn.in_proj_weight"), ("expand", "linear1.weight")):
        mine = model.encoder.writer.blocks[0].get_submodule(one).weight.grad
        torch.testing.assert_close(mine, theirs[f"decoder.layers.0.{two}"].grad[-len(mine) :], rtol=1e-5, atol=1e-5)


def test_what_is_written_depends_on_its_own_source_and_on_nothing_later():
    model = ours("post", joint=True)
    sources, rows = texts((5, 8), 0), texts((6, 4), 1)
    before = model.logits(inputs(sources, rows))["translation"]
    other = [sources[0], torch.flip(sources[1], (0,))]
    after = model.logits(inputs(other, rows))["translation"]
    torch.testing.assert_close(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:])
    changed = [torch.cat((rows[0][:-1], (rows[0][-1:] + 1) % VOCABULARY)), rows[1]]
    torch.testing.assert_close(model.logits(inputs(sources, changed))["translation"][:5], before[:5])


def test_maps_sum_to_one_and_are_torchs():
    model = ours("post", joint=True)
    sources, rows = texts((7,), 0), texts((5,), 1)
    peer, seen = Peer(model, "post"), []
    for layer in peer.both.decoder.layers:
        layer.multihead_attn.forward = _watched(layer.multihead_attn, seen)
    peer(sources, rows)
    maps = model.encoder.attention_maps(**inputs(sources, rows))
    assert {name: tuple(found[0][0].shape) for name, found in maps.items()} == {
        "read": (HEADS, 7, 7),
        "written": (HEADS, 5, 5),
        "cross": (HEADS, 5, 7),
    }
    for found, wanted in zip(maps["cross"], seen, strict=True):
        torch.testing.assert_close(found[0], wanted[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found[0].sum(-1), torch.ones(HEADS, 5))
    assert not maps["written"][0][0].triu(1).any()


def _watched(attention: nn.MultiheadAttention, seen: list[Tensor]):
    plain = attention.forward

    def forward(*args, **options):
        found = plain(*args, **{**options, "need_weights": True, "average_attn_weights": False})
        seen.append(found[1].detach())
        return found

    return forward
