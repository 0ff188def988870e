"""Words and their vectors, gathered as a file is read: each word once, each number finite, what is odd counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from forebear.errors import BadInput

WAYS = ("fail", "replace", "skip")  # with a word that is no UTF-8
NAMED = 3  # places that a note names
ANY = "give a file with at least one word"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """What a file holds.

    words   the name of each row; none twice
    matrix  (N, D) float32: in memory, or, of safetensors, mapped from the file and not to be written to
    counts  (N,) how often each word was seen, where the file tells
    form    which kind of file it was
    notes   what a person should know about it
    """

    words: list[str]
    matrix: np.ndarray
    counts: np.ndarray | None
    form: str
    notes: list[str] = field(default_factory=list)


class Tally:
    """How often something odd was met, and where at first."""

    def __init__(self) -> None:
        self.count, self.first = 0, []

    def add(self, place: str) -> None:
        self.count += 1
        if self.count <= NAMED:
            self.first.append(place)

    def told(self, what: str) -> list[str]:
        if not self.count:
            return []
        places = ", ".join(self.first) + (", …" if self.count > NAMED else "")
        return [f"{self.count:,} {'words are' if self.count > 1 else 'word is'} {what} ({places})"]


class Decoding:
    """Bytes as words, each once, with their places: lines, bytes where they begin, or numbers of words."""

    def __init__(self, path: Path, unit: Literal["line", "byte", "word"], on_bad_bytes: str) -> None:
        if on_bad_bytes not in WAYS:
            raise BadInput(f"no way with bad bytes named {on_bad_bytes!r}", remedy=f"the ways are: {', '.join(WAYS)}")
        self.path, self.unit, self.on_bad_bytes = path, unit, on_bad_bytes
        self.seen: set[str] = set()
        self.again, self.bad = Tally(), Tally()

    def at(self, what: str, place: int, remedy: str = "") -> BadInput:
        """The error of this place."""
        if self.unit == "word":
            return BadInput(f"word {place:,}: {what}", file=self.path, remedy=remedy)
        return BadInput(what, file=self.path, remedy=remedy, **{self.unit: place})

    def words(self, raw: Sequence[bytes], places: Sequence[int]) -> tuple[list[str], list[int] | None]:
        """The words that are new, and which of those given they are; None: all."""
        words = self._decoded(raw, places)
        new: set[Any] = set(words)
        if None not in new and len(new) == len(words) and self.seen.isdisjoint(new):
            self.seen |= new
            return words, None
        kept = []
        for row, word in enumerate(words):
            if word is not None and word not in self.seen:
                kept.append(row)
                self.seen.add(word)
            elif word is not None:
                self.again.add(f"{word!r}, {self.unit} {places[row]:,}")
        return [words[row] for row in kept], kept

    def _decoded(self, raw: Sequence[bytes], places: Sequence[int]) -> list[Any]:
        """The words; None for one that is to be skipped."""
        try:
            words = b"\n".join(raw).decode().split("\n")
            if len(words) == len(raw):
                return words
        except UnicodeDecodeError:
            pass
        return [self._word(word, place) for word, place in zip(raw, places, strict=True)]

    def _word(self, raw: bytes, place: int) -> str | None:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            if self.on_bad_bytes == "fail":
                remedy = "have bad bytes replaced, or such words skipped; or write the file anew as UTF-8"
                raise self.at(f"the word {shown(raw)} is no UTF-8 ({error.reason})", place, remedy) from None
            self.bad.add(f"{self.unit} {place:,}")
            return raw.decode(errors="replace") if self.on_bad_bytes == "replace" else None

    def notes(self) -> list[str]:
        done = "U+FFFD stands for what is not" if self.on_bad_bytes == "replace" else "left out"
        return self.bad.told(f"no UTF-8, {done}") + self.again.told("there again, the first is kept")

    def check(self, rows: np.ndarray, name: Callable[[int], str], places: Sequence[int]) -> None:
        """Refuses rows with a number that is none; `name` tells a row's word as it is to be shown."""
        finite = np.isfinite(rows)
        if not finite.all():
            row = int(np.argmin(finite.all(1)))
            remedy = "train these vectors again, or take this word out of the file"
            what = f"the vector of {name(row)} holds {rows[row][~finite[row]][0]}, no number to reckon with"
            raise self.at(what, places[row], remedy)


class Gathering:
    """Rows one block after the other, into one table."""

    def __init__(self, decoding: Decoding, width: int, room: int) -> None:
        self.decoding = decoding
        self.words: list[str] = []
        self._rows = np.empty((room, width), np.float32)  # memory that is not touched costs nothing

    def add(self, raw: Sequence[bytes], rows: np.ndarray, places: Sequence[int]) -> None:
        """Words as they are written, their vectors (n, D) and their places."""
        self.decoding.check(rows, lambda row: shown(raw[row]), places)
        words, keep = self.decoding.words(raw, places)
        begin, end = len(self.words), len(self.words) + len(words)
        if end > len(self._rows):
            self._rows.resize((max(end, len(self._rows) * 5 // 4), self._rows.shape[1]), refcheck=False)
        self._rows[begin:end] = rows if keep is None else rows[keep]
        self.words += words

    def finish(self, form: str, limit: int | None, notes: Sequence[str] = ()) -> WordVectors:
        del self.words[len(self.words) if limit is None else limit :]
        if not self.words:
            raise BadInput("it holds no vectors", file=self.decoding.path, remedy=ANY)
        self._rows.resize((len(self.words), self._rows.shape[1]), refcheck=False)
        told = [*notes, *self.decoding.notes(), *zeros(self.words, self._rows)]
        return WordVectors(self.words, self._rows, None, form, told)


def zeros(words: Sequence[str], matrix: np.ndarray) -> list[str]:
    """What is to be said of words whose vectors point nowhere."""
    found = Tally()
    for row in np.flatnonzero(~matrix.any(1)).tolist():
        found.add(repr(words[row]))
    return found.told("given a vector of zeros, which is near to nothing")


def shown(raw: bytes) -> str:
    """A word for people, whatever its bytes are."""
    return repr(raw[:40].decode(errors="backslashreplace"))
