"""Worker processes of a training: their start, their connection to the leader by pipes, and their main loop.

The first process (the leader, rank 0) has the training loop, the run folder and the text. It sends messages to the
others (the workers), which execute them and reply, one by one.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import TYPE_CHECKING, Any, Protocol

from forebear.data.io.workers import child_environment, python_command
from forebear.errors import ForebearError

if TYPE_CHECKING:
    from forebear.training.distributed import GradientSync

WORKER_PROGRAM = (
    "import sys; from forebear.training.worker_processes import run_worker; run_worker(*map(int, sys.argv[1:]))"
)
EXIT_TIMEOUT = 10  # seconds that a process may take to exit
LOST_HINT = "often a lack of memory: the same command goes on from the last checkpoint, also with fewer --processes"
TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SHUTDOWN_GRACE = 25  # seconds in which the leader may save and stop the workers after a signal to all processes

MergeFn = Callable[[list[Any]], Any]


# --- Connection between the processes ---


@dataclass(frozen=True)
class WorkerFailure:
    """The answer of a worker that raised an error."""

    error: Exception


class ProcessConnection(Protocol):
    """One process's end of the connection.

    `rank` is the number of this process among `size`, `local_rank` its number among the `local_size` of this machine.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int

    def all_gather_merge(self, value: Any, merge: MergeFn) -> Any:
        """Gather the values of all processes, in the order of ranks, merge them in the leader; also a barrier."""


class LeaderConnection(ProcessConnection, Protocol):
    """The leader's end of the connection."""

    def send(self, messages: Sequence[Any]) -> None:
        """Send each worker its message, in the order of ranks."""

    def receive_answers(self) -> list[Any]:
        """One answer of each worker; raise the error of a worker that failed or died."""
        ...

    def failure_cause(self, error: Exception) -> Exception:
        """The likely cause of an error in a collective operation."""
        ...


class WorkerConnection(ProcessConnection, Protocol):
    """A worker's end of the connection."""

    def receive(self) -> Any: ...

    def answer(self, value: Any) -> None: ...


class WorkerPool:
    """The leader's end of pipes to workers, which it starts as fresh interpreters.

    Each has its own session, so that Ctrl-C does not reach it. They exit if this process dies.
    """

    rank = local_rank = 0

    def __init__(self, size: int) -> None:
        self.size = self.local_size = size
        self.processes: list[subprocess.Popen[bytes]] = []
        self.connections: list[Connection] = []
        environment = child_environment()
        for rank in range(1, size):
            leader_end, worker_end = Pipe()
            process = subprocess.Popen(
                python_command(WORKER_PROGRAM, worker_end.fileno(), rank, size),
                pass_fds=[worker_end.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            worker_end.close()
            self.connections.append(leader_end)
            self.processes.append(process)

    def send(self, messages: Sequence[Any]) -> None:
        for index, message in enumerate(messages):
            try:
                self.connections[index].send_bytes(pickle.dumps(message, protocol=5))
            except OSError:
                raise self._lost_worker(index) from None

    def receive_answers(self) -> list[Any]:
        answers: dict[int, Any] = {}
        while pending := [pipe for index, pipe in enumerate(self.connections) if index not in answers]:
            for connection in wait(pending):
                index = self.connections.index(connection)  # pyright: ignore[reportArgumentType]
                answers[index] = self._receive(index)
        return [answers[index] for index in sorted(answers)]

    def all_gather_merge(self, value: Any, merge: MergeFn) -> Any:
        merged = merge([value, *self.receive_answers()])
        self.send([merged] * (self.size - 1))
        return merged

    def send_file(self, descriptor: int) -> None:
        """Send an open file to all workers."""
        for connection, process in zip(self.connections, self.processes, strict=True):
            send_handle(connection, descriptor, process.pid)

    def failure_cause(self, error: Exception) -> Exception:
        for connection in wait(self.connections, timeout=1):
            try:
                self._receive(self.connections.index(connection))  # pyright: ignore[reportArgumentType]
            except Exception as cause:  # noqa: BLE001 - any error of a worker is the cause
                return cause
        return error

    def close(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Stop the workers after their current message, or kill them after `timeout` seconds."""
        if timeout:
            stop_workers(self)
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
            process.kill()
            process.wait()
        for connection in self.connections:
            connection.close()

    def _receive(self, index: int) -> Any:
        try:
            answer = pickle.loads(self.connections[index].recv_bytes())
        except (EOFError, OSError):
            raise self._lost_worker(index) from None
        if isinstance(answer, WorkerFailure):
            raise answer.error
        return answer

    def _lost_worker(self, index: int) -> ForebearError:
        reason = "is lost"
        with suppress(subprocess.TimeoutExpired):
            code = self.processes[index].wait(EXIT_TIMEOUT)
            reason = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        message = f"process {index + 1} (of 0 to {self.size - 1}) {reason}: all have stopped"
        return ForebearError(message, hint=LOST_HINT)


class PipeConnection:
    """The worker's end of a pipe of a `WorkerPool`."""

    def __init__(self, pipe: int, rank: int, size: int) -> None:
        self.rank, self.size, self.connection = rank, size, Connection(pipe)
        self.local_rank, self.local_size = rank, size
        threading.Thread(target=_exit_with_leader, args=[pipe], daemon=True).start()

    def receive(self) -> Any:
        return pickle.loads(self.connection.recv_bytes())

    def answer(self, value: Any) -> None:
        self.connection.send_bytes(pickle.dumps(value, protocol=5))

    def all_gather_merge(self, value: Any, merge: MergeFn) -> Any:
        self.answer(value)
        return self.receive()

    def receive_file(self) -> int:
        """The file that the leader sends."""
        return recv_handle(self.connection)


def _exit_with_leader(pipe: int) -> None:
    """Exit when the other end of the pipe is closed, even during a long step."""
    poll = select.poll()
    poll.register(pipe, getattr(select, "POLLRDHUP", select.POLLHUP))
    poll.poll()
    os._exit(1)


# --- Main loop of a worker ---


def run_worker(pipe: int, rank: int, size: int) -> None:
    """The main function of a worker of a `WorkerPool`."""
    worker_loop(PipeConnection(pipe, rank, size))


def worker_loop(connection: WorkerConnection) -> None:
    """Execute messages of the leader until one is None; report a failure to the leader and exit."""
    sync: GradientSync | None = None
    try:
        while (message := connection.receive()) is not None:
            if not hasattr(message, "execute"):
                raise TypeError(f"nobody knows what to do with {message!r}")
            sync, answer = message.execute(connection, sync)
            connection.answer(answer)
    except (EOFError, OSError):  # the leader is gone
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 - any error is reported to the leader
        if not isinstance(error, ForebearError):
            message = f"{type(error).__name__} in process {connection.rank}: {error}\n{traceback.format_exc()}"
            error = ForebearError(message)
        connection.answer(WorkerFailure(error))
        raise SystemExit(1) from None


def stop_workers(connection: LeaderConnection) -> None:
    with suppress(ForebearError):  # a lost process needs no message
        connection.send([None] * (connection.size - 1))
