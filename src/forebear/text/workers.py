"""Work spread over processes: a worker's failure is the caller's failure, and no worker outlives its caller."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from forebear.errors import ForebearError

Job = TypeVar("Job")
Result = TypeVar("Result")


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    work: Callable[[Job], Result], jobs: Iterable[Job], count: int, place: Callable[[Job], str] = str
) -> Iterator[Result]:
    """`work(job)` for every job, in whatever order they finish. `place` names a job in messages.

    `count` processes are started, all at once, when there is a first job. Each holds one job at a time and one more
    waits here, so that memory does not grow with the number of jobs. With `count` 1 nothing is started.
    """
    if count <= 1:
        yield from map(work, jobs)
        return
    workers: dict[Connection, BaseProcess] = {}
    idle: list[Connection] = []
    busy: dict[Connection, str] = {}
    waiting = iter(jobs)
    try:
        job = next(waiting, None)
        if job is not None:
            idle += [_start(work, workers) for _ in range(count)]
        while job is not None or busy:
            if job is not None and idle:
                connection = idle.pop()
                busy[connection] = place(job)
                _sent(connection, job, workers, busy)
                job = next(waiting, None)
                continue
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                result = _received(connection, workers, busy)
                del busy[connection]
                idle.append(connection)
                yield result
    finally:
        for connection, process in workers.items():
            connection.close()
            if connection in busy:
                process.terminate()
        for process in workers.values():
            process.join()


def _start(work: Callable[..., Any], workers: dict[Connection, BaseProcess]) -> Connection:
    # Spawned, not forked: a fork would inherit the other workers' pipes (which then never close) and any locks held.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()
    workers[ours] = process
    return ours


def _sent(
    connection: Connection, job: object, workers: dict[Connection, BaseProcess], busy: dict[Connection, str]
) -> None:
    try:
        connection.send(job)
    except (BrokenPipeError, ConnectionResetError):
        raise _death(workers[connection], busy[connection]) from None


def _received(connection: Connection, workers: dict[Connection, BaseProcess], busy: dict[Connection, str]) -> Any:
    try:
        succeeded, result = connection.recv()
    except (EOFError, ConnectionResetError):
        raise _death(workers[connection], busy[connection]) from None
    if not succeeded:
        raise result
    return result


def _death(process: BaseProcess, place: str) -> ForebearError:
    process.join(10)
    code = process.exitcode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
    return ForebearError(
        f"a worker {how} while working on {place}",
        remedy="often a lack of memory: run again with fewer --workers; finished shards are kept",
    )


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
    """A worker's life: one job after another, until its caller closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one worker, one core
    while True:
        try:
            job = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        try:
            answer = True, work(job)
        except ForebearError as error:
            answer = False, error
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
            answer = False, ForebearError(f"{type(error).__name__} in a worker: {error}\n{traceback.format_exc()}")
        try:
            connection.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return
