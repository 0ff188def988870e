"""Labeled examples: one class per kind of task, each with its location in a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleLocation:
    """The location of an example: file, line, and its id in the file, if any."""

    file: str | None = None
    line: int | None = None
    name: str | None = None


NOWHERE = ExampleLocation()


@dataclass(frozen=True, slots=True)
class LabeledExample:
    """One or two texts with a label, several labels (possibly none), or a number; None: unlabeled."""

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | float | None = None
    place: ExampleLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words (in Chinese mostly characters) of a sentence with one tag each; None: unlabeled."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    place: ExampleLocation = NOWHERE


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
    place: ExampleLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context or question with choices and the index of the right one; None: unlabeled."""

    text: str
    choices: tuple[str, ...]
    right: int | None = None
    place: ExampleLocation = NOWHERE


Example = LabeledExample | TaggedExample | QuestionExample | ChoiceExample


def is_labeled(example: Example) -> bool:
    """Whether the example has a gold answer."""
    match example:
        case LabeledExample():
            return example.label is not None
        case TaggedExample():
            return example.tags is not None
        case QuestionExample():
            return example.answers is not None
        case ChoiceExample():
            return example.right is not None


def example_texts(example: Example) -> tuple[str, ...]:
    """All texts of an example."""
    match example:
        case LabeledExample():
            return example.texts
        case TaggedExample():
            return (" ".join(example.words),)
        case QuestionExample():
            return (example.question, example.passage)
        case ChoiceExample():
            return (example.text, *example.choices)
