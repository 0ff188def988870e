"""An encoder that reads from left to right: what it knows of all tokens so far goes from one to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from forebear.nn.char_cnn import CharCNNEmbedding
from forebear.nn.encoder import BPTTState, Encoder, States
from forebear.nn.layers import DeferredLinear, deferred_linear, set_initial_values
from forebear.nn.lstm_scan import NO_CLIP, ClipLimits, LSTMScan, TimeOrder, time_order
from forebear.nn.nnlm import WordEmbedding

# Recurrent layers: what a network knows of the tokens before one, and how the next token changes it.
#
# The equations stand in `step`, one class for each cell; `forward` is the same for whole rows, and fast.


CellName = Literal["rnn", "lstm", "gru"]
LASTING = (2.0, 32.0)  # tokens, about, after which a third is left of what a cell holds, when nothing is learned yet
RecurrentState = tuple[Tensor, ...]  # of each row (B, ·): h, and of an LSTM c


class RecurrentLayer(nn.Module, ABC):
    """One layer in one direction; which cell it is, its kind tells.

    inputs          numbers that come in for each token
    width           units
    project         numbers that come out and go round, where that are fewer than units; None: all
    backward        rows are read from their ends
    clips           how far a cell's state and its projection may go
    weight_dropout  share of the weights from state to state that are left out, anew at each step of training (AWD)
    """

    gates: ClassVar[int] = 1
    parts: ClassVar[int] = 1  # of a state
    bias: ClassVar[bool] = False  # whether what comes from the state has one of its own

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        project: int | None = None,
        backward: bool = False,
        clips: ClipLimits = NO_CLIP,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs, self.width, self.out = inputs, width, project or width
        self.backward, self.clips = backward, clips
        self.weight_dropout = nn.Dropout(weight_dropout)
        self.input = deferred_linear(inputs, self.gates * width)
        self.state = deferred_linear(self.out, self.gates * width, bias=self.bias)
        self.project = None if project is None else deferred_linear(width, project, bias=False)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """(T, inputs) → (T, out), and the state in which each row is left; None: rows begin with zeros."""
        order = time_order(lengths, self.backward, x.device)
        initial_state = self.zero_state(len(lengths), x) if state is None else state
        sorted_state = tuple(tensor[order.rows] for tensor in initial_state)
        if type(self.state) is DeferredLinear:
            weight = self.weight_dropout(self.state.weight)
            out, state_parts = self.scanned(x[order.positions], order, weight, sorted_state)
        else:  # layers of another class, such as small integers, are called as they are
            out, state_parts = self.stepped(x[order.positions], order, sorted_state)
        ends = tuple(tensor[order.ends] for tensor in (out, *state_parts))
        return out[order.back], ends

    @abstractmethod
    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One more token of each row: (B, inputs) and what is known of those before → (B, out), and what is now."""

    @abstractmethod
    def scanned(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows laid out by time, their weights from state to state and their first state → (T, out), and what else of
        the state each token leaves behind."""

    def stepped(self, x: Tensor, order: TimeOrder, state: RecurrentState) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`scanned` by `step`, all rows that are still being read at once."""
        states, start = [], 0
        for size in order.sizes:
            state = self.step(x[start : start + size], tuple(tensors[:size] for tensors in state))[1]
            states.append(state)
            start += size
        out, *state_parts = (torch.cat(tensors) for tensors in zip(*states, strict=True))
        return out, tuple(state_parts)

    def zero_state(self, rows: int, like: Tensor) -> RecurrentState:
        """The state of rows of which nothing was read."""
        widths = (self.out, self.width)
        return tuple(like.new_zeros(rows, widths[number]) for number in range(self.parts))

    def scan(
        self, x: Tensor, lengths: tuple[int, ...], state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """`forward`, token by token: its readable twin."""
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

    def scanned(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        bias = self.input.bias
        return _run_torch_rnn(
            torch.rnn_tanh, x, order, state, (self.input.weight, weight, bias, torch.zeros_like(bias))
        ), ()


class GRULayer(RecurrentLayer):
    """Two gates and no cell (Cho et al. 2014): how much is forgotten before the new is made, and how much is kept.

    r = σ(U_r x + W_r h + b_r)   z = σ(U_z x + W_z h + b_z)   n = tanh(U_n x + b_n + r (W_n h + d_n))
    h' = (1 - z) n + z h
    """

    gates, bias = 3, True

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        (h,) = state
        (r, z, n), (state_r, state_z, state_n) = self.input(x).chunk(3, 1), self.state(h).chunk(3, 1)
        r, z = torch.sigmoid(r + state_r), torch.sigmoid(z + state_z)
        h = (1 - z) * torch.tanh(n + r * state_n) + z * h
        return h, (h,)

    def scanned(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        weights = (self.input.weight, weight, self.input.bias, self.state.bias)
        return _run_torch_rnn(torch.gru, x, order, state, weights), ()


class LSTMLayer(RecurrentLayer):
    """Three gates around a cell (Hochreiter and Schmidhuber 1997; the forget gate by Gers et al. 2000).

    i = σ(U_i x + W_i h + b_i)   f = σ(U_f x + W_f h + b_f)   o = σ(U_o x + W_o h + b_o)   g = tanh(U_g x + W_g h + b_g)
    c' = f c + i g               h' = o tanh(c'), or P (o tanh(c')) where it is projected (Sak et al. 2014)

    The cell is only added to and scaled by f, so that what it holds, and its gradient, can last. Forget gates begin
    more or less open, so that cells hold on for times between few tokens and many (Tallec and Ollivier 2018).
    """

    gates, parts = 4, 2

    def __init__(self, inputs: int, width: int, **options: Any) -> None:
        super().__init__(inputs, width, **options)
        bias = torch.zeros(4, width)
        bias[1] = torch.linspace(*LASTING, width).log()
        set_initial_values(self.input, bias=bias.flatten())

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        h, c = state
        i, f, g, o = (self.input(x) + self.state(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c.clamp(-self.clips.cell, self.clips.cell) if self.clips.cell else c
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.project is not None:
            h = self.project(h)
            h = h.clamp(-self.clips.projection, self.clips.projection) if self.clips.projection else h
        return h, (h, c)

    def scanned(
        self, x: Tensor, order: TimeOrder, weight: Tensor, state: RecurrentState
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        gates, *initial_state = (
            tensor.to(weight.dtype) for tensor in (self.input(x), *state)
        )  # only that product has fewer bits
        project = None if self.project is None else self.project.weight
        out, cells = LSTMScan.apply(gates, weight, project, *initial_state, order.sizes, self.clips)  # pyright: ignore
        return out, (cells,)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Rows of one length and a plain cell are left to torch, whose processor library does all in one."""
        is_standard = self.project is None and not self.clips.cell
        if (
            not is_standard
            or len(set(lengths)) > 1
            or x.dtype != torch.float32
            or type(self.state) is not DeferredLinear
        ):
            return super().forward(x, lengths, state)
        rows, bias = len(lengths), self.input.bias
        inputs = x.view(rows, -1, self.inputs)
        inputs = (inputs.flip(1) if self.backward else inputs).transpose(0, 1)
        initial_state = self.zero_state(rows, x) if state is None else state
        weights = [self.input.weight, self.weight_dropout(self.state.weight), bias, torch.zeros_like(bias)]
        initial_parts = [tensor[None] for tensor in initial_state]
        out, h, c = torch.lstm(inputs, initial_parts, weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)
        out = out.transpose(0, 1)
        return (out.flip(1) if self.backward else out).reshape(len(x), -1), (h[0], c[0])


CELLS: dict[str, type[RecurrentLayer]] = {"rnn": ElmanLayer, "lstm": LSTMLayer, "gru": GRULayer}


def _run_torch_rnn(
    rnn_function: object, x: Tensor, order: TimeOrder, state: RecurrentState, weights: Sequence[Tensor]
) -> Tensor:
    """torch's own recurrence over rows laid out by time."""
    sizes = torch.tensor(order.sizes)
    return rnn_function(x, sizes, state[0][None], list(weights), True, 1, 0.0, False, False)[0]  # pyright: ignore[reportCallIssue]


class LockedDropout(nn.Module):
    """Of all tokens of a row the same numbers are left out (Gal and Ghahramani 2016): else what a recurrence holds
    would be disturbed at every step."""

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
    """Layers one above the other, in one direction, with dropout between them.

    skip  from the second layer on, what comes in is added to what goes out (ELMo)
    """

    def __init__(self, layers: Sequence[RecurrentLayer], *, dropout: float = 0.0, skip: bool = False) -> None:
        super().__init__(layers)
        self.skip, self._layer_dropout = (
            skip,
            (LockedDropout(dropout),),
        )  # in a tuple: a list of layers holds layers alone

    def train(self, mode: bool = True) -> RecurrentStack:
        self._layer_dropout[0].train(mode)
        return super().train(mode)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], states: Sequence[RecurrentState] | None = None
    ) -> tuple[list[Tensor], list[RecurrentState]]:
        """(T, inputs) → what each layer gives, and the state each is left in."""
        outputs: list[Tensor] = []
        final_states: list[RecurrentState] = []
        for number, layer in enumerate(self.each()):
            x = self._layer_dropout[0](x, lengths) if number else x
            y, state = layer(x, lengths, None if states is None else states[number])
            x = x + y if self.skip and number else y
            outputs.append(x)
            final_states.append(state)
        return outputs, final_states

    def step(self, x: Tensor, states: Sequence[RecurrentState]) -> tuple[Tensor, list[RecurrentState]]:
        """One more token of each row: (B, inputs) → (B, out) of the last layer, and all states."""
        new_states: list[RecurrentState] = []
        for number, (layer, state) in enumerate(zip(self.each(), states, strict=True)):
            y, state = layer.step(x, state)
            x = x + y if self.skip and number else y
            new_states.append(state)
        return x, new_states

    def zero_state(self, rows: int, like: Tensor) -> list[RecurrentState]:
        return [layer.zero_state(rows, like) for layer in self.each()]

    def state_size(self) -> int:
        """Numbers of the states of one row."""
        return sum(layer.out + (layer.parts - 1) * layer.width for layer in self.each())

    def each(self) -> list[RecurrentLayer]:
        return [layer for layer in self if isinstance(layer, RecurrentLayer)]


class RecurrentEncoder(Encoder):
    """Vectors of words, and recurrent layers above them. Rows of any length can be read.

    dropout       of the vectors and of what heads read, the same numbers at all tokens of a row
    word_dropout  share of the words of a step that have no vector, wherever they stand (AWD)

    In training, a row may go on where that of the step before has ended (`streams`): the state is carried over, the
    gradient is not.
    """

    sees, max_length = "past", None
    embedding: WordEmbedding | CharCNNEmbedding
    carried: BPTTState

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
        self.carried = BPTTState()  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.layers.each()[-1].out

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of its layers, which can be mixed only where they are equal."""
        return (self.embedding.width, *(layer.out for layer in self.layers.each()))

    def lower_parameters(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of so many layers."""
        yield from self.embedding.parameters()
        for layer in self.layers.each()[:layers]:
            yield from layer.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        positions: Tensor | None = None,
        streams: Tensor | None = None,
        fresh: Tensor | None = None,
    ) -> States:
        """`streams` (B,) numbers what each row goes on with, `fresh` tells where it begins anew."""
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        x = self.drop(self.input_vectors(tokens), rows)
        is_continued = self.training and streams is not None and fresh is not None
        states = self.carried.states_for(streams, fresh, self.layers.zero_state(len(rows), x)) if is_continued else None  # pyright: ignore[reportArgumentType]
        layers, final_states = self.layers(x, rows, states)
        if is_continued:
            self.carried.stage(streams, final_states)  # pyright: ignore[reportArgumentType]
        return States([x, *layers[:-1], self.drop(layers[-1], rows)], rows)

    def input_vectors(self, tokens: Tensor) -> Tensor:
        """(T, D) of the tokens."""
        x = self.embedding(tokens)
        if not self.training or not self.word_drop.p:
            return x
        return x * self.word_drop(x.new_ones(self.embedding.vocabulary, 1))[tokens]

    def state_size(self, length: int) -> int:
        """Numbers that are kept of a row while it is continued, however long it is."""
        return self.layers.state_size()

    def advance(self, tokens: Tensor, states: Sequence[RecurrentState]) -> tuple[Tensor, list[RecurrentState]]:
        """One more token of each row: (B,) → (B, D) what heads read, and the states."""
        return self.layers.step(self.embedding(tokens), states)

    def encode(
        self, tokens: Tensor, lengths: tuple[int, ...], states: Sequence[RecurrentState] | None
    ) -> tuple[Tensor, list[RecurrentState]]:
        """(T, D) what heads read of rows that go on from these states, and the states they are left in."""
        layers, final_states = self.layers(self.embedding(tokens), lengths, states)
        return layers[-1], final_states


# Two language models over the same words: one reads on, one reads back, and neither knows what the other has read.


class BiLMEncoder(Encoder):
    """ELMo's encoder. A layer's vector is what the model that reads on has there, and beside it what the other has;
    that of the embedding stands there twice. Rows of any length can be read.

    borders  the tokens that begin and end a text
    """

    sees, max_length = "all", None
    embedding: WordEmbedding | CharCNNEmbedding

    def __init__(
        self,
        embedding: WordEmbedding | CharCNNEmbedding,
        onward: RecurrentStack,
        back: RecurrentStack,
        *,
        borders: tuple[int, int],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding, self.onward, self.back, self.borders = embedding, onward, back, borders  # pyright: ignore[reportIncompatibleVariableOverride]
        self.drop = LockedDropout(dropout)

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 2 * self.onward.each()[-1].out

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.onward)

    def lower_parameters(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of so many layers, both ways."""
        yield from self.embedding.parameters()
        for stack in (self.onward, self.back):
            for layer in stack.each()[:layers]:
                yield from layer.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> States:
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        return States(self.run_layers(tokens, rows)[0], rows)

    def run_layers(
        self,
        tokens: Tensor,
        lengths: tuple[int, ...],
        states: tuple[list[RecurrentState], list[RecurrentState]] | None = None,
    ) -> tuple[list[Tensor], tuple[list[RecurrentState], list[RecurrentState]]]:
        """All layers, and the states in which both ways are left; they may go on from those of other rows, as the
        published program does."""
        x = self.drop(self.embedding(tokens), lengths)
        forward, forward_states = self.onward(x, lengths, None if states is None else states[0])
        backward, backward_states = self.back(x, lengths, None if states is None else states[1])
        pairs = zip((x, *forward[:-1]), (x, *backward[:-1]), strict=True)
        layers = [torch.cat(pair, 1) for pair in pairs]
        layers.append(torch.cat((self.drop(forward[-1], lengths), self.drop(backward[-1], lengths)), 1))
        return layers, (forward_states, backward_states)

    def state_size(self, length: int) -> int:
        """Numbers that are kept of a row while it is continued, however long it is."""
        return self.layers.state_size()

    def advance(self, tokens: Tensor, states: Sequence[RecurrentState]) -> tuple[Tensor, list[RecurrentState]]:
        """One more token of each row, reading on: (B,) → (B, D) what the head `next` reads, and the states."""
        return self.onward.step(self.embedding(tokens), states)

    def encode(
        self, tokens: Tensor, lengths: tuple[int, ...], states: Sequence[RecurrentState] | None
    ) -> tuple[Tensor, list[RecurrentState]]:
        """(T, D) what the head `next` reads of rows that go on from these states, and those they are left in."""
        layers, final_states = self.onward(self.embedding(tokens), lengths, states)
        return layers[-1], final_states

    @property
    def layers(self) -> RecurrentStack:
        """Those that read on."""
        return self.onward
