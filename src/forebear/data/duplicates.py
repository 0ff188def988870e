"""Detection of duplicates: equal documents, near-duplicates (MinHash), lines repeated in many documents."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebear.data.io.document import Document
from forebear.data.unicode import code_points

MAX_DISTINCT = 5_000_000  # documents stored to find exact duplicates (about 150 bytes each)
MAX_COMPARED = 1_000_000  # documents stored to find near-duplicates (about 400 bytes each)
MAX_LINES = 1_000_000  # lines counted at a time

DocumentLocation = tuple[str, int]  # file, line


def document_location(document: Document, line: int = 0) -> DocumentLocation:
    """The file, and the line in it of line `line` (from 0) of a document."""
    return document.file, document.line_at(line)


def text_digest(text: str) -> bytes:
    """A digest of the text without surrounding white space."""
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass
class DuplicateGroup:
    """Copies of one document: the location of the first, the number of the others, and their characters."""

    first: DocumentLocation
    copies: int = 0
    characters: int = 0


class ExactDuplicates:
    """The digests of at most `max_documents` distinct documents, with groups of duplicates."""

    def __init__(self, max_documents: int = MAX_DISTINCT) -> None:
        self.max_documents = max_documents
        self.groups: dict[bytes, DuplicateGroup] = {}
        self.is_full = False
        self._first: dict[bytes, int] = {}  # file number and line in one integer: half the memory of a tuple
        self._files: list[str] = []

    def check_and_add(self, digest: bytes, characters: int, location: DocumentLocation) -> bool:
        """Whether a document with this digest was added before; add it otherwise."""
        first = self._first.get(digest)
        if first is not None:
            group = self.groups.get(digest)
            if group is None:
                group = self.groups[digest] = DuplicateGroup((self._files[first >> 40], first & ((1 << 40) - 1)))
            group.copies += 1
            group.characters += characters
            return True
        if len(self._first) >= self.max_documents:
            self.is_full = True
            return False
        if not self._files or self._files[-1] != location[0]:
            self._files.append(location[0])
        self._first[digest] = (len(self._files) - 1) << 40 | location[1]
        return False


# --- Near-duplicates (MinHash with banding) ---

SHINGLE_CHARACTERS = 5
MIN_CHARACTERS = 50  # characters without white space; shorter documents have too few shingles to compare
NUM_HASHES, NUM_BANDS = 128, 16
HASHES_PER_BAND = NUM_HASHES // NUM_BANDS
SHINGLES_PER_BLOCK = 4096  # shingles hashed at a time: (NUM_HASHES, SHINGLES_PER_BLOCK) stays in cache

_random = np.random.Generator(np.random.PCG64(5))
_FACTORS = _random.integers(0, 1 << 32, (NUM_HASHES, 1), np.uint32) | np.uint32(1)
_OFFSETS = _random.integers(0, 1 << 32, (NUM_HASHES, 1), np.uint32)
_KEYS = _random.integers(0, 1 << 63, HASHES_PER_BAND // 4, np.uint64) | np.uint64(1)
_BASE = np.uint32(0x9E3779B1)
_BAND = np.arange(NUM_BANDS)


def minhash_signature(text: str) -> np.ndarray | None:
    """(NUM_HASHES,) uint32: two texts agree in a value with the probability of their shingles' Jaccard similarity.

    The minimum of the signatures of its parts is the signature of a document. None for text too short to compare.
    """
    codes = code_points("".join(text.lower().split()), surrogates="keep")
    if len(codes) < MIN_CHARACTERS:
        return None
    count = len(codes) - SHINGLE_CHARACTERS + 1
    hashes = codes[:count].copy()
    for i in range(1, SHINGLE_CHARACTERS):
        hashes *= _BASE
        hashes += codes[i : i + count]
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # mix all bits
        hashes ^= hashes >> np.uint32(shift)
        hashes *= np.uint32(factor)
    hashes ^= hashes >> np.uint32(16)
    signature = np.full(NUM_HASHES, 0xFFFFFFFF, np.uint32)
    for start in range(0, count, SHINGLES_PER_BLOCK):
        permuted = hashes[start : start + SHINGLES_PER_BLOCK] * _FACTORS
        permuted += _OFFSETS
        np.minimum(signature, permuted.min(axis=1), out=signature)
    return signature


class NearDuplicates:
    """An index of signatures that finds near-duplicates; its memory grows with the documents, up to `max_documents`.

    Each band of a signature is hashed to a slot that holds the first document with that band. Candidates are compared
    value by value, so that collisions can hide a similarity but never invent one.
    """

    def __init__(self, threshold: float = 0.8, max_documents: int = MAX_COMPARED) -> None:
        self.threshold, self.max_documents, self.count, self.is_full = threshold, max_documents, 0, False
        self._values = np.empty((1024, NUM_HASHES), np.uint16)  # 16 of 32 bits: random values agree once in 65,536
        self._slots = np.zeros((NUM_BANDS, 4096), np.uint32)

    def find(self, signature: np.ndarray) -> tuple[int, float] | None:
        """The number of the most similar document, and the estimated similarity, if it reaches the threshold."""
        values = signature.astype(np.uint16)
        candidates = self._slots[_BAND, self._band_slots(values)]
        document_indices = np.unique(candidates[candidates > 0]) - 1
        if not len(document_indices):
            return None
        similarity = (self._values[document_indices] == values).mean(axis=1)
        best = int(similarity.argmax())
        return (int(document_indices[best]), float(similarity[best])) if similarity[best] >= self.threshold else None

    def add(self, signature: np.ndarray) -> int | None:
        """Add a document; return its number, or None if the index is full."""
        if self.count >= self.max_documents:
            self.is_full = True
            return None
        if self.count == len(self._values):
            self._values = np.concatenate((self._values, np.empty_like(self._values)))
        self._values[self.count] = signature.astype(np.uint16)
        self.count += 1
        first = self.count - 1
        if 2 * self.count > self._slots.shape[1]:  # all documents are inserted into a larger table
            first, self._slots = 0, np.zeros((NUM_BANDS, 4 * self._slots.shape[1]), np.uint32)
        for number in range(first, self.count):
            slots = self._band_slots(self._values[number])
            is_free = self._slots[_BAND, slots] == 0
            self._slots[_BAND[is_free], slots[is_free]] = number + 1
        return self.count - 1

    def _band_slots(self, values: np.ndarray) -> np.ndarray:
        """The slot of each band, (NUM_BANDS,)."""
        words = values.view(np.uint64).reshape(NUM_BANDS, -1)
        keys = (words * _KEYS).sum(axis=1)
        keys ^= keys >> np.uint64(29)
        keys *= np.uint64(0xBF58476D1CE4E5B9)
        return keys >> np.uint64(65 - self._slots.shape[1].bit_length())


# --- Repeated lines ---

MIN_LINE_LENGTH = 20  # characters: shorter lines repeat legitimately
MIN_REPEATS = 10  # documents


@dataclass
class RepeatedLines:
    """Counts the documents that contain each line; if there are too many lines, the rarest are removed."""

    max_repeats: int = MIN_REPEATS
    max_lines: int = MAX_LINES
    is_full: bool = False
    counts: Counter[int] = field(default_factory=Counter)
    examples: dict[int, tuple[str, DocumentLocation]] = field(default_factory=dict)
    _current_document: set[int] = field(default_factory=set)

    def count(self, lines: Iterable[str], location: DocumentLocation, *, continued: bool = False) -> list[bool]:
        """For each line, whether more than `max_repeats` documents contain it, this one included."""
        if not continued:
            self._current_document.clear()
        is_repeated: list[bool] = []
        for line in lines:
            line = line.strip()
            if len(line) < MIN_LINE_LENGTH:
                is_repeated.append(False)
                continue
            line_hash = hash(line)
            if line_hash not in self._current_document:
                self._current_document.add(line_hash)
                self.counts[line_hash] += 1
                if self.counts[line_hash] == self.max_repeats + 1:
                    self.examples[line_hash] = (line[:200], location)
            is_repeated.append(self.counts[line_hash] > self.max_repeats)
        if len(self.counts) > self.max_lines:
            median = sorted(self.counts.values())[len(self.counts) // 2]
            self.counts = Counter({line_hash: count for line_hash, count in self.counts.items() if count > median})
            self._current_document.clear()
            self.is_full = True
        return is_repeated

    def most_common(self, count: int) -> list[tuple[str, int, DocumentLocation]]:
        """The lines that occur in the most documents: (line, documents, a location)."""
        candidates = [
            (line, self.counts[line_hash], location)
            for line_hash, (line, location) in self.examples.items()
            if line_hash in self.counts
        ]
        return sorted(candidates, key=lambda item: -item[1])[:count]


class DuplicateCounter:
    """Counts duplicates, near-duplicates among the rest, and repeated lines, with examples and their locations."""

    def __init__(self, threshold: float, examples: int) -> None:
        self.exact, self.near, self.lines = ExactDuplicates(), NearDuplicates(threshold), RepeatedLines()
        self.exact_counts: Counter[str] = Counter(documents=0, characters=0, in_parts=0, characters_in_parts=0)
        self.near_counts: Counter[str] = Counter(**self.exact_counts, too_short=0)
        self.repeated_counts: Counter[str] = Counter(lines=0, characters=0)
        self.examples = examples
        self._locations: dict[int, DocumentLocation] = {}
        self._groups: dict[int, list[tuple[float, DocumentLocation]]] = {}

    def add(
        self,
        digest: bytes,
        signature: np.ndarray | None,
        characters: int,
        location: DocumentLocation,
        *,
        in_parts: bool,
    ) -> bool:
        """Count a document, separately if `in_parts` (cleaning keeps those); return False for an exact duplicate."""
        if self.exact.check_and_add(digest, characters, location):
            self._count(self.exact_counts, characters, in_parts)
            return False
        if signature is None:
            self.near_counts["too_short"] += 1
        elif match := self.near.find(signature):
            self._count(self.near_counts, characters, in_parts)
            self._groups.setdefault(match[0], []).append((match[1], location))
        elif (number := self.near.add(signature)) is not None:
            self._locations[number] = location
        return True

    @staticmethod
    def _count(counts: Counter[str], characters: int, in_parts: bool) -> None:
        counts.update(documents=1, characters=characters, in_parts=in_parts, characters_in_parts=in_parts * characters)

    def count(self, lines: list[str], location: DocumentLocation, *, continued: bool) -> None:
        for line, is_repeated in zip(lines, self.lines.count(lines, location, continued=continued), strict=True):
            if is_repeated:
                self.repeated_counts.update(lines=1, characters=len(line) + 1)

    def to_dict(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The statistics of exact duplicates, near-duplicates and repeated lines."""
        largest = sorted(self.exact.groups.values(), key=lambda group: -group.characters)[: self.examples]
        equal = {**self.exact_counts, "complete": not self.exact.is_full, "remembered": self.exact.max_documents}
        equal["groups"] = [vars(group) | {"first": document_location_dict(group.first)} for group in largest]
        compared = self.near.count + self.near_counts["documents"]
        near = {**self.near_counts, "compared": compared, "threshold": self.near.threshold}
        near |= {"complete": not self.near.is_full, "remembered": self.near.max_documents}
        near["groups"] = groups = []
        for number, members in sorted(self._groups.items(), key=lambda item: -len(item[1]))[: self.examples]:
            examples = [
                {**document_location_dict(location), "similarity": round(similarity, 3)}
                for similarity, location in members[: self.examples]
            ]
            first = document_location_dict(self._locations[number])
            groups.append({"first": first, "copies": len(members), "examples": examples})
        top = [
            {"text": line, "documents": count, **document_location_dict(location)}
            for line, count, location in self.lines.most_common(self.examples)
        ]
        repeated = {**self.repeated_counts, "allowed": self.lines.max_repeats, "top": top}
        return equal, near, repeated | {"complete": not self.lines.is_full}


def document_location_dict(location: DocumentLocation) -> dict[str, Any]:
    return {"file": location[0], "line": location[1]}
