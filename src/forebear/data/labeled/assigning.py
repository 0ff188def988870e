"""Which column has which role in which task: by what a person said, by the columns' names, by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from forebear.data.labeled import roles_by_name
from forebear.data.labeled.columns import ColumnSample, find_label_column, find_text_columns
from forebear.data.labeled.roles import ColumnAssignment, ColumnHints, column_name, finish_assignment
from forebear.data.labeled.row_to_example import BadRowError, LabeledFormat, parse_json_list
from forebear.errors import InputError

SEPARATORS = ("|", ";", "；", "、", ",", "，", " ")
WAYS: dict[str, Callable[[list[ColumnSample], ColumnHints, LabeledFormat], ColumnAssignment | None]] = {
    "tagging": roles_by_name.assign_tagging_columns,
    "choice": roles_by_name.assign_choice_columns,
    "answering": roles_by_name.assign_qa_columns,
}


def assign_columns(columns: list[ColumnSample], asking: ColumnHints, form: LabeledFormat) -> ColumnAssignment:
    """The task and the form with all roles; the first note says which column is what."""
    if asking.task in WAYS:
        found = WAYS[asking.task](columns, asking, form)
        return found or _refuse(columns, asking, form)
    if asking.task is None:
        for way in WAYS.values():
            if (found := way(columns, asking, form)) is not None:
                return found
    return _labelled(columns, asking, form)


def _refuse(columns: list[ColumnSample], asking: ColumnHints, form: LabeledFormat) -> ColumnAssignment:
    """The task that was asked for does not fit; says which would."""
    lacking = {
        "tagging": "a list of words and a list of tags",
        "choice": "a text and at least two choices",
        "answering": "a question, a passage and an answer",
    }[asking.task or ""]
    try:
        likely = assign_columns(columns, replace(asking, task=None), form)[0]
    except InputError:
        likely = ""
    hint = "name the columns with --text-column, --choice-column and --label-column"
    if likely and likely != asking.task:
        hint = f"the likely task is {likely}: --task {likely}; or {hint}"
    there = ", ".join(str(column.column) for column in columns)
    raise InputError(f"{asking.task} needs {lacking}; the columns are: {there[:300]}", file=asking.file, hint=hint)


def _labelled(columns: list[ColumnSample], asking: ColumnHints, form: LabeledFormat) -> ColumnAssignment:
    """Classification of a text or of two."""
    given = [asking.find_column(columns, text) for text in asking.texts]
    label = asking.find_column(columns, asking.label) if asking.label is not None else None
    label = label or find_label_column([column for column in columns if column not in given])
    texts = given or find_text_columns([column for column in columns if column is not label])
    if asking.task == "pairs" and len(texts) == 1 and not given:
        rest = [column for column in columns if column.is_text and column not in (label, *texts)]
        texts = sorted([*texts, *rest], key=columns.index) if len(rest) == 1 else texts
    if label is None and not texts:
        raise InputError("no column holds text", file=asking.file, hint="name it with --text-column")
    task = asking.task or {1: "classification", 2: "pairs"}.get(len(texts), "")
    if len(texts) != {"classification": 1, "pairs": 2}.get(task):
        raise _wrong_number(texts, asking)
    notes: list[str] = []
    roles = [(texts[0], "the text")] if len(texts) == 1 else [(texts[0], "the first text"), (texts[1], "the second")]
    if label is None:
        notes.append("no column looks like a label")
    else:
        form, told = _with_label(label, asking, form)
        roles.append((label, told))
    form = replace(form, texts=tuple(text.column for text in texts), label=label.column if label else None)
    return task, *finish_assignment(columns, form, roles, notes)


def _wrong_number(texts: list[ColumnSample], asking: ColumnHints) -> InputError:
    there = ", ".join(map(column_name, texts)) or "none"
    what = f"{len(texts)} column{'s' * (len(texts) != 1)} may hold text ({there})"
    likely = {1: "classification", 2: "pairs"}.get(len(texts))
    if asking.task is not None and likely is not None:
        hint = f"the likely task is {likely}: --task {likely}; or name the columns with --text-column"
        return InputError(f"{what}, which does not fit {asking.task}", file=asking.file, hint=hint)
    return InputError(what, file=asking.file, hint="say which: --text-column, once or twice")


def _with_label(label: ColumnSample, asking: ColumnHints, form: LabeledFormat) -> tuple[LabeledFormat, str]:
    """What kind of label it is, and that in words."""
    is_number = (
        asking.is_regression if asking.is_regression is not None else bool(label.numeric_values) and label.has_decimals
    )
    is_json = (
        form.kind in ("tsv", "csv") and bool(label.text_values) and all(_is_list(cell) for cell in label.text_values)
    )
    if asking.multi_label or label.lists or is_json:
        separator = asking.multi_label if isinstance(asking.multi_label, str) else ""
        if not separator and not label.lists and not is_json:
            separator = next((mark for mark in SEPARATORS if any(mark in cell for cell in label.text_values)), ",")
        form = replace(form, answer="several", separator=separator)
        if separator:
            parts = [part.strip() for cell in label.text_values for part in cell.split(separator)]
        else:
            lists = label.lists or [parse_json_list(cell) for cell in label.text_values]
            parts = [str(part) for one in lists for part in one]
        between = f" between {separator!r}" if separator else ", a list"
        return form, f"the labels{between} ({_classes(Counter(filter(None, parts)), len(label.values))})"
    if is_number:
        return replace(form, answer="number"), f"the label, a number (such as {', '.join(label.text_values[:3])})"
    return form, f"the label ({_classes(Counter(label.text_values), len(label.values))})"


def _classes(found: Counter[str], rows: int) -> str:
    shown = ", ".join(sorted(found)[:12]) + (", …" if len(found) > 12 else "")
    return f"{len(found)} class{'es' * (len(found) != 1)} in the first {rows} rows: {shown}"


def _is_list(cell: str) -> bool:
    if cell[:1] != "[":
        return False
    try:
        return bool(parse_json_list(cell)) or True
    except BadRowError:
        return False
