"""Text becomes a corpus on disk: streamed, by several processes, shard by shard, so that a broken one goes on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear import __version__
from forebear.errors import BadInput, ForebearError
from forebear.text.aside import cache, write_json, written_aside
from forebear.text.assembling import assemble
from forebear.text.corpus import DROPPED, FACTS, FORMAT, TOKENIZER, Corpus
from forebear.text.documents import PART, Document
from forebear.text.encoding import Encoded, Encoder
from forebear.text.ledger import Ledger
from forebear.text.reading import Reading
from forebear.text.sources import find, fingerprint
from forebear.text.workers import cores, spread

if TYPE_CHECKING:
    from forebear.text.segmentation import Segmenter
    from forebear.text.sentences import Mode
    from forebear.text.tokenizer import Tokenizer

SHARD = 1 << 20  # characters of text in a shard: the unit of work, of memory and of going on after a break
SMALL = 1 << 22  # bytes: below this, starting processes costs more than they save
SETTLED = 2_000_000_000  # nanoseconds: a file changed more recently may change again within its time stamp
PLAN = "plan.json"
DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)  # what reading a torn shard may raise

Paths = Sequence[str | os.PathLike[str]]
Progress = Callable[[int, int], object]  # bytes of the files done, bytes in all


def prepare(
    paths: Paths,
    tokenizer: Tokenizer,
    *,
    reading: Reading | None = None,
    sentences: Mode = "split",
    segmenter: Segmenter | None = None,
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """The corpus of these files: opened if it is there already, finished if it was begun, else made."""
    if workers is not None and workers < 1:
        raise BadInput(f"--workers is {workers}", remedy="give a number of processes of at least 1")
    encoder, reading = Encoder(tokenizer, sentences, segmenter), reading or Reading()
    text = fingerprint_of(paths)
    made_from = _identity(encoder, reading.identity(find(paths)))
    key = hashlib.sha256(json.dumps([text, made_from], sort_keys=True).encode()).hexdigest()
    target = Path(to) if to is not None else cache() / "corpora" / key[:32]
    if there := _already(target, key, overwrite):
        _swept(target)
        return there
    with _disk_told(target), _alone(target) as work:
        if there := _already(target, key, overwrite):  # another process made it while we waited for it
            return there
        _begin(work, key, tokenizer)
        ledger = _read_and_encode(paths, work, encoder, reading, workers, progress)
        if ledger.fingerprint != text:
            shutil.rmtree(work / "shards")
            raise BadInput("the text changed while it was being read", file=os.fspath(paths[0]), remedy="run again")
        facts = {"key": key, "text": text, "made_from": made_from, "vocabulary": tokenizer.size}
        assemble(work, target, _finished(work / "shards"), ledger, facts)
        shutil.rmtree(work)
    return Corpus.open(target)


def fingerprint_of(paths: Paths) -> str:
    """The digest of the files' contents; remembered for files that have not been touched since."""
    stamps, newest = hashlib.sha256(), 0
    for source in find(paths):
        stamp = source.stamp()
        stamps.update(repr((source.path, stamp)).encode(errors="surrogateescape"))
        newest = max(newest, *stamp[3:])
    note = cache() / "fingerprints" / stamps.hexdigest()
    try:
        return note.read_text()
    except OSError:
        pass
    now = time.time_ns()
    text = fingerprint(find(paths))
    if newest + SETTLED < now:
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            note.parent.mkdir(parents=True, exist_ok=True)
            with written_aside(note) as file:
                file.write(text.encode())
    return text


def _identity(encoder: Encoder, reading: dict[str, Any]) -> dict[str, Any]:
    """Everything beside the text that decides what the corpus holds."""
    return {
        "format": [FORMAT, SHARD, PART],
        "forebear": __version__,
        "reading": reading,
        "sentences": encoder.sentences,
        "segmenter": encoder.segmenter.describe() if encoder.segmenter else None,
        "tokenizer": encoder.tokenizer.digest,
    }


def _already(target: Path, key: str, overwrite: bool) -> Corpus | None:
    """The corpus that stands at `target`, if it is the one asked for."""
    if not target.exists():
        return None
    if not (target / FACTS).exists():
        if target.is_dir() and not any(target.iterdir()):
            return None
        raise BadInput("exists and is no corpus", file=target, remedy="choose another folder with --to")
    there = json.loads((target / FACTS).read_text()).get("key")
    if there == key:
        return Corpus.open(target)
    if overwrite:
        return None
    raise BadInput(
        "holds a corpus of other text, or made with another tokenizer or other settings",
        file=target,
        remedy="add --overwrite to make it anew, or choose another folder with --to",
    )


def _begin(work: Path, key: str, tokenizer: Tokenizer) -> None:
    """Keeps the shards of an earlier attempt at the very same corpus, and nothing else."""
    try:
        known = json.loads((work / PLAN).read_text())["key"]
    except (OSError, ValueError, KeyError):
        known = None
    if known != key:
        for item in work.iterdir():
            shutil.rmtree(item) if item.is_dir() else item.unlink()
        (work / "shards").mkdir()
        tokenizer.save(work / TOKENIZER)
        write_json(work / PLAN, {"key": key})
    (work / "shards").mkdir(exist_ok=True)
    for leftover in (work / "shards").glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def _read_and_encode(
    paths: Paths, work: Path, encoder: Encoder, reading: Reading, workers: int | None, progress: Progress | None
) -> Ledger:
    """Reads everything, hands shards that are not done yet to the workers, and returns the reader's books."""
    total = sum(source.stamp()[2] for source in find(paths))
    count = min(
        workers or (cores() if total > SMALL else 1), max(1, 20 * total // SHARD)
    )  # no more than shards, at most
    with open(work / DROPPED, "w", encoding="utf-8") as dropped:
        ledger = Ledger(on_drop=lambda item: dropped.write(json.dumps(item) + "\n"))
        documents = reading.read(find(paths, ledger), ledger)
        jobs = _jobs(documents, work / "shards", ledger, lambda at: progress(at, total) if progress else None)
        for done in spread(
            ShardWriter(encoder), jobs, count, place=lambda job: f"{job.documents[0].file}:{job.documents[0].line}"
        ):
            if progress:
                progress(done, total)
    return ledger


@dataclass(frozen=True)
class ShardJob:
    """A run of documents, the digest of what they say, and where their arrays go."""

    documents: list[Document]
    digest: str
    path: Path
    position: int


@dataclass(frozen=True)
class ShardWriter:
    """Encodes a shard and writes it aside; a shard that has its name is whole."""

    encoder: Encoder

    def __call__(self, job: ShardJob) -> int:
        encoded = self.encoder.encode(job.documents)
        arrays = {
            name: getattr(encoded, name) for name in ("ids", "sentences", "documents", "hashes", "sizes", "continued")
        }
        if encoded.words is not None:
            arrays["words"] = encoded.words
        arrays["ids"] = arrays["ids"].astype(np.min_scalar_type(self.encoder.tokenizer.size))
        report = {
            "digest": job.digest,
            "silent": encoded.silent,
            "ledger": encoded.ledger.to_json(),
            "dropped": encoded.dropped,
        }
        with _disk_told(job.path), written_aside(job.path) as file:
            np.savez(file, report=np.array(json.dumps(report)), **arrays)
        return job.position


def _jobs(
    documents: Iterator[Document], folder: Path, ledger: Ledger, skipped: Callable[[int], object]
) -> Iterator[ShardJob]:
    """Documents in runs of a fixed size, whoever works on them; runs already encoded are passed over."""
    run: list[Document] = []
    number = characters = 0

    def job() -> Iterator[ShardJob]:
        path = folder / f"{number:08}.npz"
        made = ShardJob(list(run), _digest(run), path, ledger.position)
        if _done(made):
            skipped(made.position)
        else:
            yield made

    for document in documents:
        run.append(document)
        characters += len(document.text)
        if characters >= SHARD:
            yield from job()
            number, characters = number + 1, 0
            run.clear()
    if run:
        yield from job()
        number += 1
    for path in folder.glob("*.npz"):  # of an attempt on text that was longer then
        if int(path.stem) >= number:
            path.unlink()


def _digest(documents: list[Document]) -> str:
    """What a shard is made of: the texts, their borders and their places."""
    whole = hashlib.blake2b(digest_size=16)
    for it in documents:
        whole.update(f"{len(it.text)} {it.part} {it.line} {it.file!r} {it.words}\n".encode(errors="surrogateescape"))
        whole.update(it.text.encode())
    return whole.hexdigest()


def _done(job: ShardJob) -> bool:
    try:
        with np.load(job.path, allow_pickle=False) as file:
            return json.loads(str(file["report"]))["digest"] == job.digest
    except DAMAGE:
        return False


def _finished(folder: Path) -> Iterator[Encoded]:
    """The shards in order, one in memory at a time."""
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except DAMAGE as error:
            path.unlink(missing_ok=True)
            raise ForebearError(
                "a finished shard was damaged on disk", file=path, remedy="run again to remake it"
            ) from error
        report = json.loads(str(arrays.pop("report")))
        yield Encoded(
            **arrays, silent=report["silent"], dropped=report["dropped"], ledger=Ledger.from_json(report["ledger"])
        )


def _swept(target: Path) -> None:
    """Removes what is left beside a corpus whose maker was killed between its last two steps."""
    work = _work(target)
    if work.exists():
        handle = os.open(work, os.O_RDONLY)
        with contextlib.suppress(OSError):  # another process is at work there, or we may not write
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(work)
        os.close(handle)


def _work(target: Path) -> Path:
    return target.with_name(target.name + ".part")


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[Path]:
    """The folder in which `target` is made, held by this process alone; the system lets go of it if we are killed."""
    work = _work(target)
    while True:
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if work.exists() and os.stat(handle).st_ino == work.stat().st_ino:
            break
        os.close(handle)  # its last holder finished and removed it while we waited
    try:
        yield work
    finally:
        with contextlib.suppress(OSError):
            work.rmdir()  # only if it is empty: the corpus was there already
        os.close(handle)


@contextlib.contextmanager
def _disk_told(target: Path) -> Iterator[None]:
    """What a disk refuses, in words, with the remedy."""
    try:
        yield
    except OSError as error:
        remedies = {
            errno.ENOSPC: "free some space and run again (finished shards are kept), or choose another disk with --to",
            errno.EDQUOT: "your quota is used up: free some space or choose another disk with --to",
            errno.EROFS: "choose a folder that can be written, with --to",
            errno.EACCES: "choose a folder that can be written, with --to",
            errno.EPERM: "choose a folder that can be written, with --to",
        }
        if error.errno not in remedies:
            raise
        place = error.filename if isinstance(error.filename, str) else target
        raise ForebearError(error.strerror or str(error), file=place, remedy=remedies[error.errno]) from error
