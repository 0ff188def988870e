"""`forebear next` and `fill`: next tokens, with the counts behind n-gram probabilities; masked tokens."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forebear.cli.batch_io import BatchInputOptions, RunArgument, TextArguments, open_run, run_per_text
from forebear.cli.output import Console, Output, Switch, Table, count_phrase, format_number, printable_cell, text_bar

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.fill import FilledText
    from forebear.inference.next_tokens import TokenPrediction
    from forebear.statistical.ngram.explain_probability import BackoffStep, NgramEvidence

PRUNED_NOTE = "too rare for this model (--prune)"


def evidence_lines(evidence: NgramEvidence, token: str, eos_id: int) -> Iterator[str]:
    """Lines such as `token: 2 of the 3 times after …`, with the terms of shorter contexts and, if several, their sum.

    `eos_id` is also the first id of a text.
    """
    sentences = [(_sentence(evidence, index, eos_id), step.mass) for index, step in enumerate(evidence.steps)]
    if evidence.remainder:
        sentence = f"it is one of {evidence.num_shared:,} tokens{_weight_left(evidence.remainder)}"
        sentences.append((sentence, evidence.uniform_share))
    num_terms = 0
    for position, (sentence, mass) in enumerate(sentences):
        prefix = f"{token}: " if position == 0 else "  + " if mass and num_terms else "    "
        yield f"{prefix}{sentence} → {mass:.4g}" if mass else f"{prefix}{sentence}"
        num_terms += mass > 0
    if num_terms > 1:
        yield f"  = {evidence.probability:.4g}"


def _sentence(evidence: NgramEvidence, index: int, eos_id: int) -> str:
    step = evidence.steps[index]
    is_last = index + 1 == len(evidence.steps)
    backoff_note = "" if is_last else f"; backed off to {_context_name(evidence.steps[index + 1], eos_id)}"
    if step.seen is None:
        return _listed_probability(step, eos_id) + backoff_note
    if step.context and not step.seen:
        return f"{_context_name(step, eos_id)} was never seen{backoff_note}"
    if not step.is_known:
        times = "one time" if step.seen == 1 else f"{step.seen:,} times"
        return f"{_context_name(step, eos_id)} was seen {times}: {PRUNED_NOTE}{backoff_note}"
    context_position = _context_position(step, eos_id)
    times = "the only time" if step.seen == 1 else f"{step.times:,} of the {step.seen:,} times"
    followers = "" if step.seen == 1 else f" ({count_phrase(step.followers or 0, 'different token')})"
    if not step.is_listed and step.times:
        return f"{times} {context_position}{followers}: {PRUNED_NOTE}{backoff_note}"
    if not step.is_listed:
        occurrence = "something else the only time" if step.seen == 1 else f"never in the {step.seen:,} times"
        return f"{occurrence} {context_position}{followers}{backoff_note}"
    counts_followers = evidence.smoothing in ("witten-bell", "kneser-ney") and step.context
    adjustments = (followers if counts_followers else "") + _count_adjustments(evidence, step)
    return f"{times} {context_position}{adjustments}{_weight_left(step.weight)}"


def _count_adjustments(evidence: NgramEvidence, step: BackoffStep) -> str:
    """How smoothing changes the count."""
    text = ""
    if (step.counted, step.of) != (step.times, step.seen):
        text = f", by different tokens before it: {step.counted:,} of {step.of:,}"
    if step.pruned:
        text += f", {step.pruned:,} of them pruned"
    if step.discount:
        text += f", less {step.discount:.4g}"
    if evidence.smoothing == "stupid" and step.times and step.seen and step.share:
        text += f", ÷ {step.times / step.seen / step.share:.4g}, to which all after it sum"
    if evidence.smoothing == "add":
        text += f", with {evidence.add_k:g} more for each of {evidence.num_shared:,} tokens"
    return text


def _weight_left(weight: float) -> str:
    return "" if weight == 1 else f", × {weight:.4g} left"


def _listed_probability(step: BackoffStep, eos_id: int) -> str:
    """The entry of an imported ARPA model."""
    if step.log is not None:
        return f"log10 P {_context_position(step, eos_id)} is {step.log / math.log(10):.6g}{_weight_left(step.weight)}"
    if not step.is_known:
        return f"{_context_name(step, eos_id)} is not listed"
    backoff = 0.0 if step.backoff is None else step.backoff / math.log(10)
    return f"not listed {_context_position(step, eos_id)}, which hands on log10 {backoff:.6g}"


def _context_position(step: BackoffStep, eos_id: int) -> str:
    if not step.context:
        return "in all"
    return _context_name(step, eos_id) if step.context == (eos_id,) else f"after {_context_name(step, eos_id)}"


def _context_name(step: BackoffStep, eos_id: int) -> str:
    """The context as text; a leading end-of-text token marks the beginning of a text."""
    if not step.context:
        return "the token alone"
    at_beginning = step.context[0] == eos_id
    words = " ".join(step.words[at_beginning:])
    if any(character.isascii() and not character.isspace() for character in words):
        words = f"‘{words}’"  # quoted to separate it from the sentence
    if at_beginning:
        return f"{words} at the beginning" if words else "at the beginning of a text"
    return words


def next(  # noqa: A001 - the command's name
    run: RunArgument,
    texts: TextArguments = None,
    /,
    *,
    top: int = 10,
    ends: Switch = False,
    among: int | None = None,
    why: Switch = False,
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
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
    from forebear.inference.next_tokens import next_tokens

    loaded_run = open_run(run, "next", output)
    tokenizer = loaded_run.vocabulary_tokenizer
    options = {"top": top, "ends": ends, "among": among, "why": why}
    predict_next = lambda text: next_tokens(loaded_run.predictor, tokenizer, text, **options)  # noqa: E731
    draw = lambda console, answer: _print_next(console, answer, tokenizer)  # noqa: E731
    hint = 'forebear next RUN "some text"'
    run_per_text(loaded_run, texts, batch_input, output, predict_next, hint=hint, done_verb="answered", draw=draw)


def _print_next(console: Console, answer: TokenPrediction, tokenizer: Tokenizer) -> None:
    from forebear.data.tokenizers.bpe import readable_token

    console.bold(answer.text)
    columns = (">log P of the text", "text") if answer.has_blank else (">log P",)
    table = Table(">", "token", ">probability", "", *columns)
    for rank, candidate in enumerate(answer.candidates, 1):
        full_text = [] if candidate.full_text is None else [candidate.full_text]
        token = candidate.text if answer.has_blank else readable_token(tokenizer, candidate.id)
        probability_cells = (f"{candidate.probability:.2%}", text_bar(candidate.probability, 20))
        table.add_row(str(rank), token, *probability_cells, format_number(candidate.log_prob), *full_text)
    console.print(table)
    for candidate in answer.candidates:
        if candidate.evidence is not None:
            token = readable_token(tokenizer, candidate.id)
            for line in evidence_lines(candidate.evidence, token, tokenizer.special_roles["end"]):
                console.print(printable_cell(line), soft_wrap=True)
    if not answer.candidates:
        console.print("[yellow]nothing that this run holds possible fits here[/]")
    if answer.num_considered < answer.num_valid:
        note = f"tried {answer.num_considered:,} of {answer.num_valid:,} candidates: those likeliest after the text "
        note += f"before the blank, which have {answer.covered_mass:.1%} of the probability there; --among N tries more"
        console.print(note, soft_wrap=True)


def fill(
    run: RunArgument,
    texts: TextArguments = None,
    /,
    *,
    top: int = 5,
    tokens: int = 1,
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
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
    loaded_run = open_run(run, "fill", output)
    fill_text = functools.partial(loaded_run.fill, top=top, tokens=tokens)

    def draw(console: Console, answer: FilledText) -> None:
        console.bold(answer.filled_text, f"  (log P {format_number(answer.log_prob)})")
        table = Table(">blank", "token", "text", ">P", "")
        for blank, candidates in enumerate(answer.blanks, 1):
            for rank, candidate in enumerate(candidates):
                name, p = str(blank) if rank == 0 else "", candidate.probability
                table.add_row(name, candidate.token, candidate.text, f"{p:.4f}", text_bar(p))
        console.print(table)

    hint = 'forebear fill RUN "some ____ text"'
    run_per_text(loaded_run, texts, batch_input, output, fill_text, hint=hint, done_verb="filled", draw=draw)
