"""How likely given translations are, token by token, by any network that reads one text and writes another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forebear.networks.batching import batches, tensor
from forebear.networks.heads import TokenHead
from forebear.networks.model import Model


def scores_of(
    model: Model, head: TokenHead, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int
) -> list[np.ndarray]:
    """log P of each token of each target given its source and those before it; `start` is seen before the first."""
    found: list[np.ndarray] = [np.empty(0)] * len(targets)
    for batch in batches([len(source) + len(target) for source, target in zip(sources, targets, strict=True)]):
        read, written = [sources[number] for number in batch], [targets[number] for number in batch]
        seen = [np.concatenate(([start], target[:-1])) for target in written]
        lengths = [len(target) for target in written]
        states = model.encoder(
            tensor(model, np.concatenate(seen)),
            lengths,
            tensor(model, np.concatenate(read)),
            [len(source) for source in read],
        )
        scores = head.log_probabilities(states.last, tensor(model, np.concatenate(written)))
        for number, part in zip(batch, scores.float().cpu().split(lengths), strict=True):
            found[number] = part.numpy()
    return found
