"""Learning by L-BFGS, a step at a time: chains of labels, whose best weights are found from all sentences at once.

A step of training is a step of the search. What the search remembers is saved with every checkpoint, so that a run that
was killed goes on and ends in the same bits.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from forebear.objectives.batch import Batch
from forebear.statistics.crf import CrfModel
from forebear.statistics.crf_objective import Problem
from forebear.statistics.lbfgs import Search
from forebear.training.counting import Counting
from forebear.training.learner import REMEMBERED, WEIGHTS
from forebear.training.recipe import Recipe

MEMORY = 6  # steps that are remembered: more costs room, and brings little
STILL = 1e-4  # of the cost: where ten steps together go lower by less, it has learned what there is to learn
FLAT = 1e-5  # of its point's length is the gradient's, where it is as low as can be


class Chaining(Counting):
    """Every step shows all sentences, in the same order."""

    network: CrfModel

    def __init__(self, network: CrfModel, recipe: Recipe) -> None:
        super().__init__(network, recipe)
        self.ended = False
        self.threads = recipe.threads or len(os.sched_getaffinity(0))
        self._problem: Problem | None = None
        self._search: Search | None = None
        self._state: dict[str, np.ndarray] | None = None

    def begin(self) -> None:
        """All weights begin at 0."""
        self._search = self._state = None
        self.ended = False

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        problem, search = self._begun(batch)
        before = search.value
        self.ended = not search.step() or self._is_low(search)
        self.network.take(search.point)
        return {"tag": before / max(1, len(problem.right))}

    def _begun(self, batch: Batch) -> tuple[Problem, Search]:
        if self._problem is None:
            self._problem = self.network.problem(batch.inputs, batch.targets["tag"], self.threads)
        if self._search is None:
            how: dict[str, Any] = {"memory": MEMORY, "l1": self.network.l1, "state": self._state}
            how["curvature"] = self._problem.curvature
            self._search, self._state = Search(self._problem.value, np.zeros(self._problem.size), **how), None
        return self._problem, self._search

    @staticmethod
    def _is_low(search: Search) -> bool:
        flat = np.linalg.norm(search.slope) <= FLAT * max(1.0, float(np.linalg.norm(search.point)))
        return bool(flat) or search.fallen() < STILL * abs(search.value)

    def examine(self, batch: Batch) -> dict[str, float]:
        """Nothing: it is judged by its answers."""
        return {}

    def tried(self, batch: Batch) -> float:
        """How long a look at all sentences takes; a step is hardly more."""
        self._begun(batch)
        began = time.monotonic()
        assert self._problem is not None
        self._problem.value(np.zeros(self._problem.size))
        return time.monotonic() - began

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        assert self._search is not None
        save_file(self.network.arrays(), folder / WEIGHTS)
        state = self._search.arrays() | {"ended": np.array([self.ended])}
        save_file({name: np.ascontiguousarray(array) for name, array in state.items()}, folder / REMEMBERED)

    def load(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self._search, self._state = None, load_file(folder / REMEMBERED)
        self.ended = bool(self._state.pop("ended")[0])
        self.network.load(load_file(folder / WEIGHTS))
