"""Incremental decoding of Transformers with a KV cache, and the windows of texts longer than the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.errors import InputError
from forebear.nn.attention import attend
from forebear.nn.embedding import position_ids
from forebear.nn.heads import LMHead
from forebear.nn.inference_mode import in_inference_mode, inference_mode
from forebear.nn.layers import ACTIVATIONS
from forebear.nn.transformer import DecoderBlock, Transformer, TransformerBlock
from forebear.nn.weight_packing import LinearFn, PackedDecoder, PackFn, pack_none, packed_linear, packed_lm_head

# --- Decoder with packed weights ---
#
# With one thread on a shared AVX2 processor, a GPT-2 of 4 blocks of 256 and a vocabulary of 8,000, one sequence: two
# thirds of a step are matrix products, whose weights come from memory, 8% attention, 2% norms. Slower were, in µs: 256
# → 1,024 by addmv 29 instead of 23, attention over 100 tokens by two batched products and a softmax 12 instead of 10.


MAX_COPIED_BYTES = 4 << 30  # bytes of weights; packing copies them, which does not pay off for larger models
NormValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class PackedCrossAttention:
    """Cross-attention of a decoder block."""

    norm: NormValues
    query: LinearFn
    key_value: LinearFn
    output: LinearFn


@dataclass(frozen=True)
class PackedDecoderBlock:
    """A block as functions: calling modules takes as much time as a small model's arithmetic."""

    attention_norm: NormValues
    query_key_value: LinearFn
    output: LinearFn
    cross: PackedCrossAttention | None
    feedforward_norm: NormValues
    expand: LinearFn
    contract: LinearFn


class IncrementalDecoder(PackedDecoder):
    """A causal Transformer and its LM head with packed weights. The model must not be trained while decoding."""

    def __init__(self, encoder: Transformer, head: LMHead) -> None:
        self.encoder, self.head = encoder, head
        self.width, self.num_heads, self.depth = encoder.width, encoder.heads, encoder.depth
        self.max_length = encoder.max_length
        self.norm_first = encoder.norm_position == "pre"
        self.epsilon = encoder.epsilon
        self.activation = ACTIVATIONS[encoder.activation]
        first_block = encoder.blocks[0]
        assert isinstance(first_block, TransformerBlock)
        self.template = first_block.attention_norm.weight  # template for dtype and device; norms are never quantized
        weight_bytes = sum(parameter.numel() * parameter.element_size() for parameter in encoder.parameters())
        self._should_pack = weight_bytes <= MAX_COPIED_BYTES

    @in_inference_mode
    def pack_layers(self, pack: PackFn) -> tuple[list[PackedDecoderBlock], LinearFn]:
        """The blocks in order and the output projection."""
        pack = pack if self._should_pack else pack_none
        blocks = [_pack_block(block, pack) for block in self.encoder.blocks]
        layers = [blocks[index % len(blocks)] for index in range(self.depth)]
        return layers, packed_lm_head(self.head, pack)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(T, D), as the embedding computes it for whole sequences."""
        embedding = self.encoder.embedding
        x = embedding.token(tokens)
        if embedding.scale != 1:
            x *= embedding.scale
        x += functional.embedding(positions, embedding.position.weight)
        x = x if embedding.norm is None else embedding.norm(x)
        return x if self.encoder.project is None else self.encoder.project(x)

    def layer_norm(self, x: Tensor, values: NormValues) -> Tensor:
        return torch.layer_norm(x, (self.width,), values[0], values[1], self.epsilon)

    def feed_forward(self, x: Tensor, layer: PackedDecoderBlock) -> Tensor:
        """The feed-forward part of a block with its residual connection."""
        normalized = self.layer_norm(x, layer.feedforward_norm) if self.norm_first else x
        x = x + layer.contract(self.activation(layer.expand(normalized)))
        return x if self.norm_first else self.layer_norm(x, layer.feedforward_norm)

    def logits(self, x: Tensor, lm_head: LinearFn) -> Tensor:
        final_norm = self.encoder.final_norm
        return lm_head(self.head.transform_states(x if final_norm is None else final_norm(x)))


def _pack_block(block: nn.Module, pack: PackFn) -> PackedDecoderBlock:
    assert isinstance(block, TransformerBlock)
    cross = None
    if isinstance(block, DecoderBlock):
        layers = block.cross.query, block.cross.key_value, block.cross.output
        cross = PackedCrossAttention(_norm_values(block.cross_norm), *(packed_linear(layer, pack) for layer in layers))
    return PackedDecoderBlock(
        _norm_values(block.attention_norm),
        packed_linear(block.attention.query_key_value, pack),
        packed_linear(block.attention.output, pack),
        cross,
        _norm_values(block.feedforward_norm),
        packed_linear(block.expand, pack),
        packed_linear(block.contract, pack),
    )


def _norm_values(norm: nn.LayerNorm) -> NormValues:
    return norm.weight, norm.bias


# --- Encoder memory: keys and values of the sources, shared by the hypotheses of each ---


class HypothesisSources:
    """Maps decoded sequences to their sources: one each at first, any number in any order later.

    Sequences of one source are queries of one attention call, so its keys and values are not copied.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self._device = device
        self.mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # True where a source has a token
        self._source_ids = np.arange(len(lengths))  # source of each sequence
        self._num_sources = len(lengths)
        self._assign_slots()

    def pad(self, x: Tensor) -> Tensor:
        """(T, D) of all source tokens → (S, m, D), zero-padded. Only valid before a source is dropped."""
        padded_states = x.new_zeros((self.mask.numel(), x.shape[1]))
        padded_states[self.mask.flatten().nonzero().squeeze(1).to(x.device)] = x
        return padded_states.view(*self.mask.shape, -1)

    def select(self, rows: np.ndarray) -> Tensor | None:
        """Keep these sequences and drop sources without any; returns the remaining sources, or None if all remain."""
        self._source_ids = self._source_ids[rows]
        return self._assign_slots() if len(rows) else None

    def have_same_source(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each sequence has the same source as the other."""
        return self._source_ids[rows] == self._source_ids[others]

    def gather(self, x: Tensor) -> Tensor:
        """(B, D) → (S, r, D): sequences grouped by source, which has up to r of them."""
        (sources, max_rows), width = self._row_table_shape, x.shape[1]
        if not self._is_full:
            x = x.new_zeros((sources * max_rows, width)).index_copy_(0, self._row_positions, x)
        return x.view(sources, max_rows, width)

    def scatter(self, x: Tensor) -> Tensor:
        """(S, r, D) → (B, D), the inverse of `gather`."""
        x = x.reshape(-1, x.shape[-1])
        return x if self._is_full else x[self._row_positions]

    def _assign_slots(self) -> Tensor | None:
        """Assign each sequence a slot within its source; returns the remaining sources, or None if all remain."""
        sources, self._source_ids = np.unique(self._source_ids, return_inverse=True)
        remaining = None if len(sources) == self._num_sources else torch.from_numpy(sources).to(self._device)
        self._num_sources = len(sources)
        counts = np.bincount(self._source_ids)
        max_rows = int(counts.max())
        order = np.argsort(self._source_ids, kind="stable")
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions += self._source_ids * max_rows
        self._row_table_shape = len(sources), max_rows
        self._is_full = np.array_equal(positions, np.arange(len(sources) * max_rows))
        self._row_positions = torch.from_numpy(positions).to(self._device)
        return remaining


class EncoderMemory:
    """Keys and values of the sources for every decoder layer."""

    def __init__(
        self, layers: Sequence[PackedDecoderBlock], states: Tensor, lengths: Sequence[int], num_heads: int
    ) -> None:
        """`states` (T, D) of all source tokens, and the lengths of the sources."""
        self._heads, self._sources = num_heads, HypothesisSources(lengths, states.device)
        mask = self._sources.mask
        self._mask: Tensor | None = None  # None if all sources are equally long; else (S, 1, 1, m)
        if not mask.all():
            self._mask = torch.where(mask, 0.0, -torch.inf).to(states)[:, None, None]
        self._keys_values: list[tuple[Tensor, Tensor]] = []  # per layer, (S, H, m, d)
        for layer in layers:
            assert layer.cross is not None
            padded = self._sources.pad(layer.cross.key_value(states))
            key, value = padded.view(*mask.shape, 2, num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            self._keys_values.append((key.contiguous(), value.contiguous()))

    def select(self, rows: np.ndarray) -> None:
        """Keep these sequences; sources without sequences are dropped."""
        remaining = self._sources.select(rows)
        if remaining is not None:
            self._keys_values = [(key[remaining], value[remaining]) for key, value in self._keys_values]
            self._mask = None if self._mask is None else self._mask[remaining]

    def have_same_source(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each sequence has the same source as the other."""
        return self._sources.have_same_source(rows, others)

    def cross_attend(self, layer_index: int, cross: PackedCrossAttention, x: Tensor) -> Tensor:
        """(B, D) cross-attention output of layer `layer_index`, for one token per sequence."""
        query = self._sources.gather(cross.query(x))
        queries = query.view(*query.shape[:2], self._heads, -1).transpose(1, 2)
        context = functional.scaled_dot_product_attention(queries, *self._keys_values[layer_index], self._mask)
        return cross.output(self._sources.scatter(context.transpose(1, 2).flatten(2)))


# --- Texts longer than the context ---


def context_start(length: int, context: int) -> int:
    """Start of the visible context of a sequence of `length` tokens.

    A sequence fills the context, then its older half is dropped, repeatedly. So every token has at least half a context
    before it, a sequence is encoded about twice in all, and generation sees the same windows as scoring.
    """
    stride = max(1, context - context // 2)
    return stride * -(-max(0, length - context) // stride)


def long_text_windows(length: int, context: int) -> Iterator[tuple[int, int, int]]:
    """(begin, first, end): encode tokens begin … end-1 to predict tokens first … end (inclusive).

    Together they predict tokens 1 … length-1 once each, with the contexts of `context_start`.
    """
    first = 1
    while first < length:
        start = context_start(first, context)
        end = min(start + context, length - 1)
        yield start, first, end
        first = end + 1


MAX_PROMPT_TOKENS = 4096  # tokens of prompts encoded per call: bounds memory


class TransformerDecodingState:
    """Decoding state of a Transformer: the KV cache of a batch of sequences.

    The cache is right-aligned: all sequences write to the same slot, and shorter ones have masked slots in front, so
    sequences of unequal length need no scattered writes. A sequence that fills the context drops its older half and is
    re-encoded (see `context_start`), independently of the others.
    With a `memory` the sequences attend to their sources too; they start empty and must fit into the context.
    """

    def __init__(
        self,
        decoder: IncrementalDecoder,
        rows: Sequence[np.ndarray],
        max_new_tokens: int,
        memory: EncoderMemory | None = None,
    ) -> None:
        self._decoder, self._memory = decoder, memory
        texts = [np.asarray(row)[context_start(len(row), decoder.max_length) :] for row in rows]
        self._lengths = np.array([len(text) for text in texts], np.int64)  # visible tokens of each sequence
        self._pending_ids: np.ndarray | None = None
        self._end_slot = int(self._lengths.max())  # next slot to be written
        num_slots = min(self._end_slot + max_new_tokens, _num_slots(decoder.max_length))
        self._tokens = np.zeros((len(rows), num_slots), np.int64)  # token in each slot
        for row, text in enumerate(texts):
            self._tokens[row, self._end_slot - len(text) : self._end_slot] = text
        shape = (2, decoder.depth, len(rows), decoder.num_heads, num_slots, decoder.width // decoder.num_heads)
        with inference_mode():
            self._cache = decoder.template.new_zeros(shape)  # keys and values, with free slots for new tokens
            self._mask = decoder.template.new_zeros((len(rows), 1, 1, num_slots))
            empty = decoder.template.new_zeros((len(rows), decoder.width))
            self._last_states = self._reencode(range(len(rows))) if self._end_slot else empty
            self._update_positions()

    def next_logits(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with inference_mode():
            if self._pending_ids is not None:
                self._last_states, self._pending_ids = self._step(self._pending_ids), None
            _, lm_head = self._decoder.packed_layers(len(self._lengths))
            return self._decoder.logits(self._last_states, lm_head).float().cpu().numpy()

    def append(self, ids: np.ndarray) -> None:
        if self._pending_ids is not None:  # two calls of append without next_logits between them
            with inference_mode():
                self._last_states = self._step(self._pending_ids)
        self._pending_ids = np.asarray(ids, dtype=np.int64)

    def select(self, rows: np.ndarray) -> None:
        row_ids = np.arange(len(self._lengths))[np.asarray(rows)]
        with inference_mode():
            (self._move_rows if len(row_ids) <= len(self._tokens) else self._copy_rows_to_larger)(row_ids)
            row_tensor = torch.from_numpy(row_ids).to(self._cache.device)
            self._mask, self._last_states = self._mask[row_tensor], self._last_states[row_tensor]
            self._lengths = self._lengths[row_ids]
            self._pending_ids = None if self._pending_ids is None else self._pending_ids[row_ids]
            if self._memory is not None:
                self._memory.select(row_ids)
            if len(row_ids):
                self._update_positions()

    def _step(self, ids: np.ndarray) -> Tensor:
        """Append one token to each sequence; (B, D) states of these tokens."""
        if not len(ids):
            return self._last_states
        context = self._decoder.max_length
        full_rows = np.flatnonzero(self._lengths == context).tolist()
        if full_rows and self._memory is not None:
            raise InputError(f"a translation is longer than the context of {context} tokens", hint="ask for less")
        if self._end_slot == self._tokens.shape[1]:
            self._grow_or_compact()
        self._tokens[: len(ids), self._end_slot] = ids
        self._lengths += 1
        self._end_slot += 1
        are_all_full = len(full_rows) == len(ids)
        id_tensor = torch.from_numpy(ids).to(self._cache.device)
        x = self._last_states.clone() if are_all_full else self._decode_step(id_tensor)
        self._positions += 1
        if full_rows:
            self._lengths[full_rows] -= context_start(context + 1, context)
            x[full_rows] = self._reencode(full_rows)
            self._update_positions()
        return x

    def _decode_step(self, ids: Tensor) -> Tensor:
        decoder, num_rows, num_heads = self._decoder, len(ids), self._decoder.num_heads
        layers, _ = decoder.packed_layers(num_rows)
        mask = self._mask[..., self._first_slot : self._end_slot] if self._has_padding else None
        cached = self._cache[:, :, :num_rows, :, self._first_slot : self._end_slot]
        (keys, values), new_slots = (cache_half.unbind() for cache_half in cached), cached[..., -1:, :].unbind(1)
        norm_first, layer_norm, memory = decoder.norm_first, decoder.layer_norm, self._memory
        attention = functional.scaled_dot_product_attention
        x = decoder.embed(ids, self._positions.clamp(max=decoder.max_length - 1))  # full ones are re-encoded anyway
        for index, layer in enumerate(layers):
            normalized = layer_norm(x, layer.attention_norm) if norm_first else x
            query_key_value = layer.query_key_value(normalized).view(num_rows, 3, num_heads, 1, -1).transpose(0, 1)
            new_slots[index].copy_(query_key_value[1:])
            context = attention(query_key_value[0], keys[index], values[index], mask)
            x = x + layer.output(context.reshape(num_rows, -1))
            x = x if norm_first else layer_norm(x, layer.attention_norm)
            if memory is not None and layer.cross is not None:
                normalized = layer_norm(x, layer.cross.norm) if norm_first else x
                x = x + memory.cross_attend(index, layer.cross, normalized)
                x = x if norm_first else layer_norm(x, layer.cross.norm)
            x = decoder.feed_forward(x, layer)
        return x

    def _reencode(self, rows: Sequence[int]) -> Tensor:
        """Encode these sequences again, into the slots before `_end_slot`; (len(rows), D) states of last tokens."""
        texts: dict[tuple[int, ...], list[int]] = {}  # several samples of one prompt are encoded once
        for position, row in enumerate(rows):
            text = self._tokens[row, self._end_slot - self._lengths[row] : self._end_slot]
            texts.setdefault(tuple(text.tolist()), []).append(position)
        last_states = self._cache.new_empty((len(rows), self._decoder.width))
        pending = list(texts)
        while pending:
            text_batch: list[tuple[int, ...]] = []
            size = 0
            while pending and (not text_batch or size + len(pending[0]) <= MAX_PROMPT_TOKENS):
                text_batch.append(pending.pop(0))
                size += len(text_batch[-1])
            ends = np.cumsum([len(text) for text in text_batch]) - 1
            target_rows = [[rows[position] for position in texts[text]] for text in text_batch]
            states = self._encode_texts(text_batch, target_rows)[torch.from_numpy(ends)]
            for text, state in zip(text_batch, states, strict=True):
                last_states[texts[text]] = state
        for row in rows:
            self._mask[row, ..., : self._end_slot - self._lengths[row]] = -torch.inf
        return last_states

    def _encode_texts(self, texts: Sequence[tuple[int, ...]], target_rows: Sequence[Sequence[int]]) -> Tensor:
        """(T, D) states of all tokens; their keys and values go to the sequences listed in `target_rows`."""
        decoder, device = self._decoder, self._cache.device
        lengths = tuple(map(len, texts))
        layers, _ = decoder.packed_layers(len(self._lengths))
        norm_first, layer_norm = decoder.norm_first, decoder.layer_norm
        tokens = torch.tensor([token for text in texts for token in text], device=device)
        x = decoder.embed(tokens, position_ids(lengths, device))
        for index, layer in enumerate(layers):
            query_key_value = layer.query_key_value(layer_norm(x, layer.attention_norm) if norm_first else x)
            heads_first = query_key_value.view(len(query_key_value), 3, decoder.num_heads, -1).transpose(0, 2)
            for heads, rows in zip(heads_first.split(lengths, dim=2), target_rows, strict=True):  # (H, 3, n, d)
                slots = slice(self._end_slot - heads.shape[2], self._end_slot)
                for row in rows:
                    self._cache[:, index, row, :, slots] = heads[:, 1:].transpose(0, 1)
            x = x + layer.output(attend(query_key_value, lengths, decoder.num_heads, is_causal=True))
            x = decoder.feed_forward(x if norm_first else layer_norm(x, layer.attention_norm), layer)
        return x

    def _update_positions(self) -> None:
        """Recompute the next positions and the first used slot, which stay valid for many steps."""
        self._positions = torch.from_numpy(self._lengths).to(self._cache.device, copy=True)
        longest = int(self._lengths.max())
        self._first_slot, self._has_padding = self._end_slot - longest, int(self._lengths.min()) < longest

    def _grow_or_compact(self) -> None:
        """Move everything to the front if dropped tokens left space there, else to a larger cache."""
        longest, num_slots = int(self._lengths.max()), self._tokens.shape[1]
        used_slots, max_slots = slice(self._end_slot - longest, self._end_slot), _num_slots(self._decoder.max_length)
        cache, tokens = self._cache, self._tokens
        if num_slots - longest < longest // 2 and num_slots < max_slots:
            num_slots = min(2 * num_slots, max_slots)
            cache = cache.new_empty((*cache.shape[:4], num_slots, cache.shape[5]))
            tokens = np.zeros((len(tokens), num_slots), np.int64)
        mask = self._mask.new_zeros((len(self._lengths), 1, 1, num_slots))
        mask[..., :longest] = self._mask[..., used_slots]
        tokens[:, :longest] = self._tokens[:, used_slots].copy()
        previous = self._cache[..., used_slots, :]
        cache[..., :longest, :] = previous.clone() if cache is self._cache else previous
        self._cache, self._tokens, self._mask = cache, tokens, mask
        self._end_slot, self._first_slot = longest, 0

    def _copy_rows_to_larger(self, row_ids: np.ndarray) -> None:
        """A larger cache, in which sequence `new` is a copy of sequence `row_ids[new]`."""
        used_slots, shape = slice(self._first_slot, self._end_slot), self._cache.shape
        cache = self._cache.new_empty((*shape[:2], len(row_ids), *shape[3:]))
        for new, old in enumerate(row_ids.tolist()):
            cache[:, :, new, :, used_slots] = self._cache[:, :, old, :, used_slots]
        self._cache, self._tokens = cache, self._tokens[row_ids]

    def _move_rows(self, row_ids: np.ndarray) -> None:
        """The same in place: copies only sequences whose index changes, and only the slots that differ."""
        moved = np.flatnonzero(row_ids != np.arange(len(row_ids)))
        old_rows, first_slots = row_ids[moved], self._first_differences(moved, row_ids[moved])
        moves = list(zip(moved.tolist(), old_rows.tolist(), first_slots, strict=True))
        overwritten = set(moved.tolist())
        saved = {  # sequences overwritten before they are copied
            old: self._cache[:, :, old].clone() for new, old, _ in moves if old < new and old in overwritten
        }
        for new, old, begin in moves:
            row = saved[old] if old in saved else self._cache[:, :, old]
            self._cache[:, :, new, :, begin : self._end_slot] = row[..., begin : self._end_slot, :]
        self._tokens[: len(row_ids)] = self._tokens[row_ids]

    def _first_differences(self, rows: np.ndarray, others: np.ndarray) -> list[int]:
        """The first slot in which each sequence differs from the other; keys and values before it are equal."""
        used_slots, count = slice(self._first_slot, self._end_slot), len(self._lengths)
        differing = self._tokens[rows, used_slots] != self._tokens[others, used_slots]
        first_slots = np.where(differing.any(axis=1), self._first_slot + differing.argmax(axis=1), self._end_slot)
        is_comparable = rows < count  # an unused row keeps its old content
        is_comparable[is_comparable] = self._lengths[rows[is_comparable]] == self._lengths[others[is_comparable]]
        if self._memory is not None:  # equal tokens with another source differ too
            is_comparable[is_comparable] = self._memory.have_same_source(rows[is_comparable], others[is_comparable])
        return np.where(is_comparable, first_slots, self._first_slot).tolist()


def _num_slots(context: int) -> int:
    """Maximum number of slots: half a context more than needed makes compaction rare."""
    return context + context // 2 + 1
