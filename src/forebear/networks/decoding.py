"""Rows that grow by a token at a time: what earlier tokens left behind for attention is kept, never computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from forebear.networks.activation import ACTIVATIONS
from forebear.networks.attention import attend
from forebear.networks.embedding import places
from forebear.networks.heads import TokenHead
from forebear.networks.layouts import Product, as_trained, for_one_row, for_rows
from forebear.networks.transformer import Block, Transformer
from forebear.networks.windows import beginning

MOST_COPIED = 4 << 30  # bytes of weights; a second copy of a larger model costs more than it gains
AT_ONCE = 4096  # tokens of prompts read in one go: bounds memory
NormValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Layer:
    """One block, flattened: calling modules costs as much time as a small model's arithmetic."""

    attention_norm: NormValues
    query_key_value: Product
    output: Product
    feedforward_norm: NormValues
    expand: Product
    contract: Product


class Decoder:
    """A causal Transformer and its head, laid out for reading; made once, used for any number of rows."""

    def __init__(self, encoder: Transformer, head: TokenHead) -> None:
        self.encoder, self.head = encoder, head
        self.width, self.heads, self.depth = encoder.width, encoder.heads, encoder.depth
        self.context, self.pre, self.epsilon = encoder.context, encoder.norm_place == "pre", encoder.epsilon
        self.activation = ACTIVATIONS[encoder.activation]
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
    def _laid_out(self, lay: Callable[[Tensor, Tensor | None], Product]) -> tuple[list[Layer], Product]:
        blocks = []
        for block in self.encoder.blocks:
            assert isinstance(block, Block)
            attention = block.attention
            blocks.append(
                Layer(
                    (block.attention_norm.weight, block.attention_norm.bias),
                    lay(attention.query_key_value.weight, attention.query_key_value.bias),
                    lay(attention.output.weight, attention.output.bias),
                    (block.feedforward_norm.weight, block.feedforward_norm.bias),
                    lay(block.expand.weight, block.expand.bias),
                    lay(block.contract.weight, block.contract.bias),
                )
            )
        return [blocks[number % len(blocks)] for number in range(self.depth)], lay(self.head.weight, self.head.bias)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        embedding = self.encoder.embedding
        x = functional.embedding(tokens, embedding.token.weight)
        x += functional.embedding(positions, embedding.position.weight)
        x = x if embedding.norm is None else embedding.norm(x)
        return x if self.encoder.project is None else self.encoder.project(x)

    def normed(self, x: Tensor, values: NormValues) -> Tensor:
        return torch.layer_norm(x, (self.width,), values[0], values[1], self.epsilon)

    def logits(self, x: Tensor, vocabulary: Product) -> Tensor:
        final = self.encoder.final_norm
        return vocabulary(self.head.transformed(x if final is None else final(x)))


class Rows:
    """Rows that are being continued (a `Reader`).

    The cache is aligned at the end: all rows write to the same slot, and a shorter row has masked slots before it. So
    rows of unequal lengths are one batch without scattered writes. A row that has filled the context forgets its older
    half and is read again (see `windows.beginning`), alone, whatever the others do.
    """

    def __init__(self, decoder: Decoder, rows: Sequence[np.ndarray], room: int) -> None:
        self._decoder = decoder
        self._read = [row[beginning(len(row), decoder.context) :].tolist() for row in rows]
        self._taken: np.ndarray | None = None
        device = decoder.head.weight.device
        longest = max(map(len, self._read))
        slots = min(longest + room, _slots(decoder.context))
        shape = (decoder.depth, len(rows), decoder.heads, slots, decoder.width // decoder.heads)
        dtype = decoder.head.weight.dtype
        with torch.inference_mode():
            self._keys, self._values = (torch.zeros(shape, device=device, dtype=dtype) for _ in range(2))
            self._mask = torch.zeros((len(rows), 1, 1, slots), device=device, dtype=dtype)
            self._end = longest  # the slot that is written next
            self._x = self._reread(range(len(rows)))
            self._placed()

    def next(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with torch.inference_mode():
            if self._taken is not None:
                self._x, self._taken = self._step(self._taken), None
            _, vocabulary = self._decoder.layers(len(self._read))
            return self._decoder.logits(self._x, vocabulary).float().cpu().numpy()

    def take(self, ids: np.ndarray) -> None:
        if self._taken is not None:  # two in a row without asking what comes next
            with torch.inference_mode():
                self._x = self._step(self._taken)
        self._taken = np.asarray(ids, dtype=np.int64)

    def keep(self, rows: np.ndarray) -> None:
        chosen = np.arange(len(self._read))[np.asarray(rows)].tolist()
        with torch.inference_mode():
            self._keys, self._values = self._kept(self._keys, chosen), self._kept(self._values, chosen)
            picked = torch.tensor(chosen, dtype=torch.long, device=self._keys.device)
            self._mask, self._x = self._mask[picked], self._x[picked]
            self._read = [list(self._read[row]) for row in chosen]
            self._taken = None if self._taken is None else self._taken[chosen]
            if chosen:
                self._placed()

    def _step(self, ids: np.ndarray) -> Tensor:
        """Read one more token of each row; (B, D) states of them."""
        if not len(ids):
            return self._x
        full = [row for row, read in enumerate(self._read) if len(read) == self._decoder.context]
        for read, token in zip(self._read, ids.tolist(), strict=True):
            read.append(token)
        if self._end == self._keys.shape[3]:
            self._make_room()
        self._end += 1
        x = self._one_more(torch.from_numpy(ids).to(self._keys.device)) if len(full) < len(ids) else self._x.clone()
        self._positions += 1
        if full:
            for row in full:
                self._read[row] = self._read[row][beginning(len(self._read[row]), self._decoder.context) :]
            x[full] = self._reread(full)
            self._placed()
        return x

    def _one_more(self, ids: Tensor) -> Tensor:
        decoder, last = self._decoder, self._end - 1
        rows, heads = len(ids), decoder.heads
        layers, _ = decoder.layers(rows)
        seen = slice(self._first, self._end)
        mask = self._mask[..., seen] if self._masked else None
        keys, values = self._keys[..., seen, :].unbind(), self._values[..., seen, :].unbind()
        new_keys, new_values = (
            self._keys[..., last : last + 1, :].unbind(),
            self._values[..., last : last + 1, :].unbind(),
        )
        pre, normed, activation = decoder.pre, decoder.normed, decoder.activation
        attention = functional.scaled_dot_product_attention
        x = decoder.embed(ids, self._positions.clamp(max=decoder.context - 1))  # a full row is read again anyway
        for number, layer in enumerate(layers):
            inside = normed(x, layer.attention_norm) if pre else x
            query, key, value = layer.query_key_value(inside).view(rows, 3, heads, 1, -1).unbind(1)
            new_keys[number].copy_(key)
            new_values[number].copy_(value)
            mixed = attention(query, keys[number], values[number], mask)
            x = x + layer.output(mixed.reshape(rows, -1))
            x = x if pre else normed(x, layer.attention_norm)
            inside = normed(x, layer.feedforward_norm) if pre else x
            x = x + layer.contract(activation(layer.expand(inside)))
            x = x if pre else normed(x, layer.feedforward_norm)
        return x

    def _reread(self, rows: Sequence[int]) -> Tensor:
        """Read these rows whole into the slots that end before `_end`; (len(rows), D) states of their last tokens."""
        texts: dict[tuple[int, ...], list[int]] = {}  # several samples of one prompt read it once
        for place, row in enumerate(rows):
            texts.setdefault(tuple(self._read[row]), []).append(place)
        last = self._keys.new_empty((len(rows), self._decoder.width))
        waiting = list(texts)
        while waiting:
            group: list[tuple[int, ...]] = []
            size = 0
            while waiting and (not group or size + len(waiting[0]) <= AT_ONCE):
                group.append(waiting.pop(0))
                size += len(group[-1])
            ends = np.cumsum([len(text) for text in group]) - 1
            into = [[rows[place] for place in texts[text]] for text in group]
            states = self._read_whole(group, into)[torch.from_numpy(ends)]
            for text, state in zip(group, states, strict=True):
                last[texts[text]] = state
        for row in rows:
            self._mask[row, ..., : self._end - len(self._read[row])] = -torch.inf
        return last

    def _read_whole(self, texts: Sequence[tuple[int, ...]], into: Sequence[Sequence[int]]) -> Tensor:
        """(T, D) states of all tokens of the texts, whose keys and values go to the rows named in `into`."""
        decoder, device = self._decoder, self._keys.device
        lengths = tuple(map(len, texts))
        layers, _ = decoder.layers(len(self._read))
        pre, normed = decoder.pre, decoder.normed
        tokens = torch.tensor([token for text in texts for token in text], device=device)
        x = decoder.embed(tokens, places(lengths, device))
        for number, layer in enumerate(layers):
            both = layer.query_key_value(normed(x, layer.attention_norm) if pre else x)
            parts = both.view(len(both), 3, decoder.heads, -1).transpose(0, 2).split(lengths, dim=2)  # (H, 3, n, d)
            for part, rows in zip(parts, into, strict=True):
                slots = slice(self._end - part.shape[2], self._end)
                for row in rows:
                    self._keys[number, row, :, slots], self._values[number, row, :, slots] = part[:, 1], part[:, 2]
            x = x + layer.output(attend(both, lengths, decoder.heads, past_only=True))
            x = x if pre else normed(x, layer.attention_norm)
            inside = normed(x, layer.feedforward_norm) if pre else x
            x = x + layer.contract(decoder.activation(layer.expand(inside)))
            x = x if pre else normed(x, layer.feedforward_norm)
        return x

    def _placed(self) -> None:
        """Where rows stand, known once for many steps."""
        lengths = list(map(len, self._read))
        self._positions = torch.tensor(lengths, device=self._keys.device)
        self._first = self._end - max(lengths)
        self._masked = min(lengths) < max(lengths)

    def _make_room(self) -> None:
        """Move everything to the front, where rows that forgot have left room; into a larger cache if there is none."""
        longest = max(len(read) for read in self._read) - 1  # the newest token has no slot yet
        used, slots = slice(self._end - longest, self._end), self._keys.shape[3]
        most = _slots(self._decoder.context)
        caches = (self._keys, self._values)
        if slots - longest < longest // 2 and slots < most:
            shape = (*self._keys.shape[:3], min(2 * slots, most), self._keys.shape[4])
            caches = (self._keys.new_empty(shape), self._keys.new_empty(shape))
        mask = self._mask.new_zeros((len(self._read), 1, 1, caches[0].shape[3]))
        mask[..., :longest] = self._mask[..., used]
        for new, old in zip(caches, (self._keys, self._values), strict=True):
            new[..., :longest, :] = old[..., used, :].clone() if new is old else old[..., used, :]
        (self._keys, self._values), self._mask = caches, mask
        self._end, self._first = longest, 0

    def _kept(self, cache: Tensor, rows: Sequence[int]) -> Tensor:
        """In place, moving only rows whose number changes and only slots in use, where the order allows it."""
        if any(later <= earlier for earlier, later in pairwise(rows)):
            return cache[:, rows]
        for new, old in enumerate(rows):
            if new != old:
                cache[:, new, :, self._first : self._end] = cache[:, old, :, self._first : self._end]
        return cache[:, : len(rows)]


def _slots(context: int) -> int:
    """As many as are ever needed. Rows that forget leave slots free in front: half a context more makes moving rare."""
    return context + context // 2 + 1
