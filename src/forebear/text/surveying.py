"""One look at all files before any work: what they hold, as a digest, how large they are, and how they will be read."""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass

import numpy as np

from forebear.text.aside import cache, written_aside
from forebear.text.documents import ahead
from forebear.text.encoding import hash_of, joined_hash
from forebear.text.ledger import Ledger
from forebear.text.reading import Reading
from forebear.text.sources import Paths, find, fingerprint

SETTLED = 2_000_000_000  # nanoseconds: a file changed more recently may change again within its time stamp


@dataclass(frozen=True)
class Survey:
    """`text` is the digest of all contents, `forms` of the formats that the names promise, `size` the bytes on disk."""

    text: str
    forms: str
    size: int


def contents(paths: Paths, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """What each document says, in 64 bits as a corpus has it, and its bytes; reads everything."""
    hashes: list[int] = []
    sizes: list[int] = []
    parts: list[int] = []
    total = 0
    for document, goes_on in ahead(reading.read(find(paths), Ledger())):
        parts.append(hash_of(document))
        total += document.size
        if not goes_on:
            hashes.append(joined_hash(parts))
            sizes.append(total)
            parts, total = [], 0
    return np.array(hashes, np.uint64), np.array(sizes, np.int64)


def survey(paths: Paths, reading: Reading) -> Survey:
    """Reads the files only if they were touched since the last time."""
    stamps, forms, newest, size = hashlib.sha256(), hashlib.sha256(), 0, 0
    for source in find(paths):
        stamp = source.stamp()
        stamps.update(repr((source.path, stamp)).encode(errors="surrogateescape"))
        forms.update(reading.form_of(source).encode() + b"\n")
        newest, size = max(newest, *stamp[3:]), size + stamp[2]
    note = cache() / "fingerprints" / stamps.hexdigest()
    try:
        text = note.read_text()
    except OSError:
        now = time.time_ns()
        text = fingerprint(find(paths))
        if newest + SETTLED < now:
            with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
                note.parent.mkdir(parents=True, exist_ok=True)
                with written_aside(note) as file:
                    file.write(text.encode())
    return Survey(text, forms.hexdigest(), size)
