"""Int8 layers for inference: a quarter of the memory and products that are several times as fast.

Weights are integers from -127 to 127 with a scale per row. Activations are quantized per token: x ≈ low + step · q, so
W x + b ≈ step · (W q) + low · (row sums of W) + b, and a token never depends on its neighbors. Integer products are
exact; `product_in_floats` is the reference, and a test compares them. A symmetric scale from -|x| to |x| would waste
half of q on values that GELU never has: MiniLM's vectors had a cosine of 0.9973 to the float ones with it, and have
0.9989 now.

The engine is fbgemm (through torch). Measured with one thread in GFLOP/s, for 768 → 3,072:
    rows     float, packed   fbgemm   oneDNN     on a processor with AVX-512 VNNI
       1          27           92       68
       8          95          322      296
    1024         111          352      408
oneDNN would be faster there for many rows, but is slower without VNNI.
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

MAX_WEIGHT_LEVEL = 127  # largest weight level
_ENGINE_LOCK = threading.Lock()  # guards torch's engine setting, which all threads share
MIN_STEP = 1e-30  # smallest step: all values of a token may be equal
# torch's constructor for per-channel quantized tensors.
_PER_CHANNEL_TENSOR: Any = getattr(torch, "_make_per_channel_quantized_tensor", None)
MAX_KERNEL_ROWS = 64  # rows; above, the product takes most of the time anyway


def quantized_copy(model: Any) -> Any:
    """The same model with int8 encoder weights."""
    int8_model = copy.deepcopy(model)
    quantize_layers(int8_model.encoder)
    return int8_model.load(quantized_tensors(int8_model, model.tensors())).eval()


def quantize_layers(model: nn.Module) -> None:
    """Replace an encoder's linear layers and token embedding by int8 layers without values.

    Task heads are not quantized: they are small and determine the result.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is DeferredLinear:
                setattr(module, name, QuantizedLinear(child.in_features, child.out_features, child.bias is not None))
            elif type(child) is DeferredEmbedding and name == "token":
                setattr(module, name, QuantizedEmbedding(child.num_embeddings, child.embedding_dim))


def quantized_tensors(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of an int8 model, from those of the float model."""
    converted = dict(tensors)
    for name, module in model.named_modules():
        if isinstance(module, _QuantizedMatrix):
            converted[f"{name}.weight"], converted[f"{name}.scale"] = quantize_rows(tensors[f"{name}.weight"].float())
    return converted


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(out, in) floats → int8 weights and (out,) scales."""
    scale = weight.abs().amax(1).clamp_min(MIN_STEP) / MAX_WEIGHT_LEVEL
    return (weight / scale[:, None]).round_().to(torch.int8), scale


class _QuantizedMatrix(nn.Module):
    """An (out, in) int8 matrix with a scale per row, packed for the engine at first use."""

    def __init__(self, num_rows: int, num_columns: int) -> None:
        super().__init__()
        weight = torch.empty((num_rows, num_columns), dtype=torch.int8, device="meta")
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.scale = nn.Parameter(torch.empty(num_rows, device="meta"), requires_grad=False)
        self._packed: _PackedMatrix | None = None

    @property
    def packed_matrix(self) -> _PackedMatrix:
        if self._packed is None or self._packed.weight is not self.weight:
            self._packed = _PackedMatrix.of(self.weight, self.scale)
        return self._packed

    def matmul(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(n, in) → (n, out)."""
        if x.requires_grad and torch.is_grad_enabled():  # gradients are those of the dequantized weights
            return functional.linear(x, self.weight * self.scale[:, None], bias)
        packed = self.packed_matrix
        q, step, low = quantize_activations(x)
        return dequantize(packed.multiply(q), step, low, packed.sums, bias)

    def fast_product(self, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        """`matmul` as a function, for very many calls with few rows."""
        if self.weight.device.type != "cpu":
            return lambda x: self.matmul(x, bias)
        from forebear.kernels.activation_quantization import dequantize_products, scale_activations

        packed = self.packed_matrix
        multiply, sums = packed.multiply, packed.sums.numpy()
        offsets = np.zeros(len(sums), np.float32) if bias is None else bias.detach().numpy()
        level_limit, min_step = np.float32(max_level()), np.float32(MIN_STEP)

        def multiply_rows(x: Tensor) -> Tensor:
            if len(x) > MAX_KERNEL_ROWS:
                return self.matmul(x, bias)
            steps_and_minima = np.empty((len(x), 2), np.float32)
            products = multiply(torch.from_numpy(scale_activations(x.numpy(), level_limit, min_step, steps_and_minima)))
            dequantize_products(products.numpy(), steps_and_minima, sums, offsets)
            return products

        return multiply_rows


class QuantizedLinear(_QuantizedMatrix):
    """An int8 linear layer."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__(outputs, inputs)
        self.bias = nn.Parameter(torch.empty(outputs, device="meta"), requires_grad=False) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return self.matmul(x, self.bias)

    def packed_product(self) -> Callable[[Tensor], Tensor]:
        return self.fast_product(self.bias)


class QuantizedEmbedding(_QuantizedMatrix):
    """An int8 embedding, also used as an output projection."""

    def forward(self, indices: Tensor) -> Tensor:
        return self.weight.index_select(0, indices) * self.scale.index_select(0, indices)[:, None]

    def logits(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return self.matmul(x, bias)


def quantize_activations(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(n, D) → q in 0 … `max_level()` (not yet rounded), (n, 1) step and (n, 1) low: x = low + step · q."""
    low = x.amin(-1, keepdim=True)
    step = (x.amax(-1, keepdim=True) - low).div_(max_level()).clamp_min_(MIN_STEP)
    return (x - low).div_(step), step, low


def dequantize(y: Tensor, step: Tensor, low: Tensor, sums: Tensor, bias: Tensor | None) -> Tensor:
    """In place: y · step + low · sums + bias.

    Elementwise, since a matrix product rounds differently for different numbers of rows, and one last digit may change
    an integer of the next layer.
    """
    y.mul_(step).addcmul_(low, sums)
    return y if bias is None else y.add_(bias)


@dataclass(frozen=True)
class _PackedMatrix:
    """A packed matrix and the sums of its rows."""

    weight: Tensor
    multiply: Callable[[Tensor], Tensor]  # rounds q, then multiplies
    sums: Tensor

    @classmethod
    def of(cls, weight: Tensor, scale: Tensor) -> _PackedMatrix:
        scale = scale.detach()
        return cls(weight, int8_product(weight, scale), weight.sum(1) * scale)


def int8_product(weight: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """A function that rounds q and multiplies it by the int8 matrix."""
    if not has_fbgemm(weight.device.type):
        return lambda q: int8_product_reference(q, weight, scale)
    with _ENGINE_LOCK:
        previous = torch.backends.quantized.engine
        try:
            torch.backends.quantized.engine = "fbgemm"  # torch selects the engine by a global setting
            zeros = torch.zeros(len(weight), dtype=torch.int64)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns that quantized tensors will move to another package
                quantized_weight = _PER_CHANNEL_TENSOR(weight, scale.double(), zeros, 0)
            packed = torch.ops.quantized.linear_prepack(quantized_weight, None)
        finally:
            torch.backends.quantized.engine = previous
    multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    return lambda q: multiply(q, 1.0, 0, packed)


def int8_product_reference(q: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Reference implementation, also for machines without the engine; exact while sums are below 2²⁴."""
    return functional.linear(q.round(), weight.to(q.dtype)) * scale


@cache
def max_level() -> int:
    """Largest quantized activation.

    Without VNNI, sums of two products are held in 16 bits, which 2 · 255 · 127 overflows and 2 · 127 · 127 does not: q
    has 7 bits there, and 8 with VNNI.
    """
    return 255 if torch.cpu._is_vnni_supported() else 127  # the VNNI of AVX-512, which fbgemm uses


@cache
def has_fbgemm(device_type: str) -> bool:
    """Whether the engine is available for this type of device."""
    is_available = _PER_CHANNEL_TENSOR is not None
    is_available = is_available and hasattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32")
    return device_type == "cpu" and is_available and "fbgemm" in torch.backends.quantized.supported_engines
