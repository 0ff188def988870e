"""The same adaptation several times: with other seeds, for the part of chance; with fewer examples, for a curve."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebear.errors import BadInput, Interrupted
from forebear.training.folder import RunFolder
from forebear.training.labelled import read_labelled
from forebear.training.together import ALONE, Together
from forebear.training.trainer import Watcher
from forebear.using.adapting import adapt
from forebear.using.task_plans import Plan

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of the examples, before all of them


def with_seeds(
    what: Plan,
    to: Path,
    seeds: int,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: Watcher | None = None,
    group: Together = ALONE,
) -> RunFolder:
    """Adapts with so many seeds, each in a folder of its own beside `to`; the best on held-out examples becomes `to`.

    Its facts then tell the figures of all, their mean and spread.
    """
    check_seeds(what, seeds)
    runs = []
    for seed in range(what.recipe.seed, what.recipe.seed + seeds):
        own = replace(what, recipe=replace(what.recipe, seed=seed))
        (watcher or Watcher()).note(f"seed {seed}")
        place = beside(to, "seeds", str(seed))
        with _all_again():
            runs.append(adapt(own, place, overwrite=overwrite, command=command, watcher=watcher, group=group))
    best = max(runs, key=lambda run: figure(run, "dev") or 0.0)
    told = {
        "seeds": [
            {"seed": run.recipe.seed, **{side: figure(run, side) for side in run.facts["metrics"]}} for run in runs
        ],
        "spread": {side: spread([figure(run, side) for run in runs]) for side in best.facts["metrics"]},
    }
    return taken(best, to, told, overwrite=overwrite)


def with_fewer(
    what: Plan,
    to: Path,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: Watcher | None = None,
    group: Together = ALONE,
) -> list[dict[str, Any]]:
    """The figures with shares of the examples: how many there were, and what came of it."""
    found = []
    for share in SHARES:
        source = replace(what.source, part=share)
        data = read_labelled(source)
        if len(data.train) < 4 or len(data.train) == len(what.data.train):
            continue
        (watcher or Watcher()).note(f"{len(data.train):,} of {len(what.data.train):,} examples")
        own = replace(what, source=source, data=data)
        place = beside(to, "curve", f"{share:.4f}")
        with _all_again():
            run = adapt(own, place, overwrite=overwrite, command=command, watcher=watcher, group=group)
        found.append({"examples": len(data.train), **{side: figure(run, side) for side in run.facts["metrics"]}})
    return found


def check_seeds(what: Plan, seeds: int) -> None:
    """An error where several seeds would mean nothing."""
    if what.milestone.learning == "counting":
        said = f"--seeds {seeds} means nothing to a model that counts: it is the same for every seed"
        raise BadInput(said, remedy="leave it out")
    if seeds < 2:
        raise BadInput(f"--seeds is {seeds}", remedy="give 2 or more, or leave it out")


@contextmanager
def _all_again() -> Iterator[None]:
    """One of several that is broken off: to go on with it alone would leave out the others."""
    try:
        yield
    except Interrupted as error:
        remedy = "give the same command again: it goes on from here, with all that are still to come"
        raise Interrupted(error.what, file=error.file, remedy=remedy) from error


def beside(to: Path, what: str, name: str) -> Path:
    """A folder for one of several runs that belong to one."""
    return to.with_name(f"{to.name}.{what}") / name


def figure(run: RunFolder, side: str) -> float | None:
    """The task's own figure on a side; None where it was not measured."""
    assert run.task is not None
    return run.facts["metrics"].get(side, {}).get(run.task.score)


def spread(figures: Sequence[float | None]) -> dict[str, float]:
    """Mean, standard deviation, least and most."""
    known = [value for value in figures if value is not None]
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return {"mean": statistics.fmean(known), "deviation": deviation, "least": min(known), "most": max(known)}


def taken(run: RunFolder, to: Path, facts: dict[str, Any], *, overwrite: bool) -> RunFolder:
    """A copy of the run at `to`, which says more of itself."""
    if to.exists():
        there = RunFolder.open(to)
        if there.facts.get("asked") == run.facts["asked"]:
            there.tell(**facts)
            return there
        if not overwrite:
            raise BadInput("holds another run", file=to, remedy="add --overwrite to replace it, or choose another --to")
        shutil.rmtree(to)
    aside = to.with_name(f".{to.name}.copied")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(run.path, aside)
    RunFolder.open(aside).tell(name=to.name, **facts)
    aside.rename(to)
    return RunFolder.open(to)
