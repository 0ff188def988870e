"""Learning all at once: linear models, whose best weights are found, not approached step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from forebear.objectives.batch import Batch, is_asked
from forebear.statistics.linear import LinearModel
from forebear.training.learner import WEIGHTS
from forebear.training.recipe import Recipe

LONGEST = 300.0  # seconds, where nothing says how long: a baseline is to be quick


class Fitting:
    """One step sees every example. `weights` are those of labels, where mistakes about some count more."""

    def __init__(self, network: LinearModel, recipe: Recipe, weights: tuple[float, ...] | None = None) -> None:
        self.network, self.recipe, self.weights = network, recipe, weights
        self.notes: list[str] = []  # what has to be said of it

    def begin(self) -> None:
        """There is nothing to begin with."""

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        limit = self.recipe.time if self.recipe.time is not None else LONGEST
        fitted = self.network.fit(batch.inputs, batch.targets, weights=self._weights(batch), seconds=limit)
        if fitted.ended == "time":
            told = (
                f"after {limit:,.0f} s the best weights were not found yet: the best so far are kept; --time gives more"
            )
            self.notes.append(told)
        return {self.network.heads[0]: fitted.loss}

    def _weights(self, batch: Batch) -> np.ndarray | None:
        if self.weights is None or "label" not in batch.targets or batch.targets["label"].ndim > 1:
            return None
        label = batch.targets["label"]
        return np.where(is_asked(label), np.array(self.weights)[np.maximum(label, 0)], 0.0)

    def examine(self, batch: Batch) -> dict[str, float]:
        """Nothing: it is judged by its answers."""
        return {}

    def tried(self, batch: Batch) -> float:
        return 0.0

    def settled(self) -> dict[str, Any]:
        return {}

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        save_file(self.network.arrays(), folder / WEIGHTS)

    def load(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self.network.load(load_file(folder / WEIGHTS))
