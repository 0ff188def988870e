"""`forebear choose`: which of several continuations or answers is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.doing import NONE, ExampleOptions, do
from forebear.cli.many import Given, opened, plain
from forebear.cli.printing import Speaking, bar, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.tasks.choice import Chosen


def choose(
    run: Path,
    text: str | None = None,
    choices: Given = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleOptions = NONE,
    speaking: Speaking = Speaking(),
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
    from forebear.using.doing import choices as offered

    using = opened(run, "choose", speaking)

    def line(one: str) -> Any:
        first, *rest = one.split("\t")
        return offered(first, rest)[0]

    given = [] if text is None else offered(text, choices or ())
    shown = show_table or many.input_file is None
    draw = lambda console, answer: _draw(console, answer, shown)  # noqa: E731
    plainly = "a text and its choices with tabs between them"
    do(using, given, many, speaking, line=line, plain=plainly, what="questions", draw=draw, write=_row)


def _row(answer: Chosen) -> str:
    return f"{' '.join(answer.text.split())}\t{answer.chosen}\t{' '.join(answer.choices[answer.chosen].split())}\n"


def _draw(console: Console, answer: Chosen, shown: bool) -> None:
    if not shown:
        best, sure = plain(answer.choices[answer.chosen]), answer.probabilities[answer.chosen]
        console.print(f"{plain(answer.text)}: [bold]{best}[/] {sure:.1%}", soft_wrap=True)
        return
    made = table(plain(answer.text), ">probability", "")
    for number, (choice, p) in enumerate(zip(answer.choices, answer.probabilities, strict=True)):
        made.add_row(plain(choice), f"{p:.4f}", bar(p), style="bold" if number == answer.chosen else "")
    console.print(made)
