"""The Transformer: encoder, decoder and encoder–decoder; its options are the differences between the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from forebear.errors import InputError
from forebear.nn.attention import CrossAttention, SelfAttention
from forebear.nn.embedding import InputEmbedding
from forebear.nn.encoder import Encoder, EncoderDecoderBase, Lengths, States, to_lengths
from forebear.nn.layers import ACTIVATIONS, deferred_layer_norm, deferred_linear

NormPosition = Literal["pre", "post"]
Sees = Literal["past", "all"]
Activation = Literal["gelu", "gelu-tanh", "relu"]


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward layer with residual connections, each with LayerNorm ("pre" or "post")."""

    has_cross_attention: ClassVar[bool] = False

    def __init__(
        self,
        width: int,
        num_heads: int,
        inner: int,
        *,
        norm_position: NormPosition,
        sees: Sees,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
        epsilon: float,
        output_scale: float,
    ) -> None:
        super().__init__()
        self.norm_position, self.activation, self.dropout = norm_position, activation, nn.Dropout(dropout)
        self.attention = SelfAttention(
            width, num_heads, is_causal=sees == "past", dropout=attention_dropout, output_scale=output_scale
        )
        has_cross = self.has_cross_attention
        self.cross = CrossAttention(width, num_heads, output_scale=output_scale) if has_cross else None
        self.attention_norm = deferred_layer_norm(width, epsilon)
        self.cross_norm = deferred_layer_norm(width, epsilon) if has_cross else None
        self.feedforward_norm = deferred_layer_norm(width, epsilon)
        self.expand = deferred_linear(width, inner)
        self.contract = deferred_linear(inner, width, width=width, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], positions: Tensor | None = None) -> Tensor:
        """(T, D) → (T, D), or (len(positions), D) for these tokens only."""
        residual = x if positions is None else x[positions]
        if self.norm_position == "pre":
            x = residual + self.dropout(self.attention(self.attention_norm(x), lengths, positions))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(residual + self.dropout(self.attention(x, lengths, positions)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))

    def attention_weights(self, x: Tensor, lengths: tuple[int, ...]) -> list[Tensor]:
        return self.attention.attention_weights(self.attention_norm(x) if self.norm_position == "pre" else x, lengths)

    def feedforward(self, x: Tensor) -> Tensor:
        return self.contract(ACTIVATIONS[self.activation](self.expand(x)))


class Transformer(Encoder):
    """A Transformer encoder (bidirectional) or decoder-only model (causal).

    norm        "pre": before each sublayer and after the last block (GPT-2); "post": after each sum (BERT)
    sees        "past": causal attention; "all": full attention
    activation  of the feed-forward layer, whose size is `inner`
    width       hidden size; an embedding of another size is projected to it (ALBERT)
    shared      one block shared by all layers (ALBERT)
    epsilon     of LayerNorm
    attention_dropout  dropout of attention weights, by default `dropout`; the original Transformer has none
    """

    has_attention = True
    block_class: ClassVar[type[TransformerBlock]] = TransformerBlock
    residuals_per_block: ClassVar[int] = 2
    embedding: InputEmbedding

    def __init__(
        self,
        embedding: InputEmbedding,
        *,
        depth: int,
        width: int,
        num_heads: int,
        inner: int,
        norm: NormPosition,
        sees: Sees,
        activation: Activation,
        shared: bool = False,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        if width % num_heads:
            raise InputError(
                f"a width of {width} cannot be divided among {num_heads} heads",
                hint=f"choose a width that is a multiple of {num_heads}, or other heads",
            )
        self.embedding, self.width, self.depth = embedding, width, depth  # pyright: ignore[reportIncompatibleVariableOverride]
        self.norm_position, self.sees, self.activation = norm, sees, activation
        self.heads, self.epsilon = num_heads, epsilon
        # Each residual sum adds variance: GPT-2 scales the output layers by the inverse root of the number of sums.
        scale = (self.residuals_per_block * depth) ** -0.5 if norm == "pre" else 1.0
        self.blocks = nn.ModuleList(
            self.block_class(
                width,
                num_heads,
                inner,
                norm_position=norm,
                sees=sees,
                activation=activation,
                dropout=dropout,
                attention_dropout=dropout if attention_dropout is None else attention_dropout,
                epsilon=epsilon,
                output_scale=scale,
            )
            for _ in range(1 if shared else depth)
        )
        self.project = deferred_linear(embedding.width, width) if embedding.width != width else None
        self.final_norm = deferred_layer_norm(width, epsilon) if norm == "pre" else None

    @property
    def max_length(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.embedding.positions

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """Parameters of the embedding and the first `num_layers` layers."""
        yield from self.embedding.parameters()
        yield from self.project.parameters() if self.project is not None else ()
        for block in self.blocks[: min(num_layers, 1) if len(self.blocks) < self.depth else num_layers]:
            yield from block.parameters()
        if num_layers >= self.depth and self.final_norm is not None:
            yield from self.final_norm.parameters()

    def forward(
        self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None, positions: Tensor | None = None
    ) -> States:
        """`positions` are the ascending indices of the tokens that need the last layer; None: all."""
        rows = to_lengths(lengths)
        positions = positions if self.sees == "all" else None  # causal models are supervised at every token
        x = self.embedding(tokens, rows, segments)
        layers = [x if self.project is None else self.project(x)]
        for index in range(self.depth):
            block_positions = positions if index == self.depth - 1 else None
            layers.append(self.blocks[index % len(self.blocks)](layers[-1], rows, block_positions))
        if self.final_norm is not None:
            layers[-1] = self.final_norm(layers[-1])
        return States(layers, rows, positions)

    def attention_maps(self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None) -> list[list[Tensor]]:
        """Attention weights for inspection: for each layer the (H, n, n) weights of each sequence."""
        states = self(tokens, lengths, segments)
        weights = []
        for index, x in enumerate(states.layers[:-1]):
            block = self.blocks[index % len(self.blocks)]
            assert isinstance(block, TransformerBlock)
            weights.append(block.attention_weights(x, states.lengths))
        return weights


# --- Encoder–decoder ---


class DecoderBlock(TransformerBlock):
    """Causal self-attention, cross-attention and a feed-forward layer, each with a residual connection."""

    has_cross_attention = True
    cross: CrossAttention
    cross_norm: nn.LayerNorm

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> Tensor:
        """(T, D) targets and (S, D) memory → (T, D)."""
        if self.norm_position == "pre":
            x = x + self.dropout(self.attention(self.attention_norm(x), lengths))
            x = x + self.dropout(self.cross(self.cross_norm(x), lengths, memory, memory_lengths))
            return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, lengths)))
        x = self.cross_norm(x + self.dropout(self.cross(x, lengths, memory, memory_lengths)))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x)))

    def attention_weights(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Self-attention (H, n, n) and cross-attention (H, n, m) weights of each sequence."""
        norm_first = self.norm_position == "pre"
        normalized = self.attention_norm(x) if norm_first else x
        attended = x + self.attention(normalized, lengths)
        queries = self.cross_norm(attended) if norm_first else self.attention_norm(attended)
        return self.attention.attention_weights(normalized, lengths), self.cross.attention_weights(
            queries, lengths, memory, memory_lengths
        )


class TransformerDecoder(Transformer):
    """The decoder of the Transformer: causal blocks with cross-attention.

    Dropout as in the paper: of residual branches, not of attention weights.
    """

    block_class = DecoderBlock
    residuals_per_block = 3

    def __init__(self, embedding: InputEmbedding, **options: Any) -> None:
        super().__init__(embedding, sees="past", attention_dropout=0.0, **options)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, tokens: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> States:
        layers = [self.embedding(tokens, lengths)]
        for block in self.blocks:
            layers.append(block(layers[-1], lengths, memory, memory_lengths))
        if self.final_norm is not None:
            layers[-1] = self.final_norm(layers[-1])
        return States(layers, lengths)


class EncoderDecoder(EncoderDecoderBase):
    """The original Transformer."""

    has_attention = True
    reader: Transformer
    writer: TransformerDecoder

    def forward(
        self, tokens: Tensor, lengths: Lengths, source: Tensor, source_lengths: Lengths, positions: Tensor | None = None
    ) -> States:
        """Sequence i attends to sequence i of the `source`. `positions` is ignored: all are computed."""
        target_lengths, memory_lengths = to_lengths(lengths), to_lengths(source_lengths)
        return self.writer(tokens, target_lengths, self.reader(source, memory_lengths).last, memory_lengths)

    def attention_maps(
        self, tokens: Tensor, lengths: Lengths, source: Tensor, source_lengths: Lengths
    ) -> dict[str, list[list[Tensor]]]:
        """Attention weights for inspection: for each layer the weights of each sequence.

        "read" (H, m, m) within the source, "written" (H, n, n) within the target, "cross" (H, n, m) between them.
        """
        target_lengths, memory_lengths = to_lengths(lengths), to_lengths(source_lengths)
        memory = self.reader(source, memory_lengths).last
        states = self.writer(tokens, target_lengths, memory, memory_lengths)
        self_maps, cross_maps = [], []
        for block, x in zip(self.writer.blocks, states.layers[:-1], strict=True):
            assert isinstance(block, DecoderBlock)
            self_weights, cross_weights = block.attention_weights(x, target_lengths, memory, memory_lengths)
            self_maps.append(self_weights)
            cross_maps.append(cross_weights)
        return {"read": self.reader.attention_maps(source, memory_lengths), "written": self_maps, "cross": cross_maps}
