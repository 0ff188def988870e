"""Processes of one machine share weights, gradients and moments in memory: what each adds up and moves is its slice.

Nothing is sent. In a step everyone writes its gradients where all can read them, adds up those of its slice, in the
order of the processes, as one process would those of the parts of a step, and moves its slice of the weights.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from forebear.training.gradient import AdamW, GradientLearner, MicroBatch
from forebear.training.leading import Result, Step, in_order
from forebear.training.line import Follower, Leader

ALIGNED = 16  # numbers that a processor may load at once: tensors and slices begin at a multiple of them


class SharedMemory:
    """A way for the processes of one machine, on its processor."""

    def __init__(self, line: Leader | Follower, learner: GradientLearner) -> None:
        self.line, self.worker = line, learner
        shapes = {name: tuple(one.shape) for name, one in learner.model.named_parameters()}
        learned = {name: shapes[name] for name, one in learner.model.named_parameters() if one.requires_grad}
        sections = [shapes, *[learned] * (2 + line.size)]
        size = 4 * sum(_room(section) for section in sections)
        handle = self._handle(size)
        numbers = torch.frombuffer(mmap.mmap(handle, size), dtype=torch.float32)
        os.close(handle)  # what is mapped stays
        views = [dict(_laid_out(section, part)) for section, part in _cut(numbers, sections)]
        self.weights, self.means, self.squares = views[:3]
        self.gradients_of = views[3:]  # each process

    def _handle(self, size: int) -> int:
        """The memory as a file without a name: it is gone when the last process is."""
        if isinstance(self.line, Follower):
            return self.line.borrowed()
        handle = os.memfd_create("forebear")
        os.ftruncate(handle, size)
        self.line.lend(handle)
        return handle

    def ready(self) -> None:
        """All have what the first process has."""
        learner, first = self.worker, self.line.rank == 0
        remembered = learner.optimiser.state_tensors() if first else {}
        for name, value in learner.model.state_tensors().items() if first else ():
            self.weights[name].copy_(value)
        learner.model.load(self.weights)
        learner.build_optimizer()
        state = learner.optimiser.state
        state["exp_avg"], state["exp_avg_sq"] = dict(self.means), dict(self.squares)
        if first:
            learner.optimiser.load(remembered)
        steps = self.line.agreed({name: float(one) for name, one in state["step"].items()}, lambda told: told[0])
        for name, one in state["step"].items():
            one.fill_(steps[name])
        self._slice(learner.optimiser)

    def _slice(self, whole: AdamW) -> None:
        """An optimiser for our slice; the count of steps is the whole one's, which is asked about it."""
        recipe, shares = self.worker.recipe, self.worker.shares
        sliced = self._sliced({name: self.weights[name] for name in whole.parameters})
        self.own = AdamW(sliced, decay=recipe.decay, memory=recipe.memory, shares=shares)
        steps = {name: whole.state["step"][name] for name in sliced}
        self.own.state = {"step": steps, "exp_avg": self._sliced(self.means), "exp_avg_sq": self._sliced(self.squares)}
        self.slices = [self._sliced(gradients) for gradients in self.gradients_of]

    def _sliced(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of each tensor the numbers that are ours, where there are any, as a row: a matrix stays one, and decays.

        They begin where a processor would load them at once: the last few, which do not fill what it loads, are
        computed otherwise, and must be the same few as in the whole. The first process has some of everything, as
        it counts the steps of all.
        """
        found: dict[str, Tensor] = {}
        for name, one in tensors.items():
            share = -(-one.numel() // (self.line.size * ALIGNED)) * ALIGNED
            numbers = one.view(-1)[share * self.line.rank : share * (self.line.rank + 1)]
            if numbers.numel():
                found[name] = numbers.view(1, -1) if one.dim() > 1 else numbers
        return found

    def shared_out(self, parts: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        return in_order(parts, self.line.size)

    def gradients(self, job: Step) -> Result | None:
        """Computes our gradients, and lays them where all can read them."""
        losses = self.worker.accumulate_gradients(job.parts, job.asked, job.step)
        if losses is None:
            return None
        names = set()
        for name, view in self.gradients_of[self.line.rank].items():
            parameter = self.worker.optimiser.parameters[name]
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
                names.add(name)
            parameter.grad = None
        return losses, names

    @torch.no_grad()
    def moved(self, names: set[str], rate: float) -> bool:
        """Takes the step that the gradients of all say, if they are numbers."""
        mine = [name for name in self.own.parameters if name in names]
        sums = [self.slices[0][name] for name in mine]
        for other in self.slices[1:]:
            torch._foreach_add_(sums, [other[name] for name in mine])  # pyright: ignore[reportPrivateImportUsage]
        self.line.agreed(None, lambda told: None)  # then all sums are there
        norm = torch.nn.utils.get_total_norm([one for name, one in self.gradients_of[0].items() if name in names])
        if not torch.isfinite(norm):
            return False
        # As torch clips, but aside: others may still be reading the sums.
        clipped = torch._foreach_mul(sums, (self.worker.recipe.clip / (norm + 1e-6)).clamp(max=1.0))  # pyright: ignore[reportPrivateImportUsage]
        for name, gradient in zip(mine, clipped, strict=True):
            self.own.parameters[name].grad = gradient
        self.own.step(rate)
        self.own.zero_grad()
        return True

    def gathered(self) -> None:
        """Every process has everything already."""


def _room(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(_places(shape) for shape in shapes.values())


def _places(shape: tuple[int, ...]) -> int:
    numbers = torch.Size(shape).numel()
    return -(-numbers // ALIGNED) * ALIGNED


def _cut(
    numbers: Tensor, sections: Sequence[Mapping[str, tuple[int, ...]]]
) -> Iterator[tuple[Mapping[str, tuple[int, ...]], Tensor]]:
    first = 0
    for section in sections:
        yield section, numbers[first : first + _room(section)]
        first += _room(section)


def _laid_out(shapes: Mapping[str, tuple[int, ...]], numbers: Tensor) -> Iterator[tuple[str, Tensor]]:
    first = 0
    for name, shape in shapes.items():
        yield name, numbers[first : first + torch.Size(shape).numel()].view(shape)
        first += _places(shape)
