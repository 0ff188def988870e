"""A step made by several processes: the first has the loop, the folder and the text, and tells the others what to do.

It draws each batch, cuts it into parts and hands them out; the others need no text, no folder and no clock. So whatever
is decided (when to look, to save, to stop) is decided once, and nobody can wait for what another will not do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from forebear.nn.model import Model
from forebear.objectives.batch import Batch
from forebear.training.gradient import (
    BENCHMARK_STEPS,
    DeviceConfig,
    GradientLearner,
    Losses,
    MicroBatch,
    mean_losses,
    sum_losses,
)
from forebear.training.learners import Learner
from forebear.training.line import Line, Teller
from forebear.training.settings import Recipe

Result = tuple[Losses, set[str]]  # of a process's share of a step: losses, and the names of what has a gradient


class Way(Protocol):
    """How weights are the same everywhere, and gradients of all become one. `worker` learns in this process."""

    @property
    def worker(self) -> GradientLearner: ...

    def __init__(self, line: Any, learner: GradientLearner) -> None: ...

    def ready(self) -> None:
        """All have what the learner of the first process has."""
        ...

    def shared_out(self, parts: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        """The parts for each process."""
        ...

    def gradients(self, job: Step) -> Result | None:
        """Of our share of a step; None: there was not enough memory."""
        ...

    def moved(self, names: set[str], rate: float) -> bool:
        """Takes the step that the gradients of all say, for what has any; whether they were numbers."""
        ...

    def gathered(self) -> None:
        """The learner of the first process has everything again, to be saved or asked."""
        ...


# -- what the others are told; each word is answered when it is done, the last is None


@dataclass(frozen=True)
class Learn:
    """A network without values, and all else that a learner is made of."""

    network: Model
    recipe: Recipe
    device: DeviceConfig
    shares: Mapping[str, float]
    way: type[Way]


@dataclass(frozen=True)
class Ready: ...


@dataclass(frozen=True)
class Step:
    parts: Sequence[MicroBatch]
    asked: Mapping[str, int]
    step: int
    rate: float


@dataclass(frozen=True)
class Examine:
    parts: Sequence[MicroBatch]


@dataclass(frozen=True)
class Gather: ...


def stepped(line: Line, way: Way, job: Step) -> tuple[Losses, bool] | None:
    """Our share of a step; None: somebody had not enough memory, and nothing was done."""
    found: Result | None = line.agreed(way.gradients(job), _merged)
    if found is None:
        way.worker.optimiser.zero_grad()
        return None
    losses, names = found
    return losses, way.moved(names, job.rate)


def _merged(told: Sequence[Result | None]) -> Result | None:
    found = [one for one in told if one is not None]
    if len(found) < len(told):
        return None
    return [one for losses, _ in found for one in losses], set().union(*(names for _, names in found))


def in_order(parts: Sequence[MicroBatch], size: int) -> list[list[MicroBatch]]:
    """About as many for each process; those of one come before those of the next."""
    cuts = np.linspace(0, len(parts), size + 1).round().astype(int).tolist()
    return [list(parts[first:last]) for first, last in pairwise(cuts)]


class Leading(Learner):
    """What the loop of the first process takes for a learner."""

    def __init__(self, learner: GradientLearner, line: Teller, way: type[Way]) -> None:
        self.learner, self.line, self.notes = learner, line, learner.notes
        word = Learn(learner.model, learner.recipe, learner.device, learner.shares, way)
        self.line.tell([word] * (line.size - 1))
        self.way = way(line, learner)
        self.line.answers()

    @property
    def model(self) -> Any:
        self._all(Gather(), self.way.gathered)
        return self.learner.model

    def initialize(self) -> None:
        self.learner.initialize()
        self._all(Ready(), self.way.ready)

    def load(self, folder: Path) -> None:
        self.learner.load(folder)
        self._all(Ready(), self.way.ready)

    def save(self, folder: Path) -> None:
        self._all(Gather(), self.way.gathered)
        self.learner.save(folder)

    def resolved_settings(self) -> dict[str, Any]:
        return self.learner.resolved_settings()

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        asked, rate = batch.supervised_counts(), self.learner.recipe.rate * share
        while True:
            jobs = [Step(parts, asked, step, rate) for parts in self._shared_out(batch)]
            found = self._each(jobs, lambda job: stepped(self.line, self.way, job))
            if found is not None:
                losses, finite = found
                return mean_losses(losses, asked, finite)
            self.learner.halve_micro_batches([part.batch for job in jobs for part in job.parts])

    def evaluate(self, batch: Batch) -> dict[str, float]:
        while True:
            jobs = [Examine(parts) for parts in self._shared_out(batch)]
            answers: list[Losses | None] = []
            own = self._each(jobs, lambda job: self.way.worker.evaluate_parts(job.parts), answers)
            found = [one for one in (own, *answers) if one is not None]
            if len(found) == len(jobs):
                return sum_losses([one for losses in found for one in losses])
            self.learner.halve_micro_batches([part.batch for job in jobs for part in job.parts])

    def time_step(self, batch: Batch) -> float:
        """How long a step takes; the number of threads follows from that of processes, and is not tried."""
        seconds = []
        for _ in range(BENCHMARK_STEPS):
            began = time.monotonic()
            self.step(batch, 0, 0.0)
            seconds.append(time.monotonic() - began)
        return min(seconds)

    def _shared_out(self, batch: Batch) -> list[list[MicroBatch]]:
        """As many parts as a single process would make of a step, or one for each process."""
        size = self.line.size
        count = -(-self.learner.parts // size) * size
        return self.way.shared_out([MicroBatch(*one) for one in enumerate(batch.split(count))])

    def _all(self, word: Any, own: Callable[[], None]) -> None:
        self._each([word] * self.line.size, lambda _: own())

    def _each(self, words: Sequence[Any], own: Callable[[Any], Any], answers: list[Any] | None = None) -> Any:
        """Everybody does what it is told, we the first; what we found, and what the others answer."""
        self.line.tell(words[1:])
        try:
            found = own(words[0])
        except RuntimeError as error:  # of something that all do together: who failed first knows why
            raise self.line.cause(error) from error
        told = self.line.answers()
        if answers is not None:
            answers += told
        return found
