"""Shards: runs of documents of a fixed size, encoded and written one by one; the unit of work and of going on."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebear.errors import ForebearError
from forebear.text.aside import disk_told, written_aside
from forebear.text.corpus import smallest_type
from forebear.text.documents import Document
from forebear.text.encoding import Encoded, Encoder
from forebear.text.ledger import Ledger

SHARD = 1 << 20  # characters of text in a shard
ARRAYS = ("ids", "sentences", "sizes", "unknown", "documents", "before", "hashes", "continued")
OPTIONAL = ("words", "entities")  # arrays that only some text has
DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)  # what reading a torn shard may raise


@dataclass(frozen=True)
class ShardJob:
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

    encoder: Encoder

    def __call__(self, job: ShardJob) -> int:
        encoded = self.encoder.encode(job.documents)
        arrays = {name: getattr(encoded, name) for name in ARRAYS}
        arrays["ids"] = arrays["ids"].astype(smallest_type(self.encoder.tokenizer.size))
        arrays |= {name: told for name in OPTIONAL if (told := getattr(encoded, name)) is not None}
        report = {"silent": encoded.silent, "dropped": encoded.dropped, "ledger": encoded.ledger.to_json()}
        with disk_told(job.path), written_aside(job.path) as file:
            np.savez(file, report=np.array(json.dumps({"digest": job.digest, **report})), **arrays)
        return job.position


def jobs(
    documents: Iterator[Document], folder: Path, ledger: Ledger, skipped: Callable[[int], object]
) -> Iterator[ShardJob]:
    """Documents in runs of a fixed size, whoever works on them; runs already encoded are passed over."""
    number = -1
    for number, run in enumerate(runs(documents)):
        made = ShardJob(run, _digest(run), folder / f"{number:08}.npz", ledger.position)
        if made.is_done():
            skipped(made.position)
        else:
            yield made
    for path in folder.glob("*.npz"):  # of an attempt on text that was longer then
        if int(path.stem) > number:
            path.unlink()


def runs(documents: Iterator[Document]) -> Iterator[list[Document]]:
    run: list[Document] = []
    characters = 0
    for document in documents:
        run.append(document)
        characters += len(document.text)
        if characters >= SHARD:
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
        whole.update(it.data)
    return whole.hexdigest()


def finished(folder: Path) -> Iterator[Encoded]:
    """The shards in order, one in memory at a time."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except DAMAGE as error:
            path.unlink(missing_ok=True)
            remedy = "run again to remake it"
            raise ForebearError("a finished shard was damaged on disk", file=path, remedy=remedy) from error
        report = json.loads(str(arrays.pop("report")))
        ledger = Ledger.from_json(report["ledger"])
        yield Encoded(**arrays, silent=report["silent"], dropped=report["dropped"], ledger=ledger)


def told_by_any(folder: Path) -> set[str]:
    """Which optional arrays any shard has; then the whole corpus will."""
    told: set[str] = set()
    for path in folder.glob("*.npz"):
        with np.load(path, allow_pickle=False) as file:
            told.update(name for name in OPTIONAL if name in file.files)
        if len(told) == len(OPTIONAL):
            break
    return told
