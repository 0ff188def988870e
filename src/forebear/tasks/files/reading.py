"""Labelled data in a person's own files becomes examples: tables, JSON, SQuAD, CoNLL and word/tag, one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import get_args

from forebear.errors import BadInput
from forebear.tasks.examples import Example
from forebear.tasks.files import conll, json_records, slashed, squad_files, tables
from forebear.tasks.files.forms import TASKS, BadRow, Faults, Form, Labels, OnBadRows, Wanted, check
from forebear.tasks.files.guessing import TAGS, Guess, as_written, guess
from forebear.text.blocks import OnBadBytes
from forebear.text.sources import Paths, Source, find

__all__ = ["TASKS", "BadRow", "Form", "Guess", "as_written", "examples", "guess"]

READERS: dict[str, Callable[[Source, Wanted], Iterator[Example]]] = {
    "tsv": tables.examples,
    "csv": tables.examples,
    "jsonl": json_records.examples,
    "json": json_records.examples,
    "squad": squad_files.examples,
    "conll": conll.examples,
    "tagged": slashed.examples,
}


def examples(
    paths: Paths,
    task: str,
    form: Form,
    *,
    labels: Labels = "wanted",
    on_bad_rows: OnBadRows = "fail",
    bad: list[BadRow] | None = None,
    mended: list[BadRow] | None = None,
    known: Collection[str] | None = None,
    on_bad_bytes: OnBadBytes = "fail",
) -> Iterator[Example]:
    """The examples of all files in order, one by one; a bad row is named by file and line.

    labels       wanted: a row without one is bad; optional: its label is None; absent: what is there is not read
    on_bad_rows  fail: the first bad row is a BadInput; skip: it is left out and entered in `bad`
    mended       gets what was put right on the way, such as an answer that stands elsewhere than the file says
    known        the labels (classification, pairs) or tags there may be; any other is bad
    """
    check(task, form)
    for option, value, choices in (
        ("labels", labels, get_args(Labels)),
        ("on-bad-rows", on_bad_rows, get_args(OnBadRows)),
        ("on-bad-bytes", on_bad_bytes, get_args(OnBadBytes)),
    ):
        if value not in choices:
            raise BadInput(f"--{option} is {value!r}", remedy=f"choose one of {', '.join(choices)}")
    if known is not None and task in ("answering", "choice"):
        raise ValueError(f"{task} has no labels that could be known")
    if labels == "wanted" and form.label is None and form.kind != "squad":
        first = next(find(paths)).name
        if task == "tagging":
            raise BadInput("its words have no tags", file=first, remedy=TAGS)
        raise BadInput(f"no column of labels is known for {task}", file=first, remedy="name it with --label-column")
    faults = Faults(on_bad_rows, [] if bad is None else bad, [] if mended is None else mended)
    told = frozenset(known) if known is not None and labels != "absent" else None
    return _all(paths, Wanted(task, form, labels, told, on_bad_bytes, faults))


def _all(paths: Paths, wanted: Wanted) -> Iterator[Example]:
    none = True
    source = None
    for source in find(paths):
        for example in READERS[wanted.form.kind](source, wanted):
            none = False
            yield example
    if none and source is not None:
        first = wanted.faults.first
        if first is not None:
            raise BadInput(
                f"all rows are bad; this one: {first.reason}", file=first.file, line=first.line, remedy="mend them"
            )
        raise BadInput(
            "there are no examples in it", file=source.name, remedy="a header or blank lines alone teach nothing"
        )
