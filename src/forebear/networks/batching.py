"""Rows through an encoder that is only asked: longest first, as many at once as fill the processor, never padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from forebear.networks.states import States

if TYPE_CHECKING:
    from forebear.networks.model import Model

AT_ONCE = 2048  # tokens in one batch: enough for the processor, and what lies between two layers stays in its cache


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of rows, the longest first, in batches of about `AT_ONCE` tokens: equal lengths stand together."""
    batch: list[int] = []
    size = 0
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if batch and size + lengths[number] > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += lengths[number]
    if batch:
        yield batch


def states_of(model: Model, rows: Sequence[np.ndarray], segments: Sequence[np.ndarray] | None = None) -> States:
    """The states of these rows together."""
    more: dict[str, Any] = {} if segments is None else {"segments": tensor(model, np.concatenate(segments))}
    return model.encoder(tensor(model, np.concatenate(rows)), [len(ids) for ids in rows], **more)


def tensor(model: Model, array: np.ndarray) -> Tensor:
    """Ids or places, where the model is."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(model.device)
