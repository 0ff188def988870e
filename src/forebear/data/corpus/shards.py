"""Shards: runs of documents of a fixed size, encoded and written one by one; the unit of work and of going on."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.corpus import (
    CORPUS_FILE,
    CORPUS_FORMAT,
    DROPPED_FILE,
    LEDGER_FILE,
    TOKENIZER_FILE,
    id_dtype,
)
from forebear.data.corpus.encode import NO_TOKENS_REASON, DocumentEncoder, EncodedShard, combine_hashes
from forebear.data.io.atomic import atomic_write, explain_disk_errors, sync_file, sync_folder, write_json
from forebear.data.io.documents import Document
from forebear.data.io.ledger import Ledger
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

SHARD_CHARACTERS = 1 << 20  # characters of text in a shard
ARRAYS = ("ids", "sentences", "sizes", "unknown", "documents", "before", "hashes", "continued")
OPTIONAL = ("words", "entities")  # arrays that only some text has
DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)  # what reading a torn shard may raise


@dataclass(frozen=True)
class ShardTask:
    """A run of documents, the digest of what they say, where their arrays go, and how far the reader had come."""

    documents: list[Document]
    digest: str
    path: Path
    position: int

    def __str__(self) -> str:
        return f"{self.documents[0].file}:{self.documents[0].line}"

    def is_done(self) -> bool:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                return json.loads(str(file["report"]))["digest"] == self.digest
        except DAMAGE:
            return False


@dataclass(frozen=True)
class ShardWriter:
    """Encodes a shard and writes it aside; a shard that has its name is whole. Returns how far the reader had come."""

    encoder: DocumentEncoder

    def __call__(self, job: ShardTask) -> int:
        encoded = self.encoder.encode(job.documents)
        arrays = {name: getattr(encoded, name) for name in ARRAYS}
        arrays["ids"] = arrays["ids"].astype(id_dtype(self.encoder.tokenizer.vocab_size))
        arrays |= {name: told for name in OPTIONAL if (told := getattr(encoded, name)) is not None}
        report = {"silent": encoded.silent, "dropped": encoded.dropped, "ledger": encoded.ledger.to_dict()}
        with explain_disk_errors(job.path), atomic_write(job.path) as file:
            np.savez(file, report=np.array(json.dumps({"digest": job.digest, **report})), **arrays)
        return job.position


def shard_tasks(
    documents: Iterator[Document], folder: Path, ledger: Ledger, skipped: Callable[[int], object]
) -> Iterator[ShardTask]:
    """Documents in runs of a fixed size, whoever works on them; runs already encoded are passed over."""
    number = -1
    for number, run in enumerate(document_runs(documents)):
        made = ShardTask(run, _digest(run), folder / f"{number:08}.npz", ledger.position)
        if made.is_done():
            skipped(made.position)
        else:
            yield made
    for path in folder.glob("*.npz"):  # of an attempt on text that was longer then
        if int(path.stem) > number:
            path.unlink()


def document_runs(documents: Iterator[Document]) -> Iterator[list[Document]]:
    run: list[Document] = []
    characters = 0
    for document in documents:
        run.append(document)
        characters += len(document.text)
        if characters >= SHARD_CHARACTERS:
            yield run
            run, characters = [], 0
    if run:
        yield run


def _digest(documents: list[Document]) -> str:
    """What a shard is made of: the texts, their borders and their places."""
    whole = hashlib.blake2b(digest_size=16)
    for it in documents:
        told = f"{len(it.text)} {it.part} {it.line} {it.file!r} {it.words} {it.entities}\n"
        whole.update(told.encode(errors="surrogateescape"))
        whole.update(it.utf8)
    return whole.hexdigest()


def read_shards(folder: Path) -> Iterator[EncodedShard]:
    """The shards in order, one in memory at a time."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except DAMAGE as error:
            path.unlink(missing_ok=True)
            hint = "run again to remake it"
            raise ForebearError("a finished shard was damaged on disk", file=path, hint=hint) from error
        report = json.loads(str(arrays.pop("report")))
        ledger = Ledger.from_dict(report["ledger"])
        yield EncodedShard(**arrays, silent=report["silent"], dropped=report["dropped"], ledger=ledger)


def optional_arrays(folder: Path) -> set[str]:
    """Which optional arrays any shard has; then the whole corpus will."""
    told: set[str] = set()
    for path in folder.glob("*.npz"):
        with np.load(path, allow_pickle=False) as file:
            told.update(name for name in OPTIONAL if name in file.files)
        if len(told) == len(OPTIONAL):
            break
    return told


# The finished shards become one corpus folder: written aside, counted, checked, and only then given its name.


class NpyAppender:
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
        sync_file(self.file)
        self.file.close()
        return {"type": self.kind.str, "shape": [self.length], "sha256": self.digest.hexdigest()}


@dataclass
class DocumentParts:
    """Documents or parts of documents: an entry for each in every array."""

    documents: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # sentences in each
    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    continued: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def concat(self, other: DocumentParts | EncodedShard) -> DocumentParts:
        names = ("documents", "hashes", "continued")
        return DocumentParts(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def slice(self, start: int, end: int | None) -> DocumentParts:
        return DocumentParts(self.documents[start:end], self.hashes[start:end], self.continued[start:end])

    def merge_parts(self) -> DocumentParts:
        """The parts of each document added up."""
        starts = np.flatnonzero(~self.continued)
        if not len(starts) or len(starts) == len(self.continued):
            return self
        borders = [*starts, len(self.continued)]
        hashes = [combine_hashes(self.hashes[a:b]) for a, b in pairwise(borders)]
        sentences = np.add.reduceat(self.documents, starts)
        return DocumentParts(sentences, np.array(hashes, np.uint64), np.zeros(len(starts), bool))


class SentenceSizes:
    """The bytes of sentences while shards come in. Text without tokens goes to the sentence of its document before it,
    else to the one after it; either may be in another shard, if the document is long."""

    def __init__(self, array: NpyAppender) -> None:
        self.array = array
        self.last = np.zeros(0, np.int64)  # of the last sentence so far: text without tokens may follow it
        self.speaks = False  # whether that sentence is in the document that may go on
        self.owed = 0  # bytes of that document, if it does not

    def add(self, shard: EncodedShard) -> None:
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


def merge_shards(
    work: Path, shards: Iterable[EncodedShard], told: set[str], tokenizer: Tokenizer, ledger: Ledger
) -> dict[str, dict[str, Any]]:
    """The arrays of a corpus from its shards, in order, written under `work`; and what they hold. The books go on.

    `told` are the optional arrays that any shard has.
    """
    whole = work / "whole"
    for old in (whole, work / "replaced"):
        shutil.rmtree(old, ignore_errors=True)
    whole.mkdir()
    joining = _CorpusAssembler(whole, id_dtype(tokenizer.vocab_size), told, ~tokenizer.continuation_mask, ledger)
    try:
        for shard in shards:
            joining.add(shard)
        arrays = joining.finish()
    finally:
        joining.close()
    if not arrays["ids"]["shape"][0]:
        raise InputError("there is no token in this text", hint="give files that hold text, or another tokenizer")
    return arrays


def finish_corpus(
    work: Path, target: Path, arrays: dict[str, dict[str, Any]], ledger: Ledger, facts: dict[str, Any]
) -> None:
    """Closes the books and renames the result to `target`."""
    whole = work / "whole"
    ledger.verify()
    for name in (TOKENIZER_FILE, DROPPED_FILE):  # who is killed now makes them again
        with open(work / name, "rb") as file:
            sync_file(file)
        (work / name).rename(whole / name)
    write_json(whole / LEDGER_FILE, ledger.to_dict())
    write_json(whole / CORPUS_FILE, {"format": CORPUS_FORMAT, **facts, "counts": _counts(ledger), "arrays": arrays})
    _put(whole, target)


class _CorpusAssembler:
    """The arrays of a corpus while its shards come in, in order.

    `begins` tells of each entry of the vocabulary whether it begins a word, for shards that do not know words.
    """

    def __init__(self, folder: Path, id_type: np.dtype, told: set[str], begins: np.ndarray, ledger: Ledger) -> None:
        kinds = {"ids": id_type, "sentences": np.int64, "sizes": np.uint32, "unknown": np.uint32}
        kinds |= {"documents": np.int64, "hashes": np.uint64}
        kinds |= {name: kind for name, kind in {"words": bool, "entities": np.uint8}.items() if name in told}
        self.begins, self.ledger = begins, ledger
        self.arrays = {name: NpyAppender(folder / f"{name}.npy", kind) for name, kind in kinds.items()}
        self.sizes = SentenceSizes(self.arrays["sizes"])
        self.tokens = self.sentences = self.pieces = 0  # so far
        self.carried = DocumentParts()  # the last document of a shard: it may go on in the next one
        self.silent: dict[int, dict[str, Any]] = {}  # where pieces without tokens stand, by number

    def add(self, shard: EncodedShard) -> None:
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
        pieces = self.carried.concat(shard)
        last = int(np.flatnonzero(~pieces.continued)[-1])
        self._enter(pieces.slice(0, last), first)
        self.carried = pieces.slice(last, None)
        self.silent = {number: it for number, it in self.silent.items() if number >= first + last}

    def _enter(self, pieces: DocumentParts, first: int) -> None:
        """Whole documents, the first piece of which has number `first`; those without any token are dropped."""
        starts, whole, books = (
            first + np.flatnonzero(~pieces.continued),
            pieces.merge_parts(),
            self.ledger.stage("tokens"),
        )
        books.add_in(documents=len(starts))
        for number in starts[whole.documents == 0]:
            self.ledger.drop("tokens", NO_TOKENS_REASON, documents=1, **self.silent[int(number)])
        kept = whole.documents > 0
        books.add_out(documents=int(kept.sum()))
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
