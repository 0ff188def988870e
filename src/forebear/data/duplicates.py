"""Text that is there more than once: equal documents, nearly equal ones (MinHash), lines that recur everywhere."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebear.data.io.documents import Document
from forebear.data.unicode import code_points

MOST_DISTINCT = 5_000_000  # documents remembered for exact duplicates (about 150 bytes each)
MOST_COMPARED = 1_000_000  # documents remembered for near duplicates (about 400 bytes each)
MOST_LINES = 1_000_000  # lines counted at a time

DocumentLocation = tuple[str, int]  # file, line


def document_location(document: Document, line: int = 0) -> DocumentLocation:
    """Where a line of a document stands, counted from 0."""
    return document.file, document.line_at(line)


def text_digest(text: str) -> bytes:
    """Equal for equal text, white space around it aside."""
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()


# --- equal documents ---


@dataclass
class DuplicateGroup:
    """Copies of one document: where the first stands, how many more there are, and their characters."""

    first: DocumentLocation
    copies: int = 0
    characters: int = 0


class ExactDuplicates:
    """Remembers documents by their digest; beyond `most` distinct ones, new ones are no longer remembered."""

    def __init__(self, most: int = MOST_DISTINCT) -> None:
        self.most = most
        self.groups: dict[bytes, DuplicateGroup] = {}
        self.full = False
        self._first: dict[bytes, int] = {}  # a file's number and the line in one integer: half the memory of a pair
        self._files: list[str] = []

    def seen_before(self, mark: bytes, characters: int, place: DocumentLocation) -> bool:
        """Whether a document with this digest has been here before."""
        first = self._first.get(mark)
        if first is not None:
            group = self.groups.get(mark)
            if group is None:
                group = self.groups[mark] = DuplicateGroup((self._files[first >> 40], first & ((1 << 40) - 1)))
            group.copies += 1
            group.characters += characters
            return True
        if len(self._first) >= self.most:
            self.full = True
            return False
        if not self._files or self._files[-1] != place[0]:
            self._files.append(place[0])
        self._first[mark] = (len(self._files) - 1) << 40 | place[1]
        return False


# --- nearly equal documents ---

SHINGLE = 5  # characters
SHORTEST = 50  # characters without white space; shorter documents have too few shingles to compare
VALUES, BANDS = 128, 16
ROWS = VALUES // BANDS
BLOCK = 4096  # shingles hashed at a time: (VALUES, BLOCK) stays in cache

_random = np.random.Generator(np.random.PCG64(5))
_FACTORS = _random.integers(0, 1 << 32, (VALUES, 1), np.uint32) | np.uint32(1)
_TERMS = _random.integers(0, 1 << 32, (VALUES, 1), np.uint32)
_KEYS = _random.integers(0, 1 << 63, ROWS // 4, np.uint64) | np.uint64(1)
_BASE = np.uint32(0x9E3779B1)
_BAND = np.arange(BANDS)


def minhash_signature(text: str) -> np.ndarray | None:
    """(VALUES,) uint32: two texts agree in a value with the probability of their shingles' Jaccard similarity.

    The least value of the parts' signatures is the signature of the whole. None for text too short to compare.
    """
    codes = code_points("".join(text.lower().split()), surrogates="keep")
    if len(codes) < SHORTEST:
        return None
    count = len(codes) - SHINGLE + 1
    hashes = codes[:count].copy()
    for i in range(1, SHINGLE):
        hashes *= _BASE
        hashes += codes[i : i + count]
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # every bit of the sum moves every bit of the hash
        hashes ^= hashes >> np.uint32(shift)
        hashes *= np.uint32(factor)
    hashes ^= hashes >> np.uint32(16)
    least = np.full(VALUES, 0xFFFFFFFF, np.uint32)
    for start in range(0, count, BLOCK):
        permuted = hashes[start : start + BLOCK] * _FACTORS
        permuted += _TERMS
        np.minimum(least, permuted.min(axis=1), out=least)
    return least


class NearDuplicates:
    """Finds among remembered documents one that is nearly equal; in memory that grows with them up to `most`.

    Every band of a signature leads to a slot that holds the first document with that band. What is found there is
    compared value by value, so that crowded slots can hide a likeness but never invent one.
    """

    def __init__(self, threshold: float = 0.8, most: int = MOST_COMPARED) -> None:
        self.threshold, self.most, self.count, self.full = threshold, most, 0, False
        self._values = np.empty((1024, VALUES), np.uint16)  # 16 of 32 bits: a chance agreement is one in 65,536
        self._slots = self._empty(4096)

    def find(self, signed: np.ndarray) -> tuple[int, float] | None:
        """The number of the most similar remembered document, and the estimated similarity."""
        values = signed.astype(np.uint16)
        found = self._slots[_BAND, self._places(values)]
        numbers = np.unique(found[found > 0]) - 1
        if not len(numbers):
            return None
        alike = (self._values[numbers] == values).mean(axis=1)
        best = int(alike.argmax())
        return (int(numbers[best]), float(alike[best])) if alike[best] >= self.threshold else None

    def add(self, signed: np.ndarray) -> int | None:
        """The document's number from now on; None when no more are remembered."""
        if self.count >= self.most:
            self.full = True
            return None
        if self.count == len(self._values):
            self._values = np.concatenate((self._values, np.empty_like(self._values)))
        self._values[self.count] = signed.astype(np.uint16)
        self.count += 1
        if 2 * self.count > self._slots.shape[1]:
            self._slots = self._empty(4 * self._slots.shape[1])
            for number in range(self.count):
                self._enter(number)
        else:
            self._enter(self.count - 1)
        return self.count - 1

    def _enter(self, number: int) -> None:
        places = self._places(self._values[number])
        free = self._slots[_BAND, places] == 0
        self._slots[_BAND[free], places[free]] = number + 1

    def _places(self, values: np.ndarray) -> np.ndarray:
        """One slot for each band, (BANDS,)."""
        words = values.view(np.uint64).reshape(BANDS, -1)
        keys = (words * _KEYS).sum(axis=1)
        keys ^= keys >> np.uint64(29)
        keys *= np.uint64(0xBF58476D1CE4E5B9)
        return keys >> np.uint64(65 - self._slots.shape[1].bit_length())

    @staticmethod
    def _empty(slots: int) -> np.ndarray:
        return np.zeros((BANDS, slots), np.uint32)


# --- lines that recur ---

LINE = 20  # characters: shorter lines recur for good reasons
MIN_REPEATS = 10  # documents


@dataclass
class RepeatedLines:
    """Counts in how many documents a line stands; when too many lines are known, the rarest are forgotten."""

    max_repeats: int = MIN_REPEATS
    max_lines: int = MOST_LINES
    is_full: bool = False
    counts: Counter[int] = field(default_factory=Counter)
    examples: dict[int, tuple[str, DocumentLocation]] = field(default_factory=dict)
    _here: set[int] = field(default_factory=set)

    def count(self, lines: Iterable[str], place: DocumentLocation, *, continued: bool = False) -> list[bool]:
        """For each line, whether it already stood in as many earlier documents as are allowed."""
        if not continued:
            self._here.clear()
        too_often: list[bool] = []
        for line in lines:
            line = line.strip()
            if len(line) < LINE:
                too_often.append(False)
                continue
            mark = hash(line)
            if mark not in self._here:
                self._here.add(mark)
                self.counts[mark] += 1
                if self.counts[mark] == self.max_repeats + 1:
                    self.examples[mark] = (line[:200], place)
            too_often.append(self.counts[mark] > self.max_repeats)
        if len(self.counts) > self.max_lines:
            self._forget()
        return too_often

    def _forget(self) -> None:
        rare = sorted(self.counts.values())[len(self.counts) // 2]
        self.counts = Counter({mark: count for mark, count in self.counts.items() if count > rare})
        self._here.clear()
        self.is_full = True

    def most_common(self, number: int) -> list[tuple[str, int, DocumentLocation]]:
        """The lines in most documents: (line, documents, a place where it stands)."""
        known = (
            (self.counts[mark], line, place) for mark, (line, place) in self.examples.items() if mark in self.counts
        )
        return [(line, count, place) for count, line, place in sorted(known, key=lambda it: -it[0])[:number]]


# --- all of it, counted for a report ---


class DuplicateCounter:
    """Equal documents, nearly equal ones among the rest, and recurring lines, with examples and their places."""

    def __init__(self, threshold: float, examples: int) -> None:
        self.exact, self.near, self.lines = ExactDuplicates(), NearDuplicates(threshold), RepeatedLines()
        self.equal: Counter[str] = Counter(documents=0, characters=0, in_parts=0, characters_in_parts=0)
        self.alike: Counter[str] = Counter(documents=0, characters=0, in_parts=0, characters_in_parts=0, too_short=0)
        self.often: Counter[str] = Counter(lines=0, characters=0)
        self.examples = examples
        self._places: dict[int, DocumentLocation] = {}
        self._groups: dict[int, list[tuple[float, DocumentLocation]]] = {}

    def add(
        self, mark: bytes, signed: np.ndarray | None, characters: int, where: DocumentLocation, *, in_parts: bool
    ) -> bool:
        """Counts a document, `in_parts` (which cleaning always keeps) apart; whether it is the first of its kind."""
        if self.exact.seen_before(mark, characters, where):
            self._count(self.equal, characters, in_parts)
            return False
        if signed is None:
            self.alike["too_short"] += 1
        elif found := self.near.find(signed):
            self._count(self.alike, characters, in_parts)
            self._groups.setdefault(found[0], []).append((found[1], where))
        elif (number := self.near.add(signed)) is not None:
            self._places[number] = where
        return True

    @staticmethod
    def _count(counts: Counter[str], characters: int, in_parts: bool) -> None:
        counts.update(documents=1, characters=characters, in_parts=in_parts, characters_in_parts=in_parts * characters)

    def count(self, lines: list[str], where: DocumentLocation, *, continued: bool) -> None:
        for line, too_often in zip(lines, self.lines.count(lines, where, continued=continued), strict=True):
            if too_often:
                self.often.update(lines=1, characters=len(line) + 1)

    def to_dict(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Of equal documents, of nearly equal ones, of lines."""
        largest = sorted(self.exact.groups.values(), key=lambda group: -group.characters)[: self.examples]
        equal = {**self.equal, "complete": not self.exact.full, "remembered": self.exact.most}
        equal["groups"] = [
            {"first": document_location_dict(it.first), "copies": it.copies, "characters": it.characters}
            for it in largest
        ]
        alike = {**self.alike, "compared": self.near.count + self.alike["documents"], "threshold": self.near.threshold}
        alike |= {"complete": not self.near.full, "remembered": self.near.most}
        crowds = sorted(self._groups.items(), key=lambda item: -len(item[1]))[: self.examples]
        alike["groups"] = [
            {"first": document_location_dict(self._places[number]), "copies": len(like), "examples": [
                {**document_location_dict(where), "similarity": round(similarity, 3)} for similarity, where in like[: self.examples]
            ]} for number, like in crowds
        ]  # fmt: skip
        top = [
            {"text": line, "documents": count, **document_location_dict(where)}
            for line, count, where in self.lines.most_common(self.examples)
        ]
        often = {**self.often, "allowed": self.lines.max_repeats, "top": top, "complete": not self.lines.is_full}
        return equal, alike, often


def document_location_dict(where: DocumentLocation) -> dict[str, Any]:
    return {"file": where[0], "line": where[1]}


# --- a sample of what is there ---

SAMPLE = 1_000_000  # characters
EXCERPT = 20_000  # characters taken of one document at a time


class DocumentSample:
    """The documents whose digests are smallest, up to a number of characters: the same whatever order they come in."""

    def __init__(self, limit: int = SAMPLE) -> None:
        self.limit, self.characters = limit, 0
        self.heap: list[tuple[int, str]] = []

    def offer(self, text: str, mark: bytes) -> None:
        for start in range(0, len(text), EXCERPT):
            piece = text[start : start + EXCERPT]
            rank = -int.from_bytes(text_digest(piece) if len(text) > EXCERPT else mark)
            if self.characters >= self.limit and rank < self.heap[0][0]:
                continue
            heapq.heappush(self.heap, (rank, piece))
            self.characters += len(piece)
            while self.characters - len(self.heap[0][1]) >= self.limit:
                self.characters -= len(heapq.heappop(self.heap)[1])

    def texts(self) -> list[str]:
        return [text for _, text in sorted(self.heap, reverse=True)]
