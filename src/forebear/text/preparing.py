"""Text becomes a corpus on disk: streamed, by several processes, shard by shard, so that a broken one goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear import __version__
from forebear.errors import BadInput, ForebearError
from forebear.text import documents, sentences, shards, workfolder
from forebear.text.aside import cache, disk_told
from forebear.text.assembling import concluded, joined
from forebear.text.corpus import DROPPED, FACTS, FORMAT, Corpus
from forebear.text.documents import Document
from forebear.text.encoding import Encoded, Encoder
from forebear.text.entities import KINDS, Names
from forebear.text.ledger import Ledger
from forebear.text.once import Once
from forebear.text.reading import Reading
from forebear.text.segmentation import Segmenter
from forebear.text.sources import Paths, find
from forebear.text.surveying import Survey, survey
from forebear.text.workers import cores, spread

if TYPE_CHECKING:
    from forebear.text.sentences import Mode
    from forebear.text.tokenizer import Tokenizer

# Seconds of work by one process, and those that it would still take: below, starting several costs more than they save.
PATIENCE, LEFT = 1.5, 6.0
SOON = 1 << 27  # bytes of text that are prepared in seconds where nothing but white space parts words
UNFOLDS = 20  # times its size that compressed text may have, for a guess at the number of shards

Progress = Callable[[int, int], object]  # bytes of the files done, bytes in all


def prepare(
    paths: Paths,
    tokenizer: Tokenizer,
    *,
    reading: Reading | None = None,
    sentences: Mode = "split",
    segmenter: Segmenter | None = None,
    entities: Names | None = None,
    to: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    once: Once | None = None,
) -> Corpus:
    """The corpus of these files: opened if it is there already, finished if it was begun, else made.

    Where names are given as `entities` words are found too, as no entity may end inside one. What `once` has taken of
    the same text, while this tokenizer was learned, is not read again.
    """
    if workers is not None and workers < 1:
        raise BadInput(f"--workers is {workers}", remedy="give a number of processes of at least 1")
    segmenter = Segmenter() if segmenter is None and entities is not None else segmenter
    encoder, reading = Encoder(tokenizer, sentences, segmenter, entities), reading or Reading()
    seen = survey(paths, reading)
    made_from = _identity(encoder, reading, seen)
    key = hashlib.sha256(json.dumps([seen.text, made_from], sort_keys=True).encode()).hexdigest()
    target = Path(to) if to is not None else cache() / "corpora" / key[:32]
    with disk_told(target):
        if there := _already(target, key, overwrite):
            workfolder.swept(target)
            return there
        with workfolder.held(target) as work:
            if there := _already(target, key, overwrite):  # another process made it while we waited for it
                return there
            workfolder.begin(work, key, tokenizer)

            def told(at: int) -> None:
                if progress is not None:
                    progress(at, seen.size)

            taken = once if once is not None and once.is_of(seen.text, reading, encoder.sentences) else None
            with open(work / DROPPED, "w", encoding="utf-8") as dropped:
                ledger = Ledger() if taken is None else taken.ledger
                ledger.on_drop = lambda item: dropped.write(json.dumps(item) + "\n")
                if taken is not None:
                    whole = _renamed(taken, tokenizer, ledger, told)
                else:
                    read = reading.read(find(paths, ledger), ledger)
                    soon = workers in (None, 1) and encoder.is_quick and reading.format != "tagged"
                    way = _at_once if soon and seen.size <= SOON else partial(_in_shards, work, seen.size, workers)
                    whole = way(read, encoder, ledger, told)
                try:
                    arrays = joined(work, whole, shards.told_by_any(work / workfolder.SHARDS), tokenizer, ledger)
                    if ledger.fingerprint != seen.text:
                        raise BadInput("the text changed while it was being read", file=str(paths), remedy="run again")
                except BadInput:  # nothing of this can be gone on with
                    workfolder.removed(work)
                    raise
            facts = {"key": key, "text": seen.text, "made_from": made_from, "vocabulary": tokenizer.size}
            concluded(work, target, arrays, ledger, facts)
            workfolder.removed(work)
        tokenizer.forget()  # what comes now wants the memory for itself
        return Corpus.open(target, tokenizer)


def _identity(encoder: Encoder, reading: Reading, seen: Survey) -> dict[str, Any]:
    """Everything beside the text that decides what the corpus holds."""
    own = encoder.tokenizer.segmenter  # a tokenizer that segments depends on the segmenter that is installed
    entities: dict[str, Any] = {"entities": encoder.names.describe()} if encoder.names else {}
    if reading.format == "tagged":
        entities["entity_tags"] = sorted(KINDS)
    return {
        "format": [FORMAT, shards.SHARD, documents.PART, sentences.RULES],
        "forebear": __version__,
        "reading": reading.identity(),
        "forms": seen.forms,
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
    if not (target / FACTS).is_file():
        raise BadInput("exists and is no corpus", file=target, remedy="choose another folder with --to")
    try:
        there = Corpus.open(target)
    except ForebearError:
        there = None
    if there is not None and there.key == key:
        return there
    if overwrite or (there is None and workfolder.key_of(target, FACTS) == key):  # a damaged copy of the same: remade
        return None
    raise BadInput(
        "holds a corpus of other text, or made with another tokenizer or other settings, or a damaged one",
        file=target,
        remedy="add --overwrite to make it anew, or choose another folder with --to",
    )


def _in_shards(
    work: Path,
    size: int,
    workers: int | None,
    documents: Iterator[Document],
    encoder: Encoder,
    ledger: Ledger,
    progress: Callable[[int], object],
) -> Iterator[Encoded]:
    """All shards of text of so many bytes, those of an earlier attempt among them."""

    def alone(job: shards.ShardJob, seconds: float) -> bool:
        left = seconds * (size - job.position) / max(job.position, 1)
        return workers is None and (seconds < PATIENCE or left < LEFT)

    jobs = shards.jobs(documents, work / workfolder.SHARDS, ledger, progress)
    count = min(workers or cores(), 1 + UNFOLDS * size // shards.SHARD)
    for done in spread(shards.ShardWriter(encoder), jobs, count, alone=alone):
        progress(done)
    return shards.finished(work / workfolder.SHARDS)


def _at_once(
    documents: Iterator[Document], encoder: Encoder, ledger: Ledger, progress: Callable[[int], object]
) -> Iterator[Encoded]:
    """What shards would hold, of text that takes so little time that nobody has to go on from its middle."""
    for run in shards.runs(documents):
        yield encoder.encode(run)
        progress(ledger.position)


def _renamed(once: Once, tokenizer: Tokenizer, ledger: Ledger, progress: Callable[[int], object]) -> Iterator[Encoded]:
    """The same of text that was read already."""
    assert ledger.on_drop is not None
    for item in once.dropped:
        ledger.on_drop(item)
    yield from once.shards(tokenizer.roles["unknown"])
    progress(ledger.position)
