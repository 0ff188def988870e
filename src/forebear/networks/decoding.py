"""Rows that grow by a token at a time: what earlier tokens left behind for attention is kept, never computed again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from forebear.errors import BadInput
from forebear.networks.attention import attend
from forebear.networks.decoder import Decoder
from forebear.networks.embedding import places
from forebear.networks.memory import Memory
from forebear.networks.windows import beginning

AT_ONCE = 4096  # tokens of prompts read in one go: bounds memory


class Rows:
    """Rows that are being continued (a `Reader`).

    The cache is aligned at the end: all rows write to the same slot, and a shorter row has masked slots before it. So
    rows of unequal lengths are one batch without scattered writes. A row that has filled the context forgets its older
    half and is read again (see `windows.beginning`), alone, whatever the others do.
    Rows with a `memory` look at their sources too. They begin empty, and must end within the context.
    """

    def __init__(self, decoder: Decoder, rows: Sequence[np.ndarray], room: int, memory: Memory | None = None) -> None:
        self._decoder, self._memory = decoder, memory
        texts = [np.asarray(row)[beginning(len(row), decoder.context) :] for row in rows]
        self._lengths = np.array([len(text) for text in texts], np.int64)  # tokens that are seen of each row
        self._taken: np.ndarray | None = None
        self._end = int(self._lengths.max())  # the slot that is written next
        slots = min(self._end + room, _slots(decoder.context))
        self._tokens = np.zeros((len(rows), slots), np.int64)  # what stands in the slots
        for row, text in enumerate(texts):
            self._tokens[row, self._end - len(text) : self._end] = text
        shape = (2, decoder.depth, len(rows), decoder.heads, slots, decoder.width // decoder.heads)
        with torch.inference_mode():
            self._cache = decoder.like.new_zeros(shape)  # keys and values; room for rows to come too
            self._mask = decoder.like.new_zeros((len(rows), 1, 1, slots))
            self._x = (
                self._reread(range(len(rows))) if self._end else decoder.like.new_zeros((len(rows), decoder.width))
            )
            self._placed()

    def next(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with torch.inference_mode():
            if self._taken is not None:
                self._x, self._taken = self._step(self._taken), None
            _, vocabulary = self._decoder.layers(len(self._lengths))
            return self._decoder.logits(self._x, vocabulary).float().cpu().numpy()

    def take(self, ids: np.ndarray) -> None:
        if self._taken is not None:  # two in a row without asking what comes next
            with torch.inference_mode():
                self._x = self._step(self._taken)
        self._taken = np.asarray(ids, dtype=np.int64)

    def keep(self, rows: np.ndarray) -> None:
        chosen = np.arange(len(self._lengths))[np.asarray(rows)]
        with torch.inference_mode():
            (self._move if len(chosen) <= len(self._tokens) else self._widen)(chosen)
            picked = torch.from_numpy(chosen).to(self._cache.device)
            self._mask, self._x, self._lengths = self._mask[picked], self._x[picked], self._lengths[chosen]
            self._taken = None if self._taken is None else self._taken[chosen]
            if self._memory is not None:
                self._memory.keep(chosen)
            if len(chosen):
                self._placed()

    def _step(self, ids: np.ndarray) -> Tensor:
        """Read one more token of each row; (B, D) states of them."""
        if not len(ids):
            return self._x
        context = self._decoder.context
        full = np.flatnonzero(self._lengths == context).tolist()
        if full and self._memory is not None:
            raise BadInput(f"a translation is longer than the context of {context} tokens", remedy="ask for less")
        if self._end == self._tokens.shape[1]:
            self._make_room()
        self._tokens[: len(ids), self._end] = ids
        self._lengths += 1
        self._end += 1
        x = self._one_more(torch.from_numpy(ids).to(self._cache.device)) if len(full) < len(ids) else self._x.clone()
        self._positions += 1
        if full:
            self._lengths[full] -= beginning(context + 1, context)
            x[full] = self._reread(full)
            self._placed()
        return x

    def _one_more(self, ids: Tensor) -> Tensor:
        decoder, rows, heads = self._decoder, len(ids), self._decoder.heads
        layers, _ = decoder.layers(rows)
        mask = self._mask[..., self._first : self._end] if self._masked else None
        held = self._cache[:, :, :rows, :, self._first : self._end]
        (keys, values), new = (half.unbind() for half in held), held[..., -1:, :].unbind(1)
        pre, normed, memory = decoder.pre, decoder.normed, self._memory
        attention = functional.scaled_dot_product_attention
        x = decoder.embed(ids, self._positions.clamp(max=decoder.context - 1))  # a full row is read again anyway
        for number, layer in enumerate(layers):
            inside = normed(x, layer.attention_norm) if pre else x
            parts = layer.query_key_value(inside).view(rows, 3, heads, 1, -1).transpose(0, 1)
            new[number].copy_(parts[1:])
            mixed = attention(parts[0], keys[number], values[number], mask)
            x = x + layer.output(mixed.reshape(rows, -1))
            x = x if pre else normed(x, layer.attention_norm)
            if memory is not None and layer.cross is not None:
                inside = normed(x, layer.cross.norm) if pre else x
                x = x + memory.looked_across(number, layer.cross, inside)
                x = x if pre else normed(x, layer.cross.norm)
            x = decoder.fed(x, layer)
        return x

    def _reread(self, rows: Sequence[int]) -> Tensor:
        """Read these rows whole into the slots that end before `_end`; (len(rows), D) states of their last tokens."""
        texts: dict[tuple[int, ...], list[int]] = {}  # several samples of one prompt read it once
        for place, row in enumerate(rows):
            text = self._tokens[row, self._end - self._lengths[row] : self._end]
            texts.setdefault(tuple(text.tolist()), []).append(place)
        last = self._cache.new_empty((len(rows), self._decoder.width))
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
            self._mask[row, ..., : self._end - self._lengths[row]] = -torch.inf
        return last

    def _read_whole(self, texts: Sequence[tuple[int, ...]], into: Sequence[Sequence[int]]) -> Tensor:
        """(T, D) states of all tokens of the texts, whose keys and values go to the rows named in `into`."""
        decoder, device = self._decoder, self._cache.device
        lengths = tuple(map(len, texts))
        layers, _ = decoder.layers(len(self._lengths))
        pre, normed = decoder.pre, decoder.normed
        tokens = torch.tensor([token for text in texts for token in text], device=device)
        x = decoder.embed(tokens, places(lengths, device))
        for number, layer in enumerate(layers):
            both = layer.query_key_value(normed(x, layer.attention_norm) if pre else x)
            parts = both.view(len(both), 3, decoder.heads, -1).transpose(0, 2).split(lengths, dim=2)  # (H, 3, n, d)
            for part, rows in zip(parts, into, strict=True):
                slots = slice(self._end - part.shape[2], self._end)
                for row in rows:
                    self._cache[:, number, row, :, slots] = part[:, 1:].transpose(0, 1)
            x = x + layer.output(attend(both, lengths, decoder.heads, past_only=True))
            x = decoder.fed(x if pre else normed(x, layer.attention_norm), layer)
        return x

    def _placed(self) -> None:
        """Where rows stand, known once for many steps."""
        self._positions = torch.from_numpy(self._lengths).to(self._cache.device, copy=True)
        longest = int(self._lengths.max())
        self._first, self._masked = self._end - longest, int(self._lengths.min()) < longest

    def _make_room(self) -> None:
        """Move everything to the front, where rows that forgot have left room; into a larger cache if there is none."""
        longest, slots = int(self._lengths.max()), self._tokens.shape[1]
        used, most = slice(self._end - longest, self._end), _slots(self._decoder.context)
        cache, tokens = self._cache, self._tokens
        if slots - longest < longest // 2 and slots < most:
            slots = min(2 * slots, most)
            cache = cache.new_empty((*cache.shape[:4], slots, cache.shape[5]))
            tokens = np.zeros((len(tokens), slots), np.int64)
        mask = self._mask.new_zeros((len(self._lengths), 1, 1, slots))
        mask[..., :longest] = self._mask[..., used]
        tokens[:, :longest] = self._tokens[:, used].copy()
        old = self._cache[..., used, :]
        cache[..., :longest, :] = old.clone() if cache is self._cache else old
        self._cache, self._tokens, self._mask = cache, tokens, mask
        self._end, self._first = longest, 0

    def _widen(self, chosen: np.ndarray) -> None:
        """A larger cache, in which row number `new` is a copy of row `chosen[new]`."""
        used, shape = slice(self._first, self._end), self._cache.shape
        cache = self._cache.new_empty((*shape[:2], len(chosen), *shape[3:]))
        for new, old in enumerate(chosen.tolist()):
            cache[:, :, new, :, used] = self._cache[:, :, old, :, used]
        self._cache, self._tokens = cache, self._tokens[chosen]

    def _move(self, chosen: np.ndarray) -> None:
        """The same in place. Only rows whose number changes move, and of these what the row there has otherwise."""
        moved = np.flatnonzero(chosen != np.arange(len(chosen)))
        moves = list(zip(moved.tolist(), chosen[moved].tolist(), self._parting(moved, chosen[moved]), strict=True))
        overwritten = set(moved.tolist())
        held = {  # rows that would be gone before they are copied
            old: self._cache[:, :, old].clone() for new, old, _ in moves if old < new and old in overwritten
        }
        for new, old, begin in moves:
            row = held[old] if old in held else self._cache[:, :, old]
            self._cache[:, :, new, :, begin : self._end] = row[..., begin : self._end, :]
        self._tokens[: len(chosen)] = self._tokens[chosen]

    def _parting(self, rows: np.ndarray, others: np.ndarray) -> list[int]:
        """The first slot in which each row differs from the other: before it, equal tokens left equal things behind."""
        used, count = slice(self._first, self._end), len(self._lengths)
        differing = self._tokens[rows, used] != self._tokens[others, used]
        found = np.where(differing.any(axis=1), self._first + differing.argmax(axis=1), self._end)
        known = rows < count  # a row that is not in use holds what it held
        known[known] = self._lengths[rows[known]] == self._lengths[others[known]]
        if self._memory is not None:  # equal tokens that looked at another source
            known[known] = self._memory.alike(rows[known], others[known])
        return np.where(known, found, self._first).tolist()


def _slots(context: int) -> int:
    """As many as are ever needed. Rows that forget leave slots free in front: half a context more makes moving rare."""
    return context + context // 2 + 1
