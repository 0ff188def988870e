"""Rules that leave text out or mend it, each entered in the ledger with its reason."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import IO

from forebear.data.duplicates import (
    ExactDuplicates,
    NearDuplicates,
    RepeatedLines,
    document_location,
    minhash_signature,
    text_digest,
)
from forebear.data.io.atomic import atomic_write, write_json
from forebear.data.io.documents import Document, with_continuation
from forebear.data.io.files import BINARY_SUFFIXES, LEDGER_SUFFIX
from forebear.data.io.ledger import Ledger, utf8_size
from forebear.data.unicode import CONTROL_CHARS, INVISIBLES, find_mojibake
from forebear.errors import ForebearError, InputError

STAGE = "clean"
NOTHING_LEFT = "nothing left after cleaning"
VISIBLE = re.compile("[^\\s\x00\ufeff\u200b]")


@dataclass(frozen=True)
class CleaningRules:
    """Which rules apply. The defaults never lose what a person wrote; 0 switches a rule with a number off."""

    strip_controls: bool = True
    """Remove control characters; those that end a line (form feed, lone carriage return, U+2028) become line ends."""
    strip_invisible: bool = True
    """Remove marks nobody sees: zero-width spaces, direction marks, soft hyphens, byte order marks inside text."""
    nfkc: bool = False
    """Replace compatibility characters by plain ones (Ａ → A, ① → 1, ﬁ → fi; ， → ,)."""
    squeeze_spaces: bool = False
    """Make one space of each run of white space inside a line, and none before a line end."""
    drop_shorter: int = 0
    """Drop documents of fewer characters than this."""
    drop_mojibake: float = 0.0
    """Drop documents of which this share (0.01) looks wrongly decoded."""
    drop_replaced: float = 0.0
    """Drop documents of which this share (0.01) is U+FFFD, the mark of lost bytes."""
    drop_duplicates: bool = True
    """Drop documents that are equal to an earlier one (long ones, which are read in parts, are always kept)."""
    drop_near_duplicates: float = 0.0
    """Drop documents whose likeness to an earlier one that was kept is at least this (0.8)."""
    drop_longer_lines: int = 0
    """Drop lines of more characters than this."""
    drop_repeated_lines: int = 0
    """Drop a line of 20 characters or more once it has stood in this many documents (10)."""

    def __post_init__(self) -> None:
        for name in ("drop_mojibake", "drop_replaced", "drop_near_duplicates"):
            if not 0 <= getattr(self, name) <= 1:
                option = name.replace("_", "-")
                raise InputError(f"--{option} is {getattr(self, name)}", hint="give a share between 0 (off) and 1")
        for name in ("drop_shorter", "drop_longer_lines", "drop_repeated_lines"):
            if getattr(self, name) < 0:
                option = name.replace("_", "-")
                raise InputError(f"--{option} is {getattr(self, name)}", hint="give a number of at least 0 (off)")


# --- changes of characters ---

_SPACES = re.compile(r"[^\S\n]++")
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_SEPARATORS = re.compile("[\x1c-\x1f]")  # of fields and records: a space keeps the words beside them apart


def without_controls(text: str) -> str:
    if not CONTROL_CHARS.search(text):
        return text
    return CONTROL_CHARS.sub("", _SEPARATORS.sub(" ", _LINE_ENDS.sub("\n", text)))


def without_invisible(text: str) -> str:
    return text if text.isascii() else INVISIBLES.sub("", text)


def squeeze_spaces(text: str) -> str:
    return _SPACES.sub(" ", text).replace(" \n", "\n")


def normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _changes(rules: CleaningRules) -> list[tuple[str, Callable[[str], str]]]:
    every = (
        (rules.strip_controls, "control characters", without_controls),
        (rules.strip_invisible, "invisible characters", without_invisible),
        (rules.nfkc, "normalised (nfkc)", normalised),  # may add characters: its entry can be negative
        (rules.squeeze_spaces, "white space", squeeze_spaces),
    )
    return [(reason, change) for wanted, reason, change in every if wanted]


def _changed(document: Document, change: Callable[[str], str]) -> Document:
    """The document after a change, which is made word by word where words are marked, so that their ends stay true, and
    so do entities, which have whole words."""
    if document.words is None:
        text = change(document.text)
        return document if text == document.text else replace(document, text=text)
    pieces: list[str] = []
    ends: list[int] = []
    start = length = 0
    moved = {0: 0}  # where the ends of words are now
    for end in (*document.words, len(document.text)):
        piece = change(document.text[start:end])
        start = end
        moved[end] = length + len(piece)
        if piece:
            length += len(piece)
            pieces.append(piece)
            ends.append(length)
    entities = None
    if document.entities is not None:
        spans = ((moved[begin], moved[end]) for begin, end in document.entities)
        entities = tuple((begin, end) for begin, end in spans if begin < end)
    return replace(document, text="".join(pieces), words=tuple(ends), entities=entities)


# --- documents and lines ---


class _DocumentFilter:
    """Remembers what went by, and says why a document or a line goes no further."""

    def __init__(self, rules: CleaningRules) -> None:
        self.rules = rules
        self.exact = ExactDuplicates()
        self.near = NearDuplicates(rules.drop_near_duplicates)
        self.lines = RepeatedLines(max_repeats=rules.drop_repeated_lines)

    def of_document(self, document: Document, *, in_parts: bool) -> str:
        """The reason to drop the document, or "". A long one is judged by its first part."""
        rules, text = self.rules, document.text
        if len(text) < rules.drop_shorter:
            return f"shorter than {rules.drop_shorter} characters"
        if rules.drop_replaced and text.count("\ufffd") >= rules.drop_replaced * len(text):
            return "lost bytes (U+FFFD)"
        if rules.drop_mojibake:
            suspect = sum(len(match[0]) for _, match in find_mojibake(text))
            if suspect >= rules.drop_mojibake * len(text):
                return "mojibake"
        if in_parts:
            return ""
        if rules.drop_duplicates and self.exact.seen_before(text_digest(text), len(text), document_location(document)):
            return "exact duplicate"
        if rules.drop_near_duplicates and (signed := minhash_signature(text)) is not None:
            if self.near.find(signed):
                return "near duplicate"
            self.near.add(signed)
        return ""

    def of_lines(self, document: Document, *, continued: bool) -> list[str]:
        """The reason to drop each line, or "". A line that lies in two parts counts as two."""
        lines = document.text.split("\n")
        reasons = [""] * len(lines)
        if self.rules.drop_repeated_lines:
            often = self.lines.count(lines, document_location(document), continued=continued)
            reasons = ["repeated line" if it else "" for it in often]
        if most := self.rules.drop_longer_lines:
            reasons = [
                f"line longer than {most:,} characters" if len(line) > most else reason
                for line, reason in zip(lines, reasons, strict=True)
            ]
        return reasons


def clean_documents(documents: Iterable[Document], rules: CleaningRules, ledger: Ledger) -> Iterator[Document]:
    """The documents as the rules leave them. The ledger's stage "clean" is complete when the iterator is exhausted."""
    books, judge, changes = ledger.stage(STAGE), _DocumentFilter(rules), _changes(rules)
    books.add_in(documents=0, characters=0, bytes=0)
    by_lines = bool(rules.drop_longer_lines or rules.drop_repeated_lines)
    dropping, parts, judged = (
        "",
        0,
        False,
    )  # of the document at hand: why it is dropped; how many parts of it were given
    whole = characters = given = 0
    for document, goes_on in with_continuation(documents):
        if document.part == 0:
            dropping, parts, judged = "", 0, False
        for reason, change in changes:
            before, document = document, _changed(document, change)
            if document is not before:
                removed = len(before.text) - len(document.text)
                ledger.add_structure_count(reason, removed, utf8_size(before.text) - utf8_size(document.text), STAGE)
        ended = False
        if not dropping and not judged and _says_something(document):
            judged = True
            dropping = judge.of_document(document, in_parts=goes_on or document.part > 0)
            ended = bool(dropping)
        if not dropping and by_lines:
            document = _without_lines(document, judge.of_lines(document, continued=document.part > 0), ledger)
        if not dropping and (parts or _says_something(document)):
            whole += parts == 0
            characters += len(document.text)
            given += utf8_size(document.text)
            yield replace(document, part=parts)
            parts += 1
            continue
        # A document ends once: when it is judged, or with its last part if nothing of it was left.
        counts = {"documents": int(ended or not (dropping or goes_on)), "characters": len(document.text)}
        counts["bytes"] = utf8_size(document.text)
        books.add_in(**counts)
        reason = dropping or NOTHING_LEFT
        ledger.drop(STAGE, reason, file=document.file, line=document.line, excerpt=document.text, **counts)
    books.add_in(documents=whole, characters=characters, bytes=given)
    books.add_out(documents=whole, characters=characters, bytes=given)


def _says_something(document: Document) -> bool:
    return VISIBLE.search(document.text) is not None


def _without_lines(document: Document, reasons: list[str], ledger: Ledger) -> Document:
    """The document without the lines that have a reason, each entered with its place."""
    if not any(reasons):
        return document
    books = ledger.stage(STAGE)
    kept: list[tuple[int, int]] = []
    start, text = 0, document.text
    for number, (line, reason) in enumerate(zip(text.split("\n"), reasons, strict=True)):
        end = min(start + len(line) + 1, len(text))  # with its line end
        if reason:
            file, at = document_location(document, number)
            counts = {"characters": end - start, "bytes": utf8_size(text[start:end])}
            books.add_in(**counts)
            ledger.drop(STAGE, reason, file=file, line=at, excerpt=line, **counts)
        else:
            kept.append((start, end))
        start = end
    words = None if document.words is None else _ends_in(document.words, kept)
    entities = None if document.entities is None else _whole_in(document.entities, kept)
    return replace(document, text="".join(text[start:end] for start, end in kept), words=words, entities=entities)


def _ends_in(words: tuple[int, ...], kept: list[tuple[int, int]]) -> tuple[int, ...]:
    """The ends of words in the stretches that are kept; a word of which the rest is dropped ends there."""
    ends: list[int] = []
    length = 0
    for (start, end), following in zip(kept, [*(start for start, _ in kept[1:]), -1], strict=False):
        ends += [length + word - start for word in words[bisect_right(words, start) : bisect_right(words, end)]]
        length += end - start
        if end != following and ends[-1:] != [length]:
            ends.append(length)
    return tuple(ends)


def _whole_in(entities: tuple[tuple[int, int], ...], kept: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The entities of which nothing is dropped, where they stand in the stretches that are kept."""
    starts = [start for start, _ in kept]
    before = [0, *accumulate(end - start for start, end in kept)]

    def now(place: int) -> int:
        at = bisect_right(starts, place) - 1
        return 0 if at < 0 else before[at] + min(place, kept[at][1]) - starts[at]

    places = ((now(begin), now(end), end - begin) for begin, end in entities)
    return tuple((begin, end) for begin, end, length in places if end - begin == length)


# Documents written as plain text or JSONL with their ledger beside them: whole, or not there at all.


UNMARKED = {"words": "ends of words", "entities": "entities"}


def write_documents(
    documents: Iterable[Document], out: str | os.PathLike[str], ledger: Ledger, *, overwrite: bool = False
) -> None:
    """Writes the documents, and beside them OUT.ledger.json. OUT is there only when all is written and adds up.

    A name in .jsonl (also .jsonl.gz, .jsonl.zst) gets one record a document and keeps every character. Any other name
    gets plain text with a blank line between documents; blank lines inside a document go, as the ledger says.
    """
    target = Path(out)
    suffix = Path(target.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    if suffix in (".csv", ".tsv", ".json") or suffix in BINARY_SUFFIXES:
        hint = "end it in .txt or .jsonl, and in .gz or .zst to compress it"
        raise InputError(f"cleaned text is not written as {suffix}", file=target, hint=hint)
    beside = target.with_name(target.name + LEDGER_SUFFIX)
    for path in (target, beside):
        if path.is_dir() or (path.exists() and not overwrite):
            hint = "choose another name" if path.is_dir() else "choose another name, or add --overwrite"
            raise InputError("is already there", file=path, hint=hint)
    if not target.parent.is_dir():
        raise InputError("the folder is not there", file=target.parent, hint="make it, or choose another --clean OUT")
    name = target.name.lower().removesuffix(".gz").removesuffix(".zst")
    form = _JsonlWriter if name.endswith((".jsonl", ".ndjson")) else _ParagraphWriter
    try:
        with atomic_write(target) as file:
            with compressed_writer(file, target.name.lower()) as stream:
                writer = form(stream)
                taken: Counter[str] = Counter(documents=0, characters=0, bytes=0)
                for document, goes_on in with_continuation(documents):
                    taken.update(_counts(document))
                    writer.write(document, goes_on=goes_on)
                stream.write(b"\n" if form is _ParagraphWriter and taken["documents"] else b"")
            _enter_written(taken, writer.given, ledger)
            ledger.verify()
            write_json(beside, ledger.to_dict())
    except OSError as error:
        hint = "make room or give permission, or choose another --clean OUT; nothing was written there"
        raise ForebearError(error.strerror or str(error), file=target, hint=hint) from error


@contextmanager
def compressed_writer(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
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


class _JsonlWriter:
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


class _ParagraphWriter:
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
        self.given.update(characters=len(text), bytes=utf8_size(text))


def _counts(document: Document) -> dict[str, int]:
    counts = {"documents": int(document.part == 0), "characters": len(document.text), "bytes": utf8_size(document.text)}
    told = {"words": document.words, "entities": document.entities}
    return counts | {name: len(values) for name, values in told.items() if values is not None}


def _enter_written(taken: Counter[str], given: Counter[str], ledger: Ledger) -> None:
    """What plain text cannot hold (blank lines inside documents, ends of words, entities) is the difference."""
    books = ledger.stage("write")
    books.add_in(**taken)
    books.add_out(**given)
    reasons = {unit: f"{what}, which plain text does not mark" for unit, what in UNMARKED.items()}
    for unit in taken:
        if lost := taken[unit] - given[unit]:
            reason = reasons.get(unit, "blank lines inside documents")
            books.dropped.setdefault(reason, Counter()).update({unit: lost})
