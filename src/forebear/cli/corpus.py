"""`forebear corpus` and `prepare`: report on text, clean it, prepare it for training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from rich.markup import escape

from forebear.cli.options import ReadingOptions, TextFiles, TokenizerOptions, segmenter_for
from forebear.cli.output import Console, Output, Switch, Table, ledger_notes, ledger_table, text_bar
from forebear.data.cleaning import CleaningRules
from forebear.data.sentences import SentenceMode
from forebear.data.source import TOKENIZER_KINDS
from forebear.errors import InputError, printable_path

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus
    from forebear.data.corpus_report import CorpusReport
    from forebear.data.io.document import Document
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.io.text_ledger import Ledger
    from forebear.data.tokenizers.tokenizer import Tokenizer

CLEANING = Group("Cleaning (with --clean)")
SEVERITY_COLORS = {"problem": "bold red", "warning": "yellow", "note": "cyan", "good": "green"}


def corpus(
    texts: TextFiles,
    /,
    *,
    tokenizer: Annotated[list[Path], Parameter(negative="", show_default=False)] = [],  # noqa: B006 - never changed
    clean: Path | None = None,
    overwrite: Switch = False,
    cleaning: Annotated[CleaningRules, Parameter(name="*", group=CLEANING)] = CleaningRules(),
    reading: ReadingOptions = ReadingOptions(),
    output: Output = Output(),
) -> None:
    """Examine text: what it is, what is wrong with it, what would be dropped; and clean it.

    ```
    forebear corpus book.txt
    forebear corpus news/ --tokenizer bert-base-chinese-vocab.txt --json
    forebear corpus crawl.jsonl.gz --clean crawl.clean.jsonl.zst --drop-near-duplicates 0.8
    ```

    Parameters
    ----------
    tokenizer
        A tokenizer to try on the text; may be given several times. [default: small ones of each kind, learned from it]
    clean
        Write the cleaned text here: .txt with a blank line between documents, or .jsonl; also .gz and .zst.
    overwrite
        Replace the cleaned text if it is there already.
    """
    from forebear.data.cleaning import clean_documents, write_documents
    from forebear.data.corpus_report import corpus_report
    from forebear.data.io.sources import find_sources
    from forebear.data.tokenizers.tokenizer import Tokenizer

    text_format = reading.text_format()
    if clean is None and (cleaning != CleaningRules() or overwrite):
        raise InputError("rules for cleaning have no effect without --clean", hint="add --clean OUT, or leave them out")
    sources = find_sources(texts) if clean is not None and clean.exists() else ()
    if clean is not None and any(os.path.samefile(clean, source.path) for source in sources):
        raise InputError("is one of the texts to be cleaned", file=clean, hint="choose another name for --clean")
    given_tokenizers: dict[str, Tokenizer] = {str(path): Tokenizer.load(path) for path in tokenizer}
    with output.progress("examining") as progress:
        documents, ledger = _read_with_progress(texts, text_format, progress)
        report = corpus_report(documents, ledger=ledger, tokenizers=given_tokenizers or None)
    ledger.verify()
    result: dict[str, Any] = {**report.to_dict(), "ledger": ledger.to_dict()}
    if clean is not None:
        with output.progress("cleaning") as progress:
            documents, ledger = _read_with_progress(texts, text_format, progress)
            write_documents(clean_documents(documents, cleaning, ledger), clean, ledger, overwrite=overwrite)
        result["cleaned"] = {"file": str(clean), "rules": asdict(cleaning), "ledger": ledger.to_dict()}
    output.emit(result, lambda console: _print_report(console, report, ledger, clean))


def _read_with_progress(
    texts: list[str], text_format: TextFormat, progress: Callable[[int, int], None]
) -> tuple[Iterator[Document], Ledger]:
    """The documents, read with progress by bytes, and the ledger that reading fills."""
    from forebear.data.io.sources import find_sources
    from forebear.data.io.text_ledger import Ledger

    ledger = Ledger()
    total = sum(source.file_stamp()[2] for source in find_sources(texts))

    def report_progress(documents: Iterable[Document]) -> Iterator[Document]:
        for document in documents:
            progress(ledger.position, total)
            yield document

    return report_progress(text_format.documents_in(find_sources(texts, ledger), ledger)), ledger


def _print_report(console: Console, report: CorpusReport, ledger: Ledger, cleaned: Path | None) -> None:
    size = report.size
    extent = f"{size['lines']:,} lines, {size['characters']:,} characters, {size['bytes']:,} bytes"
    console.print(f"[bold]{size['documents']:,} documents[/], {extent}")
    if size["documents"]:
        longest = size["longest"]
        location = f"{escape(printable_path(longest['file']))}:{longest['line']}"
        quantiles = f"up to about {size['median']:,} characters, nine in ten up to {size['ninety_percent']:,}"
        longest_note = f"the longest has {longest['characters']:,} ({location})"
        console.print(f"Half of the documents have {quantiles}; {longest_note}.")
    table = Table("", ">", "", title="Languages of the documents, scripts of the letters")
    for counts in (report.languages, report.scripts["letters"]):
        total = max(sum(counts.values()), 1)
        for name, count in sorted(counts.items(), key=lambda pair: -pair[1])[:6]:
            table.add_row(name, f"{count / total:.1%}", text_bar(count / total))
        table.add_section()
    console.print(table)
    if report.chinese["is"]:
        console.print(f"Chinese: {report.chinese['is']}")
    _print_tokenizers(console, report)
    if dropped := [counts for counts in report.would_drop if counts["documents"] or counts["characters"]]:
        rows = ((drop["option"], f"{drop['documents']:,}", f"{drop['characters']:,}") for drop in dropped)
        console.table("rule", ">documents", ">characters", title="What cleaning would change or drop", rows=rows)
    console.print(ledger_table(ledger))
    if cleaned is not None:
        console.print(f"[bold]cleaned text:[/] {escape(str(cleaned))}", soft_wrap=True)
    console.print("[bold]What to do[/]")
    for issue in report.findings:
        severity = f"[{SEVERITY_COLORS[issue.severity]}]{issue.severity:>8}[/]"
        console.print(f"{severity}  {escape(issue.message)}", soft_wrap=True)
        if issue.hint:
            console.print(f"          → {escape(issue.hint)}", soft_wrap=True)


def _print_tokenizers(console: Console, report: CorpusReport) -> None:
    sample = report.tokenizers["sample"]
    title = f"Tokenizers on a sample of {sample['characters']:,} characters"
    table = Table("tokenizer", ">entries", ">characters a token", ">unknown", "for example", title=title)
    for name, stats in report.tokenizers["kinds"].items():
        figures = (f"{stats['size']:,}", f"{stats['characters_per_token']:.2f}", f"{stats['unknown_share']:.2%}")
        table.add_row(name, *figures, " ".join(stats["examples"][:5]))
    console.print(table)
    training_sample = report.tokenizers["trained_on"]
    if training_sample["characters"]:
        source = "these very" if training_sample == sample else f"{training_sample['characters']:,} other"
        console.print(f"(learned from {source} characters of the same text)")


def prepare(
    texts: TextFiles,
    /,
    *,
    tokenizer: str = "wordpiece",
    to: Path | None = None,
    overwrite: Switch = False,
    sentences: SentenceMode = "split",
    segment: Switch = False,
    user_dict: Path | None = None,
    entities: Path | None = None,
    workers: int | None = None,
    reading: ReadingOptions = ReadingOptions(),
    tokenizer_options: TokenizerOptions = TokenizerOptions(),
    output: Output = Output(),
) -> None:
    """Turn text into a corpus: token ids on disk, with a ledger that shows nothing was lost.

    A second call with the same text and settings opens what is there; an interrupted one is finished.

    ```
    forebear prepare book.txt --tokenizer wordpiece --to corpora/book
    forebear prepare news.jsonl.gz --field body --tokenizer bert-base-chinese-vocab.txt --segment
    cat *.txt | forebear prepare - --documents lines --tokenizer characters --json
    ```

    Parameters
    ----------
    tokenizer
        words, characters, wordpiece or bytepair, learned from this text; or a tokenizer.json or vocab.txt.
    to
        The corpus folder. [default: kept in forebear's cache under the digest of text and settings]
    overwrite
        Replace a corpus at --to that was made of other text or with other settings.
    sentences
        split: at punctuation and line ends; lines: each line is one; flow: line ends are spaces (wrapped prose);
        whole: a document is one, so that its tokens are those of the uncut text (beyond two million characters it
        is cut all the same, into parts at line ends).
    segment
        Find Chinese words and store where they start (for whole-word masking).
    user_dict
        Your own words for the segmentation, a line each: word [frequency] [tag]. Implies --segment.
    entities
        Names of persons, places and organisations, a line each, that ernie hides whole. Implies --segment.
    workers
        Processes to use. [default: one, and soon as many as there are cores]
    """
    from forebear.data.corpus.prepare import prepare_corpus
    from forebear.data.entities import EntityDictionary
    from forebear.data.source import tokenizer_for

    if tokenizer not in TOKENIZER_KINDS and replace(tokenizer_options, lower=None) != TokenizerOptions():
        message = "this tokenizer is given, not learned, so that options for learning have no effect"
        hint = f"leave out --size and its like, or choose one of {', '.join(TOKENIZER_KINDS)}"
        raise InputError(message, file=tokenizer, hint=hint)
    text_format, segmenter = reading.text_format(), segmenter_for(segment or entities is not None, user_dict)
    entity_dictionary = EntityDictionary.from_file(entities) if entities is not None else None
    options: dict[str, Any] = {"segmenter": segmenter, "entities": entity_dictionary, "to": to, "overwrite": overwrite}
    start_time = time.monotonic()
    with output.progress("learning the tokenizer") as progress:
        training_options = tokenizer_options.training_options()
        used_tokenizer = tokenizer_for(tokenizer, texts, text_format, training_options, segmenter, progress)
    reported_positions: list[int] = []
    with output.progress("preparing") as progress:
        options["progress"] = lambda position, total: (reported_positions.append(position), progress(position, total))
        options["workers"] = workers
        corpus = prepare_corpus(texts, used_tokenizer, text_format=text_format, sentences=sentences, **options)
    result = {"folder": str(corpus.folder), **corpus.metadata, "ledger": corpus.ledger.to_dict()}
    result |= {"tokenizer": corpus.tokenizer.describe(), "seconds": round(time.monotonic() - start_time, 3)}
    result["was_there"] = not reported_positions
    output.emit(result, lambda console: _print_corpus(console, corpus, result))


def _print_corpus(console: Console, corpus: Corpus, result: dict[str, Any]) -> None:
    counts, tokenizer = corpus.metadata["counts"], corpus.tokenizer
    console.print(ledger_table(corpus.ledger))
    unknown = f", {counts['unknown'] / counts['tokens']:.2%} unknown" if tokenizer.unk_id is not None else ""
    vocabulary = f"{tokenizer.kind}, {tokenizer.vocab_size:,} entries{unknown}"
    timing_note = "were there already" if result["was_there"] else f"in {result['seconds']:.1f} s"
    console.print(f"[bold]{counts['tokens']:,} tokens[/] {timing_note} ({vocabulary})")
    if counts.get("entities"):
        console.print(f"{counts['entities']:,} entities")
    for note in ledger_notes(corpus.ledger):
        console.warn(escape(note))
    console.plain(f"corpus: {corpus.folder}")
    if corpus.ledger.drops:
        console.plain(f"what was dropped, one by one: {corpus.folder / 'dropped.jsonl'}")
