"""The finished shards become one corpus folder: written aside, counted, checked, and only then given its name."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.aside import sync_folder, synced, write_json, written_aside
from forebear.text.corpus import DROPPED, FACTS, FORMAT, LEDGER, TOKENIZER, smallest_type
from forebear.text.encoding import NO_TOKENS, Encoded, joined_hash
from forebear.text.ledger import Ledger


class GrowingArray:
    """An .npy file whose length is not known beforehand: rows are appended, the header is put right at the end."""

    def __init__(self, path: Path, kind: np.dtype | type) -> None:
        self.kind, self.length, self.digest = np.dtype(kind), 0, hashlib.sha256()
        self.file = open(path, "wb")  # noqa: SIM115 - closed by finish() or by its user's ExitStack
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
    sizes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    continued: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def joined(self, other: Pieces | Encoded) -> Pieces:
        names = ("documents", "hashes", "sizes", "continued")
        return Pieces(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def cut(self, start: int, end: int | None) -> Pieces:
        return Pieces(
            self.documents[start:end], self.hashes[start:end], self.sizes[start:end], self.continued[start:end]
        )

    def whole(self) -> Pieces:
        """The parts of each document added up."""
        starts = np.flatnonzero(~self.continued)
        if not len(starts) or len(starts) == len(self.continued):
            return self
        borders = [*starts, len(self.continued)]
        hashes = [joined_hash(self.hashes[a:b]) for a, b in pairwise(borders)]
        sums = np.add.reduceat(self.documents, starts), np.add.reduceat(self.sizes, starts)
        return Pieces(sums[0], np.array(hashes, np.uint64), sums[1], np.zeros(len(starts), bool))


def assemble(work: Path, target: Path, shards: Iterator[Encoded], ledger: Ledger, facts: dict[str, Any]) -> None:
    """Joins the shards, in order, under `work`, closes the books and renames the result to `target`."""
    whole = work / "whole"
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir()
    _copied(work / TOKENIZER, whole)
    with ExitStack() as stack, open(work / DROPPED, "a", encoding="utf-8") as dropped:
        ledger.on_drop = lambda item: _write_line(dropped, item)
        arrays = _write_arrays(whole, shards, ledger, facts["vocabulary"], dropped, stack)
        if not arrays["ids"]["shape"][0]:
            raise BadInput(
                "the text holds nothing to learn from: no token in it", remedy="give more text, or another tokenizer"
            )
        ledger.check()
        dropped.flush()
    _copied(work / DROPPED, whole)
    write_json(whole / LEDGER, ledger.to_json())
    write_json(whole / FACTS, {"format": FORMAT, **facts, "counts": _counts(ledger), "arrays": arrays})
    _put(whole, target)


def _write_arrays(
    whole: Path, shards: Iterator[Encoded], ledger: Ledger, vocabulary: int, dropped: Any, stack: ExitStack
) -> dict[str, dict[str, Any]]:
    def growing(name: str, kind: np.dtype | type) -> GrowingArray:
        array = GrowingArray(whole / f"{name}.npy", kind)
        stack.callback(array.file.close)
        return array

    ids, hashes, sizes = (
        growing("ids", smallest_type(vocabulary)),
        growing("hashes", np.uint64),
        growing("sizes", np.int64),
    )
    sentences, documents = growing("sentences", np.int64), growing("documents", np.int64)
    words: GrowingArray | None = None
    carried, silent, numbered = Pieces(), {}, 0
    ends = {"tokens": 0, "sentences": 0}

    def enter(pieces: Pieces, first: int) -> None:
        """Whole documents, of which the first piece has number `first`."""
        starts = first + np.flatnonzero(~pieces.continued)
        complete = pieces.whole()
        books = ledger.stage("tokens")
        books.take(documents=len(starts))
        for number in starts[complete.documents == 0]:
            ledger.drop("tokens", NO_TOKENS, documents=1, **silent[int(number)])
        kept = complete.documents > 0
        books.give(documents=int(kept.sum()))
        documents.append(ends["sentences"] + np.cumsum(complete.documents[kept]) - complete.documents[kept])
        ends["sentences"] += int(complete.documents.sum())
        hashes.append(complete.hashes[kept])
        sizes.append(complete.sizes[kept])

    for shard in shards:
        ledger.merge(shard.ledger)
        for item in shard.dropped:
            _write_line(dropped, item)
        ids.append(shard.ids)
        if shard.words is not None:
            words = words or growing("words", bool)
            words.append(shard.words)
        sentences.append(ends["tokens"] + np.cumsum(shard.sentences) - shard.sentences)
        ends["tokens"] += int(shard.sentences.sum())
        before = len(carried.continued)
        silent.update({numbered + it["number"]: {"file": it["file"], "line": it["line"]} for it in shard.silent})
        pieces = carried.joined(shard)
        last = int(np.flatnonzero(~pieces.continued)[-1])  # this document may go on in the next shard
        enter(pieces.cut(0, last), numbered - before)
        carried, numbered = pieces.cut(last, None), numbered + len(shard.continued)
        silent = {number: it for number, it in silent.items() if number >= numbered - len(carried.continued)}
    enter(carried, numbered - len(carried.continued))
    sentences.append(np.array([ends["tokens"]]))
    documents.append(np.array([ends["sentences"]]))
    named = {
        "ids": ids,
        "sentences": sentences,
        "documents": documents,
        "hashes": hashes,
        "sizes": sizes,
        "words": words,
    }
    return {name: array.finish() for name, array in named.items() if array is not None}


def _counts(ledger: Ledger) -> dict[str, int]:
    given = ledger.stage("tokens").given
    return {unit: given[unit] for unit in ("documents", "sentences", "characters", "bytes", "tokens", "unknown")}


def _put(whole: Path, target: Path) -> None:
    """Gives the finished folder its name in one step; what stood there is moved out of the way first."""
    old = target.with_name(target.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    whole.rename(target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _copied(path: Path, folder: Path) -> None:
    with open(path, "rb") as source, written_aside(folder / path.name) as copy:
        shutil.copyfileobj(source, copy)


def _write_line(file: Any, item: dict[str, Any]) -> None:
    file.write(json.dumps(item) + "\n")
