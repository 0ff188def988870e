"""The finished shards become one corpus folder: written aside, counted, checked, and only then given its name."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.aside import sync_folder, synced, write_json
from forebear.text.corpus import DROPPED, FACTS, FORMAT, LEDGER, TOKENIZER, smallest_type
from forebear.text.encoding import NO_TOKENS, Encoded, joined_hash
from forebear.text.ledger import Ledger

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer


class GrowingArray:
    """An .npy file whose length is not known beforehand: rows are appended, the header is put right at the end."""

    def __init__(self, path: Path, kind: np.dtype | type) -> None:
        self.kind, self.length, self.digest = np.dtype(kind), 0, hashlib.sha256()
        self.file = open(path, "wb")  # noqa: SIM115 - closed by finish(), or by its user's close()
        self.file.write(self._header())

    def _header(self) -> bytes:
        head = io.BytesIO()
        facts = {"descr": self.kind.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(head, facts)  # numpy pads it so that a longer length still fits
        return head.getvalue()

    def append(self, rows: np.ndarray) -> None:
        data = np.ascontiguousarray(rows, self.kind).data
        self.file.write(data)
        self.digest.update(data)
        self.length += len(rows)

    def finish(self) -> dict[str, Any]:
        """Puts the length into the header, syncs, and tells what the file holds."""
        self.file.seek(0)
        self.file.write(self._header())
        synced(self.file)
        self.file.close()
        return {"type": self.kind.str, "shape": [self.length], "sha256": self.digest.hexdigest()}


@dataclass
class Pieces:
    """Documents or parts of documents: an entry for each in every array."""

    documents: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # sentences in each
    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    continued: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def joined(self, other: Pieces | Encoded) -> Pieces:
        names = ("documents", "hashes", "continued")
        return Pieces(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def cut(self, start: int, end: int | None) -> Pieces:
        return Pieces(self.documents[start:end], self.hashes[start:end], self.continued[start:end])

    def whole(self) -> Pieces:
        """The parts of each document added up."""
        starts = np.flatnonzero(~self.continued)
        if not len(starts) or len(starts) == len(self.continued):
            return self
        borders = [*starts, len(self.continued)]
        hashes = [joined_hash(self.hashes[a:b]) for a, b in pairwise(borders)]
        sentences = np.add.reduceat(self.documents, starts)
        return Pieces(sentences, np.array(hashes, np.uint64), np.zeros(len(starts), bool))


class Sizes:
    """The bytes of sentences while shards come in. Text without tokens goes to the sentence of its document before it,
    else to the one after it; either may be in another shard, if the document is long."""

    def __init__(self, array: GrowingArray) -> None:
        self.array = array
        self.last = np.zeros(0, np.int64)  # of the last sentence so far: text without tokens may follow it
        self.speaks = False  # whether that sentence is in the document that may go on
        self.owed = 0  # bytes of that document, if it does not

    def add(self, shard: Encoded) -> None:
        sizes, before = np.concatenate((self.last, shard.sizes)), shard.before.copy()
        following = len(self.last) + np.cumsum(shard.documents) - shard.documents  # sentence at or after each piece
        first = np.concatenate(([0 if self.speaks else len(self.last)], following[~shard.continued]))
        owners = np.cumsum(~shard.continued)  # of each piece; 0 is the document that goes on
        if shard.continued[0]:
            before[0] += self.owed
        behind = following > first[owners]  # an earlier sentence of the document is there
        ahead = following < np.append(first[1:], len(sizes))[owners]
        heard = behind | ahead
        np.add.at(sizes, (following - behind)[heard], before[heard])
        self.owed = int(before[~heard & (owners == owners[-1])].sum())
        self.speaks = bool(first[-1] < len(sizes))
        self.array.append(sizes[:-1])
        self.last = sizes[-1:]

    def finish(self) -> None:
        self.array.append(self.last)


def joined(
    work: Path, shards: Iterable[Encoded], told: set[str], tokenizer: Tokenizer, ledger: Ledger
) -> dict[str, dict[str, Any]]:
    """The arrays of a corpus from its shards, in order, written under `work`; and what they hold. The books go on.

    `told` are the optional arrays that any shard has.
    """
    whole = work / "whole"
    for old in (whole, work / "replaced"):
        shutil.rmtree(old, ignore_errors=True)
    whole.mkdir()
    joining = _Joining(whole, smallest_type(tokenizer.size), told, ~tokenizer.continues, ledger)
    try:
        for shard in shards:
            joining.add(shard)
        arrays = joining.finish()
    finally:
        joining.close()
    if not arrays["ids"]["shape"][0]:
        raise BadInput("there is no token in this text", remedy="give files that hold text, or another tokenizer")
    return arrays


def concluded(
    work: Path, target: Path, arrays: dict[str, dict[str, Any]], ledger: Ledger, facts: dict[str, Any]
) -> None:
    """Closes the books and renames the result to `target`."""
    whole = work / "whole"
    ledger.check()
    for name in (TOKENIZER, DROPPED):  # who is killed now makes them again
        with open(work / name, "rb") as file:
            synced(file)
        (work / name).rename(whole / name)
    write_json(whole / LEDGER, ledger.to_json())
    write_json(whole / FACTS, {"format": FORMAT, **facts, "counts": _counts(ledger), "arrays": arrays})
    _put(whole, target)


class _Joining:
    """The arrays of a corpus while its shards come in, in order.

    `begins` tells of each entry of the vocabulary whether it begins a word, for shards that do not know words.
    """

    def __init__(self, folder: Path, id_type: np.dtype, told: set[str], begins: np.ndarray, ledger: Ledger) -> None:
        kinds = {"ids": id_type, "sentences": np.int64, "sizes": np.uint32, "unknown": np.uint32}
        kinds |= {"documents": np.int64, "hashes": np.uint64}
        kinds |= {name: kind for name, kind in {"words": bool, "entities": np.uint8}.items() if name in told}
        self.begins, self.ledger = begins, ledger
        self.arrays = {name: GrowingArray(folder / f"{name}.npy", kind) for name, kind in kinds.items()}
        self.sizes = Sizes(self.arrays["sizes"])
        self.tokens = self.sentences = self.pieces = 0  # so far
        self.carried = Pieces()  # the last document of a shard: it may go on in the next one
        self.silent: dict[int, dict[str, Any]] = {}  # where pieces without tokens stand, by number

    def add(self, shard: Encoded) -> None:
        self.ledger.merge(shard.ledger)
        for item in shard.dropped:
            assert self.ledger.on_drop is not None
            self.ledger.on_drop(item)
        self.arrays["ids"].append(shard.ids)
        if "words" in self.arrays:
            self.arrays["words"].append(self.begins[shard.ids] if shard.words is None else shard.words)
        if "entities" in self.arrays:
            none = np.zeros(len(shard.ids), np.uint8)
            self.arrays["entities"].append(none if shard.entities is None else shard.entities)
        self.arrays["sentences"].append(self.tokens + np.cumsum(shard.sentences) - shard.sentences)
        self.arrays["unknown"].append(shard.unknown)
        self.sizes.add(shard)
        self.tokens += int(shard.sentences.sum())
        self.silent |= {self.pieces + it["number"]: {"file": it["file"], "line": it["line"]} for it in shard.silent}
        first = self.pieces - len(self.carried.continued)
        self.pieces += len(shard.continued)
        pieces = self.carried.joined(shard)
        last = int(np.flatnonzero(~pieces.continued)[-1])
        self._enter(pieces.cut(0, last), first)
        self.carried = pieces.cut(last, None)
        self.silent = {number: it for number, it in self.silent.items() if number >= first + last}

    def _enter(self, pieces: Pieces, first: int) -> None:
        """Whole documents, the first piece of which has number `first`; those without any token are dropped."""
        starts, whole, books = first + np.flatnonzero(~pieces.continued), pieces.whole(), self.ledger.stage("tokens")
        books.take(documents=len(starts))
        for number in starts[whole.documents == 0]:
            self.ledger.drop("tokens", NO_TOKENS, documents=1, **self.silent[int(number)])
        kept = whole.documents > 0
        books.give(documents=int(kept.sum()))
        lengths = whole.documents[kept]
        self.arrays["documents"].append(self.sentences + np.cumsum(lengths) - lengths)
        self.sentences += int(lengths.sum())
        self.arrays["hashes"].append(whole.hashes[kept])

    def finish(self) -> dict[str, dict[str, Any]]:
        self._enter(self.carried, self.pieces - len(self.carried.continued))
        self.sizes.finish()
        self.arrays["sentences"].append(np.array([self.tokens]))
        self.arrays["documents"].append(np.array([self.sentences]))
        return {name: array.finish() for name, array in self.arrays.items()}

    def close(self) -> None:
        for array in self.arrays.values():
            array.file.close()


def _counts(ledger: Ledger) -> dict[str, int]:
    given = ledger.stage("tokens").given
    always = ("documents", "sentences", "characters", "bytes", "tokens", "unknown")
    return {unit: given[unit] for unit in (*always, *(["entities"] if "entities" in given else []))}


def _put(whole: Path, target: Path) -> None:
    """Gives the finished folder its name in one step; what stood there is moved into the work folder first."""
    if target.exists():
        target.rename(whole.with_name("replaced"))
    whole.rename(target)
    sync_folder(target.parent)
