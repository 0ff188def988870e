"""How an unknown file of labelled data is written, and for which task: guessed from its first rows, and told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from forebear.data.io.files import OnBadBytes, Paths, find_sources
from forebear.data.labeled.assigning import assign_columns
from forebear.data.labeled.columns import ColumnSample, is_header
from forebear.data.labeled.readers import BrokenRecord, json_array_items, json_field, json_lines
from forebear.data.labeled.recognising import ABOUT, FileHead, sentence_blocks, split_cells
from forebear.data.labeled.roles import ColumnHints
from forebear.data.labeled.row_to_example import LABELED_FORMATS, ONLY_FOR, TASKS, LabeledFileKind, LabeledFormat
from forebear.errors import InputError

ROWS = 1000  # that are looked at: of hundreds of classes, few rows show each only once
TAGGED_FORMAT_HELP = "give a sentence a line, word/tag word/tag, or a word and its tag a line"
BETWEEN = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}


class FormatGuess(NamedTuple):
    """The task, how the file is written, and what was guessed, in sentences for people."""

    task: str
    file_format: LabeledFormat
    notes: list[str]


def detect_format(
    paths: Paths,
    task: str | None = None,
    *,
    text_columns: Sequence[str | int] = (),
    label_column: str | int | None = None,
    choice_columns: Sequence[str | int] = (),
    several: bool | str = False,
    number: bool | None = None,
    header: bool | None = None,
    kind: LabeledFileKind | None = None,
    encoding: str = "utf-8",
    on_bad_bytes: OnBadBytes = "fail",
) -> FormatGuess:
    """Looks at the first rows of the first file.

    text_columns   by name or by number from 1: the text, both texts, question and passage, or the words
    label_column   of the label, the answer, the right choice, or the tags
    several        whether a row may have several labels, or what stands between them ("|")
    number         whether labels are numbers; None: if they have decimals
    header         whether the first row names the columns; None: if it looks so
    kind           of file; None: as it looks
    """
    if task is not None and task not in TASKS:
        raise InputError(f"no task is called {task!r}", hint=f"choose one of {', '.join(TASKS)}")
    if kind is not None and kind not in LABELED_FORMATS:
        raise InputError(f"no kind of file is called {kind!r}", hint=f"choose one of {', '.join(LABELED_FORMATS)}")
    head = FileHead.read(next(find_sources(paths)), encoding, on_bad_bytes)
    looks, delimiter = (
        head.detect_kind(task) if kind is None else (kind, head.as_table(is_csv=True)[1] if kind == "csv" else "")
    )
    only = ONLY_FOR.get(looks)
    if task is not None and only not in (None, task):
        hint = f"the likely task is {only}: --task {only}"
        raise InputError(
            f"this looks like {LABELED_FORMATS[looks]}, which is not for {task}", file=head.source.name, hint=hint
        )
    texts, choices = tuple(text_columns), tuple(choice_columns)
    asking = ColumnHints(head.source.name, task, texts, label_column, choices, several, number)
    form = LabeledFormat(looks, encoding=encoding)
    if looks == "squad":
        return FormatGuess("answering", form, [LABELED_FORMATS["squad"]])
    if looks == "tagged":
        return _slashed(head, form)
    if looks == "conll":
        if kind is None and head.is_prose and any(len(split_cells(line)) > 1 for line in head.first_lines):
            raise InputError(
                "this looks like plain text, whose words have no tags", file=head.source.name, hint=TAGGED_FORMAT_HELP
            )
        return _words_and_tags(head, asking, form)
    if looks in ("json", "jsonl"):
        return _fields(head, asking, form)
    return _table(head, asking, replace(form, delimiter=delimiter) if looks == "csv" else form, header)


def format_like(path: str, form: LabeledFormat) -> LabeledFormat:
    """How one more file is written: as the one before, unless its words plainly have their tags in the other way."""
    if form.kind not in ("conll", "tagged"):
        return form
    head = FileHead.read(next(find_sources(path)), form.encoding, "replace")
    looks = head.tag_columns() or ("conll" if head.is_named_so else None)
    return (
        form
        if looks in (None, form.kind)
        else detect_format(path, "tagging", kind=looks, encoding=form.encoding).file_format
    )


def _words_and_tags(head: FileHead, asking: ColumnHints, form: LabeledFormat) -> FormatGuess:
    groups = sentence_blocks(head.first_lines)
    comments = any(ABOUT.match(group[0]) for group in groups)
    rows = [split_cells(line) for group in groups for line in group if not (comments and ABOUT.match(line))]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 1
    is_universal = width == 10 and all(re.fullmatch(r"\d+(?:[-.]\d+)?", row[0]) for row in rows if len(row) == width)
    word = asking.locate(asking.texts[0] if asking.texts else 2 if is_universal else 1, width)
    usual = asking.label if asking.label is not None else 4 if is_universal else width
    tag = asking.locate(usual, width) if width > 1 else None
    form = replace(form, texts=(word,), label=tag, width=width, comments=comments or is_universal)
    about = f"{'CoNLL-U' if is_universal else LABELED_FORMATS['conll']}: column {word} is the word"
    if tag is None:
        return FormatGuess("tagging", form, [f"{about}, there are no tags"])
    kinds = Counter(row[tag - 1].strip() for row in rows if len(row) == width)
    return FormatGuess("tagging", form, [f"{about}, column {tag} the tag ({_told_tags(kinds)})"])


def _slashed(head: FileHead, form: LabeledFormat) -> FormatGuess:
    kinds: Counter[str] = Counter()
    for item in (item for line in head.first_lines for item in line.split()):
        _, slash, tag = item.rpartition("/")
        kinds.update([tag.partition("]")[0]] if slash else [])
    about = f"{LABELED_FORMATS['tagged']}: {_told_tags(kinds)}"
    return FormatGuess("tagging", replace(form, texts=(1,), label=2, width=2), [about])


def _told_tags(kinds: Counter[str]) -> str:
    shown = ", ".join(sorted(kinds)[:12]) + (", …" if len(kinds) > 12 else "")
    return f"{len(kinds)} tag{'s' * (len(kinds) != 1)} among the first {kinds.total():,} words: {shown}"


def _fields(head: FileHead, asking: ColumnHints, form: LabeledFormat) -> FormatGuess:
    """The fields of the first objects, and the fields inside those."""
    given = json_lines(head.blocks) if form.kind == "jsonl" else json_array_items(head.blocks)
    found: list[dict[str, Any]] = []
    for line, record in islice(given, ROWS):
        if not isinstance(record, BrokenRecord):
            found.append(record)
        elif not found and record.record is None:
            raise InputError(record.reason, file=head.source.name, line=line, hint="JSON objects are expected")
    names = list(dict.fromkeys(name for record in found for name in record))
    for outer in tuple(names):
        inner = [value for record in found if isinstance(value := record.get(outer), dict)]
        names += dict.fromkeys(f"{outer}.{name}" for value in inner for name in value)
    if not names:
        raise InputError("its objects have no fields", file=head.source.name, hint='write {"text": …, "label": …}')
    columns = [ColumnSample(name, tuple(json_field(record, name) for record in found)) for name in names]
    task, form, notes = assign_columns(columns, asking, form)
    return FormatGuess(task, form, [f"{LABELED_FORMATS[form.kind]}: {notes[0]}", *notes[1:]])


def _table(head: FileHead, asking: ColumnHints, form: LabeledFormat, header: bool | None) -> FormatGuess:
    file = head.source.name
    if form.kind == "csv":
        rows = head.split_rows(form.delimiter)[: ROWS + 1]
    else:
        rows = [line.split("\t") for line in head.first_lines if line and not line.isspace()][: ROWS + 1]
    named = is_header(rows[0], rows[1:]) if header is None else header
    first, below = rows[0], rows[1:] if named else rows[:ROWS]
    if named and not below:
        raise InputError("there is a header, and no row below it", file=file, hint="name a file with examples in it")
    width = len(first) if named else Counter(map(len, rows)).most_common(1)[0][0]
    below = [row for row in below if len(row) == width]
    names: list[str | int] = [cell.strip() for cell in first] if named else [*range(1, width + 1)]
    columns = [ColumnSample(name, tuple(row[place] for row in below)) for place, name in enumerate(names)]
    form = replace(form, header=named, width=0 if named else width)
    task, form, notes = assign_columns(columns, asking, form)
    between = BETWEEN.get("\t" if form.kind == "tsv" else form.delimiter, repr(form.delimiter))
    about = f"a table separated by {between}, {'with a' if named else 'no'} header"
    return FormatGuess(task, form, [f"{about}; {notes[0]}", *notes[1:]])
