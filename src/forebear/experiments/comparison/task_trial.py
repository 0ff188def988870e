"""One model adapted to the examples with one seed, in a process of its own; then its score, size and speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.corpus import TOKENIZER_FILE
from forebear.data.io.atomic import atomic_write
from forebear.data.labeled.source import LabeledSource
from forebear.errors import ForebearError
from forebear.experiments.comparison import trials
from forebear.experiments.comparison.contenders import read_splits
from forebear.experiments.comparison.results import TaskTrial
from forebear.experiments.comparison.significance import confidence_interval, example_scores
from forebear.experiments.comparison.trials import LineCallback
from forebear.training.run_folder import METRICS_FILE, RunFolder

if TYPE_CHECKING:
    from forebear.experiments.pipeline import AdaptPlan
    from forebear.inference.run import Run

TASK_TRIAL_ATTEMPT = "from forebear.experiments.comparison.task_trial import serve_task_trial; serve_task_trial()"
PARTS = "test_parts.npy"  # in the run's folder: each test example's part in the score
ALONE = 50  # examples that are asked one at a time
WARM = 3  # that are asked before, and not counted


@dataclass(frozen=True)
class TaskTrialSpec:
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


def run_task_trial(job: TaskTrialSpec, hear: LineCallback) -> TaskTrial:
    """Runs the job and tells how it went; whatever happens there is told in the trial, not raised.

    KeyboardInterrupt is raised, after the trial has saved what it had.
    """
    place = Path(job.to)
    with trials.start_job(TASK_TRIAL_ATTEMPT, asdict(job)) as process:
        told, code = trials.follow_process(process, place / METRICS_FILE, hear)
    if error := trials.job_error(told, code):
        return replace(_task_trial_so_far(place), seed=job.seed, finished=False, score=None, error=error)
    return replace(task_trial_result(RunFolder.open(place)), seed=job.seed)


def _task_trial_so_far(place: Path) -> TaskTrial:
    try:
        return task_trial_result(RunFolder.open(place))
    except (ForebearError, KeyError, TypeError, OSError):  # it did not come as far as to be a run
        return TaskTrial(0)


def task_trial_result(run: RunFolder) -> TaskTrial:
    """What the folder of an adapted run says of its cost and quality."""
    facts = run.metadata
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
        disk=None if weights is None else weights["bytes"] + (run.path / TOKENIZER_FILE).stat().st_size,
        adapting=facts.get("seconds"),
        steps=facts.get("step"),
        milliseconds=compared.get("milliseconds"),
        speed=compared.get("speed"),
        memory=facts.get("peak_memory"),
        finished=run.is_finished and bool(compared),
    )


def trial_example_scores(run: Path) -> np.ndarray | None:
    """Each test example's part in the score of a trial; None where it is gone."""
    try:
        return np.load(run / PARTS, allow_pickle=False)
    except (OSError, ValueError):
        return None


# -- the process's end of it


def serve_task_trial() -> None:
    """A trial's life, as a process."""
    trials.serve_job(lambda told: trials.job_outcome(lambda: _task_trial_run(TaskTrialSpec(**told))))


def _task_trial_run(job: TaskTrialSpec) -> dict[str, Any]:
    from forebear.experiments import pipeline
    from forebear.inference.run import Run

    source = LabeledSource.from_dict(job.source)
    data = read_splits(source)
    what = pipeline.plan_adaptation(job.begin, source, how=job.how, settings=job.settings, size=job.size, data=data)
    what = _from_nothing(what) if job.fresh else what
    trials.reset_peak_ram()
    folder = pipeline.run_adaptation(what, job.to, overwrite=job.overwrite, command=job.command)
    if "compared" not in folder.metadata or trial_example_scores(folder.path) is None:
        if "peak_memory" not in folder.metadata:
            folder.update(peak_memory=trials.peak_ram())
        folder.update(compared=measured(Run(folder), data.test))
    return {}


def _from_nothing(what: AdaptPlan) -> AdaptPlan:
    """The same network and tokenizer with first values, and the rate of one that has to learn everything."""
    rate = what.spec.default_recipe().get("rate", what.recipe.rate)
    return replace(what, init_from=None, recipe=replace(what.recipe, rate=rate))


def measured(run: Run, examples: Sequence[Any]) -> dict[str, Any]:
    """How fast it answers and how sure its score is; each example's part in that is kept beside the run."""
    from forebear.inference.predict import predict

    task = run.task
    assert task is not None
    alone = [examples[number % len(examples)] for number in _spread_out(len(examples))]
    for example in alone[:WARM]:
        list(predict(run, [example]))
    taken = []
    for example in alone:
        began = time.perf_counter()
        list(predict(run, [example]))
        taken.append(time.perf_counter() - began)
    began = time.perf_counter()
    answers = list(predict(run, examples))
    together = time.perf_counter() - began
    found = example_scores(task, examples, answers)
    with atomic_write(run.folder.path / PARTS) as file:
        np.save(file, found)
    low, high = confidence_interval(found)
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
