"""`forebear answer`: where in a passage the answer to a question stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.doing import NONE, ExampleOptions, do
from forebear.cli.many import opened, plain
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.tasks.answering import Answer

LEAST = 0.001  # a probability that is shown


def answer(
    run: Path,
    question: str | None = None,
    passage: str | None = None,
    /,
    *,
    passage_file: Path | None = None,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleOptions = NONE,
    speaking: Speaking = Speaking(),
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
    from forebear.using.doing import asked

    using = opened(run, "answer", speaking)
    if passage_file is not None:
        if passage is not None:
            raise BadInput("the passage is given twice", remedy="give it here, or with --passage-file")
        passage = passage_file.read_text(encoding="utf-8")
    if (question is None) != (passage is None):
        raise BadInput("a question needs a passage", remedy='forebear answer RUN "question" "passage"')
    given = [] if question is None or passage is None else asked(question, passage)

    def line(text: str) -> Any:
        first, _, rest = text.partition("\t")
        return asked(first, rest)[0]

    do(
        using,
        given,
        many,
        speaking,
        line=line,
        plain="a question, a tab and its passage",
        what="questions",
        draw=lambda console, told: _draw(console, told, show_table),
        write=lambda told: f"{' '.join(told.question.split())}\t{' '.join(told.text.split())}\n",
    )


def _draw(console: Console, told: Answer, shown: bool) -> None:
    best = "no answer here" if told.best is None else plain(told.best.text)
    sure = told.none if told.best is None else told.best.probability
    console.print(f"{plain(told.question)}  [bold]{best}[/] {sure:.1%}", soft_wrap=True)
    if not shown:
        return
    made = table("token", ">P(start)", ">P(end)")
    for token, start, end in told.table:
        if max(start, end) >= LEAST or len(told.table) <= 60:
            made.add_row(plain(token), f"{start:.4f}", f"{end:.4f}")
    console.print(made)
    others = table("candidate", ">at", ">probability")
    for one in told.candidates:
        others.add_row(plain(one.text), f"{one.start:,}", f"{one.probability:.4f}")
    others.add_row("[dim](no answer)[/]", "", f"{told.none:.4f}")
    console.print(others)
