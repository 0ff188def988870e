"""A causal Transformer and its head, laid out for reading a token at a time: what GPTs and translators share.

Measured with one thread on a shared AVX2 processor, a GPT-2 of 4 blocks of 256 and a vocabulary of 8,000, one row: of a
step two thirds are the matrix products, whose weights come from memory, 8 % attention, 2 % norms. Slower were, in µs:
256 → 1,024 by addmv 29 instead of 23, attention to 100 tokens by two batched products and a softmax 12 instead of 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.networks.activation import ACTIVATIONS
from forebear.networks.encoder_decoder import Writer, WritingBlock
from forebear.networks.heads import TokenHead
from forebear.networks.layouts import Lay, Product, as_trained, for_one_row, for_rows, product, vocabulary_product
from forebear.networks.transformer import Block, Transformer

MOST_COPIED = 4 << 30  # bytes of weights; a second copy of a larger model costs more than it gains
NormValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Cross:
    """The part of a block that looks at what was read."""

    norm: NormValues
    query: Product
    key_value: Product
    output: Product


@dataclass(frozen=True)
class Layer:
    """One block, flattened: calling modules costs as much time as a small model's arithmetic."""

    attention_norm: NormValues
    query_key_value: Product
    output: Product
    cross: Cross | None
    feedforward_norm: NormValues
    expand: Product
    contract: Product


class Decoder:
    """Made once, used for any number of rows. The model must not learn meanwhile."""

    def __init__(self, encoder: Transformer | Writer, head: TokenHead) -> None:
        self.encoder, self.head = encoder, head
        self.width, self.heads, self.depth = encoder.width, encoder.heads, encoder.depth
        self.context, self.pre, self.epsilon = encoder.context, encoder.norm_place == "pre", encoder.epsilon
        self.activation = ACTIVATIONS[encoder.activation]
        first = encoder.blocks[0]
        assert isinstance(first, Block | WritingBlock)
        self.like = first.attention_norm.weight  # what numbers are like: a norm is never of small integers
        self._project = encoder.project if isinstance(encoder, Transformer) else None
        weights = sum(parameter.numel() * parameter.element_size() for parameter in encoder.parameters())
        self._copies = weights <= MOST_COPIED

    def layers(self, rows: int) -> tuple[list[Layer], Product]:
        """The blocks in order and the product with the vocabulary, for so many rows at a time."""
        return self._for_one_row if rows == 1 else self._for_rows

    @cached_property
    def _for_one_row(self) -> tuple[list[Layer], Product]:
        return self._laid_out(for_one_row if self._copies else as_trained)

    @cached_property
    def _for_rows(self) -> tuple[list[Layer], Product]:
        return self._laid_out(for_rows if self._copies else as_trained)

    @torch.inference_mode()
    def _laid_out(self, lay: Lay) -> tuple[list[Layer], Product]:
        blocks = [_flattened(block, lay) for block in self.encoder.blocks]
        layers = [blocks[number % len(blocks)] for number in range(self.depth)]
        return layers, vocabulary_product(self.head, lay)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(T, D), as the embedding itself does for whole rows."""
        embedding = self.encoder.embedding
        x = embedding.token(tokens)
        if embedding.scale != 1:
            x *= embedding.scale
        x += functional.embedding(positions, embedding.position.weight)
        x = x if embedding.norm is None else embedding.norm(x)
        return x if self._project is None else self._project(x)

    def normed(self, x: Tensor, values: NormValues) -> Tensor:
        return torch.layer_norm(x, (self.width,), values[0], values[1], self.epsilon)

    def fed(self, x: Tensor, layer: Layer) -> Tensor:
        """The last part of a block, added to what came in."""
        inside = self.normed(x, layer.feedforward_norm) if self.pre else x
        x = x + layer.contract(self.activation(layer.expand(inside)))
        return x if self.pre else self.normed(x, layer.feedforward_norm)

    def logits(self, x: Tensor, vocabulary: Product) -> Tensor:
        final = self.encoder.final_norm
        return vocabulary(self.head.transformed(x if final is None else final(x)))


def _flattened(block: nn.Module, lay: Lay) -> Layer:
    assert isinstance(block, Block | WritingBlock)
    own, cross = block.attention, None
    if isinstance(block, WritingBlock):
        across = (product(layer, lay) for layer in (block.cross.query, block.cross.key_value, block.cross.output))
        cross = Cross(_values(block.cross_norm), *across)
    return Layer(
        _values(block.attention_norm),
        product(own.query_key_value, lay),
        product(own.output, lay),
        cross,
        _values(block.feedforward_norm),
        product(block.expand, lay),
        product(block.contract, lay),
    )


def _values(norm: nn.LayerNorm) -> NormValues:
    return norm.weight, norm.bias
