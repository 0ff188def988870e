"""The learner protocol: the methods that the training loop calls, and the names of the files that they save."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, Protocol

from forebear.objectives.batch import Batch
from forebear.objectives.objective import Objective

NUM_TIMED_STEPS = 3  # steps that are timed and then discarded


class Learner(Protocol):
    """Holds a model and trains it batch by batch; `save` writes everything that `load` needs to resume."""

    model: Any
    notes: list[str]  # for the user; the training loop shows and removes them
    has_converged: bool = False

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        """Train on a batch with this fraction of the peak learning rate; returns the mean loss of each target."""
        ...

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The summed loss of each target."""
        ...

    def initialize(self) -> None:
        """Initialize the weights from the seed."""

    def resolved_settings(self) -> dict[str, Any]:
        """The values chosen for settings that the recipe left open, with which a run can be repeated exactly."""
        ...

    def save(self, folder: Path) -> None:
        """Write the weights and the training state to a folder."""

    def load(self, folder: Path) -> None: ...

    # Defaults; subclasses may override them.

    def time_step(self, batch: Batch) -> float:
        """Duration of a step in seconds, measured on discarded steps; may also tune the number of threads."""
        seconds = min(self._time_one_step(batch) for _ in range(NUM_TIMED_STEPS))  # the first may have to be compiled
        return max(seconds, math.ulp(1.0))

    def _time_one_step(self, batch: Batch) -> float:
        start = time.monotonic()
        self.step(batch, 0, 0.0)
        return time.monotonic() - start

    def run_first_pass(self, objective: Objective, source: Any) -> None:
        """Gather statistics of the whole text before training, if the model needs them."""

    def clipping_stats(self) -> dict[str, float]:
        """Number of clipped gradients and largest gradient norm since the last call, if any."""
        return {}

    def finish_training(self) -> None:
        """Finish training: called after the last step, before the last evaluation."""


WEIGHTS_FILE = "weights.safetensors"  # the model

LEARNER_STATE_FILE = "learner.safetensors"  # the training state
