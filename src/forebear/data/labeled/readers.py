"""Readers of labeled files: TSV and CSV tables, word/tag lines, CoNLL columns, JSON objects, SQuAD."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from forebear.data.io.sources import SourceFile
from forebear.data.io.text_blocks import TextBlocks
from forebear.data.io.text_formats import is_column_number, numbered_lines, strip_bracket
from forebear.data.labeled.examples import Example, ExampleLocation, TaggedExample
from forebear.data.labeled.labeled_format import (
    ESCAPED_SURROGATE,
    BadRowError,
    ColumnRef,
    LabeledFormat,
    LabeledReadOptions,
    quote_value,
)
from forebear.data.labeled.row_to_example import example_builder, label_text, make_location, unknown_label_reason
from forebear.data.unicode import SURROGATES
from forebear.errors import InputError

MAX_RECORD_LINES = 10_000  # a quote that is not closed within as many lines is an error


def read_table(source: SourceFile, options: LabeledReadOptions) -> Iterator[Example]:
    """One example per row. Blank rows are skipped; a row with another number of cells is bad."""
    build_example, error_policy, file = example_builder(options), options.error_policy, source.name
    layout: _ColumnLayout | None = None
    blocks = options.open_blocks(source)
    # Tab-separated text is rarely quoted on purpose, and a stray quote would swallow the following rows.
    rows: Iterable[tuple[int, list[str] | str]] = (
        (line, text.split("\t")) for line, text, _ in numbered_lines(blocks) if text and not text.isspace()
    )
    if options.file_format.kind == "csv":
        rows = _read_csv_rows(blocks, options.file_format.delimiter)
    for line, row in rows:
        if not isinstance(row, list):
            error_policy.skip(line, row)
            continue
        if layout is None:
            layout = _ColumnLayout.from_first_row(row, options, file, line)
            if options.file_format.header:
                continue
        if len(row) != layout.width and (reason := layout.width_error(row)):
            error_policy.skip(line, reason)
            continue
        if row == layout.header:
            error_policy.skip(line, "the header stands here once more")
            continue
        row.append(None)  # pyright: ignore[reportArgumentType] - the value of absent columns
        values = layout.values(row)
        name = values[-1]
        try:
            yield build_example(values, make_location(file, line, name))
        except BadRowError as error:
            error_policy.skip(line, str(error), name)


def _read_csv_rows(blocks: TextBlocks, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """(line, cells) of every row that is not blank, or (line, error message)."""
    csv.field_size_limit(sys.maxsize)
    first_line = last_line = 0  # of the current record

    def unclosed_quote() -> InputError:
        message = "a quote that opens here is never closed"
        hint = "close it, or double the quotes that stand inside a quoted cell"
        return InputError(message, file=blocks.source.name, line=first_line, hint=hint)

    def lines() -> Iterator[str]:
        nonlocal last_line
        for last_line, line, ending in numbered_lines(blocks):
            if last_line - first_line > MAX_RECORD_LINES:
                raise unclosed_quote()
            yield line + ending

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        first_line = last_line + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error):  # the rest of the file was read as one cell
                raise unclosed_quote() from error
            yield first_line, f"not well-formed CSV: {error}"
            continue
        if any(cell and not cell.isspace() for cell in row):
            yield first_line, row


@dataclass(frozen=True)
class _ColumnLayout:
    """The positions of the columns with a role (text, label, …) in one file."""

    width: int
    header: list[str] | None
    values: itemgetter  # of a row with an extra None at its end, for absent columns
    may_lack_label: bool  # whether a row may end before the label, which is the last column

    @classmethod
    def from_first_row(cls, first_row: list[str], options: LabeledReadOptions, file: str, line: int) -> _ColumnLayout:
        file_format, needs_label = options.file_format, options.labels == "required"
        header = [cell.strip() for cell in first_row] if file_format.header else None
        width = len(first_row) if file_format.header else file_format.width or len(first_row)
        label, missing_column = file_format.label, 0  # the label column, if only that is missing: later ones shift left
        is_one_short = not file_format.header and not needs_label and len(first_row) == width - 1
        if is_one_short and isinstance(label, int) and label < width:
            missing_column = label
        indices: list[int] = []
        optional_columns = [None, file_format.start, file_format.name, *(() if needs_label else (label,))]
        for column in file_format.role_columns():
            index = -1  # absent
            if isinstance(column, int) and column <= width and column != missing_column:
                index = column - 1 - (0 < missing_column < column)
            elif header is not None and column in header:
                index = header.index(column)
            if index < 0 and column not in optional_columns:
                description = f"a row has {width}" if header is None else f"the header is: {' | '.join(header)[:200]}"
                reference = f"called {column!r}" if isinstance(column, str) else f"number {column}"
                hint = "all files of a task are written alike: mend the file, or name its columns"
                raise InputError(f"there is no column {reference}; {description}", file=file, line=line, hint=hint)
            indices.append(index)
        label_index = indices[-3]  # the last roles are label, start and name
        raw_header = first_row if file_format.header else None
        may_lack_label = label_index == width - 1 and not needs_label
        return cls(width - bool(missing_column), raw_header, itemgetter(*indices), may_lack_label)

    def width_error(self, row: list[str]) -> str:
        """Why a row of another width cannot be read; "" if only its label is missing, which is then filled in."""
        if self.may_lack_label and len(row) == self.width - 1:
            row.append("")
            return ""
        likely_cause = "a tab or delimiter inside a text" if len(row) > self.width else "a delimiter is missing"
        columns = f"{len(row)} column{'s' * (len(row) != 1)}"
        return f"the row has {columns}, {self.width} are expected (perhaps {likely_cause})"


# --- word/tag lines: `中国/ns 人民/n`, as in the People's Daily corpus ---

MAX_TAG_LENGTH = 20  # characters


def read_slash_tags(source: SourceFile, options: LabeledReadOptions) -> Iterator[Example]:
    """One example per line; blank lines are skipped."""
    for line, text, _ in numbered_lines(options.open_blocks(source)):
        if not text or text.isspace():
            continue
        try:
            if "\t" in text and is_in_columns(text):
                message = "this line has a word and its tag in columns, word/tag is expected"
                raise BadRowError(f"{message}: {quote_value(text)}")
            words, tags = parse_slash_tags(text)
            _, reason = _find_tag_error(words, tags, options, "word/tag is expected")
            if reason:
                raise BadRowError(reason)
            yield TaggedExample(words, _present_tags(tags, options), ExampleLocation(source.name, line))
        except BadRowError as error:
            options.error_policy.skip(line, str(error))


def parse_slash_tags(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words and tags of a line, "" for a missing tag; of [中央/n 电台/n]nt the inner words with their own tags."""
    words: list[str] = []
    tags: list[str] = []
    has_compounds, is_open = "[" in text, False
    for token in text.split():
        word, slash, tag = token.rpartition("/")
        if not slash:
            word, tag = token, ""
        elif has_compounds:
            word, tag, opens = strip_bracket(word, tag, is_open=is_open)
            is_open = (is_open or opens) and "]" not in tag
            tag = tag.partition("]")[0] or tag  # ] itself may be a tag
        if not word or (slash and not tag):
            raise BadRowError(f"{quote_value(token)} is not word/tag")
        words.append(word)
        tags.append(tag)
    return tuple(words), tuple(tags)


def _present_tags(tags: Sequence[str], options: LabeledReadOptions) -> tuple[str, ...] | None:
    """The tags of a sentence; None if labels are absent or optional and missing."""
    return None if options.labels == "absent" or (options.labels == "optional" and not any(tags)) else tuple(tags)


def _find_tag_error(
    words: Sequence[str], tags: Sequence[str], options: LabeledReadOptions, expected: str
) -> tuple[int, str]:
    """The index of the first word with an invalid tag, and the reason; (0, "") if all are valid."""
    for index, tag in enumerate(_present_tags(tags, options) or ()):
        if not tag:
            return index, f"word {index + 1} of the sentence, {quote_value(words[index])}, has no tag: {expected}"
        if options.known_labels is not None and tag not in options.known_labels:
            return index, unknown_label_reason(tag, options.known_labels, "tag")
    return 0, ""


def is_slash_tagged_line(line: str) -> bool:
    """Whether most tokens of a line are word/tag."""
    items = line.split()
    num_tagged = sum(not tag[0].isdecimal() for item in items if (tag := slash_tag(item)))
    return num_tagged > len(items) / 2 and not is_in_columns(line)


def is_in_columns(line: str) -> bool:
    """Whether a line is a word and its tag separated by a tab: no column after the first is word/tag."""
    return "\t" in line and not any(slash_tag(item) for item in line.split("\t")[1:])


def slash_tag(item: str) -> str:
    """The tag of a token `word/tag`; "" if it has another form."""
    word, _, tag = item.rpartition("/")
    return tag if word and len(tag) <= MAX_TAG_LENGTH else ""


# --- CoNLL: one word and tag per line, blank lines between sentences ---

DOCUMENT_MARKER = "-DOCSTART-"
# Only these separate columns: other white space, such as the full-width space, may itself be a word.
COLUMN_GAP = re.compile(r"[ \t]+")
CONLLU_RANGE = re.compile(r"\d+[-.]\d+")  # ids of CoNLL-U's multi-word tokens and empty nodes


def read_conll(source: SourceFile, options: LabeledReadOptions) -> Iterator[Example]:
    """One example per sentence; one bad line makes the whole sentence bad."""
    file_format, error_policy = options.file_format, options.error_policy
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    first_line, sentence_error = 0, None
    parse_line = _conll_line_parser(file_format)

    def finish_sentence() -> Iterator[Example]:
        nonlocal sentence_error
        if words and sentence_error is None:
            index, reason = _find_tag_error(words, tags, options, "a word and its tag are expected in each line")
            if reason:
                sentence_error = lines[index], reason
            else:
                location = ExampleLocation(source.name, first_line)
                yield TaggedExample(tuple(words), _present_tags(tags, options), location)
        if sentence_error is not None:
            error_policy.skip(*sentence_error)
            sentence_error = None
        for buffer in (words, tags, lines):
            buffer.clear()

    for line, text, _ in numbered_lines(options.open_blocks(source)):
        if not text or text.isspace():
            yield from finish_sentence()
            continue
        if not words:
            if file_format.comments and text[0] == "#" and "\t" not in text:
                continue
            first_line = line
        try:
            word, tag = parse_line(text)
        except BadRowError as error:
            sentence_error = sentence_error or (line, str(error))
            words.append("")  # marks that the sentence has started
            continue
        if word == DOCUMENT_MARKER:
            continue
        if word is not None:
            words.append(word)
            tags.append(tag)
            lines.append(line)
    yield from finish_sentence()


def _conll_line_parser(file_format: LabeledFormat) -> Callable[[str], tuple[str | None, str]]:
    """A function that parses a line to (word, tag) or raises BadRowError.

    The tag is "" if the line has only a word; the word is None if the line describes no word.
    """
    width, word_index = file_format.width, _column_index(file_format.texts[0])
    tag_index = _column_index(file_format.label) if file_format.label is not None else -1
    is_word_and_tag = width == 2 and word_index == 0 and tag_index == 1

    def parse(text: str) -> tuple[str | None, str]:
        if is_word_and_tag:  # the usual line, fast
            separator = "\t" if "\t" in text else " "
            cells = text.split(separator)
            if len(cells) == 2 and cells[0] and (separator == " " or " " not in text):
                return cells[0], cells[1]
        raw_cells = _split_conll_line(text, width)
        cells = [cell.strip(" ") for cell in raw_cells]
        if len(cells) == 1 and width > 1:
            return cells[0], ""
        if len(cells) > width and not any(cells[width:]):  # empty columns at the end
            del cells[width:]
        if len(cells) != width:
            message = f"the line has {len(cells)} columns, {width} are expected: {quote_value(text)}"
            if "\t" not in text and width == 2:
                message += " (words that hold spaces need tabs between the columns)"
            elif "\t" in text and " " in text and len(COLUMN_GAP.split(text.strip(" "))) == width:
                message += " (its spaces part no columns, as it has tabs)"
            raise BadRowError(message)
        if file_format.comments and CONLLU_RANGE.fullmatch(cells[0]) and word_index:
            return None, ""
        word = cells[word_index] or raw_cells[word_index]  # a word may be a space
        if not word:
            raise BadRowError(f"the line has no word: {quote_value(text)}")
        tag = cells[tag_index].strip() if tag_index >= 0 else ""
        if " " in tag:  # impossible if spaces separate columns
            message = f"the tag {quote_value(tag)} holds a space: {quote_value(text)}"
            raise BadRowError(f"{message} (only tabs part the columns of this line)")
        return word, tag

    return parse


def _split_conll_line(text: str, width: int) -> list[str]:
    """The columns of a line, separated by tabs, or by spaces if it has no tab."""
    if "\t" in text:
        return text.split("\t")
    cells = COLUMN_GAP.split(text.strip(" "))
    if len(cells) > 2 and is_slash_tagged_line(text):
        message = "this line is word/tag word/tag, a word and its tag are expected in columns"
        raise BadRowError(f"{message}: {quote_value(text)}")
    is_space_tagged = width == 2 and len(cells) == 1 and text.startswith("  ")  # the word itself is a space
    return [" ", *cells] if is_space_tagged else cells


def _column_index(column: ColumnRef) -> int:
    """The index of a column given by its number, counted from 1."""
    if isinstance(column, int) or (is_column_number(column) and column != "0"):
        return int(column) - 1
    raise InputError(f"no column of words and tags is called {column!r}", hint="give its number, counted from 1")


# --- JSON: one object per line, or an array of objects ---

JSON_WHITESPACE = re.compile(r"[ \t\n\r]*")
LONE_SURROGATE_MESSAGE = "an escape such as \\ud800 spells half a character"


def read_json(source: SourceFile, options: LabeledReadOptions) -> Iterator[Example]:
    """One example per object."""
    build_example, file_format = example_builder(options), options.file_format
    columns, records = file_format.role_columns(), json_lines if file_format.kind == "jsonl" else json_array_items
    for line, record in records(options.open_blocks(source)):
        name = None
        try:
            if isinstance(record, BrokenRecord):
                record = record.repair(options.on_bad_bytes)
            values = [json_field(record, column) for column in columns]
            name = None if values[-1] is None else label_text(values[-1])
            yield build_example(values, ExampleLocation(source.name, line, name))
        except BadRowError as error:
            options.error_policy.skip(line, str(error), name)


@dataclass(frozen=True)
class BrokenRecord:
    """An invalid record: not JSON, not an object, or with lone surrogates."""

    reason: str
    record: Any = None

    def repair(self, on_bad_bytes: str) -> Any:
        """The record with lone surrogates replaced or removed; raise BadRowError if it cannot be repaired."""
        if self.record is None:
            raise BadRowError(self.reason)
        return repair_surrogates(self.record, on_bad_bytes)


def has_surrogates(value: Any) -> bool:
    """Whether a JSON value contains lone surrogates, which only an escape can produce."""
    return SURROGATES.search(json.dumps(value, ensure_ascii=False)) is not None


def repair_surrogates(value: Any, on_bad_bytes: str) -> Any:
    """A JSON value with lone surrogates replaced or removed; raise BadRowError if `on_bad_bytes` is fail."""
    if on_bad_bytes == "fail":
        raise BadRowError(LONE_SURROGATE_MESSAGE)
    replacement = "\ufffd" if on_bad_bytes == "replace" else ""
    return json.loads(SURROGATES.sub(replacement, json.dumps(value, ensure_ascii=False)))


def json_lines(blocks: TextBlocks) -> Iterator[tuple[int, Any]]:
    """(line, object) of every line that is not blank; invalid ones are BrokenRecord."""
    for line, text, _ in numbered_lines(blocks):
        if not text or text.isspace():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            record = BrokenRecord(f"not a JSON value: {error}")
        yield line, _check_record(record, text)


def _check_record(record: Any, text: str) -> Any:
    if isinstance(record, BrokenRecord):
        return record
    if not isinstance(record, dict):
        return BrokenRecord(f"{quote_value(record)} is no JSON object")
    if ESCAPED_SURROGATE.search(text) and has_surrogates(record):
        return BrokenRecord(LONE_SURROGATE_MESSAGE, record)
    return record


def json_array_items(blocks: TextBlocks) -> Iterator[tuple[int, Any]]:
    """(line, object) of every element of a JSON array. The text is read as a whole; objects are parsed one by one."""
    text, file, decoder = "".join(blocks), blocks.source.name, json.JSONDecoder()
    position, line, counted_to = _skip_whitespace(text, 0), 1, 0

    def line_at(offset: int) -> int:
        nonlocal line, counted_to
        line, counted_to = line + text.count("\n", counted_to, offset), offset
        return line

    def array_error(message: str) -> InputError:
        hint = "an array of objects is expected: [{…}, {…}]"
        return InputError(message, file=file, line=line_at(position), hint=hint)

    if text[position : position + 1] != "[":
        raise array_error("not a JSON array")
    position = _skip_whitespace(text, position + 1)
    while text[position : position + 1] != "]":
        try:
            record, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise array_error(f"not a JSON value: {error}") from error
        yield line_at(position), _check_record(record, text[position:end])
        position = _skip_whitespace(text, end)
        if text[position : position + 1] == ",":
            position = _skip_whitespace(text, position + 1)
        elif text[position : position + 1] != "]":
            is_end = position == len(text)
            raise array_error("the array has no end" if is_end else "a comma is missing between two objects")
    if text[position + 1 :].strip():
        raise array_error("something stands behind the end of the array")


def _skip_whitespace(text: str, position: int) -> int:
    match = JSON_WHITESPACE.match(text, position)
    return match.end() if match else position


def json_field(record: dict[str, Any], column: ColumnRef | None) -> Any:
    """The value of a field, possibly nested (`answer.text`); None if absent."""
    if column in record:
        return record[column]
    if not isinstance(column, str) or "." not in column:
        return None
    value: Any = record
    for key in column.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


# --- SQuAD's JSON (1.1 and 2.0), also used by CMRC 2018 and others ---

SQUAD_HINT = 'SQuAD\'s form is expected: {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'


def read_squad(source: SourceFile, options: LabeledReadOptions) -> Iterator[Example]:
    """All questions in order. Errors name the question id, as JSON has no meaningful lines."""
    text = "".join(options.open_blocks(source))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise InputError(f"not JSON: {error}", file=source.name, line=line, hint=SQUAD_HINT) from error
    has_surrogate_escapes = ESCAPED_SURROGATE.search(text) is not None
    del text
    build_example = example_builder(options)
    for passage, question in _iter_questions(content, source.name):
        name = str(question["id"]) if question.get("id") is not None else None
        answers = question.get("answers")
        if question.get("is_impossible") is True:
            answers = []
        elif answers == [] and "is_impossible" not in question and options.labels == "optional":
            answers = None  # test files of SQuAD 1.1 have an empty list and no `is_impossible`
        try:
            values = [question.get("question"), passage, answers, None]
            if has_surrogate_escapes and has_surrogates(values):
                values = repair_surrogates(values, options.on_bad_bytes)
            yield build_example(values, ExampleLocation(source.name, None, name))
        except BadRowError as error:
            options.error_policy.skip(None, str(error), name)


def _iter_questions(content: Any, file: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(passage, question with its answers); raise InputError unless the JSON is in SQuAD's format."""

    def require_type(value: Any, expected_type: type, description: str) -> Any:
        if not isinstance(value, expected_type):
            raise InputError(f"{description} is {quote_value(value)}, not as in SQuAD", file=file, hint=SQUAD_HINT)
        return value

    articles = require_type(content, dict, "the whole").get("data") if not isinstance(content, list) else content
    for article in require_type(articles, list, "data"):
        for paragraph in require_type(require_type(article, dict, "an article").get("paragraphs"), list, "paragraphs"):
            passage = require_type(paragraph, dict, "a paragraph").get("context")
            for question in require_type(paragraph.get("qas"), list, "qas"):
                yield passage, require_type(question, dict, "a question")
