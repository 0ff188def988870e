"""How many processes train, who starts them, and by which way they become one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.training.learners import Learner
from forebear.training.line import Leader, Teller

if TYPE_CHECKING:
    from forebear.training.leading import Way

STARTED_BY_ANOTHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # torchrun
GRACE = 25  # seconds in which the first process may save and tell us to end, when all are asked to


class ProcessGroup:
    """The processes that train: `size` of them, of which this is the first."""

    def __init__(self, size: int = 1, *, shard: bool = False, line: Teller | None = None) -> None:
        self.size, self.shard, self.line = size, shard, line

    def validate(self, milestone: str, learning: str, *, carries: bool = False) -> None:
        """An error where several processes mean nothing, or each would have to know what another has read."""
        if self.size > 1 and carries:
            what = f"--processes {self.size}: {milestone} carries its state from step to step, which one process has"
            raise InputError(what, hint="add --state fresh, or leave --processes out")
        if self.size > 1 and learning == "counting":
            what = f"--processes {self.size} means nothing to {milestone}, which counts"
            raise InputError(what, hint="leave it out; --workers prepares the text with several processes")
        if self.size > 1 and learning == "sweeping":
            what = f"--processes {self.size} means nothing to {milestone}, whose threads share one table"
            raise InputError(what, hint=f"give --threads {self.size} instead")

    @contextmanager
    def wrap_learner(self, alone: Learner) -> Iterator[Learner]:
        """What all learn with, where this would be the learner of a single process."""
        if self.size == 1:
            yield alone
            return
        from forebear.training.gradient import GradientLearner
        from forebear.training.leading import Leading

        assert isinstance(alone, GradientLearner)
        kind = alone.device.device.partition(":")[0]
        if kind not in ("cpu", "cuda"):
            raise InputError(
                f"there is one device {kind}, and no part of it for each process", hint="leave --processes out"
            )
        if self.line is None:
            self.line = Leader(self.size)
        alone.device = alone.device.of_process(self.line.local, self.line.near, alone.recipe)
        yield Leading(alone, self.line, self._way(kind))

    def _way(self, device: str) -> type[Way]:
        if self.shard:
            from forebear.training.sharded import Sharded

            return Sharded
        if isinstance(self.line, Leader) and device == "cpu":
            from forebear.training.shared_memory import SharedMemory

            return SharedMemory
        from forebear.training.distributed import Buckets

        return Buckets


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def launch_processes(processes: int | None = None, *, shard: bool = False) -> Iterator[ProcessGroup | None]:
    """The processes for a command. None: this is one of the others, which has done what it was told; nothing is left.

    They are started when they are needed, unless another program, such as torchrun, has started them already.
    """
    if all(name in os.environ for name in STARTED_BY_ANOTHER):
        if processes is not None:
            what = "--processes means nothing here: this process was started as one of several"
            raise InputError(what, hint="leave it out; torchrun --nproc-per-node says how many")
        with _connected(shard) as group:
            yield group
        return
    if processes is not None and processes < 1:
        raise InputError(f"--processes is {processes}", hint="give a number of at least 1")
    group = ProcessGroup(processes or 1, shard=shard)
    if shard and group.size == 1:
        raise InputError("--shard divides a network among processes", hint="say among how many: --processes 2")
    try:
        yield group
    except BaseException as error:
        if isinstance(group.line, Leader):
            group.line.close() if isinstance(error, UserInterrupt) else group.line.kill()
        raise
    if isinstance(group.line, Leader):
        group.line.close()


@contextmanager
def _connected(shard: bool) -> Iterator[ProcessGroup | None]:
    first = os.environ["RANK"] == "0"
    if not first:
        _leave_signals_to_the_first()
    import torch.distributed as dist

    from forebear.training.distributed import Torch, joined
    from forebear.training.following import follow

    joined()
    line = Torch()
    try:
        if not first:
            follow(line)
            yield None
            return
        try:
            yield ProcessGroup(line.size, shard=shard, line=line)
        except ForebearError:
            _ended(line)
            raise
        _ended(line)
    finally:
        dist.destroy_process_group()


def _ended(line: Teller) -> None:
    with suppress(ForebearError):  # a process that is lost needs not be told
        line.tell([None] * (line.size - 1))


def _leave_signals_to_the_first() -> None:
    """Ctrl-C reaches all processes of a terminal: the first saves, and tells us to end; or we end after a while."""
    asked = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)  # threads that are started later inherit it

    def wait() -> None:
        signal.sigwait(asked)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
