"""Text becomes a corpus on disk: streamed, by several processes, shard by shard, so that a broken one goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear._version import __version__
from forebear.data import sentences
from forebear.data.corpus import shards
from forebear.data.corpus.corpus import CORPUS_FILE, CORPUS_FORMAT, DROPPED_FILE, Corpus
from forebear.data.corpus.encode import DocumentEncoder, EncodedShard, combine_hashes, document_hash
from forebear.data.corpus.shards import finish_corpus, merge_shards
from forebear.data.entities import ENTITY_TAGS, EntityDictionary
from forebear.data.io import atomic, documents
from forebear.data.io.atomic import atomic_write, cache_folder, explain_disk_errors
from forebear.data.io.documents import Document, with_continuation
from forebear.data.io.files import Paths, find_sources, sources_digest
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat
from forebear.data.io.workers import cpu_count, run_jobs
from forebear.data.segmentation import Segmenter
from forebear.data.sentences import SentenceMode
from forebear.data.tokenizers.offsets import sum_by_index
from forebear.data.tokenizers.tokenizer import EncodedBatch
from forebear.data.tokenizers.vocabulary import WordCounts
from forebear.data.tokenizers.word_level import WORD_GAPS
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# Text whose words white space parts, read once: words have numbers as they turn up, and ids when all are known.
#
# What a word's id is depends on how often it occurs, which only the end of the text tells. So that nobody has to read it
# again, the arrays of its corpus are made of numbers, and renamed.


class ProvisionalTokenizer:
    """Stands for a tokenizer that is yet to be learned: the id of a word is its number."""

    num_unknown = segmenter = None
    kind, is_quick = "words", True

    def __init__(self) -> None:
        self.spoken = WordCounts(" " + WORD_GAPS)

    def encode_all(self, texts: Sequence[str], ends: None = None, *, spans: bool = False) -> EncodedBatch:
        assert ends is None
        assert not spans
        return _tokens(*self.spoken.words.numbered(texts))

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        found = self.spoken.words.numbered_in(data, ends)
        return None if found is None else _tokens(*found)


def _tokens(numbers: np.ndarray, upto: np.ndarray) -> EncodedBatch:
    return EncodedBatch(numbers, np.diff(upto, prepend=0).astype(np.int32), np.zeros(len(upto), np.int64))


@dataclass
class SinglePassText:
    """A text that was read: what its corpus will hold, but for the ids of words.

    reading, sentences  how it is taken
    most                bytes of it that may be; what it becomes is held in memory
    ids                 of each word by its number, once they are known; -1: the vocabulary lacks it
    """

    text_format: TextFormat
    sentences: SentenceMode
    max_words: int
    ledger: Ledger = field(default_factory=Ledger)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    ids: np.ndarray | None = None
    _numbering: ProvisionalTokenizer = field(default_factory=ProvisionalTokenizer)
    _shards: deque[EncodedShard] = field(default_factory=deque)  # all but their ids,
    _numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # which stand here together
    _filled: int = 0

    def __post_init__(self) -> None:
        self.ledger.on_drop = self.dropped.append

    def passed(self, documents: Iterator[Document]) -> Iterator[str]:
        """The texts of these documents, which are taken on their way; who reads them enters them in its ledger."""
        encoder = DocumentEncoder(self._numbering, self.sentences)  # pyright: ignore[reportArgumentType] - all that is wanted
        for run in shards.document_runs(documents):
            self._keep(encoder.encode(run))
            yield from (document.text for document in run)

    def _keep(self, shard: EncodedShard) -> None:
        """Counts its words, and keeps them in one large piece of memory, which can be given back, and grows without
        being copied.
        """
        self.word_counts.count(shard.ids)
        begin, self._filled = self._filled, self._filled + len(shard.ids)
        if self._filled > len(self._numbers):
            self._numbers.resize(max(self._filled, len(self._numbers) * 3 // 2), refcheck=False)
        self._numbers[begin : self._filled] = shard.ids
        self._shards.append(replace(shard, ids=shard.ids[:0].copy()))

    @property
    def word_counts(self) -> WordCounts:
        """How often words occur in what was passed."""
        return self._numbering.spoken

    def is_of(self, text: str, reading: TextFormat, sentences: SentenceMode) -> bool:
        """Whether it is the text of this fingerprint, taken so, and its words have ids."""
        same = self.ids is not None and (self.text_format, self.sentences) == (reading, sentences)
        return same and self.ledger.fingerprint == text

    def shards(self, unknown: int) -> Iterator[EncodedShard]:
        """What it became, with ids; all of it is gone then."""
        assert self.ids is not None
        ids, sizes = np.where(self.ids < 0, unknown, self.ids), self.word_counts.words.word_lengths()[1]
        end = 0
        while self._shards:
            shard = self._shards.popleft()
            begin, end = end, end + int(shard.sentences.sum())
            numbers = self._numbers[begin:end]
            named = ids[numbers]
            if (lacking := np.flatnonzero(named == unknown)).size:
                owners = np.searchsorted(np.cumsum(shard.sentences), lacking, side="right")
                missed = sum_by_index(sizes[numbers[lacking]], owners, len(shard.sentences))
                shard.ledger.stage("tokens").add_out(unknown=len(lacking))
                shard = replace(shard, unknown=missed)
            yield replace(shard, ids=named)
        self._numbers, self._numbering = self._numbers[:0].copy(), ProvisionalTokenizer()


# One look at all files before any work: what they hold, as a digest, how large they are, and how they will be read.


SETTLED = 2_000_000_000  # nanoseconds: a file changed more recently may change again within its time stamp


@dataclass(frozen=True)
class SourceFingerprint:
    """`text` is the digest of all contents, `forms` of the formats that the names promise, `size` the bytes on disk."""

    content_digest: str
    format_digest: str
    num_bytes: int


def document_hashes(paths: Paths, reading: TextFormat) -> tuple[np.ndarray, np.ndarray]:
    """What each document says, in 64 bits as a corpus has it, and its bytes; reads everything."""
    hashes: list[int] = []
    sizes: list[int] = []
    parts: list[int] = []
    total = 0
    for document, goes_on in with_continuation(reading.documents_in(find_sources(paths), Ledger())):
        parts.append(document_hash(document))
        total += document.utf8_size
        if not goes_on:
            hashes.append(combine_hashes(parts))
            sizes.append(total)
            parts, total = [], 0
    return np.array(hashes, np.uint64), np.array(sizes, np.int64)


def fingerprint_sources(paths: Paths, reading: TextFormat) -> SourceFingerprint:
    """Reads the files only if they were touched since the last time."""
    stamps, forms, newest, size = hashlib.sha256(), hashlib.sha256(), 0, 0
    for source in find_sources(paths):
        stamp = source.file_stamp()
        stamps.update(repr((source.path, stamp)).encode(errors="surrogateescape"))
        forms.update(reading.format_of(source).encode() + b"\n")
        newest, size = max(newest, *stamp[3:]), size + stamp[2]
    note = cache_folder() / "fingerprints" / stamps.hexdigest()
    try:
        text = note.read_text()
    except OSError:
        now = time.time_ns()
        text = sources_digest(find_sources(paths))
        if newest + SETTLED < now:
            with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
                note.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(note) as file:
                    file.write(text.encode())
    return SourceFingerprint(text, forms.hexdigest(), size)


# Seconds of work by one process, and those that it would still take: below, starting several costs more than they save.
PATIENCE, LEFT = 1.5, 6.0
PROGRESS_BYTES = 1 << 27  # bytes of text that are prepared in seconds where nothing but white space parts words
UNFOLDS = 20  # times its size that compressed text may have, for a guess at the number of shards

ProgressFn = Callable[[int, int], object]  # bytes of the files done, bytes in all


def prepare_corpus(
    paths: Paths,
    tokenizer: Tokenizer,
    *,
    reading: TextFormat | None = None,
    sentences: SentenceMode = "split",
    segmenter: Segmenter | None = None,
    entities: EntityDictionary | None = None,
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: ProgressFn | None = None,
    once: SinglePassText | None = None,
) -> Corpus:
    """The corpus of these files: opened if it is there already, finished if it was begun, else made.

    Where names are given as `entities` words are found too, as no entity may end inside one. What `once` has taken of
    the same text, while this tokenizer was learned, is not read again.
    """
    if workers is not None and workers < 1:
        raise InputError(f"--workers is {workers}", hint="give a number of processes of at least 1")
    segmenter = Segmenter() if segmenter is None and entities is not None else segmenter
    encoder, reading = DocumentEncoder(tokenizer, sentences, segmenter, entities), reading or TextFormat()
    seen = fingerprint_sources(paths, reading)
    made_from = _identity(encoder, reading, seen)
    key = hashlib.sha256(json.dumps([seen.content_digest, made_from], sort_keys=True).encode()).hexdigest()
    target = Path(to) if to is not None else cache_folder() / "corpora" / key[:32]
    with explain_disk_errors(target):
        if there := _already(target, key, overwrite):
            atomic.remove_stale_work(target)
            return there
        with atomic.lock_work_folder(target) as work:
            if there := _already(target, key, overwrite):  # another process made it while we waited for it
                return there
            atomic.begin_work(work, key, tokenizer)

            def told(at: int) -> None:
                if progress is not None:
                    progress(at, seen.num_bytes)

            taken = once if once is not None and once.is_of(seen.content_digest, reading, encoder.sentences) else None
            with open(work / DROPPED_FILE, "w", encoding="utf-8") as dropped:
                ledger = Ledger() if taken is None else taken.ledger
                ledger.on_drop = lambda item: dropped.write(json.dumps(item) + "\n")
                if taken is not None:
                    whole = _renamed(taken, tokenizer, ledger, told)
                else:
                    read = reading.documents_in(find_sources(paths, ledger), ledger)
                    soon = workers in (None, 1) and encoder.is_fast and reading.format != "tagged"
                    way = (
                        _at_once
                        if soon and seen.num_bytes <= PROGRESS_BYTES
                        else partial(_in_shards, work, seen.num_bytes, workers)
                    )
                    whole = way(read, encoder, ledger, told)
                try:
                    arrays = merge_shards(
                        work, whole, shards.optional_arrays(work / atomic.SHARDS_FOLDER), tokenizer, ledger
                    )
                    if ledger.fingerprint != seen.content_digest:
                        raise InputError("the text changed while it was being read", file=str(paths), hint="run again")
                except InputError:  # nothing of this can be gone on with
                    atomic.remove_work_folder(work)
                    raise
            facts = {
                "key": key,
                "text": seen.content_digest,
                "made_from": made_from,
                "vocabulary": tokenizer.vocab_size,
            }
            finish_corpus(work, target, arrays, ledger, facts)
            atomic.remove_work_folder(work)
        tokenizer.clear_cache()  # what comes now wants the memory for itself
        return Corpus.open(target, tokenizer)


def _identity(encoder: DocumentEncoder, reading: TextFormat, seen: SourceFingerprint) -> dict[str, Any]:
    """Everything beside the text that decides what the corpus holds."""
    own = encoder.tokenizer.segmenter  # a tokenizer that segments depends on the segmenter that is installed
    entities: dict[str, Any] = {"entities": encoder.entities.describe()} if encoder.entities else {}
    if reading.format == "tagged":
        entities["entity_tags"] = sorted(ENTITY_TAGS)
    return {
        "format": [CORPUS_FORMAT, shards.SHARD_CHARACTERS, documents.PART_CHARACTERS, sentences.SENTENCE_RULES_VERSION],
        "forebear": __version__,
        "reading": reading.identity(),
        "forms": seen.format_digest,
        "sentences": encoder.sentences,
        "segmenter": encoder.segmenter.describe() if encoder.segmenter else None,
        "tokenizer": encoder.tokenizer.digest,
        "tokenizer_segmenter": own.describe() if own else None,
        **entities,  # named only where there are any: all other corpora keep the key they always had
    }


def _already(target: Path, key: str, overwrite: bool) -> Corpus | None:
    """The corpus that stands at `target`, if it is the one asked for, and whole."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not (target / CORPUS_FILE).is_file():
        raise InputError("exists and is no corpus", file=target, hint="choose another folder with --to")
    try:
        there = Corpus.open(target)
    except ForebearError:
        there = None
    if there is not None and there.key == key:
        return there
    if overwrite or (
        there is None and atomic.stored_key(target, CORPUS_FILE) == key
    ):  # a damaged copy of the same: remade
        return None
    raise InputError(
        "holds a corpus of other text, or made with another tokenizer or other settings, or a damaged one",
        file=target,
        hint="add --overwrite to make it anew, or choose another folder with --to",
    )


def _in_shards(
    work: Path,
    size: int,
    workers: int | None,
    documents: Iterator[Document],
    encoder: DocumentEncoder,
    ledger: Ledger,
    progress: Callable[[int], object],
) -> Iterator[EncodedShard]:
    """All shards of text of so many bytes, those of an earlier attempt among them."""

    def alone(job: shards.ShardTask, seconds: float) -> bool:
        left = seconds * (size - job.position) / max(job.position, 1)
        return workers is None and (seconds < PATIENCE or left < LEFT)

    jobs = shards.shard_tasks(documents, work / atomic.SHARDS_FOLDER, ledger, progress)
    count = min(workers or cpu_count(), 1 + UNFOLDS * size // shards.SHARD_CHARACTERS)
    for done in run_jobs(shards.ShardWriter(encoder), jobs, count, alone=alone):
        progress(done)
    return shards.read_shards(work / atomic.SHARDS_FOLDER)


def _at_once(
    documents: Iterator[Document], encoder: DocumentEncoder, ledger: Ledger, progress: Callable[[int], object]
) -> Iterator[EncodedShard]:
    """What shards would hold, of text that takes so little time that nobody has to go on from its middle."""
    for run in shards.document_runs(documents):
        yield encoder.encode(run)
        progress(ledger.position)


def _renamed(
    once: SinglePassText, tokenizer: Tokenizer, ledger: Ledger, progress: Callable[[int], object]
) -> Iterator[EncodedShard]:
    """The same of text that was read already."""
    assert ledger.on_drop is not None
    for item in once.dropped:
        ledger.on_drop(item)
    yield from once.shards(tokenizer.special_roles["unknown"])
    progress(ledger.position)
