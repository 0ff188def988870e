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

from forebear._version import __version__
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import fingerprint_sources
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.io.files import STDIN
from forebear.data.source import TextSource, is_corpus
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments.comparison.compressors import HeldOutText, compression_baselines, first_words, split_text
from forebear.experiments.comparison.contenders import (
    model_names,
)
from forebear.experiments.comparison.report import text_comparison_page
from forebear.experiments.comparison.results import (
    TaskComparison,
    TextComparison,
    TextComparisonRow,
    TextTrial,
)
from forebear.experiments.comparison.trials import (
    TextTrialSpec,
    compare_words,
    rows_without_pair_task,
    run_text_trial,
    text_trial_result,
)
from forebear.experiments.evaluator import MEASURED_BYTES
from forebear.experiments.unused_settings import UNUSED_BY_LEARNER, settings_kind
from forebear.registry import LINEAGE, model_spec
from forebear.settings.units import format_duration, parse_duration
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
    from forebear.experiments.comparison.compare_task import compare_on_task  # it imports this module

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
