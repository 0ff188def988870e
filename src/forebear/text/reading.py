"""Files become documents: between blank lines, one a file or one a line; from plain, tagged, JSONL or CSV text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from forebear.errors import BadInput
from forebear.text.blocks import Blocks, OnBadBytes
from forebear.text.documents import CUT_AFTER, Document, ahead, cut_of, in_parts, is_too_long
from forebear.text.ledger import Ledger, size
from forebear.text.records import from_jsonl, from_table, numbered_lines, untagged
from forebear.text.sources import Source

Division = Literal["blank", "files", "lines"]
Format = Literal["auto", "text", "tagged", "jsonl", "csv", "tsv"]

SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv"}
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)++")
INVISIBLE = "\x00 \t\n\r\v\f\u00a0\u3000\ufeff\u200b"


@dataclass(frozen=True)
class Reading:
    """How files are to be read. These fields are part of a corpus's identity."""

    documents: Division = "blank"
    format: Format = "auto"
    field: str = "text"
    column: str = ""
    encoding: str = "utf-8"
    on_bad_bytes: OnBadBytes = "fail"

    def __post_init__(self) -> None:
        for name, kind in (("documents", Division), ("format", Format), ("on_bad_bytes", OnBadBytes)):
            if getattr(self, name) not in get_args(kind):
                option = name.replace("_", "-")
                raise BadInput(
                    f"--{option} is {getattr(self, name)!r}", remedy=f"choose one of {', '.join(get_args(kind))}"
                )

    def identity(self) -> dict[str, str]:
        """Its part of a corpus's key; the names in it are data and stay when fields are renamed."""
        return {
            "documents": self.documents,
            "format": self.format,
            "field": self.field,
            "column": self.column,
            "encoding": self.encoding,
            "on_bad_bytes": self.on_bad_bytes,
        }

    def read(self, sources: Iterable[Source], ledger: Ledger) -> Iterator[Document]:
        """All documents of all files, in order. The ledger is complete when the iterator is exhausted."""
        ledger.stage("read").take(documents=0, characters=0, bytes=0)
        for source in sources:
            yield from self.read_one(source, ledger)

    def form_of(self, source: Source) -> str:
        """The format asked for, or the one that the file's name promises."""
        if self.format != "auto":
            return self.format
        name = source.name.lower().removesuffix(".gz").removesuffix(".zst")
        return next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), "text")

    def read_one(self, source: Source, ledger: Ledger) -> Iterator[Document]:
        blocks = Blocks(source, self.encoding, self.on_bad_bytes, ledger)
        form = self.form_of(source)
        if form == "jsonl":
            documents = from_jsonl(blocks, self.field)
        elif form in ("csv", "tsv"):
            documents = from_table(blocks, form, self.column)
        else:
            documents = self._from_text(blocks)
        if form == "tagged":
            documents = (untagged(document, ledger) for document in documents)
        yield from _entered(documents, source, ledger)

    @property
    def _marks(self) -> Sequence[str]:
        return ("\n", " ") if self.format == "tagged" else CUT_AFTER  # 。/w stays in one piece

    def _from_text(self, blocks: Blocks) -> Iterator[Document]:
        if self.documents != "lines":
            yield from self._divided(blocks)
            return
        ends = 0
        for number, line, end in numbered_lines(blocks):
            ends += len(end)
            yield from in_parts(line, blocks.source.name, number, self._marks)
        blocks.ledger.structure_count("line ends", ends, ends)

    def _divided(self, blocks: Blocks) -> Iterator[Document]:
        """Documents between blank lines, or the whole file. Holds at most two parts and a block at a time."""
        name, ledger, whole = blocks.source.name, blocks.ledger, self.documents == "files"
        held, line, part, seen = "", 1, 0, 0  # `seen`: up to where no blank line begins in what is held
        blanks: list[str] = []  # entered once a block: there may be as many as there are documents
        for block in blocks:
            held += block
            start = 0
            if part == 0:  # before a document: blank lines belong to none
                start = held.rfind("\n", 0, len(held) - len(held.lstrip())) + 1
                blanks.append(held[:start])
                line += held.count("\n", 0, start)
            for border in () if whole else BLANK_LINES.finditer(held, max(start, seen)):
                if border.start() > start:
                    yield Document(held[start : border.start()], name, line, part)
                line += held.count("\n", start, border.end())
                blanks.append(border[0])
                start, part = border.end(), 0
            ledger.structure("blank lines", "".join(blanks))
            blanks.clear()
            held = held[start:]
            while is_too_long(held):
                cut = cut_of(held, self._marks)
                yield Document(held[:cut], name, line, part)
                line += held.count("\n", 0, cut)
                held, part = held[cut:], part + 1
            seen = len(held.rstrip())
        text = held.rstrip("\n") if whole else _ends_before_blanks(held)
        ledger.structure("blank lines", held[len(text) :])
        if text:
            yield Document(text, name, line, part)


def _ends_before_blanks(text: str) -> str:
    """The text without the blank lines at its end (white space within its last line stays)."""
    bare = text.rstrip()
    at = text.find("\n", len(bare))
    return text if at < 0 else text[:at]


def _entered(documents: Iterable[Document], source: Source, ledger: Ledger) -> Iterator[Document]:
    """Counts what goes out; a document without any visible character is dropped, with its place."""
    books = ledger.stage("read")
    found = False
    whole = characters = taken = 0  # entered once, at the end: this runs for every line of a corpus
    for document, goes_on in ahead(documents):
        found, text = True, document.text
        if not goes_on and document.part == 0 and not text.strip(INVISIBLE):
            length, taken_here = len(text), size(text)
            books.take(documents=1, characters=length, bytes=taken_here)
            place = {"file": document.file, "line": document.line}
            ledger.drop("read", "empty document", **place, documents=1, characters=length, bytes=taken_here)
            continue
        whole += document.part == 0
        characters += len(text)
        taken += document.size
        yield document
    books.take(documents=whole, characters=characters, bytes=taken)
    books.give(documents=whole, characters=characters, bytes=taken)
    if not found:
        books.take(documents=1)
        ledger.drop("read", "empty file", file=source.name, line=1, documents=1)
