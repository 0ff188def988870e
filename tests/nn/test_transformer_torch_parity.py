"""The Transformer against torch.nn.TransformerEncoder with equal weights: logits and gradients."""

from __future__ import annotations

import pytest
import torch
from small_networks import inputs, rows_of
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer

VOCABULARY, WIDTH, HEADS, INNER, DEPTH, CONTEXT = 53, 32, 4, 48, 3, 24
NAMES = {
    "attention.query_key_value.weight": "self_attn.in_proj_weight",
    "attention.query_key_value.bias": "self_attn.in_proj_bias",
    "attention.output": "self_attn.out_proj",
    "attention_norm": "norm1",
    "expand": "linear1",
    "contract": "linear2",
    "feedforward_norm": "norm2",
}


class TorchEncoder(nn.Module):
    """torch's encoder over padded sequences, with embedding tables of its own."""

    def __init__(self, *, norm: str, activation: str, shared: bool, narrow: int, waves: Tensor | None) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, narrow or WIDTH)
        self.position = nn.Embedding(CONTEXT, narrow or WIDTH) if waves is None else None
        self.waves = waves
        self.project = nn.Linear(narrow, WIDTH) if narrow else None
        self.back = nn.Linear(WIDTH, narrow) if narrow else None
        self.back_norm = nn.LayerNorm(narrow) if narrow else None
        options = {"dropout": 0.0, "activation": activation, "norm_first": norm == "pre", "batch_first": True}
        block = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, **options)
        final = nn.LayerNorm(WIDTH) if norm == "pre" else None
        self.encoder = nn.TransformerEncoder(block, DEPTH, norm=final, enable_nested_tensor=False)
        if shared:
            self.encoder.layers = nn.ModuleList([block] * DEPTH)

    def forward(self, rows: list[Tensor], *, past: bool) -> Tensor:
        """(T, V) logits of the tokens, without padding."""
        lengths = torch.tensor([len(row) for row in rows])
        tokens = pad_sequence(rows, batch_first=True)
        positions = self.position.weight if self.position is not None else self.waves
        x = self.token(tokens) + positions[: tokens.shape[1]]
        x = x if self.project is None else self.project(x)
        padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
        future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool() if past else None
        states = self.encoder(x, mask=future, src_key_padding_mask=padded)[~padded]
        if self.back is not None and self.back_norm is not None:
            states = self.back_norm(functional.gelu(self.back(states)))
        return states @ self.token.weight.T


def torch_names(peer: TorchEncoder, blocks: int) -> dict[str, str]:
    """Our parameter names → torch's."""
    prefixes = {"encoder.embedding.token": "token"}
    if peer.position is not None:
        prefixes["encoder.embedding.position"] = "position"
    if peer.project is not None:
        prefixes |= {
            "encoder.project": "project",
            "heads.next.transform": "back",
            "heads.next.transform_norm": "back_norm",
        }
    if peer.encoder.norm is not None:
        prefixes["encoder.final_norm"] = "encoder.norm"
    for number in range(blocks):
        prefixes |= {
            f"encoder.blocks.{number}.{name_ours}": f"encoder.layers.{number}.{name_torch}"
            for name_ours, name_torch in NAMES.items()
        }
    torch_parameters, result = dict(peer.named_parameters()), {}
    for name_ours, name_torch in prefixes.items():
        if name_torch in torch_parameters:
            result[name_ours] = name_torch
        else:
            result |= {
                f"{name_ours}.{kind}": f"{name_torch}.{kind}"
                for kind in ("weight", "bias")
                if f"{name_torch}.{kind}" in torch_parameters
            }
    assert sorted(result.values()) == sorted(torch_parameters)  # every parameter of torch is mapped
    return result


def model_and_peer(*, norm="post", sees="all", activation="gelu", shared=False, narrow=0, placing="learned"):
    """Our model, a peer with equal large random weights, and the map of their names."""
    embedding = InputEmbedding(VOCABULARY, narrow or WIDTH, positions=CONTEXT, placing=placing)
    switches = {"norm": norm, "sees": sees, "activation": activation, "shared": shared}
    encoder = Transformer(embedding, depth=DEPTH, width=WIDTH, num_heads=HEADS, inner=INNER, **switches)
    head = LMHead(embedding, width=WIDTH, transform="gelu" if narrow else None)
    torch.manual_seed(0)
    waves = None if placing == "learned" else embedding.position.weight
    peer = TorchEncoder(norm=norm, activation=activation, shared=shared, narrow=narrow, waves=waves)
    with torch.no_grad():
        for name, value in peer.named_parameters():
            value.copy_(0.2 * torch.randn_like(value) + ("norm" in name and name.endswith("weight")))
    names = torch_names(peer, 1 if shared else DEPTH)
    torch_parameters = dict(peer.named_parameters())
    model = Model(encoder, {"next": head}).load(
        {name_ours: torch_parameters[name_torch].detach().clone() for name_ours, name_torch in names.items()}
    )
    return model, peer, names


CASES = {
    f"{norm}-{activation}-{sees}": {"norm": norm, "activation": activation, "sees": sees}
    for norm in ("post", "pre")
    for activation in ("relu", "gelu")
    for sees in ("all", "past")
}
CASES |= {
    "shared": {"shared": True},
    "narrow": {"narrow": 16},
    "albert": {"shared": True, "narrow": 16},
    "sinusoid": {"placing": "sinusoid", "activation": "relu"},
    "none": {"placing": "none", "norm": "pre"},
}


@pytest.mark.parametrize("lengths", [(9, 9, 9), (7, 24, 1, 12, 12)], ids=["equal", "ragged"])
@pytest.mark.parametrize("case", CASES)
def test_transformer_logits_and_gradients_equal_torch(case, lengths):
    model, peer, names = model_and_peer(**CASES[case])
    rows, total = rows_of(*lengths), sum(lengths)
    target = torch.from_numpy(rows_of(total, seed=1)[0])
    expected = peer([torch.from_numpy(row) for row in rows], past=CASES[case].get("sees") == "past")
    actual = model.logits(inputs(rows))["next"]
    assert float(expected.detach().std()) > 0.5  # large enough that any error changes the logits
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    functional.cross_entropy(expected, target).backward()
    (model(inputs(rows), {"next": target})["next"] / total).backward()
    parameters, torch_parameters = dict(model.named_parameters()), dict(peer.named_parameters())
    assert parameters.keys() == names.keys()
    for name_ours, name_torch in names.items():
        torch.testing.assert_close(
            parameters[name_ours].grad, torch_parameters[name_torch].grad, rtol=1e-5, atol=1e-5, msg=name_ours
        )
    assert max(float(value.grad.abs().max()) for value in torch_parameters.values()) > 1e-2
