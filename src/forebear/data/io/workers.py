"""Work spread over processes: a worker's failure is the caller's failure, and no worker outlives its caller."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from forebear.data.io.child_processes import child_environment, python_command
from forebear.errors import ForebearError

Job = TypeVar("Job")
Result = TypeVar("Result")
Workers = dict[Connection, "subprocess.Popen[bytes]"]

SERVE = "import sys; from forebear.data.io.workers import serve; serve(int(sys.argv[1]))"


def cpu_count() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    count: int,
    describe: Callable[[Job], str] = str,
    *,
    runs_here: Callable[[Job, float], bool] = lambda job, seconds: False,
) -> Iterator[Result]:
    """`work(job)` for every job, in whatever order they finish. `place` names a job in messages.

    Work is done here as long as `alone` says so of the next job, after so many seconds; then `count` processes are
    started, all at once. Each holds one job at a time and one more waits here, so that memory does not grow with the
    number of jobs. With `count` 1 nothing is started.
    """
    workers: Workers = {}
    idle: list[Connection] = []
    busy: dict[Connection, str] = {}
    pending, started = iter(jobs), time.monotonic()
    job = next(pending, None)
    while job is not None and (count <= 1 or runs_here(job, time.monotonic() - started)):
        yield work(job)
        job = next(pending, None)
    try:
        if job is not None:
            idle += [_started(workers) for _ in range(count)]
            for connection in idle:
                _sent(connection, work, workers, "the beginning")
        while job is not None or busy:
            if job is not None and idle:
                connection = idle.pop()
                busy[connection] = describe(job)
                _sent(connection, job, workers, busy[connection])
                job = next(pending, None)
                continue
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                result = _received(connection, workers, busy[connection])
                del busy[connection]
                idle.append(connection)
                yield result
    finally:
        for connection, process in workers.items():
            connection.close()
            if connection in busy:
                process.terminate()
        for process in workers.values():
            process.wait()


def _started(workers: Workers) -> Connection:
    """A fresh interpreter at the other end of a pipe.

    Not a fork, which would inherit the other workers' pipes (they would never close) and any locks held; and not
    multiprocessing's spawn, which runs the caller's script once more. A session of its own keeps Ctrl-C from it.
    """
    local, remote = multiprocessing.Pipe()
    workers[local] = subprocess.Popen(
        python_command(SERVE, remote.fileno()),
        pass_fds=[remote.fileno()],
        env=child_environment(TOKENIZERS_PARALLELISM="false"),  # one worker, one core
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    remote.close()
    return local


def _sent(connection: Connection, message: object, workers: Workers, location: str) -> None:
    try:
        connection.send(message)
    except (BrokenPipeError, ConnectionResetError):
        raise _death(workers[connection], location) from None


def _received(connection: Connection, workers: Workers, location: str) -> Any:
    try:
        succeeded, result = connection.recv()
    except (EOFError, ConnectionResetError):
        raise _death(workers[connection], location) from None
    if not succeeded:
        raise result
    return result


def _death(process: subprocess.Popen[bytes], location: str) -> ForebearError:
    code = process.wait(10)
    cause = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return ForebearError(
        f"a worker {cause} while working on {location}",
        hint="often a lack of memory: run again with fewer --workers; finished shards are kept",
    )


def serve(pipe: int) -> None:
    """A worker's life: told its work, it does one job after another until its caller closes the pipe or dies."""
    connection = Connection(pipe)
    try:
        work = connection.recv()
        while True:
            connection.send(_answer(work, connection.recv()))
    except (EOFError, OSError):  # also in the middle of a job that is being sent: work's own errors are answers
        return


def _answer(work: Callable[[Any], Any], job: Any) -> tuple[bool, Any]:
    try:
        return True, work(job)
    except ForebearError as error:
        return False, error
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
        return False, ForebearError(f"{type(error).__name__} in a worker: {error}\n{traceback.format_exc()}")
