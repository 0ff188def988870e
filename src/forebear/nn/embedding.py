"""Input embeddings: the sum of token, position and segment vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from forebear.errors import InputError
from forebear.nn.encoder import TokenVectors
from forebear.nn.layers import deferred_embedding, deferred_layer_norm, embedding_lookup

# --- Position embeddings ---


PositionKind = Literal["learned", "sinusoid", "none"]
MAX_PERIOD = 10_000.0  # wavelengths range from 2π to nearly 2π times this many positions


class SinusoidalPositions(nn.Module):
    """A fixed position table with the interface of an embedding; neither a parameter nor saved."""

    weight: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", values, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SinusoidalPositions:
        values = self.weight
        super()._apply(fn, recurse)
        if self.weight.is_meta:  # values on the meta device would be lost
            self.weight = values
        return self


def make_position_table(placing: PositionKind, num_positions: int, width: int) -> nn.Embedding | SinusoidalPositions:
    """A module whose `weight` holds (positions, width) vectors; zeros for "none"."""
    if placing == "learned":
        return deferred_embedding(num_positions, width)
    if placing == "sinusoid":
        return SinusoidalPositions(sinusoid_table(num_positions, width))
    return SinusoidalPositions(torch.zeros(num_positions, width, device="cpu"))


def sinusoid_table(num_positions: int, width: int) -> Tensor:
    """The Transformer's sinusoidal positions: sin(p / 10000^(i/D)) in even dimensions i, the cosine in the next.

    A shift by a fixed distance rotates each pair of dimensions by a fixed angle, so it is a linear map.
    """
    even_dimensions = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    positions = torch.arange(num_positions, dtype=torch.float64, device="cpu")
    angles = positions[:, None] / MAX_PERIOD ** (even_dimensions / width)
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :width].float()


class InputEmbedding(TokenVectors):
    """Token, position and segment embeddings, optionally followed by LayerNorm (BERT).

    placing   "learned", "sinusoid" (the Transformer paper), or "none": bidirectional encoders then ignore word order
    num_segments  number of segment ids; a text without segment ids is all segment 0
    scale     factor of the token vectors: √width in the Transformer, whose sinusoids have amplitude 1
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        *,
        positions: int,
        placing: PositionKind = "learned",
        num_segments: int = 0,
        norm: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.width, self.positions, self.scale = vocab_size, width, positions, scale
        self.placing, self.dropout = placing, nn.Dropout(dropout)
        self.token = deferred_embedding(vocab_size, width)
        self.position = make_position_table(placing, positions, width)
        self.segment = deferred_embedding(num_segments, width) if num_segments else None
        self.norm = deferred_layer_norm(width, epsilon) if norm else None

    def forward(self, tokens: Tensor, lengths: tuple[int, ...], segments: Tensor | None = None) -> Tensor:
        max_row_length = max(lengths)
        if max_row_length > self.positions:
            raise InputError(
                f"a row of {max_row_length} tokens is longer than the context of {self.positions}",
                hint="cut the text into shorter rows, or train with a larger --context",
            )
        x = self.token(tokens)
        x = self._add_positions(x if self.scale == 1 else x * self.scale, lengths)
        if self.segment is not None:
            x = x + (self.segment.weight[0] if segments is None else self.segment(segments))
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)

    def _add_positions(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Positions restart at each sequence."""
        if self.placing == "none":
            return x
        weight = self.position.weight.to(x.device)  # sinusoids keep their values when the model is on the meta device
        if len(set(lengths)) == 1:  # the gradient of a broadcast sum is cheaper than a scatter
            return (x.view(len(lengths), lengths[0], -1) + weight[: lengths[0]]).view(x.shape)
        return x + embedding_lookup(weight, position_ids(lengths, x.device))


def position_ids(lengths: tuple[int, ...], device: torch.device | None = None) -> Tensor:
    """(T,) 0, 1, 2, … restarting at each sequence."""
    positions = torch.arange(max(lengths), device=device)
    return torch.cat([positions[:length] for length in lengths])
