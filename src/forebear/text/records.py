"""Text inside other forms: JSONL, CSV and TSV records, and words with their tags."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from forebear.errors import BadInput
from forebear.text.blocks import Blocks
from forebear.text.documents import Document, in_parts, is_too_long
from forebear.text.entities import KINDS, Told
from forebear.text.ledger import Ledger, size

LATIN = re.compile("[A-Za-z0-9]")
SURROGATE = re.compile("[\ud800-\udfff]")


def numbered_lines(blocks: Blocks) -> Iterator[tuple[int, str, str]]:
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


def from_jsonl(blocks: Blocks, field: str) -> Iterator[Document]:
    """One JSON object a line; the text is in `field`."""
    name = blocks.source.name
    for number, line, end in numbered_lines(blocks):
        if not line.strip():
            blocks.ledger.structure("blank lines", line + end)
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInput(
                f"not a JSON value: {error}", file=name, line=number, remedy="one JSON object a line is expected"
            ) from error
        text = _field(record, field, name, number)
        if SURROGATE.search(text):
            text = _without_surrogates(text, blocks, number)
        blocks.ledger.structure_count(
            "markup and other fields", len(line + end) - len(text), size(line + end) - size(text)
        )
        words = _words(record, text)
        entities = _entities(record, words) if words else None
        whole = [Document(text, name, number, words=words, entities=entities, is_record=True)]
        yield from whole if words else in_parts(text, name, number, is_record=True)


def _without_surrogates(text: str, blocks: Blocks, line: int) -> str:
    """A JSON escape may spell half of a character; UTF-8 cannot hold it, so it is treated like a bad byte."""
    if blocks.on_bad_bytes == "fail":
        raise BadInput(
            "an escape such as \\ud800 spells half a character",
            file=blocks.source.name,
            line=line,
            remedy="mend the record, or choose --on-bad-bytes replace or skip",
        )
    how, mark = ("replaced", "�") if blocks.on_bad_bytes == "replace" else ("skipped", "")
    blocks.ledger.mend(blocks.source.name, blocks.unpacked, len(SURROGATE.findall(text)), how)
    return SURROGATE.sub(mark, text)


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


def from_table(blocks: Blocks, form: str, wanted: str) -> Iterator[Document]:
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
                blocks.ledger.structure("blank lines", raw)
                continue
            if column < 0:
                column, is_header = _column(row, wanted, name, number)
                if is_header:
                    blocks.ledger.structure("header", raw)
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
            yield from in_parts(row[column], name, number)
    except csv.Error as error:
        raise BadInput(
            f"not well-formed {form.upper()}: {error}", file=name, line=first, remedy="mend the quoting"
        ) from error


def _column(first: list[str], wanted: str, file: str, line: int) -> tuple[int, bool]:
    """Which column holds the text, and whether this first row is a header."""
    if wanted.isdecimal() and wanted.isascii():  # a number names a column by place, and says that there is no header
        if not 1 <= int(wanted) <= len(first):
            raise BadInput(
                f"there is no column {wanted}; the first row has {len(first)}",
                file=file,
                line=line,
                remedy="count from 1",
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
        line=line,
        remedy="give --column NAME, or its number from 1 where there is no header",
    )


def untagged(document: Document, ledger: Ledger) -> Document:
    """`迈向/v  充满/v  希望/n` → 迈向充满希望, with the ends of its words and the entities that its tags tell."""
    pieces: list[str] = []
    ends: list[int] = []
    length, told = 0, Told()
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
                word, tag, opens = unbracketed(word, tag, is_open=told.opened >= 0)
            if not word or not tag:
                raise BadInput(
                    f"{item!r} is not word/tag",
                    file=document.file,
                    line=number,
                    remedy="use --format text for untagged text",
                )
            if pieces and LATIN.match(pieces[-1][-1]) and LATIN.match(word):  # these need a space between them
                pieces.append(" ")
                length += 1
                ends.append(length)
            if opens:
                told.open(length)
            if compounds or tag[:2] in KINDS:
                told.word(word, tag, length, length + len(word))
            pieces.append(word)
            length += len(word)
            ends.append(length)
    text = "".join(pieces)
    ledger.structure_count("tags", len(document.text) - len(text), size(document.text) - size(text))
    return Document(text, document.file, document.line, document.part, tuple(ends), tuple(told.spans))


def unbracketed(word: str, tag: str, *, is_open: bool) -> tuple[str, str, bool]:
    """Word and tag of `[中央/n` in [中央/n 电台/n]nt, and whether a compound begins with it; `]/nt` becomes `]nt`."""
    opens = word[:1] == "[" and len(word) > 1
    if (is_open or opens) and word[-1:] == "]" and "/" in word:
        word, _, own = word.rpartition("/")
        tag = own + tag
    return word[1:] if opens else word, tag, opens
