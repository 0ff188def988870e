"""What kind of file this is, told from its beginning: a table, JSON, SQuAD's form, or words and tags in two ways."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from forebear.data.io.files import OnBadBytes, SourceFile, TextBlocks
from forebear.data.io.ledger import Ledger
from forebear.data.labeled.columns import is_header
from forebear.data.labeled.readers import DOCUMENT, GAP, is_slash_tagged, is_slash_tagged_line, is_squad
from forebear.data.labeled.row_to_example import LabeledFileKind
from forebear.errors import InputError

LINES = 2000  # that are looked at: so many words and tags are only a few sentences
MOST = 1 << 23  # characters that are looked at
TAG = re.compile(r"O|[BIESLUM](?:[-_]\S+)?")
ABOUT = re.compile(r"#\s*(?:id\b|\S+\s*=|$)")  # a line before a sentence, about it
DELIMITERS = (",", ";", "|")
OF_COLUMNS = re.compile(r"\.(?:conllu?|bio|iob|bmes)(?:\.gz|\.zst)?$")  # names of files with a word and its tag a line
ALIKE, MOSTLY = 0.9, 0.75  # of the lines have as many columns, in a file of words and tags; where tags are plain to see


@dataclass(frozen=True)
class FileHead:
    """The beginning of a file."""

    source: SourceFile
    text: str
    is_whole: bool
    blocks: TextBlocks

    @classmethod
    def read(cls, source: SourceFile, encoding: str, on_bad_bytes: OnBadBytes) -> FileHead:
        blocks = TextBlocks(source, encoding, on_bad_bytes, Ledger())
        pieces: list[str] = []
        lines = size = 0
        is_whole = True
        for block in blocks:
            if lines > LINES or size > MOST:
                is_whole = False
                break
            pieces.append(block)
            lines, size = lines + block.count("\n"), size + len(block)
        text = "".join(pieces)
        if not text or text.isspace():
            raise InputError("the file holds nothing", file=source.name, hint="name a file with examples in it")
        if text.count("\0") > len(text) / 10:
            hint = "if it is text at all, name its --encoding, such as utf-16-le"
            raise InputError("many characters of it are NUL", file=source.name, hint=hint)
        return cls(source, text, is_whole, blocks)

    @property
    def first_lines(self) -> list[str]:
        """The first lines; one that was cut off is none."""
        lines = self.text.split("\n")
        return lines[:LINES] if self.is_whole or len(lines) == 1 else lines[: min(LINES, len(lines) - 1)]

    def detect_kind(self, task: str | None) -> tuple[LabeledFileKind, str]:
        """The kind of file, and what stands between the columns of a table."""
        start = self.text.lstrip()
        if re.match(r'\[\s*\{|\{\s*["}]', start):
            return self._json(start), ""
        if told := self.tag_columns():
            return told, ""
        if task == "tagging" or (task is None and self.is_named_so):  # then a fault is one of its lines
            slashed = [is_slash_tagged_line(line) for line in self.first_lines if line and not line.isspace()]
            return "tagged" if not self.is_named_so and 2 * sum(slashed) >= len(slashed) else "conll", ""
        return self.as_table()

    @property
    def is_named_so(self) -> bool:
        """Whether its name says that it has a word and its tag a line."""
        return OF_COLUMNS.search(self.source.name.lower()) is not None

    def tag_columns(self) -> LabeledFileKind | None:
        """In which way words have their tags, where the file itself leaves no doubt that they have some."""
        return "tagged" if is_slash_tagged(self.first_lines) else "conll" if is_tagged(self.first_lines) else None

    @property
    def is_prose(self) -> bool:
        """Whether lines, though they were to hold a word and its tag each, look like plain text."""
        lines = [line for group in sentence_blocks(self.first_lines) for line in group if not ABOUT.match(line)]
        rows = [split_cells(line) for line in lines]
        width, often = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if width == 1 or 2 * often <= len(rows):
            return True
        ends = {row[-1] for row in rows if len(row) == width}
        has_tags = 2 * len(ends) <= often or 2 * sum("\t" in line for line in lines) > len(lines)
        return often < ALIKE * len(rows) and not has_tags

    def _json(self, start: str) -> LabeledFileKind:
        first = start.partition("\n")[0]
        try:
            told = json.loads(first)
        except (ValueError, RecursionError):
            told = None
        if is_squad(told) or (not isinstance(told, dict) and re.search(r'"(?:paragraphs|qas)"\s*:', start)):
            return "squad"
        if isinstance(told, dict) or (start[0] == "{" and "\n{" in start):  # a broken line is named by the reader
            return "jsonl"
        if start[0] == "[":
            return "json"
        hint = "one object a line, an array of objects, or SQuAD's form is understood"
        raise InputError("this JSON is of a form that is not known", file=self.source.name, hint=hint)

    def as_table(self, *, is_csv: bool = False) -> tuple[LabeledFileKind, str]:
        """Whether a table has quotes that quote, and what stands between its columns."""
        lines = [line for line in self.first_lines if line and not line.isspace()]
        is_named = is_csv or re.search(r"\.csv(?:\.gz|\.zst)?$", self.source.name.lower()) is not None
        tabs = Counter(line.count("\t") for line in lines)
        if tabs[0] < len(lines):
            if tabs[0] == 0 and max(tabs.values()) >= 0.95 * len(lines):
                return ("csv", "\t") if _is_quoted(line.split("\t") for line in lines) else ("tsv", "\t")
            if len({*map(len, self.split_rows("\t", strict=True)), 1}) == 2 and any('"' in line for line in lines):
                return "csv", "\t"  # whose quotes hold tabs or newlines
            if tabs[0] < (0.1 if is_named else 0.5) * len(lines):
                return "tsv", "\t"
        best, share = "", 0.0
        for delimiter in DELIMITERS:
            rows = self.split_rows(delimiter)
            width, often = Counter(map(len, rows)).most_common(1)[0]
            if width > 1 and often / len(rows) > share and (is_named or _is_table(rows, width)):
                best, share = delimiter, often / len(rows)
        return ("csv", best or ",") if is_named or share >= 0.9 else ("tsv", "\t")

    def split_rows(self, delimiter: str, *, strict: bool = False) -> list[list[str]]:
        """The first records of a CSV table, without one that was cut off; none if `strict` and one is ill-formed."""
        csv.field_size_limit(sys.maxsize)
        reader = csv.reader((line + "\n" for line in self.first_lines), delimiter=delimiter, strict=strict)
        rows: list[list[str]] = []
        try:
            rows.extend(row for row in reader if any(row))
        except csv.Error as error:
            return rows if not self.is_whole and "end of data" in str(error) else []
        return rows if self.is_whole or strict or len(rows) == 1 else rows[:-1]


def _is_table(rows: list[list[str]], width: int) -> bool:
    """Prose has commas too: a table has a header, or as many of them in all of many lines."""
    return is_header(rows[0], rows[1:]) or (len(rows) >= 5 and all(len(row) == width for row in rows))


def _is_quoted(rows: Iterator[list[str]]) -> bool:
    """Whether quotes in a table of tabs are CSV's: all of them well-formed, and some of them doubled."""
    doubled = False
    for cell in (cell for row in rows for cell in row if '"' in cell):
        inner = cell[1:-1].replace('""', "")
        if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"' or '"' in inner:
            return False
        doubled = doubled or '""' in cell[1:-1]
    return doubled


def split_cells(line: str) -> list[str]:
    """The columns of a line of words and tags."""
    return line.split("\t") if "\t" in line else GAP.split(line.strip(" "))


def sentence_blocks(lines: list[str]) -> list[list[str]]:
    """The lines between blank ones, without those about documents."""
    groups: list[list[str]] = [[]]
    for line in lines:
        if line.isspace() or not line:
            groups.append([])
        elif not line.startswith(DOCUMENT):
            groups[-1].append(line)
    return [group for group in groups if group]


def is_tagged(lines: list[str]) -> bool:
    """Words and tags: lines of as many short columns, whose last says O, B-… and the like, or blank lines between."""
    groups = sentence_blocks(lines)
    rows = [split_cells(line) for group in groups for line in group if not ABOUT.match(line)]
    if not rows:
        return False
    width, often = Counter(map(len, rows)).most_common(1)[0]
    if width < 2 or often < MOSTLY * len(rows):
        return False
    is_even, rows = often >= ALIKE * len(rows), [row for row in rows if len(row) == width]
    ends = Counter(row[-1].strip() for row in rows)
    if sum(" " in row[0].strip() for row in rows) > 0.02 * len(rows):
        return False
    tags = sum(often for tag, often in ends.items() if TAG.fullmatch(tag))
    if tags > 0.98 * len(rows) and ("O" in ends or len(groups) > 1 or any("-" in tag for tag in ends)):
        return True
    is_divided = is_even and len(groups) > 1 and len(rows) > 2 * len(groups)
    is_divided = is_divided and len({row[0] for row in rows}) <= 0.8 * len(rows)  # words come again, texts seldom do
    is_short = sum(len(row[0]) for row in rows) <= 15 * len(rows) and not any(" " in "".join(row) for row in rows)
    return is_divided and is_short and len(ends) <= min(100, len(rows) / 2) and max(map(len, ends)) <= 20
