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

from forebear import __version__
from forebear.comparing.outcomes import Comparison, Row, Trial
from forebear.comparing.page import page
from forebear.comparing.trial import Job, attempt, result, unasked
from forebear.comparing.wording import duration as shown
from forebear.comparing.yardsticks import Sides, beginning, sides, yardsticks
from forebear.errors import BadInput, ForebearError, Interrupted
from forebear.lineage import LINEAGE, learning_from_text, milestone_named, nearest
from forebear.text.aside import disk_told, written_aside
from forebear.text.corpus import Corpus
from forebear.text.sources import STDIN
from forebear.text.surveying import survey
from forebear.training import machine
from forebear.training.corpora import TextSource, is_corpus
from forebear.training.folder import RunFolder, held
from forebear.training.recipe import duration
from forebear.using.heeding import IDLE, way_of
from forebear.using.pretraining import MEASURED
from forebear.using.word_files import read_words

if TYPE_CHECKING:
    from forebear.comparing.task_outcomes import TaskComparison
    from forebear.comparing.word_comparing import JudgedRun
    from forebear.text.sentences import Mode

COMPARISON, PAGE, RUNS = "comparison.json", "comparison.html", "runs"
TIME = "2m"  # to learn, for each, where nobody says
APART = 0.01  # the share by which held-out bytes may differ between tokenizers before it is told

PathLike = str | os.PathLike[str]
Hear = Callable[[str, int, dict[str, Any] | Trial], object]  # milestone, seed, a line of its log or its result


@dataclass(frozen=True)
class _Wanted:
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
def compare(texts: PathLike | Sequence[PathLike], *, task: None = None, **words: Any) -> Comparison: ...
@overload
def compare(
    texts: PathLike | Sequence[PathLike] = (), *, task: tuple[str, PathLike], **words: Any
) -> TaskComparison: ...
@overload
def compare(*, runs: Sequence[PathLike], words: Sequence[PathLike]) -> list[JudgedRun]: ...
def compare(
    texts: PathLike | Sequence[PathLike] = (), *, task: tuple[str, PathLike] | None = None, **words: Any
) -> Comparison | TaskComparison | list[JudgedRun]:
    """Trains each milestone (all of the lineage, unless some are named) on the same text, and compares them.

    With a `task`, a name and a file of labelled examples, each is adapted to it as well and measured on a test. The
    words are those of the command line: only=, time=, seeds=, size=, tokenizer=, vocabulary=, held_out=, threads=, to=,
    overwrite=; with a task also test=, dev=, runs=, adapt_time=, ablate=, test_share=; without one limit=, prompt=,
    words=.
    See `compare_on_text` and `compare_on_task` for what they mean. Without a text and a task, finished `runs` are set
    beside each other by files of judged `words` alone.
    """
    if task is None and "runs" in words:
        from forebear.comparing.word_comparing import compare_words

        if texts or set(words) != {"runs", "words"}:
            remedy = "compare(runs=[…], words=[…]) and nothing else; or say which task they are adapted to: task="
            raise BadInput("without a task, runs are compared by files of judged words", remedy=remedy)
        return compare_words(words["runs"], words["words"])
    if task is None:
        return compare_on_text(texts, **words)
    from forebear.comparing.task_comparing import compare_on_task

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
    hear: Hear | None = None,
) -> Comparison:
    """Trains each milestone (all of the lineage, unless some are named) for `time` with each seed, and compares them.

    The results stand in `to`: comparison.json, comparison.html, and the runs. Called again with the same settings it
    goes on; a milestone that failed is a row with its error, and is tried again then. `seeds` is how many, or which;
    `size` is by milestone: {"gpt2": "mini"}.
    `limit` is the text's true entropy in bits per byte, where it is known. `prompt` is what everyone continues. `words`
    are files of pairs of words that people judged, or of analogies: a column for each, for those that have vectors.
    """
    paths = (texts,) if isinstance(texts, str | os.PathLike) else tuple(texts)
    source = replace(source or TextSource(()), paths=tuple(os.fspath(path) for path in paths))
    names = names_of(only, size or {})
    chosen = seeds_of(seeds)
    if not source.paths:
        raise BadInput("nothing to compare", remedy="give at least one text")
    refuse_stdin(source.paths)
    settings = {"time": duration(TIME if time is None else time), "held_out": held_out, "threads": threads}
    judged = tuple(os.path.abspath(file) for file in words)
    for file in judged:
        read_words(file)  # what is wrong with it is told before anybody learns
    wanted = _Wanted(source, dict(size or {}), tokenizer, vocabulary, settings, overwrite, command, judged)
    folder = Path(to)
    with disk_told(folder):
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        with held(folder, "another process is comparing in this folder"):
            made = _begun(folder, wanted, chosen, limit, prompt, overwrite)
            return _gone_on(made, folder, names, chosen, wanted, hear or (lambda name, seed, told: None))


def seeds_of(seeds: int | Sequence[int]) -> list[int]:
    """Which seeds, where so many are wanted, or these."""
    chosen = list(range(seeds)) if isinstance(seeds, int) else sorted(set(seeds))
    if not chosen:
        raise BadInput("nothing to compare", remedy="give at least one seed")
    return chosen


def refuse_stdin(paths: Iterable[str]) -> None:
    if any(path in STDIN for path in paths):
        raise BadInput(
            "standard input can be read only once", remedy="save the text in a file: it is read several times"
        )


def text_key(source: TextSource) -> str:
    """What is the same for the same text."""
    return Corpus.open(source.paths[0]).key if is_corpus(source) else survey(source.paths, source.reading).text


def names_of(milestones: Sequence[str] | None, sizes: Mapping[str, str], also: Sequence[str] = ()) -> list[str]:
    """The milestones that are meant, all unless some are named; an error for a name or a size that is not there.

    `also` are such as do not learn from text, and can be compared here.
    """
    able = [name for name in LINEAGE if name in (*learning_from_text(), *also)]
    names = able if milestones is None else list(dict.fromkeys(milestones))
    for name in (*names, *sizes):
        if name not in LINEAGE:
            raise BadInput(f"no milestone named {name!r}", remedy=nearest(name, LINEAGE))
        if name not in able:
            from_tags = milestone_named(name).learns_from == "tags"
            other = "words and their tags" if from_tags else "texts and their translations"
            what = f"{name} learns from {other}: it cannot be compared with those that read text"
            raise BadInput(what, remedy=f"choose among: {', '.join(able)}")
    for name, size in sizes.items():
        kind = milestone_named(name)
        if size not in kind.sizes:
            raise BadInput(f"{name} has no size {size!r}", remedy=nearest(size, kind.sizes))
    return names


def _begun(
    folder: Path, wanted: _Wanted, seeds: list[int], limit: float | None, prompt: str | None, overwrite: bool
) -> Comparison:
    """The comparison that stands in the folder, if it is this one; else a new one, with its yardsticks."""
    source = wanted.source
    settings = {
        **wanted.settings,
        "budget": shown(wanted.settings["time"]),
        "seeds": seeds,
        "sizes": dict(wanted.sizes),
        "tokenizer": wanted.tokenizer,
        "vocabulary": wanted.vocabulary,
        "source": source.to_json(),
        "text": text_key(source),
        "words": list(wanted.words),
    }
    there = _read(folder)
    if there is not None and same(there.settings, settings) and prompt in (None, there.prompt):
        settings["seeds"] = sorted({*there.settings["seeds"], *seeds})  # what is there already stays in the table
        return replace(there, settings=settings, limit=limit, finished=False)
    if not overwrite and (there is not None or table_of(folder).get("task")):
        remedy = "add --overwrite to replace it, or choose another folder with --to"
        raise BadInput("holds a comparison on another text or with other settings", file=folder, remedy=remedy)
    hardware = machine.hardware()
    facts: dict[str, Any] = {
        "machine": f"{hardware['cores']} cores of {hardware['processor']}",
        "forebear": __version__,
        "command": wanted.command,
    }
    taken = _sides(wanted)
    if taken is not None:
        facts |= {"documents": taken.documents, "bytes": taken.bytes, "held_out_bytes": taken.held_out_bytes}
    prompt = prompt if prompt is not None else beginning(taken) if taken is not None else ""
    sticks = yardsticks(taken) if taken is not None else ()
    return Comparison(source.paths, settings, facts, yardsticks=sticks, limit=limit, prompt=prompt)


def same(there: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether results under these settings belong into one table. More seeds may be added to fewer."""
    return {**there, "seeds": ()} == {**settings, "seeds": ()}


def _sides(wanted: _Wanted) -> Sides | None:
    """The text itself, for the yardsticks; a corpus holds it no more."""
    if is_corpus(wanted.source):
        return None
    source = wanted.source
    return sides(source.paths, source.reading, wanted.settings["held_out"], MEASURED, cast("Mode", source.sentences))


def table_of(folder: Path) -> dict[str, Any]:
    """The table that stands in the folder; what is torn is as good as not there: the runs beside it remain."""
    with suppress(OSError, ValueError):
        told = json.loads((folder / COMPARISON).read_text("utf-8"))
        return told if isinstance(told, dict) else {}
    return {}


def _read(folder: Path) -> Comparison | None:
    with suppress(ValueError, KeyError, TypeError):
        return Comparison.from_json(table_of(folder))
    return None


def _gone_on(
    made: Comparison, folder: Path, names: list[str], seeds: list[int], wanted: _Wanted, hear: Hear
) -> Comparison:
    made = replace(made, rows=tuple(row for row in made.rows if row.name in LINEAGE))
    try:
        for name in names:
            for seed in seeds if _depends_on_chance(name) else seeds[:1]:
                row = made.row(name) or _row(name)
                if not any(trial.seed == seed and _holds(trial, folder) for trial in row.trials):
                    trial = attempt(_job(name, seed, folder, made.prompt, wanted), _heard(hear, name, seed))
                    made = made.with_row(row.with_trial(trial))
                    hear(name, seed, trial)
                    write(made, folder)
        made = replace(made, finished=True, facts={**made.facts, "note": _note(made, folder)})
    except KeyboardInterrupt as error:
        done = sum(trial.finished for row in made.rows for trial in row.trials)
        what = f"interrupted; {done} finished, and what was begun is kept"
        raise Interrupted(what, file=folder, remedy="the same command goes on") from error
    finally:
        write(made, folder)
    return made


def _heard(hear: Hear, name: str, seed: int) -> Callable[[dict[str, Any]], object]:
    return lambda line: hear(name, seed, line)


def _holds(trial: Trial, folder: Path) -> bool:
    """Whether a result in the table still stands in its folder as well."""
    if not trial.finished:
        return False
    try:
        there = result(RunFolder.open(folder / trial.run))
    except (ForebearError, KeyError, TypeError):
        return False
    return there.finished and there.bits_per_byte == trial.bits_per_byte


def _depends_on_chance(name: str) -> bool:
    """Counting gives the same whatever the seed."""
    try:
        kind = milestone_named(name)
        return kind.learning != "counting" or kind.counts_again
    except Exception:  # noqa: BLE001 - a milestone that cannot even be loaded: its trial will tell why
        return True


def _heeded(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Of the settings for all, those that mean something to this one."""
    try:
        idle, _ = IDLE[way_of(milestone_named(name))]
    except Exception:  # noqa: BLE001 - as above
        return settings
    return {setting: value for setting, value in settings.items() if setting not in idle}


def _row(name: str) -> Row:
    entry = LINEAGE[name]
    return Row(entry.name, entry.title, entry.year, entry.idea, entry.authors)


def _job(name: str, seed: int, folder: Path, prompt: str, wanted: _Wanted) -> Job:
    return Job(
        milestone=name,
        source=wanted.source.to_json(),
        size=wanted.sizes.get(name),
        tokenizer=wanted.tokenizer,
        vocabulary=wanted.vocabulary,
        settings={**_heeded(name, wanted.settings), "seed": seed},
        to=str(folder / RUNS / f"{name}-{seed}"),
        prompt=prompt,
        overwrite=wanted.overwrite,
        command=wanted.command,
        words=list(wanted.words),
    )


def write(comparison: Comparison, folder: Path) -> None:
    """comparison.json and comparison.html, each whole or not at all."""
    told = {**comparison.facts, "when": datetime.now(UTC).strftime("%Y-%m-%d"), "note": _note(comparison, folder)}
    comparison = replace(comparison, facts=told)
    with written_aside(folder / COMPARISON) as file:
        file.write(json.dumps(comparison.to_json(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with written_aside(folder / PAGE) as file:
        file.write(page(comparison).encode())


def _note(comparison: Comparison, folder: Path) -> str:
    """Something a reader must know before believing the table."""
    told = []
    measured = [count for row in comparison.rows for count in row.of("held_out_bytes")]
    if measured and max(measured) > min(measured) * (1 + APART):
        least, most = min(measured), max(measured)
        told.append(f"Not all were measured on the same text: between {least:,} and {most:,} bytes.")
    return " ".join([*told, *unasked(folder / RUNS, comparison.rows)])
