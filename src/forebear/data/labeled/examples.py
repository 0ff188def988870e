"""What a person labelled: one kind of example for each shape of answer, and where each stands in its file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleLocation:
    """Where an example stands: a file and its line, and the name (an id) that the file gives it, if any."""

    file: str | None = None
    line: int | None = None
    name: str | None = None


NOWHERE = ExampleLocation()


@dataclass(frozen=True, slots=True)
class LabeledExample:
    """A text, or two, and what they are: a label, several (perhaps none), or a number; None: nobody has said."""

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | float | None = None
    place: ExampleLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words of a sentence (of Chinese mostly its characters), and a tag for each: O, or B, I, E, S and a kind."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    place: ExampleLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """A part of a passage: passage[start : start + len(text)] is the text."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a passage, and the answers that people found in it; (): it has none; None: nobody has said."""

    question: str
    passage: str
    answers: tuple[AnswerSpan, ...] | None = None
    place: ExampleLocation = NOWHERE


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A beginning or a question, what may follow, and the number (from 0) of the right one, if anybody has said."""

    text: str
    choices: tuple[str, ...]
    right: int | None = None
    place: ExampleLocation = NOWHERE


Example = LabeledExample | TaggedExample | QuestionExample | ChoiceExample


def is_labeled(example: Example) -> bool:
    """Whether somebody has said what is right."""
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
    """All that is written in an example."""
    match example:
        case LabeledExample():
            return example.texts
        case TaggedExample():
            return (" ".join(example.words),)
        case QuestionExample():
            return (example.question, example.passage)
        case ChoiceExample():
            return (example.text, *example.choices)
