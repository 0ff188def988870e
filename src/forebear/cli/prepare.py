"""`forebear prepare`: text becomes a corpus on disk."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.learning import LearningOptions, segmenter_of
from forebear.cli.printing import Speaking, ledger_notes, ledger_table
from forebear.cli.reading import ReadingOptions, Texts
from forebear.errors import BadInput
from forebear.text.choosing import KINDS
from forebear.text.sentences import Mode

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.corpus import Corpus


def prepare(
    texts: Texts,
    /,
    *,
    tokenizer: str = "wordpiece",
    to: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    sentences: Mode = "split",
    segment: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    user_dict: Path | None = None,
    entities: Path | None = None,
    workers: int | None = None,
    reading: ReadingOptions = ReadingOptions(),
    learning: LearningOptions = LearningOptions(),
    speaking: Speaking = Speaking(),
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
    texts
        Text files (also .gz, .zst), folders, quoted globs, or - for standard input.
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
    from forebear.text.choosing import tokenizer_for
    from forebear.text.entities import Names
    from forebear.text.preparing import prepare as prepared

    if tokenizer not in KINDS and replace(learning, lower=None) != LearningOptions():
        remedy = f"leave out --size and its like, or choose one of {', '.join(KINDS)}"
        raise BadInput(
            "this tokenizer is given, not learned, so that options for learning have no effect",
            file=tokenizer,
            remedy=remedy,
        )
    how, cutter = reading.reading(), segmenter_of(segment or entities is not None, user_dict)
    names = Names.from_file(entities) if entities is not None else None
    began = time.monotonic()
    with speaking.progress("learning the tokenizer") as progress:
        chosen = tokenizer_for(tokenizer, texts, how, learning.learning(), cutter, progress)
    done: list[int] = []
    with speaking.progress("preparing") as progress:
        corpus = prepared(
            texts,
            chosen,
            reading=how,
            sentences=sentences,
            segmenter=cutter,
            entities=names,
            to=to,
            overwrite=overwrite,
            workers=workers,
            progress=lambda at, total: (done.append(at), progress(at, total)),
        )
    facts = {"seconds": round(time.monotonic() - began, 3), "was_there": not done}
    speaking.tell({**_facts(corpus), **facts}, lambda console: _draw(console, corpus, facts))


def _facts(corpus: Corpus) -> dict[str, Any]:
    told = {"folder": str(corpus.folder), **corpus.facts, "ledger": corpus.ledger.to_json()}
    return {**told, "tokenizer": corpus.tokenizer.describe()}


def _draw(console: Console, corpus: Corpus, facts: dict[str, Any]) -> None:
    from rich.markup import escape

    counts, tokenizer = corpus.facts["counts"], corpus.tokenizer
    console.print(ledger_table(corpus.ledger))
    unknown = f", {counts['unknown'] / counts['tokens']:.2%} unknown" if tokenizer.unknown is not None else ""
    entries = f"{tokenizer.kind}, {tokenizer.size:,} entries{unknown}"
    how = "were there already" if facts["was_there"] else f"in {facts['seconds']:.1f} s"
    console.print(f"[bold]{counts['tokens']:,} tokens[/] {how} ({entries})")
    if counts.get("entities"):
        console.print(f"{counts['entities']:,} entities")
    for note in ledger_notes(corpus.ledger):
        console.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    console.print(f"corpus: {corpus.folder}", soft_wrap=True, markup=False)
    if corpus.ledger.drops:
        console.print(f"what was dropped, one by one: {corpus.folder / 'dropped.jsonl'}", soft_wrap=True, markup=False)
