"""Files become documents: between blank lines, one a file or one a line; from plain, tagged, JSONL or CSV text."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from forebear.errors import BadInput
from forebear.text.ledger import Ledger, size
from forebear.text.sources import Blocks, OnBadBytes, Source

Division = Literal["blank", "files", "lines"]
Format = Literal["auto", "text", "tagged", "jsonl", "csv", "tsv"]

PART = 1 << 20  # characters: a longer document is handed on in parts, so that memory stays bounded
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)++")
LEADING_BLANK = re.compile(r"(?:[^\S\n]*+\n)*+")
INVISIBLE = "\x00 \t\n\r\v\f\u00a0\u3000\ufeff\u200b"
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """A document, or a part of one that is too long to be held whole (`part` 0, 1, …), and where it starts."""

    text: str
    file: str
    line: int
    part: int = 0
    words: tuple[int, ...] | None = None  # ends of the words in `text`, where the source tells them


@dataclass(frozen=True)
class Reading:
    """How files are to be read. These fields are part of a corpus's identity."""

    documents: Division = "blank"
    format: Format = "auto"
    field: str = "text"
    column: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def __post_init__(self) -> None:
        for name, kind in (("documents", Division), ("format", Format), ("on_bad_bytes", OnBadBytes)):
            if getattr(self, name) not in get_args(kind):
                option = name.replace("_", "-")
                raise BadInput(
                    f"--{option} is {getattr(self, name)!r}", remedy=f"choose one of {', '.join(get_args(kind))}"
                )

    def read(self, sources: Iterable[Source], ledger: Ledger) -> Iterator[Document]:
        """All documents of all files, in order. The ledger is complete when the iterator is exhausted."""
        ledger.stage("read").take(documents=0, characters=0, bytes=0)
        for source in sources:
            yield from self.read_one(source, ledger)

    def read_one(self, source: Source, ledger: Ledger) -> Iterator[Document]:
        blocks = Blocks(source, self.encoding, self.on_bad_bytes, ledger)
        form = self.format if self.format != "auto" else _form_of(source.name)
        if form == "jsonl":
            documents = self._from_jsonl(blocks)
        elif form in ("csv", "tsv"):
            documents = self._from_table(blocks, form)
        else:
            documents = self._from_text(blocks)
        if form == "tagged":
            documents = (_untagged(document, ledger) for document in documents)
        yield from _entered(documents, source, ledger)

    # --- plain text ---

    def _from_text(self, blocks: Blocks) -> Iterator[Document]:
        if self.documents != "lines":
            yield from self._divided(blocks)
            return
        ends = 0
        for number, line, end in _lines(blocks):
            ends += len(end)
            yield from _parts(line, blocks.source.name, number)
        blocks.ledger.structure_count("line ends", ends, ends)

    def _divided(self, blocks: Blocks) -> Iterator[Document]:
        """Documents between blank lines, or the whole file. Holds at most two parts and a block at a time."""
        name, ledger, whole = blocks.source.name, blocks.ledger, self.documents == "files"
        held, line, part = "", 1, 0
        for block in blocks:
            held += block
            start = 0
            if part == 0:  # before a document: blank lines belong to none
                start = _leading_blanks(held, ledger)
                line += held.count("\n", 0, start)
            for border in () if whole else BLANK_LINES.finditer(held, start):
                if border.start() > start:
                    yield Document(held[start : border.start()], name, line, part)
                line += held.count("\n", start, border.end())
                ledger.structure("blank lines", border[0])
                start, part = border.end(), 0
            held = held[start:]
            while len(held) > 2 * PART:
                cut = _cut(held)
                yield Document(held[:cut], name, line, part)
                line += held.count("\n", 0, cut)
                held, part = held[cut:], part + 1
        text = held.rstrip("\n") if whole else _ends_before_blanks(held)
        ledger.structure("blank lines", held[len(text) :])
        if text:
            yield Document(text, name, line, part)

    # --- records ---

    def _from_jsonl(self, blocks: Blocks) -> Iterator[Document]:
        name = blocks.source.name
        for number, line, end in _lines(blocks):
            if not line.strip():
                blocks.ledger.structure("blank lines", line + end)
                continue
            try:
                record = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise BadInput(
                    f"not a JSON value: {error}", file=name, line=number, remedy="one JSON object a line is expected"
                ) from error
            text = _field(record, self.field, name, number)
            if SURROGATE.search(text):
                text = self._without_surrogates(text, blocks, number)
            blocks.ledger.structure_count(
                "markup and other fields", len(line + end) - len(text), size(line + end) - size(text)
            )
            yield from _parts(text, name, number)

    def _without_surrogates(self, text: str, blocks: Blocks, line: int) -> str:
        """A JSON escape may spell half of a character; UTF-8 cannot hold it, so it is treated like a bad byte."""
        if self.on_bad_bytes == "fail":
            raise BadInput(
                "an escape such as \\ud800 spells half a character",
                file=blocks.source.name,
                line=line,
                remedy="mend the record, or choose --on-bad-bytes replace or skip",
            )
        how, mark = ("replaced", "�") if self.on_bad_bytes == "replace" else ("skipped", "")
        blocks.ledger.mend(blocks.source.name, blocks.unpacked, len(SURROGATE.findall(text)), how)
        return SURROGATE.sub(mark, text)

    def _from_table(self, blocks: Blocks, form: str) -> Iterator[Document]:
        name = blocks.source.name
        csv.field_size_limit(sys.maxsize)
        taken: list[str] = []

        def lines() -> Iterator[str]:
            for _, line, end in _lines(blocks):
                taken.append(line + end)
                yield taken[-1]

        # Tab-separated text is seldom quoted on purpose, and a stray quote would swallow what follows.
        plain: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if form == "tsv" else {"strict": True}
        rows = csv.reader(lines(), **plain)
        column, first = -1, 1
        try:
            for row in rows:
                raw, number = "".join(taken), first
                taken.clear()
                first = rows.line_num + 1
                if column < 0:
                    column, is_header = _column(row, self.column, name)
                    if is_header:
                        blocks.ledger.structure("header", raw)
                        continue
                if not row:
                    blocks.ledger.structure("blank lines", raw)
                    continue
                if column >= len(row):
                    raise BadInput(
                        f"the row has {len(row)} columns, column {column + 1} is wanted",
                        file=name,
                        line=number,
                        remedy="mend the row (often a missing quote or delimiter)",
                    )
                blocks.ledger.structure_count(
                    "markup and other fields", len(raw) - len(row[column]), size(raw) - size(row[column])
                )
                yield from _parts(row[column], name, number)
        except csv.Error as error:
            raise BadInput(
                f"not well-formed {form.upper()}: {error}", file=name, line=first, remedy="mend the quoting"
            ) from error


def _form_of(name: str) -> str:
    """The format that a file's name promises."""
    name = name.lower().removesuffix(".gz").removesuffix(".zst")
    for suffix, form in ((".jsonl", "jsonl"), (".ndjson", "jsonl"), (".csv", "csv"), (".tsv", "tsv")):
        if name.endswith(suffix):
            return form
    return "text"


def _lines(blocks: Blocks) -> Iterator[tuple[int, str, str]]:
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


def _parts(text: str, file: str, line: int) -> Iterator[Document]:
    if len(text) <= 2 * PART:
        yield Document(text, file, line)
        return
    start = part = 0
    while len(text) - start > 2 * PART:
        cut = start + _cut(text[start : start + 2 * PART])
        yield Document(text[start:cut], file, line, part)
        start, part = cut, part + 1
    yield Document(text[start:], file, line, part)


def _cut(text: str) -> int:
    """Where to cut a text that is too long: after the last line or sentence of its first part, else at its limit."""
    window = text[PART // 2 : PART]
    for marks in ("\n", "。", ". ", "！", "？", "，", " "):
        at = window.rfind(marks)
        if at >= 0:
            return PART // 2 + at + (1 if marks != " " else 0)
    return PART


def _leading_blanks(text: str, ledger: Ledger) -> int:
    """How many characters of blank lines the text starts with; they are entered as separators."""
    blank = LEADING_BLANK.match(text)
    assert blank is not None
    ledger.structure("blank lines", blank[0])
    return blank.end()


def _ends_before_blanks(text: str) -> str:
    """The text without the blank lines at its end (white space within its last line stays)."""
    bare = text.rstrip()
    at = text.find("\n", len(bare))
    return text if at < 0 else text[:at]


def _entered(documents: Iterable[Document], source: Source, ledger: Ledger) -> Iterator[Document]:
    """Counts what goes out; a document without any visible character is dropped, with its place."""
    books = ledger.stage("read")
    found = dropping = False
    whole = characters = taken = 0  # entered once, at the end: this runs for every line of a corpus
    for document in documents:
        found, text = True, document.text
        if document.part == 0:
            dropping = not text.strip(INVISIBLE)
        if dropping:
            counts = {"documents": int(document.part == 0), "characters": len(text), "bytes": size(text)}
            books.take(**counts)
            ledger.drop("read", "empty document", file=document.file, line=document.line, **counts)
            continue
        whole += document.part == 0
        characters += len(text)
        taken += size(text)
        yield document
    books.take(documents=whole, characters=characters, bytes=taken)
    books.give(documents=whole, characters=characters, bytes=taken)
    if not found:
        books.take(documents=1)
        ledger.drop("read", "empty file", file=source.name, line=1, documents=1)


def _field(record: Any, field: str, file: str, line: int) -> str:
    value = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            raise BadInput(
                f"the record has no field {field!r}; it has: {there}",
                file=file,
                line=line,
                remedy="name the text's field with --field",
            )
        value = value[key]
    if not isinstance(value, str):
        raise BadInput(
            f"field {field!r} is {json.dumps(value)[:40]}, not text",
            file=file,
            line=line,
            remedy="name the text's field with --field",
        )
    return value


def _column(first: list[str], wanted: str, file: str) -> tuple[int, bool]:
    """Which column holds the text, and whether this first row is a header."""
    if wanted.isdigit():  # a number names a column by place, and says that there is no header
        if not 1 <= int(wanted) <= len(first):
            raise BadInput(
                f"there is no column {wanted}; the first row has {len(first)}", file=file, line=1, remedy="count from 1"
            )
        return int(wanted) - 1, False
    name = wanted or "text"
    if name in first:
        return first.index(name), True
    if not wanted and len(first) == 1:
        return 0, False
    raise BadInput(
        f"no column is called {name!r}; the first row is: {' | '.join(first)[:200]}",
        file=file,
        line=1,
        remedy="give --column NAME, or its number from 1 where there is no header",
    )


def _untagged(document: Document, ledger: Ledger) -> Document:
    """`迈向/v  充满/v  希望/n` → 迈向充满希望, with the ends of its words."""
    pieces: list[str] = []
    ends: list[int] = []
    length = 0
    for number, line in enumerate(document.text.split("\n"), document.line):
        if pieces:
            pieces.append("\n")
            length += 1
            ends.append(length)
        for item in line.split():
            word, _, tag = item.rpartition("/")
            if not word or not tag:
                raise BadInput(
                    f"{item!r} is not word/tag",
                    file=document.file,
                    line=number,
                    remedy="use --format text for untagged text",
                )
            word = word[1:] if word[0] == "[" and len(word) > 1 else word  # [中央/n 电台/n]nt: a compound's bracket
            if (
                pieces
                and pieces[-1][-1].isascii()
                and pieces[-1][-1].isalnum()
                and word[0].isascii()
                and word[0].isalnum()
            ):
                pieces.append(" ")
                length += 1
                ends.append(length)
            pieces.append(word)
            length += len(word)
            ends.append(length)
    text = "".join(pieces)
    ledger.structure_count("tags", len(document.text) - len(text), size(document.text) - size(text))
    return Document(text, document.file, document.line, document.part, tuple(ends))
