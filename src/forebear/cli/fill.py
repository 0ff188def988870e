"""`forebear fill`: predict masked tokens."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from forebear.cli.batch_io import BatchInputOptions, RunArgument, TextArguments, open_run, run_per_text
from forebear.cli.output import Console, Output, Table, format_number, text_bar

if TYPE_CHECKING:
    from forebear.inference.fill import FilledText


def fill(
    run: RunArgument,
    texts: TextArguments = None,
    /,
    *,
    top: int = 5,
    tokens: int = 1,
    many: BatchInputOptions = BatchInputOptions(),
    speaking: Output = Output(),
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
    texts
        Texts with blanks; - for the lines of standard input.
    top
        How many candidates to show for each hidden token.
    tokens
        How many tokens a ____ hides: 2 for a Chinese word of two characters.
    """
    loaded_run = open_run(run, "fill", speaking)
    ask = functools.partial(loaded_run.fill, top=top, tokens=tokens)
    hint = 'forebear fill RUN "some ____ text"'
    run_per_text(loaded_run, texts, many, speaking, ask, hint=hint, done="filled", draw=_draw_filled)


def _draw_filled(console: Console, answer: FilledText) -> None:
    console.bold(answer.filled_text, f"  (log P {format_number(answer.log_prob)})")
    table = Table(">blank", "token", "text", ">P", "")
    for blank, candidates in enumerate(answer.blanks, 1):
        for rank, candidate in enumerate(candidates):
            name, p = str(blank) if rank == 0 else "", candidate.probability
            table.add_row(name, candidate.token, candidate.text, f"{p:.4f}", text_bar(p))
    console.print(table)
