"""A recurrent network reads a text into its state; another goes on from there and writes, perhaps looking back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from forebear.errors import ForebearError
from forebear.nn.attention import AdditiveScore, BilinearScore, ConcatScore, DotProductScore, attend_with_scores
from forebear.nn.embedding import InputEmbedding
from forebear.nn.encode_rows import length_batches, to_tensor
from forebear.nn.encoder import Encoder, States
from forebear.nn.heads import LMHead
from forebear.nn.kv_cache import EncoderMemory, IncrementalDecoder, SourceRows, TransformerDecodingState
from forebear.nn.layers import DeferredLinear, deferred_linear
from forebear.nn.model import Model
from forebear.nn.recurrent import LockedDropout, LSTMLayer, RecurrentState
from forebear.nn.transformer import EncoderDecoder, to_lengths
from forebear.nn.weight_packing import (
    LinearFn,
    PackFn,
    pack_for_matrix,
    pack_for_vector,
    packed_linear,
    packed_lm_head,
)

LARGE = 6.0  # states of LSTMs begin far below 1: with the usual values next to nothing of them would come out

Way = Literal["forward", "backward", "both"]
Similarity = DotProductScore | BilinearScore | ConcatScore | AdditiveScore


class BidirectionalLayer(nn.Module):
    """A layer that reads a row from either end: two of half the width, whose states stand beside each other."""

    def __init__(self, inputs: int, inner: int) -> None:
        super().__init__()
        self.halves = nn.ModuleList(LSTMLayer(inputs, inner // 2, backward=backward) for backward in (False, True))

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, RecurrentState]:
        """(T, inputs) → (T, inner), and the states in which either end is reached."""
        (forward, forward_end), (backward, backward_end) = (half(x, lengths) for half in self.halves)
        return torch.cat((forward, backward), 1), tuple(
            torch.cat(pair, 1) for pair in zip(forward_end, backward_end, strict=True)
        )


class Seq2SeqEncoder(nn.Module):
    """Layers of LSTM cells over the source, each over what the one below it says.

    inner  numbers in the state of a layer
    way    "forward", "backward": from the last token to the first, or "both", each with half of the state
    """

    def __init__(self, embedding: InputEmbedding, *, depth: int, inner: int, way: Way, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding, self.dropout = embedding, LockedDropout(dropout)
        widths = [embedding.width, *[inner] * (depth - 1)]
        self.layers = nn.ModuleList(
            BidirectionalLayer(width, inner) if way == "both" else LSTMLayer(width, inner, backward=way == "backward")
            for width in widths
        )

    def forward(self, tokens: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, list[RecurrentState]]:
        """(S, inner) the last layer's states of all tokens, and the state in which each layer ends, (B, inner)."""
        x, ends = self.embedding(tokens, lengths), []
        for layer in self.layers:
            x, end = layer(self.dropout(x, lengths), lengths)
            ends.append(end)
        return x, ends


class Seq2SeqDecoder(nn.Module):
    """Layers of LSTM cells over what is written. Each begins with the state in which that layer of a reader ended.

    Where it does not look back, a linear map (`narrow`) leads from the last layer's state to the width of a token's
    vector; none where they are as wide.

    scored  the vectors by which tokens are scored: the embedding itself, or others, which are then kept here
    look    how it looks back at what was read
    """

    def __init__(
        self,
        embedding: InputEmbedding,
        scored: InputEmbedding,
        *,
        depth: int,
        inner: int,
        dropout: float = 0.0,
        look: GlobalAttention | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.depth, self.inner, self.dropout = embedding, depth, inner, LockedDropout(dropout)
        self.scored = None if scored is embedding else scored
        self.layers = nn.ModuleList(LSTMLayer(inner if number else embedding.width, inner) for number in range(depth))
        is_same_size = look is not None or inner == scored.width
        self.narrow = None if is_same_size else deferred_linear(inner, scored.width, bias=False)
        self.look = look

    def forward(
        self,
        tokens: Tensor,
        lengths: tuple[int, ...],
        begin: Sequence[RecurrentState],
        memory: Tensor,
        memory_lengths: tuple[int, ...],
    ) -> States:
        layers = self.states(tokens, lengths, begin)
        if self.look is not None:
            layers[-1] = self.look(layers[-1], lengths, memory, memory_lengths)
        elif self.narrow is not None:
            layers[-1] = self.narrow(layers[-1])
        layers[-1] = self.dropout(layers[-1], lengths)
        return States(layers, lengths)

    def states(self, tokens: Tensor, lengths: tuple[int, ...], begin: Sequence[RecurrentState]) -> list[Tensor]:
        """The embedding and what each layer says, before anything is looked at."""
        layers = [self.embedding(tokens, lengths)]
        for layer, state in zip(self.layers, begin, strict=True):
            layers.append(layer(self.dropout(layers[-1], lengths), lengths, state)[0])
        return layers


class GlobalAttention(nn.Module):
    """Attention above the last layer (Luong): tanh(W c + U h), c what the state h finds among those of the source.

    It stands outside of the recurrence, so that all tokens of a translation look at once.
    """

    def __init__(self, similarity: Similarity, *, inner: int, width: int) -> None:
        super().__init__()
        self.similarity = similarity
        self.found, self.own = (
            deferred_linear(inner, width, bias=False, width=2 * inner, scale=LARGE) for _ in range(2)
        )

    def forward(self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]) -> Tensor:
        """(T, inner), and the (S, inner) of what was read → (T, D)."""
        context = self.weighed(x, lengths, memory, memory_lengths)[0]
        return torch.tanh(self.found(only(context, lengths)) + self.own(x))

    def weighed(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """(B, n, inner) what each row's tokens find, by (B, n, m) weights; both padded where rows are shorter."""
        memory_mask = standing(memory_lengths)
        queries, keys = padded(x, lengths), padded(memory, memory_lengths)
        allowed = None if memory_mask.all() else memory_mask[:, None].to(x.device)
        return attend_with_scores(self.similarity(queries, keys), keys, allowed)


class RecurrentEncoderDecoder(Encoder):
    """Both networks. The states are those of what is written; a head reads them as it reads any others."""

    has_decoder = True
    sees = "past"
    embedding = None  # there are two

    def __init__(self, reader: Seq2SeqEncoder, writer: Seq2SeqDecoder) -> None:
        super().__init__()
        self.reader, self.writer = reader, writer

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.embedding.width

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.depth

    @property
    def max_length(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.embedding.positions

    def state_size(self, length: int) -> int:
        """Numbers that are kept from token to token while a row is written from a source of this length."""
        return 2 * self.depth * self.writer.inner

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        source: Tensor,
        source_lengths: Tensor | Sequence[int],
        positions: Tensor | None = None,
    ) -> States:
        """Row i is written from row i of the `source`. Every token is asked about, whatever is `positions`."""
        rows, memory_lengths = to_lengths(lengths), to_lengths(source_lengths)
        memory, ends = self.reader(source, memory_lengths)
        return self.writer(tokens, rows, ends, memory, memory_lengths)


class AttentionEncoderDecoder(RecurrentEncoderDecoder):
    """One whose writer looks back at every state of the reader."""

    has_attention = True

    def state_size(self, length: int) -> int:
        """The state, and for each token of the source a key and a value."""
        return super().state_size(length) + length * (self.writer.inner + self.width)

    def attention_maps(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        source: Tensor,
        source_lengths: Tensor | Sequence[int],
    ) -> dict[str, list[list[Tensor]]]:
        """Where tokens look, for study: "cross" has one layer with the (1, n, m) weights of each row."""
        rows, memory_lengths = to_lengths(lengths), to_lengths(source_lengths)
        memory, ends = self.reader(source, memory_lengths)
        state, look = self.writer.states(tokens, rows, ends)[-1], self.writer.look
        assert look is not None
        weights = look.weighed(state, rows, memory, memory_lengths)[1]
        row_weights = zip(weights, rows, memory_lengths, strict=True)
        return {"cross": [[row[None, :length, :source_length] for row, length, source_length in row_weights]]}


def standing(lengths: Sequence[int]) -> Tensor:
    """(B, n) where each row has a token, if all were as long as the longest."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def padded(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """(T, D) → (B, n, D), zeros behind shorter rows: for attention alone, which then takes all rows in one call."""
    mask = standing(lengths)
    if not mask.all():
        positions = mask.flatten().nonzero().squeeze(1).to(x.device)
        x = x.new_zeros((mask.numel(), x.shape[1])).index_copy(0, positions, x)
    return x.view(*mask.shape, -1)


def only(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """(B, n, D) → (T, D), the way back."""
    mask, flat = standing(lengths).flatten(), x.flatten(0, 1)
    return flat if mask.all() else flat.index_select(0, mask.nonzero().squeeze(1).to(x.device))


# How likely given translations are, token by token, by any network that reads one text and writes another.


def teacher_forced_log_probs(
    model: Model, head: LMHead, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int
) -> list[np.ndarray]:
    """log P of each token of each target given its source and those before it; `start` is seen before the first."""
    log_probs: list[np.ndarray] = [np.empty(0)] * len(targets)
    for batch in length_batches([len(source) + len(target) for source, target in zip(sources, targets, strict=True)]):
        source_rows, target_rows = [sources[number] for number in batch], [targets[number] for number in batch]
        decoder_inputs = [np.concatenate(([start], target[:-1])) for target in target_rows]
        lengths = [len(target) for target in target_rows]
        states = model.encoder(
            to_tensor(model, np.concatenate(decoder_inputs)),
            lengths,
            to_tensor(model, np.concatenate(source_rows)),
            [len(source) for source in source_rows],
        )
        scores = head.log_probs(states.last, to_tensor(model, np.concatenate(target_rows)))
        for number, row_scores in zip(batch, scores.float().cpu().split(lengths), strict=True):
            log_probs[number] = row_scores.numpy()
    return log_probs


# What a recurrent network that was taught translations can be asked: how likely one is, and to write one by tokens.
#
# A source is read once. What is kept of a row is the state of its layers, and of a source, for all rows that are written
# from it, what attention makes of its states: the keys, and the values already multiplied by the matrix that mixes them
# into the output. Each step of all rows is one product a layer, of weights that are laid out once.


Gates = Callable[[Tensor, Tensor], Tensor]  # what comes in and the state h → (B, 4 · inner)


class RecurrentSeq2Seq:
    """Ids and numpy outside, torch inside. The model must not learn meanwhile."""

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("translation")
        if not isinstance(encoder, RecurrentEncoderDecoder) or not isinstance(head, LMHead):
            raise ForebearError("this model does not translate", hint="ask one that was trained to: seq2seq")
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def max_length(self) -> int:
        """Tokens of a source; what is written may be of any length."""
        return self.encoder.max_length

    @torch.inference_mode()
    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        return teacher_forced_log_probs(self.model, self.head, sources, targets, start)

    @torch.inference_mode()
    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> Seq2SeqDecodingState:
        """A row for each source, of which nothing is written yet but `start`; there is `room` for any number."""
        lengths = tuple(map(len, sources))
        memory, ends = self.encoder.reader(to_tensor(self.model, np.concatenate(sources)), lengths)
        look = self.encoder.writer.look
        rows = Seq2SeqDecodingState(
            self._decoder, ends, None if look is None else AttentionCache(look, memory, lengths)
        )
        rows.append(np.full(len(sources), start))
        return rows

    @cached_property
    def _decoder(self) -> PackedRecurrentDecoder:
        return PackedRecurrentDecoder(self.encoder.writer, self.head)


class PackedRecurrentDecoder:
    """A writer and its head, laid out for one token of many rows at a time. Made once, used for any number of rows."""

    def __init__(self, writer: Seq2SeqDecoder, head: LMHead) -> None:
        self.writer, self.head = writer, head

    def laid_out(self, rows: int) -> tuple[list[Gates], LinearFn, LinearFn]:
        """The layers in order, what leads from the last state to what is scored, and the product with the vocabulary,
        for so many rows at a time."""
        return self._for_one_row if rows == 1 else self._for_rows

    @cached_property
    def _for_one_row(self) -> tuple[list[Gates], LinearFn, LinearFn]:
        return self._pack_layers(pack_for_vector)

    @cached_property
    def _for_rows(self) -> tuple[list[Gates], LinearFn, LinearFn]:
        return self._pack_layers(pack_for_matrix)

    @torch.inference_mode()
    def _pack_layers(self, pack: PackFn) -> tuple[list[Gates], LinearFn, LinearFn]:
        writer = self.writer
        output_layer = writer.narrow if writer.look is None else writer.look.own
        output = _identity if output_layer is None else packed_linear(output_layer, pack)
        return [_gates(layer, pack) for layer in writer.layers], output, packed_lm_head(self.head, pack)


class Seq2SeqDecodingState:
    """Rows that are being continued (a `Reader`)."""

    def __init__(
        self, decoder: PackedRecurrentDecoder, states: Sequence[RecurrentState], looked_at: AttentionCache | None
    ) -> None:
        self._decoder, self._attention_cache = decoder, looked_at
        self._states = list(states)
        self._pending_ids: np.ndarray | None = None

    def next_logits(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with torch.inference_mode():
            self._step()
            h = self._states[-1][0]
            _, out, vocabulary = self._decoder.laid_out(len(h))
            x = out(h) if self._attention_cache is None else torch.tanh(self._attention_cache.attend(h) + out(h))
            return vocabulary(self._decoder.head.transform_states(x)).float().cpu().numpy()

    def append(self, ids: np.ndarray) -> None:
        with torch.inference_mode():
            self._step()
        self._pending_ids = np.asarray(ids, dtype=np.int64)

    def select(self, rows: np.ndarray) -> None:
        row_ids = np.arange(len(self._states[0][0]))[np.asarray(rows)]
        self._pending_ids = None if self._pending_ids is None else self._pending_ids[row_ids]
        with torch.inference_mode():
            row_tensor = torch.from_numpy(row_ids).to(self._states[0][0].device)
            self._states = [tuple(tensor[row_tensor] for tensor in state) for state in self._states]
            if self._attention_cache is not None:
                self._attention_cache.select(row_ids)

    def _step(self) -> None:
        """Reads the token that was taken last, if it was not read yet."""
        if self._pending_ids is None:
            return
        layers, _, _ = self._decoder.laid_out(len(self._pending_ids))
        ids = torch.from_numpy(self._pending_ids).to(self._states[0][0].device)
        embedding = self._decoder.writer.embedding
        x, self._pending_ids = embedding.token(ids) * embedding.scale, None
        for number, gates in enumerate(layers):
            h, c = self._states[number]
            i, f, g, o = gates(x, h).chunk(4, 1)
            c = torch.sigmoid(f).mul_(c).addcmul_(torch.sigmoid(i), torch.tanh(g))
            x = torch.sigmoid(o).mul_(torch.tanh(c))
            self._states[number] = x, c


class AttentionCache:
    """What rows find in their sources, found once for each source as far as it can be."""

    def __init__(self, look: GlobalAttention, memory: Tensor, lengths: Sequence[int]) -> None:
        """`memory` (T, inner) of all tokens of the sources, which have these lengths."""
        self._look, self._sources = look, SourceRows(lengths, memory.device)
        mask = self._sources.here
        self._allowed = None if mask.all() else mask[:, None].to(memory.device)  # (S, 1, m)
        self._projected_keys = look.similarity.keyed(self._sources.padded(memory))
        self._values = self._sources.padded(look.found(memory))  # (S, m, D)

    def attend(self, h: Tensor) -> Tensor:
        """(B, inner) states → (B, D): what they find, and as it is added to the output."""
        scores = self._look.similarity.scores(self._sources.gather(h), self._projected_keys)
        return self._sources.scattered(attend_with_scores(scores, self._values, self._allowed)[0])

    def select(self, rows: np.ndarray) -> None:
        """As the rows themselves are kept; sources that have none left are forgotten."""
        remaining = self._sources.select(rows)
        if remaining is not None:
            self._projected_keys, self._values = self._projected_keys[remaining], self._values[remaining]
            self._allowed = None if self._allowed is None else self._allowed[remaining]


def _gates(layer: nn.Module, pack: PackFn) -> Gates:
    """Both products of a layer as one, where they are of the class we know."""
    assert isinstance(layer, LSTMLayer)
    if type(layer.input) is DeferredLinear and type(layer.state) is DeferredLinear:
        product = pack(torch.cat((layer.input.weight, layer.state.weight), 1), layer.input.bias)
        return lambda x, h: product(torch.cat((x, h), 1))
    input_product, state_product = packed_linear(layer.input, pack), packed_linear(layer.state, pack)
    return lambda x, h: input_product(x) + state_product(h)


def _identity(x: Tensor) -> Tensor:
    return x


# What a Transformer that was taught translations can be asked: how likely one is, and to write one token by token.


def seq2seq_for(model: Model) -> TransformerSeq2Seq | RecurrentSeq2Seq:
    """What asks this model for translations: it depends on what its writer remembers."""
    recurrent = isinstance(model.encoder, RecurrentEncoderDecoder)
    return RecurrentSeq2Seq(model) if recurrent else TransformerSeq2Seq(model)


class TransformerSeq2Seq:
    """Ids and numpy outside, torch inside. The model must not learn meanwhile."""

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("translation")
        if not isinstance(encoder, EncoderDecoder) or not isinstance(head, LMHead):
            raise ForebearError("this model does not translate", hint="ask one that was trained to: transformer")
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def max_length(self) -> int:
        return self.encoder.max_length

    @torch.inference_mode()
    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        return teacher_forced_log_probs(self.model, self.head, sources, targets, start)

    @torch.inference_mode()
    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> TransformerDecodingState:
        """A row for each source, of which nothing is written yet but `start`; up to `room` tokens will be."""
        lengths = [len(source) for source in sources]
        source_states = self.encoder.reader(to_tensor(self.model, np.concatenate(sources)), lengths).last
        layers, _ = self._decoder.run_layers(len(sources))
        memory = EncoderMemory(layers, source_states, lengths, self._decoder.heads)
        rows = TransformerDecodingState(
            self._decoder, [np.empty(0, np.int64)] * len(sources), min(room, self.max_length), memory
        )
        rows.append(np.full(len(sources), start))
        return rows

    @cached_property
    def _decoder(self) -> IncrementalDecoder:
        return IncrementalDecoder(self.encoder.writer, self.head)
