"""Vectors in context from any encoder: of any layer, or of a mixture of layers, for tokens or for whole rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from forebear.networks.batching import batches, states_of
from forebear.networks.encoding import for_many
from forebear.networks.model import Model

Pooling = Literal["mean", "first", "last", "max"]


def vectors(model: Model, rows: Sequence[np.ndarray], mixture: Mapping[int, float]) -> list[np.ndarray]:
    """(n, D) for each row: Σ weight · layer over the `mixture`; layer 0 is the embedding, -1 the last."""
    found: list[np.ndarray] = [np.empty(0)] * len(rows)
    for batch, mixed in _mixed(model, rows, mixture):
        parts = mixed.float().cpu().split([len(rows[number]) for number in batch])
        for number, part in zip(batch, parts, strict=True):
            found[number] = part.numpy()
    return found


def pooled(model: Model, rows: Sequence[np.ndarray], mixture: Mapping[int, float], pooling: Pooling) -> np.ndarray:
    """(rows, D): one vector for each row, made of its tokens' as `pooling` says; they themselves are not kept."""
    found: np.ndarray | None = None
    for batch, mixed in _mixed(model, rows, mixture):
        lengths = torch.tensor([len(rows[number]) for number in batch], device=mixed.device)
        with torch.inference_mode():
            made = of_rows(mixed, lengths, pooling).float().cpu().numpy()
        found = np.empty((len(rows), made.shape[1]), np.float32) if found is None else found
        found[batch] = made
    return np.empty((0, 0), np.float32) if found is None else found


def of_rows(x: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """(T, D) → (B, D)."""
    if pooling in ("mean", "max"):
        return torch.segment_reduce(x, pooling, lengths=lengths, axis=0)
    ends = lengths.cumsum(0)
    return x[ends - lengths if pooling == "first" else ends - 1]


def _mixed(
    model: Model, rows: Sequence[np.ndarray], mixture: Mapping[int, float]
) -> Iterator[tuple[list[int], Tensor]]:
    """The numbers of some rows, and the (T, D) mixture of their layers, until all rows were there."""
    model = for_many(model.eval(), sum(map(len, rows)))
    for batch in batches([len(row) for row in rows]):
        with torch.inference_mode():  # not around the yield: it would hold for whoever asks as well
            layers = states_of(model, [rows[number] for number in batch]).layers
            mixed = sum(layers[layer] if weight == 1 else layers[layer] * weight for layer, weight in mixture.items())
        assert isinstance(mixed, Tensor)
        yield batch, mixed
