"""What a person said about the columns of a file, and how the roles that were found are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebear.data.labeled.columns import ColumnSample
from forebear.data.labeled.row_to_example import ColumnRef, LabeledFormat
from forebear.errors import InputError

ColumnAssignment = tuple[
    str, LabeledFormat, list[str]
]  # the task, the form with all its columns, and notes: which column is what


@dataclass(frozen=True)
class ColumnHints:
    """What a person said about a file."""

    file: str
    task: str | None
    texts: tuple[ColumnRef, ...]
    label: ColumnRef | None
    choices: tuple[ColumnRef, ...]
    multi_label: bool | str
    is_regression: bool | None

    def locate(self, column: ColumnRef, width: int) -> int:
        """The number of a column that can be named by nothing else."""
        if str(column).isascii() and str(column).isdecimal() and 1 <= int(column) <= width:
            return int(column)
        raise InputError(
            f"there is no column {column}; a row has {width}", file=self.file, hint="give its number, counted from 1"
        )

    def find_column(self, columns: Sequence[ColumnSample], wanted: ColumnRef) -> ColumnSample:
        """The column that a person named: as the file calls it, or by its number."""
        for column in columns:
            if column.column == wanted or str(column.column) == str(wanted):
                return column
        number = int(wanted) if str(wanted).isascii() and str(wanted).isdecimal() else 0
        if 1 <= number <= len(columns):
            return columns[number - 1]
        there = ", ".join(str(column.column) for column in columns)
        raise InputError(f"there is no column {wanted!r}; there are: {there[:300]}", file=self.file, hint="choose one")


def column_name(column: ColumnSample) -> str:
    return f"column {column.column}" if isinstance(column.column, int) else repr(column.column)


def _name_of(columns: list[ColumnSample], used: Sequence[ColumnSample | None]) -> ColumnRef | None:
    """The column of the examples' own names, if there is just one: all different, and called so."""
    names = [column for column in columns if column not in used and column.name and column.is_id]
    names = [column for column in names if column.text_values and column.num_distinct == len(column.text_values)]
    return names[0].column if len(names) == 1 else None


def finish_assignment(
    columns: list[ColumnSample], form: LabeledFormat, roles: list[tuple[ColumnSample, str]], notes: list[str]
) -> tuple[LabeledFormat, list[str]]:
    """The form with its names, and a sentence about who is what, with what is not used."""
    used = [column for column, _ in roles]
    name = _name_of(columns, used)
    told = ", ".join(
        f"{column_name(column)} {'is ' * (number == 0)}{role}" for number, (column, role) in enumerate(roles)
    )
    rest = [
        column for column in columns if column not in used and column.column != name and not _is_inside(column, used)
    ]
    if rest:
        notes = [*notes, f"not used: {', '.join(map(column_name, rest))}"]
    return replace(form, name=name), [told, *notes]


def _is_inside(column: ColumnSample, used: list[ColumnSample]) -> bool:
    """Whether a field is part of another one that is used, or the other way round."""
    one = str(column.column)
    return any(one.startswith(f"{it.column}.") or str(it.column).startswith(f"{one}.") for it in used)
