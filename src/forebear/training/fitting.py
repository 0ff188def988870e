"""Learning all at once: linear models, whose best weights are found, not approached step by step."""

from __future__ import annotations

import numpy as np

from forebear.objectives.batch import Batch, is_asked
from forebear.statistics.linear import LinearModel
from forebear.training.counting import Counting
from forebear.training.recipe import Recipe

LONGEST = 300.0  # seconds, where nothing says how long: a baseline is to be quick


class Fitting(Counting):
    """One step sees every example. `weights` are those of labels, where mistakes about some count more."""

    def __init__(self, network: LinearModel, recipe: Recipe, weights: tuple[float, ...] | None = None) -> None:
        super().__init__(network, recipe)
        self.weights = weights

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
