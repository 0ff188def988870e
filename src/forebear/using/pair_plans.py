"""Whether a milestone can learn from what it is given: plain text, or texts and their translations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from forebear.errors import BadInput
from forebear.lineage import LINEAGE, milestone_named
from forebear.milestones.milestone import Milestone
from forebear.text.reading import Reading
from forebear.training.corpora import TextSource, is_corpus


def has_field(milestone: str | None, name: str) -> bool:
    """Whether a milestone has a field of this name: the `pairs` of BERT, for one, are another thing than parallel
    text."""
    return milestone in LINEAGE and name in {field.name for field in fields(milestone_named(milestone))}


def fits(milestone: str, kind: type[Milestone], source: TextSource, of_target: Mapping[str, Any]) -> None:
    """An error where the text, or what is said about it, is none that this milestone learns from."""
    if kind.learns_from == "pairs":
        if source.paths and not source.pairs:
            what = f"{milestone} learns from texts and their translations"
            remedy = f"give two files, line by line, a table or JSONL: forebear pretrain {milestone} --pairs A B"
            raise BadInput(what, file=source.paths[0], remedy=remedy)
        _only_pairs(source)
        return
    if kind.learns_from == "tags" and source.paths:
        what = f"{milestone} learns from words with their tags, not from plain text"
        raise BadInput(what, file=source.paths[0], remedy=f"forebear pretrain {milestone} FILE, of word/tag or CoNLL")
    if source.pairs:
        what = f"{milestone} learns from plain text: --pairs means nothing to it"
        raise BadInput(what, remedy=f"forebear pretrain {milestone} TEXT…, or choose transformer")
    given = [f"--target-{name}" for name, value in of_target.items() if value is not None]
    given += ["--columns"] if source.columns else []
    if given:
        raise BadInput(f"{given[0]} means nothing without --pairs", remedy="leave it out")


def _only_pairs(source: TextSource) -> None:
    """What says how plain text is read means nothing to pairs."""
    if source.paths and is_corpus(source):
        what = "is a corpus of plain text"
        raise BadInput(what, file=source.paths[0], remedy="give the parallel text itself: --pairs A B")
    plain = Reading(encoding=source.reading.encoding, on_bad_bytes=source.reading.on_bad_bytes)
    if replace(source, paths=(), columns="", pairs=True) != TextSource((), plain, pairs=True):
        what = "--documents, --format, --field, --column, --sentences and what concerns words mean nothing to --pairs"
        raise BadInput(what, remedy="leave them out; --columns names the two sides in one file")
