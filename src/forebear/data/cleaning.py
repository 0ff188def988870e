"""Cleaning of text by rules, with each change recorded in the ledger, and writers of cleaned documents."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
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
from forebear.data.io.compression import compressed_writer
from forebear.data.io.document import Document, with_continuation
from forebear.data.io.sources import BINARY_SUFFIXES, LEDGER_SUFFIX
from forebear.data.io.text_ledger import Ledger, utf8_size
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
        fraction_names = ("drop_mojibake", "drop_replaced", "drop_near_duplicates")
        for name in (*fraction_names, "drop_shorter", "drop_longer_lines", "drop_repeated_lines"):
            value, max_value = getattr(self, name), 1 if name in fraction_names else float("inf")
            if not 0 <= value <= max_value:
                hint = "give a share between 0 (off) and 1" if max_value == 1 else "give a number of at least 0 (off)"
                raise InputError(f"--{name.replace('_', '-')} is {value}", hint=hint)


# --- Changes to characters ---

_SPACES = re.compile(r"[^\S\n]++")
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_SEPARATORS = re.compile("[\x1c-\x1f]")  # control characters that separate fields: replaced by a space


def _strip_controls(text: str) -> str:
    if not CONTROL_CHARS.search(text):
        return text
    return CONTROL_CHARS.sub("", _SEPARATORS.sub(" ", _LINE_ENDS.sub("\n", text)))


def squeeze_spaces(text: str) -> str:
    return _SPACES.sub(" ", text).replace(" \n", "\n")


def _enabled_changes(rules: CleaningRules) -> list[tuple[str, Callable[[str], str]]]:
    available = (
        (rules.strip_controls, "control characters", _strip_controls),
        (rules.strip_invisible, "invisible characters", lambda t: t if t.isascii() else INVISIBLES.sub("", t)),
        # May add characters, so that its count in the ledger is negative.
        (rules.nfkc, "normalised (nfkc)", partial(unicodedata.normalize, "NFKC")),
        (rules.squeeze_spaces, "white space", squeeze_spaces),
    )
    return [(reason, change) for is_enabled, reason, change in available if is_enabled]


def _change_document(document: Document, change: Callable[[str], str]) -> Document:
    """The document after a change; if words are marked, each is changed separately, so that word ends stay correct."""
    if document.word_ends is None:
        text = change(document.text)
        return document if text == document.text else replace(document, text=text)
    pieces: list[str] = []
    ends: list[int] = []
    start = length = 0
    new_ends = {0: 0}  # old end of a word -> new end
    for end in (*document.word_ends, len(document.text)):
        piece = change(document.text[start:end])
        start = end
        new_ends[end] = length + len(piece)
        if piece:
            length += len(piece)
            pieces.append(piece)
            ends.append(length)
    entity_spans = None
    if document.entity_spans is not None:
        spans = ((new_ends[begin], new_ends[end]) for begin, end in document.entity_spans)
        entity_spans = tuple((begin, end) for begin, end in spans if begin < end)
    return replace(document, text="".join(pieces), word_ends=tuple(ends), entity_spans=entity_spans)


class _DocumentFilter:
    """Decides which documents and lines are dropped; stores earlier ones to find duplicates."""

    def __init__(self, rules: CleaningRules) -> None:
        self.rules = rules
        self.exact = ExactDuplicates()
        self.near = NearDuplicates(rules.drop_near_duplicates)
        self.lines = RepeatedLines(max_repeats=rules.drop_repeated_lines)

    def document_reason(self, document: Document, *, in_parts: bool) -> str:
        """The reason to drop the document, or "". A long document is checked by its first part."""
        rules, text = self.rules, document.text
        if len(text) < rules.drop_shorter:
            return f"shorter than {rules.drop_shorter} characters"
        if rules.drop_replaced and text.count("\ufffd") >= rules.drop_replaced * len(text):
            return "lost bytes (U+FFFD)"
        if rules.drop_mojibake:
            num_suspect = sum(len(match[0]) for _, match in find_mojibake(text))
            if num_suspect >= rules.drop_mojibake * len(text):
                return "mojibake"
        if in_parts:
            return ""
        location = document_location(document)
        if rules.drop_duplicates and self.exact.check_and_add(text_digest(text), len(text), location):
            return "exact duplicate"
        if rules.drop_near_duplicates and (signature := minhash_signature(text)) is not None:
            if self.near.find(signature):
                return "near duplicate"
            self.near.add(signature)
        return ""

    def line_reasons(self, document: Document) -> list[str]:
        """The reason to drop each line, or "". A line that is divided between two parts counts as two."""
        lines = document.text.split("\n")
        reasons = [""] * len(lines)
        if self.rules.drop_repeated_lines:
            is_repeated = self.lines.count(lines, document_location(document), continued=document.part > 0)
            reasons = ["repeated line" * repeated for repeated in is_repeated]
        if max_length := self.rules.drop_longer_lines:
            too_long = f"line longer than {max_length:,} characters"
            reasons = [too_long if len(line) > max_length else reasons[index] for index, line in enumerate(lines)]
        return reasons


def clean_documents(documents: Iterable[Document], rules: CleaningRules, ledger: Ledger) -> Iterator[Document]:
    """The cleaned documents. The ledger's stage "clean" is complete when the iterator is exhausted."""
    stage, document_filter, changes = ledger.stage(STAGE), _DocumentFilter(rules), _enabled_changes(rules)
    stage.add_in(documents=0, characters=0, bytes=0)
    drops_lines = bool(rules.drop_longer_lines or rules.drop_repeated_lines)
    # State of the current document: why it is dropped, the number of parts yielded, and whether it was checked.
    drop_reason, num_parts, is_checked = "", 0, False
    num_documents = characters = num_bytes = 0
    for document, continues in with_continuation(documents):
        if document.part == 0:
            drop_reason, num_parts, is_checked = "", 0, False
        for reason, change in changes:
            previous, document = document, _change_document(document, change)
            if document is not previous:
                ledger.record_markup(reason, previous.text, document.text, STAGE)
        is_new_drop = False
        if not drop_reason and not is_checked and _has_visible_text(document):
            is_checked = True
            drop_reason = document_filter.document_reason(document, in_parts=continues or document.part > 0)
            is_new_drop = bool(drop_reason)
        if not drop_reason and drops_lines:
            document = _drop_lines(document, document_filter.line_reasons(document), ledger)
        if not drop_reason and (num_parts or _has_visible_text(document)):
            num_documents += num_parts == 0
            characters += len(document.text)
            num_bytes += utf8_size(document.text)
            yield replace(document, part=num_parts)
            num_parts += 1
            continue
        # A document is counted as dropped once: when it is checked, or with its last part if nothing is left of it.
        counts = {"documents": int(is_new_drop or not (drop_reason or continues)), "characters": len(document.text)}
        counts["bytes"] = utf8_size(document.text)
        stage.add_in(**counts)
        reason = drop_reason or NOTHING_LEFT
        ledger.drop(STAGE, reason, file=document.file, line=document.line, excerpt=document.text, **counts)
    stage.add_in(documents=num_documents, characters=characters, bytes=num_bytes)
    stage.add_out(documents=num_documents, characters=characters, bytes=num_bytes)


def _has_visible_text(document: Document) -> bool:
    return VISIBLE.search(document.text) is not None


def _drop_lines(document: Document, reasons: list[str], ledger: Ledger) -> Document:
    """The document without the lines that have a reason to be dropped, which are recorded in the ledger."""
    if not any(reasons):
        return document
    stage = ledger.stage(STAGE)
    spans: list[tuple[int, int]] = []
    start, text = 0, document.text
    for number, (line, reason) in enumerate(zip(text.split("\n"), reasons, strict=True)):
        end = min(start + len(line) + 1, len(text))  # with its line end
        if reason:
            file, file_line = document_location(document, number)
            counts = {"characters": end - start, "bytes": utf8_size(text[start:end])}
            stage.add_in(**counts)
            ledger.drop(STAGE, reason, file=file, line=file_line, excerpt=line, **counts)
        else:
            spans.append((start, end))
        start = end
    text = "".join(text[start:end] for start, end in spans)
    word_ends = None if document.word_ends is None else _remaining_word_ends(document.word_ends, spans)
    entity_spans = None if document.entity_spans is None else _remaining_entities(document.entity_spans, spans)
    return replace(document, text=text, word_ends=word_ends, entity_spans=entity_spans)


def _remaining_word_ends(word_ends: tuple[int, ...], spans: list[tuple[int, int]]) -> tuple[int, ...]:
    """The ends of words in the retained spans; a word whose rest is dropped ends with its span."""
    ends: list[int] = []
    length = 0
    for (start, end), next_start in zip(spans, [*(start for start, _ in spans[1:]), -1], strict=False):
        retained = word_ends[bisect_right(word_ends, start) : bisect_right(word_ends, end)]
        ends += [length + word_end - start for word_end in retained]
        length += end - start
        if end != next_start and ends[-1:] != [length]:
            ends.append(length)
    return tuple(ends)


def _remaining_entities(
    entities: tuple[tuple[int, int], ...], spans: list[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """The entities that are retained completely, as positions in the retained text."""
    starts = [start for start, _ in spans]
    preceding_lengths = [0, *accumulate(end - start for start, end in spans)]

    def new_position(position: int) -> int:
        index = bisect_right(starts, position) - 1
        return 0 if index < 0 else preceding_lengths[index] + min(position, spans[index][1]) - starts[index]

    new_spans = ((new_position(begin), new_position(end), end - begin) for begin, end in entities)
    return tuple((begin, end) for begin, end, length in new_spans if end - begin == length)


# --- Writing documents as plain text or JSONL, with their ledger, atomically ---

LOST_IN_PLAIN_TEXT = {"words": "ends of words", "entities": "entities"}


def write_documents(
    documents: Iterable[Document], out: str | os.PathLike[str], ledger: Ledger, *, overwrite: bool = False
) -> None:
    """Write the documents to `out` and the ledger to OUT.ledger.json, if everything is written and balances.

    A file named .jsonl (.jsonl.gz, .jsonl.zst) has one record for each document and keeps every character. Any other
    file is plain text with blank lines between documents; blank lines inside a document are dropped.
    """
    target = Path(out)
    suffix = Path(target.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    if suffix in (".csv", ".tsv", ".json") or suffix in BINARY_SUFFIXES:
        hint = "end it in .txt or .jsonl, and in .gz or .zst to compress it"
        raise InputError(f"cleaned text is not written as {suffix}", file=target, hint=hint)
    ledger_path = target.with_name(target.name + LEDGER_SUFFIX)
    for path in (target, ledger_path):
        if path.is_dir() or (path.exists() and not overwrite):
            hint = "choose another name" if path.is_dir() else "choose another name, or add --overwrite"
            raise InputError("is already there", file=path, hint=hint)
    if not target.parent.is_dir():
        raise InputError("the folder is not there", file=target.parent, hint="make it, or choose another --clean OUT")
    writer_class = _JsonlWriter if suffix in (".jsonl", ".ndjson") else _ParagraphWriter
    try:
        with atomic_write(target) as file:
            with compressed_writer(file, target.name) as stream:
                writer = writer_class(stream)
                counts: Counter[str] = Counter(documents=0, characters=0, bytes=0)
                for document, continues in with_continuation(documents):
                    counts.update(_document_counts(document))
                    writer.write(document, continues=continues)
                stream.write(b"\n" if writer_class is _ParagraphWriter and counts["documents"] else b"")
            _record_output_losses(counts, writer.output_counts, ledger)
            ledger.verify()
            write_json(ledger_path, ledger.to_dict())
    except OSError as error:
        hint = "make room or give permission, or choose another --clean OUT; nothing was written there"
        raise ForebearError(error.strerror or str(error), file=target, hint=hint) from error


class _JsonlWriter:
    """Writes JSONL: {"text": …}, with "words" (word ends) and "entities" if marked; a long document is one record."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.output_counts: Counter[str] = Counter(documents=0, characters=0, bytes=0)
        self.words: list[int] = []
        self.entities: list[tuple[int, int]] = []
        self.length = 0

    def write(self, document: Document, *, continues: bool) -> None:
        if document.part == 0:
            self.words, self.entities, self.length = [], [], 0
            self.stream.write(b'{"text": "')
        self.stream.write(json.dumps(document.text, ensure_ascii=False)[1:-1].encode())
        self.words += [self.length + end for end in document.word_ends or ()]
        self.entities += [(self.length + begin, self.length + end) for begin, end in document.entity_spans or ()]
        self.length += len(document.text)
        self.output_counts.update(_document_counts(document))
        if not continues:
            annotations = {"words": self.words, "entities": self.entities}
            suffix = "".join(f', "{name}": {json.dumps(values)}' for name, values in annotations.items() if values)
            self.stream.write(b'"' + suffix.encode() + b"}\n")


class _ParagraphWriter:
    """Writes plain text in which each document is a paragraph without blank lines."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.output_counts: Counter[str] = Counter(documents=0, characters=0, bytes=0)
        self.pending = ""  # the end of a part, which may belong to a blank line or a line ending
        self.has_open_line = self.has_text = False  # whether part of the current line / document has been written

    def write(self, document: Document, *, continues: bool) -> None:
        if document.part == 0:
            self.pending, self.has_open_line, self.has_text = "", False, False
        out: list[str] = []
        *lines, last = (self.pending + document.text).split("\n")
        self.pending = ""
        for line in lines:
            self._add_line(line, out)
            self.has_open_line = False
        body = last.rstrip("\r")  # \r before a line feed would be read as part of the line ending
        if continues:
            self.pending = last[len(body) :] if self.has_open_line or body.strip() else last
        self._add_line(body, out)
        if text := "".join(out):
            if not self.has_text:
                # The first U+FEFF of a file is read as a byte order mark: one that belongs to the text is doubled.
                separator = "\n\n" if self.output_counts["documents"] else "\ufeff" * text.startswith("\ufeff")
                self.stream.write(separator.encode())
                self.output_counts["documents"] += 1
            self.has_text = True
            self.stream.write(text.encode())
            self.output_counts.update(characters=len(text), bytes=utf8_size(text))

    def _add_line(self, line: str, out: list[str]) -> None:
        if self.has_open_line:
            out.append(line.rstrip("\r"))
        elif line.strip():
            out.append("\n" + line.rstrip("\r") if self.has_text or out else line.rstrip("\r"))
            self.has_open_line = True


def _document_counts(document: Document) -> dict[str, int]:
    counts = {"documents": int(document.part == 0), "characters": len(document.text), "bytes": utf8_size(document.text)}
    annotations = {"words": document.word_ends, "entities": document.entity_spans}
    return counts | {name: len(values) for name, values in annotations.items() if values is not None}


def _record_output_losses(counts: Counter[str], output_counts: Counter[str], ledger: Ledger) -> None:
    """Record what plain text cannot represent: blank lines inside documents, ends of words, entities."""
    stage = ledger.stage("write")
    stage.add_in(**counts)
    stage.add_out(**output_counts)
    for unit in counts:
        if difference := counts[unit] - output_counts[unit]:
            reason = "blank lines inside documents"
            if unit in LOST_IN_PLAIN_TEXT:
                reason = f"{LOST_IN_PLAIN_TEXT[unit]}, which plain text does not mark"
            stage.dropped.setdefault(reason, Counter()).update({unit: difference})
