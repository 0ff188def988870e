"""Every milestone, or run, or variant on the same labelled examples: pre-trained, adapted, measured; it can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from forebear._version import __version__
from forebear.data.corpora import TextSource, is_corpus
from forebear.data.corpus.prepare import document_hashes
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.labeled.source import LabeledData, LabeledSource, labeled_source
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments.comparison import compare, contenders, task_trial, verdict
from forebear.experiments.comparison.compare import COMPARISON_FILE, COMPARISON_PAGE, DEFAULT_TIME, RUNS_FOLDER
from forebear.experiments.comparison.contenders import REFERENCE_MODEL, ModelOrigin
from forebear.experiments.comparison.results import TaskComparison, TaskComparisonRow, TaskTrial, TextTrial
from forebear.experiments.comparison.task_page import task_comparison_page
from forebear.experiments.comparison.task_trial import TaskTrialSpec
from forebear.experiments.comparison.trials import TextTrialSpec, rows_without_pair_task, run_text_trial
from forebear.experiments.evaluator import already_trained_on
from forebear.registry import LINEAGE
from forebear.settings.units import format_duration as shown
from forebear.tasks.baselines import task_baseline
from forebear.training import run_folder
from forebear.training.run_folder import RunFolder, lock_folder
from forebear.training.settings import parse_duration

PathLike = str | os.PathLike[str]
TaskTrialCallback = Callable[[str, int, dict[str, Any] | TextTrial | TaskTrial], object]
TASKS = "tasks"  # the folder of what was adapted, beside that of what was pre-trained


@dataclass(frozen=True)
class _TaskTrialSettings:
    """What every trial has in common."""

    source: TextSource
    labelled: LabeledSource
    vocabulary: int | None
    pretraining: dict[str, Any]  # settings of a recipe
    adapting: dict[str, Any]
    overwrite: bool
    command: str


def compare_on_task(
    texts: PathLike | Sequence[PathLike] = (),
    *,
    task: tuple[str, PathLike],
    test: PathLike | None = None,
    dev: PathLike | None = None,
    test_share: float = 0.2,
    runs: Sequence[PathLike] = (),
    only: Sequence[str] | None = None,
    ablate: Sequence[str] = (),
    to: PathLike = "comparison",
    time: str | float | None = None,
    adapt_time: str | float | None = None,
    seeds: int | Sequence[int] = 1,
    size: Mapping[str, str] | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.05,
    threads: int | None = None,
    form: Mapping[str, Any] | None = None,
    labelled: Mapping[str, Any] | None = None,
    source: TextSource | None = None,
    overwrite: bool = False,
    command: str = "",
    hear: TaskTrialCallback | None = None,
) -> TaskComparison:
    """`task` is its name (or "auto") and the file to learn from; without `test` a share of it is held out for that.

    `runs` are finished runs that take part; without texts they and the n-gram are all. `ablate` names what of BERT to
    leave out: nsp, direction, whole-words, pretraining. `form` says how the files are written (`files.guessing.guess`),
    and `labelled` what else is to be done with them (training.labelled.LabelledSource).
    """
    given = (texts,) if isinstance(texts, str | os.PathLike) else tuple(texts)
    source = replace(source or TextSource(()), paths=tuple(os.fspath(path) for path in given))
    compare.refuse_stdin(source.paths)
    chosen = compare.seed_list(seeds)
    if not source.paths and any(value is not None for value in (time, tokenizer, vocabulary)):
        what = "--time, --tokenizer and --vocabulary mean nothing where no text is given to pre-train on"
        raise InputError(what, hint="leave them out; --adapt-time is for learning the task")
    name, train = task
    file, notes = labeled_source(
        os.fspath(train),
        task=None if name == "auto" else name,
        dev=None if dev is None else os.fspath(dev),
        test=None if test is None else os.fspath(test),
        form=form,
        **dict(labelled or {}),
    )
    taught = [os.fspath(run) for run in runs]
    who = contenders.comparison_rows(source.paths, taught, only, ablate, size or {}, tokenizer, file.task)
    who = contenders.rows_for_task(who, file.task, only or ())
    budget = None if adapt_time is None else parse_duration(adapt_time)
    pretraining = {
        "time": parse_duration(DEFAULT_TIME if time is None else time),
        "held_out": held_out,
        "threads": threads,
    }
    adapting = {"time": budget, "threads": threads}
    shared = contenders.with_test_split(file, test_share)
    wanted = _TaskTrialSettings(source, shared, vocabulary, pretraining, adapting, overwrite, command)
    folder = Path(to)
    with explain_disk_errors(folder):
        (folder / TASKS).mkdir(parents=True, exist_ok=True)
        with lock_folder(folder, "another process is comparing in this folder"):
            made = _begun(folder, wanted, chosen, dict(size or {}), tokenizer, REFERENCE_MODEL if ablate else "", notes)
            return _gone_on(made, folder, who, chosen, wanted, hear or (lambda name, seed, told: None))


def _begun(
    folder: Path,
    wanted: _TaskTrialSettings,
    seeds: list[int],
    sizes: dict[str, str],
    tokenizer: str | None,
    whole: str,
    notes: list[str],
) -> TaskComparison:
    """The comparison that stands in the folder, if it is this one; else a new one, with its baselines."""
    settings = {
        **wanted.pretraining,
        "adapting": wanted.adapting,
        "budget": shown(wanted.pretraining["time"]) if wanted.source.paths else "",
        "adapting_budget": "" if (seconds := wanted.adapting["time"]) is None else shown(seconds),
        "seeds": seeds,
        "sizes": sizes,
        "tokenizer": tokenizer,
        "vocabulary": wanted.vocabulary,
        "source": wanted.source.to_dict() if wanted.source.paths else None,
        "text": compare.text_key(wanted.source) if wanted.source.paths else None,
        "examples": wanted.labelled.to_dict(),
        "digests": wanted.labelled.digests(),
        "test_share": wanted.labelled.test_share,
        "whole": whole,
    }
    settings = json.loads(json.dumps(settings))  # as the folder's file gives it back
    there = _read(folder)
    if there is not None and compare.is_same_comparison(there.settings, settings):
        settings["seeds"] = sorted({*there.settings["seeds"], *seeds})  # what is there already stays in the table
        return replace(there, settings=settings, finished=False)
    if compare.read_comparison(folder) and not wanted.overwrite:
        hint = "add --overwrite to replace it, or choose another folder with --to"
        raise InputError("holds a comparison on other data or with other settings", file=folder, hint=hint)
    if wanted.source.paths and not is_corpus(wanted.source):
        document_hashes(wanted.source.paths, wanted.source.reading)  # what is wrong with it is told once, and now
    data = contenders.read_splits(wanted.labelled)
    task = contenders.task_from_train(wanted.labelled, data)
    facts = _facts(wanted, data, [*notes, *data.notes])
    sticks = (task_baseline(task, data.train, data.test),)
    return TaskComparison(
        task.name, task.score, task.verb, wanted.source.paths, settings, facts, baselines=sticks, whole=whole
    )


def _facts(wanted: _TaskTrialSettings, data: LabeledData, notes: list[str]) -> dict[str, Any]:
    hardware = run_folder.hardware_info()
    sides = {"train": data.train, "dev": data.dev, "test": data.test}
    return {
        "machine": f"{hardware['cores']} cores of {hardware['processor']}",
        "forebear": __version__,
        "command": wanted.command,
        "files": wanted.labelled.files(),
        "examples": {side: len(found) for side, found in sides.items()},
        "leaks": data.metadata.get("test", {}).get("leaks", {}),
        "notes": notes,
    }


def _read(folder: Path) -> TaskComparison | None:
    with suppress(ValueError, KeyError, TypeError):
        return TaskComparison.from_dict(compare.read_comparison(folder))
    return None


def _gone_on(
    made: TaskComparison,
    folder: Path,
    who: list[ModelOrigin],
    seeds: list[int],
    wanted: _TaskTrialSettings,
    hear: TaskTrialCallback,
) -> TaskComparison:
    try:
        for one in who:
            for seed in seeds[:1] if one.is_counting else seeds:
                row = made.find_row(one.name) or one.to_row()
                if not any(trial.seed == seed and _holds(trial, folder, one) for trial in row.trials):
                    trial = _tried(one, seed, folder, wanted, hear)
                    made = told(_ordered(made.with_row(row.with_trial(trial))), folder)
                    hear(one.name, seed, trial)
                    write(made, folder)
        made = told(replace(made, finished=True), folder)
    except KeyboardInterrupt as error:
        done = sum(trial.finished for row in made.rows for trial in row.trials)
        what = f"interrupted; {done} finished, and what was begun is kept"
        raise UserInterrupt(what, file=folder, hint="the same command goes on") from error
    finally:
        write(made, folder)
    return made


def _ordered(made: TaskComparison) -> TaskComparison:
    """Rows in the order of history; variants in the order in which they were asked for, behind the whole."""
    if made.whole:
        return made
    places = {name: number for number, name in enumerate(LINEAGE)}
    return replace(made, rows=tuple(sorted(made.rows, key=lambda row: (row.year, places[row.milestone], row.name))))


def _holds(trial: TaskTrial, folder: Path, one: ModelOrigin) -> bool:
    """Whether a result in the table still stands in its folder as well, and is of the run that is meant."""
    if not trial.finished:
        return False
    try:
        run = RunFolder.open(folder / trial.run)
        there = task_trial.task_trial_result(run)
        began = run.metadata["asked"]["beginning"]
    except (ForebearError, KeyError, TypeError, OSError):
        return False
    same = not one.given or began == RunFolder.open(one.given).metadata["weights"]["sha256"]
    return same and there.finished and there.score == trial.score


def _tried(one: ModelOrigin, seed: int, folder: Path, wanted: _TaskTrialSettings, hear: TaskTrialCallback) -> TaskTrial:
    """Pre-trains it, if it is to be, and adapts it; what goes wrong is told in the trial."""
    seconds, memory, begin = None, None, one.given or one.milestone
    if one.given:  # one that was imported took no time of ours
        facts = RunFolder.open(one.given).metadata
        seconds = None if "task" in facts else facts.get("seconds") or None  # nor is adapting pre-training
    elif one.fresh:
        begin = str(folder / RUNS_FOLDER / f"{REFERENCE_MODEL}-{seed}")
    elif not one.is_counting:
        begun = run_text_trial(_pretraining(one, seed, folder, wanted), lambda line: hear(one.name, seed, line))
        if begun.error:
            return TaskTrial(seed, error=f"pre-training: {begun.error}")
        begin, seconds, memory = str(folder / begun.run), begun.seconds, begun.memory
    trial = task_trial.run_task_trial(
        TaskTrialSpec(
            begin=begin,
            source=wanted.labelled.to_dict(),
            settings={"time": wanted.adapting["time"]} if one.is_counting else {**wanted.adapting, "seed": seed},
            how=one.how,
            size=None if one.given or not one.is_counting else one.size,
            fresh=one.fresh,
            to=str(folder / TASKS / f"{one.name}-{seed}"),
            seed=seed,
            overwrite=wanted.overwrite,
            command=wanted.command,
        ),
        lambda line: hear(one.name, seed, line),
    )
    named = (
        (one.size or "") if one.is_counting else trial.size
    )  # its weights are of words and pairs, whatever was counted
    return replace(trial, size=named, pretraining=seconds, memory=max(memory or 0, trial.memory or 0) or None)


def _pretraining(one: ModelOrigin, seed: int, folder: Path, wanted: _TaskTrialSettings) -> TextTrialSpec:
    return TextTrialSpec(
        milestone=one.milestone,
        source=wanted.source.to_dict(),
        size=one.size,
        tokenizer=one.tokenizer,
        vocabulary=wanted.vocabulary,
        settings={**wanted.pretraining, **one.fields, "seed": seed},
        to=str(folder / RUNS_FOLDER / f"{one.name}-{seed}"),
        prompt="",
        overwrite=wanted.overwrite,
        command=wanted.command,
    )


def told(made: TaskComparison, folder: Path) -> TaskComparison:
    """With what follows from the answers themselves: differences to the whole, and what may be chance."""
    found: dict[str, list[np.ndarray]] = {}
    for row in made.rows:
        each = [task_trial.trial_example_scores(folder / trial.run) for trial in row.trials if trial.score is not None]
        found[row.name] = [values for values in each if values is not None]
    rows = tuple(replace(row, versus=verdict.score_versus_reference(made, row, found)) for row in made.rows)
    made = replace(made, rows=rows)
    more = [
        *verdict.contaminated_rows(_learned_already(made, folder)),
        *rows_without_pair_task(folder / RUNS_FOLDER, rows),
    ]
    return replace(made, remarks=(*verdict.comparison_notes(made, found), *more))


def _learned_already(made: TaskComparison, folder: Path) -> dict[str, list[str]]:
    """Rows by title, with the files that taught the run they began with, and of which some now examine."""
    found: dict[str, list[str]] = {}
    source, digests = LabeledSource.from_dict(made.settings["examples"]), made.settings["digests"]
    for row in made.rows:
        for trial in row.trials[:1]:
            with suppress(ForebearError):
                parent = RunFolder.open(folder / trial.run).metadata.get("parent")
                sides = already_trained_on(parent, source, digests)
                found[row.title] = list(dict.fromkeys(made.facts["files"][side] for side in sides))
    return found


def write(made: TaskComparison, folder: Path) -> None:
    """comparison.json and comparison.html, each whole or not at all."""
    made = replace(made, facts={**made.facts, "when": datetime.now(UTC).strftime("%Y-%m-%d")})
    with atomic_write(folder / COMPARISON_FILE) as file:
        file.write(json.dumps(made.to_dict(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with atomic_write(folder / COMPARISON_PAGE) as file:
        file.write(task_comparison_page(made).encode())


def usage_command(made: TaskComparison, row: TaskComparisonRow, folder: PathLike) -> str:
    """The command that asks a row's best run."""
    trial = row.best
    return "" if trial is None else f"forebear {made.verb} {Path(folder) / trial.run} …"
