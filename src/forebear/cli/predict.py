"""`forebear tag, answer, choose, classify`: predictions of runs with a task head."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter
from rich.text import Text

from forebear.cli.batch_io import ExampleBatchOptions, PlainLines, TextArguments, open_run, run_task_command
from forebear.cli.output import Console, Output, Table, count_phrase, printable_cell, text_bar
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.labeled.examples import TaggedExample
    from forebear.tasks.classification import LabelPrediction
    from forebear.tasks.multiple_choice import ChoicePrediction
    from forebear.tasks.question_answering import AnswerPrediction
    from forebear.tasks.tagging import TagPrediction

MIN_SHOWN_PROBABILITY = 0.005  # of a tag
MIN_SHOWN_POSITION_PROBABILITY = 0.001  # of a token that begins or ends an answer
TableSwitch = Annotated[bool, Parameter(name="--table", negative="", show_default=False)]


def tag(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    show_table: TableSwitch = False,
    many: ExampleBatchOptions = ExampleBatchOptions(),
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

    loaded_run = open_run(run, "tag", speaking)
    plain_texts = list(texts or ())  # in the order of the answers, as far as they are plain; what is written needs none
    with_tags = sum(strip_tags(loaded_run, text) is not None for text in plain_texts)

    def line(text: str) -> TaggedExample:
        nonlocal with_tags
        with_tags += strip_tags(loaded_run, text) is not None
        example = tagged_examples(loaded_run, text)[0]
        if many.output_file is None:
            plain_texts.append(text)
        return example

    shown_texts = iter(plain_texts)

    def draw(console: Console, prediction: TagPrediction) -> None:
        _draw_tags(console, prediction, next(shown_texts, None) or _join_words(prediction.words), show_table)

    def conll_lines(prediction: TagPrediction) -> str:
        words = zip(prediction.words, prediction.tags, strict=True)
        return "".join(f"{word}\t{tag}\n" for word, tag in words) + "\n"

    examples = tagged_examples(loaded_run, plain_texts)
    lines = PlainLines("texts", "a text", line, conll_lines, gap="")
    run_task_command(loaded_run, examples, many, speaking, lines, draw)
    if with_tags:
        note = f"{count_phrase(with_tags, 'text')} with tags already, word/tag as the run learned it: read without them"
        speaking.note([note])


def _join_words(words: Sequence[str]) -> str:
    """The words as text, for files without the original text."""
    from forebear.data.segmentation import has_han

    return ("" if has_han("".join(words)) else " ").join(words)


def _draw_tags(console: Console, answer: TagPrediction, text: str, show_table: bool) -> None:
    if answer.is_plain and not show_table:
        words = zip(map(printable_cell, answer.words), map(printable_cell, answer.tags), strict=True)
        console.print(" ".join(f"{word}[dim]/{tag}[/]" for word, tag in words), soft_wrap=True)
        return
    if answer.entities:
        table = Table("", "kind", ">probability")
        for entity in answer.entities:
            name = Text.from_markup(f"[bold]{printable_cell(entity.text)}[/]")
            table.add_row(name, entity.label, f"{entity.probability:.4f}")
        console.print(table)
    elif not answer.is_plain:
        console.print(f"{printable_cell(text[:80])}: nothing found")
    if show_table and answer.words:
        highest = answer.probabilities.max(axis=0).tolist()
        used = [number for number, p in enumerate(highest) if p >= MIN_SHOWN_PROBABILITY]
        table = Table("word", "tag", *(f">{printable_cell(answer.labels[number])}" for number in used))
        for word, label, row in zip(answer.words, answer.tags, answer.probabilities.tolist(), strict=True):
            cells = (f"{row[number]:.3f}" if row[number] >= MIN_SHOWN_PROBABILITY else "" for number in used)
            table.add_row(word, label, *cells)
        console.print(table)


def answer(
    run: Path,
    question: str | None = None,
    passage: str | None = None,
    /,
    *,
    passage_file: Path | None = None,
    show_table: TableSwitch = False,
    many: ExampleBatchOptions = ExampleBatchOptions(),
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

    loaded_run = open_run(run, "answer", speaking)
    if passage_file is not None:
        if passage is not None:
            raise InputError("the passage is given twice", hint="give it here, or with --passage-file")
        passage = passage_file.read_text(encoding="utf-8")
    if (question is None) != (passage is None):
        raise InputError("a question needs a passage", hint='forebear answer RUN "question" "passage"')
    examples = [] if question is None or passage is None else question_examples(question, passage)

    def line(text: str) -> Any:
        first, _, rest = text.partition("\t")
        return question_examples(first, rest)[0]

    def write(prediction: AnswerPrediction) -> str:
        return _tab_separated(prediction.question, prediction.text)

    lines = PlainLines("questions", "a question, a tab and its passage", line, write)
    draw = functools.partial(_draw_answer, show_table=show_table)
    run_task_command(loaded_run, examples, many, speaking, lines, draw)


def _tab_separated(*texts: str) -> str:
    """A line of texts without their own white space but single spaces."""
    return "\t".join(" ".join(text.split()) for text in texts) + "\n"


def _draw_answer(console: Console, prediction: AnswerPrediction, show_table: bool) -> None:
    best = "no answer here" if prediction.best is None else printable_cell(prediction.best.text)
    probability = prediction.no_answer_score if prediction.best is None else prediction.best.probability
    console.print(f"{printable_cell(prediction.question)}  [bold]{best}[/] {probability:.1%}", soft_wrap=True)
    if not show_table:
        return
    table = Table("token", ">P(start)", ">P(end)")
    for token, start, end in prediction.token_table:
        if max(start, end) >= MIN_SHOWN_POSITION_PROBABILITY or len(prediction.token_table) <= 60:
            table.add_row(token, f"{start:.4f}", f"{end:.4f}")
    console.print(table)
    others = Table("candidate", ">at", ">probability")
    for candidate in prediction.candidates:
        others.add_row(candidate.text, f"{candidate.start:,}", f"{candidate.probability:.4f}")
    others.add_row(Text("(no answer)", "dim"), "", f"{prediction.no_answer_score:.4f}")
    console.print(others)


def choose(
    run: Path,
    text: str | None = None,
    choices: TextArguments = None,
    /,
    *,
    show_table: TableSwitch = False,
    many: ExampleBatchOptions = ExampleBatchOptions(),
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
    from forebear.inference.predict import choice_examples

    loaded_run = open_run(run, "choose", speaking)

    def line(text: str) -> Any:
        first, *rest = text.split("\t")
        return choice_examples(first, rest)[0]

    examples = [] if text is None else choice_examples(text, choices or ())

    def write(answer: ChoicePrediction) -> str:
        return _tab_separated(answer.text, str(answer.choice), answer.choices[answer.choice])

    def draw(console: Console, answer: ChoicePrediction) -> None:
        if many.input_file is not None and not show_table:
            best, sure = printable_cell(answer.choices[answer.choice]), answer.probabilities[answer.choice]
            console.print(f"{printable_cell(answer.text)}: [bold]{best}[/] {sure:.1%}", soft_wrap=True)
            return
        table = Table(printable_cell(answer.text), ">probability", "")
        for number, (choice, p) in enumerate(zip(answer.choices, answer.probabilities, strict=True)):
            table.add_row(choice, f"{p:.4f}", text_bar(p), style="bold" if number == answer.choice else "")
        console.print(table)

    lines = PlainLines("questions", "a text and its choices with tabs between them", line, write)
    run_task_command(loaded_run, examples, many, speaking, lines, draw)


def classify(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    show_table: TableSwitch = False,
    many: ExampleBatchOptions = ExampleBatchOptions(),
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
    loaded_run = open_run(run, "classify", speaking)
    from forebear.inference.predict import labeled_examples

    pairs = cast(Any, loaded_run.task).texts == 2
    examples: list[Any] = list(texts or ())
    if pairs:
        if len(examples) % 2:
            raise InputError("this run is about pairs of texts, and one is left over", hint="give two texts, or four …")
        examples = list(zip(examples[::2], examples[1::2], strict=True))

    def line(text: str) -> Any:
        parts = tuple(text.split("\t")) if pairs else text
        return labeled_examples(loaded_run, [parts])[0]  # pyright: ignore[reportArgumentType]

    unit, description = ("pairs", "two texts with a tab between them") if pairs else ("texts", "a text")
    lines = PlainLines(unit, description, line, _label_row)
    draw = functools.partial(_draw_label, shown=show_table or (len(examples) == 1 and many.input_file is None))
    run_task_command(loaded_run, labeled_examples(loaded_run, examples), many, speaking, lines, draw)


def _label_row(answer: LabelPrediction) -> str:
    """Texts, label and probability, separated by tabs."""
    label = ",".join(answer.label) if isinstance(answer.label, tuple) else str(answer.label)
    p = f"{answer.probabilities[answer.label]:.6f}" if isinstance(answer.label, str) else ""
    return "\t".join([*(" ".join(text.split()) for text in answer.texts), label, p]).rstrip("\t") + "\n"


def _draw_label(console: Console, answer: LabelPrediction, shown: bool) -> None:
    text = " / ".join(map(printable_cell, answer.texts))
    label = ", ".join(answer.label) if isinstance(answer.label, tuple) else answer.label
    prediction = printable_cell(label or "(none)") if isinstance(label, str) else f"{label:.4f}"
    sure = f" {answer.probabilities[label]:.1%}" if isinstance(label, str) and label in answer.probabilities else ""
    console.print(f"{text}: [bold]{prediction}[/]{sure}", soft_wrap=True)
    if shown and answer.probabilities:
        best = sorted(answer.probabilities.items(), key=lambda pair: -pair[1])
        console.table("label", ">probability", "", rows=((name, f"{p:.4f}", text_bar(p)) for name, p in best))
