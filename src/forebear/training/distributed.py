"""Processes that torch connects, on one machine or many: every one has all weights, and gradients travel in buckets.

A bucket sets out as soon as the way back through the network has filled it, so that travelling and computing overlap.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from forebear.errors import ForebearError
from forebear.training.gradient import GradientLearner, MicroBatch
from forebear.training.leading import Result, Step, in_order
from forebear.training.line import Fault, Line, Merge

BUCKET = 1 << 20  # numbers in a bucket
LONGEST = timedelta(
    days=7
)  # to wait for others: a text may take long to prepare, and a lost process is noticed otherwise


def joined(line: Line | None = None) -> None:
    """Becomes one of a group of torch's, as the environment says; or of those on this line, if they are not one yet."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if line is None:
        dist.init_process_group(backend, timeout=LONGEST)
    elif not dist.is_initialized():
        if sys.platform == "linux":  # nobody else is to listen
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        place = line.agreed(tempfile.mkdtemp() if line.rank == 0 else None, lambda told: told[0])
        if line.rank == 0:
            atexit.register(shutil.rmtree, place, ignore_errors=True)
        store = dist.FileStore(os.path.join(place, "meeting"), line.size)  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group(backend, timeout=LONGEST, rank=line.rank, world_size=line.size, store=store)


class Torch:
    """A line that needs no pipes, for processes which another program started, such as torchrun."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local, self.near = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])

    def tell(self, words: Sequence[Any]) -> None:
        for rank, word in enumerate(words, 1):
            self._send(word, rank)

    def answers(self) -> list[Any]:
        found = [self._receive(rank) for rank in range(1, self.size)]
        for one in found:
            if isinstance(one, Fault):
                raise one.error
        return found

    def hear(self) -> Any:
        return self._receive(0)

    def answer(self, thing: Any) -> None:
        self._send(thing, 0)

    def agreed(self, mine: Any, merge: Merge) -> Any:
        if self.rank:
            self.answer(mine)
            return self.hear()
        found = merge([mine, *self.answers()])
        self.tell([found] * (self.size - 1))
        return found

    def cause(self, error: Exception) -> Exception:
        return ForebearError(
            f"another process of this group is lost, and all have stopped ({str(error).splitlines()[0]})",
            hint="torchrun tells which ended first; the same command goes on from the last checkpoint",
        )

    def _send(self, thing: Any, rank: int) -> None:
        data = torch.frombuffer(bytearray(pickle.dumps(thing, protocol=5)), dtype=torch.uint8)
        try:
            dist.send(torch.tensor([len(data)]), rank)
            dist.send(data, rank)
        except RuntimeError as error:
            raise self.cause(error) from error

    def _receive(self, rank: int) -> Any:
        size = torch.zeros(1, dtype=torch.int64)
        try:
            dist.recv(size, rank)
            data = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(data, rank)
        except RuntimeError as error:
            raise self.cause(error) from error
        return pickle.loads(data.numpy().tobytes())


class Buckets:
    """A way for processes that torch connects."""

    def __init__(self, line: Line, learner: GradientLearner) -> None:
        joined(line)
        self.line, self.worker = line, learner
        self.hooks: list[Any] = []

    def ready(self) -> None:
        worker = self.worker
        if self.line.rank:
            shapes = {name: one.shape for name, one in worker.model.named_parameters()}
            worker.model.load({name: torch.empty(shape) for name, shape in shapes.items()})
            worker.build_optimizer()
        for one in (*worker.model.state_tensors().values(), *worker.optimiser.state_tensors().values()):
            dist.broadcast(one, 0)
        self._fill_buckets(worker.optimiser.parameters)

    def _fill_buckets(self, learned: dict[str, Tensor]) -> None:
        """Last come first: the way back through a network meets its end before its beginning."""
        for hook in self.hooks:
            hook.remove()
        groups: list[list[str]] = [[]]
        for name in reversed(learned):
            if sum(learned[other].numel() for other in groups[-1]) >= BUCKET:
                groups.append([])
            groups[-1].append(name)
        self.buckets = [_Bucket({name: learned[name] for name in names}) for names in groups]
        self.hooks = [
            one.register_post_accumulate_grad_hook(bucket.noticed(name, self._go_on))
            for bucket in self.buckets
            for name, one in bucket.parameters.items()
        ]

    def shared_out(self, parts: Sequence[MicroBatch]) -> list[list[MicroBatch]]:
        return in_order(parts, self.line.size)

    def gradients(self, job: Step) -> Result | None:
        for bucket in self.buckets:
            bucket.begin(len(job.parts))
        self.next = 0
        losses = self.worker.accumulate_gradients(job.parts, job.asked, job.step)
        # All have to send as much, in the same order, whatever they have of it.
        names = {name for bucket in self.buckets for name, one in bucket.parameters.items() if one.grad is not None}
        for bucket in self.buckets[self.next :]:
            bucket.send()
        for bucket in self.buckets:
            bucket.wait()
        return None if losses is None else (losses, names)

    def _go_on(self) -> None:
        while self.next < len(self.buckets) and self.buckets[self.next].full:
            self.buckets[self.next].send()
            self.next += 1

    def moved(self, names: set[str], rate: float) -> bool:
        for bucket in self.buckets:
            for name, one in bucket.parameters.items():
                one.grad = bucket.views[name] if name in names else None
        return self.worker.apply_gradients(rate)

    def gathered(self) -> None:
        """Every process has everything already."""


class _Bucket:
    """Gradients of several parameters, one after the other, that travel together."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters
        sizes = [one.numel() for one in parameters.values()]
        self.numbers = torch.zeros(sum(sizes), device=next(iter(parameters.values())).device)
        pieces = zip(parameters.items(), self.numbers.split(sizes), strict=True)
        self.views = {name: piece.view(one.shape) for (name, one), piece in pieces}

    def begin(self, parts: int) -> None:
        """So many times each gradient will be added to, where it is at all."""
        self.missing = dict.fromkeys(self.parameters, parts)
        self.travelling: dist.Work | None = None

    @property
    def full(self) -> bool:
        return not any(self.missing.values())

    def noticed(self, name: str, go_on: Any) -> Any:
        def hook(parameter: Tensor) -> None:
            self.missing[name] -= 1
            if self.full:
                go_on()

        return hook

    def send(self) -> None:
        for name, one in self.parameters.items():
            if one.grad is None:
                self.views[name].zero_()
            else:
                self.views[name].copy_(one.grad)
        self.travelling = dist.all_reduce(self.numbers, async_op=True)

    def wait(self) -> None:
        assert self.travelling is not None
        self.travelling.wait()
