"""What an encoder gives back: a vector for every token in its context, at every layer.

Letters for shapes, here and in the whole room:
    B rows of a batch · n tokens of one row · T tokens of all rows, one after the other, with nothing between them
    D width · H heads · d = D / H, the width of a head · V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class States:
    """`layers[0]` is the embedding, `layers[-1]` what heads read; each is (T, D), of one width but for `Window`'s.

    Where only some tokens are asked about, the last layer may have been computed for those alone: `kept` are their
    numbers, rising, and the last layer is (len(kept), D). Where an example is several rows, `groups` (B,) numbers the
    example of each, rising from 0.
    """

    layers: list[Tensor]
    lengths: tuple[int, ...]  # of the B rows; their sum is T
    kept: Tensor | None = None
    groups: Tensor | None = None

    @property
    def last(self) -> Tensor:
        return self.layers[-1]

    def at(self, numbers: Tensor) -> Tensor:
        """(n, D) the last layer's vectors of the tokens with these numbers."""
        return self.last[numbers if self.kept is None else torch.searchsorted(self.kept, numbers)]
