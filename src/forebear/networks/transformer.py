"""The Transformer that milestones share; its switches are the things in which they differ, and there are no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from torch import Tensor, nn

from forebear.errors import BadInput
from forebear.networks.activation import ACTIVATIONS
from forebear.networks.attention import Attention
from forebear.networks.embedding import Embedding
from forebear.networks.initial import layer_norm, linear
from forebear.networks.states import Encoder, States

Norm = Literal["pre", "post"]
Sees = Literal["past", "all"]
Activation = Literal["gelu", "gelu-tanh", "relu"]


class Block(nn.Module):
    """Attention, then a feed-forward layer, each added to what came in; the norm stands before ("pre") or after."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        norm_place: Norm,
        sees: Sees,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
        epsilon: float,
        output_scale: float,
    ) -> None:
        super().__init__()
        self.norm_place, self.activation, self.dropout = norm_place, activation, nn.Dropout(dropout)
        past_only = sees == "past"
        self.attention = Attention(
            width, heads, past_only=past_only, dropout=attention_dropout, output_scale=output_scale
        )
        self.attention_norm, self.feedforward_norm = layer_norm(width, epsilon), layer_norm(width, epsilon)
        self.expand, self.contract = linear(width, inner), linear(inner, width, width=width, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], kept: Tensor | None = None) -> Tensor:
        """(T, D) → (T, D), or (len(kept), D), for the tokens that are `kept`."""
        own = x if kept is None else x[kept]
        if self.norm_place == "pre":
            x = own + self.dropout(self.attention(self.attention_norm(x), lengths, kept))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(own + self.dropout(self.attention(x, lengths, kept)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))

    def maps(self, x: Tensor, lengths: tuple[int, ...]) -> list[Tensor]:
        return self.attention.maps(self.attention_norm(x) if self.norm_place == "pre" else x, lengths)

    def feedforward(self, x: Tensor) -> Tensor:
        return self.contract(ACTIVATIONS[self.activation](self.expand(x)))


class Transformer(Encoder):
    """An encoder: tokens of ragged rows → States.

    norm        "pre": before each part, and once more at the end (GPT-2); "post": after each sum (the original, BERT)
    sees        "past": a token sees itself and those before it; "all": its whole row
    activation  between the two feed-forward layers, `inner` wide
    width       of the states; an embedding of another width is projected to it (ALBERT)
    shared      one block, used at every depth (ALBERT)
    epsilon     what keeps a norm from dividing by zero
    attention_dropout  of the weights of attention, where it is not `dropout` too: the original Transformer has none
    """

    has_attention = True
    embedding: Embedding

    def __init__(
        self,
        embedding: Embedding,
        *,
        depth: int,
        width: int,
        heads: int,
        inner: int,
        norm: Norm,
        sees: Sees,
        activation: Activation,
        shared: bool = False,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        if width % heads:
            raise BadInput(
                f"a width of {width} cannot be divided among {heads} heads",
                remedy=f"choose a width that is a multiple of {heads}, or other heads",
            )
        self.embedding, self.width, self.depth = embedding, width, depth  # pyright: ignore[reportIncompatibleVariableOverride]
        self.norm_place, self.sees, self.activation, self.heads, self.epsilon = norm, sees, activation, heads, epsilon
        # Each of the 2·depth sums onto the way through adds variance: GPT-2 makes what is added smaller by their root.
        scale = (2 * depth) ** -0.5 if norm == "pre" else 1.0
        self.blocks = nn.ModuleList(
            Block(
                width,
                heads,
                inner,
                norm_place=norm,
                sees=sees,
                activation=activation,
                dropout=dropout,
                attention_dropout=dropout if attention_dropout is None else attention_dropout,
                epsilon=epsilon,
                output_scale=scale,
            )
            for _ in range(1 if shared else depth)
        )
        self.project = linear(embedding.width, width) if embedding.width != width else None
        self.final_norm = layer_norm(width, epsilon) if norm == "pre" else None

    @property
    def context(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.embedding.positions

    def lower(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of the first so many layers."""
        yield from self.embedding.parameters()
        yield from self.project.parameters() if self.project is not None else ()
        for block in self.blocks[: min(layers, 1) if len(self.blocks) < self.depth else layers]:
            yield from block.parameters()
        if layers >= self.depth and self.final_norm is not None:
            yield from self.final_norm.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> States:
        """`kept` are the numbers, rising, of the tokens that the last layer is wanted of; None: of all."""
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        kept = kept if self.sees == "all" else None  # those that look back are asked about every token
        x = self.embedding(tokens, rows, segments)
        layers = [x if self.project is None else self.project(x)]
        for number in range(self.depth):
            of_last = kept if number == self.depth - 1 else None
            layers.append(self.blocks[number % len(self.blocks)](layers[-1], rows, of_last))
        if self.final_norm is not None:
            layers[-1] = self.final_norm(layers[-1])
        return States(layers, rows, kept)

    def attention(
        self, tokens: Tensor, lengths: Tensor | Sequence[int], segments: Tensor | None = None
    ) -> list[list[Tensor]]:
        """Where tokens look: for each layer a list with the (H, n, n) weights of each row, for study."""
        states = self(tokens, lengths, segments)
        found = []
        for number, x in enumerate(states.layers[:-1]):
            block = self.blocks[number % len(self.blocks)]
            assert isinstance(block, Block)
            found.append(block.maps(x, states.lengths))
        return found
