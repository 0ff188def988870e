"""`forebear next`: what a run expects to come next, or in a blank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.evidence import draw_evidence
from forebear.cli.many import ONE, Given, ManyOptions, asked_singly, number, opened, plain
from forebear.cli.printing import Speaking, bar, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.tokenizer import Tokenizer
    from forebear.using.following import Following


def next(  # noqa: A001 - the command's name
    run: Path,
    texts: Given = None,
    /,
    *,
    top: int = 10,
    ends: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    among: int | None = None,
    why: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Show what a run expects to come next, or in a blank, with probabilities.

    A blank is ____ (two underscores or more, not inside a name). Every candidate that can be read there is judged by
    the probability of the whole text with it, and probabilities are shared out among those; without a blank they are
    those of every token that may come next.

    ```
    forebear next runs/ngram "判断这个词的____"
    forebear next runs/gpt2 "Once upon a" --top 5
    forebear next runs/ngram "the ____ sat on the mat" --json
    forebear next runs/ngram "判断单词的" --top 3 --why
    ```

    Parameters
    ----------
    run
        The run's folder.
    texts
        Texts to go on with, or with one blank each; - for the lines of standard input.
    top
        How many candidates to show.
    ends
        The text with the blank filled ends after its last character.
    among
        Candidates tried where text follows the blank. [default: all, or as many as take seconds, which is told]
    why
        The evidence behind each probability, of a run that counts: how often which context was seen, how often the
        token after it, and what the shorter contexts add.
    """
    from forebear.using.following import next as following

    using = opened(run, "next", speaking)
    how = {"top": top, "ends": ends, "among": among, "why": why}
    asked_singly(
        using,
        texts,
        many,
        speaking,
        lambda text: following(using.predictor, using.tokenizer, text, **how),
        remedy='forebear next RUN "some text"',
        done="answered",
        draw=lambda console, answer: _draw(console, answer, using.tokenizer),
    )


def _draw(console: Console, answer: Following, tokenizer: Tokenizer) -> None:
    from forebear.using.continuing import readable

    console.print(f"[bold]{plain(answer.text)}[/]", soft_wrap=True)
    columns = (">log P of the text", "text") if answer.has_blank else (">log P",)
    made = table(">", "token", ">probability", "", *columns)
    for place, candidate in enumerate(answer.candidates, 1):
        cells = [plain(candidate.whole)] if candidate.whole is not None else []
        share = candidate.probability
        shown = plain(candidate.text if answer.has_blank else readable(tokenizer, candidate.id))
        made.add_row(str(place), shown, f"{share:.2%}", bar(share, 20), number(candidate.log_probability), *cells)
    console.print(made)
    for candidate in answer.candidates:
        if candidate.why is not None:
            draw_evidence(console, candidate.why, readable(tokenizer, candidate.id), tokenizer.roles["end"])
    if not answer.candidates:
        console.print("[yellow]nothing that this run holds possible fits here[/]")
    if answer.considered < answer.fitting:
        console.print(
            f"tried {answer.considered:,} of {answer.fitting:,} candidates: those likeliest after the text before the "
            f"blank, which have {answer.covered:.1%} of the probability there; --among N tries more",
            soft_wrap=True,
        )
