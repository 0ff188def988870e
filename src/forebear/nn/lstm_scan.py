"""Recurrence over packed sequences of unequal length: time order, and an LSTM with a hand-written backward pass.

Tokens are ordered by time: first the first token of every sequence, the longest sequence first, then the second token
of all that have one. Each step is one product for all unfinished sequences, nothing is padded, and the backward
direction is the same with each sequence reversed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from forebear.nn.inference_mode import inference_mode
from forebear.nn.weight_packing import LinearFn, pack_for_matrix

MIN_PACKED_WEIGHTS = 2**18  # weights; from here on packing pays off for products with few rows


@dataclass(frozen=True)
class TimeOrder:
    """Time order of the tokens of packed sequences.

    token_order     (T,) token index at each packed position of the time order
    inverse_order   (T,) packed position of each token (the inverse permutation)
    batch_sizes     number of sequences at each step, descending
    sorted_indices  (B,) sequence indices, longest first
    last_positions  (B,) packed position of the last token read of each sequence, in the original order
    """

    token_order: Tensor
    inverse_order: Tensor
    batch_sizes: tuple[int, ...]
    sorted_indices: Tensor
    last_positions: Tensor


@lru_cache(maxsize=64)
def time_order(lengths: tuple[int, ...], backward: bool, device: torch.device) -> TimeOrder:
    with inference_mode(False):  # cached tensors must work in training too
        row_lengths = torch.tensor(lengths)
        sorted_indices = row_lengths.argsort(descending=True, stable=True)
        starts, sorted_lengths = (row_lengths.cumsum(0) - row_lengths)[sorted_indices], row_lengths[sorted_indices]
        times = torch.arange(int(sorted_lengths[0]))
        is_valid = times[:, None] < sorted_lengths  # (n, B)
        offsets = sorted_lengths - 1 - times[:, None] if backward else times[:, None]
        token_order = (starts + offsets)[is_valid]
        inverse_order = torch.empty_like(token_order)
        inverse_order[token_order] = torch.arange(len(token_order))
        step_sizes = is_valid.sum(1)
        step_starts = step_sizes.cumsum(0) - step_sizes
        last_positions = torch.empty_like(sorted_indices)
        last_positions[sorted_indices] = step_starts[sorted_lengths - 1] + torch.arange(len(sorted_indices))
        on_device = (tensor.to(device) for tensor in (token_order, inverse_order, sorted_indices, last_positions))
        token_order, inverse_order, sorted_indices, last_positions = on_device
        return TimeOrder(token_order, inverse_order, tuple(step_sizes.tolist()), sorted_indices, last_positions)


@dataclass(frozen=True)
class ClipLimits:
    """Absolute limits of an LSTM's cell state and of its projection; 0: unlimited."""

    cell: float = 0.0
    projection: float = 0.0


NO_CLIP = ClipLimits()


class LSTMScan(torch.autograd.Function):
    """An LSTM over time-ordered sequences, given the input's contribution to the gates; forward and backward by hand.

    Autograd would store every step of the loop and accumulate the weight gradient after each. Here all steps share a
    few arrays, and the weight gradient is one product. `LSTMLayer.step` is the reference. Gates are i f g o; with a
    projection P, h = P m, else h = m:

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
        batch_sizes: tuple[int, ...],
        clip_limits: ClipLimits,
    ) -> tuple[Tensor, Tensor]:
        """(T, 4H) gate inputs, (4H, D) and (D, H) weights, (B, D) and (B, H) initial state → (T, D) and (T, H)."""
        width = gates.shape[1] // 4
        apply_recurrent, projection = _packed_product(weight), None if project is None else _packed_product(project)
        activations = torch.empty_like(gates)
        cells, tanh_cells = (gates.new_empty(len(gates), width) for _ in range(2))
        hidden = gates.new_empty(len(gates), h.shape[1])
        previous_h, previous_c = h, c
        activation_parts = (activations, activations[:, : 2 * width], *activations.split(width, 1))
        steps = _split_steps(batch_sizes, gates, *activation_parts, cells, tanh_cells, hidden)
        for gate_input, gate_output, sigmoid_gates, i, f, g, o, cell, tanh_cell, out in steps:
            torch.add(gate_input, apply_recurrent(previous_h[: len(gate_input)]), out=gate_output)
            sigmoid_gates.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, previous_c[: len(gate_input)], out=cell).addcmul_(i, g)
            if clip_limits.cell:
                cell.clamp_(-clip_limits.cell, clip_limits.cell)
            torch.tanh(cell, out=tanh_cell)
            if projection is None:
                torch.mul(o, tanh_cell, out=out)
            else:
                out.copy_(projection(o * tanh_cell))
                if clip_limits.projection:
                    out.clamp_(-clip_limits.projection, clip_limits.projection)
            previous_h, previous_c = out, cell
        ctx.sizes, ctx.clips = batch_sizes, clip_limits
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight, project, h, c, activations, cells, tanh_cells, hidden)
        return hidden, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, project, h, c, activations, cells, tanh_cells, hidden = ctx.saved_tensors
        batch_sizes, clip_limits = ctx.sizes, ctx.clips
        width = cells.shape[1]
        apply_recurrent = _packed_product(weight.t())
        projection = None if project is None else _packed_product(project.t())
        cell_mask = _clip_mask(cells, clip_limits.cell)
        projection_mask = None if project is None else _clip_mask(hidden, clip_limits.projection)
        gate_grads = torch.empty_like(activations)
        output_grads = torch.empty_like(hidden) if project is not None else None
        next_h_grad, next_c_grad = torch.zeros_like(h[: batch_sizes[-1]]), torch.zeros_like(c[: batch_sizes[-1]])
        sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
        gates, grad_parts = activations.split(width, 1), gate_grads.split(width, 1)
        all_grads = (*gradients, projection_mask, cell_mask, output_grads, gate_grads, *grad_parts)
        steps = _split_steps(batch_sizes, *gates, tanh_cells, *all_grads)
        previous_cells = (c, *cells.split(batch_sizes)[:-1])
        for (i, f, g, o, tanh_cell, grad_h, grad_c, mask_h, mask_c, out, step_grads, di, df, dg, do), previous_c in zip(
            reversed(steps), reversed(previous_cells), strict=True
        ):
            size = len(step_grads)
            dh, dc = _pad_rows(next_h_grad, size), _pad_rows(next_c_grad, size)
            dh = dh if grad_h is None else dh + grad_h
            dc = dc if grad_c is None else dc + grad_c
            if projection is not None:
                dh = projection(out.copy_(dh) if mask_h is None else torch.mul(dh, mask_h, out=out))
            dc = tanh_backward(dh * o, tanh_cell).add_(dc)
            dc = dc if mask_c is None else dc.mul_(mask_c)
            sigmoid_backward.grad_input(dc * g, i, grad_input=di)
            sigmoid_backward.grad_input(dc * previous_c[:size], f, grad_input=df)
            tanh_backward.grad_input(dc * i, g, grad_input=dg)
            sigmoid_backward.grad_input(dh * tanh_cell, o, grad_input=do)
            next_h_grad, next_c_grad = apply_recurrent(step_grads), dc * f
        weight_grad = gate_grads.t() @ _previous_values(h, hidden, batch_sizes)
        projection_grad = (
            None if output_grads is None else output_grads.t() @ (activations[:, 3 * width :] * tanh_cells)
        )
        state_grads = _pad_rows(next_h_grad, len(h)), _pad_rows(next_c_grad, len(c))
        return gate_grads, weight_grad, projection_grad, *state_grads, None, None


def _split_steps(batch_sizes: tuple[int, ...], *arrays: Any) -> list[tuple[Any, ...]]:
    """The rows of each array at each step; None for arrays that are None."""
    parts = ([None] * len(batch_sizes) if array is None else array.split(batch_sizes) for array in arrays)
    return list(zip(*parts, strict=True))


def _packed_product(weight: Tensor) -> LinearFn:
    """x · weightᵀ as a function, for many calls with few rows."""
    if weight.numel() >= MIN_PACKED_WEIGHTS:
        return pack_for_matrix(weight.contiguous(), None)
    transposed = weight.t().contiguous()
    return lambda x: torch.mm(x, transposed)


def _clip_mask(values: Tensor, limit: float) -> Tensor | None:
    """1 where a value is within the limit and 0 where it was clipped; None if nothing was."""
    if not limit or values.abs().amax() < limit:
        return None
    return (values.abs() < limit).to(values.dtype)


def _previous_values(initial: Tensor, values: Tensor, batch_sizes: tuple[int, ...]) -> Tensor:
    """(T, ·) value before each token, where `values` holds the value after each."""
    parts, start = [initial[: batch_sizes[0]]], 0
    for size, next_size in pairwise(batch_sizes):
        parts.append(values[start : start + next_size])
        start += size
    return torch.cat(parts)


def _pad_rows(x: Tensor, num_rows: int) -> Tensor:
    """Pad with zero rows: sequences that end later have no gradient yet."""
    return x if len(x) == num_rows else functional.pad(x, (0, 0, 0, num_rows - len(x)))
