"""Data-parallel and sharded (FSDP) training: micro-batches are distributed, gradients summed, weights kept in sync.

The leader samples each batch, splits it and sends the micro-batches to the workers, which need no text, no run folder
and no clock. So the leader alone decides when to evaluate, save or stop.
"""

from __future__ import annotations

import atexit
import copy
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from forebear.errors import ForebearError
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer
from forebear.objectives.batch import Batch
from forebear.training.gradient_learner import (
    AdamW,
    DeviceConfig,
    GradientLearner,
    Losses,
    MicroBatch,
    mean_losses,
    split_batch,
    sum_losses,
)
from forebear.training.learner import Learner
from forebear.training.settings import Recipe
from forebear.training.worker_processes import LeaderConnection, MergeFn, ProcessConnection, WorkerFailure

MIN_BUCKET_SIZE = 1 << 20  # gradients
GROUP_TIMEOUT = timedelta(days=7)  # preparing a text may take long, and lost processes are detected otherwise

StepResult = tuple[Losses, set[str]]  # of a process: losses of its micro-batches, names of parameters with a gradient


# --- Synchronization of weights and gradients ---


class GradientSync(Protocol):
    """Keeps the weights of all processes equal, and sums their gradients."""

    @property
    def learner(self) -> GradientLearner:
        """The learner of this process."""
        ...

    def __init__(self, connection: Any, learner: GradientLearner) -> None: ...

    def sync_state(self) -> None:
        """Copy weights and optimizer state of the leader to all processes."""

    def assign(self, micro_batches: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        """The micro-batches of each process."""
        ...

    def compute_gradients(self, message: TrainStep) -> StepResult | None:
        """Gradients of this process's micro-batches; None: out of memory."""

    def apply_gradients(self, names: set[str], lr: float) -> bool:
        """Take a step with the summed gradients of the parameters of these names; False if they are not finite."""
        ...

    def gather_state(self) -> None:
        """Copy weights and optimizer state to the learner of the leader, to be saved or used."""


# --- Messages to workers ---
# The leader sends one to each worker, which executes it and replies. None stops the worker.


@dataclass(frozen=True)
class CreateLearner:
    """A network without weights, and the other arguments of a learner."""

    model: Model
    recipe: Recipe
    device: DeviceConfig
    lr_scales: Mapping[str, float]
    sync_method: type[GradientSync]

    def execute(self, connection: Any, sync: GradientSync | None) -> tuple[GradientSync, Any]:
        device = self.device.for_process(connection.local_rank, connection.local_size, self.recipe)
        learner = GradientLearner(self.model, self.recipe, device, None, self.lr_scales)
        return self.sync_method(connection, learner), None


@dataclass(frozen=True)
class SyncState:
    def execute(self, connection: Any, sync: GradientSync) -> tuple[GradientSync, Any]:
        return sync, sync.sync_state()


@dataclass(frozen=True)
class TrainStep:
    micro_batches: Sequence[MicroBatch]
    counts: Mapping[str, int]  # supervised positions of each target, in the whole batch
    step: int
    lr: float

    def execute(self, connection: Any, sync: GradientSync) -> tuple[GradientSync, Any]:
        train_step(connection, sync, self)
        return sync, None  # the leader knows the result


@dataclass(frozen=True)
class EvaluateMicroBatches:
    micro_batches: Sequence[MicroBatch]

    def execute(self, connection: Any, sync: GradientSync) -> tuple[GradientSync, Any]:
        return sync, sync.learner.evaluate_micro_batches(self.micro_batches)


@dataclass(frozen=True)
class GatherState:
    def execute(self, connection: Any, sync: GradientSync) -> tuple[GradientSync, Any]:
        return sync, sync.gather_state()


def train_step(connection: ProcessConnection, sync: GradientSync, message: TrainStep) -> tuple[Losses, bool] | None:
    """Take this process's part in a step; None: some process was out of memory, and no step was taken."""

    def merge(results: Sequence[StepResult | None]) -> StepResult | None:
        complete = [result for result in results if result is not None]
        if len(complete) < len(results):
            return None
        losses = [part_losses for process_losses, _ in complete for part_losses in process_losses]
        return losses, set().union(*(names for _, names in complete))

    result: StepResult | None = connection.all_gather_merge(sync.compute_gradients(message), merge)
    if result is None:
        sync.learner.optimizer.zero_grad()
        return None
    losses, names = result
    return losses, sync.apply_gradients(names, message.lr)


def split_in_order(micro_batches: Sequence[MicroBatch], size: int) -> list[list[MicroBatch]]:
    """Divide micro-batches evenly among the processes, in order."""
    bounds = np.linspace(0, len(micro_batches), size + 1).round().astype(int).tolist()
    return [list(micro_batches[start:stop]) for start, stop in pairwise(bounds)]


# --- Leader ---


class MultiProcessLearner(Learner):
    """The learner of the training loop if several processes compute each step."""

    def __init__(self, learner: GradientLearner, connection: LeaderConnection, sync_method: type[GradientSync]) -> None:
        self.learner, self.connection, self.notes = learner, connection, learner.notes
        message = CreateLearner(learner.model, learner.recipe, learner.device, learner.lr_scales, sync_method)
        self.connection.send([message] * (connection.size - 1))
        self.sync = sync_method(connection, learner)
        self.connection.receive_answers()

    @property
    def model(self) -> Any:
        self._execute_on_all(GatherState(), self.sync.gather_state)
        return self.learner.model

    def initialize(self) -> None:
        self.learner.initialize()
        self._execute_on_all(SyncState(), self.sync.sync_state)

    def load(self, folder: Path) -> None:
        self.learner.load(folder)
        self._execute_on_all(SyncState(), self.sync.sync_state)

    def save(self, folder: Path) -> None:
        self._execute_on_all(GatherState(), self.sync.gather_state)
        self.learner.save(folder)

    def resolved_settings(self) -> dict[str, Any]:
        return self.learner.resolved_settings()

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        counts, lr = batch.supervised_counts(), self.learner.recipe.rate * lr_fraction
        while True:
            assigned = self._assign(batch)
            messages = [TrainStep(micro_batches, counts, step, lr) for micro_batches in assigned]
            result, _ = self._execute(messages, lambda message: train_step(self.connection, self.sync, message))
            if result is not None:
                losses, is_finite = result
                return mean_losses(losses, counts, is_finite)
            self.learner.halve_micro_batches([*chain.from_iterable(assigned)])

    def evaluate(self, batch: Batch) -> dict[str, float]:
        evaluate = self.sync.learner.evaluate_micro_batches
        while True:
            assigned = self._assign(batch)
            messages = [EvaluateMicroBatches(micro_batches) for micro_batches in assigned]
            local, answers = self._execute(messages, lambda message: evaluate(message.micro_batches))
            results = [losses for losses in (local, *answers) if losses is not None]
            if len(results) == len(messages):
                return sum_losses([*chain.from_iterable(results)])
            self.learner.halve_micro_batches([*chain.from_iterable(assigned)])

    def _assign(self, batch: Batch) -> list[list[MicroBatch]]:
        """As many micro-batches as a single process would use for a step, or one for each process if that is more."""
        size = self.connection.size
        count = -(-self.learner.num_micro_batches // size) * size
        return self.sync.assign(split_batch(batch, count))

    def _execute_on_all(self, message: Any, execute_locally: Callable[[], None]) -> None:
        self._execute([message] * self.connection.size, lambda _: execute_locally())

    def _execute(self, messages: Sequence[Any], execute_locally: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
        """Execute a message in each process, the first in the leader: its own result, and the workers' answers."""
        self.connection.send(messages[1:])
        try:
            result = execute_locally(messages[0])
        except RuntimeError as error:  # in a collective operation: the cause is in the process that failed first
            raise self.connection.failure_cause(error) from error
        return result, self.connection.receive_answers()


# --- Process groups of torch.distributed ---


def join_process_group(connection: ProcessConnection | None = None) -> None:
    """Join torch's process group, of the environment or of a connection, unless joined already."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if connection is None:
        dist.init_process_group(backend, timeout=GROUP_TIMEOUT)
    elif not dist.is_initialized():
        if sys.platform == "linux":  # listen on this machine only
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        rank, size = connection.rank, connection.size
        folder = connection.all_gather_merge(tempfile.mkdtemp() if rank == 0 else None, lambda folders: folders[0])
        if rank == 0:
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        store = dist.FileStore(os.path.join(folder, "rendezvous"), size)  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group(backend, timeout=GROUP_TIMEOUT, rank=rank, world_size=size, store=store)


class TorchConnection:
    """The connection of processes started by another program, such as torchrun; for the leader and workers."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_rank, self.local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])

    def send(self, messages: Sequence[Any]) -> None:
        for rank, message in enumerate(messages, 1):
            self._send_to(rank, message)

    def receive_answers(self) -> list[Any]:
        answers = [self._receive_from(rank) for rank in range(1, self.size)]
        for answer in answers:
            if isinstance(answer, WorkerFailure):
                raise answer.error
        return answers

    def receive(self) -> Any:
        return self._receive_from(0)

    def answer(self, value: Any) -> None:
        self._send_to(0, value)

    def all_gather_merge(self, value: Any, merge: MergeFn) -> Any:
        if self.rank:
            self.answer(value)
            return self.receive()
        merged = merge([value, *self.receive_answers()])
        self.send([merged] * (self.size - 1))
        return merged

    def failure_cause(self, error: Exception) -> Exception:
        return ForebearError(
            f"another process of this group is lost, and all have stopped ({str(error).splitlines()[0]})",
            hint="torchrun tells which ended first; the same command goes on from the last checkpoint",
        )

    def _send_to(self, rank: int, value: Any) -> None:
        data = torch.frombuffer(bytearray(pickle.dumps(value, protocol=5)), dtype=torch.uint8)
        try:
            dist.send(torch.tensor([len(data)]), rank)
            dist.send(data, rank)
        except RuntimeError as error:
            raise self.failure_cause(error) from error

    def _receive_from(self, rank: int) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        try:
            dist.recv(size, rank)
            data = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(data, rank)
        except RuntimeError as error:
            raise self.failure_cause(error) from error
        return pickle.loads(data.numpy().tobytes())


# --- All-reduce of gradients in buckets ---


class AllReduceSync:
    """Every process has all weights; gradients are summed by torch, bucket by bucket.

    A bucket is sent as soon as the backward pass has filled it, so that communication and computation overlap.
    """

    def __init__(self, connection: ProcessConnection, learner: GradientLearner) -> None:
        join_process_group(connection)
        self.connection, self.learner = connection, learner
        self.hooks: list[Any] = []

    def sync_state(self) -> None:
        learner = self.learner
        if self.connection.rank:
            shapes = {name: parameter.shape for name, parameter in learner.model.named_parameters()}
            learner.model.load({name: torch.empty(shape) for name, shape in shapes.items()})
            learner.build_optimizer()
        for tensor in (*learner.model.tensors().values(), *learner.optimizer.state_tensors().values()):
            dist.broadcast(tensor, 0)
        self._fill_buckets(learner.optimizer.parameters)

    def _fill_buckets(self, parameters: dict[str, Tensor]) -> None:
        """Assign parameters to buckets, the last ones first, as the backward pass computes their gradients first."""
        for hook in self.hooks:
            hook.remove()
        groups: list[list[str]] = [[]]
        for name in reversed(parameters):
            if sum(parameters[other].numel() for other in groups[-1]) >= MIN_BUCKET_SIZE:
                groups.append([])
            groups[-1].append(name)
        self.buckets = [_Bucket({name: parameters[name] for name in names}) for names in groups]
        self.hooks = [
            parameter.register_post_accumulate_grad_hook(bucket.make_hook(name, self._send_full_buckets))
            for bucket in self.buckets
            for name, parameter in bucket.parameters.items()
        ]

    def assign(self, micro_batches: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        return split_in_order(micro_batches, self.connection.size)

    def compute_gradients(self, message: TrainStep) -> StepResult | None:
        for bucket in self.buckets:
            bucket.start(len(message.micro_batches))
        self.next_bucket = 0
        losses = self.learner.accumulate_gradients(message.micro_batches, message.counts, message.step)
        gradients = {name: value.grad for bucket in self.buckets for name, value in bucket.parameters.items()}
        names = {name for name, gradient in gradients.items() if gradient is not None}
        # All processes must send the same buckets in the same order, even without gradients.
        for bucket in self.buckets[self.next_bucket :]:
            bucket.send()
        for bucket in self.buckets:
            bucket.wait()
        return None if losses is None else (losses, names)

    def _send_full_buckets(self) -> None:
        while self.next_bucket < len(self.buckets) and self.buckets[self.next_bucket].is_full:
            self.buckets[self.next_bucket].send()
            self.next_bucket += 1

    def apply_gradients(self, names: set[str], lr: float) -> bool:
        for bucket in self.buckets:
            for name, parameter in bucket.parameters.items():
                parameter.grad = bucket.views[name] if name in names else None
        return self.learner.apply_gradients(lr)

    def gather_state(self) -> None:
        """Do nothing: every process has the full state."""


class _Bucket:
    """Gradients of several parameters in one buffer, summed over the processes in one all-reduce."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters
        sizes = [parameter.numel() for parameter in parameters.values()]
        self.buffer = torch.zeros(sum(sizes), device=next(iter(parameters.values())).device)
        pieces = zip(parameters.items(), self.buffer.split(sizes), strict=True)
        self.views = {name: piece.view(parameter.shape) for (name, parameter), piece in pieces}

    def start(self, num_micro_batches: int) -> None:
        """Expect at most one gradient of each parameter from each micro-batch."""
        self.num_missing = dict.fromkeys(self.parameters, num_micro_batches)
        self.work: dist.Work | None = None

    @property
    def is_full(self) -> bool:
        return not any(self.num_missing.values())

    def make_hook(self, name: str, on_full: Callable[[], None]) -> Any:
        def hook(parameter: Tensor) -> None:
            self.num_missing[name] -= 1
            if self.is_full:
                on_full()

        return hook

    def send(self) -> None:
        for name, parameter in self.parameters.items():
            self.views[name].zero_() if parameter.grad is None else self.views[name].copy_(parameter.grad)
        self.work = dist.all_reduce(self.buffer, async_op=True)

    def wait(self) -> None:
        assert self.work is not None
        self.work.wait()


# --- Sharded weights (FSDP) ---


class ShardedSync:
    """Shards a network that does not fit into one process, with torch's `fully_shard` (FSDP).

    Each process holds a shard of each matrix, and a full layer only while it computes with it. The leader has an
    unsharded learner, which is initialized, loaded and saved. So run folders do not depend on the number of processes.
    """

    def __init__(self, connection: ProcessConnection, learner: GradientLearner) -> None:
        join_process_group(connection)
        self.connection, self.unsharded = connection, learner
        network = copy.deepcopy(learner.model)
        mesh = init_device_mesh(learner.device.device.partition(":")[0], (connection.size,))
        for block in network.encoder.blocks if isinstance(network.encoder, Transformer) else ():
            fully_shard(block, mesh=mesh)
        fully_shard(network, mesh=mesh)
        for module in network.modules():
            if isinstance(module, FSDPModule):  # sum gradients: losses are already divided by the counts
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        self.learner = _ShardedLearner(network, learner.recipe, learner.device, None, learner.lr_scales)

    @torch.no_grad()
    def sync_state(self) -> None:
        learner = self.learner
        if any(parameter.is_meta for parameter in learner.model.parameters()):
            learner.model.to_empty(device=learner.device.device)
        learner.build_optimizer()
        is_leader = self.connection.rank == 0
        weights = self.unsharded.model.tensors() if is_leader else {}
        for name, parameter in learner.sharded.items():
            self._scatter(weights.get(name), parameter, parameter.to_local())
        state = self.unsharded.optimizer.state if is_leader else {}
        for state_name, shards in learner.optimizer.state.items():
            for name, shard in shards.items():
                value = state[state_name][name] if is_leader else None
                if state_name == "step":
                    shard.copy_(value if value is not None else shard)
                    dist.broadcast(shard, 0)
                else:
                    self._scatter(value, learner.sharded[name], shard)

    def _scatter(self, value: Tensor | None, sharded_parameter: Any, shard: Tensor) -> None:
        full = torch.empty(sharded_parameter.shape, device=shard.device) if value is None else value.to(shard.device)
        shard.copy_(distribute_tensor(full, sharded_parameter.device_mesh, sharded_parameter.placements).to_local())

    @torch.no_grad()
    def gather_state(self) -> None:
        learner, is_leader = self.learner, self.connection.rank == 0
        weights = self.unsharded.model.tensors() if is_leader else {}
        for name, parameter in learner.sharded.items():
            self._gather(parameter, parameter.to_local(), weights.get(name))
        state = self.unsharded.optimizer.state if is_leader else {}
        for state_name, shards in learner.optimizer.state.items():
            for name, shard in shards.items():
                if state_name != "step":
                    self._gather(learner.sharded[name], shard, state[state_name][name] if is_leader else None)
                elif is_leader:
                    state[state_name][name].copy_(shard)

    def _gather(self, sharded_parameter: Any, shard: Tensor, target: Tensor | None) -> None:
        mesh, placements = sharded_parameter.device_mesh, sharded_parameter.placements
        shape, stride = sharded_parameter.shape, sharded_parameter.stride()
        full = DTensor.from_local(shard, mesh, placements, shape=shape, stride=stride).full_tensor()
        if target is not None:
            target.copy_(full)

    def assign(self, micro_batches: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        """The micro-batches of each process, equally many: some get uncounted copies of the first one."""
        assigned = split_in_order(micro_batches, self.connection.size)
        num_passes = max(map(len, assigned))
        idle = replace(micro_batches[0], is_counted=False)
        return [[*process_batches, *[idle] * (num_passes - len(process_batches))] for process_batches in assigned]

    def compute_gradients(self, message: TrainStep) -> StepResult | None:
        losses = self.learner.accumulate_gradients(message.micro_batches, message.counts, message.step)
        if losses is None:  # the others wait in a collective operation, so the step cannot be repeated
            num_micro_batches = 2 * self.unsharded.num_micro_batches
            hint = f"divide steps into more parts (--accumulate {num_micro_batches}), or use more processes"
            raise ForebearError(f"out of memory in process {self.connection.rank}", hint=hint)
        return losses, {name for name, parameter in self.learner.sharded.items() if parameter.grad is not None}

    def apply_gradients(self, names: set[str], lr: float) -> bool:
        return self.learner.apply_gradients(lr)


class _ShardedLearner(GradientLearner):
    """Optimizes the shards of this process."""

    def build_optimizer(self) -> None:
        self.model.reshard()  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
        self.sharded: dict[str, Any] = dict(self.model.named_parameters())
        shards = {name: value.to_local().detach() for name, value in self.sharded.items() if value.requires_grad}
        recipe = self.recipe
        self.optimizer = AdamW(shards, weight_decay=recipe.decay, beta2=recipe.memory, lr_scales=self.lr_scales)
        self._uses_dropout = self.model.is_random

    def apply_gradients(self, lr: float) -> bool:
        gradients = {name: value.grad.to_local() for name, value in self.sharded.items() if value.grad is not None}
        squares = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum()
        dist.all_reduce(squares)
        norm = squares.sqrt()
        is_finite = bool(torch.isfinite(norm))
        if is_finite:
            for name, gradient in gradients.items():
                self.optimizer.parameters[name].grad = gradient
            torch.nn.utils.clip_grads_with_norm_(self.optimizer.parameters.values(), self.recipe.clip, norm)
            self.optimizer.step(lr)
        self.optimizer.zero_grad()
        for parameter in self.sharded.values():
            parameter.grad = None
        return is_finite
