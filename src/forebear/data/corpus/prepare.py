"""Prepare a corpus on disk from text: streamed in shards, by several processes, resumable after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear._version import __version__
from forebear.data import sentences
from forebear.data.corpus import shards
from forebear.data.corpus.corpus import CORPUS_FILE, CORPUS_FORMAT, DROPPED_FILE, TOKENIZER_FILE, Corpus
from forebear.data.corpus.document_encoder import DocumentEncoder, EncodedShard, combine_hashes, document_hash
from forebear.data.corpus.merge_shards import finish_corpus, merge_shards
from forebear.data.corpus.single_pass import SinglePassText
from forebear.data.entities import ENTITY_TAGS, EntityDictionary
from forebear.data.io import atomic, document
from forebear.data.io.atomic import atomic_write, cache_folder, explain_disk_errors
from forebear.data.io.compression import MAX_COMPRESSION_RATIO
from forebear.data.io.document import Document, with_continuation
from forebear.data.io.sources import Paths, ProgressFn, find_sources, sources_digest
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.data.io.workers import cpu_count, run_jobs
from forebear.data.segmentation import Segmenter
from forebear.data.sentences import SentenceMode
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# Seconds elapsed and estimated to remain in one process, below which starting several costs more than it saves.
MIN_ELAPSED_SECONDS, MIN_REMAINING_SECONDS = 1.5, 6.0
MAX_IN_MEMORY_BYTES = 1 << 27  # of text that is encoded in memory, without resumable shards, if encoding is fast
STABLE_AFTER_NS = 2_000_000_000  # nanoseconds: a file changed more recently may change again within its time stamp


@dataclass(frozen=True)
class SourceFingerprint:
    """Digests of the contents of text files and of their formats, and their size on disk."""

    content_digest: str
    format_digest: str
    num_bytes: int


def document_hashes(paths: Paths, text_format: TextFormat) -> tuple[np.ndarray, np.ndarray]:
    """The content hash of each document, as in a corpus, and its bytes; reads all text."""
    hashes: list[int] = []
    sizes: list[int] = []
    part_hashes: list[int] = []
    num_bytes = 0
    for part, continues in with_continuation(text_format.documents_in(find_sources(paths), Ledger())):
        part_hashes.append(document_hash(part))
        num_bytes += part.utf8_size
        if not continues:
            hashes.append(combine_hashes(part_hashes))
            sizes.append(num_bytes)
            part_hashes, num_bytes = [], 0
    return np.array(hashes, np.uint64), np.array(sizes, np.int64)


def fingerprint_sources(paths: Paths, text_format: TextFormat) -> SourceFingerprint:
    """The fingerprint of text files; they are read only if they were modified since the last time."""
    stamp_digest, format_digest, newest, num_bytes = hashlib.sha256(), hashlib.sha256(), 0, 0
    for source in find_sources(paths):
        stamp = source.file_stamp()
        stamp_digest.update(repr((source.path, stamp)).encode(errors="surrogateescape"))
        format_digest.update(text_format.format_of(source).encode() + b"\n")
        newest, num_bytes = max(newest, *stamp[3:]), num_bytes + stamp[2]
    cached = cache_folder() / "fingerprints" / stamp_digest.hexdigest()
    try:
        content_digest = cached.read_text()
    except OSError:
        checked_at = time.time_ns()
        content_digest = sources_digest(find_sources(paths))
        if newest + STABLE_AFTER_NS < checked_at:
            with contextlib.suppress(OSError):  # without a cache, only time is lost
                cached.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(cached) as file:
                    file.write(content_digest.encode())
    return SourceFingerprint(content_digest, format_digest.hexdigest(), num_bytes)


def prepare_corpus(
    paths: Paths,
    tokenizer: Tokenizer,
    *,
    text_format: TextFormat | None = None,
    sentences: SentenceMode = "split",
    segmenter: Segmenter | None = None,
    entities: EntityDictionary | None = None,
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: ProgressFn | None = None,
    single_pass: SinglePassText | None = None,
) -> Corpus:
    """The corpus of these files: opened if it exists, resumed if it is unfinished, else built.

    Args:
        segmenter: Finds word boundaries; None: they are not stored.
        entities: Names to mark; words are segmented as well, as no entity may end inside a word.
        to: Folder of the corpus; by default one in the cache.
        overwrite: Replace a corpus of other text or settings.
        workers: Number of processes; by default as many as are useful.
        progress: Called with the bytes read and the bytes in all.
        single_pass: The text as it was encoded while this tokenizer was trained; it is not read again.

    Raises:
        InputError: The text is empty or changed meanwhile, or the folder has other content.
    """
    if workers is not None and workers < 1:
        raise InputError(f"--workers is {workers}", hint="give a number of processes of at least 1")
    segmenter = Segmenter() if segmenter is None and entities is not None else segmenter
    encoder, text_format = DocumentEncoder(tokenizer, sentences, segmenter, entities), text_format or TextFormat()
    fingerprint = fingerprint_sources(paths, text_format)
    made_from = _identity(encoder, text_format, fingerprint)
    key = hashlib.sha256(json.dumps([fingerprint.content_digest, made_from], sort_keys=True).encode()).hexdigest()
    target = Path(to) if to is not None else cache_folder() / "corpora" / key[:32]
    with explain_disk_errors(target):
        if corpus := _existing_corpus(target, key, overwrite):
            atomic.remove_stale_work(target)
            return corpus
        with atomic.lock_work_folder(target) as work:
            if corpus := _existing_corpus(target, key, overwrite):  # built by another process while we waited
                return corpus
            atomic.prepare_work_folder(work, key)
            if not (work / TOKENIZER_FILE).exists():
                tokenizer.save(work / TOKENIZER_FILE)

            def report(position: int) -> None:
                if progress is not None:
                    progress(position, fingerprint.num_bytes)

            arrays, ledger = _build_arrays(work, paths, encoder, text_format, fingerprint, workers, single_pass, report)
            metadata = {"key": key, "text": fingerprint.content_digest, "made_from": made_from}
            finish_corpus(work, target, arrays, ledger, {**metadata, "vocabulary": tokenizer.vocab_size})
            atomic.remove_work_folder(work)
        tokenizer.clear_cache()  # its memory is needed for training
        return Corpus.open(target, tokenizer)


def _build_arrays(
    work: Path,
    paths: Paths,
    encoder: DocumentEncoder,
    text_format: TextFormat,
    fingerprint: SourceFingerprint,
    workers: int | None,
    single_pass: SinglePassText | None,
    report: Callable[[int], object],
) -> tuple[dict[str, dict[str, Any]], Ledger]:
    """Write the arrays of the corpus into the work folder; return their metadata and the ledger of all stages."""
    content_digest, num_bytes = fingerprint.content_digest, fingerprint.num_bytes
    if single_pass is not None and not single_pass.matches(content_digest, text_format, encoder.sentences):
        single_pass = None
    with open(work / DROPPED_FILE, "w", encoding="utf-8") as dropped:
        ledger = Ledger() if single_pass is None else single_pass.ledger
        ledger.on_drop = lambda item: dropped.write(json.dumps(item) + "\n")
        if single_pass is not None:
            for item in single_pass.dropped:
                ledger.on_drop(item)
            encoded = single_pass.shards(encoder.tokenizer.special_roles["unknown"])
        else:
            source_documents = text_format.documents_in(find_sources(paths, ledger), ledger)
            is_fast = workers in (None, 1) and encoder.is_fast and text_format.format != "tagged"
            if is_fast and num_bytes <= MAX_IN_MEMORY_BYTES:
                encoded = _encode_in_memory(source_documents, encoder, ledger, report)
            else:
                encoded = _encode_in_shards(work, num_bytes, workers, source_documents, encoder, ledger, report)
        try:
            optional = shards.optional_arrays(work / atomic.SHARDS_FOLDER)
            arrays = merge_shards(work, encoded, optional, encoder.tokenizer, ledger)
            report(ledger.position)
            if ledger.fingerprint != content_digest:
                raise InputError("the text changed while it was being read", file=str(paths), hint="run again")
        except InputError:  # nothing of this can be resumed
            atomic.remove_work_folder(work)
            raise
    return arrays, ledger


def _identity(encoder: DocumentEncoder, text_format: TextFormat, fingerprint: SourceFingerprint) -> dict[str, Any]:
    """Everything other than the text that determines the corpus."""
    tokenizer_segmenter = encoder.tokenizer.segmenter  # its words depend on the segmenter that is installed
    entities: dict[str, Any] = {"entities": encoder.entities.describe()} if encoder.entities else {}
    if text_format.format == "tagged":
        entities["entity_tags"] = sorted(ENTITY_TAGS)
    return {
        "format": [CORPUS_FORMAT, shards.SHARD_CHARACTERS, document.PART_CHARACTERS, sentences.SENTENCE_RULES_VERSION],
        "forebear": __version__,
        "reading": asdict(text_format),
        "forms": fingerprint.format_digest,
        "sentences": encoder.sentences,
        "segmenter": encoder.segmenter.describe() if encoder.segmenter else None,
        "tokenizer": encoder.tokenizer.digest,
        "tokenizer_segmenter": tokenizer_segmenter.describe() if tokenizer_segmenter else None,
        **entities,  # only where there are any, so that the keys of all other corpora stay the same
    }


def _existing_corpus(target: Path, key: str, overwrite: bool) -> Corpus | None:
    """The corpus in `target`, if it has this key and is complete."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    if not (target / CORPUS_FILE).is_file():
        raise InputError("exists and is no corpus", file=target, hint="choose another folder with --to")
    try:
        corpus = Corpus.open(target)
    except ForebearError:
        corpus = None
    if corpus is not None and corpus.key == key:
        return corpus
    is_corrupt_copy = corpus is None and atomic.stored_key(target, CORPUS_FILE) == key
    if overwrite or is_corrupt_copy:  # it is built again
        return None
    message = "holds a corpus of other text, or made with another tokenizer or other settings, or a damaged one"
    hint = "add --overwrite to make it anew, or choose another folder with --to"
    raise InputError(message, file=target, hint=hint)


def _encode_in_shards(
    work: Path,
    num_bytes: int,
    workers: int | None,
    documents: Iterator[Document],
    encoder: DocumentEncoder,
    ledger: Ledger,
    progress: Callable[[int], object],
) -> Iterator[EncodedShard]:
    """All shards of a text of `num_bytes` bytes; those of an interrupted attempt are reused."""

    def runs_in_process(task: shards.ShardTask, seconds: float) -> bool:
        remaining = seconds * (num_bytes - task.position) / max(task.position, 1)
        return workers is None and (seconds < MIN_ELAPSED_SECONDS or remaining < MIN_REMAINING_SECONDS)

    tasks = shards.shard_tasks(documents, work / atomic.SHARDS_FOLDER, ledger, progress)
    num_workers = min(workers or cpu_count(), 1 + MAX_COMPRESSION_RATIO * num_bytes // shards.SHARD_CHARACTERS)
    for position in run_jobs(shards.ShardWriter(encoder), tasks, num_workers, runs_here=runs_in_process):
        progress(position)
    return shards.read_shards(work / atomic.SHARDS_FOLDER)


def _encode_in_memory(
    documents: Iterator[Document], encoder: DocumentEncoder, ledger: Ledger, progress: Callable[[int], object]
) -> Iterator[EncodedShard]:
    """The shards of a text that is encoded too fast to be worth resuming; nothing is written."""
    for batch in shards.document_batches(documents):
        yield encoder.encode(batch)
        progress(ledger.position)
