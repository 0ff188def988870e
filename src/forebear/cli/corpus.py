"""`forebear corpus`: what a text is, what is wrong with it, and its cleaned copy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from forebear.cli.printing import Speaking, bar, ledger_table, table
from forebear.cli.reading import ReadingOptions, Texts
from forebear.errors import BadInput, shown
from forebear.text.cleaning import Cleaning

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.documents import Document
    from forebear.text.findings import Finding, Report
    from forebear.text.ledger import Ledger
    from forebear.text.tokenizer import Tokenizer

CLEANING = Group("Cleaning (with --clean)")
COLOURS = {"problem": "bold red", "warning": "yellow", "note": "cyan", "good": "green"}


def corpus(
    texts: Texts,
    /,
    *,
    tokenizer: Annotated[list[Path], Parameter(negative="", show_default=False)] = [],  # noqa: B006 - never changed
    clean: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    cleaning: Annotated[Cleaning, Parameter(name="*", group=CLEANING)] = Cleaning(),
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
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
    from forebear.text.doctor import examine
    from forebear.text.tokenizer import Tokenizer

    how = reading.reading()
    if clean is None and (cleaning != Cleaning() or overwrite):
        raise BadInput("rules for cleaning have no effect without --clean", remedy="add --clean OUT, or leave them out")
    if clean is not None:
        _refuse_input(clean, texts)
    given: dict[str, Tokenizer] = {str(path): Tokenizer.load(path) for path in tokenizer}
    with speaking.progress("examining") as progress:
        documents, read = _watched(texts, how, progress)
        report = examine(documents, ledger=read, tokenizers=given or None)
    read.check()
    facts: dict[str, Any] = {**report.to_json(), "ledger": read.to_json()}
    cleaned: Ledger | None = None
    if clean is not None:
        from forebear.text.cleaning import clean as cleaned_documents
        from forebear.text.writing import write_clean

        with speaking.progress("cleaning") as progress:
            documents, cleaned = _watched(texts, how, progress)
            write_clean(cleaned_documents(documents, cleaning, cleaned), clean, cleaned, overwrite=overwrite)
        facts["cleaned"] = {"file": str(clean), "rules": asdict(cleaning), "ledger": cleaned.to_json()}
    speaking.tell(facts, lambda console: _draw(console, report, cleaned or read, clean))


def _watched(texts: list[str], how: Any, progress: Any) -> tuple[Iterator[Document], Ledger]:
    """The documents and the ledger that reading them fills, with progress by bytes read."""
    from forebear.text.ledger import Ledger
    from forebear.text.sources import find

    ledger = Ledger()
    total = sum(source.stamp()[2] for source in find(texts))

    def passing(documents: Iterable[Document]) -> Iterator[Document]:
        for document in documents:
            progress(ledger.position, total)
            yield document

    return passing(how.read(find(texts, ledger), ledger)), ledger


def _refuse_input(clean: Path, texts: list[str]) -> None:
    """The cleaned text must not take the place of what it is made from."""
    from forebear.text.sources import find

    if clean.exists() and any(os.path.samefile(clean, source.path) for source in find(texts)):
        raise BadInput("is one of the texts to be cleaned", file=clean, remedy="choose another name for --clean")


def _draw(console: Console, report: Report, ledger: Ledger, cleaned: Path | None) -> None:
    from rich.markup import escape

    size = report.size
    console.print(
        f"[bold]{size['documents']:,} documents[/], {size['lines']:,} lines, {size['characters']:,} characters,"
        f" {size['bytes']:,} bytes"
    )
    if size["documents"]:
        console.print(
            f"Half of the documents have up to about {size['median']:,} characters, nine in ten up to"
            f" {size['ninety_percent']:,}; the longest has {size['longest']['characters']:,}"
            f" ({escape(shown(size['longest']['file']))}:{size['longest']['line']})."
        )
    _draw_shares(console, report)
    _draw_tokenizers(console, report)
    _draw_loss(console, report)
    console.print(ledger_table(ledger))
    if cleaned is not None:
        console.print(f"[bold]cleaned text:[/] {escape(str(cleaned))}", soft_wrap=True)
    console.print("[bold]What to do[/]")
    for finding in report.findings:
        _draw_finding(console, finding)


def _draw_shares(console: Console, report: Report) -> None:
    letters = report.scripts["letters"]
    made = table("", ">", "", title="Languages of the documents, scripts of the letters")
    for counts in (report.languages, letters):
        whole = max(sum(counts.values()), 1)
        for name, number in sorted(counts.items(), key=lambda it: -it[1])[:6]:
            made.add_row(name, f"{number / whole:.1%}", bar(number / whole))
        made.add_section()
    console.print(made)
    if report.chinese["is"] not in ("", None):
        console.print(f"Chinese: {report.chinese['is']}")


def _draw_tokenizers(console: Console, report: Report) -> None:
    from rich.markup import escape

    sample = report.tokenizers["sample"]["characters"]
    title = f"Tokenizers on a sample of {sample:,} characters"
    made = table("tokenizer", ">entries", ">characters a token", ">unknown", "for example", title=title)
    for name, facts in report.tokenizers["kinds"].items():
        unknown = f"{facts['unknown_share']:.2%}"
        examples = escape(" ".join(facts["examples"][:5]))
        made.add_row(escape(name), f"{facts['size']:,}", f"{facts['characters_per_token']:.2f}", unknown, examples)
    console.print(made)
    learned = report.tokenizers["trained_on"]
    if learned["characters"]:
        others = "these very" if learned == report.tokenizers["sample"] else f"{learned['characters']:,} other"
        console.print(f"(learned from {others} characters of the same text)")


def _draw_loss(console: Console, report: Report) -> None:
    made = table("rule", ">documents", ">characters", title="What cleaning would change or drop")
    for counts in report.would_drop:
        if counts["documents"] or counts["characters"]:
            made.add_row(counts["option"], f"{counts['documents']:,}", f"{counts['characters']:,}")
    if made.row_count:
        console.print(made)


def _draw_finding(console: Console, finding: Finding) -> None:
    from rich.markup import escape

    colour = COLOURS[finding.severity]
    console.print(f"[{colour}]{finding.severity:>8}[/]  {escape(finding.what)}", soft_wrap=True)
    if finding.remedy:
        console.print(f"          → {escape(finding.remedy)}", soft_wrap=True)
