"""One model adapted to the examples with one seed, in a process of its own; then its score, size and speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.comparing import processes
from forebear.comparing.examples import read
from forebear.comparing.noise import interval, parts
from forebear.comparing.processes import Hear
from forebear.comparing.task_outcomes import TaskTrial
from forebear.errors import ForebearError
from forebear.text.aside import written_aside
from forebear.text.corpus import TOKENIZER
from forebear.training.folder import METRICS, RunFolder
from forebear.training.labelled import LabelledSource

if TYPE_CHECKING:
    from forebear.using.adapting import Plan
    from forebear.using.run import Run

ATTEMPT = "from forebear.comparing.task_trial import serve; serve()"
PARTS = "test_parts.npy"  # in the run's folder: each test example's part in the score
ALONE = 50  # examples that are asked one at a time
WARM = 3  # that are asked before, and not counted


@dataclass(frozen=True)
class TaskJob:
    """What a trial is to do; travels as JSON.

    begin  a run's folder, or a milestone's name, which begins from nothing
    fresh  of the run only fields and tokenizer are taken: what is it worth to have been pre-trained?
    """

    begin: str
    source: dict[str, Any]
    settings: dict[str, Any]
    how: dict[str, Any]
    size: str | None
    fresh: bool
    to: str
    seed: int
    overwrite: bool
    command: str


def attempt(job: TaskJob, hear: Hear) -> TaskTrial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    place = Path(job.to)
    with processes.started(ATTEMPT, asdict(job)) as process:
        told, code = processes.followed(process, place / METRICS, hear)
    if error := processes.fault(told, code):
        return replace(_so_far(place), seed=job.seed, finished=False, score=None, error=error)
    return replace(result(RunFolder.open(place)), seed=job.seed)


def _so_far(place: Path) -> TaskTrial:
    try:
        return result(RunFolder.open(place))
    except (ForebearError, KeyError, TypeError, OSError):  # it did not come as far as to be a run
        return TaskTrial(0)


def result(run: RunFolder) -> TaskTrial:
    """What the folder of an adapted run says of its cost and quality."""
    facts = run.facts
    compared = facts.get("compared", {})
    figures = facts.get("metrics", {}).get("test", {})
    weights = facts.get("weights")
    return TaskTrial(
        facts["recipe"].get("seed", 0),
        run=f"{run.path.parent.name}/{run.path.name}",
        size=facts.get("size") or "",
        score=figures.get(compared.get("score")),
        figures={name: value for name, value in figures.items() if isinstance(value, int | float)},
        low=compared.get("low"),
        high=compared.get("high"),
        parameters=facts.get("parameters"),
        disk=None if weights is None else weights["bytes"] + (run.path / TOKENIZER).stat().st_size,
        adapting=facts.get("seconds"),
        steps=facts.get("step"),
        milliseconds=compared.get("milliseconds"),
        speed=compared.get("speed"),
        memory=facts.get("peak_memory"),
        finished=run.finished and bool(compared),
    )


def parts_of(run: Path) -> np.ndarray | None:
    """Each test example's part in the score of a trial; None where it is gone."""
    try:
        return np.load(run / PARTS, allow_pickle=False)
    except (OSError, ValueError):
        return None


# -- the process's end of it


def serve() -> None:
    """A trial's life, as a process."""
    processes.serve(lambda told: processes.outcome(lambda: _run(TaskJob(**told))))


def _run(job: TaskJob) -> dict[str, Any]:
    from forebear.using import adapting
    from forebear.using.run import Run

    source = LabelledSource.from_json(job.source)
    data = read(source)
    what = adapting.plan(job.begin, source, how=job.how, settings=job.settings, size=job.size, data=data)
    what = _from_nothing(what) if job.fresh else what
    processes.forget_peak()
    folder = adapting.adapt(what, job.to, overwrite=job.overwrite, command=job.command)
    if "compared" not in folder.facts or parts_of(folder.path) is None:
        if "peak_memory" not in folder.facts:
            folder.tell(peak_memory=processes.peak())
        folder.tell(compared=measured(Run(folder), data.test))
    return {}


def _from_nothing(what: Plan) -> Plan:
    """The same network and tokenizer with first values, and the rate of one that has to learn everything."""
    rate = what.milestone.recipe().get("rate", what.recipe.rate)
    return replace(what, beginning=None, recipe=replace(what.recipe, rate=rate))


def measured(run: Run, examples: Sequence[Any]) -> dict[str, Any]:
    """How fast it answers and how sure its score is; each example's part in that is kept beside the run."""
    from forebear.using.doing import done

    task = run.task
    assert task is not None
    alone = [examples[number % len(examples)] for number in _spread_out(len(examples))]
    for example in alone[:WARM]:
        list(done(run, [example]))
    taken = []
    for example in alone:
        began = time.perf_counter()
        list(done(run, [example]))
        taken.append(time.perf_counter() - began)
    began = time.perf_counter()
    answers = list(done(run, examples))
    together = time.perf_counter() - began
    found = parts(task, examples, answers)
    with written_aside(run.folder.path / PARTS) as file:
        np.save(file, found)
    low, high = interval(found)
    return {
        "score": task.score,
        "low": low,
        "high": high,
        "milliseconds": 1000 * float(np.median(taken)),
        "speed": len(examples) / together,
    }


def _spread_out(count: int) -> list[int]:
    """Numbers of ALONE examples, evenly over all; of few examples some come again."""
    return list(range(ALONE)) if count <= ALONE else np.linspace(0, count - 1, ALONE).round().astype(int).tolist()
