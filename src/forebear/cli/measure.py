"""`forebear measure`: how well a run predicts a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forebear.cli.many import number, opened
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions, Texts

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.training.corpora import TextSource
    from forebear.using.measuring import Measured
    from forebear.using.run import Run


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
    using = opened(run, speaking)
    with speaking.progress("preparing") as progress:
        corpus = corpus_of(_source(using, texts, reading), using.tokenizer, workers=workers, progress=progress)
    portion = corpus.whole() if most is None else corpus.whole().first(most)
    with speaking.progress("measuring") as progress:
        measured = using.measure(portion, progress=progress)
    facts = {"run": using.name, **measured.facts()}
    speaking.tell(facts, lambda console: _draw(console, using.name, measured))


def _source(using: Run, texts: list[str], reading: ReadingOptions) -> TextSource:
    """This text, taken as the run's own was where that decides which tokens it has."""
    from forebear.training.corpora import TextSource

    told = (using.facts.get("data") or {}).get("source")
    own = TextSource(()) if told is None else TextSource.from_json(told)
    return replace(own, paths=tuple(texts), reading=reading.reading())


def _draw(console: Console, name: str, measured: Measured) -> None:
    made = table("", ">")
    made.add_row("[bold]bits per byte[/]", f"[bold]{number(measured.bits_per_byte, 4)}[/]")
    made.add_row("perplexity, by its own tokens", number(measured.perplexity, 2))
    made.add_row("nats per token", number(measured.nats_per_token, 4))
    made.add_row("tokens predicted, ends included", f"{measured.tokens:,}")
    made.add_row("bytes of text", f"{measured.bytes:,}")
    made.add_row("texts, each by itself", f"{measured.documents:,}")
    made.add_row("unknown tokens", f"{measured.unknown_tokens:,} ({measured.unknown_rate:.2%})")
    made.add_row("seconds", number(measured.seconds, 2))
    made.title = name
    console.print(made)
    if measured.impossible:
        told = (
            f"{measured.impossible:,} of {measured.tokens:,} tokens have the probability 0 for this run, so the text "
            "as a whole is impossible to it; a run with smoothing holds nothing impossible"
        )
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
