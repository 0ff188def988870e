"""What an encoder gives back: a vector for every token in its context, at every layer.

Letters for shapes, here and in the whole room:
    B rows of a batch · n tokens of one row · T tokens of all rows, one after the other, with nothing between them
    D width · H heads · d = D / H, the width of a head · V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class States:
    """`layers[0]` is the embedding, `layers[-1]` what heads read; each is (T, D)."""

    layers: list[Tensor]
    lengths: tuple[int, ...]  # of the B rows; their sum is T

    @property
    def last(self) -> Tensor:
        return self.layers[-1]
