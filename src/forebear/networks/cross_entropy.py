"""The cost of naming the right token among all of a vocabulary, without ever holding all their scores."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

CHUNK = 512  # rows of scores held at once


def summed_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
    """Σ −log softmax(x · weightᵀ + bias)[target] over the (N, D) vectors x; weight is (V, D), target (N,)."""
    return functional.cross_entropy(functional.linear(x, weight, bias), target, reduction="sum")


def log_probabilities(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
    """(N,) log softmax(x · weightᵀ + bias)[target], in parts, so that memory does not grow with N."""
    found = []
    for part, wanted in zip(x.split(CHUNK), target.split(CHUNK), strict=True):
        logits = functional.linear(part, weight, bias)
        found.append(-functional.cross_entropy(logits.float(), wanted, reduction="none"))
    return torch.cat(found)
