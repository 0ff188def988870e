"""Columns of tagging, answering and choice, which are found by their names and by what lists they hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from forebear.data.labeled import columns as known
from forebear.data.labeled.columns import ColumnSample, find_choice_columns, find_column_named
from forebear.data.labeled.roles import ColumnAssignment, ColumnHints, finish_assignment
from forebear.data.labeled.row_to_example import BadRowError, LabeledFormat, choice_index, label_text, parse_choices


def assign_tagging_columns(
    columns: list[ColumnSample], asking: ColumnHints, form: LabeledFormat
) -> ColumnAssignment | None:
    """Lists of words and of as many tags; or a text and a tag for each of its characters."""
    tags = asking.find_column(columns, asking.label) if asking.label is not None else None
    words = asking.find_column(columns, asking.texts[0]) if asking.texts else None
    lists = [column for column in columns if column.lists and column is not words]
    tags = tags or find_column_named(lists, known.TAGS)
    if tags is None:
        return None
    able = [words] if words else [column for column in columns if column is not tags and _fits(column, tags)]
    words = find_column_named(able, known.WORDS) or (able[0] if able else None)
    if words is None or not _fits(words, tags):
        return None
    kinds = Counter(str(tag) for tags_of_one in tags.lists for tag in tags_of_one)
    shown = ", ".join(sorted(kinds)[:12]) + (", …" if len(kinds) > 12 else "")
    roles = [(words, "the words"), (tags, f"the tags ({len(kinds)} in the first rows: {shown})")]
    form = replace(form, texts=(words.column,), label=tags.column)
    return "tagging", *finish_assignment(columns, form, roles, [])


def _fits(words: ColumnSample, tags: ColumnSample) -> bool:
    pairs = [(one, other) for one, other in zip(words.values, tags.values, strict=True) if one and other]
    alike = [isinstance(one, list | str) and isinstance(other, list) and len(one) == len(other) for one, other in pairs]
    return bool(alike) and sum(alike) >= 0.9 * len(alike)


def assign_qa_columns(columns: list[ColumnSample], asking: ColumnHints, form: LabeledFormat) -> ColumnAssignment | None:
    """A question and a passage by name, and answers that stand in the passage."""
    if asking.texts:
        if len(asking.texts) != 2 or asking.task != "answering":
            return None
        question, passage = (asking.find_column(columns, text) for text in asking.texts)
    else:
        texts = [column for column in columns if column.is_text]
        question = find_column_named(texts, known.QUESTION)
        passage = find_column_named([column for column in texts if column is not question], known.PASSAGE)
    if question is None or passage is None:
        return None
    answer = (
        asking.find_column(columns, asking.label)
        if asking.label is not None
        else find_column_named(columns, known.ANSWER)
    )
    if answer is None and (asking.task is None and find_column_named(columns, known.LABEL) is not None):
        return None  # a label about a question and a passage: a pair
    if answer is not None and asking.task is None and answer.text_values and not _stands(answer, passage):
        return None  # yes or no
    roles = [(question, "the question"), (passage, "the passage")]
    start = find_column_named(columns, known.START)
    notes = [] if answer is not None else ["no column looks like an answer"]
    if answer is not None:
        roles.append((answer, "the answer"))
        if start is not None:
            roles.append((start, "where it begins"))
        elif answer.text_values:
            notes.append("nothing says where an answer begins: it is taken where it first stands in the passage")
    form = replace(form, texts=(question.column, passage.column), label=answer.column if answer else None)
    form = replace(form, start=start.column if start and answer else None)
    return "answering", *finish_assignment(columns, form, roles, notes)


def _stands(answer: ColumnSample, passage: ColumnSample) -> bool:
    pairs = [pair for pair in zip(answer.values, passage.values, strict=True) if pair[0]]
    found = [isinstance(one, str) and isinstance(other, str) and one in other for one, other in pairs]
    return sum(found) >= len(found) / 2


def assign_choice_columns(
    columns: list[ColumnSample], asking: ColumnHints, form: LabeledFormat
) -> ColumnAssignment | None:
    """A text, a list of choices or a column for each, and which is right."""
    lists = [column for column in columns if column.lists or any(isinstance(value, dict) for value in column.values)]
    if asking.choices:
        choices = [asking.find_column(columns, choice) for choice in asking.choices]
    elif (one := find_column_named(lists, known.CHOICES)) is not None:
        choices = [one]
    else:
        choices = find_choice_columns(columns)
    if not choices and asking.task == "choice" and len(columns) >= 4 and not columns[0].name:
        choices = columns[1:-1]  # no names: the text, what may follow, and the right one
    rest = [column for column in columns if column not in choices]
    able = [column for column in rest if column.is_text]
    texts = [asking.find_column(columns, text) for text in asking.texts]
    if not texts and (text := find_column_named(able, known.BEGINNING) or (able[0] if able else None)) is not None:
        texts = [text]
    if not choices or not texts:
        return None
    right = (
        asking.find_column(columns, asking.label) if asking.label is not None else find_column_named(rest, known.RIGHT)
    )
    if right is None and not columns[0].name and columns[-1] in rest:
        right = columns[-1]
    right = None if right in texts else right
    roles = [(text, "the text") for text in texts]
    roles += [(choices[0], "the choices")] if len(choices) == 1 else [(it, "a choice") for it in choices]
    notes: list[str] = [] if right else ["no column looks like the right choice"]
    if right is not None:
        first, told = _first(right, choices)
        form = replace(form, first=first)
        roles.append((right, f"the right one ({told})"))
    form = replace(form, texts=tuple(it.column for it in texts), choices=tuple(it.column for it in choices))
    form = replace(form, label=right.column if right else None)
    return "choice", *finish_assignment(columns, form, roles, notes)


def _first(right: ColumnSample, choices: list[ColumnSample]) -> tuple[str, str]:
    """What the first choice is called where the right one is named, and that in words."""
    counts, spelled, values = [], 0, []
    for row, value in enumerate(right.values):
        try:
            texts, marks = parse_choices([column.values[row] for column in choices])
            written = label_text(value)
        except BadRowError:
            continue
        if written is None or written in marks:
            continue
        values.append(written)
        counts.append(len(texts))
        spelled += written in [text.strip() for text in texts] and isinstance(value, str)
    for first, told in (("0", "counted from 0"), ("1", "counted from 1"), ("A", "A is the first")):
        numbers = [choice_index(value, first) for value in values]
        inside = [number is not None and 0 <= number < count for number, count in zip(numbers, counts, strict=True)]
        # Where 0 never is right in many rows, the first is called 1, though no row reaches beyond the last.
        is_odd = first == "0" and len(values) >= 20 and 0 not in numbers
        if values and all(inside) and not is_odd and not (spelled == len(values) and right.num_distinct > max(counts)):
            return first, told
    if spelled and spelled >= len(values) / 2:
        return "", "spelled out"
    return "0", "counted from 0"
