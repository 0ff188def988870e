"""A job in a process of its own: its memory is its own, and if it is killed, whoever asked for it goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from forebear.errors import ForebearError
from forebear.text.child_processes import child_environment, python_command
from forebear.training.metrics import Metrics

LOOK = 0.5  # seconds between two looks at how far it is
PATIENCE = 120  # seconds a job may take to save when it is interrupted

Hear = Callable[[dict[str, Any]], object]  # the last line of its metrics, whenever there is a new one


# -- the process's end of it


def serve(done: Callable[[dict[str, Any]], tuple[dict[str, Any], int]]) -> None:
    """A job's life: reads what it is, does it, tells the result; when its caller dies, it saves and ends."""
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch_caller, daemon=True).start()
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not get into the answer
    told, code = done(job)
    answer.write(json.dumps(told))
    answer.flush()
    sys.stderr.flush()
    os._exit(code)  # the thread that watches still reads


def _watch_caller() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def outcome(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """What the work tells, or what went wrong with it; and the exit code."""
    try:
        return work(), 0
    except ForebearError as error:
        return {"error": str(error)}, error.exit_code
    except KeyboardInterrupt:
        return {"error": "interrupted"}, 130
    except MemoryError:
        return {"error": "out of memory; a smaller size may fit"}, 1
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a row of the table and not the table's end
        return {"error": f"{type(error).__name__}: {error}"}, 1


def forget_peak() -> None:
    """From here on the peak of memory is counted anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak() -> int:
    """Bytes of memory this process has held at most."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return told if sys.platform == "darwin" else told * 1024


# -- the caller's end of it


@contextmanager
def started(program: str, job: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A fresh interpreter that knows its job. A session of its own keeps Ctrl-C from it: it hears of that from us."""
    process = subprocess.Popen(
        python_command(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it is dead already: its exit code says so
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
    try:
        yield process
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except BaseException:  # a second Ctrl-C, or it does not end: then at once
            process.kill()
            process.wait()
            raise
        raise
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def followed(process: subprocess.Popen[str], log: Path, hear: Hear) -> tuple[dict[str, Any], int]:
    """Waits for the end, telling every new line of the log; the answer, and the exit code."""
    answers: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda out: answers.append(out.read()), args=[process.stdout], daemon=True)
    reader.start()
    step = None
    while reader.is_alive():
        reader.join(LOOK)
        for last in deque(Metrics(log).read(), maxlen=1):
            if last.get("step") != step:
                step = last.get("step")
                hear(last)
    code = process.wait()
    try:
        told = json.loads(answers[0])
    except (IndexError, ValueError):
        told = {}
    return told, code


def fault(told: dict[str, Any], code: int) -> str:
    """What went wrong with a job, by its answer and exit code; nothing where all went well."""
    if code < 0:
        name = signal.Signals(-code).name
        what = f"killed by {name}" + (", often for lack of memory" if code == -signal.SIGKILL else "")
        return f"{what}; a smaller size may fit"
    return told.get("error", "") if code == 0 else told.get("error", f"ended with code {code}")
