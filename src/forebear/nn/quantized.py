"""Networks of small integers, for reading only: a quarter of the memory, and products that are several times as fast.

Weights are integers from -127 to 127 with a scale for each row. What comes in is made of integers too, token by token:
x ≈ low + step · q, so that W x + b ≈ step · (W q) + low · (the sums of W's rows) + b: a token never depends
on its neighbours. A product of integers is exact; its readable twin is `product_in_floats`, and a test compares them.
A scale from -|x| to |x| would waste half of q on numbers that GELU never gives: MiniLM's vectors had a cosine of 0.9973
to those of floats with it, and have one of 0.9989.

The engine is fbgemm (through torch), as measured with one thread in GFLOP/s, for 768 → 3,072:
    rows     float, packed   fbgemm   oneDNN     on a processor with AVX-512 VNNI
       1          27           92       68
       8          95          322      296
    1024         111          352      408
oneDNN would be faster there for many rows, but where there is no VNNI it is slower.
"""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.layers import DeferredEmbedding, DeferredLinear

LARGEST = 127  # of the integers that weights become
_ENGINE = threading.Lock()  # of torch's setting, which all threads share
SMALLEST = 1e-30  # a token whose numbers are all the same has some step
_PER_CHANNEL_TENSOR: Any = getattr(
    torch, "_make_per_channel_quantized_tensor", None
)  # of torch itself, for its packed matrices
FEW = 64  # rows; of more, the product takes far longer than the calls around it


def quantized_copy(model: Any) -> Any:
    """The same model, with the weights of its encoder as integers."""
    copied = copy.deepcopy(model)
    quantize_layers(copied.encoder)
    return copied.load(quantised_tensors(copied, model.tensors())).eval()


def quantize_layers(model: nn.Module) -> None:
    """Puts layers of integers, still without values, in the place of an encoder's linear layers and tables of tokens.

    Heads that answer by a few linear layers stay as they are: they are small, and they decide.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is DeferredLinear:
                setattr(module, name, QuantizedLinear(child.in_features, child.out_features, child.bias is not None))
            elif type(child) is DeferredEmbedding and name == "token":
                setattr(module, name, QuantizedEmbedding(child.num_embeddings, child.embedding_dim))


def quantised_tensors(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a model of integers takes, out of the tensors of the same model of floats."""
    converted = dict(tensors)
    for name, module in model.named_modules():
        if isinstance(module, _QuantizedMatrix):
            converted[f"{name}.weight"], converted[f"{name}.scale"] = integers(tensors[f"{name}.weight"].float())
    return converted


def integers(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(out, in) floats → the same as integers, and the (out,) scales by which they are to be multiply_rows."""
    scale = weight.abs().amax(1).clamp_min(SMALLEST) / LARGEST
    return (weight / scale[:, None]).round_().to(torch.int8), scale


class _QuantizedMatrix(nn.Module):
    """An (out, in) matrix of integers with a scale for each row; packed for the engine when it is first used."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        weight = torch.empty((rows, columns), dtype=torch.int8, device="meta")
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.scale = nn.Parameter(torch.empty(rows, device="meta"), requires_grad=False)
        self._packed: _PackedMatrix | None = None

    @property
    def packed(self) -> _PackedMatrix:
        if self._packed is None or self._packed.weight is not self.weight:
            self._packed = _PackedMatrix.of(self.weight, self.scale)
        return self._packed

    def times(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(n, in) → (n, out)."""
        if x.requires_grad and torch.is_grad_enabled():  # who asks for gradients gets those of the same weights
            return functional.linear(x, self.weight * self.scale[:, None], bias)
        packed = self.packed
        q, step, low = rounded(x)
        return restored(packed.multiply(q), step, low, packed.sums, bias)

    def product(self, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        """The same for being called very often, with few rows."""
        if self.weight.device.type != "cpu":
            return lambda x: self.times(x, bias)
        from forebear.kernels.int8 import bfloat16_to_float32, float32_to_bfloat16

        packed, quantize, dequantize = self.packed, float32_to_bfloat16(), bfloat16_to_float32()
        multiply, sums = packed.multiply, packed.sums.numpy()
        offsets = np.zeros(len(sums), np.float32) if bias is None else bias.detach().numpy()
        max_level, min_step = np.float32(levels()), np.float32(SMALLEST)

        def multiply_rows(x: Tensor) -> Tensor:
            if len(x) > FEW:
                return self.times(x, bias)
            ends = np.empty((len(x), 2), np.float32)
            found = multiply(torch.from_numpy(quantize(x.numpy(), max_level, min_step, ends)))
            dequantize(found.numpy(), ends, sums, offsets)
            return found

        return multiply_rows


class QuantizedLinear(_QuantizedMatrix):
    """A linear layer of integers."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__(outputs, inputs)
        self.bias = nn.Parameter(torch.empty(outputs, device="meta"), requires_grad=False) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return self.times(x, self.bias)

    def laid_out(self) -> Callable[[Tensor], Tensor]:
        return self.product(self.bias)


class QuantizedEmbedding(_QuantizedMatrix):
    """A vector for each token, and by the same numbers a score for each."""

    def forward(self, numbers: Tensor) -> Tensor:
        return self.weight.index_select(0, numbers) * self.scale.index_select(0, numbers)[:, None]

    def logits(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return self.times(x, bias)


def rounded(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(n, D) → q, between 0 and `levels` and still with fractions, (n, 1) step and (n, 1) low: x = low + step · q."""
    low = x.amin(-1, keepdim=True)
    step = (x.amax(-1, keepdim=True) - low).div_(levels()).clamp_min_(SMALLEST)
    return (x - low).div_(step), step, low


def restored(y: Tensor, step: Tensor, low: Tensor, sums: Tensor, bias: Tensor | None) -> Tensor:
    """In place: y · step + low · sums + bias. By numbers alone: a matrix product would round by how many rows it has,
    and a last digit more or less is an integer more or less in the next layer."""
    y.mul_(step).addcmul_(low, sums)
    return y if bias is None else y.add_(bias)


@dataclass(frozen=True)
class _PackedMatrix:
    """A matrix as the engine wants it, and the sums of its rows."""

    weight: Tensor
    multiply: Callable[[Tensor], Tensor]  # q is rounded, then multiply_rows
    sums: Tensor

    @classmethod
    def of(cls, weight: Tensor, scale: Tensor) -> _PackedMatrix:
        with torch.no_grad():
            return cls(weight, engine(weight, scale), weight.sum(1) * scale)


def engine(weight: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """What rounds q and multiplies it by a matrix of integers with a scale for each row."""
    if not has_fbgemm(weight.device.type):
        return lambda q: product_in_floats(q, weight, scale)
    with _ENGINE:
        previous = torch.backends.quantized.engine
        try:
            torch.backends.quantized.engine = "fbgemm"  # torch asks for it by a setting that holds everywhere
            zeros = torch.zeros(len(weight), dtype=torch.int64)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch moves tensors of this kind elsewhere: see has_fbgemm
                rows = _PER_CHANNEL_TENSOR(weight, scale.double(), zeros, 0)
            packed = torch.ops.quantized.linear_prepack(rows, None)
        finally:
            torch.backends.quantized.engine = previous
    multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    return lambda q: multiply(q, 1.0, 0, packed)


def product_in_floats(q: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """The same, for reading and for machines without the engine; exact as long as sums are below 2²⁴."""
    return functional.linear(q.round(), weight.to(q.dtype)) * scale


@cache
def levels() -> int:
    """The largest integer that a number of x becomes.

    Without VNNI sums of two products are held in 16 bits, which 2 · 255 · 127 overflows and 2 · 127 · 127 does not: q
    has 7 bits there, and 8 where it can.
    """
    return 255 if torch.cpu._is_vnni_supported() else 127  # that of AVX-512, which is the one that fbgemm knows


@cache
def has_fbgemm(device_type: str) -> bool:
    """Whether the engine is there for tensors on this kind of device."""
    is_available = _PER_CHANNEL_TENSOR is not None
    is_available = is_available and hasattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32")
    return device_type == "cpu" and is_available and "fbgemm" in torch.backends.quantized.supported_engines
