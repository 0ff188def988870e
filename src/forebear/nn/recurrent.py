"""Recurrent layers (RNN, LSTM, GRU) and the encoders made of them: left to right, and bidirectional (ELMo's biLM)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from forebear.nn.bptt_state import BPTTState
from forebear.nn.char_cnn import CharCNNEmbedding
from forebear.nn.encoder import Encoder, Lengths, States, to_lengths
from forebear.nn.layers import DeferredLinear, deferred_linear, set_initial_values
from forebear.nn.lstm_scan import NO_CLIP, ClipLimits, LSTMScan, TimeOrder, time_order
from forebear.nn.nnlm import WordEmbedding

# --- Recurrent layers ---
#
# `step` has the equations of each cell; `forward` is a fast implementation for whole sequences.


CellName = Literal["rnn", "lstm", "gru"]
# Tokens after which a third of a cell's content is left: the range over cells at initialization.
MEMORY_SPANS = (2.0, 32.0)
RecurrentState = tuple[Tensor, ...]  # (B, ·) each: h, and c for an LSTM


class RecurrentLayer(nn.Module, ABC):
    """One recurrent layer in one direction; subclasses are the cells.

    inputs          input size
    width           number of units
    project         output size of a projection layer (LSTMP); None: no projection
    backward        process sequences from the end
    clip_limits     limits of cell state and projection
    weight_dropout  dropout of the recurrent weights, resampled at each training step (AWD-LSTM)
    """

    num_gates: ClassVar[int] = 1
    num_state_parts: ClassVar[int] = 1  # number of tensors in a state
    has_recurrent_bias: ClassVar[bool] = False  # whether the recurrent product has its own bias

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        project: int | None = None,
        backward: bool = False,
        clip_limits: ClipLimits = NO_CLIP,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs, self.width, self.out = inputs, width, project or width
        self.backward, self.clip_limits = backward, clip_limits
        self.weight_dropout = nn.Dropout(weight_dropout)
        self.input = deferred_linear(inputs, self.num_gates * width)
        self.state = deferred_linear(self.out, self.num_gates * width, bias=self.has_recurrent_bias)
        self.project = None if project is None else deferred_linear(width, project, bias=False)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """(T, inputs) → (T, out), and the final state of each sequence; `state` defaults to zeros."""
        order = time_order(lengths, self.backward, x.device)
        initial_state = self.zero_state(len(lengths), x) if state is None else state
        sorted_state = tuple(tensor[order.sorted_indices] for tensor in initial_state)
        if type(self.state) is DeferredLinear:
            weight = self.weight_dropout(self.state.weight)
            out, state_parts = self.run_time_ordered(x[order.token_order], order, weight, sorted_state)
        else:  # other layer classes (quantized) are called as they are
            out, state_parts = self.step_time_ordered(x[order.token_order], order, sorted_state)
        final_state = tuple(tensor[order.last_positions] for tensor in (out, *state_parts))
        return out[order.inverse_order], final_state

    @abstractmethod
    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One token of each sequence: (B, inputs) and the previous state → (B, out) and the new state."""

    @abstractmethod
    def run_time_ordered(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Time-ordered sequences, recurrent weights, initial state → (T, out) and other state tensors per token."""

    def step_time_ordered(
        self, x: Tensor, order: TimeOrder, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`run_time_ordered` by `step`, for all unfinished sequences at once."""
        states, start = [], 0
        for size in order.batch_sizes:
            state = self.step(x[start : start + size], tuple(tensors[:size] for tensors in state))[1]
            states.append(state)
            start += size
        out, *state_parts = (torch.cat(tensors) for tensors in zip(*states, strict=True))
        return out, tuple(state_parts)

    def zero_state(self, num_rows: int, like: Tensor) -> RecurrentState:
        """The initial state."""
        widths = (self.out, self.width)
        return tuple(like.new_zeros(num_rows, widths[index]) for index in range(self.num_state_parts))

    def forward_reference(
        self, x: Tensor, lengths: tuple[int, ...], state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Reference implementation of `forward`, token by token."""
        outputs = x.new_empty(len(x), self.out)
        offset, ends = 0, []
        for row, length in enumerate(lengths):
            row_state = self.zero_state(1, x) if state is None else tuple(tensor[row : row + 1] for tensor in state)
            for position in reversed(range(length)) if self.backward else range(length):
                outputs[offset + position], row_state = self.step(x[None, offset + position], row_state)
            ends.append(row_state)
            offset += length
        return outputs, tuple(torch.cat(tensors) for tensors in zip(*ends, strict=True))


class ElmanLayer(RecurrentLayer):
    """h' = tanh(U x + W h + b) (Elman 1990)."""

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        h = torch.tanh(self.input(x) + self.state(state[0]))
        return h, (h,)

    def run_time_ordered(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        bias = self.input.bias
        weights = (self.input.weight, weight, bias, torch.zeros_like(bias))
        return _run_torch_rnn(torch.rnn_tanh, x, order, state, weights), ()


class GRULayer(RecurrentLayer):
    """A GRU (Cho et al. 2014): a reset gate r and an update gate z.

    r = σ(U_r x + W_r h + b_r)   z = σ(U_z x + W_z h + b_z)   n = tanh(U_n x + b_n + r (W_n h + d_n))
    h' = (1 - z) n + z h
    """

    num_gates, has_recurrent_bias = 3, True

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        (h,) = state
        (r, z, n), (state_r, state_z, state_n) = self.input(x).chunk(3, 1), self.state(h).chunk(3, 1)
        r, z = torch.sigmoid(r + state_r), torch.sigmoid(z + state_z)
        h = (1 - z) * torch.tanh(n + r * state_n) + z * h
        return h, (h,)

    def run_time_ordered(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        weights = (self.input.weight, weight, self.input.bias, self.state.bias)
        return _run_torch_rnn(torch.gru, x, order, state, weights), ()


class LSTMLayer(RecurrentLayer):
    """An LSTM (Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000).

    i = σ(U_i x + W_i h + b_i)   f = σ(U_f x + W_f h + b_f)   o = σ(U_o x + W_o h + b_o)   g = tanh(U_g x + W_g h + b_g)
    c' = f c + i g               h' = o tanh(c'), or P (o tanh(c')) with a projection (Sak et al. 2014)

    The cell state is only scaled by f and added to, so its content and gradient can last. Forget gate biases are spread
    so that cells remember over time spans from few tokens to many (Tallec and Ollivier 2018).
    """

    num_gates, num_state_parts = 4, 2

    def __init__(self, inputs: int, width: int, **options: Any) -> None:
        super().__init__(inputs, width, **options)
        bias = torch.zeros(4, width)
        bias[1] = torch.linspace(*MEMORY_SPANS, width).log()
        set_initial_values(self.input, bias=bias.flatten())

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        h, c = state
        i, f, g, o = (self.input(x) + self.state(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c.clamp(-self.clip_limits.cell, self.clip_limits.cell) if self.clip_limits.cell else c
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.project is not None:
            h = self.project(h)
            h = h.clamp(-self.clip_limits.projection, self.clip_limits.projection) if self.clip_limits.projection else h
        return h, (h, c)

    def run_time_ordered(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        # The recurrent weights may be in lower precision.
        gates, *initial_state = (tensor.to(weight.dtype) for tensor in (self.input(x), *state))
        project = None if self.project is None else self.project.weight
        out, cells = LSTMScan.apply(gates, weight, project, *initial_state, order.batch_sizes, self.clip_limits)  # pyright: ignore
        return out, (cells,)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Sequences of equal length without projection or clipping use torch's fused kernel."""
        is_standard = self.project is None and not self.clip_limits.cell and type(self.state) is DeferredLinear
        if not is_standard or len(set(lengths)) > 1 or x.dtype != torch.float32:
            return super().forward(x, lengths, state)
        num_rows, bias = len(lengths), self.input.bias
        inputs = x.view(num_rows, -1, self.inputs)
        inputs = (inputs.flip(1) if self.backward else inputs).transpose(0, 1)
        initial_state = self.zero_state(num_rows, x) if state is None else state
        weights = [self.input.weight, self.weight_dropout(self.state.weight), bias, torch.zeros_like(bias)]
        initial_parts = [tensor[None] for tensor in initial_state]
        out, h, c = torch.lstm(inputs, initial_parts, weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)
        out = out.transpose(0, 1)
        return (out.flip(1) if self.backward else out).reshape(len(x), -1), (h[0], c[0])


CELLS: dict[str, type[RecurrentLayer]] = {"rnn": ElmanLayer, "lstm": LSTMLayer, "gru": GRULayer}


def _run_torch_rnn(
    rnn_function: object, x: Tensor, order: TimeOrder, state: RecurrentState, weights: Sequence[Tensor]
) -> Tensor:
    """torch's own recurrence over time-ordered sequences."""
    batch_sizes = torch.tensor(order.batch_sizes)
    return rnn_function(x, batch_sizes, state[0][None], list(weights), True, 1, 0.0, False, False)[0]  # pyright: ignore[reportCallIssue]


class LockedDropout(nn.Module):
    """Dropout with one mask per sequence (Gal and Ghahramani 2016) instead of a new mask at every step."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(rate)

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        if not self.training or not self.drop.p:
            return x
        mask = self.drop(x.new_ones(len(lengths), x.shape[1]))
        if len(set(lengths)) == 1:
            return (x.view(len(lengths), -1, x.shape[1]) * mask[:, None]).view_as(x)
        return x * mask.repeat_interleave(torch.tensor(lengths, device=x.device), 0)


class RecurrentStack(nn.ModuleList):
    """Recurrent layers of one direction with dropout between them.

    skip  residual connections from the second layer on (ELMo)
    """

    def __init__(self, layers: Sequence[RecurrentLayer], *, dropout: float = 0.0, skip: bool = False) -> None:
        super().__init__(layers)
        self.skip = skip
        self._layer_dropout = (LockedDropout(dropout),)  # in a tuple: a ModuleList holds layers only

    def train(self, mode: bool = True) -> RecurrentStack:
        self._layer_dropout[0].train(mode)
        return super().train(mode)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], states: Sequence[RecurrentState] | None = None
    ) -> tuple[list[Tensor], list[RecurrentState]]:
        """(T, inputs) → outputs and final states of all layers."""
        outputs: list[Tensor] = []
        final_states: list[RecurrentState] = []
        for index, layer in enumerate(self.recurrent_layers()):
            x = self._layer_dropout[0](x, lengths) if index else x
            y, state = layer(x, lengths, None if states is None else states[index])
            x = x + y if self.skip and index else y
            outputs.append(x)
            final_states.append(state)
        return outputs, final_states

    def step(self, x: Tensor, states: Sequence[RecurrentState]) -> tuple[Tensor, list[RecurrentState]]:
        """One token of each sequence: (B, inputs) → (B, out) of the last layer, and all states."""
        new_states: list[RecurrentState] = []
        for index, (layer, state) in enumerate(zip(self.recurrent_layers(), states, strict=True)):
            y, state = layer.step(x, state)
            x = x + y if self.skip and index else y
            new_states.append(state)
        return x, new_states

    def zero_state(self, num_rows: int, like: Tensor) -> list[RecurrentState]:
        return [layer.zero_state(num_rows, like) for layer in self.recurrent_layers()]

    def state_size(self) -> int:
        """Numbers in the states of one sequence."""
        return sum(layer.out + (layer.num_state_parts - 1) * layer.width for layer in self.recurrent_layers())

    def recurrent_layers(self) -> list[RecurrentLayer]:
        return [layer for layer in self if isinstance(layer, RecurrentLayer)]


class RecurrentLMEncoder(Encoder):
    """Word vectors and `layers`, whose last states predict the next token. Sequences may have any length."""

    max_length = None
    embedding: WordEmbedding | CharCNNEmbedding  # pyright: ignore[reportIncompatibleVariableOverride]
    layers: RecurrentStack

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.layers)

    def state_size(self, length: int) -> int:
        """Numbers stored per sequence during decoding, for any length."""
        return self.layers.state_size()

    def advance(self, tokens: Tensor, states: Sequence[RecurrentState]) -> tuple[Tensor, list[RecurrentState]]:
        """One token of each sequence: (B,) → (B, D) head inputs, and the states."""
        return self.layers.step(self.embedding(tokens), states)

    def encode(
        self, tokens: Tensor, lengths: tuple[int, ...], states: Sequence[RecurrentState] | None
    ) -> tuple[Tensor, list[RecurrentState]]:
        """(T, D) head inputs of sequences that continue from these states, and their final states."""
        layers, final_states = self.layers(self.embedding(tokens), lengths, states)
        return layers[-1], final_states


class RecurrentEncoder(RecurrentLMEncoder):
    """Recurrent layers from left to right.

    dropout       of the vectors and of the output, with one mask per sequence
    word_dropout  fraction of word types without a vector at a training step (AWD-LSTM's embedding dropout)

    In training a sequence may continue a stream of the previous step (`streams`): the state is carried over, its
    gradient is not (truncated BPTT).
    """

    sees = "past"
    bptt_state: BPTTState

    def __init__(
        self,
        embedding: WordEmbedding | CharCNNEmbedding,
        layers: RecurrentStack,
        *,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, layers  # pyright: ignore[reportIncompatibleVariableOverride]
        self.drop, self.word_drop = LockedDropout(dropout), nn.Dropout(word_dropout)
        self.bptt_state = BPTTState()  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.layers.recurrent_layers()[-1].out

    @property
    def widths(self) -> tuple[int, ...]:
        """Sizes of all layers; only layers of equal size can be mixed."""
        return (self.embedding.width, *(layer.out for layer in self.layers.recurrent_layers()))

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """Parameters of the embedding and the first `num_layers` layers."""
        yield from self.embedding.parameters()
        for layer in self.layers.recurrent_layers()[:num_layers]:
            yield from layer.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Lengths,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
        streams: Tensor | None = None,
        fresh: Tensor | None = None,
    ) -> States:
        """`streams` (B,) are the stream indices of the sequences; `fresh` (B,) is true where a stream starts anew."""
        rows = to_lengths(lengths)
        x = self.drop(self.input_vectors(tokens), rows)
        is_continued = self.training and streams is not None and fresh is not None
        zeros = self.layers.zero_state(len(rows), x)
        states = self.bptt_state.states_for(streams, fresh, zeros) if is_continued else None  # pyright: ignore[reportArgumentType]
        layers, final_states = self.layers(x, rows, states)
        if is_continued:
            self.bptt_state.stage(streams, final_states)  # pyright: ignore[reportArgumentType]
        return States([x, *layers[:-1], self.drop(layers[-1], rows)], rows)

    def input_vectors(self, tokens: Tensor) -> Tensor:
        """(T, D) token vectors."""
        x = self.embedding(tokens)
        if not self.training or not self.word_drop.p:
            return x
        return x * self.word_drop(x.new_ones(self.embedding.vocab_size, 1))[tokens]


# --- Bidirectional language model ---


class BiLMEncoder(RecurrentLMEncoder):
    """ELMo's encoder: two independent stacks over the same word vectors, one per direction.

    A layer's vector is the concatenation of both directions; the embedding is concatenated with itself.

    boundary_ids  start and end token of a text
    """

    sees = "all"

    def __init__(
        self,
        embedding: WordEmbedding | CharCNNEmbedding,
        forward_stack: RecurrentStack,
        backward_stack: RecurrentStack,
        *,
        boundary_ids: tuple[int, int],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding  # pyright: ignore[reportIncompatibleVariableOverride]
        self.onward = forward_stack
        self.back = backward_stack
        self.boundary_ids = boundary_ids
        self.drop = LockedDropout(dropout)

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 2 * self.onward.recurrent_layers()[-1].out

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """Parameters of the embedding and the first `num_layers` layers of both directions."""
        yield from self.embedding.parameters()
        for stack in (self.onward, self.back):
            for layer in stack.recurrent_layers()[:num_layers]:
                yield from layer.parameters()

    def forward(
        self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None, positions: Tensor | None = None
    ) -> States:
        rows = to_lengths(lengths)
        return States(self.run_layers(tokens, rows)[0], rows)

    def run_layers(
        self,
        tokens: Tensor,
        lengths: tuple[int, ...],
        states: tuple[list[RecurrentState], list[RecurrentState]] | None = None,
    ) -> tuple[list[Tensor], tuple[list[RecurrentState], list[RecurrentState]]]:
        """All layers and the final states of both directions; `states` are initial (carried over by ELMo's program)."""
        x = self.drop(self.embedding(tokens), lengths)
        forward, forward_states = self.onward(x, lengths, None if states is None else states[0])
        backward, backward_states = self.back(x, lengths, None if states is None else states[1])
        pairs = zip((x, *forward[:-1]), (x, *backward[:-1]), strict=True)
        layers = [torch.cat(pair, 1) for pair in pairs]
        layers.append(torch.cat((self.drop(forward[-1], lengths), self.drop(backward[-1], lengths)), 1))
        return layers, (forward_states, backward_states)

    @property
    def layers(self) -> RecurrentStack:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The forward stack, whose states are the input of the head `next`."""
        return self.onward
