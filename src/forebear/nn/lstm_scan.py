"""Ragged rows through a recurrence: which tokens are read at the same time, and the LSTM's way through them, by hand.

The rows are laid out by time: first the first token of every row, the longest row first, then the second token of all
rows that have one. So each step is one product for all rows that are still being read, nothing is padded, and reading
backwards is the same with each row turned round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from forebear.nn.weight_packing import LinearFn, pack_for_matrix

PACKED = 2**18  # weights from which on a product of few rows gains more by packing them than packing costs


@dataclass(frozen=True)
class TimeOrder:
    """How tokens of rows are laid out by time.

    places  (T,) the number of the token that stands at each place
    back    (T,) the place of each token
    sizes   how many rows are read at each time, falling
    rows    (B,) the numbers of the rows, the longest first
    ends    (B,) the place of the token that is read last, of each row as it was given
    """

    positions: Tensor
    back: Tensor
    sizes: tuple[int, ...]
    rows: Tensor
    ends: Tensor

    @property
    def is_rectangular(self) -> bool:
        """Whether all rows are equally long: then the layout is a (n, B) table."""
        return self.sizes[0] == self.sizes[-1]


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what is remembered must serve learning too
def time_order(lengths: tuple[int, ...], backward: bool, device: torch.device) -> TimeOrder:
    sizes = torch.tensor(lengths)
    rows = sizes.argsort(descending=True, stable=True)
    firsts, sorted_sizes = (sizes.cumsum(0) - sizes)[rows], sizes[rows]
    times = torch.arange(int(sorted_sizes[0]))
    read = times[:, None] < sorted_sizes  # (n, B)
    at = sorted_sizes - 1 - times[:, None] if backward else times[:, None]
    places = (firsts + at)[read]
    back = torch.empty_like(places)
    back[places] = torch.arange(len(places))
    alive = read.sum(1)
    begins = alive.cumsum(0) - alive
    ends = torch.empty_like(rows)
    ends[rows] = begins[sorted_sizes - 1] + torch.arange(len(rows))
    made = (one.to(device) for one in (places, back, rows, ends))
    places, back, rows, ends = made
    return TimeOrder(places, back, tuple(alive.tolist()), rows, ends)


@dataclass(frozen=True)
class ClipLimits:
    """How far a cell's state and its projection may go, either way; 0: any distance."""

    cell: float = 0.0
    projection: float = 0.0


NO_CLIP = ClipLimits()


class LSTMScan(torch.autograd.Function):
    """An LSTM over rows laid out by time, given what its input adds to each gate; forwards and backwards by hand.

    torch would remember every step of a loop and add up the gradient of the weights after each; here what every step
    needs is kept in a few arrays for all steps, and the gradient of the weights is one product. `Lstm.step` is the
    readable twin. Gates are i f g o; where there is a projection P, h = P m, else h = m:

        c' = f c + i g      m = o tanh(c')
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        gates: Tensor,
        weight: Tensor,
        project: Tensor | None,
        h: Tensor,
        c: Tensor,
        sizes: tuple[int, ...],
        clips: ClipLimits,
    ) -> tuple[Tensor, Tensor]:
        """(T, 4H) of the input, (4H, D) and (D, H) weights, (B, D) and (B, H) to begin with → (T, D) and (T, H)."""
        width = gates.shape[1] // 4
        onward, narrow = _times(weight), None if project is None else _times(project)
        kept = torch.empty_like(gates)
        cells, bent = (gates.new_empty(len(gates), width) for _ in range(2))
        hidden = gates.new_empty(len(gates), h.shape[1])
        before_h, before_c = h, c
        parts = (gates, kept, kept[:, : 2 * width], *kept.split(width, 1), cells, bent, hidden)
        for given, four, two, i, f, g, o, cell, bend, out in _by_time(sizes, *parts):
            torch.add(given, onward(before_h[: len(given)]), out=four)
            two.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, before_c[: len(given)], out=cell).addcmul_(i, g)
            if clips.cell:
                cell.clamp_(-clips.cell, clips.cell)
            torch.tanh(cell, out=bend)
            if narrow is None:
                torch.mul(o, bend, out=out)
            else:
                out.copy_(narrow(o * bend))
                if clips.projection:
                    out.clamp_(-clips.projection, clips.projection)
            before_h, before_c = out, cell
        ctx.sizes, ctx.clips = sizes, clips
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight, project, h, c, kept, cells, bent, hidden)
        return hidden, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, project, h, c, kept, cells, bent, hidden = ctx.saved_tensors
        sizes, clips = ctx.sizes, ctx.clips
        width = cells.shape[1]
        onward, narrow = _times(weight.t()), None if project is None else _times(project.t())
        free_c, free_h = _within(cells, clips.cell), None if project is None else _within(hidden, clips.projection)
        found = torch.empty_like(kept)
        outer = torch.empty_like(hidden) if project is not None else None
        back_h, back_c = torch.zeros_like(h[: sizes[-1]]), torch.zeros_like(c[: sizes[-1]])
        by_sigmoid, by_tanh = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
        gates, its = kept.split(width, 1), found.split(width, 1)
        steps = _by_time(sizes, *gates, bent, *gradients, free_h, free_c, outer, found, *its)
        earlier = (c, *cells.split(sizes)[:-1])
        for (i, f, g, o, bend, of_h, of_c, in_h, in_c, out, four, di, df, dg, do), before_c in zip(
            reversed(steps), reversed(earlier), strict=True
        ):
            size = len(four)
            dh, dc = _wider(back_h, size), _wider(back_c, size)
            dh = dh if of_h is None else dh + of_h
            dc = dc if of_c is None else dc + of_c
            if narrow is not None:
                dh = narrow(out.copy_(dh) if in_h is None else torch.mul(dh, in_h, out=out))
            dc = by_tanh(dh * o, bend).add_(dc)
            dc = dc if in_c is None else dc.mul_(in_c)
            by_sigmoid.grad_input(dc * g, i, grad_input=di)
            by_sigmoid.grad_input(dc * before_c[:size], f, grad_input=df)
            by_tanh.grad_input(dc * i, g, grad_input=dg)
            by_sigmoid.grad_input(dh * bend, o, grad_input=do)
            back_h, back_c = onward(four), dc * f
        of_weight = found.t() @ _before(h, hidden, sizes)
        of_project = None if outer is None else outer.t() @ (kept[:, 3 * width :] * bent)
        return found, of_weight, of_project, _wider(back_h, len(h)), _wider(back_c, len(c)), None, None


def _by_time(sizes: tuple[int, ...], *arrays: Any) -> list[tuple[Any, ...]]:
    """For each step its rows of each array, and None of those that are None."""
    parts = ([None] * len(sizes) if one is None else one.split(sizes) for one in arrays)
    return list(zip(*parts, strict=True))


def _times(weight: Tensor) -> LinearFn:
    """x · weightᵀ, to be found many times for few rows."""
    if weight.numel() >= PACKED:
        return pack_for_matrix(weight.contiguous(), None)
    turned = weight.t().contiguous()
    return lambda x: torch.mm(x, turned)


def _within(values: Tensor, limit: float) -> Tensor | None:
    """1 where a value is within the limit and 0 where it was cut off; None: nothing was."""
    if not limit or values.abs().amax() < limit:
        return None
    return (values.abs() < limit).to(values.dtype)


def _before(first: Tensor, after: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """What each token found, where `after` is what each left behind: (T, ·)."""
    found, at = [first[: sizes[0]]], 0
    for size, following in pairwise(sizes):
        found.append(after[at : at + following])
        at += size
    return torch.cat(found)


def _wider(x: Tensor, rows: int) -> Tensor:
    """With so many rows: those that end later have nothing yet."""
    return x if len(x) == rows else functional.pad(x, (0, 0, 0, rows - len(x)))
