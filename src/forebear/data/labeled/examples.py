"""Labeled examples: one class per kind of task, each with its location in a file."""

from __future__ import annotations

from dataclasses import dataclass

from forebear.data.labeled.tag_schemes import entity_type


@dataclass(frozen=True, slots=True)
class ExampleLocation:
    """The location of an example: file, line, and its id in the file, if any."""

    file: str | None = None
    line: int | None = None
    name: str | None = None


UNKNOWN_LOCATION = ExampleLocation()


@dataclass(frozen=True, slots=True)
class LabeledExample:
    """One or two texts with a label, several labels (possibly none), or a number; None: unlabeled."""

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | float | None = None
    location: ExampleLocation = UNKNOWN_LOCATION


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words (in Chinese usually characters) of a sentence with one tag each; None: unlabeled."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    location: ExampleLocation = UNKNOWN_LOCATION


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """An answer span: passage[start : start + len(text)] equals text."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a passage with its gold answers; (): unanswerable; None: unlabeled."""

    question: str
    passage: str
    answers: tuple[AnswerSpan, ...] | None = None
    location: ExampleLocation = UNKNOWN_LOCATION


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context or question with choices and the index of the gold choice; None: unlabeled."""

    text: str
    choices: tuple[str, ...]
    answer_index: int | None = None
    location: ExampleLocation = UNKNOWN_LOCATION


Example = LabeledExample | TaggedExample | QuestionExample | ChoiceExample


def is_labeled(example: Example) -> bool:
    """Whether the example has a gold answer."""
    match example:
        case LabeledExample(label=answer) | TaggedExample(tags=answer):
            return answer is not None
        case QuestionExample(answers=answer) | ChoiceExample(answer_index=answer):
            return answer is not None


def example_texts(example: Example) -> tuple[str, ...]:
    match example:
        case LabeledExample():
            return example.texts
        case TaggedExample():
            return (" ".join(example.words),)
        case QuestionExample():
            return (example.question, example.passage)
        case ChoiceExample():
            return (example.text, *example.choices)


def example_content(example: Example) -> tuple[str, ...]:
    """The content that must not leak; of a question it is the passage, which contains the answer."""
    if isinstance(example, TaggedExample):
        return example.words
    return (example.passage,) if isinstance(example, QuestionExample) else example_texts(example)


def normalized_content(example: Example) -> str:
    """Content up to case, white space, and the order of two texts."""
    if isinstance(example, TaggedExample):
        return " ".join(" ".join(example.words).casefold().split())
    texts = [" ".join(text.casefold().split()) for text in example_content(example)]
    if isinstance(example, ChoiceExample):
        return "\0".join([texts[0], *sorted(texts[1:])])
    return texts[0] if len(texts) == 1 else "\0".join(sorted(texts))


def example_labels(example: Example) -> tuple[str, ...]:
    """Labels, or entity types, that training must see at least once."""
    if isinstance(example, LabeledExample):
        label = example.label
        return (label,) if isinstance(label, str) else label if isinstance(label, tuple) else ()
    if isinstance(example, TaggedExample) and example.tags is not None:
        return tuple(dict.fromkeys(map(entity_type, example.tags)))
    return ()
