"""Rules that leave text out or mend it, each entered in the ledger with its reason."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from forebear.errors import BadInput
from forebear.text.documents import Document, ahead
from forebear.text.duplicates import Exact, Near, RepeatedLines, digest, place, signature
from forebear.text.ledger import Ledger, size
from forebear.text.scripts import CONTROLS, INVISIBLES, find_mojibake

STAGE = "clean"
NOTHING_LEFT = "nothing left after cleaning"
VISIBLE = re.compile("[^\\s\x00\ufeff\u200b]")


@dataclass(frozen=True)
class Cleaning:
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
                raise BadInput(f"--{option} is {getattr(self, name)}", remedy="give a share between 0 (off) and 1")
        for name in ("drop_shorter", "drop_longer_lines", "drop_repeated_lines"):
            if getattr(self, name) < 0:
                option = name.replace("_", "-")
                raise BadInput(f"--{option} is {getattr(self, name)}", remedy="give a number of at least 0 (off)")


# --- changes of characters ---

_SPACES = re.compile(r"[^\S\n]++")
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_SEPARATORS = re.compile("[\x1c-\x1f]")  # of fields and records: a space keeps the words beside them apart


def without_controls(text: str) -> str:
    if not CONTROLS.search(text):
        return text
    return CONTROLS.sub("", _SEPARATORS.sub(" ", _LINE_ENDS.sub("\n", text)))


def without_invisible(text: str) -> str:
    return text if text.isascii() else INVISIBLES.sub("", text)


def squeezed(text: str) -> str:
    return _SPACES.sub(" ", text).replace(" \n", "\n")


def normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _changes(rules: Cleaning) -> list[tuple[str, Callable[[str], str]]]:
    every = (
        (rules.strip_controls, "control characters", without_controls),
        (rules.strip_invisible, "invisible characters", without_invisible),
        (rules.nfkc, "normalised (nfkc)", normalised),  # may add characters: its entry can be negative
        (rules.squeeze_spaces, "white space", squeezed),
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


class _Judge:
    """Remembers what went by, and says why a document or a line goes no further."""

    def __init__(self, rules: Cleaning) -> None:
        self.rules = rules
        self.exact = Exact()
        self.near = Near(rules.drop_near_duplicates)
        self.lines = RepeatedLines(allowed=rules.drop_repeated_lines)

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
        if rules.drop_duplicates and self.exact.add(digest(text), len(text), place(document)):
            return "exact duplicate"
        if rules.drop_near_duplicates and (signed := signature(text)) is not None:
            if self.near.find(signed):
                return "near duplicate"
            self.near.remember(signed)
        return ""

    def of_lines(self, document: Document, *, continued: bool) -> list[str]:
        """The reason to drop each line, or "". A line that lies in two parts counts as two."""
        lines = document.text.split("\n")
        reasons = [""] * len(lines)
        if self.rules.drop_repeated_lines:
            often = self.lines.look(lines, place(document), continued=continued)
            reasons = ["repeated line" if it else "" for it in often]
        if most := self.rules.drop_longer_lines:
            reasons = [
                f"line longer than {most:,} characters" if len(line) > most else reason
                for line, reason in zip(lines, reasons, strict=True)
            ]
        return reasons


def clean(documents: Iterable[Document], rules: Cleaning, ledger: Ledger) -> Iterator[Document]:
    """The documents as the rules leave them. The ledger's stage "clean" is complete when the iterator is exhausted."""
    books, judge, changes = ledger.stage(STAGE), _Judge(rules), _changes(rules)
    books.take(documents=0, characters=0, bytes=0)
    by_lines = bool(rules.drop_longer_lines or rules.drop_repeated_lines)
    dropping, parts, judged = (
        "",
        0,
        False,
    )  # of the document at hand: why it is dropped; how many parts of it were given
    whole = characters = given = 0
    for document, goes_on in ahead(documents):
        if document.part == 0:
            dropping, parts, judged = "", 0, False
        for reason, change in changes:
            before, document = document, _changed(document, change)
            if document is not before:
                removed = len(before.text) - len(document.text)
                ledger.structure_count(reason, removed, size(before.text) - size(document.text), STAGE)
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
            given += size(document.text)
            yield replace(document, part=parts)
            parts += 1
            continue
        # A document ends once: when it is judged, or with its last part if nothing of it was left.
        counts = {"documents": int(ended or not (dropping or goes_on)), "characters": len(document.text)}
        counts["bytes"] = size(document.text)
        books.take(**counts)
        reason = dropping or NOTHING_LEFT
        ledger.drop(STAGE, reason, file=document.file, line=document.line, excerpt=document.text, **counts)
    books.take(documents=whole, characters=characters, bytes=given)
    books.give(documents=whole, characters=characters, bytes=given)


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
            file, at = place(document, number)
            counts = {"characters": end - start, "bytes": size(text[start:end])}
            books.take(**counts)
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
