"""For networks that do not fit: every process holds a part of each matrix, and has a block whole only while it uses it.

This is torch's `fully_shard`. The first process has a plain learner beside it, which is what is begun, loaded and
saved: so the folder of a run is the same, and it can be gone on with in any other way.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from forebear.errors import ForebearError
from forebear.nn.transformer import Transformer
from forebear.training.distributed import joined
from forebear.training.gradient import AdamW, GradientLearner, MicroBatch
from forebear.training.leading import Result, Step, in_order
from forebear.training.line import Line


class Sharded:
    """A way for networks of which no process can hold all."""

    def __init__(self, line: Line, learner: GradientLearner) -> None:
        joined(line)
        self.line, self.keeper = line, learner
        network = copy.deepcopy(learner.model)
        mesh = init_device_mesh(learner.device.device.partition(":")[0], (line.size,))
        for block in network.encoder.blocks if isinstance(network.encoder, Transformer) else ():
            fully_shard(block, mesh=mesh)
        fully_shard(network, mesh=mesh)
        for part in network.modules():
            if isinstance(part, FSDPModule):  # gradients are summed: losses are divided already
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)
        self.worker = _Worker(network, learner.recipe, learner.device, None, learner.shares)

    @torch.no_grad()
    def ready(self) -> None:
        worker = self.worker
        if any(one.is_meta for one in worker.model.parameters()):
            worker.model.to_empty(device=worker.device.device)
        worker.build_optimizer()
        first = self.line.rank == 0
        values = self.keeper.model.state_tensors() if first else {}
        for name, one in worker.sharded.items():
            self._scatter(values.get(name), one, one.to_local())
        remembered = self.keeper.optimiser.state if first else {}
        for moment, own in worker.optimiser.state.items():
            for name, one in own.items():
                value = remembered[moment][name] if first else None
                if moment == "step":
                    one.copy_(value if value is not None else one)
                    dist.broadcast(one, 0)
                else:
                    self._scatter(value, worker.sharded[name], one)

    def _scatter(self, value: Tensor | None, like: Any, own: Tensor) -> None:
        whole = torch.empty(like.shape, device=own.device) if value is None else value.to(own.device)
        own.copy_(distribute_tensor(whole, like.device_mesh, like.placements).to_local())

    @torch.no_grad()
    def gathered(self) -> None:
        worker, first = self.worker, self.line.rank == 0
        values = self.keeper.model.state_tensors() if first else {}
        for name, one in worker.sharded.items():
            self._gather(one, one.to_local(), values.get(name))
        remembered = self.keeper.optimiser.state if first else {}
        for moment, own in worker.optimiser.state.items():
            for name, one in own.items():
                if moment != "step":
                    self._gather(worker.sharded[name], one, remembered[moment][name] if first else None)
                elif first:
                    remembered[moment][name].copy_(one)

    def _gather(self, like: Any, own: Tensor, value: Tensor | None) -> None:
        sharded = DTensor.from_local(own, like.device_mesh, like.placements, shape=like.shape, stride=like.stride())
        whole = sharded.full_tensor()
        if value is not None:
            value.copy_(whole)

    def shared_out(self, parts: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        """All must make as many steps of the way: those who have less to do repeat something that does not count."""
        divided = in_order(parts, self.line.size)
        most = max(map(len, divided))
        idle = replace(parts[0], counts=False)
        return [[*own, *[idle] * (most - len(own))] for own in divided]

    def gradients(self, job: Step) -> Result | None:
        losses = self.worker.accumulate_gradients(job.parts, job.asked, job.step)
        if losses is None:  # the others wait for us in the middle of their way: nobody can turn back
            hint = f"divide steps into more parts (--accumulate {2 * self.keeper.parts}), or use more processes"
            raise ForebearError(f"out of memory in process {self.line.rank}", hint=hint)
        return losses, {name for name, one in self.worker.sharded.items() if one.grad is not None}

    def moved(self, names: set[str], rate: float) -> bool:
        return self.worker.apply_gradients(rate)


class _Worker(GradientLearner):
    """Learns with its parts of the parameters."""

    def build_optimizer(self) -> None:
        self.model.reshard()  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
        self.sharded: dict[str, Any] = dict(self.model.named_parameters())
        own = {name: one.to_local().detach() for name, one in self.sharded.items() if one.requires_grad}
        self.optimiser = AdamW(own, decay=self.recipe.decay, memory=self.recipe.memory, shares=self.shares)
        self._chance = self.model.drops

    def apply_gradients(self, rate: float) -> bool:
        gradients = {name: one.grad.to_local() for name, one in self.sharded.items() if one.grad is not None}
        squares = torch.stack([one.square().sum() for one in gradients.values()]).sum()
        dist.all_reduce(squares)
        norm = squares.sqrt()
        finite = bool(torch.isfinite(norm))
        if finite:
            for name, one in gradients.items():
                self.optimiser.parameters[name].grad = one
            torch.nn.utils.clip_grads_with_norm_(self.optimiser.parameters.values(), self.recipe.clip, norm)
            self.optimiser.step(rate)
        self.optimiser.zero_grad()
        for one in self.sharded.values():
            one.grad = None
        return finite
