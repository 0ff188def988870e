"""From text to a trained run: tokenizer, corpus, split, training, measurement, card; and the same again, or onwards."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.lineage import name_of
from forebear.milestones.milestone import Milestone
from forebear.objectives.batch import Objective, Prepared
from forebear.objectives.translation import Translation
from forebear.statistics.room import give_back_large
from forebear.text.aside import disk_told
from forebear.text.corpus import Corpus
from forebear.text.pairs import PairedPortion, ParallelCorpus
from forebear.text.portion import Portion, Split
from forebear.text.sides import Sides
from forebear.text.spelling import MARKS, cut_words
from forebear.training import troubles
from forebear.training.card import write_card
from forebear.training.corpora import Progress, TextSource, corpus_again
from forebear.training.counted import tabled
from forebear.training.folder import RunFolder
from forebear.training.learner import Learner
from forebear.training.learners import introduced, learner_for
from forebear.training.parallel_corpora import parallel_again
from forebear.training.recipe import BUDGETS, Recipe, recipe_from
from forebear.training.together import ALONE, Together
from forebear.training.trainer import Trainer, Watcher
from forebear.using.abilities import verbs
from forebear.using.beginning import Beginning
from forebear.using.places import place, replaced
from forebear.using.planning import Plan
from forebear.using.staging import nine

if TYPE_CHECKING:
    from forebear.networks.states import TokenVectors

MEASURED = 1_000_000  # bytes of held-out text that the final measurement reads
TRANSLATED = 500  # held-out pairs that it translates


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
    corpus: Corpus | ParallelCorpus | None = None,
    group: Together = ALONE,
) -> RunFolder:
    """Trains what was planned into a folder; a folder that holds the same run, begun or finished, is gone on with.

    `corpus` is the text as it is already prepared, where that is known.
    """
    group.check(name_of(what.milestone), what.milestone.learning, carries=what.milestone.carries)
    if what.milestone.learning == "counting":
        give_back_large()
        if what.recipe.time is not None and not what.milestone.counts_again:
            name = name_of(what.milestone)
            (watcher or Watcher()).note(f"{name} counts every text once, however long that takes: --time is not heeded")
    corpus = corpus or what.corpus(workers=workers, learning_progress=learning_progress, progress=progress)
    asked = {
        "milestone": name_of(what.milestone),
        "fields": asdict(what.milestone),
        "recipe": what.recipe.to_json(),
        "corpus": corpus.key,
    }
    if what.beginning is not None:
        asked["beginning"] = asdict(what.beginning) | {"words": list(what.beginning.words)}
    wanted = Path(to) if to is not None else Path("runs") / asked["milestone"]
    folder, there = place(wanted, asked, to is None, overwrite)
    goes_on = there is not None and there.facts.get("asked") == asked
    if there is not None and goes_on and there.finished:
        (watcher or Watcher()).note("this run is finished already: nothing was trained")
        return there
    recipe = there.recipe_for(group.size) if there is not None and goes_on else what.recipe
    with what.about():
        split = corpus.split(recipe.held_out)
        # before anything is written: most mistakes show here
        ready = Ready.of(what.milestone, corpus, recipe, split, what.beginning, progress)
    if there is not None and goes_on:
        return trained(there, ready, watcher, group)
    watcher = watcher or Watcher()
    for note in what.notes:
        watcher.note(note)
    for stage in nine(what, corpus, split, ready.objective, ready.learner, try_loss=False):
        watcher.stage(stage.number, stage.name, stage.words)
    with replaced(there):
        facts = first_facts(what, corpus, asked, folder, command, parent)
        run = RunFolder.begin(folder, facts, corpus.tokenizer, corpus.ledger.to_json() | ready.cut)
    return trained(run, ready, watcher, group)


def first_facts(
    what: Plan,
    corpus: Corpus | ParallelCorpus,
    asked: dict[str, Any],
    folder: Path,
    command: str | None,
    parent: str | None,
) -> dict[str, Any]:
    """What a run says of itself when it begins."""
    return {
        "name": folder.name,
        "milestone": asked["milestone"],
        "size": what.size,
        "fields": asked["fields"],
        "parent": parent if what.beginning is None else what.beginning.run,
        "beginning": asked.get("beginning"),
        "recipe": asked["recipe"],
        "data": {
            "source": what.source.to_json(),
            "corpus": corpus.key,
            "folder": str(corpus.folder.absolute()),
            **{name: corpus.facts["counts"][name] for name in ("documents", "tokens", "bytes")},
        },
        "asked": asked,
        "command": command or what.command(folder),
    }


def resume(folder: str | Path, *, watcher: Watcher | None = None, group: Together = ALONE) -> RunFolder:
    """Goes on with a run that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    run.may_learn()
    if run.finished:
        (watcher or Watcher()).note("this run is finished already: nothing was trained")
        return run
    if "distilled" in run.facts:
        remedy = f"go on with it by: {run.going_on}"
        raise BadInput("was distilled: it needs its teacher to go on", file=run.path, remedy=remedy)
    if run.facts.get("data") is None:
        what = "was imported, not trained here: there is nothing to go on with"
        raise BadInput(what, file=run.path, remedy="train a run of your own: forebear pretrain MILESTONE TEXT")
    corpus = _corpus_of(run)
    split = corpus.split(run.recipe.held_out)
    begun = run.checkpoints.good()[0] is not None  # then the run it began with is needed no more
    beginning = None if begun else Beginning.from_json(run.facts.get("beginning"))
    group.check(run.facts["milestone"], run.milestone.learning, carries=run.milestone.carries)
    recipe = run.recipe_for(group.size)
    return trained(run, Ready.of(run.milestone, corpus, recipe, split, beginning), watcher, group)


def again(folder: str | Path, to: str | Path, *, overwrite: bool = False, watcher: Watcher | None = None) -> RunFolder:
    """Repeats a finished run, step by step as it was, into another folder."""
    run = RunFolder.open(folder)
    run.may_learn()
    if run.facts.get("data") is None:
        raise BadInput("was imported: there is no training to repeat", file=run.path, remedy="repeat a run made here")
    if "distilled" in run.facts or "task" in run.facts:
        what = "only pre-training is repeated step by step; the same command makes this run again"
        raise BadInput(what, file=run.path, remedy=run.facts.get("command") or "call it again")
    if not run.finished:
        remedy = f"finish it first: forebear pretrain --resume {run.path}"
        raise BadInput("only a finished run can be repeated", file=run.path, remedy=remedy)
    pace = run.facts["pace"]
    settings = {name: value for name, value in run.facts["recipe"].items() if name not in BUDGETS}
    exact = {"steps": pace["total"], "warmup": pace["warmup"], "fall": pace["fall"]}
    processes = run.facts.get("processes", 1)  # one process adds up the parts of a step as several do
    exact["accumulate"] = -(-settings.get("accumulate", 1) // processes) * processes
    if run.milestone.learning == "counting":
        exact = {"steps": run.facts["step"]}
    what = Plan(
        run.milestone,
        run.facts["size"],
        TextSource.from_json(run.facts["data"]["source"]),
        run.tokenizers,
        None,
        recipe_from(settings, exact),
        Beginning.from_json(run.facts.get("beginning")),
    )
    corpus = _corpus_of(run)  # the text of then, or a word about its having changed
    return pretrain(what, to, overwrite=overwrite, command=run.facts.get("command"), watcher=watcher, corpus=corpus)


def _corpus_of(run: RunFolder) -> Corpus | ParallelCorpus:
    """The text that a run learns, or learned, from."""
    sides = run.tokenizers
    if isinstance(sides, Sides):
        return parallel_again(run.facts["data"], sides, run.recipe.held_out)
    return corpus_again(run.facts["data"], sides)


@dataclass(frozen=True)
class Ready:
    """Everything that training needs beside its folder."""

    split: Split
    objective: Objective
    learner: Learner
    unigram: float | None
    notes: list[str]
    cut: dict[str, Any]  # of words that are longer than is read, for the ledger

    @classmethod
    def of(
        cls,
        milestone: Milestone,
        corpus: Corpus | ParallelCorpus,
        recipe: Recipe,
        split: Split,
        beginning: Beginning | None,
        progress: Progress | None = None,
    ) -> Ready:
        tokenizer: Any = corpus.tokenizer
        notes = list(troubles.of_text(corpus, milestone.least_count))
        if split.how == "position":
            notes.append(
                "there are too few documents to hold some out by what they say: the end of the text is held out"
            )
        objective = milestone.objective(tokenizer)
        objective.check(split.train)
        if isinstance(objective, Prepared):
            for portion in (split.train, split.held_out):
                objective.prepare(portion, progress)
        notes += _told_of_pairs(corpus, split, objective)
        given, told = beginning.tensors(milestone, tokenizer) if beginning else (None, [])
        learner = learner_for(milestone, tokenizer, recipe, given)
        descends = milestone.learning == "descending"
        cut, long = _cut_words(learner.network.encoder.embedding if descends else None, corpus)
        notes += long
        introduced(learner, objective, split.train)
        end = tokenizer.roles.get("end")
        unigram = None
        if end is not None and milestone.learning != "sweeping" and len(split.held_out):
            sides = split.train.predicted, split.held_out.predicted
            unigram = troubles.unigram_entropy(*sides, tokenizer.size, end, tokenizer.roles.get("unknown"))
        return cls(split, objective, learner, unigram, [*notes, *told], cut)


def _cut_words(embedding: TokenVectors | None, corpus: Corpus | ParallelCorpus) -> tuple[dict[str, Any], list[str]]:
    """Words that are longer than what is read of them, where they are read by how they are written."""
    spelling = None if embedding is None else embedding.spelling
    if spelling is None or not isinstance(corpus, Corpus):
        return {}, []
    found = cut_words(spelling, corpus.tokenizer.tokens(), corpus.ids)
    if not found["words"]:
        return {"spelling": found}, []
    most = spelling.longest - MARKS
    what = f"{found['words']:,} words are longer than {most} bytes, and {found['tokens']:,} tokens of the text are such"
    return {"spelling": found}, [f"{what}: they are read as far as that (--longest reads more); ledger.json names some"]


def _told_of_pairs(corpus: Corpus | ParallelCorpus, split: Split, objective: Objective) -> list[str]:
    """What of parallel text is not learned from, and why."""
    if not isinstance(objective, Translation):
        return []
    notes = [f"{listed.count:,} pairs were left out: {reason}" for reason, listed in corpus.ledger.drops.items()]
    assert isinstance(split.train, PairedPortion)
    if left := objective.left_out(split.train):
        what = f"{left:,} pairs have more than {objective.context - 1} tokens on a side and are not learned from"
        notes.append(f"{what}; a larger --context, or sentences instead of paragraphs, would keep them")
    return notes


def trained(run: RunFolder, ready: Ready, watcher: Watcher | None, group: Together = ALONE) -> RunFolder:
    watcher = watcher or Watcher()
    with disk_told(run.path), run.held():
        run.facts = RunFolder.open(run.path).facts  # another process may have gone on with it meanwhile
        if not run.finished:
            _finish(run, ready, watcher, group)
    return run


def _finish(run: RunFolder, ready: Ready, watcher: Watcher, group: Together) -> None:
    """Trains, measures and writes the card, whatever of that is not done yet."""
    for note in ready.notes:
        watcher.note(note)
    if run.facts["state"] != "trained":
        split = ready.split
        shares = {"train": split.train.tokens, "held_out": split.held_out.tokens, "by": split.how}
        facts = {"notes": ready.notes, "unigram_nats": ready.unigram, "processes": group.size}
        run.tell(data=run.facts["data"] | {"split": shares}, **facts)
        way = run.milestone.learning
        again = run.milestone.counts_again
        once = way == "counting" and not again
        once = once or not ready.learner.network.heads  # what is not predicted is not learned better
        how: dict[str, Any] = {"once": once, "last": way == "sweeping", "by_epoch": again, "unigram": ready.unigram}
        with tabled(ready.learner.network, run), group.learner(ready.learner) as learner:
            Trainer(run, learner, ready.objective, split, **how, watcher=watcher).run()
    _measure(run, ready.split.held_out, watcher)


def _measure(run: RunFolder, held_out: Portion | PairedPortion, watcher: Watcher) -> None:
    """The final measurement on held-out text, the same documents for every milestone; then the run is finished."""
    from forebear.using.run import Run
    from forebear.using.translations import measure_translations

    opened = Run(run)
    facts: dict[str, Any] = {"parameters": opened.parameters}
    if not len(held_out):
        pass  # all of the text has taught
    elif isinstance(held_out, Portion) and run.milestone.learning == "sweeping":
        told = opened.measure(held_out.first(MEASURED)).facts()
        facts["metrics"] = {"held_out": {"loss": run.facts["held_out_loss"], **told}}
        facts["example"] = opened.words.example
    elif "measure" in verbs(opened.heads, encodes=False):
        began = time.monotonic()
        if isinstance(held_out, PairedPortion):
            measured = measure_translations(opened, *held_out.first(TRANSLATED).texts()).facts()
        else:
            measured = opened.measure(held_out.first(MEASURED)).facts()
        facts["metrics"] = {"held_out": measured}
        facts["measuring_seconds"] = round(time.monotonic() - began, 3)
    notes = [*opened.notes, *(opened.network.notes if run.milestone.learning != "descending" else [])]
    for note in notes:
        watcher.note(note)
    run.facts |= {**facts, "notes": [*run.facts.get("notes", []), *notes]}
    write_card(run)
    run.tell(state="finished")  # last: what is finished is whole
