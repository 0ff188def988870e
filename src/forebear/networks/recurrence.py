"""Recurrent layers: what a network knows of the tokens before one, and how the next token changes it.

The equations stand in `step`, one class for each cell; `forward` is the same for whole rows, and fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from forebear.networks.initial import Linear, begins_with, linear
from forebear.networks.scan import FREE, Clips, LstmScan, Order, order_of

CellName = Literal["rnn", "lstm", "gru"]
LASTING = (2.0, 32.0)  # tokens, about, after which a third is left of what a cell holds, when nothing is learned yet
State = tuple[Tensor, ...]  # of each row (B, ·): h, and of an LSTM c


class Recurrence(nn.Module, ABC):
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
        clips: Clips = FREE,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs, self.width, self.out = inputs, width, project or width
        self.backward, self.clips = backward, clips
        self.weight_dropout = nn.Dropout(weight_dropout)
        self.input = linear(inputs, self.gates * width)
        self.state = linear(self.out, self.gates * width, bias=self.bias)
        self.project = None if project is None else linear(width, project, bias=False)

    def forward(self, x: Tensor, lengths: tuple[int, ...], state: State | None = None) -> tuple[Tensor, State]:
        """(T, inputs) → (T, out), and the state in which each row is left; None: rows begin with zeros."""
        order = order_of(lengths, self.backward, x.device)
        given = self.zeros(len(lengths), x) if state is None else state
        sorted_state = tuple(part[order.rows] for part in given)
        if type(self.state) is Linear:
            weight = self.weight_dropout(self.state.weight)
            out, parts = self.scanned(x[order.places], order, weight, sorted_state)
        else:  # layers of another class, such as small integers, are called as they are
            out, parts = self.stepped(x[order.places], order, sorted_state)
        ends = tuple(part[order.ends] for part in (out, *parts))
        return out[order.back], ends

    @abstractmethod
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One more token of each row: (B, inputs) and what is known of those before → (B, out), and what is now."""

    @abstractmethod
    def scanned(self, x: Tensor, order: Order, weight: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows laid out by time, their weights from state to state and their first state → (T, out), and what else of
        the state each token leaves behind."""

    def stepped(self, x: Tensor, order: Order, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`scanned` by `step`, all rows that are still being read at once."""
        found, at = [], 0
        for size in order.sizes:
            state = self.step(x[at : at + size], tuple(part[:size] for part in state))[1]
            found.append(state)
            at += size
        out, *parts = (torch.cat(part) for part in zip(*found, strict=True))
        return out, tuple(parts)

    def zeros(self, rows: int, like: Tensor) -> State:
        """The state of rows of which nothing was read."""
        widths = (self.out, self.width)
        return tuple(like.new_zeros(rows, widths[number]) for number in range(self.parts))

    def read(self, x: Tensor, lengths: tuple[int, ...], state: State | None = None) -> tuple[Tensor, State]:
        """`forward`, token by token: its readable twin."""
        found = x.new_empty(len(x), self.out)
        first, ends = 0, []
        for row, length in enumerate(lengths):
            here = self.zeros(1, x) if state is None else tuple(part[row : row + 1] for part in state)
            for place in reversed(range(length)) if self.backward else range(length):
                found[first + place], here = self.step(x[None, first + place], here)
            ends.append(here)
            first += length
        return found, tuple(torch.cat(parts) for parts in zip(*ends, strict=True))


class Tanh(Recurrence):
    """h' = tanh(U x + W h + b) (Elman 1990)."""

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h = torch.tanh(self.input(x) + self.state(state[0]))
        return h, (h,)

    def scanned(self, x: Tensor, order: Order, weight: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        bias = self.input.bias
        return _by_torch(torch.rnn_tanh, x, order, state, (self.input.weight, weight, bias, torch.zeros_like(bias))), ()


class Gru(Recurrence):
    """Two gates and no cell (Cho et al. 2014): how much is forgotten before the new is made, and how much is kept.

    r = σ(U_r x + W_r h + b_r)   z = σ(U_z x + W_z h + b_z)   n = tanh(U_n x + b_n + r (W_n h + d_n))
    h' = (1 - z) n + z h
    """

    gates, bias = 3, True

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        (h,) = state
        (r, z, n), (by_r, by_z, by_n) = self.input(x).chunk(3, 1), self.state(h).chunk(3, 1)
        r, z = torch.sigmoid(r + by_r), torch.sigmoid(z + by_z)
        h = (1 - z) * torch.tanh(n + r * by_n) + z * h
        return h, (h,)

    def scanned(self, x: Tensor, order: Order, weight: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        weights = (self.input.weight, weight, self.input.bias, self.state.bias)
        return _by_torch(torch.gru, x, order, state, weights), ()


class Lstm(Recurrence):
    """Three gates around a cell (Hochreiter and Schmidhuber 1997; the forget gate by Gers et al. 2000).

    i = σ(U_i x + W_i h + b_i)   f = σ(U_f x + W_f h + b_f)   o = σ(U_o x + W_o h + b_o)   g = tanh(U_g x + W_g h + b_g)
    c' = f c + i g               h' = o tanh(c'), or P (o tanh(c')) where it is projected (Sak et al. 2014)

    The cell is only added to and scaled by f, so that what it holds, and its gradient, can last. Forget gates begin
    more or less open, so that cells hold on for times between few tokens and many (Tallec and Ollivier 2018).
    """

    gates, parts = 4, 2

    def __init__(self, inputs: int, width: int, **how: Any) -> None:
        super().__init__(inputs, width, **how)
        first = torch.zeros(4, width)
        first[1] = torch.linspace(*LASTING, width).log()
        begins_with(self.input, bias=first.flatten())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        h, c = state
        i, f, g, o = (self.input(x) + self.state(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c.clamp(-self.clips.cell, self.clips.cell) if self.clips.cell else c
        h = torch.sigmoid(o) * torch.tanh(c)
        if self.project is not None:
            h = self.project(h)
            h = h.clamp(-self.clips.project, self.clips.project) if self.clips.project else h
        return h, (h, c)

    def scanned(self, x: Tensor, order: Order, weight: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        gates, *begin = (one.to(weight.dtype) for one in (self.input(x), *state))  # only that product has fewer bits
        project = None if self.project is None else self.project.weight
        out, cells = LstmScan.apply(gates, weight, project, *begin, order.sizes, self.clips)  # pyright: ignore
        return out, (cells,)

    def forward(self, x: Tensor, lengths: tuple[int, ...], state: State | None = None) -> tuple[Tensor, State]:
        """Rows of one length and a plain cell are left to torch, whose processor library does all in one."""
        plain = self.project is None and not self.clips.cell
        if not plain or len(set(lengths)) > 1 or x.dtype != torch.float32 or type(self.state) is not Linear:
            return super().forward(x, lengths, state)
        rows, bias = len(lengths), self.input.bias
        laid = x.view(rows, -1, self.inputs)
        laid = (laid.flip(1) if self.backward else laid).transpose(0, 1)
        given = self.zeros(rows, x) if state is None else state
        weights = [self.input.weight, self.weight_dropout(self.state.weight), bias, torch.zeros_like(bias)]
        begin = [part[None] for part in given]
        out, h, c = torch.lstm(laid, begin, weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)
        out = out.transpose(0, 1)
        return (out.flip(1) if self.backward else out).reshape(len(x), -1), (h[0], c[0])


CELLS: dict[str, type[Recurrence]] = {"rnn": Tanh, "lstm": Lstm, "gru": Gru}


def _by_torch(way: object, x: Tensor, order: Order, state: State, weights: Sequence[Tensor]) -> Tensor:
    """torch's own recurrence over rows laid out by time."""
    sizes = torch.tensor(order.sizes)
    return way(x, sizes, state[0][None], list(weights), True, 1, 0.0, False, False)[0]  # pyright: ignore[reportCallIssue]


class LockedDropout(nn.Module):
    """Of all tokens of a row the same numbers are left out (Gal and Ghahramani 2016): else what a recurrence holds
    would be disturbed at every step."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(share)

    def forward(self, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        if not self.training or not self.drop.p:
            return x
        kept = self.drop(x.new_ones(len(lengths), x.shape[1]))
        if len(set(lengths)) == 1:
            return (x.view(len(lengths), -1, x.shape[1]) * kept[:, None]).view_as(x)
        return x * kept.repeat_interleave(torch.tensor(lengths, device=x.device), 0)


class Stack(nn.ModuleList):
    """Layers one above the other, in one direction, with dropout between them.

    skip  from the second layer on, what comes in is added to what goes out (ELMo)
    """

    def __init__(self, layers: Sequence[Recurrence], *, dropout: float = 0.0, skip: bool = False) -> None:
        super().__init__(layers)
        self.skip, self._drop = skip, (LockedDropout(dropout),)  # in a tuple: a list of layers holds layers alone

    def train(self, mode: bool = True) -> Stack:
        self._drop[0].train(mode)
        return super().train(mode)

    def forward(
        self, x: Tensor, lengths: tuple[int, ...], states: Sequence[State] | None = None
    ) -> tuple[list[Tensor], list[State]]:
        """(T, inputs) → what each layer gives, and the state each is left in."""
        found: list[Tensor] = []
        left: list[State] = []
        for number, layer in enumerate(self.each()):
            x = self._drop[0](x, lengths) if number else x
            y, state = layer(x, lengths, None if states is None else states[number])
            x = x + y if self.skip and number else y
            found.append(x)
            left.append(state)
        return found, left

    def step(self, x: Tensor, states: Sequence[State]) -> tuple[Tensor, list[State]]:
        """One more token of each row: (B, inputs) → (B, out) of the last layer, and all states."""
        left: list[State] = []
        for number, (layer, state) in enumerate(zip(self.each(), states, strict=True)):
            y, state = layer.step(x, state)
            x = x + y if self.skip and number else y
            left.append(state)
        return x, left

    def zeros(self, rows: int, like: Tensor) -> list[State]:
        return [layer.zeros(rows, like) for layer in self.each()]

    def remembered(self) -> int:
        """Numbers of the states of one row."""
        return sum(layer.out + (layer.parts - 1) * layer.width for layer in self.each())

    def each(self) -> list[Recurrence]:
        return [layer for layer in self if isinstance(layer, Recurrence)]
