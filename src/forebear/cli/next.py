"""`forebear next`: what a run expects to come next, or in a blank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.batch_io import (
    SINGLE_INPUT,
    BatchInputOptions,
    TextArguments,
    format_number,
    open_run,
    printable_cell,
    run_per_text,
)
from forebear.cli.output import Output, make_table, text_bar

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.next import NextTokens
    from forebear.statistical.ngram.explain_probability import BackoffStep, NgramEvidence

# The evidence behind a probability, as sentences that a person reads from the longest context to the shortest.


TOO_RARE = "too rare for this model (--prune)"


def print_evidence(console: Console, found: NgramEvidence, token: str, end: int) -> None:
    """Prints the lines of one token; `end` is the id with which a text begins."""
    for line in lines(found, token, end):
        console.print(printable_cell(line), soft_wrap=True, highlight=False)


def lines(found: NgramEvidence, token: str, end: int) -> Iterator[str]:
    """`token: 2 of the 3 times after …`, below it what shorter contexts add, and the sum where there are several."""
    told = [(_sentence(found, place, end), step.mass) for place, step in enumerate(found.steps)]
    if found.remainder:
        told.append((f"it is one of {found.num_shared:,} tokens{_weighed(found.remainder)}", found.uniform_share))
    added = 0
    for number, (sentence, part) in enumerate(told):
        before = f"{token}: " if number == 0 else "  + " if part and added else "    "
        yield f"{before}{sentence} → {part:.4g}" if part else f"{before}{sentence}"
        added += part > 0
    if added > 1:
        yield f"  = {found.probability:.4g}"


def _sentence(found: NgramEvidence, place: int, end: int) -> str:
    step = found.steps[place]
    last = place + 1 == len(found.steps)
    onward = "" if last else f"; backed off to {_name(found.steps[place + 1], end)}"
    if step.seen is None:
        return _listed(step, end) + onward
    if step.context and not step.seen:
        return f"{_name(step, end)} was never seen{onward}"
    if not step.is_known:
        return f"{_name(step, end)} was seen {_often(step.seen)}: {TOO_RARE}{onward}"
    where = _where(step, end)
    if not step.is_listed and step.times:
        return f"{_times(step)} {where}{_followers(step)}: {TOO_RARE}{onward}"
    if not step.is_listed:
        never = "something else the only time" if step.seen == 1 else f"never in the {step.seen:,} times"
        return f"{never} {where}{_followers(step)}{onward}"
    return f"{_times(step)} {where}{_followed(found, step)}{_taken(found, step)}{_weighed(step.weight)}"


def _times(step: BackoffStep) -> str:
    if step.seen == 1:
        return "the only time"
    return f"{step.times:,} of the {step.seen:,} times"


def _followed(found: NgramEvidence, step: BackoffStep) -> str:
    return _followers(step) if found.smoothing in ("witten-bell", "kneser-ney") and step.context else ""


def _followers(step: BackoffStep) -> str:
    if step.seen == 1:
        return ""
    return f" ({step.followers:,} different token{'' if step.followers == 1 else 's'})"


def _taken(found: NgramEvidence, step: BackoffStep) -> str:
    """What was made of the count."""
    told = ""
    if (step.counted, step.of) != (step.times, step.seen):
        told = f", by different tokens before it: {step.counted:,} of {step.of:,}"
    if step.pruned:
        told += f", {step.pruned:,} of them pruned"
    if step.discount:
        told += f", less {step.discount:.4g}"
    if found.smoothing == "stupid" and step.times and step.seen and step.share:
        told += f", ÷ {step.times / step.seen / step.share:.4g}, to which all after it sum"
    if found.smoothing == "add":
        told += f", with {found.add_k:g} more for each of {found.num_shared:,} tokens"
    return told


def _weighed(weight: float) -> str:
    return "" if weight == 1 else f", × {weight:.4g} left"


def _listed(step: BackoffStep, end: int) -> str:
    """Of probabilities from elsewhere."""
    if step.log is not None:
        return f"log10 P {_where(step, end)} is {step.log / math.log(10):.6g}{_weighed(step.weight)}"
    if not step.is_known:
        return f"{_name(step, end)} is not listed"
    backoff = 0.0 if step.backoff is None else step.backoff / math.log(10)
    return f"not listed {_where(step, end)}, which hands on log10 {backoff:.6g}"


def _often(times: int | None) -> str:
    return "one time" if times == 1 else f"{times:,} times"


def _where(step: BackoffStep, end: int) -> str:
    if not step.context:
        return "in all"
    return _name(step, end) if step.context == (end,) else f"after {_name(step, end)}"


def _name(step: BackoffStep, end: int) -> str:
    """The context in words. What begins with the end of a text is its beginning."""
    if not step.context:
        return "the token alone"
    begins = step.context[0] == end
    words = " ".join(step.words[begins:])
    if any(character.isascii() and not character.isspace() for character in words):
        words = f"‘{words}’"  # told apart from the sentence that it stands in
    return "at the beginning of a text" if begins and not words else words + (" at the beginning" if begins else "")


def next(  # noqa: A001 - the command's name
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    top: int = 10,
    ends: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    among: int | None = None,
    why: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    many: BatchInputOptions = SINGLE_INPUT,
    speaking: Output = Output(),
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
    from forebear.inference.next import next_tokens as following

    using = open_run(run, "next", speaking)
    how = {"top": top, "ends": ends, "among": among, "why": why}
    run_per_text(
        using,
        texts,
        many,
        speaking,
        lambda text: following(using.predictor, using.vocabulary_tokenizer, text, **how),
        hint='forebear next RUN "some text"',
        done="answered",
        draw=lambda console, answer: _draw(console, answer, using.vocabulary_tokenizer),
    )


def _draw(console: Console, answer: NextTokens, tokenizer: Tokenizer) -> None:
    from forebear.inference.stream_decode import readable_token

    console.print(f"[bold]{printable_cell(answer.text)}[/]", soft_wrap=True)
    columns = (">log P of the text", "text") if answer.has_blank else (">log P",)
    made = make_table(">", "token", ">probability", "", *columns)
    for place, candidate in enumerate(answer.candidates, 1):
        cells = [printable_cell(candidate.full_text)] if candidate.full_text is not None else []
        share = candidate.probability
        shown = printable_cell(candidate.text if answer.has_blank else readable_token(tokenizer, candidate.id))
        made.add_row(str(place), shown, f"{share:.2%}", text_bar(share, 20), format_number(candidate.log_prob), *cells)
    console.print(made)
    for candidate in answer.candidates:
        if candidate.explanation is not None:
            print_evidence(
                console, candidate.explanation, readable_token(tokenizer, candidate.id), tokenizer.special_roles["end"]
            )
    if not answer.candidates:
        console.print("[yellow]nothing that this run holds possible fits here[/]")
    if answer.num_considered < answer.num_fitting:
        console.print(
            f"tried {answer.num_considered:,} of {answer.num_fitting:,} candidates: those likeliest after the text before the "
            f"blank, which have {answer.covered_mass:.1%} of the probability there; --among N tries more",
            soft_wrap=True,
        )
