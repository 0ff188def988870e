"""A text is read by one half and written by the other, which looks at what it has written and at all that was read."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from forebear.networks.activation import ACTIVATIONS
from forebear.networks.attention import Attention, CrossAttention
from forebear.networks.embedding import Embedding
from forebear.networks.initial import layer_norm, linear
from forebear.networks.states import Encoder, States
from forebear.networks.transformer import Activation, Norm, Transformer


class WritingBlock(nn.Module):
    """Attention to what is written so far, then to what was read, a feed-forward layer; each added to its input."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        norm_place: Norm,
        activation: Activation,
        dropout: float,
        epsilon: float,
        output_scale: float,
    ) -> None:
        super().__init__()
        self.norm_place, self.activation, self.dropout = norm_place, activation, nn.Dropout(dropout)
        self.attention = Attention(width, heads, past_only=True, output_scale=output_scale)
        self.cross = CrossAttention(width, heads, output_scale=output_scale)
        self.attention_norm, self.cross_norm, self.feedforward_norm = (layer_norm(width, epsilon) for _ in range(3))
        self.expand, self.contract = linear(width, inner), linear(inner, width, width=width, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]) -> Tensor:
        """(T, D), and the (S, D) of what was read → (T, D)."""
        if self.norm_place == "pre":
            x = x + self.dropout(self.attention(self.attention_norm(x), lengths))
            x = x + self.dropout(self.cross(self.cross_norm(x), lengths, memory, memory_lengths))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, lengths)))
        x = self.cross_norm(x + self.dropout(self.cross(x, lengths, memory, memory_lengths)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))

    def feedforward(self, x: Tensor) -> Tensor:
        return self.contract(ACTIVATIONS[self.activation](self.expand(x)))

    def maps(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Where each row looks in what is written (H, n, n), and where in what was read (H, n, m)."""
        pre = self.norm_place == "pre"
        own = self.attention_norm(x) if pre else x
        between = x + self.attention(own, lengths)
        asking = self.cross_norm(between) if pre else self.attention_norm(between)
        return self.attention.maps(own, lengths), self.cross.maps(asking, lengths, memory, memory_lengths)


class Writer(nn.Module):
    """The right half of the Transformer: a causal one whose every block looks at the memory too.

    Dropout is the paper's: of what is added, never of the weights of attention.
    """

    def __init__(
        self,
        embedding: Embedding,
        *,
        depth: int,
        width: int,
        heads: int,
        inner: int,
        norm: Norm,
        activation: Activation,
        dropout: float = 0.0,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.embedding, self.width, self.depth, self.heads = embedding, width, depth, heads
        self.norm_place, self.activation, self.epsilon = norm, activation, epsilon
        scale = (3 * depth) ** -0.5 if norm == "pre" else 1.0  # as in `Transformer`, for three sums in each block
        self.blocks = nn.ModuleList(
            WritingBlock(
                width,
                heads,
                inner,
                norm_place=norm,
                activation=activation,
                dropout=dropout,
                epsilon=epsilon,
                output_scale=scale,
            )
            for _ in range(depth)
        )
        self.final_norm = layer_norm(width, epsilon) if norm == "pre" else None

    @property
    def context(self) -> int:
        return self.embedding.positions

    def forward(
        self, tokens: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> States:
        layers = [self.embedding(tokens, lengths)]
        for block in self.blocks:
            layers.append(block(layers[-1], lengths, memory, memory_lengths))
        if self.final_norm is not None:
            layers[-1] = self.final_norm(layers[-1])
        return States(layers, lengths)


class EncoderDecoder(Encoder):
    """Both halves. The states are those of what is written; a head reads them as it reads any others."""

    has_attention, has_decoder = True, True
    sees = "past"
    embedding = None  # there are two

    def __init__(self, reader: Transformer, writer: Writer) -> None:
        super().__init__()
        self.reader, self.writer = reader, writer

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.width

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.depth

    @property
    def context(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.context

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        source: Tensor,
        source_lengths: Tensor | Sequence[int],
        kept: Tensor | None = None,
    ) -> States:
        """Row i of what is written looks at row i of the `source`. Every token is asked about, whatever is `kept`."""
        rows, read = as_lengths(lengths), as_lengths(source_lengths)
        return self.writer(tokens, rows, self.reader(source, read).last, read)

    def attention(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        source: Tensor,
        source_lengths: Tensor | Sequence[int],
    ) -> dict[str, list[list[Tensor]]]:
        """Where tokens look, for study: for each layer a list with the weights of each row.

        "read" (H, m, m) within the source, "written" (H, n, n) within what is written, "cross" (H, n, m) between them.
        """
        rows, read = as_lengths(lengths), as_lengths(source_lengths)
        memory = self.reader(source, read).last
        states = self.writer(tokens, rows, memory, read)
        found: dict[str, list[list[Tensor]]] = {"read": self.reader.attention(source, read), "written": [], "cross": []}
        for block, x in zip(self.writer.blocks, states.layers[:-1], strict=True):
            assert isinstance(block, WritingBlock)
            own, cross = block.maps(x, rows, memory, read)
            found["written"].append(own)
            found["cross"].append(cross)
        return found


def as_lengths(lengths: Tensor | Sequence[int]) -> tuple[int, ...]:
    return tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
