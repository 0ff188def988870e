"""Comparison of models on the same text or task, with one split and budget; an interrupted comparison resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from forebear._version import __version__
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import document_hashes, fingerprint_sources
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.io.files import STDIN
from forebear.data.labeled.source import LabeledData, LabeledSource, labeled_source
from forebear.data.source import TextSource, is_corpus
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments.comparison.compressors import HeldOutText, compression_baselines, first_words, split_text
from forebear.experiments.comparison.contenders import (
    REFERENCE_MODEL,
    ModelOrigin,
    comparison_rows,
    model_names,
    read_splits,
    rows_for_task,
    task_from_train,
    with_test_split,
)
from forebear.experiments.comparison.report import task_comparison_page, text_comparison_page
from forebear.experiments.comparison.results import (
    TaskComparison,
    TaskComparisonRow,
    TaskTrial,
    TextComparison,
    TextComparisonRow,
    TextTrial,
)
from forebear.experiments.comparison.trials import (
    TaskTrialSpec,
    TextTrialSpec,
    compare_words,
    rows_without_pair_task,
    run_task_trial,
    run_text_trial,
    task_trial_result,
    text_trial_result,
    trial_example_scores,
)
from forebear.experiments.comparison.verdict import comparison_notes, contaminated_rows, score_versus_reference
from forebear.experiments.evaluator import MEASURED_BYTES, already_trained_on
from forebear.experiments.unused_settings import UNUSED_BY_LEARNER, settings_kind
from forebear.registry import LINEAGE, model_spec
from forebear.settings.units import format_duration, parse_duration
from forebear.tasks.baselines import task_baseline
from forebear.training import run_folder
from forebear.training.run_folder import RunFolder, lock_folder

if TYPE_CHECKING:
    from forebear.data.sentences import SentenceMode
    from forebear.experiments.comparison.trials import WordEvalRow

COMPARISON_FILE, COMPARISON_PAGE, RUNS_FOLDER = "comparison.json", "comparison.html", "runs"
DEFAULT_TIME = "2m"  # training time of each model, by default
MAX_SIZE_DIFFERENCE = 0.01  # relative difference of held-out bytes between tokenizers above which a note is shown

PathLike = str | os.PathLike[str]
# Called with model name, seed, and a line of the training log or the result of the trial.
TrialCallback = Callable[[str, int, dict[str, Any] | TextTrial], object]
TaskTrialCallback = Callable[[str, int, dict[str, Any] | TextTrial | TaskTrial], object]
TASKS = "tasks"  # folder of adapted runs, next to RUNS_FOLDER


@dataclass(frozen=True)
class _TextTrialSettings:
    """Settings common to all trials on text."""

    source: TextSource
    sizes: Mapping[str, str]
    tokenizer: str | None
    vocabulary: int | None
    settings: dict[str, Any]
    overwrite: bool
    command: str
    words: tuple[str, ...] = ()  # word-evaluation files


@overload
def compare(texts: PathLike | Sequence[PathLike], *, task: None = None, **options: Any) -> TextComparison: ...
@overload
def compare(
    texts: PathLike | Sequence[PathLike] = (), *, task: tuple[str, PathLike], **options: Any
) -> TaskComparison: ...
@overload
def compare(*, runs: Sequence[PathLike], words: Sequence[PathLike]) -> list[WordEvalRow]: ...
def compare(
    texts: PathLike | Sequence[PathLike] = (), *, task: tuple[str, PathLike] | None = None, **options: Any
) -> TextComparison | TaskComparison | list[WordEvalRow]:
    """Train models of the lineage on the same text and compare them.

    With a `task`, given as name and file of labeled examples, each model is also adapted to it and evaluated on a test
    set. Without text and task, finished `runs` are compared on word-evaluation files (`words`).

    Args:
        texts: Text files, or a prepared corpus.
        task: (name, file of training examples).
        **options: Options of `compare_on_text` or `compare_on_task`, named as on the command line.
    """
    if task is None and "runs" in options:
        if texts or set(options) != {"runs", "words"}:
            hint = "compare(runs=[…], words=[…]) and nothing else; or say which task they are adapted to: task="
            raise InputError("without a task, runs are compared by files of judged words", hint=hint)
        return compare_words(options["runs"], options["words"])
    if task is None:
        return compare_on_text(texts, **options)
    return compare_on_task(texts, task=task, **options)


def compare_on_text(
    texts: PathLike | Sequence[PathLike],
    *,
    to: PathLike = "comparison",
    only: Sequence[str] | None = None,
    time: str | float | None = None,
    seeds: int | Sequence[int] = 1,
    size: Mapping[str, str] | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.05,
    threads: int | None = None,
    limit: float | None = None,
    prompt: str | None = None,
    words: Sequence[PathLike] = (),
    source: TextSource | None = None,
    overwrite: bool = False,
    command: str = "",
    on_progress: TrialCallback | None = None,
) -> TextComparison:
    """Train each model for the same time with each seed, and compare bits per byte of held-out text.

    Called again with the same settings, it resumes; a model that failed is a row with its error, and is tried again.

    Args:
        to: Folder of the results: comparison.json, comparison.html and the runs.
        only: Names of models; default: all that train on text.
        time: Training time of each model, such as "2m".
        seeds: Number of seeds, or a list of seeds.
        size: Preset size by model: {"gpt2": "mini"}.
        limit: True entropy of the text in bits per byte, if known.
        prompt: Prompt of the samples; default: the first words of the held-out text.
        words: Word-similarity or analogy files, shown as columns for models with word vectors.
        on_progress: Called with the name, the seed, and a log line or the result of each trial.
    """
    paths = (texts,) if isinstance(texts, str | os.PathLike) else tuple(texts)
    source = replace(source or TextSource(()), paths=tuple(os.fspath(path) for path in paths))
    names = model_names(only, size or {})
    seed_values = seed_list(seeds)
    if not source.paths:
        raise InputError("nothing to compare", hint="give at least one text")
    reject_stdin(source.paths)
    settings = {
        "time": parse_duration(DEFAULT_TIME if time is None else time),
        "held_out": held_out,
        "threads": threads,
    }
    word_files = tuple(os.path.abspath(file) for file in words)
    for file in word_files:
        read_word_eval_file(file)  # errors are raised before any training
    settings_for_trials = _TextTrialSettings(
        source, dict(size or {}), tokenizer, vocabulary, settings, overwrite, command, word_files
    )
    folder = Path(to)
    with explain_disk_errors(folder):
        (folder / RUNS_FOLDER).mkdir(parents=True, exist_ok=True)
        with lock_folder(folder, "another process is comparing in this folder"):
            comparison = _open_text_comparison(folder, settings_for_trials, seed_values, limit, prompt, overwrite)
            return _run_text_comparison(
                comparison,
                folder,
                names,
                seed_values,
                settings_for_trials,
                on_progress or (lambda name, seed, line: None),
            )


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    """Seeds from their number, or from a list."""
    values = list(range(seeds)) if isinstance(seeds, int) else sorted(set(seeds))
    if not values:
        raise InputError("nothing to compare", hint="give at least one seed")
    return values


def reject_stdin(paths: Iterable[str]) -> None:
    if any(path in STDIN for path in paths):
        raise InputError(
            "standard input can be read only once", hint="save the text in a file: it is read several times"
        )


def text_key(source: TextSource) -> str:
    """A key that identifies the text."""
    return (
        Corpus.open(source.paths[0]).key
        if is_corpus(source)
        else fingerprint_sources(source.paths, source.reading).content_digest
    )


def _open_text_comparison(
    folder: Path,
    trial_settings: _TextTrialSettings,
    seeds: list[int],
    limit: float | None,
    prompt: str | None,
    overwrite: bool,
) -> TextComparison:
    """The comparison in the folder if its settings are the same; otherwise a new one with its baselines."""
    source = trial_settings.source
    settings = {
        **trial_settings.settings,
        "budget": format_duration(trial_settings.settings["time"]),
        "seeds": seeds,
        "sizes": dict(trial_settings.sizes),
        "tokenizer": trial_settings.tokenizer,
        "vocabulary": trial_settings.vocabulary,
        "source": source.to_dict(),
        "text": text_key(source),
        "words": list(trial_settings.words),
    }
    existing = _read_text_comparison(folder)
    if existing is not None and is_same_comparison(existing.settings, settings) and prompt in (None, existing.prompt):
        settings["seeds"] = sorted({*existing.settings["seeds"], *seeds})  # existing seeds stay in the table
        return replace(existing, settings=settings, limit=limit, finished=False)
    if not overwrite and (existing is not None or read_comparison(folder).get("task")):
        hint = "add --overwrite to replace it, or choose another folder with --to"
        raise InputError("holds a comparison on another text or with other settings", file=folder, hint=hint)
    hardware = run_folder.hardware_info()
    metadata: dict[str, Any] = {
        "machine": f"{hardware['cores']} cores of {hardware['processor']}",
        "forebear": __version__,
        "command": trial_settings.command,
    }
    held_out_text = _split_for_baselines(trial_settings)
    if held_out_text is not None:
        metadata |= {
            "documents": held_out_text.num_documents,
            "bytes": held_out_text.num_bytes,
            "held_out_bytes": held_out_text.held_out_bytes,
        }
    prompt = prompt if prompt is not None else first_words(held_out_text) if held_out_text is not None else ""
    baselines = compression_baselines(held_out_text) if held_out_text is not None else ()
    return TextComparison(source.paths, settings, metadata, yardsticks=baselines, limit=limit, prompt=prompt)


def is_same_comparison(existing: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether two comparisons have the same settings; seeds may differ, as more can be added."""
    return {**existing, "seeds": ()} == {**settings, "seeds": ()}


def _split_for_baselines(trial_settings: _TextTrialSettings) -> HeldOutText | None:
    """The text itself for baselines; None for a prepared corpus, which does not contain it."""
    if is_corpus(trial_settings.source):
        return None
    source = trial_settings.source
    return split_text(
        source.paths,
        source.reading,
        trial_settings.settings["held_out"],
        MEASURED_BYTES,
        cast("SentenceMode", source.sentences),
    )


def read_comparison(folder: Path) -> dict[str, Any]:
    """The contents of comparison.json, or {} if it is missing or corrupt; runs are kept either way."""
    with suppress(OSError, ValueError):
        data = json.loads((folder / COMPARISON_FILE).read_text("utf-8"))
        return data if isinstance(data, dict) else {}
    return {}


def _read_text_comparison(folder: Path) -> TextComparison | None:
    with suppress(ValueError, KeyError, TypeError):
        return TextComparison.from_dict(read_comparison(folder))
    return None


def _run_text_comparison(
    comparison: TextComparison,
    folder: Path,
    names: list[str],
    seeds: list[int],
    trial_settings: _TextTrialSettings,
    on_progress: TrialCallback,
) -> TextComparison:
    comparison = replace(comparison, rows=tuple(row for row in comparison.rows if row.name in LINEAGE))
    try:
        for name in names:
            for seed in seeds if _depends_on_seed(name) else seeds[:1]:
                row = comparison.find_row(name) or _text_row(name)
                if not any(trial.seed == seed and _is_valid_text_trial(trial, folder) for trial in row.trials):
                    trial = run_text_trial(
                        _text_trial_spec(name, seed, folder, comparison.prompt, trial_settings),
                        _trial_listener(on_progress, name, seed),
                    )
                    comparison = comparison.with_row(row.with_trial(trial))
                    on_progress(name, seed, trial)
                    write_text_comparison(comparison, folder)
        comparison = replace(
            comparison, finished=True, facts={**comparison.facts, "note": _text_note(comparison, folder)}
        )
    except KeyboardInterrupt as error:
        num_finished = sum(trial.finished for row in comparison.rows for trial in row.trials)
        message = f"interrupted; {num_finished} finished, and what was begun is kept"
        raise UserInterrupt(message, file=folder, hint="the same command goes on") from error
    finally:
        write_text_comparison(comparison, folder)
    return comparison


def _trial_listener(on_progress: TrialCallback, name: str, seed: int) -> Callable[[dict[str, Any]], object]:
    return lambda line: on_progress(name, seed, line)


def _is_valid_text_trial(trial: TextTrial, folder: Path) -> bool:
    """Whether a finished result is still in its run folder."""
    if not trial.finished:
        return False
    try:
        stored = text_trial_result(RunFolder.open(folder / trial.run))
    except (ForebearError, KeyError, TypeError):
        return False
    return stored.finished and stored.bits_per_byte == trial.bits_per_byte


def _depends_on_seed(name: str) -> bool:
    """Whether results depend on the seed; counts do not."""
    try:
        spec_class = model_spec(name)
        return spec_class.learning != "counting" or spec_class.counts_again
    except Exception:  # noqa: BLE001 - a model that cannot be loaded: its trial reports the error
        return True


def applicable_settings(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The common settings without those that have no effect on this model."""
    try:
        unused, _ = UNUSED_BY_LEARNER[settings_kind(model_spec(name))]
    except Exception:  # noqa: BLE001 - as above
        return settings
    return {setting: value for setting, value in settings.items() if setting not in unused}


def _text_row(name: str) -> TextComparisonRow:
    entry = LINEAGE[name]
    return TextComparisonRow(entry.name, entry.title, entry.year, entry.idea, entry.authors)


def _text_trial_spec(
    name: str, seed: int, folder: Path, prompt: str, trial_settings: _TextTrialSettings
) -> TextTrialSpec:
    return TextTrialSpec(
        milestone=name,
        source=trial_settings.source.to_dict(),
        size=trial_settings.sizes.get(name),
        tokenizer=trial_settings.tokenizer,
        vocabulary=trial_settings.vocabulary,
        settings={**applicable_settings(name, trial_settings.settings), "seed": seed},
        to=str(folder / RUNS_FOLDER / f"{name}-{seed}"),
        prompt=prompt,
        overwrite=trial_settings.overwrite,
        command=trial_settings.command,
        words=list(trial_settings.words),
    )


def write_text_comparison(comparison: TextComparison, folder: Path) -> None:
    """Write comparison.json and comparison.html atomically."""
    metadata = {
        **comparison.facts,
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "note": _text_note(comparison, folder),
    }
    comparison = replace(comparison, facts=metadata)
    with atomic_write(folder / COMPARISON_FILE) as file:
        file.write(json.dumps(comparison.to_dict(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with atomic_write(folder / COMPARISON_PAGE) as file:
        file.write(text_comparison_page(comparison).encode())


def _text_note(comparison: TextComparison, folder: Path) -> str:
    """Caveats of the table."""
    notes = []
    held_out_bytes = [count for row in comparison.rows for count in row.trial_values("held_out_bytes")]
    if held_out_bytes and max(held_out_bytes) > min(held_out_bytes) * (1 + MAX_SIZE_DIFFERENCE):
        smallest, largest = min(held_out_bytes), max(held_out_bytes)
        notes.append(f"Not all were measured on the same text: between {smallest:,} and {largest:,} bytes.")
    return " ".join([*notes, *rows_without_pair_task(folder / RUNS_FOLDER, comparison.rows)])


# --- Comparison on a task ---


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
        "files": trial_settings.labelled.files(),
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
