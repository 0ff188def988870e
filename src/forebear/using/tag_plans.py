"""Milestones that words with their tags teach by themselves: `pretrain` with such text is `adapt` from nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from forebear.errors import BadInput
from forebear.lineage import LINEAGE, milestone_named
from forebear.tasks.files.guessing import TAGS
from forebear.tasks.files.recognising import Head
from forebear.text.blocks import OnBadBytes
from forebear.text.reading import Reading
from forebear.text.sources import find
from forebear.training.corpora import TextSource
from forebear.training.folder import RunFolder
from forebear.training.labelled import labelled_source
from forebear.using import adapting, pretraining, task_plans
from forebear.using.planning import FAULTS, shared_out

GUESSED = "the words of this file have their tags with them, so"


def learns_by_tags(milestone: str | None, texts: Sequence[str], reading: Reading) -> bool:
    """Whether this milestone, given these files of this --format, learns to tag."""
    if milestone not in LINEAGE:
        return False
    kind = milestone_named(milestone)
    return kind.learns_from == "tags" or (
        kind.learns_tags and (reading.format == "tagged" or _has_tags(texts, reading))
    )


def _has_tags(texts: Sequence[str], reading: Reading) -> bool:
    """Whether the first file, of which no --format is told, leaves no doubt that its words have tags."""
    if reading.format != "auto" or not texts or not os.path.isfile(texts[0]):  # what comes through a pipe, comes once
        return False
    source = next(find(texts[:1]))
    try:
        return reading.form_of(source) == "text" and Head.of(source, reading.encoding, "replace").of_tags() is not None
    except BadInput:  # which is told where the text is read
        return False


def only_task(begin: str | os.PathLike[str], data: str | os.PathLike[str]) -> str | None:
    """What there is to teach a milestone, or a run of one, that tags alone teach; None: the examples say what."""
    name = os.fspath(begin)
    if re.search(r"\.(?:[tc]sv|jsonl?)(?:\.gz|\.zst)?$", os.fspath(data).lower()):  # no name of words and tags
        return None
    if name in LINEAGE and not os.path.isdir(name):
        kind = milestone_named(name)
    elif os.path.exists(name):
        kind = type(RunFolder.open(name).milestone)
    else:  # which is told where it is opened
        return None
    return "tagging" if kind.learns_from == "tags" else None


def going_on(folder: str | os.PathLike[str], **how: Any) -> RunFolder:
    """Goes on with a run that `pretrain` began: one of a milestone that tags teach knows a task already."""
    run = RunFolder.open(folder)
    taught = run.task is not None and run.facts.get("parent") is None and run.milestone.learns_tags
    return (adapting.resume if taught else pretraining.resume)(os.fspath(folder), **how)


def tag_plan(
    milestone: str,
    texts: Sequence[str],
    source: TextSource,
    *,
    size: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    idle: Mapping[str, Any] | None = None,
) -> tuple[task_plans.Plan, list[str]]:
    """What `adapt MILESTONE FILE --task tagging` plans, and what was guessed of the file, in words.

    `settings` are fields of the milestone, settings of the recipe, and what becomes of faults in the file; `idle` are
    options that mean nothing here.
    """
    written = dict(recipe or {})
    if written.get("milestone", milestone) != milestone:
        told = written["milestone"]
        raise BadInput(f"the recipe is for {told}, not for {milestone}", remedy=f"forebear pretrain {told} …")
    kind, reading = milestone_named(milestone), source.reading
    guessed = kind.learns_from == "text" and reading.format == "auto"
    remedy = "leave it out, or have the file learned as it stands: --format text" if guessed else "leave it out"
    _refuse_idle(milestone, source, remedy, {"tokenizer": written.get("tokenizer"), **(idle or {})})
    if len(texts) != 1:
        what = f"{len(texts)} files: {milestone} learns from one file of words and their tags"
        raise BadInput(what, remedy="join them into one")
    faults = {name: value for name, value in (settings or {}).items() if name in FAULTS}
    rest = {name: value for name, value in (settings or {}).items() if name not in FAULTS}
    own, given = shared_out(milestone, kind, rest)
    given = {**written.get("recipe", {}), **given}
    held_out = given.pop("held_out", None)
    fields = {**written.get("fields", {}), **own}
    if idle_ones := [name for name in fields if kind.learns_from == "text"]:
        what = f"--{idle_ones[0]} means nothing to {milestone} where tags teach it: its states are the tags"
        raise BadInput(what, remedy=remedy)
    size = size or written.get("size")
    with _told_of_adapt(milestone, texts[0]):
        labelled, notes = labelled_source(
            texts[0],
            task="tagging",
            form=_form(milestone, texts[0], reading),
            dev_share=None if held_out is None else _share(held_out),
            **faults,
        )
        notes = [f"{GUESSED} {milestone} learns to tag (as text: --format text)"] * guessed + notes
        return task_plans.plan(milestone, labelled, settings=given, size=size, fields=fields), notes


@contextmanager
def _told_of_adapt(milestone: str, path: str) -> Iterator[None]:
    """A remedy that names an option of `adapt` says whose it is."""
    try:
        yield
    except BadInput as error:
        if any(option in error.remedy for option in ("--dev", "--test")):
            error.remedy += f" (of forebear adapt {milestone} {path} --task tagging)"
        raise


def _form(milestone: str, path: str, reading: Reading) -> dict[str, Any]:
    """What is known of how the file is written; an error where it is plain text."""
    if reading.format in ("auto", "text"):
        _refuse_plain(milestone, path, reading.encoding, reading.on_bad_bytes)
    slashed = reading.format == "tagged" and not _is_in_columns(path, reading)
    return {"encoding": reading.encoding, **({"kind": "tagged"} if slashed else {})}


def _is_in_columns(path: str, reading: Reading) -> bool:
    """Whether each line has a word and its tag, and no sentence of word/tag."""
    head = Head.of(next(find([path])), reading.encoding, reading.on_bad_bytes)
    return head.kind("tagging")[0] == "conll" and not head.is_prose


def _share(value: Any) -> float:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise BadInput(f"--held-out is {value}", remedy="give a share between 0 and 1, such as 0.1")
    return share


def _refuse_idle(milestone: str, source: TextSource, remedy: str, idle: Mapping[str, Any]) -> None:
    """Options of plain text mean nothing to words that were cut and tagged before."""
    usual, reading = TextSource(()), source.reading
    told = {"pairs": source.pairs, "columns": source.columns, "segment": source.segment}
    told |= {"sentences": source.sentences != usual.sentences, "user-dict": source.user_dict}
    told |= {"documents": reading.documents != Reading().documents, "entities": source.entities}
    for name, value in {**told, **idle}.items():
        if value:
            what = f"--{name} means nothing to {milestone}, which learns from words and their tags"
            raise BadInput(what, remedy=remedy)


def _refuse_plain(milestone: str, path: str, encoding: str, on_bad_bytes: OnBadBytes) -> None:
    """An error, with what is wanted, for a text whose words have no tags."""
    head = Head.of(next(find([path])), encoding, on_bad_bytes)
    if head.kind("tagging")[0] == "conll" and head.is_prose:
        what = f"this looks like plain text, and {milestone} learns from words with their tags"
        raise BadInput(what, file=path, remedy=f"{TAGS}; for plain text choose ngram")
