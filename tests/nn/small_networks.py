"""Small networks, inputs and random sequences for tests of this folder."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from forebear.nn.embedding import InputEmbedding, PositionKind
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.transformer import NormPosition, Transformer

VOCABULARY = 53


def decoder_model(
    *,
    norm: NormPosition = "pre",
    context: int = 24,
    depth: int = 2,
    width: int = 32,
    shared: bool = False,
    spread: float = 8.0,
    placing: PositionKind = "learned",
    scale: float = 1.0,
) -> Model:
    """A causal model whose weights are large enough that its predictions differ clearly between tokens."""
    embedding = InputEmbedding(VOCABULARY, width, positions=context, placing=placing, scale=scale)
    encoder = Transformer(
        embedding,
        depth=depth,
        width=width,
        num_heads=4,
        inner=4 * width,
        norm=norm,
        sees="past",
        activation="gelu-tanh",
        shared=shared,
    )
    model = Model(encoder, {"next": LMHead(embedding)}).initialize(7)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() > 1:
                value.mul_(spread)
            elif name.endswith("bias"):
                value.normal_(0, 0.1, generator=torch.Generator().manual_seed(len(name)))
    return model.eval()


def inputs(rows: list[np.ndarray] | list[list[int]]) -> dict[str, Tensor]:
    flat = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return {"tokens": torch.from_numpy(flat), "lengths": torch.tensor([len(row) for row in rows])}


def rows_of(*lengths: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocabulary, length) for length in lengths]
