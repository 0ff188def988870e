"""Learning by gradient descent: AdamW on losses that are weighted by what was asked."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.objectives.batch import Arrays, Batch
from forebear.training.adamw import AdamW
from forebear.training.device import Device
from forebear.training.learner import REMEMBERED, WEIGHTS, Learner
from forebear.training.recipe import Recipe

if TYPE_CHECKING:
    from forebear.networks.model import Model


TRIAL = 3  # steps made and forgotten, with each number of threads
CARRIED = "carried."  # what the name of a state begins with that a step hands to the next
SHARE_OF_TRIAL = 0.02  # of the time given: where a step takes long, fewer are tried


@dataclass(frozen=True)
class Part:
    """A part of a step's batch, and which it is: its chance follows from that. One that does not count is idle work."""

    number: int
    batch: Batch
    counts: bool = True


Losses = list[dict[str, float]]  # of each target, summed, in each part


class Descending(Learner):
    """Everything from NNLM on. Some of its values may be `given` to begin with.

    `shares` are those of the rate that some parameters learn with, by name.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        device: Device,
        given: Mapping[str, Tensor] | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.network, self.recipe, self.device, self.given = model, recipe, device, given
        self.shares = shares or {}
        self.parts = recipe.accumulate  # of a step: more, once memory has turned out to be too small
        self.notes: list[str] = []
        self.clipped, self.largest = 0, 0.0  # steps whose gradient was too long, and the longest, since last told

    def begin(self) -> None:
        self.network.initialise(self.recipe.seed, self.given)
        if self.network.carried is not None:
            self.network.carried.forget()
        self.ready()

    def ready(self) -> None:
        """The optimiser for the network as it now is."""
        self.network.to(self.device.name)
        learned = {name: tensor for name, tensor in self.network.named_parameters() if tensor.requires_grad}
        self.optimiser = AdamW(learned, decay=self.recipe.decay, memory=self.recipe.memory, shares=self.shares)
        self._chance = self.network.drops

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        asked = batch.asked()
        while True:
            parts = batch.parts(self.parts)
            losses = self.gradients([Part(*one) for one in enumerate(parts)], asked, step)
            if losses is not None:
                return means(losses, asked, self.moved(self.recipe.rate * share))
            self.divide(parts)

    def gradients(self, parts: Sequence[Part], asked: Mapping[str, int], step: int) -> Losses | None:
        """Adds up the gradients of these parts of a step that asks so much; None: there was not enough memory."""
        self.network.train()
        found: Losses = []
        try:
            for part in parts:
                if self._chance:  # dropout too is a function of (seed, step), and of the part
                    torch.manual_seed(_chance(self.recipe.seed, step, part.number))
                losses, weights = self._losses(part.batch), part.batch.weights
                cost = [losses[name] * weights.get(name, 1.0) / max(1, asked[name]) for name in losses]
                (torch.stack(cost).sum() if part.counts else 0.0 * torch.stack(cost).sum()).backward()
                found += [{name: float(loss.detach()) for name, loss in losses.items()}] * part.counts
        except (RuntimeError, MemoryError) as error:
            if not _lacks_memory(error):
                raise
            self.optimiser.clear()
            return None
        return found

    def moved(self, rate: float) -> bool:
        """Takes the step that the gradients say, if they are numbers: a checkpoint never holds what is none."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.optimiser.parameters.values(), self.recipe.clip))
        finite = math.isfinite(norm)
        self.clipped += norm > self.recipe.clip
        self.largest = max(self.largest, norm) if finite else self.largest
        if finite:
            self.optimiser.step(rate)
            if self.network.carried is not None:
                self.network.carried.settle()
        self.optimiser.clear()
        return finite

    def told(self) -> dict[str, float]:
        """How many gradients were clipped since it was last asked, and how long the longest was."""
        told = {"clipped": self.clipped, "largest_gradient": self.largest}
        self.clipped, self.largest = 0, 0.0
        return told

    def divide(self, parts: Sequence[Batch]) -> None:
        """From now on a step has twice as many parts as these, which were too large; an error, if that cannot be."""
        if all(len(np.unique(_examples(part))) == 1 for part in parts):
            raise ForebearError(
                "out of memory, even with a single example at a time",
                remedy="choose a smaller --size, --context or --vocabulary, or a machine with more memory",
            )
        self.parts = 2 * len(parts)
        many = f"{len(parts)} part{'s' * (len(parts) > 1)}"
        self.notes.append(f"memory is too small for a step in {many}: from now on it is made in {self.parts}")

    def tried(self, batch: Batch) -> float:
        """Given a time, it depends on the clock anyway: so the clock may also say how many threads are fastest."""
        free = self.recipe.threads is None and self.device.threads > 1
        counts = [self.device.threads, self.device.threads // 2] if free else [self.device.threads]
        seconds: dict[int, float] = {}
        spent, most = 0.0, SHARE_OF_TRIAL * (self.recipe.time or math.inf)
        for threads in counts * TRIAL:
            if spent > most and seconds:
                break
            torch.set_num_threads(threads)
            took = self._timed(batch)
            seconds[threads] = min(took, seconds.get(threads, took))
            spent += took
        best = min(seconds, key=lambda threads: seconds[threads])
        torch.set_num_threads(best)
        self.device = replace(self.device, threads=best)
        return seconds[best]

    def _timed(self, batch: Batch) -> float:
        began = time.monotonic()
        self.step(batch, 0, 0.0)
        return time.monotonic() - began

    def settled(self) -> dict[str, Any]:
        return {"device": self.device.name, "threads": self.device.threads, "precision": self.device.precision}

    def examine(self, batch: Batch) -> dict[str, float]:
        while True:
            parts = batch.parts(self.parts)
            losses = self.examined([Part(*one) for one in enumerate(parts)])
            if losses is not None:
                return totals(losses)
            self.divide(parts)

    @torch.no_grad()
    def examined(self, parts: Sequence[Part]) -> Losses | None:
        """The losses of these parts; None: there was not enough memory."""
        self.network.eval()
        try:
            found = [{name: float(loss) for name, loss in self._losses(part.batch).items()} for part in parts]
        except (RuntimeError, MemoryError) as error:
            if not _lacks_memory(error):
                raise
            return None
        return [losses for losses, part in zip(found, parts, strict=True) if part.counts]

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        with self.device.precisely():
            return self.network(self._tensors(batch.inputs), self._tensors(batch.targets))

    def _tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array).to(self.device.name) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        save_file({name: tensor.detach().cpu() for name, tensor in self.network.tensors().items()}, folder / WEIGHTS)
        moments = self.optimiser.tensors()
        if self.network.carried is not None:
            moments |= {f"{CARRIED}{name}": tensor for name, tensor in self.network.carried.tensors().items()}
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in moments.items()}, folder / REMEMBERED)

    def load(self, folder: Path) -> None:
        from safetensors.torch import load_file

        weights = load_file(folder / WEIGHTS)
        self.network.load({name: tensor.clone() for name, tensor in weights.items()}, file=str(folder / WEIGHTS))
        self.ready()
        remembered = load_file(folder / REMEMBERED)
        if self.network.carried is not None:
            names = [name for name in remembered if name.startswith(CARRIED)]
            self.network.carried.load({name.removeprefix(CARRIED): remembered.pop(name) for name in names})
        if strange := self.optimiser.load(remembered):
            raise ForebearError(
                f"what the optimiser remembers does not fit the network: {', '.join(strange[:3])}",
                file=folder / REMEMBERED,
                remedy="resume with the version of forebear that wrote it",
            )


def totals(losses: Losses) -> dict[str, float]:
    """Summed over parts, in their order."""
    return {name: sum(one[name] for one in losses) for name in losses[0]}


def means(losses: Losses, asked: Mapping[str, int], finite: bool) -> dict[str, float]:
    """Of a whole step, for each target; no numbers, if it was not taken."""
    return {name: total / max(1, asked[name]) if finite else math.nan for name, total in totals(losses).items()}


def _chance(seed: int, step: int, part: int) -> int:
    return seed * 0x9E3779B97F4A7C15 + step + part * 0xBF58476D1CE4E5B9 & 0x7FFFFFFFFFFFFFFF


def _lacks_memory(error: BaseException) -> bool:
    """torch has an error of its own for this only on graphics cards."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in ("can't allocate memory", "not enough memory", "out of memory"))


def _examples(batch: Batch) -> np.ndarray:
    """(B,) the example that each row is of."""
    return batch.inputs.get("groups", np.arange(len(batch.inputs["lengths"])))
