"""`forebear next`: what a run expects to come next, or in a blank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.many import ONE, Given, ManyOptions, number, one_by_one, opened, plain
from forebear.cli.printing import Speaking, bar, table
from forebear.errors import BadInput

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
    """
    from forebear.using.following import next as following

    using = opened(run, "next", speaking)
    count = 0

    def ask(group: list[str]) -> list[Following]:
        nonlocal count
        count += len(group)
        how = {"top": top, "ends": ends, "among": among}
        return one_by_one(group, lambda text: following(using.predictor, using.tokenizer, text, **how))

    answers: list[Following] = many.answer(many.lines(texts), ask, lambda answer: answer.facts())
    if not count:
        raise BadInput("there is no text to go on with", remedy='forebear next RUN "some text", or --in FILE')
    if many.output_file is not None:
        told = f"candidates for {count:,} texts: {many.output_file}"
        facts = {"run": using.name, "texts": count, "out": str(many.output_file)}
        speaking.tell(facts, lambda console: console.print(told, soft_wrap=True, markup=False))
        return
    facts = {"run": using.name, "texts": [answer.facts() for answer in answers]}
    speaking.tell(facts, lambda console: [_draw(console, answer, using.tokenizer) for answer in answers])


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
    if not answer.candidates:
        console.print("[yellow]nothing that this run holds possible fits here[/]")
    if answer.considered < answer.fitting:
        console.print(
            f"tried {answer.considered:,} of {answer.fitting:,} candidates: those likeliest after the text before the "
            f"blank, which have {answer.covered:.1%} of the probability there; --among N tries more",
            soft_wrap=True,
        )
