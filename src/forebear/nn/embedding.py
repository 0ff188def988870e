"""Ids into vectors: the sum of what a token is, where it stands in its row and which segment it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from forebear.errors import InputError
from forebear.nn.encoder import TokenVectors
from forebear.nn.layers import deferred_embedding, deferred_layer_norm, embedding_lookup

# Where a token stands in its row: a vector for each position, learned or fixed.


PositionKind = Literal["learned", "sinusoid", "none"]
MAX_PERIOD = 10_000.0  # waves are from 2π to nearly 2π times this many positions long


class SinusoidalPositions(nn.Module):
    """A table like a learned one, but no parameter and never saved. It has its values before the model has any."""

    weight: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", values, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SinusoidalPositions:
        values = self.weight
        super()._apply(fn, recurse)
        if self.weight.is_meta:  # nothing would fill it again
            self.weight = values
        return self


def make_position_table(placing: PositionKind, positions: int, width: int) -> nn.Embedding | SinusoidalPositions:
    """(positions, width) vectors as `weight`; those of "none" are zeros."""
    if placing == "learned":
        return deferred_embedding(positions, width)
    return SinusoidalPositions(
        sinusoid_table(positions, width) if placing == "sinusoid" else torch.zeros(positions, width, device="cpu")
    )


def sinusoid_table(positions: int, width: int) -> Tensor:
    """The waves of the Transformer: sin(p / 10000^(i/D)) at position p in each even dimension i, its cos in the next.

    A step further turns each pair of dimensions by an angle of its own, wherever it is taken: distance is linear.
    """
    even = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    angles = torch.arange(positions, dtype=torch.float64, device="cpu")[:, None] / MAX_PERIOD ** (even / width)
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :width].float()


class InputEmbedding(TokenVectors):
    """Vectors for tokens, for `positions` in a row and for `segments`, their sum normed if `norm` (BERT).

    placing   "learned"; "sinusoid": the waves of the Transformer paper; "none": a row is a bag to those who see all
    segments  where there are any, a text that does not say which it has is all of the first
    scale     what the vectors of tokens are multiplied by: the Transformer's √width, beside waves of height 1
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        positions: int,
        placing: PositionKind = "learned",
        segments: int = 0,
        norm: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.vocabulary, self.width, self.positions, self.scale = vocabulary, width, positions, scale
        self.placing, self.dropout = placing, nn.Dropout(dropout)
        self.token = deferred_embedding(vocabulary, width)
        self.position = make_position_table(placing, positions, width)
        self.segment = deferred_embedding(segments, width) if segments else None
        self.norm = deferred_layer_norm(width, epsilon) if norm else None

    def forward(self, tokens: Tensor, lengths: tuple[int, ...], segments: Tensor | None = None) -> Tensor:
        longest = max(lengths)
        if longest > self.positions:
            raise InputError(
                f"a row of {longest} tokens is longer than the context of {self.positions}",
                hint="cut the text into shorter rows, or train with a larger --context",
            )
        x = self.token(tokens)
        x = self._placed(x if self.scale == 1 else x * self.scale, lengths)
        if self.segment is not None:
            x = x + (self.segment.weight[0] if segments is None else self.segment(segments))
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)

    def _placed(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Positions are counted from the beginning of each row."""
        if self.placing == "none":
            return x
        first = lengths[0]
        weight = self.position.weight.to(x.device)  # fixed ones have numbers even where nothing else has
        if all(length == first for length in lengths):  # a sum over rows is a far cheaper gradient than a scatter
            return (x.view(len(lengths), first, -1) + weight[:first]).view(x.shape)
        return x + embedding_lookup(weight, position_ids(lengths, x.device))


def position_ids(lengths: tuple[int, ...], device: torch.device | None = None) -> Tensor:
    """(T,) 0, 1, 2, … anew in each row."""
    everywhere = torch.arange(max(lengths), device=device)
    return torch.cat([everywhere[:length] for length in lengths])
