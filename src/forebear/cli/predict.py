"""`forebear tag`: names and other parts of a text, word by word."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from forebear.cli.batch_io import (
    NO_EXAMPLE_OPTIONS,
    ExampleBatchOptions,
    TextArguments,
    open_run,
    printable_cell,
    run_task_command,
)
from forebear.cli.output import Output, count_phrase, make_table, text_bar
from forebear.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.data.labeled.examples import TaggedExample
    from forebear.tasks.classification import LabelPrediction
    from forebear.tasks.multiple_choice import ChoicePrediction
    from forebear.tasks.question_answering import AnswerPrediction
    from forebear.tasks.tagging import TagPrediction

LEAST = 0.005  # a probability that is shown


def tag(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleBatchOptions = NO_EXAMPLE_OPTIONS,
    speaking: Output = Output(),
) -> None:
    """Tag the words of texts with a run that was adapted to it; every word gets a tag, however long the text.

    A plain line of --in is a text. --out is CoNLL: a word and its tag a line, and an empty line behind each text.

    ```
    forebear tag runs/names "爱因斯坦在柏林发表演讲" --table
    forebear tag runs/names --in sentences.txt --out tagged.conll
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for tagging.
    texts
        Texts, each by itself. Words that have tags with them as those that the run learned from are taken without.
    show_table
        Show the probability of every tag for every word.
    """
    from forebear.inference.predict import strip_tags, tagged_examples

    using = open_run(run, "tag", speaking)
    as_given = list(texts or ())  # in the order of the answers, as far as they are plain; what is written needs none
    with_tags = sum(strip_tags(using, text) is not None for text in as_given)

    def line(text: str) -> TaggedExample:
        nonlocal with_tags
        with_tags += strip_tags(using, text) is not None
        made = tagged_examples(using, text)[0]
        if many.output_file is None:
            as_given.append(text)
        return made

    shown = iter(as_given)

    def draw(console: Console, told: TagPrediction) -> None:
        _draw(console, told, next(shown, None) or _joined(told.words), show_table)

    run_task_command(
        using,
        tagged_examples(using, as_given),
        many,
        speaking,
        line=line,
        plain="a text",
        what="texts",
        draw=draw,
        write=_lines,
        gap="",
    )
    if with_tags and not speaking.quiet:
        told = f"{count_phrase(with_tags, 'text')} with tags already, word/tag as the run learned it: read without them"
        print(f"note: {told}", file=sys.stderr)  # noqa: T201


def _lines(answer: TagPrediction) -> str:
    """A word and its tag a line, and a blank line behind."""
    return "".join(f"{word}\t{label}\n" for word, label in _pairs(answer)) + "\n"


def _pairs(answer: TagPrediction) -> Iterator[tuple[str, str]]:
    return zip(answer.words, answer.tags, strict=True)


def _joined(words: Sequence[str]) -> str:
    """The words of a file that gives no text."""
    from forebear.data.segmentation import has_han

    return ("" if has_han("".join(words)) else " ").join(words)


def _draw(console: Console, answer: TagPrediction, text: str, shown: bool) -> None:
    if answer.is_plain and not shown:
        console.print(
            " ".join(f"{printable_cell(word)}[dim]/{printable_cell(tag)}[/]" for word, tag in _pairs(answer)),
            soft_wrap=True,
        )
        return
    found = make_table("", "kind", ">probability")
    for entity in answer.entities:
        found.add_row(
            f"[bold]{printable_cell(entity.text)}[/]", printable_cell(entity.label), f"{entity.probability:.4f}"
        )
    if answer.entities:
        console.print(found)
    elif not answer.is_plain:
        console.print(f"{printable_cell(text[:80])}: nothing found")
    if shown and answer.words:
        used = [number for number, p in enumerate(answer.probabilities.max(axis=0).tolist()) if p >= LEAST]
        made = make_table("word", "tag", *(f">{printable_cell(answer.labels[number])}" for number in used))
        for word, label, row in zip(answer.words, answer.tags, answer.probabilities.tolist(), strict=True):
            cells = (f"{row[number]:.3f}" if row[number] >= LEAST else "" for number in used)
            made.add_row(printable_cell(word), printable_cell(label), *cells)
        console.print(made)


# `forebear answer`: where in a passage the answer to a question stands.


ANSWER_LEAST = 0.001  # a probability that is shown


def answer(
    run: Path,
    question: str | None = None,
    passage: str | None = None,
    /,
    *,
    passage_file: Path | None = None,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleBatchOptions = NO_EXAMPLE_OPTIONS,
    speaking: Output = Output(),
) -> None:
    """Find the answer to a question in a passage, with a run that was adapted to it; the passage may be long.

    A plain line of --in is a question, a tab and its passage. A line of --out is the question, a tab and the answer,
    or nothing where there is none.

    ```
    forebear answer runs/answers "今天的最高温度是多少" "天气预报显示今天最高温度 37 摄氏度" --table
    forebear answer runs/answers "Who wrote it?" --passage-file chapter.txt
    forebear answer runs/answers --in questions.json --out answers.jsonl
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for answering.
    question
        The question.
    passage
        The text that holds the answer.
    passage_file
        A file that holds the passage instead.
    show_table
        Show how probably each token begins and ends the answer.
    """
    from forebear.inference.predict import question_examples

    using = open_run(run, "answer", speaking)
    if passage_file is not None:
        if passage is not None:
            raise InputError("the passage is given twice", hint="give it here, or with --passage-file")
        passage = passage_file.read_text(encoding="utf-8")
    if (question is None) != (passage is None):
        raise InputError("a question needs a passage", hint='forebear answer RUN "question" "passage"')
    given = [] if question is None or passage is None else question_examples(question, passage)

    def line(text: str) -> Any:
        first, _, rest = text.partition("\t")
        return question_examples(first, rest)[0]

    run_task_command(
        using,
        given,
        many,
        speaking,
        line=line,
        plain="a question, a tab and its passage",
        what="questions",
        draw=lambda console, told: _answer_draw(console, told, show_table),
        write=lambda told: f"{' '.join(told.question.split())}\t{' '.join(told.text.split())}\n",
    )


def _answer_draw(console: Console, told: AnswerPrediction, shown: bool) -> None:
    best = "no answer here" if told.best is None else printable_cell(told.best.text)
    sure = told.no_answer_score if told.best is None else told.best.probability
    console.print(f"{printable_cell(told.question)}  [bold]{best}[/] {sure:.1%}", soft_wrap=True)
    if not shown:
        return
    made = make_table("token", ">P(start)", ">P(end)")
    for token, start, end in told.is_linear:
        if max(start, end) >= ANSWER_LEAST or len(told.is_linear) <= 60:
            made.add_row(printable_cell(token), f"{start:.4f}", f"{end:.4f}")
    console.print(made)
    others = make_table("candidate", ">at", ">probability")
    for one in told.candidates:
        others.add_row(printable_cell(one.text), f"{one.start:,}", f"{one.probability:.4f}")
    others.add_row("[dim](no answer)[/]", "", f"{told.no_answer_score:.4f}")
    console.print(others)


# `forebear choose`: which of several continuations or answers is right.


def choose(
    run: Path,
    text: str | None = None,
    choices: TextArguments = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleBatchOptions = NO_EXAMPLE_OPTIONS,
    speaking: Output = Output(),
) -> None:
    """Choose what goes with a text best, with a run that was adapted to choices.

    A plain line of --in is a text and its choices, with tabs between them. A line of --out is the text, the number of
    the choice, counted from 0, and the choice, with tabs between them.

    ```
    forebear choose runs/stories "The cat sat on" "the mat." "the moon."
    forebear choose runs/stories --in questions.jsonl --out chosen.jsonl
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for choice.
    text
        The beginning, or the question.
    choices
        What may follow, or answer it.
    show_table
        Show the probability of every choice. A single question is always shown so.
    """
    from forebear.inference.predict import choice_examples as offered

    using = open_run(run, "choose", speaking)

    def line(one: str) -> Any:
        first, *rest = one.split("\t")
        return offered(first, rest)[0]

    given = [] if text is None else offered(text, choices or ())
    shown = show_table or many.input_file is None
    draw = lambda console, answer: _choose_draw(console, answer, shown)  # noqa: E731
    plainly = "a text and its choices with tabs between them"
    run_task_command(using, given, many, speaking, line=line, plain=plainly, what="questions", draw=draw, write=_row)


def _row(answer: ChoicePrediction) -> str:
    return f"{' '.join(answer.text.split())}\t{answer.choice}\t{' '.join(answer.choices[answer.choice].split())}\n"


def _choose_draw(console: Console, answer: ChoicePrediction, shown: bool) -> None:
    if not shown:
        best, sure = printable_cell(answer.choices[answer.choice]), answer.probabilities[answer.choice]
        console.print(f"{printable_cell(answer.text)}: [bold]{best}[/] {sure:.1%}", soft_wrap=True)
        return
    made = make_table(printable_cell(answer.text), ">probability", "")
    for number, (choice, p) in enumerate(zip(answer.choices, answer.probabilities, strict=True)):
        made.add_row(printable_cell(choice), f"{p:.4f}", text_bar(p), style="bold" if number == answer.choice else "")
    console.print(made)


# `forebear classify`: what a text, or a pair of texts, is.


def classify(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleBatchOptions = NO_EXAMPLE_OPTIONS,
    speaking: Output = Output(),
) -> None:
    """Classify texts with a run that was adapted to it; pairs of texts where it learned pairs.

    A plain line of --in is a text, or two with a tab between them. A line of --out is the text or texts, the label and
    its probability, with tabs between them.

    ```
    forebear classify runs/reviews "I loved it" "never again"
    forebear classify runs/same "我很喜欢你" "我很中意你" --table
    forebear classify runs/reviews --in texts.txt --out labels.tsv
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for classification or pairs.
    texts
        Texts, each by itself; for pairs two and two.
    show_table
        Show the probability of every label. A single text is always shown so.
    """
    using = open_run(run, "classify", speaking)
    from forebear.inference.predict import labeled_examples

    pairs = cast(Any, using.task).texts == 2
    given: list[Any] = list(texts or ())
    if pairs:
        if len(given) % 2:
            raise InputError("this run is about pairs of texts, and one is left over", hint="give two texts, or four …")
        given = list(zip(given[::2], given[1::2], strict=True))

    def line(text: str) -> Any:
        parts = tuple(text.split("\t")) if pairs else text
        return labeled_examples(using, [parts])[0]  # pyright: ignore[reportArgumentType]

    shown = show_table or (len(given) == 1 and many.input_file is None)
    run_task_command(
        using,
        labeled_examples(using, given),
        many,
        speaking,
        line=line,
        plain="two texts with a tab between them" if pairs else "a text",
        what="pairs" if pairs else "texts",
        draw=lambda console, answer: _classify_draw(console, answer, shown),
        write=_classify_row,
    )


def _classify_row(answer: LabelPrediction) -> str:
    """Texts, label and its probability, with tabs between them."""
    label = ",".join(answer.label) if isinstance(answer.label, tuple) else str(answer.label)
    p = f"{answer.probabilities[answer.label]:.6f}" if isinstance(answer.label, str) else ""
    return "\t".join([*(" ".join(text.split()) for text in answer.texts), label, p]).rstrip("\t") + "\n"


def _classify_draw(console: Console, answer: LabelPrediction, shown: bool) -> None:
    text = " / ".join(map(printable_cell, answer.texts))
    label = ", ".join(answer.label) if isinstance(answer.label, tuple) else answer.label
    told = printable_cell(label or "(none)") if isinstance(label, str) else f"{label:.4f}"
    sure = f" {answer.probabilities[label]:.1%}" if isinstance(label, str) and label in answer.probabilities else ""
    console.print(f"{text}: [bold]{told}[/]{sure}", soft_wrap=True)
    if shown and answer.probabilities:
        made = make_table("label", ">probability", "")
        for name, p in sorted(answer.probabilities.items(), key=lambda one: -one[1]):
            made.add_row(printable_cell(name), f"{p:.4f}", text_bar(p))
        console.print(made)
