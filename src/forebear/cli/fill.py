"""`forebear fill`: what stands in the blanks of a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forebear.cli.many import ONE, Given, ManyOptions, asked_singly, number, opened, plain
from forebear.cli.printing import Speaking, bar, table

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
    asked_singly(
        using,
        texts,
        many,
        speaking,
        lambda text: using.fill(text, top=top, tokens=tokens),
        remedy='forebear fill RUN "some ____ text"',
        done="filled",
        draw=_draw,
    )


def _draw(console: Console, answer: Filled) -> None:
    console.print(f"[bold]{plain(answer.whole)}[/]  (log P {number(answer.log_probability)})", soft_wrap=True)
    made = table(">blank", "token", "text", ">P", "")
    for at, candidates in enumerate(answer.blanks, 1):
        for rank, filler in enumerate(candidates):
            cells = (plain(filler.token), plain(filler.text), f"{filler.probability:.4f}", bar(filler.probability))
            made.add_row(str(at) if rank == 0 else "", *cells)
    console.print(made)
