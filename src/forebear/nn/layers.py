"""The values that parameters begin with: a function of the seed and the parameter's name, and of nothing else."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SPREAD = 0.02  # the standard deviation of GPT and BERT, whose states are WIDE numbers wide
WIDE = 768


class Initial:
    """How the parameters of a module begin, where they do not begin as most do."""

    spread: float = SPREAD  # the standard deviation of those that are drawn
    first_values: Mapping[str, Tensor] | None = None  # of those that are not drawn, by their names in the module


class DeferredLinear(nn.Linear, Initial):
    """torch's, without values of its own: on the meta device they would be nothing, and take seconds to import."""

    def reset_parameters(self) -> None: ...


class DeferredEmbedding(nn.Embedding, Initial):
    """As above. A row for each entry, which is looked up by its number, or scores what stands for it."""

    def reset_parameters(self) -> None: ...

    def forward(self, numbers: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """(T,) → (T, D)."""
        return embedding_lookup(self.weight, numbers)

    def logits(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(T, D) → (T, entries)."""
        return functional.linear(x, self.weight, bias)


class DeferredLayerNorm(nn.LayerNorm):
    """As above."""

    def reset_parameters(self) -> None: ...


def spread_for(width: int) -> float:
    """The standard deviation with which a network of this width begins, so that it does as much as a wide one.

    A sum over fewer numbers is smaller, and with the published 0.02 a narrow network takes long to begin to learn; at
    the published width and above it is 0.02.
    """
    return SPREAD * max(1.0, WIDE / width) ** 0.5


def deferred_linear(
    inputs: int, outputs: int, *, bias: bool = True, width: int | None = None, scale: float = 1.0
) -> DeferredLinear:
    """A layer that costs nothing until it is filled: made on the meta device, remembering how it begins.

    That is as in a network of this `width` (or of as many as its inputs), times `scale`.
    """
    layer = DeferredLinear(inputs, outputs, bias=bias, device="meta")
    layer.spread = scale * spread_for(width or inputs)
    return layer


def deferred_embedding(entries: int, width: int, *, spread: float | None = None) -> DeferredEmbedding:
    """A vector for each of so many entries, on the meta device."""
    layer = DeferredEmbedding(entries, width, device="meta")
    layer.spread = spread_for(width) if spread is None else spread
    return layer


def deferred_layer_norm(width: int, epsilon: float) -> nn.LayerNorm:
    return DeferredLayerNorm(width, epsilon, device="meta")


def set_initial_values(module: Initial, **values: Tensor) -> None:
    """These parameters of its own begin with these values, whatever the seed."""
    module.first_values = {name: value.float() for name, value in values.items()}


def embedding_lookup(weight: Tensor, numbers: Tensor) -> Tensor:
    """(T,) numbers of entries of an (N, D) table → (T, D).

    Both ways give the same bits. On a processor the first finds the gradient of a small table in half the time; on
    other devices it would add it up in any order, and so give other bits each time.
    """
    if weight.device.type == "cpu":
        return weight.index_select(0, numbers)
    return functional.embedding(numbers, weight)


def initial_values(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Every parameter's beginning. Each has a generator of its own, so that another head beside it changes nothing."""
    values = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            values[name] = _initial_value(name, module, parameter.shape, seed)
    return values


def _initial_value(name: str, module: nn.Module, shape: torch.Size, seed: int) -> Tensor:
    fixed_values = module.first_values if isinstance(module, Initial) else None
    fixed_value = None if fixed_values is None else fixed_values.get(name.rpartition(".")[2])
    if fixed_value is not None:
        return fixed_value.clone()
    if isinstance(module, nn.LayerNorm) and name.endswith("weight"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
    std = module.spread if isinstance(module, Initial) else SPREAD
    return torch.empty(shape).normal_(0.0, std, generator=generator)


# The curves between two linear layers, by the names that milestones give them.


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
    output = torch.empty_like(x)
    for block, output_block in zip(x.view(-1).split(BLOCK), output.view(-1).split(BLOCK), strict=True):
        _sigmoid_argument(block, output_block)
        output_block.sigmoid_().mul_(block)
    return output


def _sigmoid_argument(x: Tensor, u: Tensor) -> None:
    torch.mul(x, x, out=u)
    torch.addcmul(x, u, x, value=CUBE, out=u).mul_(SCALE)


class _GeluTanh(torch.autograd.Function):
    """Finds the slope on the way forward, where σ is at hand, and keeps nothing else: going back is one product.

    The slope is σ + σ·(1 − σ)·x·u′, and x·u′ = 3·u − 2·√(8/π)·x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        output, slopes = torch.empty_like(x), torch.empty_like(x)
        buffer = torch.empty(min(BLOCK, x.numel()))
        flat = (tensor.view(-1).split(BLOCK) for tensor in (x, output, slopes))
        for block, sigma, slope in zip(*flat, strict=True):
            _sigmoid_argument(block, sigma)
            torch.sub(sigma, block, alpha=2 * SCALE / 3, out=slope)  # a third of x·u′
            sigma.sigmoid_()
            derivative = torch.addcmul(sigma, sigma, sigma, value=-1, out=buffer[: len(block)])
            torch.addcmul(sigma, slope, derivative, value=3, out=slope)
            sigma.mul_(block)
        ctx.save_for_backward(slopes)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (slopes,) = ctx.saved_tensors
        return gradients[0] * slopes


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu-tanh": gelu_tanh,
    "relu": functional.relu,
}
