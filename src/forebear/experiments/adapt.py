"""The same adaptation several times: with other seeds, for the part of chance; with fewer examples, for a curve."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebear.data.labeled.source import read_labeled
from forebear.errors import InputError, UserInterrupt
from forebear.experiments.pipeline import run_adaptation
from forebear.experiments.plan import AdaptPlan
from forebear.training.run_folder import RunFolder
from forebear.training.worker_processes import SINGLE_PROCESS, ProcessGroup
from forebear.training.trainer import TrainingCallback

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of the examples, before all of them


def adapt_with_seeds(
    what: AdaptPlan,
    to: Path,
    seeds: int,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: TrainingCallback | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> RunFolder:
    """Adapts with so many seeds, each in a folder of its own beside `to`; the best on held-out examples becomes `to`.

    Its facts then tell the figures of all, their mean and spread.
    """
    check_seeds(what, seeds)
    runs = []
    for seed in range(what.recipe.seed, what.recipe.seed + seeds):
        own = replace(what, recipe=replace(what.recipe, seed=seed))
        (watcher or TrainingCallback()).on_note(f"seed {seed}")
        place = beside(to, "seeds", str(seed))
        with _all_again():
            runs.append(run_adaptation(own, place, overwrite=overwrite, command=command, watcher=watcher, group=group))
    best = max(runs, key=lambda run: task_figure(run, "dev") or 0.0)
    told = {
        "seeds": [
            {"seed": run.recipe.seed, **{side: task_figure(run, side) for side in run.metadata["metrics"]}}
            for run in runs
        ],
        "spread": {side: spread([task_figure(run, side) for run in runs]) for side in best.metadata["metrics"]},
    }
    return taken(best, to, told, overwrite=overwrite)


def learning_curve(
    what: AdaptPlan,
    to: Path,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: TrainingCallback | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> list[dict[str, Any]]:
    """The figures with shares of the examples: how many there were, and what came of it."""
    found = []
    for share in SHARES:
        source = replace(what.source, part=share)
        data = read_labeled(source)
        if len(data.train) < 4 or len(data.train) == len(what.labeled_data.train):
            continue
        (watcher or TrainingCallback()).on_note(f"{len(data.train):,} of {len(what.labeled_data.train):,} examples")
        own = replace(what, source=source, labeled_data=data)
        place = beside(to, "curve", f"{share:.4f}")
        with _all_again():
            run = run_adaptation(own, place, overwrite=overwrite, command=command, watcher=watcher, group=group)
        found.append(
            {"examples": len(data.train), **{side: task_figure(run, side) for side in run.metadata["metrics"]}}
        )
    return found


def check_seeds(what: AdaptPlan, seeds: int) -> None:
    """An error where several seeds would mean nothing."""
    if what.spec.learning == "counting":
        said = f"--seeds {seeds} means nothing to a model that counts: it is the same for every seed"
        raise InputError(said, hint="leave it out")
    if seeds < 2:
        raise InputError(f"--seeds is {seeds}", hint="give 2 or more, or leave it out")


@contextmanager
def _all_again() -> Iterator[None]:
    """One of several that is broken off: to go on with it alone would leave out the others."""
    try:
        yield
    except UserInterrupt as error:
        hint = "give the same command again: it goes on from here, with all that are still to come"
        raise UserInterrupt(error.message, file=error.file, hint=hint) from error


def beside(to: Path, what: str, name: str) -> Path:
    """A folder for one of several runs that belong to one."""
    return to.with_name(f"{to.name}.{what}") / name


def task_figure(run: RunFolder, side: str) -> float | None:
    """The task's own figure on a side; None where it was not measured."""
    assert run.task is not None
    return run.metadata["metrics"].get(side, {}).get(run.task.score)


def spread(figures: Sequence[float | None]) -> dict[str, float]:
    """Mean, standard deviation, least and most."""
    known = [value for value in figures if value is not None]
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return {"mean": statistics.fmean(known), "deviation": deviation, "least": min(known), "most": max(known)}


def taken(run: RunFolder, to: Path, facts: dict[str, Any], *, overwrite: bool) -> RunFolder:
    """A copy of the run at `to`, which says more of itself."""
    if to.exists():
        there = RunFolder.open(to)
        if there.metadata.get("asked") == run.metadata["asked"]:
            there.update(**facts)
            return there
        if not overwrite:
            raise InputError("holds another run", file=to, hint="add --overwrite to replace it, or choose another --to")
        shutil.rmtree(to)
    aside = to.with_name(f".{to.name}.copied")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(run.path, aside)
    RunFolder.open(aside).update(name=to.name, **facts)
    aside.rename(to)
    return RunFolder.open(to)
