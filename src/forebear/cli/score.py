"""`forebear score`: log-probability, perplexity and bits per byte of texts, also per token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebear.cli.batch_io import BatchInputOptions, FailedInput, PartialResults, RunArgument, TextArguments, open_run
from forebear.cli.output import (
    Console,
    Output,
    Switch,
    Table,
    count_phrase,
    format_number,
    printable_cell,
    shorten,
    text_bar,
)
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.score import ScoredText, ScoredToken

SURPRISAL_COLORS = ((2, "green"), (6, "yellow"), (11, "dark_orange"))  # upper bounds in bits; red above the last
MAX_BAR_BITS = 16  # bits that fill a bar


def score(
    run: RunArgument,
    texts: TextArguments = None,
    /,
    *,
    tokens: Switch = False,
    ends: Switch = False,
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
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
    texts
        What to score, each argument by itself; - for the lines of standard input.
    tokens
        Show every token, coloured by how much it surprises; of a run that counts, how many tokens the n-gram had.
    ends
        Score also that each text ends where it does.
    """
    from forebear.inference.score import empty_text_error, score_ranks, score_texts

    loaded_run = open_run(run, "score", output)
    partial_results = PartialResults() if batch_input.reads_lines(texts) else None
    counts = {"texts": 0, "tokens": 0}
    num_multi_sentence = 0

    def score_batch(batch: list[str]) -> list[ScoredText]:
        nonlocal num_multi_sentence
        answers = score_texts(loaded_run.scorer, loaded_run.vocabulary_tokenizer, batch, ends=ends)
        counts["texts"] += len(answers)
        num_multi_sentence += sum(len(loaded_run.training_units(text)) > 1 for text in batch)
        counts["tokens"] += sum(len(answer.tokens) for answer in answers)
        return answers

    def score_nonblank(batch: list[str]) -> list[Any]:
        """Scores of a batch, with an error in place of each blank line, so that all of them are reported."""
        encode = loaded_run.vocabulary_tokenizer.encode
        is_blank = [not text.strip() and not len(encode(text).ids) for text in batch]
        scores = iter(score_batch([text for text, is_empty in zip(batch, is_blank, strict=True) if not is_empty]))
        return [empty_text_error() if is_empty else next(scores) for is_empty in is_blank]

    def to_record(answer: ScoredText | FailedInput) -> dict[str, Any]:
        return answer.to_dict() if isinstance(answer, FailedInput) else answer.to_dict(tokens=tokens)

    score_lines, lines = score_batch if partial_results is None else score_nonblank, batch_input.valid_inputs(texts)
    answers = batch_input.run_batch(lines, score_lines, to_record, partial_results=partial_results)
    if not counts["texts"]:
        raise InputError("there is no text to score", hint='forebear score RUN "some text", or --in FILE')
    result: dict[str, Any] = {"run": loaded_run.name}
    if partial_results is not None:
        partial_results.emit_failures(result, output)
    if num_multi_sentence:  # `measure` scores each sentence by itself
        result["several_sentences"] = num_multi_sentence
        note = f"{count_phrase(num_multi_sentence, 'text holds', 'texts hold')} several sentences: each is scored as"
        note += " one text here; forebear measure takes sentence by sentence, as the run learned them, with their ends"
        output.note([note])
    if batch_input.output_file is not None:
        size = f"{count_phrase(counts['texts'], 'text')} of {count_phrase(counts['tokens'], 'token')}"
        batch_input.emit_written(result | counts, f"{size} scored", output)
        return
    answered: list[ScoredText] = [answer for answer in answers if not isinstance(answer, FailedInput)]
    ranks = score_ranks(answered)
    rank_of_answered = iter(ranks)
    ranked = ((None if isinstance(answer, FailedInput) else next(rank_of_answered), answer) for answer in answers)
    records = [{"rank": rank, **to_record(answer)} for rank, answer in ranked]

    def draw(console: Console) -> None:
        for answer in answered if tokens else ():
            _print_tokens(console, answer, loaded_run.vocabulary_tokenizer)
        _print_scores(console, answered, ranks)

    output.emit({**result, "texts": records}, draw)


def _print_scores(console: Console, answers: list[ScoredText], ranks: list[int]) -> None:
    num_unknown = sum(answer.num_unknown for answer in answers)
    columns = (*[">without unknown"] * bool(num_unknown), ">bits/byte", ">tokens", "text")
    table = Table(">rank", ">log P", ">perplexity", *columns)
    for rank, answer in sorted(zip(ranks, answers, strict=True), key=lambda pair: pair[0]):
        known = "" if answer.perplexity_known is None else format_number(answer.perplexity_known, 2)
        perplexities = (format_number(answer.perplexity, 2), *[known] * bool(num_unknown))
        size = (format_number(answer.bits_per_byte), str(len(answer.tokens)))
        table.add_row(str(rank), format_number(answer.log_prob), *perplexities, *size, shorten(answer.text))
    console.print(table)
    if any(answer.is_pseudo_likelihood for answer in answers):
        note = "pseudo-likelihood: each token was told by all others, which ranks texts but is no probability of them"
        console.warn(note)
    if num_unknown:
        subject = count_phrase(num_unknown, "unknown token")
        console.warn(f"{subject}: bits, and the rank, charge the spelling; log P and perplexity do not")
    if num_impossible := sum(answer.num_impossible for answer in answers):
        subject = count_phrase(num_impossible, "token has", "tokens have")
        console.warn(f"{subject} the probability 0 for this run, which makes the text impossible (-inf)")


def _print_tokens(console: Console, answer: ScoredText, tokenizer: Tokenizer) -> None:
    from forebear.data.tokenizers.bpe import readable_token

    ends = [0, *(token.end for token in answer.tokens)]
    spans = (answer.text[end : token.end] for end, token in zip(ends, answer.tokens, strict=False))
    tokens = zip(answer.tokens, spans, strict=True)
    colored = (f"[{_surprisal_color(token)}]{printable_cell(text)}[/]" for token, text in tokens)
    console.print("".join(colored), soft_wrap=True)
    has_ngram_lengths = any(token.ngram_length is not None for token in answer.tokens)
    table = Table("token", "original", ">P", ">log P", ">bits", "", *[">n-gram"] * has_ngram_lengths)
    for token in answer.tokens:
        numbers = (f"{token.probability:.4g}", format_number(token.log_prob), format_number(token.bits, 2))
        cells = (*numbers, text_bar(min(token.bits / MAX_BAR_BITS, 1)), *[str(token.ngram_length)] * has_ngram_lengths)
        table.add_row(readable_token(tokenizer, token.id), token.original, *cells, style=_surprisal_color(token))
    console.print(table)


def _surprisal_color(token: ScoredToken) -> str:
    return next((color for bits, color in SURPRISAL_COLORS if token.bits <= bits), "red")
