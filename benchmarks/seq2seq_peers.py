"""Sequence to sequence as tutorials write it in plain torch.nn, with the weights of ours: padded rows, a loop over
tokens, a full softmax, and beam search sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from forebear.nn.attention_scores import AdditiveScore
from forebear.nn.model import Model
from forebear.nn.seq2seq import BidirectionalLayer

PAD = -1  # no token: what is asked there counts for nothing
State = tuple[Tensor, Tensor]


class Peer(nn.Module):
    """nn.Embedding, nn.LSTM and nn.Linear; with attention (a perceptron's) or without, as ours is.

    whole  where a translation is known, all its steps are one call of nn.LSTM and one of attention; else a loop
    """

    def __init__(self, model: Model, *, whole: bool) -> None:
        super().__init__()
        encoder: Any = model.encoder
        reader, writer, self.whole = encoder.reader, encoder.writer, whole
        self.both = isinstance(reader.layers[0], BidirectionalLayer)
        self.backward_source = not self.both and reader.layers[0].backward
        depth, width, inner = writer.depth, writer.embedding.width, writer.inner
        self.scale = writer.embedding.scale
        self.read = nn.Embedding(*reader.embedding.token.weight.shape)
        self.written = nn.Embedding(*writer.embedding.token.weight.shape)
        half = inner // 2 if self.both else inner
        self.encoder = nn.LSTM(width, half, depth, batch_first=True, bidirectional=self.both)
        self.decoder = nn.LSTM(width, inner, depth, batch_first=True)
        self.attends = writer.look is not None
        if self.attends:
            if not isinstance(writer.look.similarity, AdditiveScore):
                raise SystemExit("theirs looks back by a perceptron: give a run of that kind")
            self.query, self.key = (nn.Linear(inner, inner, bias=False) for _ in range(2))
            self.score = nn.Linear(inner, 1, bias=False)
        self.join = nn.Linear((1 + self.attends) * inner, width, bias=False)
        self.out = nn.Linear(width, len(model.heads["translation"].weight), bias=False)  # pyright: ignore
        self._fill(model)

    @torch.no_grad()
    def _fill(self, model: Model) -> None:
        encoder: Any = model.encoder
        self.read.weight.copy_(encoder.reader.embedding.token.weight)
        self.written.weight.copy_(encoder.writer.embedding.token.weight)
        head: Any = model.heads["translation"]
        self.out.weight.copy_(head.weight)
        for number, layer in enumerate(encoder.reader.layers):
            halves = zip(("", "_reverse"), layer.halves, strict=True) if self.both else [("", layer)]
            for suffix, one in halves:
                _filled(self.encoder, f"l{number}{suffix}", one)
        for number, layer in enumerate(encoder.writer.layers):
            _filled(self.decoder, f"l{number}", layer)
        look = encoder.writer.look
        if self.attends:
            for name in ("query", "key", "score"):
                getattr(self, name).weight.copy_(getattr(look.similarity, name).weight)
            self.join.weight.copy_(torch.cat((look.found.weight, look.own.weight), 1))
        else:
            narrow = encoder.writer.narrow
            self.join.weight.copy_(torch.eye(self.join.in_features) if narrow is None else narrow.weight)

    def sources(self, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor, State]:
        """States of all tokens (B, m, inner), which of them are there, and the state to begin with."""
        lengths = torch.tensor([len(row) for row in rows])
        turned = [row.flip(0) for row in rows] if self.backward_source else rows
        packed = pack_padded_sequence(
            self.read(pad_sequence(list(turned), batch_first=True)) * self.scale,
            lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        states, (h, c) = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True)
        if self.both:
            h, c = (part.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2) for part in (h, c))
        return states, torch.arange(states.shape[1]) < lengths[:, None], (h.contiguous(), c.contiguous())

    def steps(self, tokens: Tensor, state: State, memory: Tensor, there: Tensor) -> tuple[Tensor, State]:
        """(B, n) tokens → (B, n, V) logits, and the state after them."""
        h, state = self.decoder(self.written(tokens) * self.scale, state)
        if not self.attends:
            return self.out(self.join(h)), state
        energy = torch.tanh(self.query(h)[:, :, None] + self.key(memory)[:, None])  # (B, n, m, inner)
        scores = self.score(energy).squeeze(-1)
        weights = scores.masked_fill(~there[:, None], -torch.inf).softmax(-1)
        return self.out(torch.tanh(self.join(torch.cat((weights @ memory, h), -1)))), state

    def loss(self, sources: Sequence[Tensor], seen: Sequence[Tensor], asked: Sequence[Tensor]) -> Tensor:
        memory, there, state = self.sources(sources)
        tokens, target = pad_sequence(list(seen), batch_first=True), pad_sequence(list(asked), True, PAD)
        if self.whole:
            logits, _ = self.steps(tokens, state, memory, there)
        else:
            told = []
            for place in range(tokens.shape[1]):
                one, state = self.steps(tokens[:, place : place + 1], state, memory, there)
                told.append(one)
            logits = torch.cat(told, 1)
        return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    @torch.no_grad()
    def beam_search(self, source: Tensor, beams: int, end: int, most: int, never: Tensor) -> list[int]:
        """One sentence: its beams are a batch; texts are ranked by the mean of log P, as ours are."""
        memory, there, state = self.sources([source])
        rows: list[list[int]] = [[]]
        totals, aside = torch.zeros(1), []
        while True:
            tokens = torch.tensor([[row[-1] if row else end] for row in rows])
            width = len(rows)
            logits, state = self.steps(tokens, state, memory.expand(width, -1, -1), there.expand(width, -1))
            values = logits[:, 0].log_softmax(-1)
            values[:, never] = -torch.inf
            best, places = (totals[:, None] + values).flatten().topk(2 * beams)
            on: list[tuple[float, int, int]] = []
            for rank, (value, place) in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
                row, token = divmod(place, values.shape[1])
                length = len(rows[row]) + 1
                if token == end or length == most:
                    if rank < beams:
                        aside.append((value / length, rows[row] + [token] * (token != end)))
                elif len(on) < beams:
                    on.append((value, row, token))
            aside = sorted(aside, key=lambda one: -one[0])[:beams]
            if not on or (len(aside) == beams and on[0][0] / (len(rows[0]) + 1) <= aside[-1][0]):
                return aside[0][1]
            kept = torch.tensor([row for _, row, _ in on])
            state = (state[0][:, kept], state[1][:, kept])
            rows, totals = [[*rows[row], token] for _, row, token in on], torch.tensor([value for value, _, _ in on])


def _filled(lstm: nn.LSTM, name: str, layer: Any) -> None:
    getattr(lstm, f"weight_ih_{name}").copy_(layer.input.weight)
    getattr(lstm, f"weight_hh_{name}").copy_(layer.state.weight)
    getattr(lstm, f"bias_ih_{name}").copy_(layer.input.bias)
    getattr(lstm, f"bias_hh_{name}").zero_()
