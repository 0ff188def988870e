"""Recurrent language models as people write them in plain torch.nn, with the weights of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.char_cnn import CharCNNEmbedding, Highway
from forebear.nn.model import Model
from forebear.nn.recurrent import BiLMEncoder, LSTMLayer, RecurrentLayer, RecurrentStack
from forebear.objectives.batch import IGNORE_INDEX, Batch
from forebear.training.settings import Recipe

ROWS = 256  # scored at once


class CellLoop(nn.Module):
    """ELMo's LSTM as its ports to torch have it: a loop over cells, each with its products, projection and clips."""

    def __init__(self, layer: LSTMLayer) -> None:
        super().__init__()
        assert layer.project is not None
        self.input, self.state, self.project = (_linear(one) for one in (layer.input, layer.state, layer.project))
        self.clip_limits = layer.clip_limits

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, inputs) → (B, n, out)."""
        h, c = (x.new_zeros(len(x), one.in_features) for one in (self.state, self.project))
        found = []
        for place in range(x.shape[1]):
            i, f, g, o = (self.input(x[:, place]) + self.state(h)).chunk(4, 1)
            c = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f) * c
            c = c.clamp(-self.clip_limits.cell, self.clip_limits.cell) if self.clip_limits.cell else c
            h = self.project(torch.sigmoid(o) * torch.tanh(c))
            h = h.clamp(-self.clip_limits.projection, self.clip_limits.projection) if self.clip_limits.projection else h
            found.append(h)
        return torch.stack(found, 1)


class Characters(nn.Module):
    """conv1d over every word of a batch, padded to the longest that may be, as often as it stands there."""

    def __init__(self, ours: CharCNNEmbedding) -> None:
        super().__init__()
        self.spelling, self.activation = ours.char_ids, torch.relu if ours.activation == "relu" else torch.tanh
        self.character = nn.Embedding.from_pretrained(ours.character.weight.detach().clone(), freeze=False)
        self.filters = nn.ModuleList(map(_convolution, ours.filters, ours.filter_widths))
        own = [one for one in ours.highways if isinstance(one, Highway)]
        self.carry = nn.ModuleList(_linear(one.carry) for one in own)
        self.transform = nn.ModuleList(_linear(one.transform) for one in own)
        self.project = _linear(ours.project)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n) → (B, n, D)."""
        symbols = torch.from_numpy(self.spelling.char_rows(tokens.flatten().numpy()).astype(np.int64))
        x = self.character(symbols).transpose(1, 2)
        x = torch.cat([self.activation(one(x)).amax(2) for one in self.filters], 1)
        for carry, transform in zip(self.carry, self.transform, strict=True):
            gate = torch.sigmoid(carry(x))
            x = gate * torch.relu(transform(x)) + (1 - gate) * x
        return self.project(x).view(*tokens.shape, -1)


class Plain(nn.Module):
    """nn.Embedding or the filters above, nn.LSTM, and a full softmax; one way, or both with one softmax.

    What it knew at the end of a batch goes on in the next, where the batch says so.
    """

    def __init__(self, ours: Model) -> None:
        super().__init__()
        encoder: Any = ours.encoder
        spelled, self.both = isinstance(encoder.embedding, CharCNNEmbedding), isinstance(encoder, BiLMEncoder)
        self.words = Characters(encoder.embedding) if spelled else _table(encoder.embedding)
        self.scale = 1.0 if spelled else encoder.embedding.scale
        ways: list[RecurrentStack] = [encoder.onward, encoder.back] if self.both else [encoder.layers]
        self.ways = nn.ModuleList(nn.ModuleList(lstm_of(layer) for layer in way.recurrent_layers()) for way in ways)
        self.skip = ways[0].skip
        head: Any = ours.heads["next"]
        tied = not hasattr(head, "softmax")
        weight, bias = (head.weight, head.bias) if tied else (head.softmax.scores.weight, head.softmax.scores.bias)
        self.out = nn.Linear(*reversed(weight.shape))
        self.out.weight = self.words.weight if tied else nn.Parameter(weight.detach().clone())  # pyright: ignore
        self.out.bias = nn.Parameter(bias.detach().clone())
        self.left: list[tuple[Tensor, Tensor]] | None = None

    def losses(self, tokens: Tensor, targets: Mapping[str, Tensor], fresh: Tensor | None = None) -> Tensor:
        """(B, n) each: the mean over what is asked, summed over targets."""
        x = self.words(tokens) * self.scale
        total = x.new_zeros(())
        for number, (name, way) in enumerate(zip(("next", "previous"), self.ways, strict=False)):
            turned = number == 1
            h = self.read(x.flip(1) if turned else x, way, fresh)
            logits = self.out(h.flip(1) if turned else h)
            asked = targets[name].flatten()
            total = total + functional.cross_entropy(logits.flatten(0, 1), asked, ignore_index=IGNORE_INDEX)
        return total

    def read(self, x: Tensor, way: Any, fresh: Tensor | None) -> Tensor:
        """(B, n, D) through the layers of one way."""
        left = []
        for number, lstm in enumerate(way):
            state = None
            if fresh is not None and self.left is not None:
                h, c = (part * ~fresh[None, :, None] for part in self.left[number])
                state = h, c
            y, (h, c) = lstm(x, state)
            left.append((h.detach(), c.detach()))
            x = x + y if self.skip and number else y
        if fresh is not None:
            self.left = left
        return x

    @torch.no_grad()
    def surprise(self, row: Tensor) -> float:
        """Σ −log P of each token of a row but its first, given all before it."""
        h = self.read(self.words(row[None, :-1]) * self.scale, self.ways[0], None)[0]
        parts = zip(h.split(ROWS), row[1:].split(ROWS), strict=True)
        return sum(functional.cross_entropy(self.out(x), asked, reduction="sum").item() for x, asked in parts)


def stepped(peer: Plain, recipe: Recipe) -> Callable[[Batch, float], float]:
    """Their loop: one step with a batch and a share of the rate, with fused AdamW and clipping as ours."""
    learned = [value for value in peer.parameters() if value.requires_grad]
    groups = [
        {"params": [value for value in learned if value.dim() > 1], "weight_decay": recipe.decay},
        {"params": [value for value in learned if value.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, recipe.memory), fused=True)

    def step(batch: Batch, share: float = 1.0) -> float:
        rows = len(batch.inputs["lengths"])
        tokens = torch.from_numpy(batch.inputs["tokens"]).view(rows, -1)
        targets = {name: torch.from_numpy(one).view(rows, -1) for name, one in batch.targets.items()}
        fresh = torch.from_numpy(batch.inputs["fresh"]) if "fresh" in batch.inputs else None
        loss = peer.losses(tokens, targets, fresh)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, recipe.clip)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * share
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def lstm_of(layer: RecurrentLayer) -> nn.LSTM:
    """torch's, of one layer, with the same weights; ours has one bias, and the second of theirs stays nothing."""
    project = {} if layer.project is None else {"proj_size": layer.out}
    lstm: Any = nn.LSTM(layer.inputs, layer.width, batch_first=True, **project)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(layer.input.weight)
        lstm.weight_hh_l0.copy_(layer.state.weight)
        lstm.bias_ih_l0.copy_(layer.input.bias)
        lstm.bias_hh_l0.zero_()
        if layer.project is not None:
            lstm.weight_hr_l0.copy_(layer.project.weight)
    lstm.bias_hh_l0.requires_grad_(False)
    return lstm


def _linear(ours: nn.Linear) -> nn.Linear:
    made = nn.Linear(ours.in_features, ours.out_features, bias=ours.bias is not None)
    made.load_state_dict(ours.state_dict())
    return made


def _table(words: Any) -> nn.Embedding:
    return nn.Embedding.from_pretrained(words.token.weight.detach().clone(), freeze=False)


def _convolution(filters: Any, span: int) -> nn.Conv1d:
    """Theirs have the numbers of a symbol before its place."""
    count = filters.out_features
    made = nn.Conv1d(filters.in_features // span, count, span)
    with torch.no_grad():
        made.weight.copy_(filters.weight.view(count, span, -1).transpose(1, 2))
        made.bias.copy_(filters.bias)  # pyright: ignore[reportOptionalMemberAccess]
    return made
