"""Text inside other forms: JSONL, CSV and TSV records, and words with their tags."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from forebear.data.entities import ENTITY_TAGS, EntityCollector
from forebear.data.io.documents import (
    SPLIT_AFTER,
    Document,
    document_parts,
    is_too_long,
    split_position,
    with_continuation,
)
from forebear.data.io.files import OnBadBytes, SourceFile, TextBlocks
from forebear.data.io.ledger import Ledger, utf8_size
from forebear.errors import InputError

LATIN = re.compile("[A-Za-z0-9]")
SURROGATES = re.compile("[\ud800-\udfff]")


def numbered_lines(blocks: TextBlocks) -> Iterator[tuple[int, str, str]]:
    """(number, line, its end: a newline or nothing). A line longer than a block is gathered in linear time."""
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
    """One JSON object a line; the text is in `field`."""
    name = blocks.source.name
    for number, line, end in numbered_lines(blocks):
        if not line.strip():
            blocks.ledger.add_structure("blank lines", line + end)
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not a JSON value: {error}", file=name, line=number, hint="one JSON object a line is expected"
            ) from error
        text = _field(record, field, name, number)
        if SURROGATES.search(text):
            text = _without_surrogates(text, blocks, number)
        blocks.ledger.add_structure_count(
            "markup and other fields", len(line + end) - len(text), utf8_size(line + end) - utf8_size(text)
        )
        words = _words(record, text)
        entities = _entities(record, words) if words else None
        whole = [Document(text, name, number, words=words, entities=entities, is_record=True)]
        yield from whole if words else document_parts(text, name, number, is_record=True)


def _without_surrogates(text: str, blocks: TextBlocks, line: int) -> str:
    """A JSON escape may spell half of a character; UTF-8 cannot hold it, so it is treated like a bad byte."""
    if blocks.on_bad_bytes == "fail":
        raise InputError(
            "an escape such as \\ud800 spells half a character",
            file=blocks.source.name,
            line=line,
            hint="mend the record, or choose --on-bad-bytes replace or skip",
        )
    how, mark = ("replaced", "�") if blocks.on_bad_bytes == "replace" else ("skipped", "")
    blocks.ledger.repair(blocks.source.name, blocks.unpacked, len(SURROGATES.findall(text)), how)
    return SURROGATES.sub(mark, text)


def _field(record: Any, field: str, file: str, line: int) -> str:
    value = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            raise InputError(
                f"the record has no field {field!r}; it has: {there}",
                file=file,
                line=line,
                hint="name the text's field with --field",
            )
        value = value[key]
    if not isinstance(value, str):
        raise InputError(
            f"field {field!r} is {json.dumps(value)[:40]}, not text",
            file=file,
            line=line,
            hint="name the text's field with --field",
        )
    return value


def _words(record: dict[str, Any], text: str) -> tuple[int, ...] | None:
    """The ends of words that cleaned text carries with it, if they are that and nothing else."""
    ends = record.get("words")
    if not isinstance(ends, list) or not ends or is_too_long(text) or not all(type(end) is int for end in ends):
        return None
    return tuple(ends) if ends == sorted(set(ends)) and ends[0] > 0 and ends[-1] == len(text) else None


def _entities(record: dict[str, Any], words: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """The entities that cleaned text carries with it, if they are that: one after the other, each of whole words."""
    spans = record.get("entities")
    if not isinstance(spans, list) or not all(isinstance(span, list) and len(span) == 2 for span in spans):
        return None
    places = [place for span in spans for place in span]
    if not all(type(place) is int for place in places) or not {*places} <= {0, *words}:
        return None
    apart = places == sorted(places) and all(begin < end for begin, end in spans)
    return tuple((begin, end) for begin, end in spans) if apart else None


def read_text_table(blocks: TextBlocks, form: str, wanted: str) -> Iterator[Document]:
    """One row a document; the text is in the column `wanted`."""
    name = blocks.source.name
    csv.field_size_limit(sys.maxsize)
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for _, line, end in numbered_lines(blocks):
            taken.append(line + end)
            yield taken[-1]

    # Tab-separated text is seldom quoted on purpose, and a stray quote would swallow what follows.
    plain = (line.rstrip("\n").split("\t") if line.strip("\n") else [] for line in lines())
    rows: Iterator[list[str]] = plain if form == "tsv" else csv.reader(lines(), strict=True)
    column, first = -1, 1
    try:
        for row in rows:
            raw, number = "".join(taken), first
            first += len(taken)
            taken.clear()
            if not row:
                blocks.ledger.add_structure("blank lines", raw)
                continue
            if column < 0:
                column, is_header = _column(row, wanted, name, number)
                if is_header:
                    blocks.ledger.add_structure("header", raw)
                    continue
            if column >= len(row):
                raise InputError(
                    f"the row has {len(row)} columns, column {column + 1} is wanted",
                    file=name,
                    line=number,
                    hint="mend the row (often a missing quote or delimiter)",
                )
            blocks.ledger.add_structure_count(
                "markup and other fields", len(raw) - len(row[column]), utf8_size(raw) - utf8_size(row[column])
            )
            yield from document_parts(row[column], name, number)
    except csv.Error as error:
        raise InputError(
            f"not well-formed {form.upper()}: {error}", file=name, line=first, hint="mend the quoting"
        ) from error


def _column(first: list[str], wanted: str, file: str, line: int) -> tuple[int, bool]:
    """Which column holds the text, and whether this first row is a header."""
    if wanted.isdecimal() and wanted.isascii():  # a number names a column by place, and says that there is no header
        if not 1 <= int(wanted) <= len(first):
            raise InputError(
                f"there is no column {wanted}; the first row has {len(first)}",
                file=file,
                line=line,
                hint="count from 1",
            )
        return int(wanted) - 1, False
    name = wanted or "text"
    if name in first:
        return first.index(name), True
    if not wanted and len(first) == 1:
        return 0, False
    raise InputError(
        f"no column is called {name!r}; the first row is: {' | '.join(first)[:200]}",
        file=file,
        line=line,
        hint="give --column NAME, or its number from 1 where there is no header",
    )


def strip_word_tags(document: Document, ledger: Ledger) -> Document:
    """`迈向/v  充满/v  希望/n` → 迈向充满希望, with the ends of its words and the entities that its tags tell."""
    pieces: list[str] = []
    ends: list[int] = []
    length, told = 0, EntityCollector()
    for number, line in enumerate(document.text.split("\n"), document.line):
        if pieces:
            pieces.append("\n")
            length += 1
            ends.append(length)
        told.shut()
        compounds = opens = "[" in line
        for item in line.split():
            word, _, tag = item.rpartition("/")
            if compounds:
                word, tag, opens = strip_bracket(word, tag, is_open=told.opened >= 0)
            if not word or not tag:
                raise InputError(
                    f"{item!r} is not word/tag",
                    file=document.file,
                    line=number,
                    hint="use --format text for untagged text",
                )
            if pieces and LATIN.match(pieces[-1][-1]) and LATIN.match(word):  # these need a space between them
                pieces.append(" ")
                length += 1
                ends.append(length)
            if opens:
                told.begin_entity(length)
            if compounds or tag[:2] in ENTITY_TAGS:
                told.add_word(word, tag, length, length + len(word))
            pieces.append(word)
            length += len(word)
            ends.append(length)
    text = "".join(pieces)
    ledger.add_structure_count("tags", len(document.text) - len(text), utf8_size(document.text) - utf8_size(text))
    return Document(text, document.file, document.line, document.part, tuple(ends), tuple(told.spans))


def strip_bracket(word: str, tag: str, *, is_open: bool) -> tuple[str, str, bool]:
    """Word and tag of `[中央/n` in [中央/n 电台/n]nt, and whether a compound begins with it; `]/nt` becomes `]nt`."""
    opens = word[:1] == "[" and len(word) > 1
    if (is_open or opens) and word[-1:] == "]" and "/" in word:
        word, _, own = word.rpartition("/")
        tag = own + tag
    return word[1:] if opens else word, tag, opens


# Files become documents: between blank lines, one a file or one a line; from plain, tagged, JSONL or CSV text.


DocumentBoundary = Literal["blank", "files", "lines"]
FileFormat = Literal["auto", "text", "tagged", "jsonl", "csv", "tsv"]

SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv"}
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)++")
INVISIBLE_CHARS = "\x00 \t\n\r\v\f\u00a0\u3000\ufeff\u200b"


@dataclass(frozen=True)
class TextFormat:
    """How files are to be read. These fields are part of a corpus's identity."""

    documents: DocumentBoundary = "blank"
    format: FileFormat = "auto"
    field: str = "text"
    column: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def __post_init__(self) -> None:
        for name, kind in (("documents", DocumentBoundary), ("format", FileFormat), ("on_bad_bytes", OnBadBytes)):
            if getattr(self, name) not in get_args(kind):
                option = name.replace("_", "-")
                raise InputError(
                    f"--{option} is {getattr(self, name)!r}", hint=f"choose one of {', '.join(get_args(kind))}"
                )

    def identity(self) -> dict[str, str]:
        """Its part of a corpus's key; the names in it are data and stay when fields are renamed."""
        return {
            "documents": self.documents,
            "format": self.format,
            "field": self.field,
            "column": self.column,
            "encoding": self.encoding,
            "on_bad_bytes": self.on_bad_bytes,
        }

    def documents_in(self, sources: Iterable[SourceFile], ledger: Ledger) -> Iterator[Document]:
        """All documents of all files, in order. The ledger is complete when the iterator is exhausted."""
        ledger.stage("read").add_in(documents=0, characters=0, bytes=0)
        for source in sources:
            yield from self.read_one(source, ledger)

    def format_of(self, source: SourceFile) -> str:
        """The format asked for, or the one that the file's name promises."""
        if self.format != "auto":
            return self.format
        name = source.name.lower().removesuffix(".gz").removesuffix(".zst")
        return next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), "text")

    def read_one(self, source: SourceFile, ledger: Ledger) -> Iterator[Document]:
        blocks = TextBlocks(source, self.encoding, self.on_bad_bytes, ledger)
        form = self.format_of(source)
        if form == "jsonl":
            documents = read_jsonl(blocks, self.field)
        elif form in ("csv", "tsv"):
            documents = read_text_table(blocks, form, self.column)
        else:
            documents = self._from_text(blocks)
        if form == "tagged":
            documents = (strip_word_tags(document, ledger) for document in documents)
        yield from _entered(documents, source, ledger)

    @property
    def _marks(self) -> Sequence[str]:
        return ("\n", " ") if self.format == "tagged" else SPLIT_AFTER  # 。/w stays in one piece

    def _from_text(self, blocks: TextBlocks) -> Iterator[Document]:
        if self.documents != "lines":
            yield from self._divided(blocks)
            return
        ends = 0
        for number, line, end in numbered_lines(blocks):
            ends += len(end)
            yield from document_parts(line, blocks.source.name, number, self._marks)
        blocks.ledger.add_structure_count("line ends", ends, ends)

    def _divided(self, blocks: TextBlocks) -> Iterator[Document]:
        """Documents between blank lines, or the whole file. Holds at most two parts and a block at a time."""
        name, ledger, whole = blocks.source.name, blocks.ledger, self.documents == "files"
        held, line, part, seen = "", 1, 0, 0  # `seen`: up to where no blank line begins in what is held
        blanks: list[str] = []  # entered once a block: there may be as many as there are documents
        for block in blocks:
            held += block
            start = 0
            if part == 0:  # before a document: blank lines belong to none
                start = held.rfind("\n", 0, len(held) - len(held.lstrip())) + 1
                blanks.append(held[:start])
                line += held.count("\n", 0, start)
            for border in () if whole else BLANK_LINES.finditer(held, max(start, seen)):
                if border.start() > start:
                    yield Document(held[start : border.start()], name, line, part)
                line += held.count("\n", start, border.end())
                blanks.append(border[0])
                start, part = border.end(), 0
            ledger.add_structure("blank lines", "".join(blanks))
            blanks.clear()
            held = held[start:]
            while is_too_long(held):
                cut = split_position(held, self._marks)
                yield Document(held[:cut], name, line, part)
                line += held.count("\n", 0, cut)
                held, part = held[cut:], part + 1
            seen = len(held.rstrip())
        text = held.rstrip("\n") if whole else _ends_before_blanks(held)
        ledger.add_structure("blank lines", held[len(text) :])
        if text:
            yield Document(text, name, line, part)


def _ends_before_blanks(text: str) -> str:
    """The text without the blank lines at its end (white space within its last line stays)."""
    bare = text.rstrip()
    at = text.find("\n", len(bare))
    return text if at < 0 else text[:at]


def _entered(documents: Iterable[Document], source: SourceFile, ledger: Ledger) -> Iterator[Document]:
    """Counts what goes out; a document without any visible character is dropped, with its place."""
    books = ledger.stage("read")
    found = False
    whole = characters = taken = 0  # entered once, at the end: this runs for every line of a corpus
    for document, goes_on in with_continuation(documents):
        found, text = True, document.text
        if not goes_on and document.part == 0 and not text.strip(INVISIBLE_CHARS):
            length, taken_here = len(text), utf8_size(text)
            books.add_in(documents=1, characters=length, bytes=taken_here)
            place = {"file": document.file, "line": document.line}
            ledger.drop("read", "empty document", **place, documents=1, characters=length, bytes=taken_here)
            continue
        whole += document.part == 0
        characters += len(text)
        taken += document.utf8_size
        yield document
    books.add_in(documents=whole, characters=characters, bytes=taken)
    books.add_out(documents=whole, characters=characters, bytes=taken)
    if not found:
        books.add_in(documents=1)
        ledger.drop("read", "empty file", file=source.name, line=1, documents=1)
