"""Milestones that words with their tags teach by themselves: `pretrain` with such text is `adapt` from nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from forebear.data.io.files import OnBadBytes, find_sources
from forebear.data.io.reader import TextFormat
from forebear.data.labeled.detect_format import TAGGED_FORMAT_HELP, FileHead
from forebear.data.labeled.source import labeled_source
from forebear.data.source import TextSource
from forebear.errors import InputError
from forebear.experiments import pipeline, plan
from forebear.experiments.plan import ERROR_POLICIES, split_settings
from forebear.registry import LINEAGE, model_spec
from forebear.training.run_folder import RunFolder

GUESSED = "the words of this file have their tags with them, so"


def is_tagged_training(milestone: str | None, texts: Sequence[str], reading: TextFormat) -> bool:
    """Whether this milestone, given these files of this --format, learns to tag."""
    if milestone not in LINEAGE:
        return False
    kind = model_spec(milestone)
    return kind.learns_from == "tags" or (
        kind.learns_tags and (reading.format == "tagged" or _has_tags(texts, reading))
    )


def _has_tags(texts: Sequence[str], reading: TextFormat) -> bool:
    """Whether the first file, of which no --format is told, leaves no doubt that its words have tags."""
    if reading.format != "auto" or not texts or not os.path.isfile(texts[0]):  # what comes through a pipe, comes once
        return False
    source = next(find_sources(texts[:1]))
    try:
        return (
            reading.format_of(source) == "text"
            and FileHead.read(source, reading.encoding, "replace").tag_columns() is not None
        )
    except InputError:  # which is told where the text is read
        return False


def implied_task(begin: str | os.PathLike[str], data: str | os.PathLike[str]) -> str | None:
    """What there is to teach a milestone, or a run of one, that tags alone teach; None: the examples say what."""
    name = os.fspath(begin)
    if re.search(r"\.(?:[tc]sv|jsonl?)(?:\.gz|\.zst)?$", os.fspath(data).lower()):  # no name of words and tags
        return None
    if name in LINEAGE and not os.path.isdir(name):
        kind = model_spec(name)
    elif os.path.exists(name):
        kind = type(RunFolder.open(name).spec)
    else:  # which is told where it is opened
        return None
    return "tagging" if kind.learns_from == "tags" else None


def resume_any(folder: str | os.PathLike[str], **how: Any) -> RunFolder:
    """Goes on with a run that `pretrain` began: one of a milestone that tags teach knows a task already."""
    run = RunFolder.open(folder)
    taught = run.task is not None and run.metadata.get("parent") is None and run.spec.learns_tags
    return (pipeline.resume_adaptation if taught else pipeline.resume_pretraining)(os.fspath(folder), **how)


def plan_tagging(
    milestone: str,
    texts: Sequence[str],
    source: TextSource,
    *,
    size: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    idle: Mapping[str, Any] | None = None,
) -> tuple[plan.AdaptPlan, list[str]]:
    """What `adapt MILESTONE FILE --task tagging` plans, and what was guessed of the file, in words.

    `settings` are fields of the milestone, settings of the recipe, and what becomes of faults in the file; `idle` are
    options that mean nothing here.
    """
    written = dict(recipe or {})
    if written.get("milestone", milestone) != milestone:
        told = written["milestone"]
        raise InputError(f"the recipe is for {told}, not for {milestone}", hint=f"forebear pretrain {told} …")
    kind, reading = model_spec(milestone), source.reading
    guessed = kind.learns_from == "text" and reading.format == "auto"
    hint = "leave it out, or have the file learned as it stands: --format text" if guessed else "leave it out"
    _refuse_idle(milestone, source, hint, {"tokenizer": written.get("tokenizer"), **(idle or {})})
    if len(texts) != 1:
        what = f"{len(texts)} files: {milestone} learns from one file of words and their tags"
        raise InputError(what, hint="join them into one")
    faults = {name: value for name, value in (settings or {}).items() if name in ERROR_POLICIES}
    rest = {name: value for name, value in (settings or {}).items() if name not in ERROR_POLICIES}
    own, given = split_settings(milestone, kind, rest)
    given = {**written.get("recipe", {}), **given}
    held_out = given.pop("held_out", None)
    fields = {**written.get("fields", {}), **own}
    if idle_ones := [name for name in fields if kind.learns_from == "text"]:
        what = f"--{idle_ones[0]} means nothing to {milestone} where tags teach it: its states are the tags"
        raise InputError(what, hint=hint)
    size = size or written.get("size")
    with _told_of_adapt(milestone, texts[0]):
        labelled, notes = labeled_source(
            texts[0],
            task="tagging",
            form=_form(milestone, texts[0], reading),
            dev_share=None if held_out is None else _share(held_out),
            **faults,
        )
        notes = [f"{GUESSED} {milestone} learns to tag (as text: --format text)"] * guessed + notes
        return plan.plan_adaptation(milestone, labelled, settings=given, size=size, fields=fields), notes


@contextmanager
def _told_of_adapt(milestone: str, path: str) -> Iterator[None]:
    """A remedy that names an option of `adapt` says whose it is."""
    try:
        yield
    except InputError as error:
        if any(option in error.hint for option in ("--dev", "--test")):
            error.hint += f" (of forebear adapt {milestone} {path} --task tagging)"
        raise


def _form(milestone: str, path: str, reading: TextFormat) -> dict[str, Any]:
    """What is known of how the file is written; an error where it is plain text."""
    if reading.format in ("auto", "text"):
        _refuse_plain(milestone, path, reading.encoding, reading.on_bad_bytes)
    slashed = reading.format == "tagged" and not _is_in_columns(path, reading)
    return {"encoding": reading.encoding, **({"kind": "tagged"} if slashed else {})}


def _is_in_columns(path: str, reading: TextFormat) -> bool:
    """Whether each line has a word and its tag, and no sentence of word/tag."""
    head = FileHead.read(next(find_sources([path])), reading.encoding, reading.on_bad_bytes)
    return head.detect_kind("tagging")[0] == "conll" and not head.is_prose


def _share(value: Any) -> float:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise InputError(f"--held-out is {value}", hint="give a share between 0 and 1, such as 0.1")
    return share


def _refuse_idle(milestone: str, source: TextSource, hint: str, idle: Mapping[str, Any]) -> None:
    """Options of plain text mean nothing to words that were cut and tagged before."""
    usual, reading = TextSource(()), source.reading
    told = {"pairs": source.pairs, "columns": source.columns, "segment": source.segment}
    told |= {"sentences": source.sentences != usual.sentences, "user-dict": source.user_dict}
    told |= {"documents": reading.documents != TextFormat().documents, "entities": source.entities}
    for name, value in {**told, **idle}.items():
        if value:
            what = f"--{name} means nothing to {milestone}, which learns from words and their tags"
            raise InputError(what, hint=hint)


def _refuse_plain(milestone: str, path: str, encoding: str, on_bad_bytes: OnBadBytes) -> None:
    """An error, with what is wanted, for a text whose words have no tags."""
    head = FileHead.read(next(find_sources([path])), encoding, on_bad_bytes)
    if head.detect_kind("tagging")[0] == "conll" and head.is_prose:
        what = f"this looks like plain text, and {milestone} learns from words with their tags"
        raise InputError(what, file=path, hint=f"{TAGGED_FORMAT_HELP}; for plain text choose ngram")
