"""An encoder that reads from left to right: what it knows of all tokens so far goes from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from forebear.networks.carried import Carried
from forebear.networks.characters import Spelled
from forebear.networks.recurrence import LockedDropout, Stack, State
from forebear.networks.states import Encoder, States
from forebear.networks.window import Words


class Recurrent(Encoder):
    """Vectors of words, and recurrent layers above them. Rows of any length can be read.

    dropout       of the vectors and of what heads read, the same numbers at all tokens of a row
    word_dropout  share of the words of a step that have no vector, wherever they stand (AWD)

    In training, a row may go on where that of the step before has ended (`streams`): the state is carried over, the
    gradient is not.
    """

    sees, context = "past", None
    embedding: Words | Spelled
    carried: Carried

    def __init__(
        self, embedding: Words | Spelled, layers: Stack, *, dropout: float = 0.0, word_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, layers  # pyright: ignore[reportIncompatibleVariableOverride]
        self.drop, self.word_drop = LockedDropout(dropout), nn.Dropout(word_dropout)
        self.carried = Carried()  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.layers.each()[-1].out

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of its layers, which can be mixed only where they are equal."""
        return (self.embedding.width, *(layer.out for layer in self.layers.each()))

    def lower(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of so many layers."""
        yield from self.embedding.parameters()
        for layer in self.layers.each()[:layers]:
            yield from layer.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        kept: Tensor | None = None,
        streams: Tensor | None = None,
        fresh: Tensor | None = None,
    ) -> States:
        """`streams` (B,) numbers what each row goes on with, `fresh` tells where it begins anew."""
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        x = self.drop(self.vectors(tokens), rows)
        carries = self.training and streams is not None and fresh is not None
        states = self.carried.of(streams, fresh, self.layers.zeros(len(rows), x)) if carries else None  # pyright: ignore[reportArgumentType]
        layers, left = self.layers(x, rows, states)
        if carries:
            self.carried.leave(streams, left)  # pyright: ignore[reportArgumentType]
        return States([x, *layers[:-1], self.drop(layers[-1], rows)], rows)

    def vectors(self, tokens: Tensor) -> Tensor:
        """(T, D) of the tokens."""
        x = self.embedding(tokens)
        if not self.training or not self.word_drop.p:
            return x
        return x * self.word_drop(x.new_ones(self.embedding.vocabulary, 1))[tokens]

    def remembered(self, length: int) -> int:
        """Numbers that are kept of a row while it is continued, however long it is."""
        return self.layers.remembered()

    def on(self, tokens: Tensor, states: Sequence[State]) -> tuple[Tensor, list[State]]:
        """One more token of each row: (B,) → (B, D) what heads read, and the states."""
        return self.layers.step(self.embedding(tokens), states)

    def read(
        self, tokens: Tensor, lengths: tuple[int, ...], states: Sequence[State] | None
    ) -> tuple[Tensor, list[State]]:
        """(T, D) what heads read of rows that go on from these states, and the states they are left in."""
        layers, left = self.layers(self.embedding(tokens), lengths, states)
        return layers[-1], left
