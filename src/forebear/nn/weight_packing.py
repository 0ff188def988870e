"""Linear layers whose weights are laid out anew for speed, for models that are only read: few rows at a time, often.

Measured with one thread on an AVX2 processor, in GFLOP/s for 768 → 3,072 and the 768 → 50,257 of GPT-2's vocabulary:
    rows   [out, in] as trained   [in, out]   packed by oneDNN
      1       5.3 / 5.7           7.5 / 10.8     5.9 / 7.3
      8      16.5 / 16.8         13.9 / 14.8    21.7 / 28.0
A layer that narrows is as fast in its own layout for one row. A layout is a second copy of the weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.heads import LMHead
from forebear.nn.layers import DeferredLinear
from forebear.nn.quantized import QuantizedEmbedding, QuantizedLinear

LinearFn = Callable[[Tensor], Tensor]
PackFn = Callable[[Tensor, Tensor | None], LinearFn]


def packed_linear(layer: nn.Module, pack: PackFn) -> LinearFn:
    """A linear layer, laid out; one of small integers has its own way, and so has any other."""
    if type(layer) is DeferredLinear:
        return pack(layer.weight, layer.bias)
    return layer.laid_out() if isinstance(layer, QuantizedLinear) else layer


def packed_lm_head(head: LMHead, pack: PackFn) -> LinearFn:
    """What scores every token of the vocabulary, by the same rule; `head.transformed` comes before it."""
    if type(head) is not LMHead:
        return head.logits_from
    embedding = head.embedding
    return embedding.product(head.bias) if isinstance(embedding, QuantizedEmbedding) else pack(head.weight, head.bias)


def pack_for_vector(weight: Tensor, bias: Tensor | None) -> LinearFn:
    """x · weightᵀ + bias, for x of one row (and right for any)."""
    outputs, inputs = weight.shape
    if outputs < inputs:
        return pack_none(weight, bias)
    transposed = weight.t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, transposed)
    return lambda x: torch.addmm(bias, x, transposed)


def pack_for_matrix(weight: Tensor, bias: Tensor | None) -> LinearFn:
    """The same for x of several rows."""
    if not can_pack(weight):
        return pack_none(weight, bias)
    multiply, packed = torch.ops.mkldnn._linear_pointwise, torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda x: multiply(x, packed, bias, "none", [], "")


def pack_none(weight: Tensor, bias: Tensor | None) -> LinearFn:
    """The same without a copy."""
    return lambda x: functional.linear(x, weight, bias)


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN can pack it: an operation that torch keeps for its own compiler, so it may be absent."""
    is_supported = (
        weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    )
    return (
        is_supported
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
