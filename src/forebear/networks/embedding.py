"""Ids into vectors: the sum of what a token is, where it stands in its row and which segment it belongs to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from forebear.errors import BadInput
from forebear.networks.initial import layer_norm, looked_up, table
from forebear.networks.positions import Placing, position_table
from forebear.networks.states import TokenVectors


class Embedding(TokenVectors):
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
        placing: Placing = "learned",
        segments: int = 0,
        norm: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.vocabulary, self.width, self.positions, self.scale = vocabulary, width, positions, scale
        self.placing, self.dropout = placing, nn.Dropout(dropout)
        self.token = table(vocabulary, width)
        self.position = position_table(placing, positions, width)
        self.segment = table(segments, width) if segments else None
        self.norm = layer_norm(width, epsilon) if norm else None

    def forward(self, tokens: Tensor, lengths: tuple[int, ...], segments: Tensor | None = None) -> Tensor:
        longest = max(lengths)
        if longest > self.positions:
            raise BadInput(
                f"a row of {longest} tokens is longer than the context of {self.positions}",
                remedy="cut the text into shorter rows, or train with a larger --context",
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
        return x + looked_up(weight, places(lengths, x.device))


def places(lengths: tuple[int, ...], device: torch.device | None = None) -> Tensor:
    """(T,) 0, 1, 2, … anew in each row."""
    everywhere = torch.arange(max(lengths), device=device)
    return torch.cat([everywhere[:length] for length in lengths])
