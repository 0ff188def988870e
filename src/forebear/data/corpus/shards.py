"""Shards: batches of documents of about the same size, encoded to temporary files of `prepare_corpus`."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebear.data.corpus.corpus import id_dtype
from forebear.data.corpus.document_encoder import DocumentEncoder, EncodedShard
from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.data.io.document import Document, batches_by_size
from forebear.data.io.text_ledger import Ledger
from forebear.errors import ForebearError

SHARD_CHARACTERS = 1 << 20
ARRAYS = ("ids", "sentences", "sizes", "unknown", "documents", "before", "hashes", "continued")
OPTIONAL_ARRAYS = ("words", "entities")  # arrays that only some text has
CORRUPT_ERRORS = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)  # raised for a corrupt shard


@dataclass(frozen=True)
class ShardTask:
    """A batch of documents, their digest, the file for their arrays, and the position of the reader after them."""

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
        except CORRUPT_ERRORS:
            return False


@dataclass(frozen=True)
class ShardWriter:
    """Encodes a shard, writes it atomically and returns the position of the reader."""

    encoder: DocumentEncoder

    def __call__(self, task: ShardTask) -> int:
        encoded = self.encoder.encode(task.documents)
        arrays = {name: getattr(encoded, name) for name in ARRAYS}
        arrays["ids"] = arrays["ids"].astype(id_dtype(self.encoder.tokenizer.vocab_size))
        arrays |= {name: array for name in OPTIONAL_ARRAYS if (array := getattr(encoded, name)) is not None}
        report = {"silent": encoded.empty_documents, "dropped": encoded.dropped, "ledger": encoded.ledger.to_dict()}
        with explain_disk_errors(task.path), atomic_write(task.path) as file:
            np.savez(file, report=np.array(json.dumps({"digest": task.digest, **report})), **arrays)
        return task.position


def shard_tasks(
    documents: Iterator[Document], folder: Path, ledger: Ledger, on_skip: Callable[[int], object]
) -> Iterator[ShardTask]:
    """The tasks of shards that are not yet encoded; `on_skip` gets the reader's position for the others."""
    number = -1
    for number, batch in enumerate(document_batches(documents)):
        digest = hashlib.blake2b(digest_size=16)  # of the texts, their boundaries and their locations
        for document in batch:
            location = f"{document.part} {document.line} {document.file!r}"
            header = f"{len(document.text)} {location} {document.word_ends} {document.entity_spans}\n"
            digest.update(header.encode(errors="surrogateescape"))
            digest.update(document.utf8)
        task = ShardTask(batch, digest.hexdigest(), folder / f"{number:08}.npz", ledger.position)
        if task.is_done():
            on_skip(task.position)
        else:
            yield task
    for path in folder.glob("*.npz"):  # left over from an earlier attempt on a longer text
        if int(path.stem) > number:
            path.unlink()


def document_batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    return batches_by_size(documents, lambda document: len(document.text), SHARD_CHARACTERS)


def read_shards(folder: Path) -> Iterator[EncodedShard]:
    """The shards in order, one in memory at a time."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except CORRUPT_ERRORS as error:
            path.unlink(missing_ok=True)
            hint = "run again to remake it"
            raise ForebearError("a finished shard was damaged on disk", file=path, hint=hint) from error
        report = json.loads(str(arrays.pop("report")))
        ledger = Ledger.from_dict(report["ledger"])
        yield EncodedShard(**arrays, empty_documents=report["silent"], dropped=report["dropped"], ledger=ledger)


def optional_arrays(folder: Path) -> set[str]:
    """The optional arrays that at least one shard has; the corpus will have them."""
    names: set[str] = set()
    for path in folder.glob("*.npz"):
        with np.load(path, allow_pickle=False) as file:
            names.update(name for name in OPTIONAL_ARRAYS if name in file.files)
        if len(names) == len(OPTIONAL_ARRAYS):
            break
    return names
