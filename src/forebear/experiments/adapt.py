"""Repeat an adaptation with several seeds, or with fewer examples for a learning curve."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forebear.data.io.atomic import new_folder
from forebear.data.labeled.load import read_labeled
from forebear.errors import InputError, UserInterrupt
from forebear.experiments.plan import AdaptPlan
from forebear.experiments.training_run import run_adaptation
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import TrainingCallback

CURVE_FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # fractions of the training set


def adapt_with_seeds(plan: AdaptPlan, to: Path, seeds: int, **options: Any) -> RunFolder:
    """Adapt with several seeds, in folders next to `to`; the best run on the dev set is copied to `to`.

    Its run.json gets the metrics of all seeds, with mean and standard deviation.
    """
    check_seeds(plan, seeds)
    runs = []
    for seed in range(plan.recipe.seed, plan.recipe.seed + seeds):
        seed_plan = replace(plan, recipe=replace(plan.recipe, seed=seed))
        runs.append(_run_sibling(seed_plan, to, "seeds", str(seed), f"seed {seed}", options))
    best = max(runs, key=lambda run: task_score(run, "dev") or 0.0)
    splits = best.metadata["metrics"]
    summary = {
        "seeds": [{"seed": run.recipe.seed, **_task_scores(run)} for run in runs],
        "spread": {split: _score_statistics([task_score(run, split) for run in runs]) for split in splits},
    }
    return _copy_run(best, to, summary, overwrite=options.get("overwrite", False))


def learning_curve(plan: AdaptPlan, to: Path, **options: Any) -> list[dict[str, Any]]:
    """Adapt with fractions of the training set: the number of examples and the scores of each run."""
    points = []
    for fraction in CURVE_FRACTIONS:
        source = replace(plan.source, part=fraction)
        data = read_labeled(source)
        if len(data.train) < 4 or len(data.train) == len(plan.labeled_data.train):
            continue
        fraction_plan = replace(plan, source=source, labeled_data=data)
        note = f"{len(data.train):,} of {len(plan.labeled_data.train):,} examples"
        run = _run_sibling(fraction_plan, to, "curve", f"{fraction:.4f}", note, options)
        points.append({"examples": len(data.train), **_task_scores(run)})
    return points


def check_seeds(plan: AdaptPlan, seeds: int) -> None:
    """Raise InputError for fewer than two seeds, and for models without randomness."""
    if plan.spec.learning == "counting":
        message = f"--seeds {seeds} means nothing to a model that counts: it is the same for every seed"
        raise InputError(message, hint="leave it out")
    if seeds < 2:
        raise InputError(f"--seeds is {seeds}", hint="give 2 or more, or leave it out")


def _run_sibling(plan: AdaptPlan, to: Path, group: str, name: str, note: str, options: dict[str, Any]) -> RunFolder:
    """Run one of several adaptations in a folder next to `to`; the same command resumes all of them."""
    (options.get("callback") or TrainingCallback()).on_note(note)
    try:
        return run_adaptation(plan, to.with_name(f"{to.name}.{group}") / name, **options)
    except UserInterrupt as error:
        hint = "give the same command again: it goes on from here, with all that are still to come"
        raise UserInterrupt(error.message, file=error.file, hint=hint) from error


def task_score(run: RunFolder, split: str) -> float | None:
    """The task metric on a split; None if it was not measured."""
    assert run.task is not None
    return run.metadata["metrics"].get(split, {}).get(run.task.metric)


def _task_scores(run: RunFolder) -> dict[str, float | None]:
    return {split: task_score(run, split) for split in run.metadata["metrics"]}


def _score_statistics(scores: Sequence[float | None]) -> dict[str, float]:
    """Mean, standard deviation, minimum and maximum."""
    values = [value for value in scores if value is not None]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "deviation": deviation, "least": min(values), "most": max(values)}


def _copy_run(run: RunFolder, to: Path, entries: dict[str, Any], *, overwrite: bool) -> RunFolder:
    """Copy a run to `to` and add entries to its run.json."""
    if to.exists():
        existing = RunFolder.open(to)
        if existing.metadata.get("asked") == run.metadata["asked"]:
            existing.update(**entries)
            return existing
        if not overwrite:
            raise InputError("holds another run", file=to, hint="add --overwrite to replace it, or choose another --to")
        shutil.rmtree(to)
    with new_folder(to) as folder:
        shutil.copytree(run.path, folder, dirs_exist_ok=True)
        RunFolder.open(folder).update(name=to.name, **entries)
    return RunFolder.open(to)
