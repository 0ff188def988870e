"""JSON objects with one example each: one a line, or in an array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from forebear.errors import BadInput
from forebear.tasks.examples import Example, Place
from forebear.tasks.files.forms import HALF, Bad, Column, Wanted, shown
from forebear.tasks.files.making import maker, scalar
from forebear.text.blocks import Blocks
from forebear.text.records import SURROGATE, numbered_lines
from forebear.text.sources import Source

SPACES = re.compile(r"[ \t\n\r]*")
HALF_CHARACTER = "an escape such as \\ud800 spells half a character"


def examples(source: Source, wanted: Wanted) -> Iterator[Example]:
    """One example an object."""
    blocks, make, faults, form = wanted.blocks(source), maker(wanted), wanted.faults, wanted.form
    columns = form.columns()
    given = records(blocks) if form.kind == "jsonl" else elements(blocks)
    for line, record in given:
        name = None
        try:
            if isinstance(record, Broken):
                record = record.mended(wanted.on_bad_bytes)
            values = [value_in(record, column) for column in columns]
            name = None if values[-1] is None else scalar(values[-1])
            yield make(values, Place(source.name, line, name))
        except Bad as bad:
            faults.leave_out(line, str(bad), name)


class Broken:
    """A record that is not whole: no JSON, no object, or with halves of characters in it."""

    def __init__(self, reason: str, record: Any = None) -> None:
        self.reason, self.record = reason, record

    def mended(self, on_bad_bytes: str) -> Any:
        """With � for halves of characters, where the reader was told to replace what is bad."""
        if self.record is None or on_bad_bytes == "fail":
            raise Bad(self.reason)
        mark = "\ufffd" if on_bad_bytes == "replace" else ""
        return json.loads(SURROGATE.sub(mark, json.dumps(self.record, ensure_ascii=False)))


def records(blocks: Blocks) -> Iterator[tuple[int, Any]]:
    """(line, object) of every line that is not blank; what is none is Broken."""
    for line, text, _ in numbered_lines(blocks):
        if not text or text.isspace():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            record = Broken(f"not a JSON value: {error}")
        yield line, _whole(record, text)


def _whole(record: Any, text: str) -> Any:
    if isinstance(record, Broken):
        return record
    if not isinstance(record, dict):
        return Broken(f"{shown(record)} is no JSON object")
    if HALF.search(text) and SURROGATE.search(json.dumps(record, ensure_ascii=False)):
        return Broken(HALF_CHARACTER, record)
    return record


def elements(blocks: Blocks) -> Iterator[tuple[int, Any]]:
    """(line, object) of every element of one array. The text is read whole, its objects are made one by one."""
    text, file = "".join(blocks), blocks.source.name
    decoder = json.JSONDecoder()
    at, line, counted = _skip(text, 0), 1, 0

    def number(place: int) -> int:
        nonlocal line, counted
        line, counted = line + text.count("\n", counted, place), place
        return line

    def broken(what: str) -> BadInput:
        return BadInput(what, file=file, line=number(at), remedy="an array of objects is expected: [{…}, {…}]")

    if text[at : at + 1] != "[":
        raise broken("not a JSON array")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        try:
            record, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise broken(f"not a JSON value: {error}") from error
        yield number(at), _whole(record, text[at:end])
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise broken("the array has no end" if at == len(text) else "a comma is missing between two objects")
    if text[at + 1 :].strip():
        raise broken("something stands behind the end of the array")


def _skip(text: str, at: int) -> int:
    match = SPACES.match(text, at)
    return match.end() if match else at


def value_in(record: dict[str, Any], column: Column | None) -> Any:
    """The value of a field, also of one inside another (`answer.text`); None where there is none."""
    if column in record:
        return record[column]
    if not isinstance(column, str) or "." not in column:
        return None
    value: Any = record
    for key in column.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
