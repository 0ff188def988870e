"""Learning by addition: n-grams and other models of counts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from forebear.objectives.batch import Batch
from forebear.statistics.ngram import NgramModel
from forebear.text.workers import cores
from forebear.training.learner import WEIGHTS, Learner
from forebear.training.recipe import Recipe


class Counting(Learner):
    """Counts each text once; there is no rate, and nothing to remember beside the counts."""

    def __init__(self, network: Any, recipe: Recipe) -> None:
        self.network, self.recipe = network, recipe
        self.notes: list[str] = []
        if isinstance(network, NgramModel):
            network.tally.threads = recipe.threads or cores()
            network.tally.memory = recipe.max_memory or network.tally.memory

    def begin(self) -> None:
        """Counts begin at zero, as the network was made."""

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        self.network.count(batch.inputs["tokens"], batch.inputs["lengths"], batch.targets["next"])
        return {}

    def conclude(self) -> None:
        """Counts what was only gathered so far, so that its time is told."""
        if isinstance(self.network, NgramModel):
            _ = self.network.counts

    def examine(self, batch: Batch) -> dict[str, float]:
        tokens, targets = batch.inputs["tokens"], batch.targets["next"]
        borders = np.concatenate(([0], np.cumsum(batch.inputs["lengths"])))
        rows = [np.append(tokens[first:last], targets[last - 1]) for first, last in pairwise(borders.tolist())]
        return {"next": -float(sum(scores.sum() for scores in self.network.score(rows)))}

    def tried(self, batch: Batch) -> float:
        return 0.0

    def settled(self) -> dict[str, Any]:
        return {}

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        if isinstance(self.network, NgramModel):
            self.network.save(folder / WEIGHTS)
        else:
            save_file(self.network.arrays(), folder / WEIGHTS)

    def load(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self.network.load(load_file(folder / WEIGHTS))
