"""Readers of documents from text files: plain text, JSONL, CSV and TSV, and words with tags (word/tag)."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from forebear.data.entities import ENTITY_TAGS, EntityCollector
from forebear.data.io.document import (
    SPLIT_SEPARATORS,
    Document,
    document_parts,
    is_too_long,
    split_position,
    with_continuation,
)
from forebear.data.io.sources import SourceFile, find_sources
from forebear.data.io.text_blocks import OnBadBytes, TextBlocks
from forebear.data.io.text_ledger import Ledger, utf8_size
from forebear.data.unicode import SURROGATES
from forebear.errors import InputError, require_choice

LATIN = re.compile("[A-Za-z0-9]")


def numbered_lines(blocks: TextBlocks) -> Iterator[tuple[int, str, str]]:
    """(number, line, line end: a newline or nothing). Lines longer than a block are joined in linear time."""
    pieces: list[str] = []
    number = 0
    for block in blocks:
        *complete, rest = block.split("\n")
        for line in complete:
            number += 1
            yield number, "".join([*pieces, line]) if pieces else line, "\n"
            pieces.clear()
        if rest:
            pieces.append(rest)
    if pieces:
        yield number + 1, "".join(pieces), ""


def read_jsonl(blocks: TextBlocks, field: str) -> Iterator[Document]:
    """Documents of a file with one JSON object a line; the text is in `field`."""
    name = blocks.source.name
    for number, line, end in numbered_lines(blocks):
        if not line.strip():
            blocks.ledger.record_markup("blank lines", line + end)
            continue
        record = parse_json_line(line, name, number)
        text = record_text(record, field, name, number, hint="name the text's field with --field")
        if SURROGATES.search(text):
            # Lone surrogates from JSON escapes cannot be encoded in UTF-8: they are treated as bad bytes.
            if blocks.on_bad_bytes == "fail":
                hint = "mend the record, or choose --on-bad-bytes replace or skip"
                message = "an escape such as \\ud800 spells half a character"
                raise InputError(message, file=name, line=number, hint=hint)
            action, replacement = ("replaced", "�") if blocks.on_bad_bytes == "replace" else ("skipped", "")
            text, count = SURROGATES.subn(replacement, text)
            blocks.ledger.record_repair(name, blocks.decompressed_bytes, count, action)
        blocks.ledger.record_markup("markup and other fields", line + end, text)
        word_ends = _word_ends(record, text)
        if word_ends is None:
            yield from document_parts(text, name, number, is_record=True)
        else:
            yield Document(text, name, number, 0, word_ends, _entity_spans(record, word_ends), is_record=True)


def parse_json_line(text: str, file: str, line: int) -> Any:
    """The value of a line of JSONL."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "one JSON object a line is expected"
        raise InputError(f"not a JSON value: {error}", file=file, line=line, hint=hint) from error


def record_text(record: Any, field: str, file: str, line: int, *, hint: str) -> str:
    """The text in a field of a record; a nested field is written with dots (`a.b`)."""
    value = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            description = f"the record has no field {field!r}; it has: {available_fields(value)}"
            raise InputError(description, file=file, line=line, hint=hint)
        value = value[key]
    if not isinstance(value, str):
        raise InputError(f"field {field!r} is {json.dumps(value)[:40]}, not text", file=file, line=line, hint=hint)
    return value


def available_fields(record: Any) -> str:
    return ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__


def _word_ends(record: dict[str, Any], text: str) -> tuple[int, ...] | None:
    """The ends of words in a record of cleaned text, if they are valid."""
    ends = record.get("words")
    if not isinstance(ends, list) or not ends or is_too_long(text) or not all(type(end) is int for end in ends):
        return None
    return tuple(ends) if ends == sorted(set(ends)) and ends[0] > 0 and ends[-1] == len(text) else None


def _entity_spans(record: dict[str, Any], word_ends: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """The entities in a record of cleaned text, if they are valid: in order, and aligned with words."""
    spans = record.get("entities")
    if not isinstance(spans, list) or not all(isinstance(span, list) and len(span) == 2 for span in spans):
        return None
    bounds = [bound for span in spans for bound in span]
    if not all(type(bound) is int for bound in bounds) or not {*bounds} <= {0, *word_ends}:
        return None
    is_ordered = bounds == sorted(bounds) and all(begin < end for begin, end in spans)
    return tuple((begin, end) for begin, end in spans) if is_ordered else None


def read_text_table(blocks: TextBlocks, table_format: str, column_name: str) -> Iterator[Document]:
    """Documents of a table, one a row; the text is in the column `column_name`."""
    name = blocks.source.name
    csv.field_size_limit(sys.maxsize)
    raw_lines: list[str] = []

    def lines() -> Iterator[str]:
        for _, line, end in numbered_lines(blocks):
            raw_lines.append(line + end)
            yield raw_lines[-1]

    # TSV is rarely quoted on purpose, and a stray quote would swallow the following rows.
    tsv_rows = (line.rstrip("\n").split("\t") if line.strip("\n") else [] for line in lines())
    rows: Iterator[list[str]] = tsv_rows if table_format == "tsv" else csv.reader(lines(), strict=True)
    column, first_line = -1, 1
    try:
        for row in rows:
            raw, line_number = "".join(raw_lines), first_line
            first_line += len(raw_lines)
            raw_lines.clear()
            if not row:
                blocks.ledger.record_markup("blank lines", raw)
                continue
            if column < 0:
                column, is_header = _text_column(row, column_name, name, line_number)
                if is_header:
                    blocks.ledger.record_markup("header", raw)
                    continue
            if column >= len(row):
                message = f"the row has {len(row)} columns, column {column + 1} is wanted"
                hint = "mend the row (often a missing quote or delimiter)"
                raise InputError(message, file=name, line=line_number, hint=hint)
            blocks.ledger.record_markup("markup and other fields", raw, row[column])
            yield from document_parts(row[column], name, line_number)
    except csv.Error as error:
        message = f"not well-formed {table_format.upper()}: {error}"
        raise InputError(message, file=name, line=first_line, hint="mend the quoting") from error


def _text_column(first_row: list[str], column_name: str, file: str, line: int) -> tuple[int, bool]:
    """The index of the text column, and whether the first row is a header."""
    if is_column_number(column_name):  # there is no header
        return numbered_column(column_name, first_row, file, line), False
    if not column_name and len(first_row) == 1 and first_row != ["text"]:
        return 0, False
    hint = "give --column NAME, or its number from 1 where there is no header"
    return named_column(column_name or "text", first_row, file, line, hint=hint), True


def is_column_number(column: str) -> bool:
    return column.isdecimal() and column.isascii()


def numbered_column(column: str, first_row: list[str], file: str, line: int) -> int:
    """The index of a column by its number, counted from 1; `first_row` is the first row of the table."""
    if not 1 <= int(column) <= len(first_row):
        description = f"there is no column {column}; the first row has {len(first_row)}"
        raise InputError(description, file=file, line=line, hint="count from 1")
    return int(column) - 1


def named_column(column: str, header: list[str], file: str, line: int, *, hint: str) -> int:
    if column not in header:
        description = f"no column is called {column!r}; the first row is: {' | '.join(header)[:200]}"
        raise InputError(description, file=file, line=line, hint=hint)
    return header.index(column)


def strip_word_tags(document: Document, ledger: Ledger) -> Document:
    """Convert `迈向/v  充满/v  希望/n` to 迈向充满希望, with word ends and the entities that tags mark."""
    pieces: list[str] = []
    ends: list[int] = []
    length, collector = 0, EntityCollector()
    for number, line in enumerate(document.text.split("\n"), document.line):
        if pieces:
            pieces.append("\n")
            length += 1
            ends.append(length)
        collector.close_compound()
        has_compounds = opens_compound = "[" in line
        for item in line.split():
            word, _, tag = item.rpartition("/")
            if has_compounds:
                word, tag, opens_compound = strip_bracket(word, tag, is_open=collector.compound_start >= 0)
            if not word or not tag:
                hint = "use --format text for untagged text"
                raise InputError(f"{item!r} is not word/tag", file=document.file, line=number, hint=hint)
            if pieces and LATIN.match(pieces[-1][-1]) and LATIN.match(word):  # Latin words need a space between them
                pieces.append(" ")
                length += 1
                ends.append(length)
            if opens_compound:
                collector.open_compound(length)
            if has_compounds or tag[:2] in ENTITY_TAGS:
                collector.add_word(word, tag, length, length + len(word))
            pieces.append(word)
            length += len(word)
            ends.append(length)
    text = "".join(pieces)
    ledger.record_markup("tags", document.text, text)
    return Document(text, document.file, document.line, document.part, tuple(ends), tuple(collector.spans))


def strip_bracket(word: str, tag: str, *, is_open: bool) -> tuple[str, str, bool]:
    """Word and tag of `[中央/n` in [中央/n 电台/n]nt, and whether a compound starts with it; `]/nt` becomes `]nt`."""
    opens = word[:1] == "[" and len(word) > 1
    if (is_open or opens) and word[-1:] == "]" and "/" in word:
        word, _, inner_tag = word.rpartition("/")
        tag = inner_tag + tag
    return word[1:] if opens else word, tag, opens


# --- Files to documents: separated by blank lines, one per file or one per line ---

DocumentBoundary = Literal["blank", "files", "lines"]
FileFormat = Literal["auto", "text", "tagged", "jsonl", "csv", "tsv"]

SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv"}
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)++")
INVISIBLE_CHARS = "\x00 \t\n\r\v\f\u00a0\u3000\ufeff\u200b"


@dataclass(frozen=True)
class TextFormat:
    """How files are read. The names of these fields are part of the keys of corpora and tokenizers in the cache."""

    documents: DocumentBoundary = "blank"
    format: FileFormat = "auto"
    field: str = "text"
    column: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def __post_init__(self) -> None:
        for name, choices in (("documents", DocumentBoundary), ("format", FileFormat), ("on_bad_bytes", OnBadBytes)):
            require_choice(f"--{name.replace('_', '-')}", getattr(self, name), get_args(choices))

    def documents_in(self, sources: Iterable[SourceFile], ledger: Ledger) -> Iterator[Document]:
        """All documents of all files, in order. The ledger is complete when the iterator is exhausted."""
        ledger.stage("read").add_in(documents=0, characters=0, bytes=0)
        for source in sources:
            yield from self.read_file(source, ledger)

    def format_of(self, source: SourceFile) -> str:
        """The format that was set, or the one of the file's suffix."""
        if self.format != "auto":
            return self.format
        name = source.name.lower().removesuffix(".gz").removesuffix(".zst")
        return next((file_format for suffix, file_format in SUFFIXES.items() if name.endswith(suffix)), "text")

    def read_file(self, source: SourceFile, ledger: Ledger) -> Iterator[Document]:
        blocks = TextBlocks(source, self.encoding, self.on_bad_bytes, ledger)
        file_format = self.format_of(source)
        if file_format == "jsonl":
            documents = read_jsonl(blocks, self.field)
        elif file_format in ("csv", "tsv"):
            documents = read_text_table(blocks, file_format, self.column)
        else:
            documents = self._lines(blocks) if self.documents == "lines" else self._split_at_blank_lines(blocks)
        if file_format == "tagged":
            documents = (strip_word_tags(document, ledger) for document in documents)
        yield from _account_documents(documents, source, ledger)

    @property
    def _split_separators(self) -> Sequence[str]:
        return ("\n", " ") if self.format == "tagged" else SPLIT_SEPARATORS  # 。/w must not be split

    def _lines(self, blocks: TextBlocks) -> Iterator[Document]:
        num_line_ends = 0
        for number, line, end in numbered_lines(blocks):
            num_line_ends += len(end)
            yield from document_parts(line, blocks.source.name, number, self._split_separators)
        blocks.ledger.record_markup_counts("line ends", num_line_ends, num_line_ends)

    def _split_at_blank_lines(self, blocks: TextBlocks) -> Iterator[Document]:
        """Documents between blank lines, or the whole file; at most two parts and a block are in memory."""
        name, ledger, is_whole_file = blocks.source.name, blocks.ledger, self.documents == "files"
        pending, line, part, searched_to = "", 1, 0, 0  # `searched_to`: no blank line starts before it in `pending`
        blank_texts: list[str] = []  # recorded once per block: there may be one for each document
        for block in blocks:
            pending += block
            start = 0
            if part == 0:  # blank lines before a document
                start = pending.rfind("\n", 0, len(pending) - len(pending.lstrip())) + 1
                blank_texts.append(pending[:start])
                line += pending.count("\n", 0, start)
            for blank_lines in () if is_whole_file else BLANK_LINES.finditer(pending, max(start, searched_to)):
                if blank_lines.start() > start:
                    yield Document(pending[start : blank_lines.start()], name, line, part)
                line += pending.count("\n", start, blank_lines.end())
                blank_texts.append(blank_lines[0])
                start, part = blank_lines.end(), 0
            ledger.record_markup("blank lines", "".join(blank_texts))
            blank_texts.clear()
            pending = pending[start:]
            while is_too_long(pending):
                end = split_position(pending, self._split_separators)
                yield Document(pending[:end], name, line, part)
                line += pending.count("\n", 0, end)
                pending, part = pending[end:], part + 1
            searched_to = len(pending.rstrip())
        # Blank lines at the end are dropped; white space in the last line is kept.
        end = len(pending.rstrip("\n")) if is_whole_file else pending.find("\n", len(pending.rstrip()))
        text = pending if end < 0 else pending[:end]
        ledger.record_markup("blank lines", pending[len(text) :])
        if text:
            yield Document(text, name, line, part)


def _account_documents(documents: Iterable[Document], source: SourceFile, ledger: Ledger) -> Iterator[Document]:
    """Record the documents in the ledger; drop those without a visible character."""
    stage = ledger.stage("read")
    has_documents = False
    num_documents = characters = num_bytes = 0  # recorded at the end: this loop runs for every line of a corpus
    for document, continues in with_continuation(documents):
        has_documents, text = True, document.text
        if not continues and document.part == 0 and not text.strip(INVISIBLE_CHARS):
            length, text_bytes = len(text), utf8_size(text)
            stage.add_in(documents=1, characters=length, bytes=text_bytes)
            location = {"file": document.file, "line": document.line}
            ledger.drop("read", "empty document", **location, documents=1, characters=length, bytes=text_bytes)
            continue
        num_documents += document.part == 0
        characters += len(text)
        num_bytes += document.utf8_size
        yield document
    stage.add_in(documents=num_documents, characters=characters, bytes=num_bytes)
    stage.add_out(documents=num_documents, characters=characters, bytes=num_bytes)
    if not has_documents:
        stage.add_in(documents=1)
        ledger.drop("read", "empty file", file=source.name, line=1, documents=1)


def read_lines(file: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file, which may be compressed (.gz, .zst)."""
    for source in find_sources([file]):
        for _, line, _ in numbered_lines(TextBlocks(source, encoding, "fail", Ledger())):
            yield line.removesuffix("\r")
