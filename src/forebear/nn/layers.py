"""Linear layers, embeddings and LayerNorm with deferred, seeded initialization; activation functions.

Initial values depend on the seed and the parameter's dotted path only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

INIT_STD = 0.02  # standard deviation of GPT and BERT at hidden size REFERENCE_WIDTH
REFERENCE_WIDTH = 768


class Initializable:
    """Initialization of a module's parameters, where it differs from the default."""

    init_std: float = INIT_STD  # standard deviation of random parameters
    fixed_values: Mapping[str, Tensor] | None = None  # fixed initial values by parameter name


class DeferredLinear(nn.Linear, Initializable):
    """`nn.Linear` without initialization, which is wasted on the meta device and takes seconds to import."""

    def reset_parameters(self) -> None: ...


class DeferredEmbedding(nn.Embedding, Initializable):
    """`nn.Embedding` without initialization; also used as an output projection."""

    def reset_parameters(self) -> None: ...

    def forward(self, indices: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """(T,) → (T, D)."""
        return embedding_lookup(self.weight, indices)

    def logits(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(T, D) → (T, entries)."""
        return functional.linear(x, self.weight, bias)


class DeferredLayerNorm(nn.LayerNorm):
    """`nn.LayerNorm` without initialization."""

    def reset_parameters(self) -> None: ...


def init_std_for(width: int) -> float:
    """Initial standard deviation for a hidden size, larger for narrow networks.

    Sums over fewer numbers are smaller: with the published 0.02 a narrow network starts learning slowly. From the
    published size on it is 0.02.
    """
    return INIT_STD * max(1.0, REFERENCE_WIDTH / width) ** 0.5


def deferred_linear(
    inputs: int, outputs: int, *, bias: bool = True, width: int | None = None, scale: float = 1.0
) -> DeferredLinear:
    """A linear layer on the meta device, initialized for hidden size `width` (default: its inputs), times `scale`."""
    layer = DeferredLinear(inputs, outputs, bias=bias, device="meta")
    layer.init_std = scale * init_std_for(width or inputs)
    return layer


def deferred_embedding(num_embeddings: int, width: int, *, init_std: float | None = None) -> DeferredEmbedding:
    """An embedding table on the meta device."""
    layer = DeferredEmbedding(num_embeddings, width, device="meta")
    layer.init_std = init_std_for(width) if init_std is None else init_std
    return layer


def deferred_layer_norm(width: int, epsilon: float) -> nn.LayerNorm:
    return DeferredLayerNorm(width, epsilon, device="meta")


def set_initial_values(module: Initializable, **values: Tensor) -> None:
    """Give parameters of the module fixed initial values, independent of the seed."""
    module.fixed_values = {name: value.float() for name, value in values.items()}


def embedding_lookup(weight: Tensor, indices: Tensor) -> Tensor:
    """(T,) indices into an (N, D) table → (T, D).

    Both branches give the same bits. On a CPU the first computes the gradient of a small table in half the time; on
    other devices its order of summation is not deterministic.
    """
    if weight.device.type == "cpu":
        return weight.index_select(0, indices)
    return functional.embedding(indices, weight)


def initial_values(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Initial values of all parameters, each from its own generator: adding a head does not change others."""
    values = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            values[name] = _initial_value(name, module, parameter.shape, seed)
    return values


def _initial_value(name: str, module: nn.Module, shape: torch.Size, seed: int) -> Tensor:
    fixed_values = module.fixed_values if isinstance(module, Initializable) else None
    fixed_value = None if fixed_values is None else fixed_values.get(name.rpartition(".")[2])
    if fixed_value is not None:
        return fixed_value.clone()
    if isinstance(module, nn.LayerNorm) and name.endswith("weight"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
    std = module.init_std if isinstance(module, Initializable) else INIT_STD
    return torch.empty(shape).normal_(0.0, std, generator=generator)


# --- Activation functions, by the names used in model specs ---


TANH_SCALE = 2 * math.sqrt(2 / math.pi)
CUBE_COEFFICIENT = 0.044715
BLOCK_SIZE = 1 << 16  # elements per block: fits the cache and amortizes the call overhead
MIN_BLOCKED_SIZE = 1 << 12  # elements; below, one operation on all is faster


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of GELU, as in GPT and GPT-2.

    Computed as x·σ(u) with u = √(8/π)·(x + 0.044715·x³), which is exact since (1 + tanh(u/2)) / 2 = σ(u). On a CPU,
    where tanh is slow and σ is fast, it takes little more than half the time of torch's own.
    """
    if x.device.type != "cpu" or x.dtype != torch.float32 or x.numel() < MIN_BLOCKED_SIZE or not x.is_contiguous():
        return functional.gelu(x, approximate="tanh")
    if torch.is_grad_enabled() and x.requires_grad:
        return _GeluTanh.apply(x)  # pyright: ignore[reportReturnType]
    output = torch.empty_like(x)
    for block, output_block in zip(x.view(-1).split(BLOCK_SIZE), output.view(-1).split(BLOCK_SIZE), strict=True):
        _sigmoid_argument(block, output_block)
        output_block.sigmoid_().mul_(block)
    return output


def _sigmoid_argument(x: Tensor, u: Tensor) -> None:
    torch.mul(x, x, out=u)
    torch.addcmul(x, u, x, value=CUBE_COEFFICIENT, out=u).mul_(TANH_SCALE)


class _GeluTanh(torch.autograd.Function):
    """Computes the derivative in the forward pass, where σ is available, and stores nothing else.

    The derivative is σ + σ·(1 − σ)·x·u′, with x·u′ = 3·u − 2·√(8/π)·x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        output, slopes = torch.empty_like(x), torch.empty_like(x)
        buffer = torch.empty(min(BLOCK_SIZE, x.numel()))
        flat = (tensor.view(-1).split(BLOCK_SIZE) for tensor in (x, output, slopes))
        for block, sigma, slope in zip(*flat, strict=True):
            _sigmoid_argument(block, sigma)
            torch.sub(sigma, block, alpha=2 * TANH_SCALE / 3, out=slope)  # a third of x·u′
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
