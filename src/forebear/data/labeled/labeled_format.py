"""Formats of labeled files (stored in runs), options for reading them, and bad rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from forebear.data.io.sources import SourceFile
from forebear.data.io.text_blocks import OnBadBytes, TextBlocks
from forebear.data.io.text_ledger import Ledger
from forebear.errors import InputError

TASKS = ("classification", "pairs", "answering", "tagging", "choice")
LabeledFileKind = Literal["tsv", "csv", "jsonl", "json", "squad", "conll", "tagged"]
ColumnRef = str | int  # a name in a header or JSON object, or a number counted from 1
Answer = Literal["one", "several", "number"]
LabelPolicy = Literal["required", "optional", "absent"]
OnBadRows = Literal["fail", "skip"]
LABELED_FORMATS: dict[str, str] = {
    "tsv": "a table separated by tabs",
    "csv": "a table (CSV)",
    "jsonl": "one JSON object a line",
    "json": "a JSON array of objects",
    "squad": "SQuAD's JSON, questions about passages",
    "conll": "a word and its tag a line (CoNLL)",
    "tagged": "a sentence a line, word/tag word/tag",
}

# The only task of formats that have just one.
ONLY_TASK = {"squad": "answering", "conll": "tagging", "tagged": "tagging"}
SKIP_HINT = "mend it, or leave bad rows out with --on-bad-rows skip"
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that may be a lone surrogate


@dataclass(frozen=True)
class LabeledFormat:
    """The format of a labeled file; columns are those of a table or the fields of a JSON object."""

    kind: LabeledFileKind
    texts: tuple[ColumnRef, ...] = ()  # of the text, the two texts, question and passage, or the words
    label: ColumnRef | None = None  # of the label, the answer, the gold choice, or the tags; None: unlabeled
    answer: Answer = "one"  # type of label: one class, several classes (possibly none), or a number
    separator: str = ""  # of several labels in a cell of a table; "": the cell is a JSON list
    start: ColumnRef | None = None  # of an answer's offset in its passage; None: it is part of the answer, or searched
    choices: tuple[ColumnRef, ...] = ()  # one field with a list, or one column per choice
    first: str = "0"  # name of the first choice in the label column: 0, 1 or A; "": the label is the choice's text
    name: ColumnRef | None = None  # of the example ids
    header: bool = False  # whether the first row names the columns
    width: int = 0  # number of columns without a header
    delimiter: str = ","  # of a CSV table
    comments: bool = False  # whether lines that start with # before a sentence are comments, as in CoNLL-U
    encoding: str = "utf-8"

    def role_columns(self) -> tuple[ColumnRef | None, ...]:
        """All columns with a role, in the order in which `example_builder` expects their values."""
        return (*self.texts, *self.choices, self.label, self.start, self.name)

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        changed = {name: value for name, value in asdict(self).items() if value != defaults[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> LabeledFormat:
        """Strict inverse of `to_dict`: raise InputError for unknown fields and wrong types."""
        tuple_fields = {"texts", "choices"}
        choices = {"kind": get_args(LabeledFileKind), "answer": get_args(Answer), "first": ("0", "1", "A", "")}
        defaults = {field.name: field.default for field in fields(cls)}
        for name, value in settings.items():
            if name in tuple_fields:
                is_valid = isinstance(value, list | tuple) and all(map(_is_column_ref, value))
            elif name in ("label", "start", "name"):
                is_valid = value is None or _is_column_ref(value)
            elif name in choices:
                is_valid = value in choices[name]
            else:
                is_valid = name in defaults and type(value) is type(defaults[name])
            if not is_valid:
                hint = "it may be written by another version of forebear"
                raise InputError(f"the form of the data says {name} = {value!r}, which is not understood", hint=hint)
        if "kind" not in settings:
            hint = f"one of {', '.join(get_args(LabeledFileKind))}"
            raise InputError("the form of the data does not say its kind", hint=hint)
        values: dict[str, Any] = dict(settings)
        values |= {name: tuple(values[name]) for name in tuple_fields & values.keys()}
        return cls(**values)


def _is_column_ref(value: object) -> bool:
    return isinstance(value, str) or (type(value) is int and value >= 1)


def check_format(task: str, file_format: LabeledFormat) -> None:
    """Raise InputError for an unknown task, or one that does not fit the format."""
    if task not in TASKS:
        raise InputError(f"no task is called {task!r}", hint=f"choose one of {', '.join(TASKS)}")
    if (only_task := ONLY_TASK.get(file_format.kind, task)) != task:
        hint = f"the likely task is {only_task}: --task {only_task}"
        raise InputError(f"{LABELED_FORMATS[file_format.kind]} is not for {task}", hint=hint)
    num_columns = max(1, len(file_format.texts)) if task == "choice" else 2 if task in ("pairs", "answering") else 1
    if file_format.kind != "squad" and len(file_format.texts) != num_columns:
        columns = f"{num_columns} column{'s' * (num_columns > 1)} of text"
        message = f"{task} reads {columns}, the form names {len(file_format.texts)}"
        raise InputError(message, hint="name them with --text-column")
    if (task == "choice") != bool(file_format.choices):
        message = f"the form names {'no ' * (task == 'choice')}choices, the task is {task}"
        raise InputError(message, hint="look at the file's form again, or choose another --task")


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that was skipped or repaired, and why."""

    file: str
    line: int | None
    reason: str
    name: str | None = None

    def __str__(self) -> str:
        return str(InputError(self.reason, file=self.file, line=self.line))


class BadRowError(Exception):
    """A row is invalid; the message is the reason."""


def quote_value(value: object, max_length: int = 40) -> str:
    """A value of a file as quoted in messages: shortened, on one line."""
    if isinstance(value, str):
        return repr(value if len(value) <= max_length else value[: max_length - 1] + "…")
    return json.dumps(value, ensure_ascii=False, default=str)[:max_length]


def cell_text(value: Any, role: str = "text") -> str:
    if value is None:
        raise BadRowError(f"there is no {role}")
    if not isinstance(value, str):
        raise BadRowError(f"the {role} is {quote_value(value)}, which is no text")
    if not value or value.isspace():
        raise BadRowError(f"the {role} is empty")
    return value


class RowErrorPolicy:
    """Handles bad rows: the first one raises, or all are recorded and skipped."""

    def __init__(self, on_bad_rows: OnBadRows, rejected: list[RejectedRow], repaired: list[RejectedRow]) -> None:
        self.on_bad_rows, self.rejected, self.repaired = on_bad_rows, rejected, repaired
        self.first_error: RejectedRow | None = None
        self.file = ""

    def skip(self, line: int | None, reason: str, name: str | None = None) -> None:
        row = self._row(line, reason, name)
        if self.on_bad_rows == "fail":
            raise InputError(row.reason, file=self.file, line=line, hint=SKIP_HINT)
        self.first_error = self.first_error or row
        self.rejected.append(row)

    def repair(self, line: int | None, reason: str, name: str | None = None) -> None:
        self.repaired.append(self._row(line, reason, name))

    def _row(self, line: int | None, reason: str, name: str | None) -> RejectedRow:
        """The row for the records, identified by its id where there are no line numbers."""
        reason = f"{quote_value(name)}: {reason}" if line is None and name else reason
        return RejectedRow(self.file, line, reason, name)


@dataclass(frozen=True)
class LabeledReadOptions:
    """Reading options that are independent of the kind of file."""

    task: str
    file_format: LabeledFormat
    labels: LabelPolicy
    known_labels: frozenset[str] | None
    on_bad_bytes: OnBadBytes
    error_policy: RowErrorPolicy

    def open_blocks(self, source: SourceFile) -> TextBlocks:
        self.error_policy.file = source.name
        return TextBlocks(source, self.file_format.encoding, self.on_bad_bytes, Ledger())
