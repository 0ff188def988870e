"""How a file of labelled data is written, kept in a run so that later files are read alike; and what is bad in one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from forebear.errors import BadInput
from forebear.text.blocks import Blocks, OnBadBytes
from forebear.text.ledger import Ledger
from forebear.text.sources import Source

TASKS = ("classification", "pairs", "answering", "tagging", "choice")

Kind = Literal["tsv", "csv", "jsonl", "json", "squad", "conll", "tagged"]
Column = str | int  # by its name in a header or a JSON object, or by its place, counted from 1
Answer = Literal["one", "several", "number"]
Labels = Literal["wanted", "optional", "absent"]
OnBadRows = Literal["fail", "skip"]

KINDS: dict[str, str] = {
    "tsv": "a table separated by tabs",
    "csv": "a table (CSV)",
    "jsonl": "one JSON object a line",
    "json": "a JSON array of objects",
    "squad": "SQuAD's JSON, questions about passages",
    "conll": "a word and its tag a line (CoNLL)",
    "tagged": "a sentence a line, word/tag word/tag",
}
# Where the name of the file format leaves no choice, what it can be used for.
ONLY_FOR = {"squad": "answering", "conll": "tagging", "tagged": "tagging"}
SKIPPING = "mend it, or leave bad rows out with --on-bad-rows skip"
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that may spell half a character


@dataclass(frozen=True)
class Form:
    """How a file is written.

    texts      the columns (fields) of the text, of the two texts, of question and passage, or of the words
    label      of the label, the answer, the right choice, or the tags; None: there is none
    answer     what a label is: one of some classes, several of them (none is possible), or a number
    separator  between several labels in a cell of a table; "": the cell is a JSON list
    start      where an answer begins in its passage; None: the answer says it itself, or it is looked for
    choices    one field that holds a list, or a column for each
    first      what the first choice is called where the right one is named: 0, 1 or A; "": the right one is spelled out
    name       the column of the examples' own names
    header     whether the first row of a table names its columns
    width      how many columns a row has, where no header says it
    delimiter  between the columns of a CSV table
    comments   whether lines that begin with # before a sentence are about it, as in CoNLL-U
    """

    kind: Kind
    texts: tuple[Column, ...] = ()
    label: Column | None = None
    answer: Answer = "one"
    separator: str = ""
    start: Column | None = None
    choices: tuple[Column, ...] = ()
    first: str = "0"
    name: Column | None = None
    header: bool = False
    width: int = 0
    delimiter: str = ","
    comments: bool = False
    encoding: str = "utf-8"

    def columns(self) -> tuple[Column | None, ...]:
        """All columns with a role, in the order in which `making` expects their values."""
        return (*self.texts, *self.choices, self.label, self.start, self.name)

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the usual."""
        usual = {field.name: field.default for field in fields(self)}
        told = asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in told.items()
            if value != usual[name]
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Form:
        """Strict: a field of another type or name was not written by us."""
        tuples = {"texts", "choices"}
        known = {field.name: field.default for field in fields(cls)}
        for name, value in told.items():
            if name in tuples:
                right = isinstance(value, list | tuple) and all(_is_column(one) for one in value)
            elif name in ("label", "start", "name"):
                right = value is None or _is_column(value)
            elif name in ("kind", "answer", "first"):
                right = (
                    value in {"kind": get_args(Kind), "answer": get_args(Answer), "first": ("0", "1", "A", "")}[name]
                )
            else:
                right = name in known and type(value) is type(known[name])
            if not right:
                remedy = "it may be written by another version of forebear"
                raise BadInput(f"the form of the data says {name} = {value!r}, which is not understood", remedy=remedy)
        if "kind" not in told:
            raise BadInput("the form of the data does not say its kind", remedy=f"one of {', '.join(get_args(Kind))}")
        made: dict[str, Any] = {name: tuple(value) if name in tuples else value for name, value in told.items()}
        return cls(**made)


def _is_column(value: object) -> bool:
    return isinstance(value, str) or (type(value) is int and value >= 1)


def check(task: str, form: Form) -> None:
    """Refuses a task that nobody knows, or that this form cannot teach."""
    if task not in TASKS:
        raise BadInput(f"no task is called {task!r}", remedy=f"choose one of {', '.join(TASKS)}")
    if (only := ONLY_FOR.get(form.kind, task)) != task:
        raise BadInput(f"{KINDS[form.kind]} is not for {task}", remedy=f"the likely task is {only}: --task {only}")
    wanted = {"classification": 1, "pairs": 2, "answering": 2, "tagging": 1}.get(task, max(1, len(form.texts)))
    if form.kind != "squad" and len(form.texts) != wanted:
        raise BadInput(
            f"{task} reads {wanted} column{'s' * (wanted > 1)} of text, the form names {len(form.texts)}",
            remedy="name them with --text-column",
        )
    if (task == "choice") != bool(form.choices):
        what = "the form names no choices" if task == "choice" else "the form names choices"
        raise BadInput(f"{what}, the task is {task}", remedy="look at the file's form again, or choose another --task")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out, or mended, and why."""

    file: str
    line: int | None
    reason: str
    name: str | None = None

    def __str__(self) -> str:
        return str(BadInput(self.reason, file=self.file, line=self.line))


class Bad(Exception):
    """What is wrong with one row."""


def shown(value: object, most: int = 40) -> str:
    """A value of somebody's file, short and on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return repr(text if len(text) <= most else text[: most - 1] + "…") if isinstance(value, str) else text[:most]


def text_of(value: Any, what: str = "text") -> str:
    if value is None:
        raise Bad(f"there is no {what}")
    if not isinstance(value, str):
        raise Bad(f"the {what} is {shown(value)}, which is no text")
    if not value or value.isspace():
        raise Bad(f"the {what} is empty")
    return value


class Faults:
    """What becomes of bad rows: the first one ends the reading, or each is written down and left out."""

    def __init__(self, on_bad_rows: OnBadRows, bad: list[BadRow], mended: list[BadRow]) -> None:
        self.on_bad_rows, self.bad, self.mended = on_bad_rows, bad, mended
        self.first: BadRow | None = None
        self.file = ""

    def leave_out(self, line: int | None, reason: str, name: str | None = None) -> None:
        row = self._row(line, reason, name)
        if self.on_bad_rows == "fail":
            raise BadInput(row.reason, file=self.file, line=line, remedy=SKIPPING)
        self.first = self.first or row
        self.bad.append(row)

    def mend(self, line: int | None, reason: str, name: str | None = None) -> None:
        self.mended.append(self._row(line, reason, name))

    def _row(self, line: int | None, reason: str, name: str | None) -> BadRow:
        """Where there are no lines, a row is found by its name."""
        return BadRow(self.file, line, f"{shown(name)}: {reason}" if line is None and name else reason, name)


@dataclass(frozen=True)
class Wanted:
    """What is read, whichever way a file is written."""

    task: str
    form: Form
    labels: Labels
    known: frozenset[str] | None
    on_bad_bytes: OnBadBytes
    faults: Faults

    def blocks(self, source: Source) -> Blocks:
        self.faults.file = source.name
        return Blocks(source, self.form.encoding, self.on_bad_bytes, Ledger())
