"""Every milestone on the same text, split and budget, one after the other; what was broken off goes on."""

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
from forebear.data.corpora import TextSource, is_corpus
from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import fingerprint_sources
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.io.files import STDIN
from forebear.embeddings.evaluation import read_word_eval_file
from forebear.errors import ForebearError, InputError, UserInterrupt
from forebear.experiments.comparison.compressors import HeldOutText, compression_baselines, first_words, split_text
from forebear.experiments.comparison.page import text_comparison_page
from forebear.experiments.comparison.results import TextComparison, TextComparisonRow, TextTrial
from forebear.experiments.comparison.trials import (
    TextTrialSpec,
    rows_without_pair_task,
    run_text_trial,
    text_trial_result,
)
from forebear.experiments.pipeline import MEASURED_CHARACTERS
from forebear.registry import LINEAGE, model_spec, suggest, text_models
from forebear.settings.resolve import UNUSED_BY_LEARNER, settings_kind
from forebear.settings.units import format_duration as shown
from forebear.training import run_folder
from forebear.training.run_folder import RunFolder, lock_folder
from forebear.training.settings import parse_duration

if TYPE_CHECKING:
    from forebear.data.sentences import SentenceMode
    from forebear.experiments.comparison.results import TaskComparison
    from forebear.experiments.comparison.trials import WordEvalRow

COMPARISON_FILE, COMPARISON_PAGE, RUNS_FOLDER = "comparison.json", "comparison.html", "runs"
DEFAULT_TIME = "2m"  # to learn, for each, where nobody says
APART = 0.01  # the share by which held-out bytes may differ between tokenizers before it is told

PathLike = str | os.PathLike[str]
TrialCallback = Callable[
    [str, int, dict[str, Any] | TextTrial], object
]  # milestone, seed, a line of its log or its result


@dataclass(frozen=True)
class _TextTrialSettings:
    """What every trial has in common."""

    source: TextSource
    sizes: Mapping[str, str]
    tokenizer: str | None
    vocabulary: int | None
    settings: dict[str, Any]
    overwrite: bool
    command: str
    words: tuple[str, ...] = ()  # files of words that people judged


@overload
def compare(texts: PathLike | Sequence[PathLike], *, task: None = None, **words: Any) -> TextComparison: ...
@overload
def compare(
    texts: PathLike | Sequence[PathLike] = (), *, task: tuple[str, PathLike], **words: Any
) -> TaskComparison: ...
@overload
def compare(*, runs: Sequence[PathLike], words: Sequence[PathLike]) -> list[WordEvalRow]: ...
def compare(
    texts: PathLike | Sequence[PathLike] = (), *, task: tuple[str, PathLike] | None = None, **words: Any
) -> TextComparison | TaskComparison | list[WordEvalRow]:
    """Trains each milestone (all of the lineage, unless some are named) on the same text, and compares them.

    With a `task`, a name and a file of labelled examples, each is adapted to it as well and measured on a test. The
    words are those of the command line: only=, time=, seeds=, size=, tokenizer=, vocabulary=, held_out=, threads=, to=,
    overwrite=; with a task also test=, dev=, runs=, adapt_time=, ablate=, test_share=; without one limit=, prompt=,
    words=.
    See `compare_on_text` and `compare_on_task` for what they mean. Without a text and a task, finished `runs` are set
    beside each other by files of judged `words` alone.
    """
    if task is None and "runs" in words:
        from forebear.experiments.comparison.trials import compare_words

        if texts or set(words) != {"runs", "words"}:
            hint = "compare(runs=[…], words=[…]) and nothing else; or say which task they are adapted to: task="
            raise InputError("without a task, runs are compared by files of judged words", hint=hint)
        return compare_words(words["runs"], words["words"])
    if task is None:
        return compare_on_text(texts, **words)
    from forebear.experiments.comparison.task_comparing import compare_on_task

    return compare_on_task(texts, task=task, **words)


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
    hear: TrialCallback | None = None,
) -> TextComparison:
    """Trains each milestone (all of the lineage, unless some are named) for `time` with each seed, and compares them.

    The results stand in `to`: comparison.json, comparison.html, and the runs. Called again with the same settings it
    goes on; a milestone that failed is a row with its error, and is tried again then. `seeds` is how many, or which;
    `size` is by milestone: {"gpt2": "mini"}.
    `limit` is the text's true entropy in bits per byte, where it is known. `prompt` is what everyone continues. `words`
    are files of pairs of words that people judged, or of analogies: a column for each, for those that have vectors.
    """
    paths = (texts,) if isinstance(texts, str | os.PathLike) else tuple(texts)
    source = replace(source or TextSource(()), paths=tuple(os.fspath(path) for path in paths))
    names = model_names(only, size or {})
    chosen = seed_list(seeds)
    if not source.paths:
        raise InputError("nothing to compare", hint="give at least one text")
    refuse_stdin(source.paths)
    settings = {
        "time": parse_duration(DEFAULT_TIME if time is None else time),
        "held_out": held_out,
        "threads": threads,
    }
    judged = tuple(os.path.abspath(file) for file in words)
    for file in judged:
        read_word_eval_file(file)  # what is wrong with it is told before anybody learns
    wanted = _TextTrialSettings(source, dict(size or {}), tokenizer, vocabulary, settings, overwrite, command, judged)
    folder = Path(to)
    with explain_disk_errors(folder):
        (folder / RUNS_FOLDER).mkdir(parents=True, exist_ok=True)
        with lock_folder(folder, "another process is comparing in this folder"):
            made = _begun(folder, wanted, chosen, limit, prompt, overwrite)
            return _gone_on(made, folder, names, chosen, wanted, hear or (lambda name, seed, told: None))


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    """Which seeds, where so many are wanted, or these."""
    chosen = list(range(seeds)) if isinstance(seeds, int) else sorted(set(seeds))
    if not chosen:
        raise InputError("nothing to compare", hint="give at least one seed")
    return chosen


def refuse_stdin(paths: Iterable[str]) -> None:
    if any(path in STDIN for path in paths):
        raise InputError(
            "standard input can be read only once", hint="save the text in a file: it is read several times"
        )


def text_key(source: TextSource) -> str:
    """What is the same for the same text."""
    return (
        Corpus.open(source.paths[0]).key
        if is_corpus(source)
        else fingerprint_sources(source.paths, source.reading).content_digest
    )


def model_names(milestones: Sequence[str] | None, sizes: Mapping[str, str], also: Sequence[str] = ()) -> list[str]:
    """The milestones that are meant, all unless some are named; an error for a name or a size that is not there.

    `also` are such as do not learn from text, and can be compared here.
    """
    able = [name for name in LINEAGE if name in (*text_models(), *also)]
    names = able if milestones is None else list(dict.fromkeys(milestones))
    for name in (*names, *sizes):
        if name not in LINEAGE:
            raise InputError(f"no milestone named {name!r}", hint=suggest(name, LINEAGE))
        if name not in able:
            from_tags = model_spec(name).learns_from == "tags"
            other = "words and their tags" if from_tags else "texts and their translations"
            what = f"{name} learns from {other}: it cannot be compared with those that read text"
            raise InputError(what, hint=f"choose among: {', '.join(able)}")
    for name, size in sizes.items():
        kind = model_spec(name)
        if size not in kind.sizes:
            raise InputError(f"{name} has no size {size!r}", hint=suggest(size, kind.sizes))
    return names


def _begun(
    folder: Path, wanted: _TextTrialSettings, seeds: list[int], limit: float | None, prompt: str | None, overwrite: bool
) -> TextComparison:
    """The comparison that stands in the folder, if it is this one; else a new one, with its yardsticks."""
    source = wanted.source
    settings = {
        **wanted.settings,
        "budget": shown(wanted.settings["time"]),
        "seeds": seeds,
        "sizes": dict(wanted.sizes),
        "tokenizer": wanted.tokenizer,
        "vocabulary": wanted.vocabulary,
        "source": source.to_dict(),
        "text": text_key(source),
        "words": list(wanted.words),
    }
    there = _read(folder)
    if there is not None and is_same_comparison(there.settings, settings) and prompt in (None, there.prompt):
        settings["seeds"] = sorted({*there.settings["seeds"], *seeds})  # what is there already stays in the table
        return replace(there, settings=settings, limit=limit, finished=False)
    if not overwrite and (there is not None or read_comparison(folder).get("task")):
        hint = "add --overwrite to replace it, or choose another folder with --to"
        raise InputError("holds a comparison on another text or with other settings", file=folder, hint=hint)
    hardware = run_folder.hardware_info()
    facts: dict[str, Any] = {
        "machine": f"{hardware['cores']} cores of {hardware['processor']}",
        "forebear": __version__,
        "command": wanted.command,
    }
    taken = _sides(wanted)
    if taken is not None:
        facts |= {"documents": taken.num_documents, "bytes": taken.num_bytes, "held_out_bytes": taken.held_out_bytes}
    prompt = prompt if prompt is not None else first_words(taken) if taken is not None else ""
    sticks = compression_baselines(taken) if taken is not None else ()
    return TextComparison(source.paths, settings, facts, yardsticks=sticks, limit=limit, prompt=prompt)


def is_same_comparison(there: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether results under these settings belong into one table. More seeds may be added to fewer."""
    return {**there, "seeds": ()} == {**settings, "seeds": ()}


def _sides(wanted: _TextTrialSettings) -> HeldOutText | None:
    """The text itself, for the yardsticks; a corpus holds it no more."""
    if is_corpus(wanted.source):
        return None
    source = wanted.source
    return split_text(
        source.paths,
        source.reading,
        wanted.settings["held_out"],
        MEASURED_CHARACTERS,
        cast("SentenceMode", source.sentences),
    )


def read_comparison(folder: Path) -> dict[str, Any]:
    """The table that stands in the folder; what is torn is as good as not there: the runs beside it remain."""
    with suppress(OSError, ValueError):
        told = json.loads((folder / COMPARISON_FILE).read_text("utf-8"))
        return told if isinstance(told, dict) else {}
    return {}


def _read(folder: Path) -> TextComparison | None:
    with suppress(ValueError, KeyError, TypeError):
        return TextComparison.from_dict(read_comparison(folder))
    return None


def _gone_on(
    made: TextComparison,
    folder: Path,
    names: list[str],
    seeds: list[int],
    wanted: _TextTrialSettings,
    hear: TrialCallback,
) -> TextComparison:
    made = replace(made, rows=tuple(row for row in made.rows if row.name in LINEAGE))
    try:
        for name in names:
            for seed in seeds if _depends_on_chance(name) else seeds[:1]:
                row = made.find_row(name) or _row(name)
                if not any(trial.seed == seed and _holds(trial, folder) for trial in row.trials):
                    trial = run_text_trial(_job(name, seed, folder, made.prompt, wanted), _heard(hear, name, seed))
                    made = made.with_row(row.with_trial(trial))
                    hear(name, seed, trial)
                    write(made, folder)
        made = replace(made, finished=True, facts={**made.facts, "note": _note(made, folder)})
    except KeyboardInterrupt as error:
        done = sum(trial.finished for row in made.rows for trial in row.trials)
        what = f"interrupted; {done} finished, and what was begun is kept"
        raise UserInterrupt(what, file=folder, hint="the same command goes on") from error
    finally:
        write(made, folder)
    return made


def _heard(hear: TrialCallback, name: str, seed: int) -> Callable[[dict[str, Any]], object]:
    return lambda line: hear(name, seed, line)


def _holds(trial: TextTrial, folder: Path) -> bool:
    """Whether a result in the table still stands in its folder as well."""
    if not trial.finished:
        return False
    try:
        there = text_trial_result(RunFolder.open(folder / trial.run))
    except (ForebearError, KeyError, TypeError):
        return False
    return there.finished and there.bits_per_byte == trial.bits_per_byte


def _depends_on_chance(name: str) -> bool:
    """Counting gives the same whatever the seed."""
    try:
        kind = model_spec(name)
        return kind.learning != "counting" or kind.counts_again
    except Exception:  # noqa: BLE001 - a milestone that cannot even be loaded: its trial will tell why
        return True


def _heeded(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Of the settings for all, those that mean something to this one."""
    try:
        idle, _ = UNUSED_BY_LEARNER[settings_kind(model_spec(name))]
    except Exception:  # noqa: BLE001 - as above
        return settings
    return {setting: value for setting, value in settings.items() if setting not in idle}


def _row(name: str) -> TextComparisonRow:
    entry = LINEAGE[name]
    return TextComparisonRow(entry.name, entry.title, entry.year, entry.idea, entry.authors)


def _job(name: str, seed: int, folder: Path, prompt: str, wanted: _TextTrialSettings) -> TextTrialSpec:
    return TextTrialSpec(
        milestone=name,
        source=wanted.source.to_dict(),
        size=wanted.sizes.get(name),
        tokenizer=wanted.tokenizer,
        vocabulary=wanted.vocabulary,
        settings={**_heeded(name, wanted.settings), "seed": seed},
        to=str(folder / RUNS_FOLDER / f"{name}-{seed}"),
        prompt=prompt,
        overwrite=wanted.overwrite,
        command=wanted.command,
        words=list(wanted.words),
    )


def write(comparison: TextComparison, folder: Path) -> None:
    """comparison.json and comparison.html, each whole or not at all."""
    told = {**comparison.facts, "when": datetime.now(UTC).strftime("%Y-%m-%d"), "note": _note(comparison, folder)}
    comparison = replace(comparison, facts=told)
    with atomic_write(folder / COMPARISON_FILE) as file:
        file.write(json.dumps(comparison.to_dict(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with atomic_write(folder / COMPARISON_PAGE) as file:
        file.write(text_comparison_page(comparison).encode())


def _note(comparison: TextComparison, folder: Path) -> str:
    """Something a reader must know before believing the table."""
    told = []
    measured = [count for row in comparison.rows for count in row.values("held_out_bytes")]
    if measured and max(measured) > min(measured) * (1 + APART):
        least, most = min(measured), max(measured)
        told.append(f"Not all were measured on the same text: between {least:,} and {most:,} bytes.")
    return " ".join([*told, *rows_without_pair_task(folder / RUNS_FOLDER, comparison.rows)])
