"""Worker processes, and the commands of child processes, which import nothing from the working folder.

A worker's failure is raised in the caller, and no worker outlives its caller.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from forebear.errors import ForebearError

Job = TypeVar("Job")
Result = TypeVar("Result")
Workers = dict[Connection, "subprocess.Popen[bytes]"]

WORKER_PROGRAM = "import sys; from forebear.data.io.workers import serve; serve(int(sys.argv[1]))"


def cpu_count() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    count: int,
    *,
    runs_here: Callable[[Job, float], bool] = lambda job, seconds: False,
) -> Iterator[Result]:
    """`work(job)` for every job, in the order in which they finish.

    Each worker has one job at a time and one more is held here, so that memory does not grow with the number of jobs.

    Args:
        work: Function of a job; it and the jobs must be picklable.
        jobs: Jobs, taken when a worker is free; error messages name them by `str`.
        count: Number of processes; with 1, everything runs in this process.
        runs_here: Whether the next job runs in this process, given the seconds since the start; the first time it is
            False, all processes are started.
    """
    workers: Workers = {}
    idle: list[Connection] = []
    busy: dict[Connection, str] = {}
    pending, start = iter(jobs), time.monotonic()
    job = next(pending, None)
    while job is not None and (count <= 1 or runs_here(job, time.monotonic() - start)):
        yield work(job)
        job = next(pending, None)
    try:
        if job is not None:
            idle += [_start_worker(workers) for _ in range(count)]
            for connection in idle:
                _send(connection, work, workers, "the beginning")
        while job is not None or busy:
            if job is not None and idle:
                connection = idle.pop()
                busy[connection] = str(job)
                _send(connection, job, workers, busy[connection])
                job = next(pending, None)
                continue
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                result = _receive(connection, workers, busy[connection])
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


def _start_worker(workers: Workers) -> Connection:
    """Start a fresh interpreter at the other end of a pipe.

    Not a fork, which would inherit the other workers' pipes (they would never close) and any held locks; and not
    multiprocessing's spawn, which runs the caller's script again. A session for each worker protects it from Ctrl-C.
    """
    local, remote = multiprocessing.Pipe()
    workers[local] = subprocess.Popen(
        python_command(WORKER_PROGRAM, remote.fileno()),
        pass_fds=[remote.fileno()],
        env=child_environment(TOKENIZERS_PARALLELISM="false"),  # one worker, one core
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    remote.close()
    return local


def _send(connection: Connection, message: object, workers: Workers, location: str) -> None:
    try:
        connection.send(message)
    except (BrokenPipeError, ConnectionResetError):
        raise _worker_died(workers[connection], location) from None


def _receive(connection: Connection, workers: Workers, location: str) -> Any:
    try:
        succeeded, result = connection.recv()
    except (EOFError, ConnectionResetError):
        raise _worker_died(workers[connection], location) from None
    if not succeeded:
        raise result
    return result


def _worker_died(process: subprocess.Popen[bytes], location: str) -> ForebearError:
    code = process.wait(10)
    cause = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    hint = "often a lack of memory: run again with fewer --workers; finished shards are kept"
    return ForebearError(f"a worker {cause} while working on {location}", hint=hint)


def serve(pipe: int) -> None:
    """The main loop of a worker: receives `work`, then jobs until the caller closes the pipe or dies."""
    connection = Connection(pipe)
    try:
        work = connection.recv()
        while True:
            job = connection.recv()
            try:
                reply = True, work(job)
            except ForebearError as error:
                reply = False, error
            except Exception as error:  # noqa: BLE001 - the caller must get any error
                trace = traceback.format_exc()
                reply = False, ForebearError(f"{type(error).__name__} in a worker: {error}\n{trace}")
            connection.send(reply)
    except (EOFError, OSError):  # the pipe closed, perhaps while a job was sent; errors of `work` itself are answers
        return


# --- Commands of child processes ---
#
# Python puts the working folder first on the search path of a program given by `-c` or `-m`. A file `json.py` next to
# the text would then run instead of the standard library's module.

PACKAGE_PARENT = Path(__file__).resolve().parents[3]  # the folder that holds the package forebear


def python_command(program: str, *arguments: object) -> list[str]:
    """The command that runs the Python code `program` in a fresh interpreter."""
    path, package = _search_path(), str(PACKAGE_PARENT)
    # Entries that PYTHONPATH cannot hold, and the folder of this package if it is the working folder, come last: they
    # replace no module of the standard library or of installed packages.
    appended_paths = [entry for entry in path if os.pathsep in entry]
    if package not in map(os.path.realpath, path):
        appended_paths.append(package)
    if appended_paths:
        program = f"import sys; sys.path += {appended_paths!r}; {program}"
    return [sys.executable, "-P", "-c", program, *map(str, arguments)]


def child_environment(**changes: str) -> dict[str, str]:
    """The environment of this process, with its module search path and with `changes`."""
    search_path = os.pathsep.join(path for path in _search_path() if os.pathsep not in path)
    return {**os.environ, "PYTHONPATH": search_path, "PYTHONSAFEPATH": "1", **changes}


def _search_path() -> list[str]:
    """Absolute entries of `sys.path`, without the working folder."""
    try:
        working_folder = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed: relative entries lead nowhere
        return [path for path in sys.path if os.path.isabs(path)]
    return [os.path.abspath(path) for path in sys.path if path and os.path.realpath(path) != working_folder]
