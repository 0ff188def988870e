"""Documents written as plain text or JSONL with their ledger beside them: whole, or not there at all."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from forebear.errors import BadInput, ForebearError
from forebear.text.aside import write_json, written_aside
from forebear.text.documents import Document, ahead
from forebear.text.ledger import Ledger, size
from forebear.text.sources import LEDGER_SUFFIX, NOT_TEXT

UNMARKED = {"words": "ends of words", "entities": "entities"}


def write_clean(
    documents: Iterable[Document], out: str | os.PathLike[str], ledger: Ledger, *, overwrite: bool = False
) -> None:
    """Writes the documents, and beside them OUT.ledger.json. OUT is there only when all is written and adds up.

    A name in .jsonl (also .jsonl.gz, .jsonl.zst) gets one record a document and keeps every character. Any other name
    gets plain text with a blank line between documents; blank lines inside a document go, as the ledger says.
    """
    target = Path(out)
    suffix = Path(target.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    if suffix in (".csv", ".tsv", ".json") or suffix in NOT_TEXT:
        remedy = "end it in .txt or .jsonl, and in .gz or .zst to compress it"
        raise BadInput(f"cleaned text is not written as {suffix}", file=target, remedy=remedy)
    beside = target.with_name(target.name + LEDGER_SUFFIX)
    for path in (target, beside):
        if path.is_dir() or (path.exists() and not overwrite):
            remedy = "choose another name" if path.is_dir() else "choose another name, or add --overwrite"
            raise BadInput("is already there", file=path, remedy=remedy)
    if not target.parent.is_dir():
        raise BadInput("the folder is not there", file=target.parent, remedy="make it, or choose another --clean OUT")
    name = target.name.lower().removesuffix(".gz").removesuffix(".zst")
    form = _Records if name.endswith((".jsonl", ".ndjson")) else _Paragraphs
    try:
        with written_aside(target) as file:
            with packed(file, target.name.lower()) as stream:
                writer = form(stream)
                taken: Counter[str] = Counter(documents=0, characters=0, bytes=0)
                for document, goes_on in ahead(documents):
                    taken.update(_counts(document))
                    writer.write(document, goes_on=goes_on)
                stream.write(b"\n" if form is _Paragraphs and taken["documents"] else b"")
            _enter_written(taken, writer.given, ledger)
            ledger.check()
            write_json(beside, ledger.to_json())
    except OSError as error:
        remedy = "make room or give permission, or choose another --clean OUT; nothing was written there"
        raise ForebearError(error.strerror or str(error), file=target, remedy=remedy) from error


@contextmanager
def packed(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The file as it is to be written to: through a packer, if its name ends in .gz or .zst."""
    if name.endswith(".gz"):
        import gzip

        with gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:
            yield stream  # pyright: ignore[reportReturnType]
    elif name.endswith(".zst"):
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as stream:
            yield stream  # pyright: ignore[reportReturnType]
    else:
        yield file


class _Records:
    """JSONL: {"text": …}, with "words" (their ends) and "entities" where known. Long documents are one record too."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.given: Counter[str] = Counter(documents=0, characters=0, bytes=0)
        self.words: list[int] = []
        self.entities: list[tuple[int, int]] = []
        self.length = 0

    def write(self, document: Document, *, goes_on: bool) -> None:
        if document.part == 0:
            self.words, self.entities, self.length = [], [], 0
            self.stream.write(b'{"text": "')
        self.stream.write(json.dumps(document.text, ensure_ascii=False)[1:-1].encode())
        self.words += [self.length + end for end in document.words or ()]
        self.entities += [(self.length + begin, self.length + end) for begin, end in document.entities or ()]
        self.length += len(document.text)
        self.given.update(_counts(document))
        if not goes_on:
            told = {"words": self.words, "entities": self.entities}
            more = "".join(f', "{name}": {json.dumps(values)}' for name, values in told.items() if values)
            self.stream.write(b'"' + more.encode() + b"}\n")


class _Paragraphs:
    """Plain text: a document is a paragraph, so it cannot have blank lines of its own."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.given: Counter[str] = Counter(documents=0, characters=0, bytes=0)
        self.held = ""  # the end of a part, when it may turn out to be a blank line or a carriage return
        self.line_open = self.begun = False  # of the line and of the document at hand: something of it is written

    def write(self, document: Document, *, goes_on: bool) -> None:
        if document.part == 0:
            self.held, self.line_open, self.begun = "", False, False
        out: list[str] = []
        *lines, last = (self.held + document.text).split("\n")
        self.held = ""
        for line in lines:
            self._line(line, out)
            self.line_open = False
        body = last.rstrip("\r")  # before a line end it would be taken for half of one
        if goes_on:
            self.held = last[len(body) :] if self.line_open or body.strip() else last
        self._line(body, out)
        self._put("".join(out))

    def _line(self, line: str, out: list[str]) -> None:
        if self.line_open:
            out.append(line.rstrip("\r"))
        elif line.strip():
            out.append("\n" + line.rstrip("\r") if self.begun or out else line.rstrip("\r"))
            self.line_open = True

    def _put(self, text: str) -> None:
        if not text:
            return
        if not self.begun:
            # The first mark of a file is taken for its byte order mark: a document's own needs one before it.
            between = "\n\n" if self.given["documents"] else "\ufeff" * text.startswith("\ufeff")
            self.stream.write(between.encode())
            self.given["documents"] += 1
        self.begun = True
        self.stream.write(text.encode())
        self.given.update(characters=len(text), bytes=size(text))


def _counts(document: Document) -> dict[str, int]:
    counts = {"documents": int(document.part == 0), "characters": len(document.text), "bytes": size(document.text)}
    told = {"words": document.words, "entities": document.entities}
    return counts | {name: len(values) for name, values in told.items() if values is not None}


def _enter_written(taken: Counter[str], given: Counter[str], ledger: Ledger) -> None:
    """What plain text cannot hold (blank lines inside documents, ends of words, entities) is the difference."""
    books = ledger.stage("write")
    books.take(**taken)
    books.give(**given)
    reasons = {unit: f"{what}, which plain text does not mark" for unit, what in UNMARKED.items()}
    for unit in taken:
        if lost := taken[unit] - given[unit]:
            reason = reasons.get(unit, "blank lines inside documents")
            books.dropped.setdefault(reason, Counter()).update({unit: lost})
