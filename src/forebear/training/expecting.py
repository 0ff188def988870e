"""Learning by expectation: what nobody saw is counted as often as it is expected, epoch after epoch (EM)."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from forebear.objectives.batch import Batch, Objective
from forebear.objectives.every_text import EveryText
from forebear.text.portion import Portion
from forebear.training.counting import Counting
from forebear.training.learner import REMEMBERED
from forebear.training.recipe import Recipe

BLOCK = 1 << 22  # tokens that are counted together


class Expecting(Counting):
    """An epoch is an iteration: what is expected adds up over its batches, and at its end the tables are renewed.

    The tables that expect stay the same for a whole epoch, so that batches of any size end in the same bits.
    """

    def __init__(self, network: Any, recipe: Recipe) -> None:
        super().__init__(network, recipe)
        self.epoch = 1

    def meet(self, objective: Objective, source: Portion) -> None:
        """Tells how often each token stands in the text, and how many steps show all of it."""
        self.epoch = objective.steps(source, self.recipe.batch)
        counts = np.zeros(self.network.vocabulary, np.int64)
        for begin in range(0, source.tokens, BLOCK):
            ids, _ = source.stretch(begin, min(begin + BLOCK, source.tokens))
            counts += np.bincount(ids, minlength=len(counts))
        unit = objective.unit if isinstance(objective, EveryText) else "document"
        counts[self.network.end] += len(source.by_sentence() if unit == "sentence" else source)
        self.network.meet(counts)

    def begin(self) -> None:
        self.network.begin(self.recipe.seed)

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        targets = batch.targets["next"]
        loss = self.network.expect(batch.inputs["tokens"], batch.inputs["lengths"], targets)
        if (step + 1) % self.epoch == 0:
            self.network.renew()
        return {"next": loss / len(targets)} if len(targets) else {}

    def conclude(self) -> None:
        """Where time was up before the first epoch was, what was seen of the text has to do."""
        if not self.network.iterations and self.network.has_expectations:
            self.network.renew()
            self.notes.append("time was up before all text was seen once: it learned from a part of it (--time)")

    def tried(self, batch: Batch) -> float:
        seconds = math.inf
        for _ in range(2):  # the first may have to be compiled
            began = time.monotonic()
            self.step(batch, 0, 1.0)
            seconds = min(seconds, time.monotonic() - began)
        return max(seconds, math.ulp(1.0))

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        super().save(folder)
        if self.network.has_expectations:  # else an epoch has just ended
            save_file(self.network.remembered(), folder / REMEMBERED)

    def load(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        super().load(folder)
        if (folder / REMEMBERED).exists():
            self.network.remember(load_file(folder / REMEMBERED))
