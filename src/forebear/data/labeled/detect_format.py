"""Format detection for labeled files: the file kind, the task and the columns, from the first rows."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from forebear.data.io.sources import Paths, SourceFile, find_sources
from forebear.data.io.text_blocks import OnBadBytes, TextBlocks
from forebear.data.io.text_ledger import Ledger
from forebear.data.labeled.columns import MAX_NAMES, Column, FormatGuess, RequestedColumns, assign_columns, is_header
from forebear.data.labeled.labeled_format import LABELED_FORMATS, ONLY_TASK, TASKS, LabeledFileKind, LabeledFormat
from forebear.data.labeled.readers import (
    COLUMN_GAP,
    DOCUMENT_MARKER,
    BrokenRecord,
    is_slash_tagged_line,
    json_array_items,
    json_field,
    json_lines,
    slash_tag,
)
from forebear.errors import InputError, list_names

MAX_ROWS = 1000  # rows examined; with hundreds of classes, fewer rows show each class only once
TAGGED_FORMAT_HELP = "give a sentence a line, word/tag word/tag, or a word and its tag a line"
DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
MAX_LINES = 2000  # lines examined; with one word per line these are only a few sentences
MAX_CHARACTERS = 1 << 23  # characters examined
ENTITY_TAG = re.compile(r"O|[BIESLUM](?:[-_]\S+)?")
COMMENT = re.compile(r"#\s*(?:id\b|\S+\s*=|$)")  # a comment line before a sentence
DELIMITERS = (",", ";", "|")
CONLL_SUFFIX = re.compile(r"\.(?:conllu?|bio|iob|bmes)(?:\.gz|\.zst)?$")  # files with one word and tag per line
MIN_REGULAR_FRACTION = 0.9  # of the lines of a CoNLL file have the same width
MIN_TAGGED_FRACTION = 0.75  # the same if their tags are unmistakable; of the tokens of a word/tag file; rest: errors
MAX_DISTINCT_TAGS = 500


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
    """Detect task, format and columns from the first rows of the first file.

    Args:
        task: Task to detect columns for; None detects the task.
        text_columns: Names or numbers (from 1) of the text, both texts, question and passage, or the words.
        label_column: Column of the label, the answer, the right choice, or the tags.
        choice_columns: Columns of the choices, or the one that holds a list of them.
        several: Whether a row may have several labels, or the separator between them ("|").
        number: Whether labels are numbers; None: if they have decimals.
        header: Whether the first row names the columns; None detects it.
        kind: Kind of file; None detects it.
    """
    if task is not None and task not in TASKS:
        raise InputError(f"no task is called {task!r}", hint=f"choose one of {', '.join(TASKS)}")
    if kind is not None and kind not in LABELED_FORMATS:
        raise InputError(f"no kind of file is called {kind!r}", hint=f"choose one of {', '.join(LABELED_FORMATS)}")
    head = FileHead.read(next(find_sources(paths)), encoding, on_bad_bytes)
    file = head.source.name
    detected_kind, delimiter = head.detect_kind(task) if kind is None else (kind, "")
    if kind == "csv":
        delimiter = head.as_table(is_csv=True)[1]
    only_task = ONLY_TASK.get(detected_kind)
    if task is not None and only_task not in (None, task):
        message = f"this looks like {LABELED_FORMATS[detected_kind]}, which is not for {task}"
        raise InputError(message, file=file, hint=f"the likely task is {only_task}: --task {only_task}")
    requested = RequestedColumns(file, task, tuple(text_columns), label_column, tuple(choice_columns), several, number)
    file_format = LabeledFormat(detected_kind, encoding=encoding)
    if detected_kind == "squad":
        return FormatGuess("answering", file_format, [LABELED_FORMATS["squad"]])
    if detected_kind == "tagged":
        parts = (token.rpartition("/") for line in head.first_lines for token in line.split())
        tags = _describe_tags(Counter(tag.partition("]")[0] for _, slash, tag in parts if slash))
        file_format = replace(file_format, texts=(1,), label=2, width=2)
        return FormatGuess("tagging", file_format, [f"{LABELED_FORMATS['tagged']}: {tags}"])
    if detected_kind == "conll":
        if kind is None and head.is_prose and any(len(split_cells(line)) > 1 for line in head.first_lines):
            message = "this looks like plain text, whose words have no tags"
            raise InputError(message, file=file, hint=TAGGED_FORMAT_HELP)
        return _detect_conll(head, requested, file_format)
    if detected_kind in ("json", "jsonl"):
        return _detect_json_fields(head, requested, file_format)
    if detected_kind == "csv":
        file_format = replace(file_format, delimiter=delimiter)
    return _detect_table(head, requested, file_format, header)


def format_like(path: str, file_format: LabeledFormat) -> LabeledFormat:
    """The format of another file: the same, unless its tags are clearly in the other notation (CoNLL or word/tag)."""
    if file_format.kind not in ("conll", "tagged"):
        return file_format
    head = FileHead.read(next(find_sources(path)), file_format.encoding, "replace")
    detected_kind = head.tag_columns() or ("conll" if head.has_conll_suffix else None)
    if detected_kind in (None, file_format.kind):
        return file_format
    return detect_format(path, "tagging", kind=detected_kind, encoding=file_format.encoding).file_format


def _detect_conll(head: FileHead, requested: RequestedColumns, file_format: LabeledFormat) -> FormatGuess:
    blocks = sentence_blocks(head.first_lines)
    has_comments = any(COMMENT.match(block[0]) for block in blocks)
    rows = [split_cells(line) for group in blocks for line in group if not (has_comments and COMMENT.match(line))]
    width, _ = common_width(rows)
    is_universal = width == 10 and all(re.fullmatch(r"\d+(?:[-.]\d+)?", row[0]) for row in rows if len(row) == width)
    word = requested.locate(requested.text_columns[0] if requested.text_columns else 2 if is_universal else 1, width)
    label_column = requested.label_column if requested.label_column is not None else 4 if is_universal else width
    tag = requested.locate(label_column, width) if width > 1 else None
    file_format = replace(file_format, texts=(word,), label=tag, width=width, comments=has_comments or is_universal)
    description = f"{'CoNLL-U' if is_universal else LABELED_FORMATS['conll']}: column {word} is the word"
    if tag is None:
        return FormatGuess("tagging", file_format, [f"{description}, there are no tags"])
    tag_counts = Counter(row[tag - 1].strip() for row in rows if len(row) == width)
    return FormatGuess("tagging", file_format, [f"{description}, column {tag} the tag ({_describe_tags(tag_counts)})"])


def _describe_tags(tag_counts: Counter[str]) -> str:
    count = f"{len(tag_counts)} tag{'s' * (len(tag_counts) != 1)}"
    return f"{count} among the first {tag_counts.total():,} words: {list_names(sorted(tag_counts), MAX_NAMES)}"


def _detect_json_fields(head: FileHead, requested: RequestedColumns, file_format: LabeledFormat) -> FormatGuess:
    """Detect columns from the fields of the first JSON objects, nested fields included."""
    records = json_lines(head.blocks) if file_format.kind == "jsonl" else json_array_items(head.blocks)
    objects: list[dict[str, Any]] = []
    for line, record in islice(records, MAX_ROWS):
        if not isinstance(record, BrokenRecord):
            objects.append(record)
        elif not objects and record.record is None:
            raise InputError(record.reason, file=head.source.name, line=line, hint="JSON objects are expected")
    names = list(dict.fromkeys(name for record in objects for name in record))
    for field in tuple(names):
        inner = [value for record in objects if isinstance(value := record.get(field), dict)]
        names += dict.fromkeys(f"{field}.{name}" for value in inner for name in value)
    if not names:
        raise InputError("its objects have no fields", file=head.source.name, hint='write {"text": …, "label": …}')
    columns = [Column(name, tuple(json_field(record, name) for record in objects)) for name in names]
    return assign_columns(columns, requested, file_format).with_prefix(f"{LABELED_FORMATS[file_format.kind]}: ")


def _detect_table(
    head: FileHead, requested: RequestedColumns, file_format: LabeledFormat, header: bool | None
) -> FormatGuess:
    file = head.source.name
    if file_format.kind == "csv":
        rows = head.split_rows(file_format.delimiter)[: MAX_ROWS + 1]
    else:
        rows = [line.split("\t") for line in head.filled_lines][: MAX_ROWS + 1]
    has_header = is_header(rows[0], rows[1:]) if header is None else header
    first_row, data_rows = rows[0], rows[1:] if has_header else rows[:MAX_ROWS]
    if has_header and not data_rows:
        raise InputError("there is a header, and no row below it", file=file, hint="name a file with examples in it")
    width = len(first_row) if has_header else common_width(rows)[0]
    data_rows = [row for row in data_rows if len(row) == width]
    names: list[str | int] = [cell.strip() for cell in first_row] if has_header else [*range(1, width + 1)]
    columns = [Column(name, tuple(row[index] for row in data_rows)) for index, name in enumerate(names)]
    file_format = replace(file_format, header=has_header, width=0 if has_header else width)
    delimiter = "\t" if file_format.kind == "tsv" else file_format.delimiter
    delimiter_name = DELIMITER_NAMES.get(delimiter, repr(delimiter))
    description = f"a table separated by {delimiter_name}, {'with a' if has_header else 'no'} header"
    return assign_columns(columns, requested, file_format).with_prefix(f"{description}; ")


# --- The beginning of a file, and the kind of file ---


@dataclass(frozen=True)
class FileHead:
    source: SourceFile
    text: str
    is_complete: bool
    blocks: TextBlocks

    @classmethod
    def read(cls, source: SourceFile, encoding: str, on_bad_bytes: OnBadBytes) -> FileHead:
        blocks = TextBlocks(source, encoding, on_bad_bytes, Ledger())
        text, is_complete = "", True
        for block in blocks:
            if text.count("\n") > MAX_LINES or len(text) > MAX_CHARACTERS:
                is_complete = False
                break
            text += block
        if not text or text.isspace():
            raise InputError("the file holds nothing", file=source.name, hint="name a file with examples in it")
        if text.count("\0") > len(text) / 10:
            hint = "if it is text at all, name its --encoding, such as utf-16-le"
            raise InputError("many characters of it are NUL", file=source.name, hint=hint)
        return cls(source, text, is_complete, blocks)

    @property
    def first_lines(self) -> list[str]:
        """The first lines, without a truncated last one."""
        lines = self.text.split("\n")
        return lines[:MAX_LINES] if self.is_complete or len(lines) == 1 else lines[: min(MAX_LINES, len(lines) - 1)]

    @property
    def filled_lines(self) -> list[str]:
        return [line for line in self.first_lines if line and not line.isspace()]

    def detect_kind(self, task: str | None) -> tuple[LabeledFileKind, str]:
        """The kind of file, and the delimiter of a table."""
        start = self.text.lstrip()
        if re.match(r'\[\s*\{|\{\s*["}]', start):
            return self._json_kind(start), ""
        if tag_kind := self.tag_columns():
            return tag_kind, ""
        if task == "tagging" or (task is None and self.has_conll_suffix):  # an invalid line is reported by the reader
            is_slashed = list(map(is_slash_tagged_line, self.filled_lines))
            return "tagged" if not self.has_conll_suffix and 2 * sum(is_slashed) >= len(is_slashed) else "conll", ""
        return self.as_table()

    @property
    def has_conll_suffix(self) -> bool:
        """Whether the file extension is one of files with one word and tag per line."""
        return CONLL_SUFFIX.search(self.source.name.lower()) is not None

    def tag_columns(self) -> LabeledFileKind | None:
        """How words are tagged, if the file is unmistakably tagged."""
        return "tagged" if is_slash_tagged(self.first_lines) else "conll" if is_conll(self.first_lines) else None

    @property
    def is_prose(self) -> bool:
        """Whether lines that should hold one word and tag each look like plain text."""
        lines = [line for block in sentence_blocks(self.first_lines) for line in block if not COMMENT.match(line)]
        rows = [split_cells(line) for line in lines]
        width, count = common_width(rows)
        if width == 1 or 2 * count <= len(rows):
            return True
        last_cells = {row[-1] for row in rows if len(row) == width}
        has_tags = 2 * len(last_cells) <= count or 2 * sum("\t" in line for line in lines) > len(lines)
        return count < MIN_REGULAR_FRACTION * len(rows) and not has_tags

    def _json_kind(self, start: str) -> LabeledFileKind:
        first = start.partition("\n")[0]
        try:
            first_value = json.loads(first)
        except (ValueError, RecursionError):
            first_value = None
        is_object = isinstance(first_value, dict)
        if is_squad(first_value) or (not is_object and re.search(r'"(?:paragraphs|qas)"\s*:', start)):
            return "squad"
        if is_object or (start[0] == "{" and "\n{" in start):  # an invalid line is reported by the reader
            return "jsonl"
        if start[0] == "[":
            return "json"
        hint = "one object a line, an array of objects, or SQuAD's form is understood"
        raise InputError("this JSON is of a form that is not known", file=self.source.name, hint=hint)

    def as_table(self, *, is_csv: bool = False) -> tuple[LabeledFileKind, str]:
        """The kind of table (CSV if its quotes follow the CSV rules), and its delimiter."""
        lines = self.filled_lines
        is_named = is_csv or re.search(r"\.csv(?:\.gz|\.zst)?$", self.source.name.lower()) is not None
        tab_counts = Counter(line.count("\t") for line in lines)
        if tab_counts[0] < len(lines):
            if tab_counts[0] == 0 and max(tab_counts.values()) >= 0.95 * len(lines):
                return ("csv", "\t") if _has_csv_quotes(line.split("\t") for line in lines) else ("tsv", "\t")
            if len({*map(len, self.split_rows("\t", strict=True)), 1}) == 2 and any('"' in line for line in lines):
                return "csv", "\t"  # its quoted cells hold tabs or newlines
            if tab_counts[0] < (0.1 if is_named else 0.5) * len(lines):
                return "tsv", "\t"
        best_delimiter, best_fraction = "", 0.0
        for delimiter in DELIMITERS:
            rows = self.split_rows(delimiter)
            width, count = common_width(rows)
            if width < 2 or count / len(rows) <= best_fraction:
                continue
            # A table rather than prose with commas has a header, or equally many columns in five or more rows.
            if is_named or is_header(rows[0], rows[1:]) or len(rows) == count >= 5:
                best_delimiter, best_fraction = delimiter, count / len(rows)
        return ("csv", best_delimiter or ",") if is_named or best_fraction >= 0.9 else ("tsv", "\t")

    def split_rows(self, delimiter: str, *, strict: bool = False) -> list[list[str]]:
        """The first records of a CSV table, without a truncated last one; none if `strict` and one is malformed."""
        csv.field_size_limit(sys.maxsize)
        reader = csv.reader((line + "\n" for line in self.first_lines), delimiter=delimiter, strict=strict)
        rows: list[list[str]] = []
        try:
            rows.extend(row for row in reader if any(row))
        except csv.Error as error:
            return rows if not self.is_complete and "end of data" in str(error) else []
        return rows if self.is_complete or strict or len(rows) == 1 else rows[:-1]


def _has_csv_quotes(rows: Iterator[list[str]]) -> bool:
    """Whether quotes in a tab-separated table follow the CSV rules: all well-formed and some doubled."""
    has_doubled = False
    for cell in (cell for row in rows for cell in row if '"' in cell):
        content = cell[1:-1].replace('""', "")
        if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"' or '"' in content:
            return False
        has_doubled = has_doubled or '""' in cell[1:-1]
    return has_doubled


def common_width(rows: list[list[str]]) -> tuple[int, int]:
    """The most frequent number of columns, and the number of rows that have it."""
    return Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)


def split_cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else COLUMN_GAP.split(line.strip(" "))


def sentence_blocks(lines: list[str]) -> list[list[str]]:
    """Blocks of lines between blank lines, without document markers."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.isspace() or not line:
            blocks.append([])
        elif not line.startswith(DOCUMENT_MARKER):
            blocks[-1].append(line)
    return [block for block in blocks if block]


def is_conll(lines: list[str]) -> bool:
    """Whether lines are CoNLL: equally many short columns, the last one O, B-… and the like, or blank lines between."""
    blocks = sentence_blocks(lines)
    rows = [split_cells(line) for block in blocks for line in block if not COMMENT.match(line)]
    width, count = common_width(rows)
    if width < 2 or count < MIN_TAGGED_FRACTION * len(rows):
        return False
    is_regular, rows = count >= MIN_REGULAR_FRACTION * len(rows), [row for row in rows if len(row) == width]
    last_cells = Counter(row[-1].strip() for row in rows)
    if sum(" " in row[0].strip() for row in rows) > 0.02 * len(rows):
        return False
    num_tags = sum(count for tag, count in last_cells.items() if ENTITY_TAG.fullmatch(tag))
    if num_tags > 0.98 * len(rows) and ("O" in last_cells or len(blocks) > 1 or any("-" in tag for tag in last_cells)):
        return True
    if not (is_regular and len(blocks) > 1 and len(rows) > 2 * len(blocks)):  # no sentences
        return False
    words_recur = len({row[0] for row in rows}) <= 0.8 * len(rows)  # texts rarely do
    are_short = sum(len(row[0]) for row in rows) <= 15 * len(rows) and not any(" " in "".join(row) for row in rows)
    return words_recur and are_short and len(last_cells) <= min(100, len(rows) / 2) and max(map(len, last_cells)) <= 20


def is_slash_tagged(lines: Sequence[str]) -> bool:
    """Whether most tokens between spaces are word/tag, with few distinct, recurring tags."""
    tokens = [token for line in lines for token in line.split()]
    tags, count = Counter(tag for token in tokens if (tag := slash_tag(token))), len(tokens)
    if not count or tags.total() < MIN_TAGGED_FRACTION * count:
        return False
    num_tags = sum(tag_count for tag, tag_count in tags.items() if not tag[0].isdecimal())  # dates are not tags
    return num_tags > count / 2 and len(tags) <= max(2, min(MAX_DISTINCT_TAGS, 0.8 * count))


def is_squad(content: Any) -> bool:
    """Whether a JSON value is in SQuAD's format, judged by its first article."""
    articles = content.get("data") if isinstance(content, dict) else content
    first = articles[0] if isinstance(articles, list) and articles else None
    return isinstance(first, dict) and "paragraphs" in first
