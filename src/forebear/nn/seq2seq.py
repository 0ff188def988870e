"""Recurrent encoder–decoders (seq2seq), with or without attention; scoring and decoding of all translation models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from forebear.errors import ForebearError
from forebear.nn.attention_scores import AdditiveScore, BilinearScore, ConcatScore, DotProductScore, attend_with_scores
from forebear.nn.embedding import InputEmbedding
from forebear.nn.encode_rows import length_batches, to_tensor
from forebear.nn.encoder import Encoder, EncoderDecoderBase, Lengths, States, to_lengths
from forebear.nn.heads import LMHead
from forebear.nn.inference_mode import in_inference_mode, inference_mode
from forebear.nn.kv_cache import EncoderMemory, HypothesisSources, IncrementalDecoder, TransformerDecodingState
from forebear.nn.layers import DeferredLinear, deferred_linear
from forebear.nn.model import Model
from forebear.nn.recurrent import LockedDropout, LSTMLayer, RecurrentState
from forebear.nn.transformer import EncoderDecoder
from forebear.nn.weight_packing import LinearFn, PackedDecoder, PackFn, packed_linear, packed_lm_head

INIT_SCALE = 6.0  # LSTM states are far below 1 at first: with the usual initial weights, outputs would be near 0

ReadingDirection = Literal["forward", "backward", "both"]
AttentionScore = DotProductScore | BilinearScore | ConcatScore | AdditiveScore


class BidirectionalLayer(nn.Module):
    """A bidirectional LSTM layer: two of half the size, concatenated."""

    def __init__(self, inputs: int, inner: int) -> None:
        super().__init__()
        self.halves = nn.ModuleList(LSTMLayer(inputs, inner // 2, backward=backward) for backward in (False, True))

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, RecurrentState]:
        """(T, inputs) → (T, inner), and the final states of both directions."""
        (forward, forward_end), (backward, backward_end) = (half(x, lengths) for half in self.halves)
        final_state = tuple(torch.cat(pair, 1) for pair in zip(forward_end, backward_end, strict=True))
        return torch.cat((forward, backward), 1), final_state


class Seq2SeqEncoder(nn.Module):
    """A stack of LSTM layers over the source.

    inner      hidden size
    direction  "forward", "backward" (from the last token to the first), or "both", with half of the units each
    """

    def __init__(
        self, embedding: InputEmbedding, *, depth: int, inner: int, direction: ReadingDirection, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding, self.dropout = embedding, LockedDropout(dropout)
        widths = [embedding.width, *[inner] * (depth - 1)]
        self.layers = nn.ModuleList(
            BidirectionalLayer(width, inner)
            if direction == "both"
            else LSTMLayer(width, inner, backward=direction == "backward")
            for width in widths
        )

    def forward(self, tokens: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, list[RecurrentState]]:
        """(S, inner) last-layer states of all tokens, and the final state of each layer, (B, inner)."""
        x, final_states = self.embedding(tokens, lengths), []
        for layer in self.layers:
            x, final_state = layer(self.dropout(x, lengths), lengths)
            final_states.append(final_state)
        return x, final_states


class Seq2SeqDecoder(nn.Module):
    """A stack of LSTM layers over the target, each initialized with the encoder's final state of that layer.

    Without attention, a linear map (`narrow`) leads from the last layer to the size of the output embedding, if they
    differ.

    output_embedding  the input embedding itself if they are tied
    attention         over the encoder states
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        output_embedding: InputEmbedding,
        *,
        depth: int,
        inner: int,
        dropout: float = 0.0,
        attention: GlobalAttention | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.width, self.depth, self.inner = embedding, embedding.width, depth, inner
        self.dropout = LockedDropout(dropout)
        self.scored = None if output_embedding is embedding else output_embedding
        self.layers = nn.ModuleList(LSTMLayer(inner if index else embedding.width, inner) for index in range(depth))
        is_same_size = attention is not None or inner == output_embedding.width
        self.narrow = None if is_same_size else deferred_linear(inner, output_embedding.width, bias=False)
        self.look = attention

    def forward(
        self,
        tokens: Tensor,
        lengths: tuple[int, ...],
        initial_states: Sequence[RecurrentState],
        memory: Tensor,
        memory_lengths: tuple[int, ...],
    ) -> States:
        layers = self.states(tokens, lengths, initial_states)
        if self.look is not None:
            layers[-1] = self.look(layers[-1], lengths, memory, memory_lengths)
        elif self.narrow is not None:
            layers[-1] = self.narrow(layers[-1])
        layers[-1] = self.dropout(layers[-1], lengths)
        return States(layers, lengths)

    def states(
        self, tokens: Tensor, lengths: tuple[int, ...], initial_states: Sequence[RecurrentState]
    ) -> list[Tensor]:
        """The embedding and the outputs of all layers, before attention."""
        layers = [self.embedding(tokens, lengths)]
        for layer, state in zip(self.layers, initial_states, strict=True):
            layers.append(layer(self.dropout(layers[-1], lengths), lengths, state)[0])
        return layers


class GlobalAttention(nn.Module):
    """Attention above the last layer (Luong): tanh(W c + U h), where c is the context vector of state h.

    It is outside the recurrence: all target tokens attend in one call.
    """

    def __init__(self, score: AttentionScore, *, inner: int, width: int) -> None:
        super().__init__()
        self.similarity = score
        self.found, self.own = (
            deferred_linear(inner, width, bias=False, width=2 * inner, scale=INIT_SCALE) for _ in range(2)
        )

    def forward(self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]) -> Tensor:
        """(T, inner) states and (S, inner) memory → (T, D)."""
        context = self.attend(x, lengths, memory, memory_lengths)[0]
        return torch.tanh(self.found(unpad_rows(context, lengths)) + self.own(x))

    def attend(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """(B, n, inner) context vectors and (B, n, m) weights, both padded."""
        memory_mask = token_mask(memory_lengths)
        queries, keys = pad_rows(x, lengths), pad_rows(memory, memory_lengths)
        allowed = None if memory_mask.all() else memory_mask[:, None].to(x.device)
        return attend_with_scores(self.similarity(queries, keys), keys, allowed)


class RecurrentEncoderDecoder(EncoderDecoderBase):
    """A recurrent encoder–decoder; without attention, the decoder gets only the final states of the encoder."""

    reader: Seq2SeqEncoder
    writer: Seq2SeqDecoder

    def state_size(self, length: int) -> int:
        """Numbers stored per sequence during decoding, for a source of this length."""
        return 2 * self.depth * self.writer.inner

    def forward(
        self, tokens: Tensor, lengths: Lengths, source: Tensor, source_lengths: Lengths, positions: Tensor | None = None
    ) -> States:
        """Sequence i is decoded from sequence i of the `source`. `positions` is ignored: all are computed."""
        target_lengths, memory_lengths = to_lengths(lengths), to_lengths(source_lengths)
        memory, final_states = self.reader(source, memory_lengths)
        return self.writer(tokens, target_lengths, final_states, memory, memory_lengths)


class AttentionEncoderDecoder(RecurrentEncoderDecoder):
    """An encoder–decoder whose decoder attends to the encoder states."""

    has_attention = True

    def state_size(self, length: int) -> int:
        """The state, and a key and a value for each source token."""
        return super().state_size(length) + length * (self.writer.inner + self.width)

    def attention_maps(
        self, tokens: Tensor, lengths: Lengths, source: Tensor, source_lengths: Lengths
    ) -> dict[str, list[list[Tensor]]]:
        """Attention weights for inspection: "cross" has one layer with the (1, n, m) weights of each sequence."""
        target_lengths, memory_lengths = to_lengths(lengths), to_lengths(source_lengths)
        memory, final_states = self.reader(source, memory_lengths)
        state, attention = self.writer.states(tokens, target_lengths, final_states)[-1], self.writer.look
        assert attention is not None
        weights = attention.attend(state, target_lengths, memory, memory_lengths)[1]
        row_weights = zip(weights, target_lengths, memory_lengths, strict=True)
        return {"cross": [[row[None, :length, :source_length] for row, length, source_length in row_weights]]}


def token_mask(lengths: Sequence[int]) -> Tensor:
    """(B, n) True where a padded batch has a token."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def pad_rows(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """(T, D) → (B, n, D), zero-padded, so that attention takes all sequences in one call."""
    mask = token_mask(lengths)
    if not mask.all():
        positions = mask.flatten().nonzero().squeeze(1).to(x.device)
        x = x.new_zeros((mask.numel(), x.shape[1])).index_copy(0, positions, x)
    return x.view(*mask.shape, -1)


def unpad_rows(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """(B, n, D) → (T, D), the inverse of `pad_rows`."""
    mask, flat = token_mask(lengths).flatten(), x.flatten(0, 1)
    return flat if mask.all() else flat.index_select(0, mask.nonzero().squeeze(1).to(x.device))


# --- Translation ---


class BaseSeq2Seq:
    """Base of translators, which take and return ids and numpy arrays. The model must not be trained while decoding."""

    encoder_type: ClassVar[type[Encoder]]
    example_model: ClassVar[str]  # a model that translates this way, for error messages
    encoder: Any

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("translation")
        if not isinstance(encoder, self.encoder_type) or not isinstance(head, LMHead):
            hint = f"ask one that was trained to: {self.example_model}"
            raise ForebearError("this model does not translate", hint=hint)
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def max_length(self) -> int:
        """Maximum number of source tokens."""
        return self.encoder.max_length

    @in_inference_mode
    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each target token given its source and the tokens before it; `start` precedes the first."""
        log_probs: list[np.ndarray] = [np.empty(0)] * len(targets)
        sizes = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
        for batch in length_batches(sizes):
            source_rows, target_rows = [sources[index] for index in batch], [targets[index] for index in batch]
            decoder_inputs = [np.concatenate(([start], target[:-1])) for target in target_rows]
            lengths = [len(target) for target in target_rows]
            states = self.encoder(
                to_tensor(self.model, np.concatenate(decoder_inputs)),
                lengths,
                to_tensor(self.model, np.concatenate(source_rows)),
                [len(source) for source in source_rows],
            )
            scores = self.head.log_probs(states.last, to_tensor(self.model, np.concatenate(target_rows)))
            for index, row_scores in zip(batch, scores.cpu().split(lengths), strict=True):
                log_probs[index] = row_scores.numpy()
        return log_probs


# --- Recurrent translation ---
#
# A source is encoded once: its attention keys, and its values multiplied by the output matrix, are shared by all its
# hypotheses. Each hypothesis has its own LSTM states. A step is one matrix product per layer for all hypotheses, with
# weights that are packed once.


Gates = Callable[[Tensor, Tensor], Tensor]  # input and state h → (B, 4 · inner)


class RecurrentSeq2Seq(BaseSeq2Seq):
    """Translation with a recurrent decoder; targets may have any length."""

    encoder_type, example_model = RecurrentEncoderDecoder, "seq2seq"
    encoder: RecurrentEncoderDecoder

    @in_inference_mode
    def start_decoding(self, sources: Sequence[np.ndarray], start: int, max_tokens: int) -> Seq2SeqDecodingState:
        """A decoding state with one hypothesis per source: only `start`. `max_tokens` is ignored."""
        lengths = tuple(map(len, sources))
        memory, final_states = self.encoder.reader(to_tensor(self.model, np.concatenate(sources)), lengths)
        attention = self.encoder.writer.look
        attention_cache = None if attention is None else AttentionCache(attention, memory, lengths)
        decoding_state = Seq2SeqDecodingState(self._decoder, final_states, attention_cache)
        decoding_state.append(np.full(len(sources), start))
        return decoding_state

    @cached_property
    def _decoder(self) -> PackedRecurrentDecoder:
        return PackedRecurrentDecoder(self.encoder.writer, self.head)


class PackedRecurrentDecoder(PackedDecoder):
    """A decoder and its head with packed weights, for one token of many hypotheses at a time."""

    def __init__(self, decoder: Seq2SeqDecoder, head: LMHead) -> None:
        self.writer, self.head = decoder, head

    @in_inference_mode
    def pack_layers(self, pack: PackFn) -> tuple[list[Gates], LinearFn, LinearFn]:
        """The layers, the map from the last state to the output, and the output projection."""
        decoder = self.writer
        output_layer = decoder.narrow if decoder.look is None else decoder.look.own
        output = _identity if output_layer is None else packed_linear(output_layer, pack)
        return [_gates(layer, pack) for layer in decoder.layers], output, packed_lm_head(self.head, pack)


class Seq2SeqDecodingState:
    """Decoding state of a recurrent encoder–decoder."""

    def __init__(
        self, decoder: PackedRecurrentDecoder, states: Sequence[RecurrentState], attention_cache: AttentionCache | None
    ) -> None:
        self._decoder, self._attention_cache = decoder, attention_cache
        self._states = list(states)
        self._pending_ids: np.ndarray | None = None

    def next_logits(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with inference_mode():
            self._step()
            h = self._states[-1][0]
            _, project, lm_head = self._decoder.packed_layers(len(h))
            x = project(h)
            if self._attention_cache is not None:
                x = torch.tanh(self._attention_cache.attend(h) + x)
            return lm_head(self._decoder.head.transform_states(x)).float().cpu().numpy()

    def append(self, ids: np.ndarray) -> None:
        with inference_mode():
            self._step()
        self._pending_ids = np.asarray(ids, dtype=np.int64)

    def select(self, rows: np.ndarray) -> None:
        row_ids = np.arange(len(self._states[0][0]))[np.asarray(rows)]
        self._pending_ids = None if self._pending_ids is None else self._pending_ids[row_ids]
        with inference_mode():
            row_tensor = torch.from_numpy(row_ids).to(self._states[0][0].device)
            self._states = [tuple(tensor[row_tensor] for tensor in state) for state in self._states]
            if self._attention_cache is not None:
                self._attention_cache.select(row_ids)

    def _step(self) -> None:
        """Process the pending token, if there is one."""
        if self._pending_ids is None:
            return
        layers, _, _ = self._decoder.packed_layers(len(self._pending_ids))
        ids = torch.from_numpy(self._pending_ids).to(self._states[0][0].device)
        embedding = self._decoder.writer.embedding
        x, self._pending_ids = embedding.token(ids) * embedding.scale, None
        for index, gates in enumerate(layers):
            h, c = self._states[index]
            i, f, g, o = gates(x, h).chunk(4, 1)
            c = torch.sigmoid(f).mul_(c).addcmul_(torch.sigmoid(i), torch.tanh(g))
            x = torch.sigmoid(o).mul_(torch.tanh(c))
            self._states[index] = x, c


class AttentionCache:
    """Attention keys and values of the sources, computed once."""

    def __init__(self, attention: GlobalAttention, memory: Tensor, lengths: Sequence[int]) -> None:
        """`memory` (T, inner) of all source tokens, and the lengths of the sources."""
        self._attention, self._sources = attention, HypothesisSources(lengths, memory.device)
        mask = self._sources.mask
        self._allowed = None if mask.all() else mask[:, None].to(memory.device)  # (S, 1, m)
        self._projected_keys = attention.similarity.project_keys(self._sources.pad(memory))
        self._values = self._sources.pad(attention.found(memory))  # (S, m, D)

    def attend(self, h: Tensor) -> Tensor:
        """(B, inner) states → (B, D) context vectors, already multiplied by the output matrix."""
        scores = self._attention.similarity.scores(self._sources.gather(h), self._projected_keys)
        return self._sources.scatter(attend_with_scores(scores, self._values, self._allowed)[0])

    def select(self, rows: np.ndarray) -> None:
        """Keep these sequences; sources without sequences are dropped."""
        remaining = self._sources.select(rows)
        if remaining is not None:
            self._projected_keys, self._values = self._projected_keys[remaining], self._values[remaining]
            self._allowed = None if self._allowed is None else self._allowed[remaining]


def _gates(layer: nn.Module, pack: PackFn) -> Gates:
    """Input and recurrent product of a layer, as one product if neither is quantized."""
    assert isinstance(layer, LSTMLayer)
    if type(layer.input) is DeferredLinear and type(layer.state) is DeferredLinear:
        product = pack(torch.cat((layer.input.weight, layer.state.weight), 1), layer.input.bias)
        return lambda x, h: product(torch.cat((x, h), 1))
    input_product, state_product = packed_linear(layer.input, pack), packed_linear(layer.state, pack)
    return lambda x, h: input_product(x) + state_product(h)


def _identity(x: Tensor) -> Tensor:
    return x


# --- Translation with Transformers ---


def seq2seq_for(model: Model) -> TransformerSeq2Seq | RecurrentSeq2Seq:
    """The translator for the model's type of decoder."""
    recurrent = isinstance(model.encoder, RecurrentEncoderDecoder)
    return RecurrentSeq2Seq(model) if recurrent else TransformerSeq2Seq(model)


class TransformerSeq2Seq(BaseSeq2Seq):
    """Translation with a Transformer decoder and a KV cache."""

    encoder_type, example_model = EncoderDecoder, "transformer"
    encoder: EncoderDecoder

    @in_inference_mode
    def start_decoding(self, sources: Sequence[np.ndarray], start: int, max_tokens: int) -> TransformerDecodingState:
        """A decoding state with one hypothesis per source: only `start`, before up to `max_tokens` tokens."""
        lengths = [len(source) for source in sources]
        source_states = self.encoder.reader(to_tensor(self.model, np.concatenate(sources)), lengths).last
        layers, _ = self._decoder.packed_layers(len(sources))
        memory = EncoderMemory(layers, source_states, lengths, self._decoder.num_heads)
        decoding_state = TransformerDecodingState(
            self._decoder, [np.empty(0, np.int64)] * len(sources), min(max_tokens, self.max_length), memory
        )
        decoding_state.append(np.full(len(sources), start))
        return decoding_state

    @cached_property
    def _decoder(self) -> IncrementalDecoder:
        return IncrementalDecoder(self.encoder.writer, self.head)
