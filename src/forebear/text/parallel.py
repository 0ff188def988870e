"""Parallel text: two files line by line, a table or JSONL, brought into two files whose lines belong together."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.text.alignment import first_suspicious
from forebear.text.aside import cache, disk_told, sync_folder, synced, write_json
from forebear.text.blocks import Blocks, OnBadBytes
from forebear.text.ledger import Ledger, size
from forebear.text.reading import INVISIBLE, Reading
from forebear.text.records import numbered_lines
from forebear.text.sources import Source, find, fingerprint

FORMAT = "forebear-pairs/1"
SIDES = ("source.txt", "target.txt")
FACTS = "pairs.json"
LINE_ENDS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]++")
SUSPICIOUS = 60  # characters of a suspicious line that are shown
UNSURE = 2  # of the last lines their lengths alone cannot tell whether one is missing before or behind them
NAMES = (("source", "target"), ("src", "tgt"), ("source_text", "target_text"), ("input", "output"))
LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")  # de, zho, zh-CN

Progress = Callable[[int, int], object]
Row = tuple[int, str, str]  # line, and the two sides


@dataclass(frozen=True)
class PairReading:
    """How parallel text is read. `columns` names those of the two sides (de,en), or numbers them from 1 (1,2)."""

    columns: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def identity(self) -> dict[str, str]:
        """Its part of a key in the cache; the names in it are data and stay when fields are renamed."""
        return {"columns": self.columns, "encoding": self.encoding, "on_bad_bytes": self.on_bad_bytes}

    def read(self, paths: Sequence[str], ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """(line, source, target) of all pairs; what lacks a side is dropped into the ledger. Two files must be equally
        long."""
        if len(paths) == 2 and os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
            remedy = "give the translations as the second file"
            raise BadInput("the same file stands for both sides", file=paths[0], remedy=remedy)
        sources = list(find(paths))
        if len(sources) > 2:
            what = f"{len(sources)} files are no parallel text"
            raise BadInput(what, remedy="give two files, line by line, or one table or JSONL file")
        if len(sources) == 2 and self.columns:
            what = "--columns means nothing to two files that are read line by line"
            raise BadInput(what, file=sources[0].name, remedy="leave it out")
        first, last = sources[0], sources[-1]
        rows = self._two_files(first, last, ledger) if len(sources) == 2 else self._one_file(first, ledger)
        books, name = ledger.stage("read"), sources[0].name
        for line, *both in rows:
            one, two = (LINE_ENDS.sub(" ", str(text)).strip(INVISIBLE) for text in both)
            units = {"documents": 1, "characters": len(one) + len(two), "bytes": size(one) + size(two)}
            books.take(**units)
            if one and two:
                books.give(**units)
                yield line, one, two
            else:
                reason = "both sides are empty" if not one and not two else "one side is empty"
                ledger.drop("read", reason, file=name, line=line, excerpt=one or two, **units)

    def _two_files(self, one: Source, two: Source, ledger: Ledger) -> Iterator[Row]:
        sizes = array("i"), array("i")
        for line, (left, right) in enumerate(zip_longest(self._lines(one, ledger), self._lines(two, ledger)), 1):
            for sizes_here, text in zip(sizes, (left, right), strict=True):
                if text is not None:
                    sizes_here.append(len(text))
            if left is not None and right is not None:
                yield line, left, right
        if len(sizes[0]) != len(sizes[1]):
            raise self._unequal(one, two, *sizes)

    def _unequal(self, one: Source, two: Source, left: Sequence[int], right: Sequence[int]) -> BadInput:
        line, shorter = first_suspicious(left, right), min(len(left), len(right))
        if line > shorter - UNSURE:  # all that is there fits: the end is missing
            line = shorter + 1
        shown = []
        for source in (one, two):
            lines = (text for number, text in enumerate(self._lines(source, Ledger()), 1) if number == line)
            shown.append(f"{source.name}: {(next(lines, None) or '(nothing)')[:SUSPICIOUS]!r}")
        return BadInput(
            f"{one.name} has {len(left):,} lines and {two.name} {len(right):,}: they are not parallel. By their "
            f"lengths, lines seem to part at line {line:,}: {'; '.join(shown)}",
            file=one.name,
            line=line,
            remedy="look there for a line that is missing or doubled; both files need a line for each pair",
        )

    def _lines(self, source: Source, ledger: Ledger) -> Iterator[str]:
        blocks = Blocks(source, self.encoding, self.on_bad_bytes, ledger)
        return (line for _, line, _ in numbered_lines(blocks))

    def _one_file(self, source: Source, ledger: Ledger) -> Iterator[Row]:
        form = Reading().form_of(source)
        blocks = Blocks(source, self.encoding, self.on_bad_bytes, ledger)
        return self._from_jsonl(blocks) if form == "jsonl" else self._from_table(blocks, form)

    def _from_jsonl(self, blocks: Blocks) -> Iterator[Row]:
        name = blocks.source.name
        fields: tuple[str, str] | None = self._named()
        for line, text, _ in numbered_lines(blocks):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                remedy = "one JSON object a line is expected"
                raise BadInput(f"not a JSON value: {error}", file=name, line=line, remedy=remedy) from error
            fields = fields or _fields_of(record, name, line)
            both = [_field(record, field, name, line) for field in fields]
            yield line, both[0], both[1]

    def _from_table(self, blocks: Blocks, form: str) -> Iterator[Row]:
        name, named = blocks.source.name, self._named()
        places: tuple[int, int] | None = None
        for line, row in _rows(blocks, form):
            if places is None:
                places, is_header = _columns(row, named, name, line)
                if is_header:
                    continue
            if max(places) >= len(row):
                what = f"the row has {len(row)} columns, column {max(places) + 1} is wanted"
                raise BadInput(what, file=name, line=line, remedy="mend the row, or name others with --columns")
            yield line, row[places[0]], row[places[1]]

    def _named(self) -> tuple[str, str] | None:
        if not self.columns:
            return None
        names = [name.strip() for name in self.columns.split(",")]
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            remedy = "name two, the one to translate from first: --columns de,en or --columns 1,2"
            raise BadInput(f"--columns is {self.columns!r}", remedy=remedy)
        return names[0], names[1]


def _rows(blocks: Blocks, form: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with their lines; what is not CSV is divided by tabs, without quoting. Blank ones are not."""
    lines = numbered_lines(blocks)
    if form != "csv":
        yield from ((line, text.split("\t")) for line, text, _ in lines if text.strip() or "\t" in text)
        return
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((text + end for _, text, end in lines), strict=True)
    try:
        line = 1
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        place = {"file": blocks.source.name, "line": reader.line_num}
        raise BadInput(f"not well-formed CSV: {error}", **place, remedy="mend the quoting") from error


def _columns(first: list[str], named: tuple[str, str] | None, file: str, line: int) -> tuple[tuple[int, int], bool]:
    """Which columns hold the two sides, and whether this first row is a header."""
    if named is None:
        if len(first) < 2:
            what = "there is one column, and a pair needs two"
            raise BadInput(what, file=file, line=line, remedy="divide the sides by a tab, or give two files")
        cells = tuple(cell.strip().lower() for cell in first[:2])
        return (0, 1), cells in NAMES or (cells[0] != cells[1] and all(map(LANGUAGE.fullmatch, cells)))
    if all(name.isdecimal() and name.isascii() for name in named):
        places = int(named[0]) - 1, int(named[1]) - 1
        if not all(0 <= place < len(first) for place in places):
            what = f"there is no column {max(map(int, named))}; the first row has {len(first)}"
            raise BadInput(what, file=file, line=line, remedy="count from 1")
        return places, False
    for name in named:
        if name not in first:
            what = f"no column is called {name!r}; the first row is: {' | '.join(first)[:200]}"
            raise BadInput(what, file=file, line=line, remedy="give --columns by name, or by number from 1")
    return (first.index(named[0]), first.index(named[1])), True


def _fields_of(record: Any, file: str, line: int) -> tuple[str, str]:
    """The two fields of a record that are the sides of a pair, where nobody says."""
    if isinstance(record, dict):
        for one, two in NAMES:
            if one in record and two in record:
                return one, two
        inner = record.get("translation")
        if isinstance(inner, dict) and len(inner) == 2:
            one, two = inner
            return f"translation.{one}", f"translation.{two}"
        texts = [name for name, value in record.items() if isinstance(value, str)]
        if len(texts) == 2:
            return texts[0], texts[1]
    there = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
    remedy = "name the two fields: --columns de,en (inner ones as translation.de,translation.en)"
    raise BadInput(f"which fields are the two sides? The record has: {there}", file=file, line=line, remedy=remedy)


def _field(record: Any, field: str, file: str, line: int) -> str:
    value = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            there = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            remedy = "name two that there are with --columns"
            raise BadInput(f"there is no field {field!r}; there is: {there}", file=file, line=line, remedy=remedy)
        value = value[key]
    if not isinstance(value, str):
        what = f"field {field!r} is {json.dumps(value)[:40]}, not text"
        raise BadInput(what, file=file, line=line, remedy="name the two fields with --columns, or mend the record")
    return value


@dataclass(frozen=True)
class TwoFiles:
    """A folder with the two sides as text, a line each, none of them empty, and the books of how they were read."""

    folder: Path
    facts: dict[str, Any]

    @property
    def paths(self) -> tuple[str, str]:
        one, two = (str(self.folder / side) for side in SIDES)
        return one, two

    @property
    def count(self) -> int:
        return self.facts["pairs"]

    @property
    def ledger(self) -> Ledger:
        return Ledger.from_json(self.facts["ledger"])


def two_files(paths: Sequence[str], reading: PairReading) -> TwoFiles:
    """The pairs of these files, read once and kept under what they say and how they are read."""
    text = fingerprint(find(paths))
    told = json.dumps([FORMAT, text, reading.identity(), [Reading().form_of(one) for one in find(paths)]])
    folder = cache() / "pairs" / hashlib.sha256(told.encode()).hexdigest()[:32]
    with disk_told(folder):
        if not (folder / FACTS).is_file():
            _written(paths, reading, folder)
        return TwoFiles(folder, json.loads((folder / FACTS).read_text()))


def _written(paths: Sequence[str], reading: PairReading, folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    ledger, count = Ledger(), 0
    try:
        with open(aside / SIDES[0], "w", encoding="utf-8") as one, open(aside / SIDES[1], "w", encoding="utf-8") as two:
            for _, source, target in reading.read(paths, ledger):
                one.write(source + "\n")
                two.write(target + "\n")
                count += 1
            synced(one)
            synced(two)
        if not count:
            raise BadInput("there is no pair of texts in it", file=paths[0], remedy="give text in both languages")
        ledger.check()
        write_json(aside / FACTS, {"format": FORMAT, "pairs": count, "ledger": ledger.to_json()})
        if not folder.exists():  # another process may have been quicker
            aside.rename(folder)
            sync_folder(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
