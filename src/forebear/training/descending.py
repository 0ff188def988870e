"""Learning by gradient descent: AdamW on losses that are weighted by what was asked."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.objectives.batch import Arrays, Batch
from forebear.training.adamw import AdamW
from forebear.training.device import Device
from forebear.training.learner import REMEMBERED, WEIGHTS
from forebear.training.recipe import Recipe

if TYPE_CHECKING:
    from forebear.networks.model import Model


TRIAL = 3  # steps made and forgotten, with each number of threads
SHARE_OF_TRIAL = 0.02  # of the time given: where a step takes long, fewer are tried


class Descending:
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

    def begin(self) -> None:
        self.network.initialise(self.recipe.seed, self.given)
        self._ready()

    def _ready(self) -> None:
        """The optimiser for the network as it now is."""
        self.network.to(self.device.name)
        learned = {name: tensor for name, tensor in self.network.named_parameters() if tensor.requires_grad}
        self.optimiser = AdamW(learned, decay=self.recipe.decay, memory=self.recipe.memory, shares=self.shares)
        self._chance = self.network.drops

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        if self._chance:  # dropout too is a function of (seed, step)
            torch.manual_seed(self.recipe.seed * 0x9E3779B97F4A7C15 + step & 0x7FFFFFFFFFFFFFFF)
        self.network.train()
        asked = batch.asked()
        sums: dict[str, Tensor] = {}
        for part in batch.parts(self.recipe.accumulate):
            losses = self._losses(part)
            weights = batch.weights
            torch.stack(
                [losses[name] * weights.get(name, 1.0) / max(1, asked[name]) for name in losses]
            ).sum().backward()
            sums = {name: sums.get(name, torch.zeros(())) + loss.detach().cpu() for name, loss in losses.items()}
        norm = torch.nn.utils.clip_grad_norm_(self.optimiser.parameters.values(), self.recipe.clip)
        finite = bool(torch.isfinite(norm))
        if finite:  # else the weights stay as they were: a checkpoint never holds what is no number
            self.optimiser.step(self.recipe.rate * share)
        self.optimiser.clear()
        return {name: float(total) / max(1, asked[name]) if finite else math.nan for name, total in sums.items()}

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

    @torch.inference_mode()
    def examine(self, batch: Batch) -> dict[str, float]:
        self.network.eval()
        return {name: float(loss) for name, loss in self._losses(batch).items()}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        with self.device.precisely():
            return self.network(self._tensors(batch.inputs), self._tensors(batch.targets))

    def _tensors(self, arrays: Arrays) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array).to(self.device.name) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        save_file({name: tensor.detach().cpu() for name, tensor in self.network.tensors().items()}, folder / WEIGHTS)
        moments = self.optimiser.tensors()
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in moments.items()}, folder / REMEMBERED)

    def load(self, folder: Path) -> None:
        from safetensors.torch import load_file

        weights = load_file(folder / WEIGHTS)
        self.network.load({name: tensor.clone() for name, tensor in weights.items()}, file=str(folder / WEIGHTS))
        self._ready()
        if strange := self.optimiser.load(load_file(folder / REMEMBERED)):
            raise ForebearError(
                f"what the optimiser remembers does not fit the network: {', '.join(strange[:3])}",
                file=folder / REMEMBERED,
                remedy="resume with the version of forebear that wrote it",
            )
