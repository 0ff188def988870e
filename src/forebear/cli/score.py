"""`forebear score`: how probable a run finds texts, as a whole and token by token."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import ONE, Given, ManyOptions, brief, number, opened, plain
from forebear.cli.partly import Partly, Unanswered
from forebear.cli.printing import Speaking, bar, counted, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.tokenizer import Tokenizer
    from forebear.using.scoring import Scored, ScoredToken

COLOURS = ((2, "green"), (6, "yellow"), (11, "dark_orange"))  # up to so many bits of surprise; beyond, red
COLUMNS = (">bits/byte", ">tokens", "text")
WIDEST = 16  # bits that fill a bar


def score(
    run: Path,
    texts: Given = None,
    /,
    *,
    tokens: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    ends: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Say how probable a run finds texts: log-probability, perplexity, bits per byte; several are ranked.

    Log-probabilities are natural. Bits per byte charge unknown words their spelling, so that they can be compared
    between runs; perplexity is by the run's own tokens. A run that finds hidden tokens (bert) tells each token by all
    others: that ranks texts, but is no probability of them, and is marked pseudo.

    ```
    forebear score runs/ngram "判断这个词的词性" "判断这个词的磁性"
    forebear score runs/gpt2 "The cat sat on the mat." --tokens --ends
    forebear score runs/gpt2 --in sentences.txt --out scores.jsonl
    ```

    Parameters
    ----------
    run
        The run's folder.
    texts
        What to score, each argument by itself; - for the lines of standard input.
    tokens
        Show every token, coloured by how much it surprises; of a run that counts, how many tokens the n-gram had.
    ends
        Score also that each text ends where it does.
    """
    from forebear.using.scoring import ranks
    from forebear.using.scoring import score as scored

    using = opened(run, "score", speaking)
    partly = Partly() if many.reads_lines(texts) else None
    counts = {"texts": 0, "tokens": 0}
    joined = 0

    def ask(group: list[str]) -> list[Scored]:
        nonlocal joined
        answers = scored(using.scorer, using.tokenizer, group, ends=ends)
        counts["texts"] += len(answers)
        joined += sum(len(using.parts_of(text)) > 1 for text in group)
        counts["tokens"] += sum(len(answer.tokens) for answer in answers)
        return answers

    asked = ask if partly is None else lambda group: _but_blank(group, ask, using.tokenizer)
    answers: list[Any] = many.answer(many.lines(texts), asked, lambda answer: _facts(answer, tokens), partly=partly)
    if not counts["texts"]:
        raise BadInput("there is no text to score", remedy='forebear score RUN "some text", or --in FILE')
    facts: dict[str, Any] = {"run": using.name}
    if partly is not None:
        partly.tell(facts, quiet=speaking.quiet)
    _tell_joined(facts, joined, speaking)
    if many.output_file is not None:
        facts |= {**counts, "out": str(many.output_file)}
        told = f"{counted(counts['texts'], 'text')} of {counted(counts['tokens'], 'token')} scored: {many.output_file}"
        speaking.tell(facts, lambda console: console.print(told, soft_wrap=True, markup=False))
        return
    shown: list[Scored] = [answer for answer in answers if not isinstance(answer, Unanswered)]
    places = ranks(shown)
    numbers = iter(places)
    ranked = [None if isinstance(answer, Unanswered) else next(numbers) for answer in answers]
    listed = [{"rank": rank, **_facts(answer, tokens)} for rank, answer in zip(ranked, answers, strict=True)]

    def draw(console: Console) -> None:
        for answer in shown if tokens else ():
            _draw_tokens(console, answer, using.tokenizer)
        _draw(console, shown, places)

    speaking.tell({**facts, "texts": listed}, draw)


def _tell_joined(facts: dict[str, Any], joined: int, speaking: Speaking) -> None:
    """Says how many texts are several to a run that learned sentences, so that `measure` has other figures."""
    if not joined:
        return
    facts["several_sentences"] = joined
    holds = "1 text holds" if joined == 1 else f"{joined:,} texts hold"
    what = f"{holds} several sentences: each is scored as one text here; forebear measure takes sentence by sentence"
    if not speaking.quiet:
        print(f"note: {what}, as the run learned them, with their ends", file=sys.stderr)  # noqa: T201


def _but_blank(group: list[str], ask: Callable[[list[str]], list[Scored]], tokenizer: Tokenizer) -> list[Any]:
    """What is scored, and an error in the place of every blank line: files have many, and all are told at once."""
    from forebear.using.scoring import nothing_to_score

    blank = [not text.strip() and not len(tokenizer.encode(text).ids) for text in group]
    scored = iter(ask([text for text, lacks in zip(group, blank, strict=True) if not lacks]))
    return [nothing_to_score() if lacks else next(scored) for lacks in blank]


def _facts(answer: Scored | Unanswered, tokens: bool) -> dict[str, Any]:
    return answer.facts() if isinstance(answer, Unanswered) else answer.facts(tokens=tokens)


def _draw(console: Console, answers: list[Scored], places: list[int]) -> None:
    unknown = sum(answer.unknown for answer in answers)
    made = table(">rank", ">log P", ">perplexity", *([">without unknown"] if unknown else []), *COLUMNS)
    for rank, answer in sorted(zip(places, answers, strict=True), key=lambda pair: pair[0]):
        made.add_row(
            str(rank),
            number(answer.log_probability),
            number(answer.perplexity, 2),
            *([_known(answer)] if unknown else []),
            number(answer.bits_per_byte),
            str(len(answer.tokens)),
            brief(answer.text),
        )
    console.print(made)
    if any(answer.pseudo for answer in answers):
        told = "pseudo-likelihood: each token was told by all others, which ranks texts but is no probability of them"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if unknown:
        told = (
            f"{counted(unknown, 'unknown token')}: bits, and the rank, charge the spelling; log P and perplexity do not"
        )
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if impossible := sum(answer.impossible for answer in answers):
        has = "1 token has" if impossible == 1 else f"{impossible:,} tokens have"
        told = f"{has} the probability 0 for this run, which makes the text impossible (-inf)"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)


def _known(answer: Scored) -> str:
    return "" if answer.perplexity_known is None else number(answer.perplexity_known, 2)


def _draw_tokens(console: Console, answer: Scored, tokenizer: Tokenizer) -> None:
    from forebear.using.continuing import readable

    ends = [0, *(token.end for token in answer.tokens)]
    spaced = (answer.text[end : token.end] for end, token in zip(ends, answer.tokens, strict=False))
    coloured = (f"[{_colour(token)}]{plain(text)}[/]" for token, text in zip(answer.tokens, spaced, strict=True))
    console.print("".join(coloured), soft_wrap=True)
    counts = any(token.ngram_length is not None for token in answer.tokens)
    made = table("token", "original", ">P", ">log P", ">bits", "", *([">n-gram"] if counts else []))
    for token in answer.tokens:
        made.add_row(
            plain(readable(tokenizer, token.id)),
            plain(token.original),
            f"{token.probability:.4g}",
            number(token.log_probability),
            number(token.bits, 2),
            bar(min(token.bits / WIDEST, 1)),
            *([str(token.ngram_length)] if counts else []),
            style=_colour(token),
        )
    console.print(made)


def _colour(token: ScoredToken) -> str:
    return next((colour for bits, colour in COLOURS if token.bits <= bits), "red")
