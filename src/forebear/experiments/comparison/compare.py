"""Comparison of models on the same text or task, with one split and budget; an interrupted comparison resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np

from forebear._version import __version__
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import document_hashes, fingerprint_sources
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.io.sources import STDIN, PathLike
from forebear.data.labeled.labeled_source import LabeledSource, labeled_source
from forebear.data.source import TextSource, is_corpus
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments.comparison import trials, verdict
from forebear.experiments.comparison.compressors import compression_baselines, first_words, split_text
from forebear.experiments.comparison.participants import (
    REFERENCE_MODEL,
    Participant,
    model_names,
    participants_for_task,
    read_splits,
    select_participants,
    task_from_train,
    with_test_split,
)
from forebear.experiments.comparison.report import task_comparison_page, text_comparison_page
from forebear.experiments.comparison.results import (
    Comparison,
    ComparisonRow,
    TaskComparison,
    TaskComparisonRow,
    TaskTrial,
    TextComparison,
    TextComparisonRow,
    TextTrial,
)
from forebear.experiments.comparison.trials import LineCallback, TaskTrialSpec, TextTrialSpec
from forebear.experiments.run_evaluation import MAX_EVAL_BYTES, leaked_splits
from forebear.experiments.unused_settings import UNUSED_BY_LEARNER, learner_kind_for
from forebear.registry import LINEAGE, model_spec
from forebear.settings.units import format_duration, parse_duration
from forebear.tasks.baselines import task_baseline
from forebear.training import run_folder
from forebear.training.run_folder import RunFolder, lock_folder

if TYPE_CHECKING:
    from forebear.data.sentences import SentenceMode
    from forebear.experiments.comparison.trials import WordEvalRow

COMPARISON_FILE, COMPARISON_PAGE = "comparison.json", "comparison.html"
RUNS_FOLDER, TASKS_FOLDER = "runs", "tasks"  # of pre-trained and of adapted runs
DEFAULT_TIME = "2m"  # training time of each model, by default
MAX_SIZE_DIFFERENCE = 0.01  # relative difference of held-out bytes between tokenizers; a larger one is noted

# Called with model name, seed, and a line of the training log or the result of the trial.
TrialCallback = Callable[[str, int, dict[str, Any] | TextTrial | TaskTrial], object]
ComparisonT = TypeVar("ComparisonT", bound=Comparison)


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
        **options: Those of `compare_on_text` or `compare_on_task`, named as on the command line.
    """
    if task is not None:
        return compare_on_task(texts, task=task, **options)
    if "runs" not in options:
        return compare_on_text(texts, **options)
    if texts or set(options) != {"runs", "words"}:
        hint = "compare(runs=[…], words=[…]) and nothing else; or say which task they are adapted to: task="
        raise InputError("without a task, runs are compared by files of judged words", hint=hint)
    return trials.compare_words(options["runs"], options["words"])


# --- Parts of both comparisons ---


def _text_source(texts: PathLike | Sequence[PathLike], source: TextSource | None) -> TextSource:
    """The source with these texts. Raise InputError for standard input."""
    paths = (texts,) if isinstance(texts, str | os.PathLike) else tuple(texts)
    source = replace(source or TextSource(()), paths=tuple(os.fspath(path) for path in paths))
    if any(path in STDIN for path in source.paths):
        hint = "save the text in a file: it is read several times"
        raise InputError("standard input can be read only once", hint=hint)
    return source


def _seed_list(seeds: int | Sequence[int]) -> list[int]:
    """Seeds from their number, or from a list."""
    values = list(range(seeds)) if isinstance(seeds, int) else sorted(set(seeds))
    if not values:
        raise InputError("nothing to compare", hint="give at least one seed")
    return values


def _training_settings(time: str | float | None, held_out: float, threads: int | None) -> dict[str, Any]:
    return {"time": parse_duration(DEFAULT_TIME if time is None else time), "held_out": held_out, "threads": threads}


@contextmanager
def _comparison_folder(to: PathLike, runs: str) -> Iterator[Path]:
    """The folder of a comparison, locked, with its folder of runs."""
    folder = Path(to)
    with explain_disk_errors(folder):
        (folder / runs).mkdir(parents=True, exist_ok=True)
        with lock_folder(folder, "another process is comparing in this folder"):
            yield folder


def _comparison_settings(
    source: TextSource, trial: TextTrialSpec, seeds: list[int], sizes: Mapping[str, str], **others: Any
) -> dict[str, Any]:
    """Everything that results depend on, after a round trip through JSON."""
    settings = {
        **trial.settings,
        "budget": format_duration(trial.settings["time"]) if source.paths else "",
        "seeds": seeds,
        "sizes": dict(sizes),
        "tokenizer": trial.tokenizer,
        "vocabulary": trial.vocabulary,
        "source": trial.source if source.paths else None,
        "text": None,
    }
    if is_corpus(source):
        settings["text"] = Corpus.open(source.paths[0]).key
    elif source.paths:
        settings["text"] = fingerprint_sources(source.paths, source.reading).content_digest
    return json.loads(json.dumps(settings | others))


def _read_comparison(comparison_type: type[ComparisonT], folder: Path) -> tuple[ComparisonT | None, dict[str, Any]]:
    """The comparison in the folder and its JSON, {} if that is missing or corrupt."""
    data: Any = {}
    with suppress(OSError, ValueError):
        data = json.loads((folder / COMPARISON_FILE).read_text("utf-8"))
    with suppress(ValueError, KeyError, TypeError):
        return comparison_type.from_dict(data), data
    return None, data if isinstance(data, dict) else {}


def _resumable(existing: ComparisonT | None, settings: dict[str, Any]) -> ComparisonT | None:
    """The existing comparison, if it has the same settings; seeds may differ, as more can be added."""
    if existing is None or {**existing.settings, "seeds": ()} != {**settings, "seeds": ()}:
        return None
    all_seeds = sorted({*existing.settings["seeds"], *settings["seeds"]})  # existing seeds stay in the table
    return existing.with_fields(settings=settings | {"seeds": all_seeds}, finished=False)


def _refuse_other_comparison(folder: Path, data: str) -> None:
    hint = "add --overwrite to replace it, or choose another folder with --to"
    raise InputError(f"holds a comparison on {data} or with other settings", file=folder, hint=hint)


def _environment(command: str) -> dict[str, Any]:
    hardware = run_folder.hardware_info()
    machine = f"{hardware['cores']} cores of {hardware['processor']}"
    return {"machine": machine, "forebear": __version__, "command": command}


@dataclass(frozen=True)
class _PlannedRow:
    """A row of a comparison, with functions that run a trial and check that its result is still in the run folder."""

    row: ComparisonRow  # without trials
    seeds: list[int]
    run_trial: Callable[[int, LineCallback], TextTrial | TaskTrial]
    is_valid: Callable[[Any], bool]


def _run_trials(
    comparison: ComparisonT,
    folder: Path,
    planned_rows: Sequence[_PlannedRow],
    summarize: Callable[[ComparisonT], ComparisonT],
    on_progress: TrialCallback | None,
) -> ComparisonT:
    """Run the trials without a valid result; after each, summarize and write the comparison."""
    report: TrialCallback = on_progress or (lambda name, seed, event: None)
    try:
        for planned in planned_rows:
            name = planned.row.name
            for seed in planned.seeds:
                row = comparison.find_row(name) or planned.row
                if any(trial.seed == seed and trial.finished and planned.is_valid(trial) for trial in row.trials):
                    continue
                trial = planned.run_trial(seed, partial(report, name, seed))
                comparison = summarize(comparison.with_row(row.with_trial(trial)))
                report(name, seed, trial)
                _write_comparison(comparison, folder)
        comparison = summarize(comparison.with_fields(finished=True))
    except KeyboardInterrupt as error:
        num_finished = sum(trial.finished for row in comparison.rows for trial in row.trials)
        message = f"interrupted; {num_finished} finished, and what was begun is kept"
        raise UserInterrupt(message, file=folder, hint="the same command goes on") from error
    finally:
        _write_comparison(comparison, folder)
    return comparison


def _write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write comparison.json and comparison.html atomically."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    dated: Any = comparison.with_fields(facts={**comparison.facts, "when": today})
    with atomic_write(folder / COMPARISON_FILE) as file:
        file.write(json.dumps(dated.to_dict(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    page = text_comparison_page if isinstance(comparison, TextComparison) else task_comparison_page
    with atomic_write(folder / COMPARISON_PAGE) as file:
        file.write(page(dated).encode())


# --- Comparison on text ---


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

    A second call with the same settings resumes. A model that failed is a row with its error, and is run again.

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
    source, sizes = _text_source(texts, source), size or {}
    names, seed_values = model_names(only, sizes), _seed_list(seeds)
    if not source.paths:
        raise InputError("nothing to compare", hint="give at least one text")
    word_files = [os.path.abspath(file) for file in words]
    training_settings = _training_settings(time, held_out, threads)
    text_options = (source.to_dict(), None, tokenizer, vocabulary, training_settings)
    common_spec = TextTrialSpec("", *text_options, "", "", overwrite, command, word_files)
    for file in word_files:
        read_word_eval_file(file)  # errors are raised before any training
    with _comparison_folder(to, RUNS_FOLDER) as folder:
        settings = _comparison_settings(source, common_spec, seed_values, sizes, words=word_files)
        comparison = _open_text_comparison(folder, source, settings, common_spec, prompt)
        comparison = replace(comparison, limit=limit, rows=tuple(row for row in comparison.rows if row.name in LINEAGE))
        spec = replace(common_spec, prompt=comparison.prompt)
        specs = [replace(spec, milestone=name, size=sizes.get(name)) for name in names]
        rows = [_text_row(spec, seed_values, folder) for spec in specs]
        return _run_trials(comparison, folder, rows, lambda comparison: _with_notes(comparison, folder), on_progress)


def _text_row(spec: TextTrialSpec, seeds: list[int], folder: Path) -> _PlannedRow:
    name = spec.milestone

    def run_trial(seed: int, on_line: LineCallback) -> TextTrial:
        settings = {**applicable_settings(name, spec.settings), "seed": seed}
        to = str(folder / RUNS_FOLDER / f"{name}-{seed}")
        return trials.run_text_trial(replace(spec, settings=settings, to=to), on_line)

    def is_valid(trial: TextTrial) -> bool:
        stored = trials.stored_trial(folder / trial.run, trials.text_trial_result)
        return stored is not None and stored.finished and stored.bits_per_byte == trial.bits_per_byte

    try:
        spec_class = model_spec(name)
        depends_on_seed = spec_class.learning != "counting" or spec_class.counts_again
    except Exception:  # noqa: BLE001 - a model that cannot be loaded: its trial reports the error
        depends_on_seed = True
    entry = LINEAGE[name]
    row = TextComparisonRow(entry.name, entry.title, entry.year, entry.idea, entry.authors)
    return _PlannedRow(row, seeds if depends_on_seed else seeds[:1], run_trial, is_valid)


def _open_text_comparison(
    folder: Path, source: TextSource, settings: dict[str, Any], trial: TextTrialSpec, prompt: str | None
) -> TextComparison:
    """The comparison in the folder if its settings are the same; otherwise a new one with its baselines."""
    existing, data = _read_comparison(TextComparison, folder)
    resumed = _resumable(existing, settings)
    if resumed is not None and prompt in (None, resumed.prompt):
        return resumed
    if not trial.overwrite and (existing is not None or data.get("task")):
        _refuse_other_comparison(folder, "another text")
    facts, baselines = _environment(trial.command), ()
    if not is_corpus(source):  # a prepared corpus does not contain the text itself
        mode = cast("SentenceMode", source.sentences)
        text = split_text(source.paths, source.reading, trial.settings["held_out"], MAX_EVAL_BYTES, mode)
        facts |= {"documents": text.num_documents, "bytes": text.num_bytes, "held_out_bytes": text.held_out_bytes}
        prompt = first_words(text) if prompt is None else prompt
        baselines = compression_baselines(text)
    return TextComparison(source.paths, settings, facts, yardsticks=baselines, prompt=prompt or "")


def applicable_settings(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The common settings without those that have no effect on this model."""
    try:
        unused, _ = UNUSED_BY_LEARNER[learner_kind_for(model_spec(name))]
    except Exception:  # noqa: BLE001 - a model that cannot be loaded: its trial reports the error
        return settings
    return {setting: value for setting, value in settings.items() if setting not in unused}


def _with_notes(comparison: TextComparison, folder: Path) -> TextComparison:
    """A copy with notes on its table."""
    notes = trials.missing_pair_task_notes(folder / RUNS_FOLDER, comparison.rows)
    held_out_bytes = [count for row in comparison.rows for count in row.trial_values("held_out_bytes")]
    smallest, largest = min(held_out_bytes, default=0), max(held_out_bytes, default=0)
    if largest > smallest * (1 + MAX_SIZE_DIFFERENCE):
        notes.insert(0, f"Not all were measured on the same text: between {smallest:,} and {largest:,} bytes.")
    return replace(comparison, facts={**comparison.facts, "note": " ".join(notes)})


# --- Comparison on a task ---


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
    on_progress: TrialCallback | None = None,
) -> TaskComparison:
    """Pre-train models on the same text, adapt each to a task with each seed, and compare scores on a test set.

    A second call with the same settings resumes.

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
    source, sizes, seed_values = _text_source(texts, source), size or {}, _seed_list(seeds)
    if not source.paths and any(value is not None for value in (time, tokenizer, vocabulary)):
        message = "--time, --tokenizer and --vocabulary mean nothing where no text is given to pre-train on"
        raise InputError(message, hint="leave them out; --adapt-time is for learning the task")
    given_task, train = task
    splits = {split: os.fspath(file) for split, file in (("dev", dev), ("test", test)) if file is not None}
    task_name = None if given_task == "auto" else given_task
    examples, notes = labeled_source(os.fspath(train), task=task_name, form=form, **splits, **dict(labelled or {}))
    run_paths = [os.fspath(run) for run in runs]
    participants = select_participants(source.paths, run_paths, only, ablate, sizes, tokenizer, examples.task)
    participants = participants_for_task(participants, examples.task, only or ())
    adapt_settings = {"time": None if adapt_time is None else parse_duration(adapt_time), "threads": threads}
    examples = with_test_split(examples, test_share)
    training_settings = _training_settings(time, held_out, threads)
    text_options = (source.to_dict(), None, tokenizer, vocabulary, training_settings)
    pretrain = TextTrialSpec("", *text_options, "", "", overwrite, command)
    adapt = TaskTrialSpec("", examples.to_dict(), adapt_settings, {}, None, False, "", 0, overwrite, command)
    with _comparison_folder(to, TASKS_FOLDER) as folder:
        settings = _comparison_settings(
            source,
            pretrain,
            seed_values,
            sizes,
            adapting=adapt_settings,
            adapting_budget="" if adapt_settings["time"] is None else format_duration(adapt_settings["time"]),
            examples=adapt.source,
            digests=examples.digests(),
            test_share=examples.test_share,
            whole=REFERENCE_MODEL if ablate else "",
        )
        comparison = _open_task_comparison(folder, source, examples, settings, adapt, notes)
        rows = [_task_row(participant, seed_values, pretrain, adapt, folder) for participant in participants]
        return _run_trials(comparison, folder, rows, lambda comparison: _summarize(comparison, folder), on_progress)


def _open_task_comparison(
    folder: Path,
    source: TextSource,
    examples: LabeledSource,
    settings: dict[str, Any],
    trial: TaskTrialSpec,
    notes: list[str],
) -> TaskComparison:
    """The comparison in the folder if its settings are the same; otherwise a new one with its baselines."""
    existing, data = _read_comparison(TaskComparison, folder)
    if (resumed := _resumable(existing, settings)) is not None:
        return resumed
    if data and not trial.overwrite:
        _refuse_other_comparison(folder, "other data")
    if source.paths and not is_corpus(source):
        document_hashes(source.paths, source.reading)  # errors are raised once, before any training
    splits = read_splits(examples)
    task = task_from_train(examples, splits)
    facts = _environment(trial.command) | {
        "files": examples.split_paths(),
        "examples": {"train": len(splits.train), "dev": len(splits.dev), "test": len(splits.test)},
        "leaks": splits.metadata.get("test", {}).get("leaks", {}),
        "notes": [*notes, *splits.notes],
    }
    baselines, whole = (task_baseline(task, splits.train, splits.test),), settings["whole"]
    return TaskComparison(
        task.name, task.metric, task.verb, source.paths, settings, facts, baselines=baselines, whole=whole
    )


def _task_row(
    participant: Participant, seeds: list[int], pretrain: TextTrialSpec, adapt: TaskTrialSpec, folder: Path
) -> _PlannedRow:
    """A row of a task comparison; `pretrain` and `adapt` are what all trials have in common."""

    def run_trial(seed: int, on_line: LineCallback) -> TaskTrial:
        """Pre-train the participant if needed, and adapt it; errors are part of the trial."""
        pretraining_seconds = pretraining_memory = None
        start_from = participant.run_folder or participant.milestone
        settings = {"time": adapt.settings["time"]} if participant.is_counting else {**adapt.settings, "seed": seed}
        if participant.run_folder:  # the time of an adaptation is not pre-training, and imported runs have none
            metadata = RunFolder.open(participant.run_folder).metadata
            pretraining_seconds = None if "task" in metadata else metadata.get("seconds") or None
        elif participant.is_untrained:
            start_from = str(folder / RUNS_FOLDER / f"{REFERENCE_MODEL}-{seed}")
        elif not participant.is_counting:
            spec = replace(
                pretrain,
                milestone=participant.milestone,
                size=participant.size,
                tokenizer=participant.tokenizer,
                settings={**pretrain.settings, **participant.fields, "seed": seed},
                to=str(folder / RUNS_FOLDER / f"{participant.name}-{seed}"),
            )
            pretrained = trials.run_text_trial(spec, on_line)
            if pretrained.error:
                return TaskTrial(seed, error=f"pre-training: {pretrained.error}")
            start_from = str(folder / pretrained.run)
            pretraining_seconds, pretraining_memory = pretrained.seconds, pretrained.memory
        to = str(folder / TASKS_FOLDER / f"{participant.name}-{seed}")
        size = participant.size if participant.is_counting else None
        spec = replace(
            adapt,
            start_from=start_from,
            settings=settings,
            adaptation=participant.adaptation,
            size=size,
            start_untrained=participant.is_untrained,
            to=to,
            seed=seed,
        )
        trial = trials.run_task_trial(spec, on_line)
        size = (participant.size or "") if participant.is_counting else trial.size  # a linear model has no preset size
        memory = max(pretraining_memory or 0, trial.memory or 0) or None
        return replace(trial, size=size, pretraining=pretraining_seconds, memory=memory)

    def is_valid(trial: TaskTrial) -> bool:
        """Whether the result is still in the run folder, and was adapted from the same weights."""
        stored = trials.stored_trial(folder / trial.run, trials.task_trial_result)
        if stored is None or not stored.finished or stored.score != trial.score:
            return False
        if not participant.run_folder:
            return True
        request = RunFolder.open(folder / trial.run).metadata.get("asked", {})
        return request.get("beginning") == RunFolder.open(participant.run_folder).metadata["weights"]["sha256"]

    row = TaskComparisonRow(
        **{name: getattr(participant, name) for name in ("name", "title", "idea", "milestone", "differs", "papers")},
        year=LINEAGE[participant.milestone].year,
    )
    return _PlannedRow(row, seeds[:1] if participant.is_counting else seeds, run_trial, is_valid)


def _summarize(comparison: TaskComparison, folder: Path) -> TaskComparison:
    """A copy with sorted rows, differences to the reference, and notes, computed from per-example scores."""
    scores_by_row: dict[str, list[np.ndarray]] = {}
    for row in comparison.rows:
        run_folders = [folder / trial.run for trial in row.trials if trial.score is not None]
        scores = map(trials.trial_example_scores, run_folders)
        scores_by_row[row.name] = [values for values in scores if values is not None]
    differences = [verdict.score_versus_reference(comparison, row, scores_by_row) for row in comparison.rows]
    rows = [replace(row, versus=versus) for row, versus in zip(comparison.rows, differences, strict=True)]
    if not comparison.whole:  # ablations stay in the order given, after the reference
        positions = {name: index for index, name in enumerate(LINEAGE)}
        rows.sort(key=lambda row: (row.year, positions.get(row.milestone, -1), row.name))
    comparison = replace(comparison, rows=tuple(rows))
    remarks = verdict.comparison_notes(comparison, scores_by_row)
    remarks += verdict.contamination_notes(_contaminated_titles(comparison, folder))
    remarks += trials.missing_pair_task_notes(folder / RUNS_FOLDER, rows)
    return replace(comparison, remarks=tuple(remarks))


def _contaminated_titles(comparison: TaskComparison, folder: Path) -> dict[str, list[str]]:
    """The evaluation files that the base run of a row was trained on, by row title."""
    files_by_title: dict[str, list[str]] = {}
    source, digests = LabeledSource.from_dict(comparison.settings["examples"]), comparison.settings["digests"]
    for row in comparison.rows:
        for trial in row.trials[:1]:
            with suppress(ForebearError):
                parent = RunFolder.open(folder / trial.run).metadata.get("parent")
                splits = leaked_splits(parent, source, digests)
                files_by_title[row.title] = list(dict.fromkeys(comparison.facts["files"][split] for split in splits))
    return files_by_title


def usage_command(comparison: TaskComparison, row: TaskComparisonRow, folder: PathLike) -> str:
    """The command that uses the best run of a row."""
    trial = row.best
    return "" if trial is None else f"forebear {comparison.verb} {Path(folder) / trial.run} …"
