"""The processes of a training command: started here or by torchrun, leader or worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.training.learner import Learner
from forebear.training.worker_processes import (
    EXIT_TIMEOUT,
    SHUTDOWN_GRACE,
    TORCHRUN_VARIABLES,
    LeaderConnection,
    WorkerPool,
    stop_workers,
    worker_loop,
)

if TYPE_CHECKING:
    from forebear.training.distributed import GradientSync


class ProcessGroup:
    """The processes that train: `size` of them, of which this is the first."""

    def __init__(self, size: int = 1, *, shard: bool = False, connection: LeaderConnection | None = None) -> None:
        self.size, self.shard, self.connection = size, shard, connection

    def validate(self, model: str, learning: str, *, is_stateful: bool = False) -> None:
        """Raise InputError for models that several processes cannot train, such as those with a state across steps."""
        if self.size == 1:
            return
        if is_stateful:
            message = f"--processes {self.size}: {model} carries its state from step to step, which one process has"
            raise InputError(message, hint="add --state fresh, or leave --processes out")
        if learning == "counting":
            message = f"--processes {self.size} means nothing to {model}, which counts"
            raise InputError(message, hint="leave it out; --workers prepares the text with several processes")
        if learning == "sweeping":
            message = f"--processes {self.size} means nothing to {model}, whose threads share one table"
            raise InputError(message, hint=f"give --threads {self.size} instead")

    @contextmanager
    def wrap_learner(self, learner: Learner) -> Iterator[Learner]:
        """The learner of all processes, from the learner of a single process."""
        if self.size == 1:
            yield learner
            return
        from forebear.training.distributed import AllReduceSync, MultiProcessLearner, ShardedSync
        from forebear.training.gradient_learner import GradientLearner
        from forebear.training.shared_memory import SharedMemorySync

        assert isinstance(learner, GradientLearner)
        device = learner.device.device.partition(":")[0]
        if device not in ("cpu", "cuda"):
            message = f"there is one device {device}, and no part of it for each process"
            raise InputError(message, hint="leave --processes out")
        connection = self.connection = self.connection or WorkerPool(self.size)
        learner.device = learner.device.for_process(connection.local_rank, connection.local_size, learner.recipe)
        sync_method: type[GradientSync] = AllReduceSync
        if self.shard:
            sync_method = ShardedSync
        elif isinstance(connection, WorkerPool) and device == "cpu":
            sync_method = SharedMemorySync
        yield MultiProcessLearner(learner, connection, sync_method)


SINGLE_PROCESS = ProcessGroup()


@contextmanager
def launch_processes(processes: int | None = None, *, shard: bool = False) -> Iterator[ProcessGroup | None]:
    """The processes of a command, started when they are needed.

    If torchrun or another program has started them already, those are used. None: this process was one of its workers
    and has finished.
    """
    if all(name in os.environ for name in TORCHRUN_VARIABLES):
        if processes is not None:
            message = "--processes means nothing here: this process was started as one of several"
            raise InputError(message, hint="leave it out; torchrun --nproc-per-node says how many")
        with _torchrun_group(shard) as group:
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
        if isinstance(group.connection, WorkerPool):
            group.connection.close(EXIT_TIMEOUT if isinstance(error, UserInterrupt) else 0)
        raise
    if isinstance(group.connection, WorkerPool):
        group.connection.close()


@contextmanager
def _torchrun_group(shard: bool) -> Iterator[ProcessGroup | None]:
    is_leader = os.environ["RANK"] == "0"
    if not is_leader:
        _defer_signals_to_leader()  # before torch starts threads, which inherit the signal mask
    import torch.distributed as dist

    from forebear.training.distributed import TorchConnection, join_process_group

    join_process_group()
    connection = TorchConnection()
    try:
        if not is_leader:
            worker_loop(connection)
            yield None
            return
        try:
            yield ProcessGroup(connection.size, shard=shard, connection=connection)
        except ForebearError:
            stop_workers(connection)
            raise
        stop_workers(connection)
    finally:
        dist.destroy_process_group()


def _defer_signals_to_leader() -> None:
    """Block the signals of Ctrl-C in a worker: the leader saves and stops it, else it exits after SHUTDOWN_GRACE."""
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def wait_for_leader() -> None:
        signal.sigwait(signals)
        time.sleep(SHUTDOWN_GRACE)
        os._exit(1)

    threading.Thread(target=wait_for_leader, daemon=True).start()
