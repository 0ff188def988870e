"""Vectors in context from any encoder: of any layer, or of a mixture of layers, for every token of many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from forebear.networks.batching import batches, states_of
from forebear.networks.model import Model


@torch.inference_mode()
def vectors(model: Model, rows: Sequence[np.ndarray], mixture: Mapping[int, float]) -> list[np.ndarray]:
    """(n, D) for each row: Σ weight · layer over the `mixture`; layer 0 is the embedding, -1 the last."""
    model.eval()
    found: list[np.ndarray] = [np.empty(0)] * len(rows)
    for batch in batches([len(row) for row in rows]):
        layers = states_of(model, [rows[number] for number in batch]).layers
        mixed = sum(layers[layer] * weight for layer, weight in mixture.items())
        assert isinstance(mixed, torch.Tensor)
        parts = mixed.float().cpu().split([len(rows[number]) for number in batch])
        for number, part in zip(batch, parts, strict=True):
            found[number] = part.numpy()
    return found
