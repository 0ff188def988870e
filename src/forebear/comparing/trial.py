"""One milestone, one seed, in a process of its own: its memory is its own, and if it is killed, the others go on."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from forebear.comparing.outcomes import Curve, Trial
from forebear.errors import ForebearError
from forebear.training.corpora import TextSource
from forebear.training.folder import METRICS, RunFolder
from forebear.training.metrics import Metrics

ATTEMPT = "from forebear.comparing.trial import serve; serve()"
LOOK = 0.5  # seconds between two looks at how far it is
WORDS = 60  # tokens of a sample
PATIENCE = 120  # seconds a trial may take to save when it is interrupted

Hear = Callable[[dict[str, Any]], object]  # the last line of its metrics, whenever there is a new one


@dataclass(frozen=True)
class Job:
    """What a trial is to do; travels as JSON."""

    milestone: str
    source: dict[str, Any]
    size: str | None
    tokenizer: str | None
    vocabulary: int | None
    settings: dict[str, Any]
    to: str
    prompt: str
    overwrite: bool
    command: str


def attempt(job: Job, hear: Hear) -> Trial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    seed, place = job.settings["seed"], Path(job.to)
    with _started(job) as process:
        told, code = _followed(process, place / METRICS, hear)
    if code == 0 and "error" not in told:
        return replace(result(RunFolder.open(place)), sample=told["sample"], seed=seed)
    if code < 0:
        name = signal.Signals(-code).name
        what = f"killed by {name}" + (", often for lack of memory" if code == -signal.SIGKILL else "")
        told = {"error": f"{what}; a smaller size may fit"}
    return replace(_so_far(place), seed=seed, finished=False, error=told.get("error", f"ended with code {code}"))


def _so_far(place: Path) -> Trial:
    try:
        return result(RunFolder.open(place))
    except (ForebearError, KeyError, TypeError):  # it did not come as far as to be a run
        return Trial(0)


def result(run: RunFolder) -> Trial:
    """What a run folder says of its cost and quality."""
    facts = run.facts
    measured = facts.get("metrics", {}).get("held_out", {})
    pseudo = measured.get("pseudo", False)
    return Trial(
        facts["recipe"].get("seed", 0),
        run=f"{run.path.parent.name}/{run.path.name}",
        size=facts.get("size") or "",
        parameters=facts.get("parameters"),
        seconds=facts.get("seconds"),
        tokens=facts.get("tokens"),
        memory=facts.get("peak_memory"),
        bits_per_byte=None if pseudo else measured.get("bits_per_byte"),
        pseudo_bits=measured.get("bits_per_byte") if pseudo else None,
        found=measured.get("accuracy"),
        guess=measured.get("guess"),
        paired=measured.get("pair_accuracy"),
        perplexity=measured.get("perplexity"),
        impossible=measured.get("impossible_tokens", 0),
        tokenizer=facts["tokenizer"]["kind"],
        vocabulary=facts["tokenizer"]["size"],
        unknown_rate=measured.get("unknown_rate"),
        forgotten=tuple(measured.get("forgotten", ())),
        held_out_bytes=measured.get("bytes"),
        curve=_curve(run, measured),
        finished=run.finished,
    )


def _curve(run: RunFolder, measured: dict[str, Any]) -> Curve:
    """The held-out losses of the training log as bits per byte.

    They were taken on a sample of the held-out text. Their distance to the loss of the state that was kept is turned
    into bits per byte and put upon that state's final measurement, so that the curve leads to the result.
    """
    final, kept = measured.get("bits_per_byte"), run.facts.get("held_out_loss")
    if final is None or kept is None or measured.get("pseudo"):
        return ()
    a_token = measured["tokens"] / measured["bytes"] / math.log(2)
    lines = (line for line in Metrics(run.path / METRICS).read() if line.get("held_out"))
    points = ((line["seconds"], line["held_out"].get("next")) for line in lines)
    return tuple((round(at, 3), round(final + (loss - kept) * a_token, 5)) for at, loss in points if loss is not None)


# -- the process's end of it


def serve() -> None:
    """A trial's life: reads its job, does it, tells the result; when its caller dies, it saves and ends."""
    job = Job(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_watch_caller, daemon=True).start()
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not get into the answer
    told, code = _done(job)
    answer.write(json.dumps(told))
    answer.flush()
    sys.stderr.flush()
    os._exit(code)  # the thread that watches still reads


def _watch_caller() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _done(job: Job) -> tuple[dict[str, Any], int]:
    try:
        return {"sample": _run(job)}, 0
    except ForebearError as error:
        return {"error": str(error)}, error.exit_code
    except KeyboardInterrupt:
        return {"error": "interrupted"}, 130
    except MemoryError:
        return {"error": "out of memory; a smaller size may fit"}, 1
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a row of the table and not the table's end
        return {"error": f"{type(error).__name__}: {error}"}, 1


def _run(job: Job) -> str:
    from forebear.using.planning import plan
    from forebear.using.pretraining import pretrain
    from forebear.using.run import Run

    source = TextSource.from_json(job.source)
    what = plan(
        job.milestone,
        source.paths,
        size=job.size,
        tokenizer=job.tokenizer,
        vocabulary=job.vocabulary,
        source=source,
        settings=job.settings,
    )
    # made, or found, before memory is watched: learning a tokenizer may need more than the milestone itself
    what.corpus()
    _forget_peak()
    run = Run(pretrain(what, job.to, overwrite=job.overwrite, command=job.command))
    if "peak_memory" not in run.facts:
        run.folder.tell(peak_memory=_peak())
    if "next" not in run.heads:
        return ""
    return run.generate(job.prompt, length=WORDS)[0].text


def _forget_peak() -> None:
    """From here on the peak of memory is counted anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak() -> int:
    """Bytes of memory this process has held at most."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return told if sys.platform == "darwin" else told * 1024


# -- the caller's end of it


@contextmanager
def _started(job: Job) -> Iterator[subprocess.Popen[str]]:
    """A fresh interpreter that knows its job. A session of its own keeps Ctrl-C from it: it hears of that from us."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", ATTEMPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it is dead already: its exit code says so
        process.stdin.write(json.dumps(asdict(job)) + "\n")
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


def _followed(process: subprocess.Popen[str], log: Path, hear: Hear) -> tuple[dict[str, Any], int]:
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
