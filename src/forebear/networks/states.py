"""What an encoder gives back: a vector for every token in its context, at every layer.

Letters for shapes, here and in the whole room:
    B rows of a batch · n tokens of one row · T tokens of all rows, one after the other, with nothing between them
    D width · H heads · d = D / H, the width of a head · V vocabulary
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forebear.networks.carried import Carried
    from forebear.text.spelling import Spelling


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


class TokenVectors(nn.Module):
    """An embedding: a vector for each token. What not every one has is nothing here."""

    vocabulary: int
    width: int
    spelling: Spelling | None = None  # how tokens are written, where their vectors are made of that
    placing: str = "none"  # how places in a row are told, see `Embedding`


class Encoder(nn.Module):
    """What turns inputs into states. What not every encoder has is nothing here.

    depth    layers above the embedding
    width    of the last layer
    sees     "past", "all", or of a reader of words "text"
    context  the longest row; None: rows of any length can be read
    """

    depth: int
    width: int
    sees: str
    context: int | None
    embedding: TokenVectors | None  # has no value here: it would stand before what a module registers
    borders: tuple[int, int] | None = None  # the tokens that begin and end a text, where it is told them
    carried: Carried | None = None  # what a step of training hands to the next beside the weights
    has_attention: bool = False  # whether it tells where tokens look (`attention`)
    has_decoder: bool = False  # whether its states are those of what is written, from a source

    @property
    def widths(self) -> tuple[int, ...]:
        """Of its layers, which can be mixed only where they are equal."""
        return (self.width,) * (self.depth + 1)

    def remembered(self, length: int) -> int | None:
        """Numbers that are kept of a row of this length while it is continued; None: not other than by attention."""
        return None

    def attention(self, *given: Any, **named: Any) -> Any:
        """Where tokens look, of an encoder that `has_attention`."""
        raise NotImplementedError

    def lower(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of the first so many layers."""
        raise NotImplementedError
