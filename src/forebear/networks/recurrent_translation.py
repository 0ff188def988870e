"""A recurrent network reads a text into its state; another goes on from there and writes, perhaps looking back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from forebear.networks.embedding import Embedding
from forebear.networks.encoder_decoder import as_lengths
from forebear.networks.initial import linear
from forebear.networks.recurrence import LockedDropout, Lstm, State
from forebear.networks.similarities import Bilinear, Concatenated, Dot, Perceptron, weighed
from forebear.networks.states import Encoder, States

LARGE = 6.0  # states of LSTMs begin far below 1: with the usual values next to nothing of them would come out

Way = Literal["forward", "backward", "both"]
Similarity = Dot | Bilinear | Concatenated | Perceptron


class BothDirections(nn.Module):
    """A layer that reads a row from either end: two of half the width, whose states stand beside each other."""

    def __init__(self, inputs: int, inner: int) -> None:
        super().__init__()
        self.halves = nn.ModuleList(Lstm(inputs, inner // 2, backward=backward) for backward in (False, True))

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, State]:
        """(T, inputs) → (T, inner), and the states in which either end is reached."""
        (ahead, last), (back, first) = (half(x, lengths) for half in self.halves)
        return torch.cat((ahead, back), 1), tuple(torch.cat(both, 1) for both in zip(last, first, strict=True))


class RecurrentReader(nn.Module):
    """Layers of LSTM cells over the source, each over what the one below it says.

    inner  numbers in the state of a layer
    way    "forward", "backward": from the last token to the first, or "both", each with half of the state
    """

    def __init__(self, embedding: Embedding, *, depth: int, inner: int, way: Way, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding, self.dropout = embedding, LockedDropout(dropout)
        widths = [embedding.width, *[inner] * (depth - 1)]
        self.layers = nn.ModuleList(
            BothDirections(width, inner) if way == "both" else Lstm(width, inner, backward=way == "backward")
            for width in widths
        )

    def forward(self, tokens: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, list[State]]:
        """(S, inner) the last layer's states of all tokens, and the state in which each layer ends, (B, inner)."""
        x, ends = self.embedding(tokens, lengths), []
        for layer in self.layers:
            x, end = layer(self.dropout(x, lengths), lengths)
            ends.append(end)
        return x, ends


class RecurrentWriter(nn.Module):
    """Layers of LSTM cells over what is written. Each begins with the state in which that layer of a reader ended.

    Where it does not look back, a linear map (`narrow`) leads from the last layer's state to the width of a token's
    vector; none where they are as wide.

    scored  the vectors by which tokens are scored: the embedding itself, or others, which are then kept here
    look    how it looks back at what was read
    """

    def __init__(
        self,
        embedding: Embedding,
        scored: Embedding,
        *,
        depth: int,
        inner: int,
        dropout: float = 0.0,
        look: LookingBack | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.depth, self.inner, self.dropout = embedding, depth, inner, LockedDropout(dropout)
        self.scored = None if scored is embedding else scored
        self.layers = nn.ModuleList(Lstm(inner if number else embedding.width, inner) for number in range(depth))
        alike = look is not None or inner == scored.width
        self.narrow = None if alike else linear(inner, scored.width, bias=False)
        self.look = look

    def forward(
        self,
        tokens: Tensor,
        lengths: tuple[int, ...],
        begin: Sequence[State],
        memory: Tensor,
        memory_lengths: tuple[int, ...],
    ) -> States:
        layers = self.states(tokens, lengths, begin)
        if self.look is not None:
            layers[-1] = self.look(layers[-1], lengths, memory, memory_lengths)
        elif self.narrow is not None:
            layers[-1] = self.narrow(layers[-1])
        layers[-1] = self.dropout(layers[-1], lengths)
        return States(layers, lengths)

    def states(self, tokens: Tensor, lengths: tuple[int, ...], begin: Sequence[State]) -> list[Tensor]:
        """The embedding and what each layer says, before anything is looked at."""
        layers = [self.embedding(tokens, lengths)]
        for layer, state in zip(self.layers, begin, strict=True):
            layers.append(layer(self.dropout(layers[-1], lengths), lengths, state)[0])
        return layers


class LookingBack(nn.Module):
    """Attention above the last layer (Luong): tanh(W c + U h), c what the state h finds among those of the source.

    It stands outside of the recurrence, so that all tokens of a translation look at once.
    """

    def __init__(self, similarity: Similarity, *, inner: int, width: int) -> None:
        super().__init__()
        self.similarity = similarity
        self.found, self.own = (linear(inner, width, bias=False, width=2 * inner, scale=LARGE) for _ in range(2))

    def forward(self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]) -> Tensor:
        """(T, inner), and the (S, inner) of what was read → (T, D)."""
        found = self.weighed(x, lengths, memory, memory_lengths)[0]
        return torch.tanh(self.found(only(found, lengths)) + self.own(x))

    def weighed(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """(B, n, inner) what each row's tokens find, by (B, n, m) weights; both padded where rows are shorter."""
        there = standing(memory_lengths)
        queries, keys = padded(x, lengths), padded(memory, memory_lengths)
        allowed = None if there.all() else there[:, None].to(x.device)
        return weighed(self.similarity(queries, keys), keys, allowed)


class RecurrentEncoderDecoder(Encoder):
    """Both networks. The states are those of what is written; a head reads them as it reads any others."""

    has_decoder = True
    sees = "past"
    embedding = None  # there are two

    def __init__(self, reader: RecurrentReader, writer: RecurrentWriter) -> None:
        super().__init__()
        self.reader, self.writer = reader, writer

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.embedding.width

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.depth

    @property
    def context(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.embedding.positions

    def remembered(self, length: int) -> int:
        """Numbers that are kept from token to token while a row is written from a source of this length."""
        return 2 * self.depth * self.writer.inner

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        source: Tensor,
        source_lengths: Tensor | Sequence[int],
        kept: Tensor | None = None,
    ) -> States:
        """Row i is written from row i of the `source`. Every token is asked about, whatever is `kept`."""
        rows, read = as_lengths(lengths), as_lengths(source_lengths)
        memory, ends = self.reader(source, read)
        return self.writer(tokens, rows, ends, memory, read)


class AttentiveEncoderDecoder(RecurrentEncoderDecoder):
    """One whose writer looks back at every state of the reader."""

    has_attention = True

    def remembered(self, length: int) -> int:
        """The state, and for each token of the source a key and a value."""
        return super().remembered(length) + length * (self.writer.inner + self.width)

    def attention(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        source: Tensor,
        source_lengths: Tensor | Sequence[int],
    ) -> dict[str, list[list[Tensor]]]:
        """Where tokens look, for study: "cross" has one layer with the (1, n, m) weights of each row."""
        rows, read = as_lengths(lengths), as_lengths(source_lengths)
        memory, ends = self.reader(source, read)
        state, look = self.writer.states(tokens, rows, ends)[-1], self.writer.look
        assert look is not None
        weights = look.weighed(state, rows, memory, read)[1]
        cut = zip(weights, rows, read, strict=True)
        return {"cross": [[one[None, :length, :seen] for one, length, seen in cut]]}


def standing(lengths: Sequence[int]) -> Tensor:
    """(B, n) where each row has a token, if all were as long as the longest."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def padded(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """(T, D) → (B, n, D), zeros behind shorter rows: for attention alone, which then takes all rows in one call."""
    here = standing(lengths)
    if not here.all():
        places = here.flatten().nonzero().squeeze(1).to(x.device)
        x = x.new_zeros((here.numel(), x.shape[1])).index_copy(0, places, x)
    return x.view(*here.shape, -1)


def only(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """(B, n, D) → (T, D), the way back."""
    here, flat = standing(lengths).flatten(), x.flatten(0, 1)
    return flat if here.all() else flat.index_select(0, here.nonzero().squeeze(1).to(x.device))
