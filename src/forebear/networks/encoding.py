"""A Transformer laid out for reading very many rows: weights packed once, sums and curves in place.

Its readable twin is the Transformer itself; a test compares them. Measured with one thread on an AVX2 processor, MiniLM
and rows of 37 tokens in the mean: 1.11 times as fast as the Transformer with 4,096 tokens at once, 1.05 times as with
the 2,048 of batching.py. What is left is the matrix product (nine tenths of the time), attention (7 %) and GELU (3 %).
Slower were: GELU or the sum inside oneDNN's product, and attention by batched products over rows padded to multiples
of 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forebear.networks.activation import ACTIVATIONS
from forebear.networks.attention import attend
from forebear.networks.layouts import Product, for_rows, packs, product
from forebear.networks.model import Model
from forebear.networks.states import Encoder, States
from forebear.networks.transformer import Block, Transformer

ENOUGH = 4096  # tokens; packing MiniLM costs what it gains on some 2,200, and both grow with the model
MOST_COPIED = 4 << 30  # bytes of weights, which are there twice
IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {"gelu": torch.ops.aten.gelu_, "relu": torch.relu_}


def for_many(model: Model, tokens: int) -> Model:
    """The model, laid out for reading so many tokens, if that is worth it; it must not learn meanwhile."""
    encoder = model.encoder
    if tokens < ENOUGH or not isinstance(encoder, Transformer) or not packs(encoder.embedding.token.weight):
        return model
    compiled = any("feedforward" in vars(block) for block in encoder.blocks)  # see compiling.py
    size = sum(value.numel() * value.element_size() for value in encoder.blocks.parameters())
    return model if compiled or size > MOST_COPIED else Model(Encoding(encoder), dict(model.heads.items())).eval()


@dataclass(frozen=True)
class Laid:
    """One block, with the products of its four linear layers."""

    block: Block
    query_key_value: Product
    output: Product
    expand: Product
    contract: Product

    def __call__(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """(T, D) → (T, D), as `Block.forward` in reading."""
        block = self.block
        if block.norm_place == "pre":
            x = self._attended(block.attention_norm(x), lengths).add_(x)
            return self._fed(block.feedforward_norm(x)).add_(x)
        x = block.attention_norm(self._attended(x, lengths).add_(x))
        return block.feedforward_norm(self._fed(x).add_(x))

    def _attended(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        attention = self.block.attention
        return self.output(attend(self.query_key_value(x), lengths, attention.heads, past_only=attention.past_only))

    def _fed(self, x: Tensor) -> Tensor:
        name = self.block.activation
        return self.contract(IN_PLACE.get(name, ACTIVATIONS[name])(self.expand(x)))


class Encoding(Encoder):
    """The encoder as it stands, for reading: it gives what the Transformer gives, to the last digits but one."""

    embedding = None  # it is the Transformer's

    def __init__(self, encoder: Transformer) -> None:
        super().__init__()
        self.encoder = encoder
        self.depth, self.width, self.context, self.sees = encoder.depth, encoder.width, encoder.context, encoder.sees
        with torch.inference_mode():
            self._laid = [_laid(block) for block in encoder.blocks if isinstance(block, Block)]

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> States:
        encoder = self.encoder
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        kept = kept if self.sees == "all" else None
        x = encoder.embedding(tokens, rows, segments)
        layers = [x if encoder.project is None else encoder.project(x)]
        for number in range(self.depth):
            laid = self._laid[number % len(self._laid)]
            asked = kept is not None and number == self.depth - 1  # few tokens: the block itself knows how
            layers.append(laid.block(layers[-1], rows, kept) if asked else laid(layers[-1], rows))
        if encoder.final_norm is not None:
            layers[-1] = encoder.final_norm(layers[-1])
        return States(layers, rows, kept)


def _laid(block: Block) -> Laid:
    attention = block.attention
    layers = (attention.query_key_value, attention.output, block.expand, block.contract)
    return Laid(block, *(product(layer, for_rows) for layer in layers))
