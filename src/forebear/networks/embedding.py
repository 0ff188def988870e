"""Ids into vectors: the sum of what a token is, where it stands in its row and which segment it belongs to."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.errors import BadInput
from forebear.networks.initial import layer_norm, table


class Embedding(nn.Module):
    """Learned vectors for tokens, for `positions` in a row and for `segments`, their sum normed if `norm` (BERT)."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        positions: int,
        segments: int = 0,
        norm: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.vocabulary, self.width, self.positions = vocabulary, width, positions
        self.dropout = nn.Dropout(dropout)
        self.token = table(vocabulary, width)
        self.position = table(positions, width)
        self.segment = table(segments, width) if segments else None
        self.norm = layer_norm(width, epsilon) if norm else None

    def forward(self, tokens: Tensor, lengths: tuple[int, ...], segments: Tensor | None = None) -> Tensor:
        longest = max(lengths)
        if longest > self.positions:
            raise BadInput(
                f"a row of {longest} tokens is longer than the context of {self.positions}",
                remedy="cut the text into shorter rows, or train with a larger --context",
            )
        x = self._placed(functional.embedding(tokens, self.token.weight), lengths)
        if self.segment is not None and segments is not None:
            x = x + functional.embedding(segments, self.segment.weight)
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)

    def _placed(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """Positions are counted from the beginning of each row."""
        first = lengths[0]
        if all(length == first for length in lengths):  # a sum over rows is a far cheaper gradient than a scatter
            return (x.view(len(lengths), first, -1) + self.position.weight[:first]).view(x.shape)
        return x + functional.embedding(places(lengths, x.device), self.position.weight)


def places(lengths: tuple[int, ...], device: torch.device | None = None) -> Tensor:
    """(T,) 0, 1, 2, … anew in each row."""
    everywhere = torch.arange(max(lengths), device=device)
    return torch.cat([everywhere[:length] for length in lengths])
