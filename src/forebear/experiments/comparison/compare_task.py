"""Comparison of models on a task: adapted from each model, by seed, with the same examples and budget."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear._version import __version__
from forebear.data.corpus.prepare import document_hashes
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.labeled.source import LabeledData, LabeledSource, labeled_source
from forebear.data.source import TextSource, is_corpus
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments.comparison.compare import (
    COMPARISON_FILE,
    COMPARISON_PAGE,
    DEFAULT_TIME,
    RUNS_FOLDER,
    PathLike,
    is_same_comparison,
    read_comparison,
    reject_stdin,
    seed_list,
    text_key,
)
from forebear.experiments.comparison.contenders import (
    REFERENCE_MODEL,
    ModelOrigin,
    comparison_rows,
    read_splits,
    rows_for_task,
    task_from_train,
    with_test_split,
)
from forebear.experiments.comparison.report import task_comparison_page
from forebear.experiments.comparison.results import (
    TaskComparison,
    TaskComparisonRow,
    TaskTrial,
    TextTrial,
)
from forebear.experiments.comparison.trials import (
    TaskTrialSpec,
    TextTrialSpec,
    rows_without_pair_task,
    run_task_trial,
    run_text_trial,
    task_trial_result,
    trial_example_scores,
)
from forebear.experiments.comparison.verdict import comparison_notes, contaminated_rows, score_versus_reference
from forebear.experiments.evaluator import already_trained_on
from forebear.registry import LINEAGE
from forebear.settings.units import format_duration, parse_duration
from forebear.tasks.baselines import task_baseline
from forebear.training import run_folder
from forebear.training.run_folder import RunFolder, lock_folder

if TYPE_CHECKING:
    pass

TaskTrialCallback = Callable[[str, int, dict[str, Any] | TextTrial | TaskTrial], object]
TASKS = "tasks"  # folder of adapted runs, next to RUNS_FOLDER


@dataclass(frozen=True)
class _TaskTrialSettings:
    """Settings common to all trials on a task."""

    source: TextSource
    labelled: LabeledSource
    vocabulary: int | None
    pretraining: dict[str, Any]  # training settings
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
    on_progress: TaskTrialCallback | None = None,
) -> TaskComparison:
    """Pre-train models on the same text, adapt each to a task with each seed, and compare scores on a test set.

    Called again with the same settings, it resumes.

    Args:
        task: (name or "auto", file of training examples).
        test: Test file; without it, `test_share` of the examples are held out.
        runs: Finished runs that take part; without texts, only they and the n-gram (and taggers) do.
        ablate: Ablations of BERT: nsp, direction, whole-words, pretraining.
        adapt_time: Time to adapt each model.
        form: Format of the files, as detected by `data.labeled.columns`.
        labelled: Other fields of `LabeledSource`.

    The other arguments are those of `compare_on_text`.
    """
    text_paths = (texts,) if isinstance(texts, str | os.PathLike) else tuple(texts)
    source = replace(source or TextSource(()), paths=tuple(os.fspath(path) for path in text_paths))
    reject_stdin(source.paths)
    seed_values = seed_list(seeds)
    if not source.paths and any(value is not None for value in (time, tokenizer, vocabulary)):
        message = "--time, --tokenizer and --vocabulary mean nothing where no text is given to pre-train on"
        raise InputError(message, hint="leave them out; --adapt-time is for learning the task")
    name, train = task
    file, notes = labeled_source(
        os.fspath(train),
        task=None if name == "auto" else name,
        dev=None if dev is None else os.fspath(dev),
        test=None if test is None else os.fspath(test),
        form=form,
        **dict(labelled or {}),
    )
    run_paths = [os.fspath(run) for run in runs]
    participants = comparison_rows(source.paths, run_paths, only, ablate, size or {}, tokenizer, file.task)
    participants = rows_for_task(participants, file.task, only or ())
    budget = None if adapt_time is None else parse_duration(adapt_time)
    pretraining = {
        "time": parse_duration(DEFAULT_TIME if time is None else time),
        "held_out": held_out,
        "threads": threads,
    }
    adapting = {"time": budget, "threads": threads}
    split_source = with_test_split(file, test_share)
    settings_for_trials = _TaskTrialSettings(
        source, split_source, vocabulary, pretraining, adapting, overwrite, command
    )
    folder = Path(to)
    with explain_disk_errors(folder):
        (folder / TASKS).mkdir(parents=True, exist_ok=True)
        with lock_folder(folder, "another process is comparing in this folder"):
            comparison = _open_task_comparison(
                folder,
                settings_for_trials,
                seed_values,
                dict(size or {}),
                tokenizer,
                REFERENCE_MODEL if ablate else "",
                notes,
            )
            return _run_task_comparison(
                comparison,
                folder,
                participants,
                seed_values,
                settings_for_trials,
                on_progress or (lambda name, seed, line: None),
            )


def _open_task_comparison(
    folder: Path,
    trial_settings: _TaskTrialSettings,
    seeds: list[int],
    sizes: dict[str, str],
    tokenizer: str | None,
    reference: str,
    notes: list[str],
) -> TaskComparison:
    """The comparison in the folder if its settings are the same; otherwise a new one with its baselines."""
    settings = {
        **trial_settings.pretraining,
        "adapting": trial_settings.adapting,
        "budget": format_duration(trial_settings.pretraining["time"]) if trial_settings.source.paths else "",
        "adapting_budget": "" if (seconds := trial_settings.adapting["time"]) is None else format_duration(seconds),
        "seeds": seeds,
        "sizes": sizes,
        "tokenizer": tokenizer,
        "vocabulary": trial_settings.vocabulary,
        "source": trial_settings.source.to_dict() if trial_settings.source.paths else None,
        "text": text_key(trial_settings.source) if trial_settings.source.paths else None,
        "examples": trial_settings.labelled.to_dict(),
        "digests": trial_settings.labelled.digests(),
        "test_share": trial_settings.labelled.test_share,
        "whole": reference,
    }
    settings = json.loads(json.dumps(settings))  # as read back from comparison.json
    existing = _read_task_comparison(folder)
    if existing is not None and is_same_comparison(existing.settings, settings):
        settings["seeds"] = sorted({*existing.settings["seeds"], *seeds})  # existing seeds stay in the table
        return replace(existing, settings=settings, finished=False)
    if read_comparison(folder) and not trial_settings.overwrite:
        hint = "add --overwrite to replace it, or choose another folder with --to"
        raise InputError("holds a comparison on other data or with other settings", file=folder, hint=hint)
    if trial_settings.source.paths and not is_corpus(trial_settings.source):
        document_hashes(
            trial_settings.source.paths, trial_settings.source.reading
        )  # errors are raised once, before any training
    data = read_splits(trial_settings.labelled)
    task = task_from_train(trial_settings.labelled, data)
    metadata = _task_facts(trial_settings, data, [*notes, *data.notes])
    baselines = (task_baseline(task, data.train, data.test),)
    return TaskComparison(
        task.name,
        task.score,
        task.verb,
        trial_settings.source.paths,
        settings,
        metadata,
        baselines=baselines,
        whole=reference,
    )


def _task_facts(trial_settings: _TaskTrialSettings, data: LabeledData, notes: list[str]) -> dict[str, Any]:
    hardware = run_folder.hardware_info()
    splits = {"train": data.train, "dev": data.dev, "test": data.test}
    return {
        "machine": f"{hardware['cores']} cores of {hardware['processor']}",
        "forebear": __version__,
        "command": trial_settings.command,
        "files": trial_settings.labelled.split_paths(),
        "examples": {split: len(examples) for split, examples in splits.items()},
        "leaks": data.metadata.get("test", {}).get("leaks", {}),
        "notes": notes,
    }


def _read_task_comparison(folder: Path) -> TaskComparison | None:
    with suppress(ValueError, KeyError, TypeError):
        return TaskComparison.from_dict(read_comparison(folder))
    return None


def _run_task_comparison(
    comparison: TaskComparison,
    folder: Path,
    participants: list[ModelOrigin],
    seeds: list[int],
    trial_settings: _TaskTrialSettings,
    on_progress: TaskTrialCallback,
) -> TaskComparison:
    try:
        for participant in participants:
            for seed in seeds[:1] if participant.is_counting else seeds:
                row = comparison.find_row(participant.name) or participant.to_row()
                if not any(
                    trial.seed == seed and _is_valid_task_trial(trial, folder, participant) for trial in row.trials
                ):
                    trial = _run_model_trial(participant, seed, folder, trial_settings, on_progress)
                    comparison = _with_conclusions(_order_rows(comparison.with_row(row.with_trial(trial))), folder)
                    on_progress(participant.name, seed, trial)
                    write_task_comparison(comparison, folder)
        comparison = _with_conclusions(replace(comparison, finished=True), folder)
    except KeyboardInterrupt as error:
        num_finished = sum(trial.finished for row in comparison.rows for trial in row.trials)
        message = f"interrupted; {num_finished} finished, and what was begun is kept"
        raise UserInterrupt(message, file=folder, hint="the same command goes on") from error
    finally:
        write_task_comparison(comparison, folder)
    return comparison


def _order_rows(comparison: TaskComparison) -> TaskComparison:
    """Rows in lineage order; ablations in the order given, after the reference."""
    if comparison.whole:
        return comparison
    positions = {name: index for index, name in enumerate(LINEAGE)}
    return replace(
        comparison, rows=tuple(sorted(comparison.rows, key=lambda row: (row.year, positions[row.milestone], row.name)))
    )


def _is_valid_task_trial(trial: TaskTrial, folder: Path, participant: ModelOrigin) -> bool:
    """Whether a finished result is still in its run folder, and was adapted from the same run."""
    if not trial.finished:
        return False
    try:
        run = RunFolder.open(folder / trial.run)
        stored = task_trial_result(run)
        initial_weights = run.metadata["asked"]["beginning"]
    except (ForebearError, KeyError, TypeError, OSError):
        return False
    is_same_run = (
        not participant.given or initial_weights == RunFolder.open(participant.given).metadata["weights"]["sha256"]
    )
    return is_same_run and stored.finished and stored.score == trial.score


def _run_model_trial(
    participant: ModelOrigin,
    seed: int,
    folder: Path,
    trial_settings: _TaskTrialSettings,
    on_progress: TaskTrialCallback,
) -> TaskTrial:
    """Pre-train a participant if needed, and adapt it; errors are part of the trial."""
    seconds, memory, start_from = None, None, participant.given or participant.milestone
    if participant.given:  # imported runs have no pre-training time
        metadata = RunFolder.open(participant.given).metadata
        seconds = (
            None if "task" in metadata else metadata.get("seconds") or None
        )  # time of adaptation is not pre-training
    elif participant.fresh:
        start_from = str(folder / RUNS_FOLDER / f"{REFERENCE_MODEL}-{seed}")
    elif not participant.is_counting:
        pretraining_trial = run_text_trial(
            _pretraining_spec(participant, seed, folder, trial_settings),
            lambda line: on_progress(participant.name, seed, line),
        )
        if pretraining_trial.error:
            return TaskTrial(seed, error=f"pre-training: {pretraining_trial.error}")
        start_from, seconds, memory = (
            str(folder / pretraining_trial.run),
            pretraining_trial.seconds,
            pretraining_trial.memory,
        )
    trial = run_task_trial(
        TaskTrialSpec(
            begin=start_from,
            source=trial_settings.labelled.to_dict(),
            settings={"time": trial_settings.adapting["time"]}
            if participant.is_counting
            else {**trial_settings.adapting, "seed": seed},
            how=participant.how,
            size=None if participant.given or not participant.is_counting else participant.size,
            fresh=participant.fresh,
            to=str(folder / TASKS / f"{participant.name}-{seed}"),
            seed=seed,
            overwrite=trial_settings.overwrite,
            command=trial_settings.command,
        ),
        lambda line: on_progress(participant.name, seed, line),
    )
    size = (participant.size or "") if participant.is_counting else trial.size  # a linear model has no preset size
    return replace(trial, size=size, pretraining=seconds, memory=max(memory or 0, trial.memory or 0) or None)


def _pretraining_spec(
    participant: ModelOrigin, seed: int, folder: Path, trial_settings: _TaskTrialSettings
) -> TextTrialSpec:
    return TextTrialSpec(
        milestone=participant.milestone,
        source=trial_settings.source.to_dict(),
        size=participant.size,
        tokenizer=participant.tokenizer,
        vocabulary=trial_settings.vocabulary,
        settings={**trial_settings.pretraining, **participant.fields, "seed": seed},
        to=str(folder / RUNS_FOLDER / f"{participant.name}-{seed}"),
        prompt="",
        overwrite=trial_settings.overwrite,
        command=trial_settings.command,
    )


def _with_conclusions(comparison: TaskComparison, folder: Path) -> TaskComparison:
    """A copy with differences to the reference and notes, computed from per-example scores."""
    scores_by_row: dict[str, list[np.ndarray]] = {}
    for row in comparison.rows:
        trial_scores = [trial_example_scores(folder / trial.run) for trial in row.trials if trial.score is not None]
        scores_by_row[row.name] = [values for values in trial_scores if values is not None]
    rows = tuple(replace(row, versus=score_versus_reference(comparison, row, scores_by_row)) for row in comparison.rows)
    comparison = replace(comparison, rows=rows)
    notes = [
        *contaminated_rows(_contaminated_titles(comparison, folder)),
        *rows_without_pair_task(folder / RUNS_FOLDER, rows),
    ]
    return replace(comparison, remarks=(*comparison_notes(comparison, scores_by_row), *notes))


def _contaminated_titles(comparison: TaskComparison, folder: Path) -> dict[str, list[str]]:
    """By row title, the evaluation files that its base run was trained on."""
    files_by_title: dict[str, list[str]] = {}
    source, digests = LabeledSource.from_dict(comparison.settings["examples"]), comparison.settings["digests"]
    for row in comparison.rows:
        for trial in row.trials[:1]:
            with suppress(ForebearError):
                parent = RunFolder.open(folder / trial.run).metadata.get("parent")
                splits = already_trained_on(parent, source, digests)
                files_by_title[row.title] = list(dict.fromkeys(comparison.facts["files"][split] for split in splits))
    return files_by_title


def write_task_comparison(comparison: TaskComparison, folder: Path) -> None:
    """Write comparison.json and comparison.html atomically."""
    comparison = replace(comparison, facts={**comparison.facts, "when": datetime.now(UTC).strftime("%Y-%m-%d")})
    with atomic_write(folder / COMPARISON_FILE) as file:
        file.write(json.dumps(comparison.to_dict(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with atomic_write(folder / COMPARISON_PAGE) as file:
        file.write(task_comparison_page(comparison).encode())


def usage_command(comparison: TaskComparison, row: TaskComparisonRow, folder: PathLike) -> str:
    """The command that uses the best run of a row."""
    trial = row.best
    return "" if trial is None else f"forebear {comparison.verb} {Path(folder) / trial.run} …"
