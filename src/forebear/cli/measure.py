"""`forebear measure`: how well a run predicts a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import opened
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions, Texts
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.corpus import Corpus
    from forebear.training.corpora import TextSource
    from forebear.using.run import Run


ROWS = (  # name among the facts, in words, digits
    ("bits_per_byte", "bits per byte", 4),
    ("perplexity", "perplexity, by its own tokens", 2),
    ("nats_per_token", "nats per token", 4),
    ("tokens", "tokens predicted, ends included", 0),
    ("bytes", "bytes of text", 0),
    ("documents", "documents", 0),
    ("units", "texts scored, each by itself", 0),
    ("seconds", "seconds", 2),
)


def measure(
    run: Path,
    texts: Texts,
    /,
    *,
    limit: str | None = None,
    workers: int | None = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
) -> None:
    """Measure how well a run predicts a text: bits per byte, and perplexity by its own tokens.

    Bits per byte can be compared between all runs; what a vocabulary lacks is charged its spelling. Give text that
    the run has not seen.

    ```
    forebear measure runs/gpt2 held-out.txt
    forebear measure runs/ngram 'news/**/*.txt' --documents files --limit 1M --json
    ```

    Parameters
    ----------
    run
        The run's folder.
    texts
        Text files (also .gz, .zst), folders, quoted globs, - for standard input; or a corpus of the run's tokenizer.
    limit
        Bytes of text to measure: 200k, 1M. [default: all]
    workers
        Processes to use for preparing the text. [default: as many as there are cores]
    """
    from forebear.training.corpora import corpus_of
    from forebear.training.recipe import amount

    most = None if limit is None else amount(limit, "limit")
    if most is not None and most < 1:
        raise BadInput(f"--limit is {limit}", remedy="give a number of bytes above 0, such as 200k")
    using = opened(run, speaking)
    with speaking.progress("preparing") as progress:
        corpus = corpus_of(_source(using, texts, reading), using.tokenizer, workers=workers, progress=progress)
    portion = corpus.whole() if most is None else corpus.whole().first(most)
    with speaking.progress("measuring") as progress:
        measured = using.measure(portion, progress=progress)
    facts = {"run": using.name, **measured.facts(), "learned_from": _learned_from(using, corpus, measured.documents)}
    speaking.tell(facts, lambda console: drawn(console, facts))


def _source(using: Run, texts: list[str], reading: ReadingOptions) -> TextSource:
    """This text, taken as the run's own was where that decides which tokens it has."""
    from forebear.training.corpora import TextSource

    told = (using.facts.get("data") or {}).get("source")
    own = TextSource(()) if told is None else TextSource.from_json(told)
    return replace(own, paths=tuple(texts), reading=reading.reading())


def _learned_from(using: Run, corpus: Corpus, count: int) -> int | None:
    """How many of the first documents the run has learned from; None where nobody knows."""
    from forebear.training.corpora import learned_from

    if using.facts.get("data") is None:
        return None
    seen = learned_from(using.facts["data"], using.folder.recipe.held_out, corpus)
    return None if seen is None else int(seen[:count].sum())


def drawn(console: Console, facts: dict[str, Any]) -> None:
    """What was measured, as a table."""
    made = table("", ">")
    for name, about, digits in ROWS:
        value = "infinite" if facts[name] is None else f"{facts[name]:,.{digits}f}"
        made.add_row(about, value, style="bold" if name == "bits_per_byte" else "")
    rate = facts["unknown_rate"]
    made.add_row("unknown tokens", f"{facts['unknown_tokens']:,} ({rate:.2%})")
    console.print(made)
    if facts["learned_from"]:
        told = f"{facts['learned_from']:,} of these documents are text that the run learned from: no test of it"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if facts["forgotten"]:
        told = f"the run's tokenizer does not keep {' and '.join(facts['forgotten'])}: that is not counted"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if facts["impossible_tokens"]:
        told = (
            f"{facts['impossible_tokens']:,} of {facts['tokens']:,} tokens have the probability 0 for this run, so the "
            "text as a whole is impossible to it; a run with smoothing holds nothing impossible"
        )
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
