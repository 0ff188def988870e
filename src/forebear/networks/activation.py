"""The curves between two linear layers, by the names that milestones give them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SCALE = 2 * math.sqrt(2 / math.pi)
CUBE = 0.044715
BLOCK = 1 << 16  # numbers worked on at once: they stay in the cache, and starting an operation still costs little
FEW = 1 << 12  # below this, one operation on all beats several


def gelu_tanh(x: Tensor) -> Tensor:
    """The GELU of GPT and GPT-2, in which a tanh stands for the Gaussian's integral.

    It is x·σ(u) with u = √(8/π)·(x + 0.044715·x³), exactly, since (1 + tanh(u/2)) / 2 = σ(u). On a processor, where
    tanh is slow and σ is fast, this takes little more than half the time of torch's own.
    """
    if x.device.type != "cpu" or x.dtype != torch.float32 or x.numel() < FEW or not x.is_contiguous():
        return functional.gelu(x, approximate="tanh")
    if torch.is_grad_enabled() and x.requires_grad:
        return _GeluTanh.apply(x)  # pyright: ignore[reportReturnType]
    found = torch.empty_like(x)
    for part, result in zip(x.view(-1).split(BLOCK), found.view(-1).split(BLOCK), strict=True):
        _exponent(part, result)
        result.sigmoid_().mul_(part)
    return found


def _exponent(x: Tensor, u: Tensor) -> None:
    torch.mul(x, x, out=u)
    torch.addcmul(x, u, x, value=CUBE, out=u).mul_(SCALE)


class _GeluTanh(torch.autograd.Function):
    """Finds the slope on the way forward, where σ is at hand, and keeps nothing else: going back is one product.

    The slope is σ + σ·(1 − σ)·x·u′, and x·u′ = 3·u − 2·√(8/π)·x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found, slopes = torch.empty_like(x), torch.empty_like(x)
        room = torch.empty(min(BLOCK, x.numel()))
        flat = (tensor.view(-1).split(BLOCK) for tensor in (x, found, slopes))
        for part, sigma, slope in zip(*flat, strict=True):
            _exponent(part, sigma)
            torch.sub(sigma, part, alpha=2 * SCALE / 3, out=slope)  # a third of x·u′
            sigma.sigmoid_()
            spread = torch.addcmul(sigma, sigma, sigma, value=-1, out=room[: len(part)])
            torch.addcmul(sigma, slope, spread, value=3, out=slope)
            sigma.mul_(part)
        ctx.save_for_backward(slopes)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (slopes,) = ctx.saved_tensors
        return gradients[0] * slopes


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu-tanh": gelu_tanh,
    "relu": functional.relu,
}
