"""`forebear score`: how probable a run finds texts, as a whole and token by token."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import (
    SINGLE_INPUT,
    BatchInputOptions,
    FailedInput,
    PartialResults,
    TextArguments,
    format_number,
    open_run,
    printable_cell,
    shorten,
)
from forebear.cli.output import Output, count_phrase, make_table, text_bar
from forebear.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.score import ScoredText, ScoredToken

COLOURS = ((2, "green"), (6, "yellow"), (11, "dark_orange"))  # up to so many bits of surprise; beyond, red
COLUMNS = (">bits/byte", ">tokens", "text")
WIDEST = 16  # bits that fill a bar


def score(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    tokens: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    ends: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    many: BatchInputOptions = SINGLE_INPUT,
    speaking: Output = Output(),
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
    from forebear.inference.score import score_ranks
    from forebear.inference.score import score_texts as scored

    using = open_run(run, "score", speaking)
    partly = PartialResults() if many.reads_lines(texts) else None
    counts = {"texts": 0, "tokens": 0}
    joined = 0

    def ask(group: list[str]) -> list[ScoredText]:
        nonlocal joined
        answers = scored(using.scorer, using.vocabulary_tokenizer, group, ends=ends)
        counts["texts"] += len(answers)
        joined += sum(len(using.training_units(text)) > 1 for text in group)
        counts["tokens"] += sum(len(answer.tokens) for answer in answers)
        return answers

    asked = ask if partly is None else lambda group: _but_blank(group, ask, using.vocabulary_tokenizer)
    answers: list[Any] = many.run_batch(
        many.valid_inputs(texts), asked, lambda answer: _facts(answer, tokens), partial=partly
    )
    if not counts["texts"]:
        raise InputError("there is no text to score", hint='forebear score RUN "some text", or --in FILE')
    facts: dict[str, Any] = {"run": using.name}
    if partly is not None:
        partly.emit_failures(facts, quiet=speaking.quiet)
    _tell_joined(facts, joined, speaking)
    if many.output_file is not None:
        facts |= {**counts, "out": str(many.output_file)}
        told = f"{count_phrase(counts['texts'], 'text')} of {count_phrase(counts['tokens'], 'token')} scored: {many.output_file}"
        speaking.emit(facts, lambda console: console.print(told, soft_wrap=True, markup=False))
        return
    shown: list[ScoredText] = [answer for answer in answers if not isinstance(answer, FailedInput)]
    places = score_ranks(shown)
    numbers = iter(places)
    ranked = [None if isinstance(answer, FailedInput) else next(numbers) for answer in answers]
    listed = [{"rank": rank, **_facts(answer, tokens)} for rank, answer in zip(ranked, answers, strict=True)]

    def draw(console: Console) -> None:
        for answer in shown if tokens else ():
            _draw_tokens(console, answer, using.vocabulary_tokenizer)
        _draw(console, shown, places)

    speaking.emit({**facts, "texts": listed}, draw)


def _tell_joined(facts: dict[str, Any], joined: int, speaking: Output) -> None:
    """Says how many texts are several to a run that learned sentences, so that `measure` has other figures."""
    if not joined:
        return
    facts["several_sentences"] = joined
    holds = "1 text holds" if joined == 1 else f"{joined:,} texts hold"
    what = f"{holds} several sentences: each is scored as one text here; forebear measure takes sentence by sentence"
    if not speaking.quiet:
        print(f"note: {what}, as the run learned them, with their ends", file=sys.stderr)  # noqa: T201


def _but_blank(group: list[str], ask: Callable[[list[str]], list[ScoredText]], tokenizer: Tokenizer) -> list[Any]:
    """What is scored, and an error in the place of every blank line: files have many, and all are told at once."""
    from forebear.inference.score import empty_text_error

    blank = [not text.strip() and not len(tokenizer.encode(text).ids) for text in group]
    scored = iter(ask([text for text, lacks in zip(group, blank, strict=True) if not lacks]))
    return [empty_text_error() if lacks else next(scored) for lacks in blank]


def _facts(answer: ScoredText | FailedInput, tokens: bool) -> dict[str, Any]:
    return answer.to_dict() if isinstance(answer, FailedInput) else answer.to_dict(tokens=tokens)


def _draw(console: Console, answers: list[ScoredText], places: list[int]) -> None:
    unknown = sum(answer.num_unknown for answer in answers)
    made = make_table(">rank", ">log P", ">perplexity", *([">without unknown"] if unknown else []), *COLUMNS)
    for rank, answer in sorted(zip(places, answers, strict=True), key=lambda pair: pair[0]):
        made.add_row(
            str(rank),
            format_number(answer.log_prob),
            format_number(answer.perplexity, 2),
            *([_known(answer)] if unknown else []),
            format_number(answer.bits_per_byte),
            str(len(answer.tokens)),
            shorten(answer.text),
        )
    console.print(made)
    if any(answer.is_pseudo_likelihood for answer in answers):
        told = "pseudo-likelihood: each token was told by all others, which ranks texts but is no probability of them"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if unknown:
        told = f"{count_phrase(unknown, 'unknown token')}: bits, and the rank, charge the spelling; log P and perplexity do not"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if impossible := sum(answer.num_impossible for answer in answers):
        has = "1 token has" if impossible == 1 else f"{impossible:,} tokens have"
        told = f"{has} the probability 0 for this run, which makes the text impossible (-inf)"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)


def _known(answer: ScoredText) -> str:
    return "" if answer.perplexity_known is None else format_number(answer.perplexity_known, 2)


def _draw_tokens(console: Console, answer: ScoredText, tokenizer: Tokenizer) -> None:
    from forebear.inference.stream_decode import readable_token

    ends = [0, *(token.end for token in answer.tokens)]
    spaced = (answer.text[end : token.end] for end, token in zip(ends, answer.tokens, strict=False))
    coloured = (
        f"[{_colour(token)}]{printable_cell(text)}[/]" for token, text in zip(answer.tokens, spaced, strict=True)
    )
    console.print("".join(coloured), soft_wrap=True)
    counts = any(token.ngram_length is not None for token in answer.tokens)
    made = make_table("token", "original", ">P", ">log P", ">bits", "", *([">n-gram"] if counts else []))
    for token in answer.tokens:
        made.add_row(
            printable_cell(readable_token(tokenizer, token.id)),
            printable_cell(token.original),
            f"{token.probability:.4g}",
            format_number(token.log_prob),
            format_number(token.bits, 2),
            text_bar(min(token.bits / WIDEST, 1)),
            *([str(token.ngram_length)] if counts else []),
            style=_colour(token),
        )
    console.print(made)


def _colour(token: ScoredToken) -> str:
    return next((colour for bits, colour in COLOURS if token.bits <= bits), "red")
