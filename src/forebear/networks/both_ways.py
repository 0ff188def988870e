"""Two language models over the same words: one reads on, one reads back, and neither knows what the other has read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from forebear.networks.characters import Spelled
from forebear.networks.recurrence import LockedDropout, Stack, State
from forebear.networks.states import Encoder, States
from forebear.networks.window import Words


class BothWays(Encoder):
    """ELMo's encoder. A layer's vector is what the model that reads on has there, and beside it what the other has;
    that of the embedding stands there twice. Rows of any length can be read.

    borders  the tokens that begin and end a text
    """

    sees, context = "all", None
    embedding: Words | Spelled

    def __init__(
        self,
        embedding: Words | Spelled,
        onward: Stack,
        back: Stack,
        *,
        borders: tuple[int, int],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding, self.onward, self.back, self.borders = embedding, onward, back, borders  # pyright: ignore[reportIncompatibleVariableOverride]
        self.drop = LockedDropout(dropout)

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 2 * self.onward.each()[-1].out

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.onward)

    def lower(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of so many layers, both ways."""
        yield from self.embedding.parameters()
        for stack in (self.onward, self.back):
            for layer in stack.each()[:layers]:
                yield from layer.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> States:
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        return States(self.through(tokens, rows)[0], rows)

    def through(
        self, tokens: Tensor, lengths: tuple[int, ...], states: tuple[list[State], list[State]] | None = None
    ) -> tuple[list[Tensor], tuple[list[State], list[State]]]:
        """All layers, and the states in which both ways are left; they may go on from those of other rows, as the
        published program does."""
        x = self.drop(self.embedding(tokens), lengths)
        onward, left = self.onward(x, lengths, None if states is None else states[0])
        back, begun = self.back(x, lengths, None if states is None else states[1])
        pairs = zip((x, *onward[:-1]), (x, *back[:-1]), strict=True)
        layers = [torch.cat(pair, 1) for pair in pairs]
        layers.append(torch.cat((self.drop(onward[-1], lengths), self.drop(back[-1], lengths)), 1))
        return layers, (left, begun)

    def remembered(self, length: int) -> int:
        """Numbers that are kept of a row while it is continued, however long it is."""
        return self.layers.remembered()

    def on(self, tokens: Tensor, states: Sequence[State]) -> tuple[Tensor, list[State]]:
        """One more token of each row, reading on: (B,) → (B, D) what the head `next` reads, and the states."""
        return self.onward.step(self.embedding(tokens), states)

    def read(
        self, tokens: Tensor, lengths: tuple[int, ...], states: Sequence[State] | None
    ) -> tuple[Tensor, list[State]]:
        """(T, D) what the head `next` reads of rows that go on from these states, and those they are left in."""
        layers, left = self.onward(self.embedding(tokens), lengths, states)
        return layers[-1], left

    @property
    def layers(self) -> Stack:
        """Those that read on."""
        return self.onward
