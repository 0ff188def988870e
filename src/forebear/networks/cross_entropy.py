"""The cost of naming the right token among all of a vocabulary, without ever holding the scores of all tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

HELD = 1 << 23  # scores held at once
EVEN = 16  # numbers, as many as a processor holds at once
FEWEST, MOST = 256, 2048  # rows of them: fewer waste the processor's matrix product, more its cache


def summed_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Σ −log softmax(x · weightᵀ + bias)[target] over the (N, D) vectors x; weight is (V, D), target (N,).

    Where it is learned from, `smoothing` is the share of what is right that all V entries divide among them.
    """
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return _Summed.apply(x, weight, bias, target, smoothing)  # pyright: ignore[reportReturnType]
    return -log_probabilities(lambda x: functional.linear(x, weight, bias), x, target, len(weight)).sum()


def log_probabilities(scored: Callable[[Tensor], Tensor], x: Tensor, target: Tensor, vocabulary: int) -> Tensor:
    """(N,) log softmax(scored(x))[target], where `scored` gives a score to each entry of the vocabulary."""
    found = torch.zeros(len(x), device=x.device)
    for part in parts_of(len(x), vocabulary):
        scores = scored(x[part]).float()
        wanted = scores.gather(1, target[part, None])
        highest = scores.amax(1, keepdim=True)
        total = scores.sub_(highest).exp_().sum(1, keepdim=True)
        found[part] = (wanted - highest - total.log()).squeeze(1)
    return found


def parts_of(rows: int, vocabulary: int) -> Iterator[slice]:
    """So many rows, in parts whose scores fit into a bounded memory."""
    size = min(max(HELD // vocabulary, FEWEST), MOST)
    return (slice(first, min(first + size, rows)) for first in range(0, rows, size))


class _Summed(torch.autograd.Function):
    """Scores become probabilities and then gradients in one place, a part at a time, all on the way forward.

    The gradient of a softmax's cost is its probabilities, less what is right. What is kept is the gradient of x
    and of the weight, for a cost of 1; going back scales them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> Tensor:
        kind = x.device.type
        lower = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with torch.autocast(kind, enabled=False):
            cost, *gradients = _cost_and_gradients(x.to(lower), weight.to(lower), bias, target, smoothing)
        ctx.save_for_backward(*gradients)
        ctx.kinds = x.dtype, weight.dtype
        return cost

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        by_x, by_weight, by_bias = ctx.saved_tensors
        (scale,), (x_kind, weight_kind) = gradients, ctx.kinds
        found = [by_x.mul_(scale).to(x_kind), by_weight.mul_(scale).to(weight_kind)]
        return (*found, by_bias.mul_(scale) if by_bias.numel() else None, None, None)


def _cost_and_gradients(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> tuple[Tensor, ...]:
    plain, even = x.dtype == torch.float32, smoothing / len(weight)
    by_x = torch.empty_like(x)
    by_weight = torch.zeros(weight.shape, device=x.device)
    by_bias = torch.zeros(len(weight) if bias is not None else 0, device=x.device)
    cost = torch.zeros((), device=x.device)
    parts = list(parts_of(len(x), len(weight)))
    # For the scores of any part. Where its rows begin at even places, that of 33,101 words costs a sixth less in all.
    room = x.new_empty((parts[0].stop if parts else 0, -(-len(weight) // EVEN) * EVEN))[:, : len(weight)]
    for part in parts:
        rows, wanted = x[part], target[part, None]
        raw = torch.mm(rows, weight.t(), out=room[: len(rows)])
        scores = raw if plain else raw.float()
        if bias is not None:
            scores += bias
        highest = scores.amax(1, keepdim=True)
        cost += (highest - (1 - smoothing) * scores.gather(1, wanted)).sum()
        cost -= even * scores.sum() if smoothing else 0.0
        total = scores.sub_(highest).exp_().sum(1, keepdim=True)
        cost += total.log().sum()
        scores.div_(total).scatter_add_(1, wanted, scores.new_full(wanted.shape, smoothing - 1.0))
        if smoothing:
            scores -= even
        by_bias += scores.sum(0) if bias is not None else 0.0
        if plain:
            torch.mm(scores, weight, out=by_x[part])
            by_weight.addmm_(scores.t(), rows)
        else:
            low = scores.to(x.dtype)
            by_x[part] = low @ weight
            by_weight += (low.t() @ rows).float()
    return cost, by_x, by_weight, by_bias
