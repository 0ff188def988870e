"""Tables with one example a row: separated by tabs and taken as they stand, or CSV with its quotes."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from forebear.data.io.files import SourceFile, TextBlocks
from forebear.data.io.reader import SURROGATES, numbered_lines, strip_bracket
from forebear.data.labeled.examples import Example, ExampleLocation, TaggedExample
from forebear.data.labeled.row_to_example import (
    ESCAPED_SURROGATE,
    BadRowError,
    ColumnRef,
    LabeledFormat,
    LabeledReadOptions,
    example_builder,
    label_text,
    make_location,
    shorten_value,
)
from forebear.errors import InputError

LONGEST_RECORD = 10_000  # lines; a quote that stays open for longer was none
UNCLOSED = "a quote that opens here is never closed"


def read_table(source: SourceFile, wanted: LabeledReadOptions) -> Iterator[Example]:
    """One example a row. Blank lines and rows of empty cells are nothing, a row of another width is bad."""
    blocks, make, faults, file = wanted.open_blocks(source), example_builder(wanted), wanted.error_policy, source.name
    plan: _ColumnPlan | None = None
    for line, row in rows(blocks, wanted.file_format):
        if not isinstance(row, list):
            faults.skip(line, row)
            continue
        if plan is None:
            plan = _ColumnPlan.of(row, wanted, file, line)
            if wanted.file_format.header:
                continue
        if len(row) != plan.width and (reason := plan.misfit(row)):
            faults.skip(line, reason)
            continue
        if row == plan.header:
            faults.skip(line, "the header stands here once more")
            continue
        row.append(None)  # pyright: ignore[reportArgumentType] - the value of every column that is not there
        values = plan.values(row)
        name = values[-1]
        try:
            yield make(values, make_location(file, line, name))
        except BadRowError as bad:
            faults.skip(line, str(bad), name)


def rows(blocks: TextBlocks, form: LabeledFormat) -> Iterator[tuple[int, list[str] | str]]:
    """(line, cells) of every row that is not blank, or (line, what is wrong with it)."""
    if form.kind == "csv":
        yield from _read_csv_rows(blocks, form.delimiter)
        return
    # Tab-separated text is seldom quoted on purpose, and a stray quote would swallow what follows.
    for line, text, _ in numbered_lines(blocks):
        if text and not text.isspace():
            yield line, text.split("\t")


def _read_csv_rows(blocks: TextBlocks, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    csv.field_size_limit(sys.maxsize)
    begin = end = 0  # lines of the record at hand

    def lines() -> Iterator[str]:
        nonlocal end
        for end, line, ending in numbered_lines(blocks):
            if end - begin > LONGEST_RECORD:
                raise _unclosed_quote_error(blocks, begin)
            yield line + ending

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        begin = end + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(
                error
            ):  # the rest of the file was taken for one cell: there is nothing to go on with
                raise _unclosed_quote_error(blocks, begin) from error
            yield begin, f"not well-formed CSV: {error}"
            continue
        if any(cell and not cell.isspace() for cell in row):
            yield begin, row


def _unclosed_quote_error(blocks: TextBlocks, line: int) -> InputError:
    hint = "close it, or double the quotes that stand inside a quoted cell"
    return InputError(UNCLOSED, file=blocks.source.name, line=line, hint=hint)


@dataclass(frozen=True)
class _ColumnPlan:
    """Where the columns of one file are."""

    width: int
    header: list[str] | None
    values: itemgetter  # of a row behind whose last cell stands None, for the columns that are not there
    may_lack_label: bool  # at the end of a row

    @classmethod
    def of(cls, first: list[str], wanted: LabeledReadOptions, file: str, line: int) -> _ColumnPlan:
        form, is_wanted = wanted.file_format, wanted.labels == "wanted"
        header = [cell.strip() for cell in first] if form.header else None
        width = len(first) if form.header else form.width or len(first)
        gap = 0  # the column of labels, if that and nothing else is missing: what stood behind it moves forward
        if not form.header and not is_wanted and isinstance(form.label, int) and len(first) == width - 1:
            gap = form.label if form.label < width else 0
        places: list[int] = []
        for column in form.column_count():
            place = _column_index(column, header, width, gap)
            is_free = column is None or column in (form.start, form.name) or (column == form.label and not is_wanted)
            if place is None and not is_free:
                raise _missing_column_error(column, header, width, file, line)
            places.append(-1 if place is None else place)
        label = places[-3]
        return cls(
            width - bool(gap), first if form.header else None, itemgetter(*places), label == width - 1 and not is_wanted
        )

    def misfit(self, row: list[str]) -> str:
        """Why a row of another width cannot be read; nothing where it can, and is made as wide."""
        if self.may_lack_label and len(row) == self.width - 1:
            row.append("")
            return ""
        likely = "a tab or delimiter inside a text" if len(row) > self.width else "a delimiter is missing"
        return f"the row has {len(row)} column{'s' * (len(row) != 1)}, {self.width} are expected (perhaps {likely})"


def _column_index(column: ColumnRef | None, header: list[str] | None, width: int, gap: int) -> int | None:
    """The index of a column in this file, if it is there."""
    if isinstance(column, int):
        return column - 1 - (0 < gap < column) if column <= width and column != gap else None
    return header.index(column) if header is not None and column in header else None


def _missing_column_error(column: ColumnRef | None, header: list[str] | None, width: int, file: str, line: int) -> InputError:
    there = f"a row has {width}" if header is None else f"the header is: {' | '.join(header)[:200]}"
    called = f"called {column!r}" if isinstance(column, str) else f"number {column}"
    hint = "all files of a task are written alike: mend the file, or name its columns"
    return InputError(f"there is no column {called}; {there}", file=file, line=line, hint=hint)


# Sentences, one a line, whose words have their tags behind a slash: `中国/ns 人民/n`, as in the People's Daily.


MOSTLY = 0.75  # of what stands between spaces is word/tag, in a file of such: a small one may have its faults
LONGEST_TAG, MOST_TAGS = 20, 500  # a tag is short, and there are few different ones


def read_slash_tags(source: SourceFile, wanted: LabeledReadOptions) -> Iterator[Example]:
    """One example a line; blank lines are passed over."""
    for line, text, _ in numbered_lines(wanted.open_blocks(source)):
        if not text or text.isspace():
            continue
        try:
            if "\t" in text and is_in_columns(text):
                raise BadRowError(
                    f"this line has a word and its tag in columns, word/tag is expected: {shorten_value(text)}"
                )
            words, tags = parse_slash_tags(text)
            yield TaggedExample(words, _validated_tags(words, tags, wanted), ExampleLocation(source.name, line))
        except BadRowError as bad:
            wanted.error_policy.skip(line, str(bad))


def parse_slash_tags(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words and tags of a line, a tag of "" where none stands; of [中央/n 电台/n]nt the words with their own tags."""
    words: list[str] = []
    tags: list[str] = []
    compounds, is_open = "[" in text, False
    for item in text.split():
        word, slash, tag = item.rpartition("/")
        if not slash:
            word, tag = item, ""
        elif compounds:
            word, tag, opens = strip_bracket(word, tag, is_open=is_open)
            is_open = (is_open or opens) and "]" not in tag
            tag = tag.partition("]")[0] or tag  # ] itself may be a tag
        if not word or (slash and not tag):
            raise BadRowError(f"{shorten_value(item)} is not word/tag")
        words.append(word)
        tags.append(tag)
    return tuple(words), tuple(tags)


def _validated_tags(words: Sequence[str], tags: tuple[str, ...], wanted: LabeledReadOptions) -> tuple[str, ...] | None:
    if wanted.labels == "absent" or (wanted.labels == "optional" and not any(tags)):
        return None
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        if not tag:
            raise BadRowError(f"word {number} of the sentence, {shorten_value(word)}, has no tag: word/tag is expected")
        if wanted.known_labels is not None and tag not in wanted.known_labels:
            known = ", ".join(sorted(wanted.known_labels)[:20])
            raise BadRowError(f"the tag {shorten_value(tag)} is not among those that are known: {known}")
    return tags


def is_slash_tagged(lines: Sequence[str]) -> bool:
    """Whether most of what stands between spaces is word/tag, with few different tags that come again."""
    tags: Counter[str] = Counter()
    count = 0
    for item in (item for line in lines for item in line.split()):
        count += 1
        if tag := _tag_of(item):
            tags[tag] += 1
    if not count or tags.total() < MOSTLY * count:
        return False
    written = sum(often for tag, often in tags.items() if not tag[0].isdecimal())  # dates are no tags
    return written > count / 2 and len(tags) <= max(2, min(MOST_TAGS, 0.8 * count))


def is_slash_tagged_line(line: str) -> bool:
    """Whether most of what stands between the spaces of a line is word/tag."""
    items = line.split()
    slashed = sum(not tag[0].isdecimal() for item in items if (tag := _tag_of(item)))
    return slashed > len(items) / 2 and not is_in_columns(line)


def is_in_columns(line: str) -> bool:
    """Whether a line is a word and its tag with a tab between: no column behind the first is word/tag."""
    return "\t" in line and not any(_tag_of(item) for item in line.split("\t")[1:])


def _tag_of(item: str) -> str:
    """The tag of word/tag; "" where it is none."""
    word, _, tag = item.rpartition("/")
    return tag if word and len(tag) <= LONGEST_TAG else ""


# Sentences with a word and its tag a line and a blank line between them, as CoNLL's and many Chinese corpora are.


DOCUMENT = "-DOCSTART-"
# Only these divide columns: a word may itself be white space of another kind, such as the full-width space.
GAP = re.compile(r"[ \t]+")
NO_WORD = re.compile(r"\d+[-.]\d+")  # CoNLL-U's lines about several words, or about none


def read_conll(source: SourceFile, wanted: LabeledReadOptions) -> Iterator[Example]:
    """One example a sentence; if one of its lines is bad, all of it is."""
    form, faults = wanted.file_format, wanted.error_policy
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    begin, fault = 0, None
    cells_of = _line_parser(form)

    def sentence() -> Iterator[Example]:
        nonlocal fault
        if words and fault is None:
            place, reason = _find_tag_fault(words, tags, wanted)
            if reason:
                fault = lines[place], reason
            else:
                yield TaggedExample(tuple(words), _present_tags(tags, wanted), ExampleLocation(source.name, begin))
        if fault is not None:
            faults.skip(*fault)
            fault = None
        for one in (words, tags, lines):
            one.clear()

    for line, text, _ in numbered_lines(wanted.open_blocks(source)):
        if not text or text.isspace():
            yield from sentence()
            continue
        if not words:
            if form.comments and text[0] == "#" and "\t" not in text:
                continue
            begin = line
        try:
            word, tag = cells_of(text)
        except BadRowError as bad:
            fault = fault or (line, str(bad))
            words.append("")  # the sentence has begun
            continue
        if word == DOCUMENT:
            continue
        if word is not None:
            words.append(word)
            tags.append(tag)
            lines.append(line)
    yield from sentence()


def _present_tags(tags: list[str], wanted: LabeledReadOptions) -> tuple[str, ...] | None:
    """The tags of a sentence; None where it has none and need not have any."""
    return None if wanted.labels == "absent" or (wanted.labels == "optional" and not any(tags)) else tuple(tags)


def _find_tag_fault(words: list[str], tags: list[str], wanted: LabeledReadOptions) -> tuple[int, str]:
    """What is wrong with the tags of a sentence, and with which word it begins; "" where all is well."""
    for number, tag in enumerate(_present_tags(tags, wanted) or ()):
        if not tag:
            which = f"word {number + 1} of the sentence, {shorten_value(words[number])}, has no tag"
            return number, f"{which}: a word and its tag are expected in each line"
        if wanted.known_labels is not None and tag not in wanted.known_labels:
            known = ", ".join(sorted(wanted.known_labels)[:20])
            return number, f"the tag {shorten_value(tag)} is not among those that are known: {known}"
    return 0, ""


def _line_parser(form: LabeledFormat) -> Callable[[str], tuple[str | None, str]]:
    """The function that finds word and tag in a line; a tag of "" where the line is a word alone, a word of None where
    the line is about no word. Raises Bad."""
    width, word_at = form.width, _column_number(form.texts[0])
    tag_at = _column_number(form.label) if form.label is not None else -1
    is_plain = width == 2 and word_at == 0 and tag_at == 1

    def cut(text: str) -> tuple[str | None, str]:
        between = "\t" if "\t" in text else " "
        if is_plain and len(plain := text.split(between)) == 2 and plain[0] and (between == " " or " " not in text):
            return plain[0], plain[1]
        given = _split_line(text, width)
        cells = [cell.strip(" ") for cell in given]
        if len(cells) == 1 and width > 1:
            return cells[0], ""
        if len(cells) != width and not _drop_empty_end(cells, width):
            raise BadRowError(
                f"the line has {len(cells)} columns, {width} are expected: {shorten_value(text)}{_separator_note(text, width)}"
            )
        if form.comments and NO_WORD.fullmatch(cells[0]) and word_at:
            return None, ""
        word = cells[word_at] or given[word_at]  # which may be a space
        if not word:
            raise BadRowError(f"the line has no word: {shorten_value(text)}")
        tag = cells[tag_at].strip() if tag_at >= 0 else ""
        if " " in tag:  # none of a file that spaces part could
            raise BadRowError(
                f"the tag {shorten_value(tag)} holds a space: {shorten_value(text)} (only tabs part the columns of this line)"
            )
        return word, tag

    return cut


def _split_line(text: str, width: int) -> list[str]:
    """What stands between the tabs of a line; where it has none, between its spaces."""
    if "\t" in text:
        return text.split("\t")
    given = GAP.split(text.strip(" "))
    if len(given) > 2 and is_slash_tagged_line(text):
        raise BadRowError(
            f"this line is word/tag word/tag, a word and its tag are expected in columns: {shorten_value(text)}"
        )
    return [" ", *given] if width == 2 and len(given) == 1 and text.startswith("  ") else given  # the word is a space


def _separator_note(text: str, width: int) -> str:
    """What to know of tabs and spaces, where a line has too few or too many columns because of them."""
    if "\t" in text:
        mixed = " " in text and len(GAP.split(text.strip(" "))) == width
        return " (its spaces part no columns, as it has tabs)" if mixed else ""
    return " (words that hold spaces need tabs between the columns)" if width == 2 else ""


def _drop_empty_end(cells: list[str], width: int) -> bool:
    """Whether what is too much are empty columns at the end of the line."""
    if len(cells) > width and not any(cells[width:]):
        del cells[width:]
    return len(cells) == width


def _column_number(column: ColumnRef) -> int:
    if isinstance(column, int) or (column.isascii() and column.isdecimal() and column != "0"):
        return int(column) - 1
    raise InputError(f"no column of words and tags is called {column!r}", hint="give its number, counted from 1")


# JSON objects with one example each: one a line, or in an array.


SPACES = re.compile(r"[ \t\n\r]*")
LONE_SURROGATE_MESSAGE = "an escape such as \\ud800 spells half a character"


def read_json(source: SourceFile, wanted: LabeledReadOptions) -> Iterator[Example]:
    """One example an object."""
    blocks, make, faults, form = (
        wanted.open_blocks(source),
        example_builder(wanted),
        wanted.error_policy,
        wanted.file_format,
    )
    columns = form.column_count()
    given = json_lines(blocks) if form.kind == "jsonl" else json_array_items(blocks)
    for line, record in given:
        name = None
        try:
            if isinstance(record, BrokenRecord):
                record = record.repair(wanted.on_bad_bytes)
            values = [json_field(record, column) for column in columns]
            name = None if values[-1] is None else label_text(values[-1])
            yield make(values, ExampleLocation(source.name, line, name))
        except BadRowError as bad:
            faults.skip(line, str(bad), name)


class BrokenRecord:
    """A record that is not whole: no JSON, no object, or with halves of characters in it."""

    def __init__(self, reason: str, record: Any = None) -> None:
        self.reason, self.record = reason, record

    def repair(self, on_bad_bytes: str) -> Any:
        """With � for halves of characters, where the reader was told to replace what is bad."""
        if self.record is None or on_bad_bytes == "fail":
            raise BadRowError(self.reason)
        mark = "\ufffd" if on_bad_bytes == "replace" else ""
        return json.loads(SURROGATES.sub(mark, json.dumps(self.record, ensure_ascii=False)))


def json_lines(blocks: TextBlocks) -> Iterator[tuple[int, Any]]:
    """(line, object) of every line that is not blank; what is none is Broken."""
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
        return BrokenRecord(f"{shorten_value(record)} is no JSON object")
    if ESCAPED_SURROGATE.search(text) and SURROGATES.search(json.dumps(record, ensure_ascii=False)):
        return BrokenRecord(LONE_SURROGATE_MESSAGE, record)
    return record


def json_array_items(blocks: TextBlocks) -> Iterator[tuple[int, Any]]:
    """(line, object) of every element of one array. The text is read whole, its objects are made one by one."""
    text, file = "".join(blocks), blocks.source.name
    decoder = json.JSONDecoder()
    at, line, counted = _skip_whitespace(text, 0), 1, 0

    def number(place: int) -> int:
        nonlocal line, counted
        line, counted = line + text.count("\n", counted, place), place
        return line

    def broken(what: str) -> InputError:
        return InputError(what, file=file, line=number(at), hint="an array of objects is expected: [{…}, {…}]")

    if text[at : at + 1] != "[":
        raise broken("not a JSON array")
    at = _skip_whitespace(text, at + 1)
    while text[at : at + 1] != "]":
        try:
            record, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise broken(f"not a JSON value: {error}") from error
        yield number(at), _check_record(record, text[at:end])
        at = _skip_whitespace(text, end)
        if text[at : at + 1] == ",":
            at = _skip_whitespace(text, at + 1)
        elif text[at : at + 1] != "]":
            raise broken("the array has no end" if at == len(text) else "a comma is missing between two objects")
    if text[at + 1 :].strip():
        raise broken("something stands behind the end of the array")


def _skip_whitespace(text: str, at: int) -> int:
    match = SPACES.match(text, at)
    return match.end() if match else at


def json_field(record: dict[str, Any], column: ColumnRef | None) -> Any:
    """The value of a field, also of one inside another (`answer.text`); None where there is none."""
    if column in record:
        return record[column]
    if not isinstance(column, str) or "." not in column:
        return None
    value: Any = record
    for key in column.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


# Questions about passages in SQuAD's JSON (1.1 and 2.0), as CMRC 2018 and many others also write it.


EXPECTED = 'SQuAD\'s form is expected: {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'


def read_squad(source: SourceFile, wanted: LabeledReadOptions) -> Iterator[Example]:
    """All questions, in order. JSON has no lines: what is bad is named by the question's id."""
    text = "".join(wanted.open_blocks(source))
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise InputError(f"not JSON: {error}", file=source.name, line=line, hint=EXPECTED) from error
    halves = ESCAPED_SURROGATE.search(text) is not None
    del text
    make = example_builder(wanted)
    for passage, question in _iter_questions(told, source.name):
        name = str(question["id"]) if question.get("id") is not None else None
        try:
            values = [question.get("question"), passage, _question_answers(question, wanted), None]
            if halves:
                values = _sound(values, wanted)
            yield make(values, ExampleLocation(source.name, None, name))
        except BadRowError as bad:
            wanted.error_policy.skip(None, str(bad), name)


def _iter_questions(told: Any, file: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(passage, question with its answers); anything that is not of SQuAD's form ends the reading."""

    def part(value: Any, kind: type, what: str) -> Any:
        if not isinstance(value, kind):
            raise InputError(f"{what} is {shorten_value(value)}, not as in SQuAD", file=file, hint=EXPECTED)
        return value

    articles = part(told, dict, "the whole").get("data") if not isinstance(told, list) else told
    for article in part(articles, list, "data"):
        for paragraph in part(part(article, dict, "an article").get("paragraphs"), list, "paragraphs"):
            passage = part(paragraph, dict, "a paragraph").get("context")
            for question in part(paragraph.get("qas"), list, "qas"):
                yield passage, part(question, dict, "a question")


def _question_answers(question: dict[str, Any], wanted: LabeledReadOptions) -> Any:
    """SQuAD 2.0 marks questions that the passage does not answer; the answers it then gives are none."""
    if question.get("is_impossible") is True:
        return []
    answers = question.get("answers")
    # An empty list without that mark is what the test files of SQuAD 1.1 have.
    return None if answers == [] and "is_impossible" not in question and wanted.labels == "optional" else answers


def _sound(values: list[Any], wanted: LabeledReadOptions) -> list[Any]:
    written = json.dumps(values, ensure_ascii=False)
    if not SURROGATES.search(written):
        return values
    if wanted.on_bad_bytes == "fail":
        raise BadRowError(LONE_SURROGATE_MESSAGE)
    return json.loads(SURROGATES.sub("\ufffd" if wanted.on_bad_bytes == "replace" else "", written))


def is_squad(told: Any) -> bool:
    """Whether a JSON value is of SQuAD's form, by its first article."""
    articles = told.get("data") if isinstance(told, dict) else told
    first = articles[0] if isinstance(articles, list) and articles else None
    return isinstance(first, dict) and "paragraphs" in first
