"""Raw values of a row or a record become an example, or the reason why they cannot."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from forebear.tasks.examples import Asked, Choices, Example, Labelled, Place, Tagged
from forebear.tasks.files.finding import answers_in, placed
from forebear.tasks.files.forms import Bad, Form, Wanted, shown, text_of

Label = str | tuple[str, ...] | float | None
Make = Callable[[Sequence[Any], Place], Example]  # the values stand in the order of Form.columns()
REMEMBERED = 10_000  # spellings of labels; a column with more of them is none of labels


def swiftly(kind: Any) -> Callable[[Any, Any, Any], Any]:
    """Makes frozen dataclasses of three slots in half the time that their own __init__ takes."""
    new, (first, second, third) = object.__new__, (vars(kind)[field.name].__set__ for field in fields(kind))

    def make(one: Any, two: Any, three: Any) -> Any:
        made = new(kind)
        first(made, one)
        second(made, two)
        third(made, three)
        return made

    return make


place_at: Callable[[str, int | None, str | None], Place] = swiftly(Place)
labelled: Callable[[tuple[str, ...], Label, Place], Labelled] = swiftly(Labelled)


def maker(wanted: Wanted) -> Make:
    """The function that makes examples of the values of one row; it raises Bad with the reason."""
    makers = {"answering": _asked, "tagging": _tagged, "choice": _choices}
    return makers.get(wanted.task, _labelled)(wanted)


def _labelled(wanted: Wanted) -> Make:
    label_of = _label_reader(wanted)

    def one(values: Sequence[Any], place: Place) -> Labelled:
        text, label = values[0], values[1]
        if text.__class__ is not str or not text or text.isspace():
            text = text_of(text)
        return labelled((text,), label_of(label), place)

    def two(values: Sequence[Any], place: Place) -> Labelled:
        texts = text_of(values[0], "first text"), text_of(values[1], "second text")
        return labelled(texts, label_of(values[2]), place)

    return two if wanted.task == "pairs" else one


def _label_reader(wanted: Wanted) -> Callable[[Any], Label]:
    """A label as it is meant, from a cell or a JSON value."""
    if wanted.labels == "absent":
        return lambda value: None
    parse = {"one": _class, "several": _several, "number": _number}[wanted.form.answer]
    remembered: dict[str, Label] = {}

    def read(value: Any) -> Label:
        if value.__class__ is str and (label := remembered.get(value)) is not None:
            return label
        label = parse(value, wanted.form)
        if label is None:
            if wanted.labels == "wanted":
                raise Bad("there is no label")
            return None
        if wanted.known is not None and not isinstance(label, float):
            _check_known([label] if isinstance(label, str) else label, wanted.known)
        if value.__class__ is str and len(remembered) < REMEMBERED:
            remembered[value] = label
        return label

    return read


def _check_known(labels: Iterable[str], known: frozenset[str], what: str = "label") -> None:
    for label in labels:
        if label not in known:
            there = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
            raise Bad(f"the {what} {shown(label)} is not among those that are known: {there}")


def scalar(value: Any) -> str | None:
    """A JSON value as a label is written; None: there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Bad(f"the label is {shown(value)}, which is not one label")


def _class(value: Any, form: Form) -> str | None:
    return scalar(value)


def _number(value: Any, form: Form) -> float | None:
    if (written := scalar(value)) is None:
        return None
    try:
        number = float(written)
    except ValueError:
        raise Bad(f"the label {shown(written)} is no number") from None
    if not math.isfinite(number):
        raise Bad(f"the label {shown(written)} is not a finite number")
    return number


def _several(value: Any, form: Form) -> tuple[str, ...] | None:
    """An empty cell says that no label fits; a cell that is not there says nothing."""
    if value is None:
        return None
    if isinstance(value, str) and form.separator:
        value = value.split(form.separator)
    elif isinstance(value, str) and form.kind in ("tsv", "csv"):
        value = listed(value) if value.strip() else []
    if not isinstance(value, list):
        value = [value]
    return tuple(dict.fromkeys(label for one in value if (label := scalar(one)) is not None))


def listed(cell: str) -> list[Any]:
    """A cell that is a JSON list."""
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise Bad(f"{shown(cell)} is no JSON list")
    return value


def _tagged(wanted: Wanted) -> Make:
    def make(values: Sequence[Any], place: Place) -> Tagged:
        words, tags = values[0], values[1]
        if not isinstance(words, list | str) or not words:
            raise Bad("there are no words" if not words else f"the words are {shown(words)}, which is no list")
        made = tuple(text_of(word, "word") if not isinstance(word, str) or not word else word for word in words)
        if not tags or wanted.labels == "absent":
            if wanted.labels == "wanted":
                raise Bad("there are no tags")
            return Tagged(made, None, place)
        if not isinstance(tags, list) or len(tags) != len(made):
            count = len(tags) if isinstance(tags, list) else shown(tags)
            raise Bad(f"there are {len(made)} words, but the tags are {count}")
        written = tuple(map(scalar, tags))
        if None in written:
            raise Bad(f"word {written.index(None) + 1} has no tag")
        if wanted.known is not None:
            _check_known(filter(None, written), wanted.known, "tag")
        return Tagged(made, tuple(filter(None, written)), place)

    return make


def _asked(wanted: Wanted) -> Make:
    def make(values: Sequence[Any], place: Place) -> Asked:
        question, passage = text_of(values[0], "question"), text_of(values[1], "passage")
        if wanted.labels == "absent":
            return Asked(question, passage, None, place)
        answers = answers_in(values[2], values[3], wanted.labels == "optional")
        if answers is None:
            if wanted.labels == "wanted":
                raise Bad("nobody has said what the answer is")
            return Asked(question, passage, None, place)

        def mend(reason: str) -> None:
            wanted.faults.mend(place.line, reason, place.name)

        return Asked(question, passage, placed(passage, answers, mend), place)

    return make


def _choices(wanted: Wanted) -> Make:
    form = wanted.form
    texts, columns = len(form.texts), len(form.choices)

    def make(values: Sequence[Any], place: Place) -> Choices:
        text = "\n".join([text_of(value) for value in values[:texts]])
        choices, marks = offered(list(values[texts : texts + columns]))
        right = values[texts + columns]
        if wanted.labels == "absent" or (wanted.labels == "optional" and (right is None or right == "")):
            return Choices(text, choices, None, place)
        return Choices(text, choices, _right(right, choices, marks, form.first), place)

    return make


def offered(values: list[Any]) -> tuple[tuple[str, ...], list[str]]:
    """The choices, and their own marks (A, B, …) if the file gives them: columns, a list, or ARC's objects."""
    marks: list[str] = []
    if len(values) == 1:
        (value,) = values
        value = listed(value) if isinstance(value, str) else value
        if isinstance(value, dict):  # {"text": [...], "label": [...]}
            marks, value = [str(mark) for mark in value.get("label") or ()], value.get("text")
        if not isinstance(value, list):
            raise Bad("there are no choices" if value is None else f"the choices are {shown(value)}, which is no list")
        if value and all(isinstance(one, dict) for one in value):
            marks = [str(one["label"]) for one in value if "label" in one]
            value = [one.get("text") for one in value]
        values = value
    if len(values) < 2:
        raise Bad(f"there {'is one choice' if values else 'are no choices'} only; two are needed")
    numbers = [str(value) if type(value) in (int, float) else value for value in values]
    texts = tuple(text_of(value, f"choice number {number}") for number, value in enumerate(numbers, 1))
    return texts, marks if len(marks) == len(texts) else []


def _right(value: Any, choices: tuple[str, ...], marks: list[str], first: str) -> int:
    if (right := scalar(value)) is None:
        raise Bad("nobody has said which choice is right")
    if right in marks:
        return marks.index(right)
    if first == "":
        found = [number for number, choice in enumerate(choices) if choice.strip() == right]
        if len(found) != 1:
            raise Bad(f"the right choice {shown(right)} is {'none' if not found else 'more than one'} of the choices")
        return found[0]
    number = number_of(right, first)
    if number is None or not 0 <= number < len(choices):
        raise Bad(f"the right choice is {shown(right)}, but there are {len(choices)}, and the first is called {first}")
    return number


def number_of(right: str, first: str) -> int | None:
    """Which choice is meant (from 0), where the first is called 0, 1 or A."""
    if first == "A":
        return ord(right.upper()) - ord("A") if len(right) == 1 and right.isascii() and right.isalpha() else None
    right = right.removesuffix(".0")  # a table of numbers, as spreadsheets write them
    return int(right) - int(first) if right.isdecimal() and right.isascii() else None
