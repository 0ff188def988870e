"""What a Transformer that was taught translations can be asked: how likely one is, and to write one token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from forebear.errors import ForebearError
from forebear.networks.activation import ACTIVATIONS
from forebear.networks.batching import batches, tensor
from forebear.networks.cross_entropy import log_probabilities
from forebear.networks.encoder_decoder import EncoderDecoder, WritingBlock
from forebear.networks.heads import TokenHead
from forebear.networks.layouts import Product, for_rows
from forebear.networks.model import Model

NormValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Layer:
    """One block of the writing half, flattened."""

    attention_norm: NormValues
    query_key_value: Product
    output: Product
    cross_norm: NormValues
    cross_query: Product
    cross_key_value: Product
    cross_output: Product
    feedforward_norm: NormValues
    expand: Product
    contract: Product


class Translator:
    """Ids and numpy outside, torch inside. The model must not learn meanwhile."""

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("translation")
        if not isinstance(encoder, EncoderDecoder) or not isinstance(head, TokenHead):
            raise ForebearError("this model does not translate", remedy="ask one that was trained to: transformer")
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def context(self) -> int:
        return self.encoder.context

    @torch.inference_mode()
    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        found: list[np.ndarray] = [np.empty(0)] * len(targets)
        for batch in batches([len(source) + len(target) for source, target in zip(sources, targets, strict=True)]):
            read, written = [sources[number] for number in batch], [targets[number] for number in batch]
            seen = [np.concatenate(([start], target[:-1])) for target in written]
            lengths = [len(target) for target in written]
            states = self.encoder(
                tensor(self.model, np.concatenate(seen)),
                lengths,
                tensor(self.model, np.concatenate(read)),
                [len(source) for source in read],
            )
            asked = tensor(self.model, np.concatenate(written))
            scores = log_probabilities(self.head.transformed(states.last), self.head.weight, self.head.bias, asked)
            for number, part in zip(batch, scores.float().cpu().split(lengths), strict=True):
                found[number] = part.numpy()
        return found

    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> Translations:
        """A row for each source, of which nothing is written yet but `start`; up to `room` tokens will be."""
        return Translations(self, sources, start, min(room, self.context))

    @cached_property
    def layers(self) -> tuple[list[Layer], Product]:
        """The blocks of the writing half in order, and the product with the vocabulary, laid out for several rows."""
        lay: Callable[..., Product] = for_rows
        made = []
        for block in self.encoder.writer.blocks:
            assert isinstance(block, WritingBlock)
            own, cross = block.attention, block.cross
            products = (own.query_key_value, own.output, cross.query, cross.key_value, cross.output)
            both, output, query, key_value, cross_output = (lay(one.weight, one.bias) for one in products)
            expand, contract = (lay(one.weight, one.bias) for one in (block.expand, block.contract))
            norms = [(one.weight, one.bias) for one in (block.attention_norm, block.cross_norm, block.feedforward_norm)]
            cross_parts = (norms[1], query, key_value, cross_output)
            made.append(Layer(norms[0], both, output, *cross_parts, norms[2], expand, contract))
        return made, lay(self.head.weight, self.head.bias)


class Translations:
    """Translations that are being written (a `Reader`), all of the same length at any time.

    What the sources say to each layer, their keys and values, is computed once; rows of the same source share it. Rows
    must stay in the order of their sources, as `keep` finds them.
    """

    def __init__(self, translator: Translator, sources: Sequence[np.ndarray], start: int, room: int) -> None:
        self._translator, self._encoder = translator, translator.encoder
        writer = self._encoder.writer
        self._heads, self._width, self._pre = writer.heads, writer.width, writer.norm_place == "pre"
        self._epsilon, self._activation = writer.epsilon, ACTIVATIONS[writer.activation]
        self._of = np.arange(len(sources))  # the source of each row
        self._taken = np.full(len(sources), start, np.int64)
        self._length = 0  # tokens read by each row
        with torch.inference_mode():
            self._remember(sources)
            shape = (len(sources), self._heads, room, self._width // self._heads)
            blank = translator.head.weight.new_empty
            self._keys, self._values = ([blank(shape) for _ in writer.blocks] for _ in range(2))
            self._placed()
        self._x: Tensor | None = None

    def next(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with torch.inference_mode():
            if self._x is None:
                self._x = self._step(self._taken)
            x, head = self._x, self._translator.head
            final = self._encoder.writer.final_norm
            _, vocabulary = self._translator.layers
            return vocabulary(head.transformed(x if final is None else final(x))).float().cpu().numpy()

    def take(self, ids: np.ndarray) -> None:
        if self._x is None:  # two in a row without asking what comes next
            with torch.inference_mode():
                self._step(self._taken)
        self._taken, self._x = np.asarray(ids, np.int64), None

    def keep(self, rows: np.ndarray) -> None:
        """Rows may be repeated, but must stay in the order of their sources."""
        numbers = np.arange(len(self._of))[np.asarray(rows)]
        with torch.inference_mode():
            chosen = torch.from_numpy(numbers).to(self._keys[0].device)
            self._keys, self._values = ([self._kept(one, chosen) for one in c] for c in (self._keys, self._values))
            self._x = None if self._x is None else self._x[chosen]
            self._of, self._taken = self._of[numbers], self._taken[numbers]
            if len(numbers):
                self._placed()

    def _kept(self, cache: Tensor, rows: Tensor) -> Tensor:
        """Only what is in use is moved."""
        new = cache.new_empty((len(rows), *cache.shape[1:]))
        new[:, :, : self._length] = cache[:, :, : self._length].index_select(0, rows)
        return new

    def _remember(self, sources: Sequence[np.ndarray]) -> None:
        """Read the sources: their keys and values for each layer, (S, H, m, d), and a mask where they are shorter."""
        model, lengths = self._translator.model, [len(source) for source in sources]
        memory = self._encoder.reader(tensor(model, np.concatenate(sources)), lengths).last
        longest, count = max(lengths), len(sources)
        places = torch.cat([torch.arange(length) + row * longest for row, length in enumerate(lengths)])
        self._memory: list[tuple[Tensor, Tensor]] = []
        for layer in self._translator.layers[0]:
            padded = memory.new_zeros((count * longest, 2 * self._width))
            padded[places] = layer.cross_key_value(memory)
            key, value = padded.view(count, longest, 2, self._heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            self._memory.append((key.contiguous(), value.contiguous()))
        self._mask = None
        if min(lengths) < longest:
            here = torch.arange(longest) < torch.tensor(lengths)[:, None]
            self._mask = torch.where(here, 0.0, -torch.inf).to(memory)[:, None, None]  # (S, 1, 1, m)

    def _placed(self) -> None:
        """Where each row stands among those of its source; sources that have none are forgotten."""
        there, slots = np.unique(self._of, return_inverse=True)
        if len(there) < len(self._memory[0][0]):
            left = torch.from_numpy(there)
            self._memory = [(key[left], value[left]) for key, value in self._memory]
            self._mask = None if self._mask is None else self._mask[left]
            self._of = slots
        counts = np.bincount(slots)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        self._places = torch.from_numpy(slots * counts.max() + np.arange(len(slots)) - firsts)
        self._shape = len(there), int(counts.max())
        self._full = len(slots) == len(there) * self._shape[1]

    def _step(self, ids: np.ndarray) -> Tensor:
        """Read one more token of each row; (B, D) states of them."""
        at, embedding = self._length, self._encoder.writer.embedding
        x = functional.embedding(torch.from_numpy(ids).to(embedding.token.weight.device), embedding.token.weight)
        x = x * embedding.scale + embedding.position.weight[at]
        self._length += 1
        for number, layer in enumerate(self._translator.layers[0]):
            x = x + layer.output(self._looked_back(number, layer, self._inside(x, layer.attention_norm), at))
            x = self._after(x, layer.attention_norm)
            x = x + layer.cross_output(self._looked_across(number, layer, self._inside(x, layer.cross_norm)))
            x = self._after(x, layer.cross_norm)
            x = x + layer.contract(self._activation(layer.expand(self._inside(x, layer.feedforward_norm))))
            x = self._after(x, layer.feedforward_norm)
        return x

    def _looked_back(self, number: int, layer: Layer, x: Tensor, at: int) -> Tensor:
        rows = len(x)
        query, key, value = layer.query_key_value(x).view(rows, 3, self._heads, 1, -1).unbind(1)
        keys, values = self._keys[number], self._values[number]
        keys[:, :, at : at + 1], values[:, :, at : at + 1] = key, value
        seen = slice(0, at + 1)
        mixed = functional.scaled_dot_product_attention(query, keys[:, :, seen], values[:, :, seen])
        return mixed.reshape(rows, -1)

    def _looked_across(self, number: int, layer: Layer, x: Tensor) -> Tensor:
        """The rows of a source are queries of one call: what it says is not copied for each of them."""
        (sources, most), query = self._shape, layer.cross_query(x)
        if not self._full:
            query = query.new_zeros((sources * most, self._width)).index_copy_(0, self._places, query)
        asking = query.view(sources, most, self._heads, -1).transpose(1, 2)
        key, value = self._memory[number]
        mixed = functional.scaled_dot_product_attention(asking, key, value, self._mask)
        mixed = mixed.transpose(1, 2).reshape(sources * most, -1)
        return mixed if self._full else mixed[self._places]

    def _inside(self, x: Tensor, norm: NormValues) -> Tensor:
        return self._normed(x, norm) if self._pre else x

    def _after(self, x: Tensor, norm: NormValues) -> Tensor:
        return x if self._pre else self._normed(x, norm)

    def _normed(self, x: Tensor, norm: NormValues) -> Tensor:
        return torch.layer_norm(x, (self._width,), norm[0], norm[1], self._epsilon)
