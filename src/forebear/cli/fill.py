"""`forebear fill`: what stands in the blanks of a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forebear.cli.many import ONE, Given, ManyOptions, number, one_by_one, opened, plain
from forebear.cli.printing import Speaking, bar, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.filling import Filled


def fill(
    run: Path,
    texts: Given = None,
    /,
    *,
    top: int = 5,
    tokens: int = 1,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Fill the blanks of a text by a run that finds hidden tokens (bert and its kin), as many as there are.

    A blank is ____ or the run's own mask, [MASK] or <mask>; [MASK][MASK] hides two tokens in a row. For each hidden
    token the likeliest are shown while all others stay hidden; the whole text is filled surest place first.

    ```
    forebear fill runs/bert "the ____ sat on the ____"
    forebear fill runs/bert "判断这个词的____" --tokens 2
    forebear fill runs/bert --in questions.txt --out answers.jsonl
    ```

    Parameters
    ----------
    run
        The run's folder.
    texts
        Texts with blanks; - for the lines of standard input.
    top
        How many candidates to show for each hidden token.
    tokens
        How many tokens a ____ hides: 2 for a Chinese word of two characters.
    """
    using = opened(run, "fill", speaking)
    count = 0

    def ask(group: list[str]) -> list[Filled]:
        nonlocal count
        count += len(group)
        return one_by_one(group, lambda text: using.fill(text, top=top, tokens=tokens))

    answers: list[Filled] = many.answer(many.lines(texts), ask, lambda answer: answer.facts())
    if not count:
        raise BadInput("there is no text to fill", remedy='forebear fill RUN "some ____ text", or --in FILE')
    if many.output_file is not None:
        told = f"{count:,} texts filled: {many.output_file}"
        facts = {"run": using.name, "texts": count, "out": str(many.output_file)}
        speaking.tell(facts, lambda console: console.print(told, soft_wrap=True, markup=False))
        return
    facts = {"run": using.name, "texts": [answer.facts() for answer in answers]}
    speaking.tell(facts, lambda console: [_draw(console, answer) for answer in answers])


def _draw(console: Console, answer: Filled) -> None:
    console.print(f"[bold]{plain(answer.whole)}[/]  (log P {number(answer.log_probability)})", soft_wrap=True)
    made = table(">blank", "token", "text", ">P", "")
    for at, candidates in enumerate(answer.blanks, 1):
        for rank, filler in enumerate(candidates):
            cells = (plain(filler.token), plain(filler.text), f"{filler.probability:.4f}", bar(filler.probability))
            made.add_row(str(at) if rank == 0 else "", *cells)
    console.print(made)
