"""Training with several processes of one machine that share weights, gradients and optimizer state in memory.

No tensors are sent. In a step each process writes its gradients to shared memory, sums the gradients of its slice of
the weights over the processes, in the order in which one process would sum its micro-batches, and updates this slice.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from forebear.training.distributed import StepResult, TrainStep, split_in_order
from forebear.training.gradient_learner import AdamW, GradientLearner, MicroBatch
from forebear.training.worker_processes import PipeConnection, WorkerPool

ALIGNMENT = 16  # numbers; at least a SIMD register: tensors and slices start at a multiple of it


class SharedMemorySync:
    """Weights and gradients of the processes of one machine, on CPU; see `GradientSync`."""

    def __init__(self, connection: WorkerPool | PipeConnection, learner: GradientLearner) -> None:
        self.connection, self.learner = connection, learner
        parameters = dict(learner.model.named_parameters())
        trainable = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        sections = [parameters, *[trainable] * (2 + connection.size)]
        num_bytes = 4 * sum(_aligned_size(tensor) for section in sections for tensor in section.values())
        if isinstance(connection, PipeConnection):
            descriptor = connection.receive_file()
        else:
            descriptor = os.memfd_create("forebear")  # anonymous: freed when the last process ends
            os.ftruncate(descriptor, num_bytes)
            connection.send_file(descriptor)
        buffer = torch.frombuffer(mmap.mmap(descriptor, num_bytes), dtype=torch.float32)
        os.close(descriptor)  # the mapping remains valid
        views: list[dict[str, Tensor]] = []
        start = 0
        for section in sections:
            views.append({})
            for name, tensor in section.items():
                views[-1][name] = buffer[start : start + tensor.numel()].view(tensor.shape)
                start += _aligned_size(tensor)
        self.weights, self.exp_avg, self.exp_avg_sq, *self.process_gradients = views  # gradients of each process

    def sync_state(self) -> None:
        learner, is_leader = self.learner, self.connection.rank == 0
        leader_state = learner.optimizer.state_tensors() if is_leader else {}
        for name, value in learner.model.tensors().items() if is_leader else ():
            self.weights[name].copy_(value)
        learner.model.load(self.weights)
        learner.build_optimizer()
        state = learner.optimizer.state
        state["exp_avg"], state["exp_avg_sq"] = dict(self.exp_avg), dict(self.exp_avg_sq)
        if is_leader:
            learner.optimizer.load(leader_state)
        counts = {name: float(count) for name, count in state["step"].items()}
        counts = self.connection.all_gather_merge(counts, lambda processes: processes[0])
        for name, count in state["step"].items():
            count.fill_(counts[name])
        # The optimizer of the local slice shares step counts with that of all parameters, which is saved.
        recipe, weights = learner.recipe, self._slices({name: self.weights[name] for name in state["step"]})
        lr_scales = learner.lr_scales
        self.slice_optimizer = AdamW(weights, weight_decay=recipe.decay, beta2=recipe.memory, lr_scales=lr_scales)
        self.slice_optimizer.state = {
            "step": {name: state["step"][name] for name in weights},
            "exp_avg": self._slices(self.exp_avg),
            "exp_avg_sq": self._slices(self.exp_avg_sq),
        }
        self.gradient_slices = [self._slices(gradients) for gradients in self.process_gradients]

    def _slices(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The slice of each tensor for this process, if not empty.

        Matrices stay 2-D (1, n), so that weight decay applies to them.
        Slices start at a multiple of ALIGNMENT: the last numbers, which do not fill a SIMD register, are computed
        differently, and must be the same as in the full tensor. The leader has a slice of every tensor, as it counts
        the steps of all.
        """
        slices: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            size = -(-tensor.numel() // (self.connection.size * ALIGNMENT)) * ALIGNMENT
            local_values = tensor.view(-1)[size * self.connection.rank : size * (self.connection.rank + 1)]
            if local_values.numel():
                slices[name] = local_values.view(1, -1) if tensor.dim() > 1 else local_values
        return slices

    def assign(self, micro_batches: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        return split_in_order(micro_batches, self.connection.size)

    def compute_gradients(self, message: TrainStep) -> StepResult | None:
        """Compute the gradients of this process and write them to shared memory."""
        losses = self.learner.accumulate_gradients(message.micro_batches, message.counts, message.step)
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
    def apply_gradients(self, names: set[str], lr: float) -> bool:
        local_names = [name for name in self.slice_optimizer.parameters if name in names]
        sums = [self.gradient_slices[0][name] for name in local_names]
        for slices in self.gradient_slices[1:]:
            torch._foreach_add_(sums, [slices[name] for name in local_names])  # pyright: ignore[reportPrivateImportUsage]
        self.connection.all_gather_merge(None, lambda processes: None)  # a barrier: now all sums are complete
        gradients = [gradient for name, gradient in self.process_gradients[0].items() if name in names]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not torch.isfinite(norm):
            return False
        # As torch clips, but not in place: other processes may still read the sums.
        clipped = torch._foreach_mul(sums, (self.learner.recipe.clip / (norm + 1e-6)).clamp(max=1.0))  # pyright: ignore[reportPrivateImportUsage]
        for name, gradient in zip(local_names, clipped, strict=True):
            self.slice_optimizer.parameters[name].grad = gradient
        self.slice_optimizer.step(lr)
        self.slice_optimizer.zero_grad()
        return True

    def gather_state(self) -> None:
        """Do nothing: every process has the full state."""


def _aligned_size(tensor: Tensor) -> int:
    return -(-tensor.numel() // ALIGNMENT) * ALIGNMENT
