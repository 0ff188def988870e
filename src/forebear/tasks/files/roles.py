"""What a person said about the columns of a file, and how the roles that were found are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebear.errors import BadInput
from forebear.tasks.files.columns import Sampled
from forebear.tasks.files.forms import Column, Form

Assigned = tuple[str, Form, list[str]]  # the task, the form with all its columns, and notes: which column is what


@dataclass(frozen=True)
class Asking:
    """What a person said about a file."""

    file: str
    task: str | None
    texts: tuple[Column, ...]
    label: Column | None
    choices: tuple[Column, ...]
    several: bool | str
    number: bool | None

    def place(self, column: Column, width: int) -> int:
        """The number of a column that can be named by nothing else."""
        if str(column).isascii() and str(column).isdecimal() and 1 <= int(column) <= width:
            return int(column)
        raise BadInput(
            f"there is no column {column}; a row has {width}", file=self.file, remedy="give its number, counted from 1"
        )

    def find(self, columns: Sequence[Sampled], wanted: Column) -> Sampled:
        """The column that a person named: as the file calls it, or by its number."""
        for column in columns:
            if column.column == wanted or str(column.column) == str(wanted):
                return column
        number = int(wanted) if str(wanted).isascii() and str(wanted).isdecimal() else 0
        if 1 <= number <= len(columns):
            return columns[number - 1]
        there = ", ".join(str(column.column) for column in columns)
        raise BadInput(f"there is no column {wanted!r}; there are: {there[:300]}", file=self.file, remedy="choose one")


def called(column: Sampled) -> str:
    return f"column {column.column}" if isinstance(column.column, int) else repr(column.column)


def _name_of(columns: list[Sampled], used: Sequence[Sampled | None]) -> Column | None:
    """The column of the examples' own names, if there is just one: all different, and called so."""
    names = [column for column in columns if column not in used and column.name and column.is_id]
    names = [column for column in names if column.written and column.distinct == len(column.written)]
    return names[0].column if len(names) == 1 else None


def finished(
    columns: list[Sampled], form: Form, roles: list[tuple[Sampled, str]], notes: list[str]
) -> tuple[Form, list[str]]:
    """The form with its names, and a sentence about who is what, with what is not used."""
    used = [column for column, _ in roles]
    name = _name_of(columns, used)
    told = ", ".join(f"{called(column)} {'is ' * (number == 0)}{role}" for number, (column, role) in enumerate(roles))
    rest = [
        column for column in columns if column not in used and column.column != name and not _is_inside(column, used)
    ]
    if rest:
        notes = [*notes, f"not used: {', '.join(map(called, rest))}"]
    return replace(form, name=name), [told, *notes]


def _is_inside(column: Sampled, used: list[Sampled]) -> bool:
    """Whether a field is part of another one that is used, or the other way round."""
    one = str(column.column)
    return any(one.startswith(f"{it.column}.") or str(it.column).startswith(f"{one}.") for it in used)
