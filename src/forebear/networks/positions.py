"""Where a token stands in its row: a vector for each position, learned or fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from forebear.networks.initial import table

Placing = Literal["learned", "sinusoid", "none"]
LONGEST = 10_000.0  # waves are from 2π to nearly 2π times this many positions long


class Fixed(nn.Module):
    """A table like a learned one, but no parameter and never saved. It has its values before the model has any."""

    weight: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", values, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Fixed:
        values = self.weight
        super()._apply(fn, recurse)
        if self.weight.is_meta:  # nothing would fill it again
            self.weight = values
        return self


def position_table(placing: Placing, positions: int, width: int) -> nn.Embedding | Fixed:
    """(positions, width) vectors as `weight`; those of "none" are zeros."""
    if placing == "learned":
        return table(positions, width)
    return Fixed(sinusoid(positions, width) if placing == "sinusoid" else torch.zeros(positions, width, device="cpu"))


def sinusoid(positions: int, width: int) -> Tensor:
    """The waves of the Transformer: sin(p / 10000^(i/D)) at position p in each even dimension i, its cos in the next.

    A step further turns each pair of dimensions by an angle of its own, wherever it is taken: distance is linear.
    """
    even = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    angles = torch.arange(positions, dtype=torch.float64, device="cpu")[:, None] / LONGEST ** (even / width)
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :width].float()
