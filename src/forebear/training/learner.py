"""The protocol of learners: what the trainer asks of whatever is trained."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, Protocol

from forebear.objectives.batch import Batch
from forebear.objectives.objective import Objective

NUM_TIMED_STEPS = 3  # steps that are timed and then discarded


class Learner(Protocol):
    """Holds a model and trains it batch by batch; `save` writes all that `load` needs to continue."""

    model: Any
    notes: list[str]  # for the user; the training loop shows and removes them
    has_converged: bool = False  # whether training has converged

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        """Learns from a batch, with this fraction of the peak learning rate; returns the mean loss of each target."""
        ...

    def evaluate(self, batch: Batch) -> dict[str, float]:
        """The summed loss of each target."""
        ...

    def initialize(self) -> None:
        """Initializes the weights from the seed."""
        ...

    def resolved_settings(self) -> dict[str, Any]:
        """Settings that the recipe left open, as chosen here: with them a run can be repeated exactly."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the weights and the training state to a folder."""
        ...

    def load(self, folder: Path) -> None: ...

    # Optional methods.

    def time_step(self, batch: Batch) -> float:
        """Seconds of a step, measured on steps that are discarded; may also tune the number of threads."""
        seconds = min(self._time_one_step(batch) for _ in range(NUM_TIMED_STEPS))  # the first may have to be compiled
        return max(seconds, math.ulp(1.0))

    def _time_one_step(self, batch: Batch) -> float:
        start = time.monotonic()
        self.step(batch, 0, 0.0)
        return time.monotonic() - start

    def prepass(self, objective: Objective, source: Any) -> None:
        """Gathers statistics of all of the text before training, if needed."""
        return

    def clipping_stats(self) -> dict[str, float]:
        """Number of clipped gradients and largest gradient norm since the last call, if any."""
        return {}

    def conclude(self) -> None:
        """Called after the last step, before the last evaluation."""
        return


WEIGHTS_FILE = "weights.safetensors"  # the model

LEARNER_STATE_FILE = "learner.safetensors"  # the training state
