"""Conversion of the raw values of a row to an example: labels, answers, choices, tags; BadRowError if invalid."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from forebear.data.labeled.examples import (
    AnswerSpan,
    ChoiceExample,
    Example,
    ExampleLocation,
    LabeledExample,
    QuestionExample,
    TaggedExample,
)
from forebear.data.labeled.labeled_format import BadRowError, LabeledFormat, LabeledReadOptions, cell_text, quote_value
from forebear.errors import list_names

# --- Answers and their offsets in the passage ---

START_KEYS = ("answer_start", "start", "offset")
ParsedAnswer = tuple[str, int | None]  # an answer and its offset, if the file has one


def parse_answers(value: Any, start: Any, is_optional: bool) -> list[ParsedAnswer] | None:
    """The answers in any of the supported notations; []: unanswerable; None: no gold answer."""
    if value is None:
        return None
    if isinstance(value, str):
        return [(value, _parse_start(start))] if value.strip() else None if is_optional else []
    if isinstance(value, dict):  # {"text": [...], "answer_start": [...]}, or one answer
        texts, starts = value.get("text"), next((value[key] for key in START_KEYS if key in value), None)
        if not isinstance(texts, list):
            value = [value]
        else:
            starts = starts if isinstance(starts, list) else [None] * len(texts)
            if len(starts) != len(texts):
                raise BadRowError(f"there are {len(texts)} answers, but {len(starts)} places where they begin")
            value = [{"text": text, "start": answer_start} for text, answer_start in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise BadRowError(f"the answer is {quote_value(value)}, which is no text")
    starts = start if isinstance(start, list) and len(start) == len(value) else [None] * len(value)
    answers: list[ParsedAnswer] = []
    for answer, answer_start in zip(value, starts, strict=True):
        if isinstance(answer, dict):
            answer_start = next((answer[key] for key in START_KEYS if key in answer), answer_start)
            answer = answer.get("text")
        answers.append((cell_text(answer, "answer"), _parse_start(answer_start)))
    return answers


def _parse_start(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool) or int(value) != float(value):
            raise ValueError
        return int(value)
    except (ValueError, TypeError, OverflowError):
        raise BadRowError(f"the answer's start is {quote_value(value)}, which is no place in the passage") from None


def locate_answers(passage: str, answers: list[ParsedAnswer]) -> tuple[tuple[AnswerSpan, ...], list[str]]:
    """The span of each answer in its passage, and notes on repairs.

    A wrong offset is corrected if the answer occurs exactly once. An answer that does not occur is dropped if the
    question has another one.
    """
    spans: list[AnswerSpan] = []
    repairs: list[str] = []
    errors: list[str] = []
    for text, start in answers:
        if start is not None and start >= 0 and passage.startswith(text, start):
            spans.append(AnswerSpan(start, text))
        elif text in passage if start is None else passage.count(text) == 1:
            spans.append(AnswerSpan(passage.index(text), text))
            if start is not None:
                repairs.append(f"the answer {quote_value(text)} begins at {spans[-1].start}, not at {start}")
        else:
            offset_note = "" if start is None or text not in passage else f" at {start}, but more than once elsewhere"
            errors.append(f"the answer {quote_value(text)} does not stand in its passage{offset_note}")
    if errors and not spans:
        raise BadRowError(errors[0])
    return tuple(spans), [*repairs, *(f"{error}; it was left out, the question has another" for error in errors)]


Label = str | tuple[str, ...] | float | None
ExampleBuilder = Callable[[Sequence[Any], ExampleLocation], Example]  # values in the order of the format's role columns
MAX_CACHED_LABELS = 10_000  # distinct cells of a label column; one with more of them has no class labels


def fast_constructor(cls: Any) -> Callable[[Any, Any, Any], Any]:
    """A constructor of frozen dataclasses with three slots, twice as fast as their __init__."""
    new, (set_first, set_second, set_third) = object.__new__, (vars(cls)[field.name].__set__ for field in fields(cls))

    def make(value1: Any, value2: Any, value3: Any) -> Any:
        instance = new(cls)
        set_first(instance, value1)
        set_second(instance, value2)
        set_third(instance, value3)
        return instance

    return make


make_location: Callable[[str, int | None, str | None], ExampleLocation] = fast_constructor(ExampleLocation)
make_labeled: Callable[[tuple[str, ...], Label, ExampleLocation], LabeledExample] = fast_constructor(LabeledExample)


def example_builder(options: LabeledReadOptions) -> ExampleBuilder:
    """A function that builds an example from the values of one row, or raises BadRowError."""
    builders = {"answering": _build_question, "tagging": _build_tagged, "choice": _build_choice}
    return partial(builders[options.task], options) if options.task in builders else _text_builder(options)


def _text_builder(options: LabeledReadOptions) -> ExampleBuilder:
    parse_label = _label_parser(options)

    def build_single(values: Sequence[Any], location: ExampleLocation) -> LabeledExample:
        text, label = values[0], values[1]
        if text.__class__ is not str or not text or text.isspace():
            text = cell_text(text)
        return make_labeled((text,), parse_label(label), location)

    def build_pair(values: Sequence[Any], location: ExampleLocation) -> LabeledExample:
        texts = cell_text(values[0], "first text"), cell_text(values[1], "second text")
        return make_labeled(texts, parse_label(values[2]), location)

    return build_pair if options.task == "pairs" else build_single


def _label_parser(options: LabeledReadOptions) -> Callable[[Any], Label]:
    """A function that parses the label of a cell or JSON value."""
    if options.labels == "absent":
        return lambda value: None
    parsers = {"one": lambda value, file_format: label_text(value), "several": _parse_labels, "number": _parse_number}
    parse = parsers[options.file_format.answer]
    cache: dict[str, Label] = {}

    def read_label(value: Any) -> Label:
        if value.__class__ is str and (label := cache.get(value)) is not None:
            return label
        label = parse(value, options.file_format)
        if label is None:
            if options.labels == "required":
                raise BadRowError("there is no label")
            return None
        if options.known_labels is not None and not isinstance(label, float):
            _require_known([label] if isinstance(label, str) else label, options.known_labels)
        if value.__class__ is str and len(cache) < MAX_CACHED_LABELS:
            cache[value] = label
        return label

    return read_label


def _require_known(labels: Iterable[str], known_labels: frozenset[str], role: str = "label") -> None:
    for label in labels:
        if label not in known_labels:
            raise BadRowError(unknown_label_reason(label, known_labels, role))


def unknown_label_reason(label: str, known_labels: Collection[str], role: str) -> str:
    names = list_names(sorted(known_labels), 20)
    return f"the {role} {quote_value(label)} is not among those that are known: {names}"


def label_text(value: Any) -> str | None:
    """A JSON value as label text; None: no label."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise BadRowError(f"the label is {quote_value(value)}, which is not one label")


def _parse_number(value: Any, file_format: LabeledFormat) -> float | None:
    if (text := label_text(value)) is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise BadRowError(f"the label {quote_value(text)} is no number") from None
    if not math.isfinite(number):
        raise BadRowError(f"the label {quote_value(text)} is not a finite number")
    return number


def _parse_labels(value: Any, file_format: LabeledFormat) -> tuple[str, ...] | None:
    """Several labels; an empty cell means that no label applies, an absent one that there is no gold answer."""
    if value is None:
        return None
    if isinstance(value, str) and file_format.separator:
        value = value.split(file_format.separator)
    elif isinstance(value, str) and file_format.kind in ("tsv", "csv"):
        value = parse_json_list(value) if value.strip() else []
    if not isinstance(value, list):
        value = [value]
    return tuple(dict.fromkeys(label for item in value if (label := label_text(item)) is not None))


def parse_json_list(cell: str) -> list[Any]:
    """The items of a cell that is a JSON list."""
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise BadRowError(f"{quote_value(cell)} is no JSON list")
    return value


def _build_tagged(options: LabeledReadOptions, values: Sequence[Any], location: ExampleLocation) -> TaggedExample:
    words, tags = values[0], values[1]
    if not isinstance(words, list | str) or not words:
        list_error = f"the words are {quote_value(words)}, which is no list"
        raise BadRowError(list_error if words else "there are no words")
    words = tuple(cell_text(word, "word") if not isinstance(word, str) or not word else word for word in words)
    if not tags or options.labels == "absent":
        if options.labels == "required":
            raise BadRowError("there are no tags")
        return TaggedExample(words, None, location)
    if not isinstance(tags, list) or len(tags) != len(words):
        count = len(tags) if isinstance(tags, list) else quote_value(tags)
        raise BadRowError(f"there are {len(words)} words, but the tags are {count}")
    tag_texts = tuple(map(label_text, tags))
    if None in tag_texts:
        raise BadRowError(f"word {tag_texts.index(None) + 1} has no tag")
    if options.known_labels is not None:
        _require_known(filter(None, tag_texts), options.known_labels, "tag")
    return TaggedExample(words, tuple(filter(None, tag_texts)), location)


def _build_question(options: LabeledReadOptions, values: Sequence[Any], location: ExampleLocation) -> QuestionExample:
    question, passage = cell_text(values[0], "question"), cell_text(values[1], "passage")
    answers = None
    if options.labels != "absent":
        answers = parse_answers(values[2], values[3], options.labels == "optional")
    if answers is None:
        if options.labels == "required":
            raise BadRowError("nobody has said what the answer is")
        return QuestionExample(question, passage, None, location)
    spans, repairs = locate_answers(passage, answers)
    for reason in repairs:
        options.error_policy.repair(location.line, reason, location.name)
    return QuestionExample(question, passage, spans, location)


def _build_choice(options: LabeledReadOptions, values: Sequence[Any], location: ExampleLocation) -> ChoiceExample:
    file_format = options.file_format
    num_texts, end = len(file_format.texts), len(file_format.texts) + len(file_format.choices)
    text = "\n".join([cell_text(value) for value in values[:num_texts]])
    choices, choice_labels = parse_choices(list(values[num_texts:end]))
    gold = values[end]
    if options.labels == "absent" or (options.labels == "optional" and (gold is None or gold == "")):
        return ChoiceExample(text, choices, None, location)
    return ChoiceExample(text, choices, _parse_gold_choice(gold, choices, choice_labels, file_format.first), location)


def parse_choices(values: list[Any]) -> tuple[tuple[str, ...], list[str]]:
    """The choices and their labels (A, B, …) if the file has any: from columns, a list, or ARC's objects."""
    choice_labels: list[str] = []
    if len(values) == 1:
        (value,) = values
        value = parse_json_list(value) if isinstance(value, str) else value
        if isinstance(value, dict):  # {"text": [...], "label": [...]}
            choice_labels, value = [str(choice_label) for choice_label in value.get("label") or ()], value.get("text")
        if not isinstance(value, list):
            list_error = f"the choices are {quote_value(value)}, which is no list"
            raise BadRowError("there are no choices" if value is None else list_error)
        if value and all(isinstance(choice, dict) for choice in value):
            choice_labels = [str(choice["label"]) for choice in value if "label" in choice]
            value = [choice.get("text") for choice in value]
        values = value
    if len(values) < 2:
        raise BadRowError(f"there {'is one choice' if values else 'are no choices'} only; two are needed")
    choice_values = [str(value) if type(value) in (int, float) else value for value in values]
    texts = tuple(cell_text(value, f"choice number {number}") for number, value in enumerate(choice_values, 1))
    return texts, choice_labels if len(choice_labels) == len(texts) else []


def _parse_gold_choice(value: Any, choices: tuple[str, ...], choice_labels: list[str], first: str) -> int:
    if (gold := label_text(value)) is None:
        raise BadRowError("nobody has said which choice is right")
    if gold in choice_labels:
        return choice_labels.index(gold)
    if first == "":
        matches = [index for index, choice in enumerate(choices) if choice.strip() == gold]
        if len(matches) != 1:
            count = "more than one" if matches else "none"
            raise BadRowError(f"the right choice {quote_value(gold)} is {count} of the choices")
        return matches[0]
    index = choice_index(gold, first)
    if index is None or not 0 <= index < len(choices):
        message = f"the right choice is {quote_value(gold)}, but there are {len(choices)}"
        raise BadRowError(f"{message}, and the first is called {first}")
    return index


def choice_index(gold: str, first: str) -> int | None:
    """The index (from 0) of a choice, where `first` (0, 1 or A) is the name of the first one."""
    if first == "A":
        return ord(gold.upper()) - ord("A") if len(gold) == 1 and gold.isascii() and gold.isalpha() else None
    gold = gold.removesuffix(".0")  # numbers as spreadsheets write them
    return int(gold) - int(first) if gold.isdecimal() and gold.isascii() else None
