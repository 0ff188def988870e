"""Tables with one example a row: separated by tabs and taken as they stand, or CSV with its quotes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from forebear.errors import BadInput
from forebear.tasks.examples import Example
from forebear.tasks.files.forms import Bad, Column, Form, Wanted
from forebear.tasks.files.making import maker, place_at
from forebear.text.blocks import Blocks
from forebear.text.records import numbered_lines
from forebear.text.sources import Source

LONGEST_RECORD = 10_000  # lines; a quote that stays open for longer was none
UNCLOSED = "a quote that opens here is never closed"


def examples(source: Source, wanted: Wanted) -> Iterator[Example]:
    """One example a row. Blank lines and rows of empty cells are nothing, a row of another width is bad."""
    blocks, make, faults, file = wanted.blocks(source), maker(wanted), wanted.faults, source.name
    plan: _Plan | None = None
    for line, row in rows(blocks, wanted.form):
        if not isinstance(row, list):
            faults.leave_out(line, row)
            continue
        if plan is None:
            plan = _Plan.of(row, wanted, file, line)
            if wanted.form.header:
                continue
        if len(row) != plan.width and (reason := plan.misfit(row)):
            faults.leave_out(line, reason)
            continue
        if row == plan.header:
            faults.leave_out(line, "the header stands here once more")
            continue
        row.append(None)  # pyright: ignore[reportArgumentType] - the value of every column that is not there
        values = plan.values(row)
        name = values[-1]
        try:
            yield make(values, place_at(file, line, name))
        except Bad as bad:
            faults.leave_out(line, str(bad), name)


def rows(blocks: Blocks, form: Form) -> Iterator[tuple[int, list[str] | str]]:
    """(line, cells) of every row that is not blank, or (line, what is wrong with it)."""
    if form.kind == "csv":
        yield from _quoted(blocks, form.delimiter)
        return
    # Tab-separated text is seldom quoted on purpose, and a stray quote would swallow what follows.
    for line, text, _ in numbered_lines(blocks):
        if text and not text.isspace():
            yield line, text.split("\t")


def _quoted(blocks: Blocks, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    csv.field_size_limit(sys.maxsize)
    begin = end = 0  # lines of the record at hand

    def lines() -> Iterator[str]:
        nonlocal end
        for end, line, ending in numbered_lines(blocks):
            if end - begin > LONGEST_RECORD:
                raise _unclosed(blocks, begin)
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
                raise _unclosed(blocks, begin) from error
            yield begin, f"not well-formed CSV: {error}"
            continue
        if any(cell and not cell.isspace() for cell in row):
            yield begin, row


def _unclosed(blocks: Blocks, line: int) -> BadInput:
    remedy = "close it, or double the quotes that stand inside a quoted cell"
    return BadInput(UNCLOSED, file=blocks.source.name, line=line, remedy=remedy)


@dataclass(frozen=True)
class _Plan:
    """Where the columns of one file are."""

    width: int
    header: list[str] | None
    values: itemgetter  # of a row behind whose last cell stands None, for the columns that are not there
    may_lack_label: bool  # at the end of a row

    @classmethod
    def of(cls, first: list[str], wanted: Wanted, file: str, line: int) -> _Plan:
        form, is_wanted = wanted.form, wanted.labels == "wanted"
        header = [cell.strip() for cell in first] if form.header else None
        width = len(first) if form.header else form.width or len(first)
        gap = 0  # the column of labels, if that and nothing else is missing: what stood behind it moves forward
        if not form.header and not is_wanted and isinstance(form.label, int) and len(first) == width - 1:
            gap = form.label if form.label < width else 0
        places: list[int] = []
        for column in form.columns():
            place = _place(column, header, width, gap)
            is_free = column is None or column in (form.start, form.name) or (column == form.label and not is_wanted)
            if place is None and not is_free:
                raise _absent(column, header, width, file, line)
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


def _place(column: Column | None, header: list[str] | None, width: int, gap: int) -> int | None:
    """The index of a column in this file, if it is there."""
    if isinstance(column, int):
        return column - 1 - (0 < gap < column) if column <= width and column != gap else None
    return header.index(column) if header is not None and column in header else None


def _absent(column: Column | None, header: list[str] | None, width: int, file: str, line: int) -> BadInput:
    there = f"a row has {width}" if header is None else f"the header is: {' | '.join(header)[:200]}"
    called = f"called {column!r}" if isinstance(column, str) else f"number {column}"
    remedy = "all files of a task are written alike: mend the file, or name its columns"
    return BadInput(f"there is no column {called}; {there}", file=file, line=line, remedy=remedy)
