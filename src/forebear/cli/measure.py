"""`forebear measure`: how well a run predicts a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.many import has_place, opened, replaces_nothing
from forebear.cli.measured_words import NO_WORDS, WordOptions, told_of_words
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.run import Run


ROWS = (  # name among the facts, in words, digits
    ("bits_per_byte", "bits per byte", 4),
    ("perplexity", "perplexity, by its own tokens", 2),
    ("perplexity_known", "perplexity without unknown tokens", 2),
    ("nats_per_token", "nats per token", 4),
    ("tokens", "tokens predicted, ends included", 0),
    ("bytes", "bytes of text", 0),
    ("documents", "documents", 0),
    ("units", "{}s scored, each by itself", 0),
    ("ngram_length", "tokens of the n-gram used, in the mean", 2),
    ("seconds", "seconds", 2),
)
OF_HIDDEN = (  # of runs that find hidden tokens
    ("accuracy", "hidden tokens found", 4),
    ("guess", "found by always saying the commonest", 4),
    ("pair_accuracy", "questions about two halves answered", 4),
    ("asked", "tokens hidden", 0),
)


def measure(
    run: Path,
    texts: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    limit: str | None = None,
    workers: int | None = None,
    beside: Annotated[list[Path] | None, Parameter(name="--with", consume_multiple=True, negative="")] = None,
    tune: str | None = None,
    errors: Path | None = None,
    columns: Annotated[str, Parameter(show_default=False)] = "",
    beams: int | None = None,
    out: Path | None = None,
    on_bad_rows: Literal["fail", "skip"] = "fail",
    on_bad_tags: Literal["fail", "repair"] = "fail",
    words: WordOptions = NO_WORDS,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
) -> None:
    """Measure how well a run predicts a text (bits per byte), does its task, translates, or knows words.

    Bits per byte can be compared between all runs; what a vocabulary lacks is charged its spelling. Give text that
    the run has not seen. A run that was adapted to a task is given a file written as the one it learned from; one that
    translates, two files line by line or one with both sides. Word vectors are measured with --words.

    With other runs of the same tokenizer, what they say of every token is averaged: --tune finds their weights.

    ```
    forebear measure runs/gpt2 held-out.txt
    forebear measure runs/ngram 'news/**/*.txt' --documents files --limit 1M --json
    forebear measure runs/nnlm test.txt --with runs/ngram --tune valid.txt
    forebear measure runs/reviews test.tsv --errors mistakes.tsv
    forebear measure runs/de-en test.de test.en
    forebear measure runs/word2vec --words wordsim353.tsv questions-words.txt
    ```

    Parameters
    ----------
    run
        The run's folder.
    texts
        Text files (also .gz, .zst), folders, quoted globs, - for standard input; or a corpus of the run's tokenizer;
        for a run with a task, one file of labelled examples.
    limit
        Bytes of text to measure: 200k, 1M; of what translates, pairs. [default: all]
    workers
        Processes to use for preparing the text. [default: one, and soon as many as there are cores]
    beside
        Other runs to predict the text together with: the mean of their probabilities is measured too.
    tune
        Text, seen by none of them, on which the runs' weights in that mean are found. [default: all weigh the same]
    errors
        Tasks: write every mistake to this file, with its line, those the run was surest of first.
    columns
        Translating: the two sides in one file, by name or field (de,en) or by number (1,2).
    beams
        Translating: versions that are pursued at once. [default: 4]
    out
        Translating: write the translations to this file, a line each.
    on_bad_rows
        Tasks: rows that are no examples.
    on_bad_tags
        Tagging: tags that break their scheme.
    """
    from forebear.training.recipe import amount

    has_place(errors)
    has_place(out)
    if words.words is not None:
        given = {"texts": texts, "--limit": limit, "--workers": workers, "--errors": errors, "--columns": columns}
        given |= {"--on-bad-rows": on_bad_rows != "fail", "--on-bad-tags": on_bad_tags != "fail"}
        words.alone(given | {"--beams": beams, "--out": out, "--with": beside, "--tune": tune}, reading)
        told_of_words(run, words, reading.encoding, speaking)
        return
    texts = words.none(texts)
    for file in (errors, out):
        replaces_nothing(file, texts)
    using = opened(run, "measure", speaking)
    _mixable(using, beside, tune)
    if using.task is not None:
        from forebear.cli.examined import told_of

        told_of(using, texts, errors, speaking, on_bad_rows=on_bad_rows, on_bad_tags=on_bad_tags)
        return
    _heeded("translation" in using.heads, {"--columns": columns, "--beams": beams, "--out": out}, using)
    most = None if limit is None else amount(limit, "limit")
    if "translation" in using.heads:
        from forebear.cli.translated import told_of_pairs
        from forebear.text.parallel import PairReading

        pairs = PairReading(columns, reading.encoding, reading.on_bad_bytes)
        told_of_pairs(using, texts, pairs, speaking, beams=4 if beams is None else beams, limit=most, out=out)
        return
    if errors is not None:
        raise BadInput("--errors lists mistakes at a task, and this run has none", remedy="leave it out")
    if beside:
        from forebear.cli.mixed import told_of_mixture

        how: dict[str, Any] = {"limit": most, "workers": workers, "reading": reading.reading()}
        told_of_mixture(using, beside, texts, speaking, tune=tune, **how)
        return
    _told_of_texts(using, texts, speaking, limit, workers, reading)


def _told_of_texts(
    using: Run, texts: list[str], speaking: Speaking, limit: str | None, workers: int | None, reading: ReadingOptions
) -> None:
    with speaking.progress("preparing") as prepared, speaking.progress("measuring") as progress:
        measured = using.measure(
            texts, limit=limit, reading=reading.reading(), workers=workers, preparing=prepared, progress=progress
        )
    facts = {"run": using.name, **measured.facts()}
    draw = drawn_company if "told_apart" in facts else drawn
    speaking.tell(facts, lambda console: draw(console, facts))


def _mixable(using: Run, beside: list[Path] | None, tune: str | None) -> None:
    """Refuses to mix what predicts no token with others, and to weigh one alone."""
    if tune is not None and not beside:
        raise BadInput("--tune weighs several runs, and this is one", remedy="name others with --with RUN")
    if beside and (using.task is not None or "next" not in using.heads):
        what, remedy = "does not predict the next token, and cannot be mixed", "leave out --with"
        raise BadInput(what, file=using.folder.path, remedy=remedy)


def _heeded(translates: bool, given: dict[str, Any], using: Run) -> None:
    """What concerns translations means nothing to other runs."""
    for flag, value in given.items():
        if value and not translates:
            raise BadInput(f"{flag} is for runs that translate", file=using.folder.path, remedy="leave it out")


def learned_already(facts: dict[str, Any], who: str) -> str:
    """Headings and the like may be many, and little text."""
    share = facts["learned_bytes"] / max(1, facts["bytes"])
    told = f"{facts['learned_from']:,} of these documents ({share:.1%} of the text)"
    return f"{told} are text that {who} learned from: no test of it"


def drawn_company(console: Console, facts: dict[str, Any]) -> None:
    """What word vectors know of a text, as a table."""
    made = table("", ">")
    share = "there are none" if facts["told_apart"] is None else f"{facts['told_apart']:.2%}"
    made.add_row("neighbours told from words that stand elsewhere (by chance 50%)", share, style="bold")
    for name, about in (("pairs", "pairs of neighbours"), ("tokens", "words of the text"), ("bytes", "bytes of text")):
        made.add_row(about, f"{facts[name]:,}")
    made.add_row("words without a vector", f"{facts['unknown_rate']:.2%}")
    console.print(made)
    if facts["learned_from"]:
        console.print(f"[yellow]{learned_already(facts, 'the run')}[/]", soft_wrap=True)


def drawn(console: Console, facts: dict[str, Any]) -> None:
    """What was measured, as a table."""
    made = table("", ">")
    for name, about, digits in [*(OF_HIDDEN if facts["pseudo"] else ()), *ROWS]:
        if name in ("accuracy", "guess", "pair_accuracy", "ngram_length") and facts[name] is None:
            continue
        if name == "perplexity_known" and (facts["pseudo"] or not facts["unknown_tokens"]):
            continue
        value = "infinite" if facts[name] is None else f"{facts[name]:,.{digits}f}"
        made.add_row(about.format(facts["unit"]), value, style="bold" if name == "bits_per_byte" else "")
    rate = facts["unknown_rate"]
    made.add_row("unknown tokens", f"{facts['unknown_tokens']:,} ({rate:.2%})")
    console.print(made)
    if facts["pseudo"]:
        told = "each hidden token is told by both its sides: compare these bits with other runs of its kind only"
        console.print(f"[yellow]pseudo-likelihood: {told}[/]", soft_wrap=True)
    if facts["learned_from"]:
        console.print(f"[yellow]{learned_already(facts, 'the run')}[/]", soft_wrap=True)
    if facts["units"] != facts["documents"] and not facts["pseudo"]:
        told = f"each {facts['unit']} is scored by itself, as the run learned them, and pays for its end"
        console.print(f"[yellow]{told}: compare its perplexity with that of other such runs only[/]", soft_wrap=True)
    if facts["forgotten"]:
        told = f"the run's tokenizer does not keep {' and '.join(facts['forgotten'])}: that is not counted"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if facts["impossible_tokens"]:
        told = (
            f"{facts['impossible_tokens']:,} of {facts['tokens']:,} tokens have the probability 0 for this run, so the "
            "text as a whole is impossible to it; a run with smoothing holds nothing impossible"
        )
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
