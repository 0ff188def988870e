"""`forebear tag, answer, choose, classify`: predictions of runs with a task head."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter
from rich.text import Text

from forebear.cli.batch_io import TextArguments, open_run
from forebear.cli.output import Console, Output, Table, count_phrase, printable_cell, text_bar
from forebear.cli.task_batch_io import ExampleBatchOptions, LineFormat, run_task_command
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.labeled.examples import TaggedExample
    from forebear.tasks.classification import LabelPrediction
    from forebear.tasks.multiple_choice import ChoicePrediction
    from forebear.tasks.question_answering import AnswerPrediction
    from forebear.tasks.tagging import TagPrediction

MIN_SHOWN_PROBABILITY = 0.005  # of a tag
MIN_SHOWN_POSITION_PROBABILITY = 0.001  # of the start or end of an answer
TableSwitch = Annotated[bool, Parameter(name="--table", negative="", show_default=False)]


def tag(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    show_table: TableSwitch = False,
    batch_input: ExampleBatchOptions = ExampleBatchOptions(),
    output: Output = Output(),
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
    from forebear.inference.task_predictions import strip_tags, word_examples

    loaded_run = open_run(run, "tag", output)
    plain_texts = list(texts or ())  # texts to show next to the predictions; not collected with --out
    num_tagged = sum(strip_tags(loaded_run, text) is not None for text in plain_texts)

    def parse_line(text: str) -> TaggedExample:
        nonlocal num_tagged
        num_tagged += strip_tags(loaded_run, text) is not None
        example = word_examples(loaded_run, text)[0]
        if batch_input.output_file is None:
            plain_texts.append(text)
        return example

    shown_texts = iter(plain_texts)

    def draw(console: Console, prediction: TagPrediction) -> None:
        _print_tags(console, prediction, next(shown_texts, None) or _join_words(prediction.words), show_table)

    def conll_lines(prediction: TagPrediction) -> str:
        words = zip(prediction.words, prediction.tags, strict=True)
        return "".join(f"{word}\t{tag}\n" for word, tag in words) + "\n"

    examples = word_examples(loaded_run, plain_texts)
    line_format = LineFormat("texts", "a text", parse_line, conll_lines, error_line="")
    run_task_command(loaded_run, examples, batch_input, output, line_format, draw)
    if num_tagged:
        subject = count_phrase(num_tagged, "text")
        output.note([f"{subject} with tags already, word/tag as the run learned it: read without them"])


def _join_words(words: Sequence[str]) -> str:
    """The words as text, for files without the original text."""
    from forebear.data.segmentation import has_han

    return ("" if has_han("".join(words)) else " ").join(words)


def _print_tags(console: Console, prediction: TagPrediction, text: str, show_table: bool) -> None:
    if prediction.is_plain and not show_table:
        words = zip(map(printable_cell, prediction.words), map(printable_cell, prediction.tags), strict=True)
        console.print(" ".join(f"{word}[dim]/{tag}[/]" for word, tag in words), soft_wrap=True)
        return
    if prediction.entities:
        table = Table("", "kind", ">probability")
        for entity in prediction.entities:
            name = Text.from_markup(f"[bold]{printable_cell(entity.text)}[/]")
            table.add_row(name, entity.label, f"{entity.probability:.4f}")
        console.print(table)
    elif not prediction.is_plain:
        console.print(f"{printable_cell(text[:80])}: nothing found")
    if show_table and prediction.words:
        max_probabilities = prediction.probabilities.max(axis=0).tolist()
        shown_labels = [index for index, p in enumerate(max_probabilities) if p >= MIN_SHOWN_PROBABILITY]
        table = Table("word", "tag", *(f">{printable_cell(prediction.labels[index])}" for index in shown_labels))
        for word, tag, row in zip(prediction.words, prediction.tags, prediction.probabilities.tolist(), strict=True):
            cells = (f"{row[index]:.3f}" if row[index] >= MIN_SHOWN_PROBABILITY else "" for index in shown_labels)
            table.add_row(word, tag, *cells)
        console.print(table)


def answer(
    run: Path,
    question: str | None = None,
    passage: str | None = None,
    /,
    *,
    passage_file: Path | None = None,
    show_table: TableSwitch = False,
    batch_input: ExampleBatchOptions = ExampleBatchOptions(),
    output: Output = Output(),
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
    from forebear.inference.task_predictions import question_examples

    loaded_run = open_run(run, "answer", output)
    if passage_file is not None:
        if passage is not None:
            raise InputError("the passage is given twice", hint="give it here, or with --passage-file")
        passage = passage_file.read_text(encoding="utf-8")
    if (question is None) != (passage is None):
        raise InputError("a question needs a passage", hint='forebear answer RUN "question" "passage"')
    examples = [] if question is None or passage is None else question_examples(question, passage)

    def parse_line(text: str) -> Any:
        question_text, _, passage_text = text.partition("\t")
        return question_examples(question_text, passage_text)[0]

    def format_answer(prediction: AnswerPrediction) -> str:
        return _tab_separated(prediction.question, prediction.text)

    line_format = LineFormat("questions", "a question, a tab and its passage", parse_line, format_answer)
    draw = functools.partial(_print_answer, show_table=show_table)
    run_task_command(loaded_run, examples, batch_input, output, line_format, draw)


def _tab_separated(*texts: str) -> str:
    """A line of tab-separated texts; whitespace within them becomes single spaces."""
    return "\t".join(" ".join(text.split()) for text in texts) + "\n"


def _print_answer(console: Console, prediction: AnswerPrediction, show_table: bool) -> None:
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
    candidates_table = Table("candidate", ">at", ">probability")
    for candidate in prediction.candidates:
        candidates_table.add_row(candidate.text, f"{candidate.start:,}", f"{candidate.probability:.4f}")
    candidates_table.add_row(Text("(no answer)", "dim"), "", f"{prediction.no_answer_score:.4f}")
    console.print(candidates_table)


def choose(
    run: Path,
    text: str | None = None,
    choices: TextArguments = None,
    /,
    *,
    show_table: TableSwitch = False,
    batch_input: ExampleBatchOptions = ExampleBatchOptions(),
    output: Output = Output(),
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
    from forebear.inference.task_predictions import choice_examples

    loaded_run = open_run(run, "choose", output)

    def parse_line(text: str) -> Any:
        prefix, *options = text.split("\t")
        return choice_examples(prefix, options)[0]

    examples = [] if text is None else choice_examples(text, choices or ())

    def format_choice(prediction: ChoicePrediction) -> str:
        return _tab_separated(prediction.text, str(prediction.choice), prediction.choices[prediction.choice])

    def draw(console: Console, prediction: ChoicePrediction) -> None:
        text = printable_cell(prediction.text)
        if batch_input.input_file is not None and not show_table:
            best_choice = printable_cell(prediction.choices[prediction.choice])
            probability = prediction.probabilities[prediction.choice]
            console.print(f"{text}: [bold]{best_choice}[/] {probability:.1%}", soft_wrap=True)
            return
        table = Table(text, ">probability", "")
        for index, (choice, p) in enumerate(zip(prediction.choices, prediction.probabilities, strict=True)):
            table.add_row(choice, f"{p:.4f}", text_bar(p), style="bold" if index == prediction.choice else "")
        console.print(table)

    line_format = LineFormat("questions", "a text and its choices with tabs between them", parse_line, format_choice)
    run_task_command(loaded_run, examples, batch_input, output, line_format, draw)


def classify(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    show_table: TableSwitch = False,
    batch_input: ExampleBatchOptions = ExampleBatchOptions(),
    output: Output = Output(),
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
    loaded_run = open_run(run, "classify", output)
    from forebear.inference.task_predictions import text_examples

    is_pair = cast(Any, loaded_run.task).num_texts == 2
    examples: list[Any] = list(texts or ())
    if is_pair:
        if len(examples) % 2:
            raise InputError("this run is about pairs of texts, and one is left over", hint="give two texts, or four …")
        examples = list(zip(examples[::2], examples[1::2], strict=True))

    def parse_line(text: str) -> Any:
        texts_of_line = tuple(text.split("\t")) if is_pair else text
        return text_examples(loaded_run, [texts_of_line])[0]  # pyright: ignore[reportArgumentType]

    unit, description = ("pairs", "two texts with a tab between them") if is_pair else ("texts", "a text")
    line_format = LineFormat(unit, description, parse_line, _label_row)
    show_table = show_table or (len(examples) == 1 and batch_input.input_file is None)
    draw = functools.partial(_print_label, show_table=show_table)
    run_task_command(loaded_run, text_examples(loaded_run, examples), batch_input, output, line_format, draw)


def _label_row(prediction: LabelPrediction) -> str:
    """Texts, label and probability, separated by tabs."""
    label = ",".join(prediction.label) if isinstance(prediction.label, tuple) else str(prediction.label)
    p = f"{prediction.probabilities[prediction.label]:.6f}" if isinstance(prediction.label, str) else ""
    return "\t".join([*(" ".join(text.split()) for text in prediction.texts), label, p]).rstrip("\t") + "\n"


def _print_label(console: Console, prediction: LabelPrediction, show_table: bool) -> None:
    text = " / ".join(map(printable_cell, prediction.texts))
    label, probabilities = prediction.label, prediction.probabilities
    label = ", ".join(label) if isinstance(label, tuple) else label
    shown_label = printable_cell(label or "(none)") if isinstance(label, str) else f"{label:.4f}"
    probability = f" {probabilities[label]:.1%}" if isinstance(label, str) and label in probabilities else ""
    console.print(f"{text}: [bold]{shown_label}[/]{probability}", soft_wrap=True)
    if show_table and probabilities:
        sorted_probabilities = sorted(probabilities.items(), key=lambda pair: -pair[1])
        rows = ((name, f"{p:.4f}", text_bar(p)) for name, p in sorted_probabilities)
        console.table("label", ">probability", "", rows=rows)
