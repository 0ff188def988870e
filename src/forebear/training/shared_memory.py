"""Training with several processes of one machine that share weights, gradients and moments in memory.

Nothing is sent. In a step every process writes its gradients where all can read them, sums those of its slice in the
order of the processes, as one process would sum those of its micro-batches, and updates its slice of the weights.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from forebear.training.distributed import StepResult, TrainStep, split_in_order
from forebear.training.gradient import AdamW, GradientLearner, MicroBatch
from forebear.training.worker_processes import PipeConnection, WorkerPool

ALIGNMENT = 16  # numbers that a processor may load at once: tensors and slices begin at a multiple of them


class SharedMemorySync:
    """Weights and gradients of the processes of one machine, on its processor; see `GradientSync`."""

    def __init__(self, connection: WorkerPool | PipeConnection, learner: GradientLearner) -> None:
        self.connection, self.learner = connection, learner
        parameters = dict(learner.model.named_parameters())
        trainable = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        sections = [parameters, *[trainable] * (2 + connection.size)]
        num_bytes = 4 * sum(_aligned_size(tensor) for section in sections for tensor in section.values())
        if isinstance(connection, PipeConnection):
            handle = connection.receive_file()
        else:
            handle = os.memfd_create("forebear")  # without a name: it is gone when the last process is
            os.ftruncate(handle, num_bytes)
            connection.send_file(handle)
        numbers = torch.frombuffer(mmap.mmap(handle, num_bytes), dtype=torch.float32)
        os.close(handle)  # the mapping stays
        views: list[dict[str, Tensor]] = []
        start = 0
        for section in sections:
            views.append({})
            for name, tensor in section.items():
                views[-1][name] = numbers[start : start + tensor.numel()].view(tensor.shape)
                start += _aligned_size(tensor)
        self.weights, self.means, self.squares, *self.process_gradients = views  # gradients of each process

    def sync_state(self) -> None:
        """Gives all processes the weights and the optimizer state of the leader."""
        learner, is_leader = self.learner, self.connection.rank == 0
        leader_state = learner.optimizer.state_tensors() if is_leader else {}
        for name, value in learner.model.tensors().items() if is_leader else ():
            self.weights[name].copy_(value)
        learner.model.load(self.weights)
        learner.build_optimizer()
        state = learner.optimizer.state
        state["exp_avg"], state["exp_avg_sq"] = dict(self.means), dict(self.squares)
        if is_leader:
            learner.optimizer.load(leader_state)
        counts = {name: float(count) for name, count in state["step"].items()}
        counts = self.connection.all_merge(counts, lambda processes: processes[0])
        for name, count in state["step"].items():
            count.fill_(counts[name])
        # An optimizer for our slice; it shares its step counts with that of all parameters, which is saved.
        recipe, weights = learner.recipe, self._slices({name: self.weights[name] for name in state["step"]})
        self.slice_optimizer = AdamW(weights, decay=recipe.decay, memory=recipe.memory, lr_scales=learner.lr_scales)
        self.slice_optimizer.state = {
            "step": {name: state["step"][name] for name in weights},
            "exp_avg": self._slices(self.means),
            "exp_avg_sq": self._slices(self.squares),
        }
        self.gradient_slices = [self._slices(gradients) for gradients in self.process_gradients]

    def _slices(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our numbers of each tensor that has any for us, as a row: a matrix stays one, and decays.

        They begin where a processor would load them at once: the last few, which do not fill what it loads, are
        computed differently, and must be the same few as in the whole tensor. The leader has some of every tensor, as
        it counts the steps of all.
        """
        slices: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            size = -(-tensor.numel() // (self.connection.size * ALIGNMENT)) * ALIGNMENT
            numbers = tensor.view(-1)[size * self.connection.rank : size * (self.connection.rank + 1)]
            if numbers.numel():
                slices[name] = numbers.view(1, -1) if tensor.dim() > 1 else numbers
        return slices

    def assign(self, parts: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        return split_in_order(parts, self.connection.size)

    def compute_gradients(self, message: TrainStep) -> StepResult | None:
        """Computes our gradients and writes them where all can read them."""
        losses = self.learner.accumulate_gradients(message.parts, message.counts, message.step)
        if losses is None:
            return None
        names = set()
        for name, view in self.process_gradients[self.connection.rank].items():
            parameter = self.learner.optimizer.parameters[name]
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
                names.add(name)
            parameter.grad = None
        return losses, names

    @torch.no_grad()
    def apply_gradients(self, names: set[str], rate: float) -> bool:
        """Takes a step with the gradients of all processes, if they are finite."""
        local_names = [name for name in self.slice_optimizer.parameters if name in names]
        sums = [self.gradient_slices[0][name] for name in local_names]
        for slices in self.gradient_slices[1:]:
            torch._foreach_add_(sums, [slices[name] for name in local_names])  # pyright: ignore[reportPrivateImportUsage]
        self.connection.all_merge(None, lambda processes: None)  # a barrier: afterwards all sums are complete
        gradients = [gradient for name, gradient in self.process_gradients[0].items() if name in names]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not torch.isfinite(norm):
            return False
        # As torch clips, but not in place: others may still be reading the sums.
        clipped = torch._foreach_mul(sums, (self.learner.recipe.clip / (norm + 1e-6)).clamp(max=1.0))  # pyright: ignore[reportPrivateImportUsage]
        for name, gradient in zip(local_names, clipped, strict=True):
            self.slice_optimizer.parameters[name].grad = gradient
        self.slice_optimizer.step(rate)
        self.slice_optimizer.zero_grad()
        return True

    def gather_state(self) -> None:
        """Every process has everything already."""


def _aligned_size(tensor: Tensor) -> int:
    return -(-tensor.numel() // ALIGNMENT) * ALIGNMENT
