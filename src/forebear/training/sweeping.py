"""Learning in place: compiled loops sweep over the text and move the rows of tables, without torch."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forebear.objectives.batch import Batch, Objective
from forebear.text.portion import Portion
from forebear.text.workers import cores
from forebear.training.learner import REMEMBERED, WEIGHTS, Learner
from forebear.training.recipe import Recipe

TRIAL = 3  # steps of which the last are timed


class Sweeping(Learner):
    """Gives each batch to a table of vectors; `given` is what it begins with, if not with chance.

    Several threads move the same rows without waiting for each other: fast, and no two runs end alike. With
    `deterministic` they do, whatever the number of threads.
    """

    def __init__(self, network: Any, recipe: Recipe, given: Mapping[str, np.ndarray] | None = None) -> None:
        self.network, self.recipe, self.given = network, recipe, given
        self.threads = recipe.threads or cores()
        self.notes: list[str] = []

    def meet(self, objective: Objective, source: Portion) -> None:
        """Shows the network the whole text that it will learn from, so that it knows how often there is what."""
        self.network.meet(source, self.given)
        self.notes += self.network.notes

    def begin(self) -> None:
        self.network.begin(self.recipe.seed)
        if self.given is not None:
            told = len(self.network.notes)
            self.network.go_on_from(self.given)
            self.notes += self.network.notes[told:]

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        loss = self.network.sweep(
            batch,
            rate=self.recipe.rate * share,
            moment=(self.recipe.seed, step),
            threads=self.threads,
            deterministic=bool(self.recipe.deterministic),
        )
        return {} if loss is None else {name: float(loss) for name in self.network.heads}

    def examine(self, batch: Batch) -> dict[str, float]:
        """As much for each that the batch asks as a pair costs in the mean: there are more pairs than words."""
        total, count = self.network.examine(batch)
        return {name: total / max(1, count) * asked for name, asked in batch.asked().items()}

    def tried(self, batch: Batch) -> float:
        seconds = []
        for number in range(TRIAL):  # the first may have to be compiled
            began = time.monotonic()
            self.step(batch, number, 1.0)
            seconds.append(time.monotonic() - began)
        return max(min(seconds), math.ulp(1.0))

    def settled(self) -> dict[str, Any]:
        return {"threads": self.threads}

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        save_file(self.network.arrays(), folder / WEIGHTS)
        if remembered := self.network.remembered():
            save_file(remembered, folder / REMEMBERED)

    def load(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self.network.load(load_file(folder / WEIGHTS))
        if self.network.remembered():
            self.network.remember(load_file(folder / REMEMBERED))
