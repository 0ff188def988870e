"""From text to a trained run: tokenizer, corpus, split, training, measurement, card; and the same again, or onwards."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.lineage import milestone_named, name_of, nearest
from forebear.milestones.milestone import Milestone
from forebear.objectives.batch import Objective
from forebear.text.aside import disk_told
from forebear.text.corpus import LEDGER, TOKENIZER, Corpus
from forebear.text.portion import Portion, Split
from forebear.text.tokenizer import Tokenizer
from forebear.training import machine, troubles
from forebear.training.card import write_card
from forebear.training.corpora import Progress, TextSource, corpus_again, corpus_of
from forebear.training.folder import RunFolder
from forebear.training.learner import Learner
from forebear.training.learners import learner_for
from forebear.training.recipe import BUDGETS, Recipe, read_recipe, recipe_from
from forebear.training.trainer import Trainer, Watcher

__all__ = ["WRITTEN", "Plan", "again", "plan", "pretrain", "read_recipe", "resume"]

DEFAULT_TIME = 300.0  # seconds, where nothing says how long
WRITTEN = ("milestone", "size", "tokenizer", "vocabulary")  # what stands at the top of a recipe file
MEASURED = 1_000_000  # bytes of held-out text that the final measurement reads


@dataclass(frozen=True)
class Plan:
    """What is to be trained, on what, and how; everything that a run's result depends on."""

    milestone: Milestone
    size: str | None
    source: TextSource
    tokenizer: str | Tokenizer
    vocabulary: int | None
    recipe: Recipe


def plan(
    milestone: str,
    texts: Sequence[str],
    *,
    size: str | None = None,
    tokenizer: str | Tokenizer | None = None,
    vocabulary: int | None = None,
    source: TextSource | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """`settings` are fields of the milestone and of the recipe: they win over `recipe`, and that over the defaults."""
    kind = milestone_named(milestone)
    written = dict(recipe or {})
    if written.get("milestone", milestone) != milestone:
        told = written["milestone"]
        raise BadInput(f"the recipe is for {told}, not for {milestone}", remedy=f"forebear pretrain {told} …")
    own, given = _shared_out(kind, settings or {})
    size = size or written.get("size") or kind.size or None
    made = _built(kind, size, {**written.get("fields", {}), **own})
    default = {} if any(name in made.recipe() for name in BUDGETS) else {"time": DEFAULT_TIME}
    resolved = recipe_from(default, made.recipe(), written.get("recipe", {}), given)
    return Plan(
        made,
        size,
        replace(source or TextSource(()), paths=tuple(map(str, texts))),
        tokenizer or written.get("tokenizer") or kind.tokenizer,
        vocabulary or written.get("vocabulary"),
        resolved,
    )


def _shared_out(kind: type[Milestone], settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the milestone, and settings of the recipe."""
    own = {field.name for field in fields(kind)}
    names = [*own, *(field.name for field in fields(Recipe))]
    for name in settings:
        if name not in names:
            raise BadInput(
                f"there is no setting {name!r} of {kind.__name__} or of a recipe", remedy=nearest(name, names)
            )
    given = {name: value for name, value in settings.items() if value is not None}
    return (
        {name: value for name, value in given.items() if name in own},
        {name: value for name, value in given.items() if name not in own},
    )


def _built(kind: type[Milestone], size: str | None, own: Mapping[str, Any]) -> Milestone:
    """The milestone in this size, with these fields; values may be written as on the command line."""
    if size is not None and size not in kind.sizes:
        raise BadInput(f"{kind.__name__} has no size {size!r}", remedy=nearest(size, kind.sizes))
    kinds = {field.name: str(field.type) for field in fields(kind)}
    values = {name: _typed(name, kinds[name], value) for name, value in own.items()}
    return kind(**{**kind.sizes.get(size or "", {}), **values})


def _typed(name: str, kind: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if kind == "bool":
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[value.lower()]
        return {"int": int, "float": float}.get(kind, str)(value)
    except (ValueError, KeyError) as error:
        raise BadInput(f"--{name.replace('_', '-')} is {value!r}", remedy=f"give a value of type {kind}") from error


def pretrain(
    what: Plan,
    to: str | Path | None = None,
    *,
    overwrite: bool = False,
    workers: int | None = None,
    command: str | None = None,
    parent: str | None = None,
    watcher: Watcher | None = None,
    learning_progress: Progress | None = None,
    progress: Progress | None = None,
    corpus: Corpus | None = None,
) -> RunFolder:
    """Trains what was planned into a folder; a folder that holds the same run, begun or finished, is gone on with.

    `corpus` is the text as it is already prepared, where that is known.
    """
    corpus = corpus or corpus_of(
        what.source,
        what.tokenizer,
        vocabulary=what.vocabulary,
        held_out=what.recipe.held_out,
        workers=workers,
        learning_progress=learning_progress,
        progress=progress,
    )
    asked = {
        "milestone": name_of(what.milestone),
        "fields": asdict(what.milestone),
        "recipe": what.recipe.to_json(),
        "corpus": corpus.key,
    }
    folder, there = _place(
        Path(to) if to is not None else Path("runs") / asked["milestone"], asked, to is None, overwrite
    )
    if there is not None and there.finished:
        return there
    recipe = what.recipe if there is None else there.recipe  # what was settled then holds now
    ready = _Ready.of(what.milestone, corpus, recipe)  # before anything is written: most mistakes show here
    if there is not None:
        return _trained(there, corpus, ready, watcher)
    facts = {
        "name": folder.name,
        "milestone": asked["milestone"],
        "size": what.size,
        "fields": asked["fields"],
        "parent": parent,
        "recipe": asked["recipe"],
        "tokenizer": {name: corpus.tokenizer.describe()[name] for name in ("kind", "size", "digest")},
        "data": {
            "source": what.source.to_json(),
            "corpus": corpus.key,
            "folder": str(corpus.folder.absolute()),
            **{name: corpus.facts["counts"][name] for name in ("documents", "tokens", "bytes")},
        },
        "asked": asked,
        "command": command or _command(what, to),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": machine.versions(),
        "hardware": machine.hardware(),
        "state": "begun",
    }
    run = RunFolder.begin(folder, facts, corpus.tokenizer, corpus.ledger.to_json())
    return _trained(run, corpus, ready, watcher)


def resume(folder: str | Path, *, watcher: Watcher | None = None) -> RunFolder:
    """Goes on with a run that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    if run.finished:
        return run
    if run.facts.get("data") is None:
        what = "was imported, not trained here: there is nothing to go on with"
        raise BadInput(what, file=run.path, remedy="train a run of your own: forebear pretrain MILESTONE TEXT")
    corpus = corpus_again(run.facts["data"], run.tokenizer)
    return _trained(run, corpus, _Ready.of(run.milestone, corpus, run.recipe), watcher)


def again(folder: str | Path, to: str | Path, *, watcher: Watcher | None = None) -> RunFolder:
    """Repeats a finished run, step by step as it was, into another folder."""
    run = RunFolder.open(folder)
    if run.facts.get("data") is None:
        raise BadInput("was imported: there is no training to repeat", file=run.path, remedy="repeat a run made here")
    if not run.finished:
        remedy = f"finish it first: forebear pretrain --resume {run.path}"
        raise BadInput("only a finished run can be repeated", file=run.path, remedy=remedy)
    pace = run.facts["pace"]
    settings = {name: value for name, value in run.facts["recipe"].items() if name not in BUDGETS}
    exact = {"steps": pace["total"], "warmup": pace["warmup"], "fall": pace["fall"]}
    if run.milestone.learning == "counting":
        exact = {"steps": run.facts["step"]}
    what = Plan(
        run.milestone,
        run.facts["size"],
        TextSource.from_json(run.facts["data"]["source"]),
        run.tokenizer,
        None,
        recipe_from(settings, exact),
    )
    corpus = corpus_again(run.facts["data"], run.tokenizer)  # the text of then, or a word about its having changed
    return pretrain(what, to, command=run.facts.get("command"), watcher=watcher, corpus=corpus)


def _place(folder: Path, asked: dict[str, Any], free: bool, overwrite: bool) -> tuple[Path, RunFolder | None]:
    """Where the run goes, and what of it is there already. A place of our own choice gets a number if it is taken."""
    number = 1
    while True:
        place = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if not place.exists() or (place.is_dir() and all(_begun(item.name) for item in place.iterdir())):
            return place, None
        try:
            there = RunFolder.open(place)
        except BadInput:
            if not free:
                raise BadInput("exists and is no run", file=place, remedy="choose another folder with --to") from None
            there = None
        if there is not None and there.facts.get("asked") == asked:
            return place, there
        if not free:
            if not overwrite or there is None:
                remedy = "add --overwrite to replace it, or choose another folder with --to"
                raise BadInput("holds another run", file=place, remedy=remedy)
            with there.held():
                _emptied(place)
            return place, None
        number += 1


def _begun(name: str) -> bool:
    """Whether a file may be left by a run that was killed before it was one."""
    return name in (TOKENIZER, LEDGER) or (name.startswith(".") and name.endswith(".tmp"))


def _emptied(place: Path) -> None:
    import shutil

    (place / "run.json").unlink()  # first: what is half removed is no run
    for item in place.iterdir():
        shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


@dataclass(frozen=True)
class _Ready:
    """Everything that training needs beside its folder."""

    split: Split
    objective: Objective
    learner: Learner
    unigram: float | None
    notes: list[str]

    @classmethod
    def of(cls, milestone: Milestone, corpus: Corpus, recipe: Recipe) -> _Ready:
        split, tokenizer = corpus.split(recipe.held_out), corpus.tokenizer
        context = getattr(milestone, "context", 0)
        if context > split.train.tokens:
            raise BadInput(
                f"a context of {context:,} tokens is longer than the whole text to learn from "
                f"({split.train.tokens:,} tokens)",
                remedy=f"give more text, or --context {max(8, split.train.tokens // 8)}",
            )
        notes = list(troubles.of_text(corpus))
        if split.how == "position":
            notes.append(
                "there are too few documents to hold some out by what they say: the end of the text is held out"
            )
        learner = learner_for(milestone, tokenizer, recipe)
        end = tokenizer.roles.get("end")
        unigram = None
        if end is not None:
            unigram = troubles.unigram_entropy(split.train, split.held_out, tokenizer.size, end)
        return cls(split, milestone.objective(tokenizer), learner, unigram, notes)


def _trained(run: RunFolder, corpus: Corpus, ready: _Ready, watcher: Watcher | None) -> RunFolder:
    watcher = watcher or Watcher()
    with disk_told(run.path), run.held():
        run.facts = RunFolder.open(run.path).facts  # another process may have gone on with it meanwhile
        if not run.finished:
            _finish(run, ready, watcher)
    return run


def _finish(run: RunFolder, ready: _Ready, watcher: Watcher) -> None:
    """Trains, measures and writes the card, whatever of that is not done yet."""
    for note in ready.notes:
        watcher.note(note)
    if run.facts["state"] != "trained":
        split = ready.split
        shares = {"train": split.train.tokens, "held_out": split.held_out.tokens, "by": split.how}
        run.tell(data=run.facts["data"] | {"split": shares}, notes=ready.notes, unigram_nats=ready.unigram)
        counting = run.milestone.learning == "counting"
        trainer = Trainer(
            run, ready.learner, ready.objective, split, once=counting, unigram=ready.unigram, watcher=watcher
        )
        trainer.run()
    _measure(run, ready.split.held_out)


def _measure(run: RunFolder, held_out: Portion) -> None:
    """The final measurement on held-out text, the same documents for every milestone; then the run is finished."""
    from forebear.using.run import Run

    opened = Run(run)
    facts: dict[str, Any] = {"parameters": opened.parameters}
    if "next" in opened.heads:
        began = time.monotonic()
        measured = opened.measure(held_out.first(MEASURED)).facts()
        facts["metrics"] = {"held_out": measured}
        facts["measuring_seconds"] = round(time.monotonic() - began, 3)
    own = list(getattr(opened.network, "notes", []))
    run.facts |= {**facts, "notes": [*run.facts.get("notes", []), *opened.notes, *own]}
    write_card(run)
    run.tell(state="finished")  # last: what is finished is whole


def _command(what: Plan, to: str | Path | None) -> str:
    words = ["forebear", "pretrain", name_of(what.milestone), *what.source.paths]
    words += ["--to", str(to)] if to is not None else []
    return shlex.join(words)
