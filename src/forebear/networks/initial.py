"""The values that parameters begin with: a function of the seed and the parameter's name, and of nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

SPREAD = 0.02  # the standard deviation of GPT and BERT, whose states are WIDE numbers wide
WIDE = 768


class Initial:
    """How the parameters of a module begin, where they do not begin as most do."""

    spread: float = SPREAD  # the standard deviation of those that are drawn
    first_values: Mapping[str, Tensor] | None = None  # of those that are not drawn, by their names in the module


class Linear(nn.Linear, Initial):
    """torch's, without values of its own: on the meta device they would be nothing, and take seconds to import."""

    def reset_parameters(self) -> None: ...


class Table(nn.Embedding, Initial):
    """As above. A row for each entry, which is looked up by its number, or scores what stands for it."""

    def reset_parameters(self) -> None: ...

    def forward(self, numbers: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """(T,) → (T, D)."""
        return looked_up(self.weight, numbers)

    def scores(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(T, D) → (T, entries)."""
        return functional.linear(x, self.weight, bias)


class Norm(nn.LayerNorm):
    """As above."""

    def reset_parameters(self) -> None: ...


def spread_for(width: int) -> float:
    """The standard deviation with which a network of this width begins, so that it does as much as a wide one.

    A sum over fewer numbers is smaller, and with the published 0.02 a narrow network takes long to begin to learn; at
    the published width and above it is 0.02.
    """
    return SPREAD * max(1.0, WIDE / width) ** 0.5


def linear(inputs: int, outputs: int, *, bias: bool = True, width: int | None = None, scale: float = 1.0) -> Linear:
    """A layer that costs nothing until it is filled: made on the meta device, remembering how it begins.

    That is as in a network of this `width` (or of as many as its inputs), times `scale`.
    """
    layer = Linear(inputs, outputs, bias=bias, device="meta")
    layer.spread = scale * spread_for(width or inputs)
    return layer


def table(entries: int, width: int, *, spread: float | None = None) -> Table:
    """A vector for each of so many entries, on the meta device."""
    made = Table(entries, width, device="meta")
    made.spread = spread_for(width) if spread is None else spread
    return made


def layer_norm(width: int, epsilon: float) -> nn.LayerNorm:
    return Norm(width, epsilon, device="meta")


def begins_with(module: Initial, **values: Tensor) -> None:
    """These parameters of its own begin with these values, whatever the seed."""
    module.first_values = {name: value.float() for name, value in values.items()}


def looked_up(weight: Tensor, numbers: Tensor) -> Tensor:
    """(T,) numbers of entries of an (N, D) table → (T, D).

    Both ways give the same bits. On a processor the first finds the gradient of a small table in half the time; on
    other devices it would add it up in any order, and so give other bits each time.
    """
    if weight.device.type == "cpu":
        return weight.index_select(0, numbers)
    return functional.embedding(numbers, weight)


def first_values(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Every parameter's beginning. Each has a generator of its own, so that another head beside it changes nothing."""
    values = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            values[name] = _first_value(name, module, parameter.shape, seed)
    return values


def _first_value(name: str, module: nn.Module, shape: torch.Size, seed: int) -> Tensor:
    known = module.first_values if isinstance(module, Initial) else None
    given = None if known is None else known.get(name.rpartition(".")[2])
    if given is not None:
        return given.clone()
    if isinstance(module, nn.LayerNorm) and name.endswith("weight"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
    spread = module.spread if isinstance(module, Initial) else SPREAD
    return torch.empty(shape).normal_(0.0, spread, generator=generator)
