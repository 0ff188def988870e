"""Packed linear layers for inference: copies of the weights in a layout that is faster for few rows.

Measured with one thread on an AVX2 processor, in GFLOP/s for 768 → 3,072 and the 768 → 50,257 of GPT-2's vocabulary:
    rows   [out, in] as trained   [in, out]   packed by oneDNN
      1       5.3 / 5.7           7.5 / 10.8     5.9 / 7.3
      8      16.5 / 16.8         13.9 / 14.8    21.7 / 28.0
A layer with fewer outputs than inputs is as fast in its own layout for one row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.heads import LMHead
from forebear.nn.layers import DeferredLinear
from forebear.nn.quantized import QuantizedEmbedding, QuantizedLinear

LinearFn = Callable[[Tensor], Tensor]
PackFn = Callable[[Tensor, Tensor | None], LinearFn]


def packed_linear(layer: nn.Module, pack: PackFn) -> LinearFn:
    """A linear layer as a function with packed weights; int8 and other layers use their own product."""
    if type(layer) is DeferredLinear:
        return pack(layer.weight, layer.bias)
    return layer.packed_product() if isinstance(layer, QuantizedLinear) else layer


def packed_lm_head(head: LMHead, pack: PackFn) -> LinearFn:
    """The output projection as a function with packed weights; its input is `head.transform_states`."""
    if type(head) is not LMHead:
        return head.logits_from
    if isinstance(head.embedding, QuantizedEmbedding):
        return head.embedding.fast_product(head.bias)
    return pack(head.weight, head.bias)


class PackedDecoder(ABC):
    """A decoder whose weights are packed at first use: in one layout for a single sequence, in another for several."""

    def packed_layers(self, num_rows: int) -> Any:
        """The result of `pack_layers`, packed for this many sequences at a time."""
        return self._packed_for_vector if num_rows == 1 else self._packed_for_matrix

    @abstractmethod
    def pack_layers(self, pack: PackFn) -> Any:
        """The layers as functions."""

    @cached_property
    def _packed_for_vector(self) -> Any:
        return self.pack_layers(pack_for_vector)

    @cached_property
    def _packed_for_matrix(self) -> Any:
        return self.pack_layers(pack_for_matrix)


def pack_for_vector(weight: Tensor, bias: Tensor | None) -> LinearFn:
    """x · weightᵀ + bias, for one row (correct for any number)."""
    outputs, inputs = weight.shape
    if outputs < inputs:
        return pack_none(weight, bias)
    transposed = weight.t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, transposed)
    return lambda x: torch.addmm(bias, x, transposed)


def pack_for_matrix(weight: Tensor, bias: Tensor | None) -> LinearFn:
    """x · weightᵀ + bias, for several rows."""
    if not can_pack(weight):
        return pack_none(weight, bias)
    multiply, packed = torch.ops.mkldnn._linear_pointwise, torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda x: multiply(x, packed, bias, "none", [], "")


def pack_none(weight: Tensor, bias: Tensor | None) -> LinearFn:
    """x · weightᵀ + bias, without a copy of the weight."""
    return lambda x: functional.linear(x, weight, bias)


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN can pack the weight; the operations are internal to torch and may be absent."""
    is_float_on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
    operations = ("_reorder_linear_weight", "_linear_pointwise")
    has_onednn = is_float_on_cpu and torch.backends.mkldnn.is_available()
    return has_onednn and all(hasattr(torch.ops.mkldnn, name) for name in operations)
