"""Merging of encoded shards into the arrays, ledger and metadata of a corpus."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from forebear.data.corpus.corpus import CORPUS_FILE, CORPUS_FORMAT, DROPPED_FILE, LEDGER_FILE, TOKENIZER_FILE, id_dtype
from forebear.data.corpus.document_encoder import NO_TOKENS_REASON, EncodedShard, combine_hashes
from forebear.data.io.arrays import NpyAppender
from forebear.data.io.atomic import sync_file, sync_folder, write_json
from forebear.data.io.text_ledger import Ledger
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer


class DocumentParts(NamedTuple):
    """Arrays with an entry for each document, or part of a document."""

    sentence_counts: np.ndarray
    hashes: np.ndarray
    continued: np.ndarray  # True for a further part of the document before


class SentenceByteCounts:
    """Counts the bytes of sentences, shard by shard.

    Text without tokens counts for the previous sentence of its document, or for the next one if there is none; in a
    long document either may be in another shard.
    """

    def __init__(self, array: NpyAppender) -> None:
        self.array = array
        self.last = np.zeros(0, np.int64)  # bytes of the last sentence, which text without tokens may follow
        self.has_sentence = False  # whether that sentence is in the last document, which may continue
        self.pending_bytes = 0  # bytes of that document, if it has no sentence

    def add(self, shard: EncodedShard) -> None:
        sizes, leading_bytes = np.concatenate((self.last, shard.sizes)), shard.before.copy()
        next_sentence = len(self.last) + np.cumsum(shard.documents) - shard.documents  # sentence at or after each part
        first_sentence = np.concatenate(([0 if self.has_sentence else len(self.last)], next_sentence[~shard.continued]))
        document_ids = np.cumsum(~shard.continued)  # of each part; 0 is the document that continues
        if shard.continued[0]:
            leading_bytes[0] += self.pending_bytes
        has_earlier = next_sentence > first_sentence[document_ids]  # the document has an earlier sentence
        has_later = next_sentence < np.append(first_sentence[1:], len(sizes))[document_ids]
        has_sentence = has_earlier | has_later
        np.add.at(sizes, (next_sentence - has_earlier)[has_sentence], leading_bytes[has_sentence])
        self.pending_bytes = int(leading_bytes[~has_sentence & (document_ids == document_ids[-1])].sum())
        self.has_sentence = bool(first_sentence[-1] < len(sizes))
        self.array.append(sizes[:-1])
        self.last = sizes[-1:]


def merge_shards(
    work: Path, shards: Iterable[EncodedShard], optional: set[str], tokenizer: Tokenizer, ledger: Ledger
) -> dict[str, dict[str, Any]]:
    """Write the arrays of a corpus from its shards, in order, into `work`; return their metadata.

    `optional` are the optional arrays that at least one shard has. Documents are recorded in the ledger.
    """
    folder = work / "whole"
    for old in (folder, work / "replaced"):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir()
    assembler = _CorpusAssembler(folder, id_dtype(tokenizer.vocab_size), optional, ~tokenizer.continuation_mask, ledger)
    try:
        for shard in shards:
            assembler.add(shard)
        arrays = assembler.finish()
    finally:
        assembler.close()
    if not arrays["ids"]["shape"][0]:
        raise InputError("there is no token in this text", hint="give files that hold text, or another tokenizer")
    return arrays


def finish_corpus(
    work: Path, target: Path, arrays: dict[str, dict[str, Any]], ledger: Ledger, metadata: dict[str, Any]
) -> None:
    """Verify and write the ledger and the metadata, and rename the result to `target`."""
    folder = work / "whole"
    ledger.verify()
    for name in (TOKENIZER_FILE, DROPPED_FILE):  # if the process is killed now, they are written again
        with open(work / name, "rb") as file:
            sync_file(file)
        (work / name).rename(folder / name)
    write_json(folder / LEDGER_FILE, ledger.to_dict())
    totals = ledger.stage("tokens").outputs
    units = ["documents", "sentences", "characters", "bytes", "tokens", "unknown", "entities"]
    counts = {unit: totals[unit] for unit in units if unit != "entities" or unit in totals}
    write_json(folder / CORPUS_FILE, {"format": CORPUS_FORMAT, **metadata, "counts": counts, "arrays": arrays})
    if target.exists():  # it is moved into the work folder, which is removed
        target.rename(work / "replaced")
    folder.rename(target)
    sync_folder(target.parent)


class _CorpusAssembler:
    """Appends shards, in order, to the arrays of a corpus.

    `starts_word` has for each token id whether it starts a word, for shards without word starts.
    """

    def __init__(
        self, folder: Path, id_type: np.dtype, optional: set[str], starts_word: np.ndarray, ledger: Ledger
    ) -> None:
        dtypes = {"ids": id_type, "sentences": np.int64, "sizes": np.uint32, "unknown": np.uint32}
        dtypes |= {"documents": np.int64, "hashes": np.uint64}
        dtypes |= {name: dtype for name, dtype in {"words": bool, "entities": np.uint8}.items() if name in optional}
        self.starts_word, self.ledger = starts_word, ledger
        self.arrays = {name: NpyAppender(folder / f"{name}.npy", dtype) for name, dtype in dtypes.items()}
        self.sizes = SentenceByteCounts(self.arrays["sizes"])
        self.num_tokens = self.num_sentences = self.num_parts = 0  # so far
        # The last document so far, which may continue in the next shard.
        self.last_document = DocumentParts(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, bool))
        self.empty_parts: dict[int, dict[str, Any]] = {}  # locations of parts without tokens, by number

    def add(self, shard: EncodedShard) -> None:
        self.ledger.merge(shard.ledger)
        for item in shard.dropped:
            assert self.ledger.on_drop is not None
            self.ledger.on_drop(item)
        self.arrays["ids"].append(shard.ids)
        if "words" in self.arrays:
            self.arrays["words"].append(self.starts_word[shard.ids] if shard.words is None else shard.words)
        if "entities" in self.arrays:
            zeros = np.zeros(len(shard.ids), np.uint8)
            self.arrays["entities"].append(zeros if shard.entities is None else shard.entities)
        self.arrays["sentences"].append(self.num_tokens + np.cumsum(shard.sentences) - shard.sentences)
        self.arrays["unknown"].append(shard.unknown)
        self.sizes.add(shard)
        self.num_tokens += int(shard.sentences.sum())
        for item in shard.empty_documents:
            self.empty_parts[self.num_parts + item["number"]] = {"file": item["file"], "line": item["line"]}
        first_part = self.num_parts - len(self.last_document.continued)
        self.num_parts += len(shard.continued)
        added = (shard.documents, shard.hashes, shard.continued)
        parts = DocumentParts(*map(np.concatenate, zip(self.last_document, added, strict=True)))
        last_start = int(np.flatnonzero(~parts.continued)[-1])
        self._append_documents(DocumentParts(*(array[:last_start] for array in parts)), first_part)
        self.last_document = DocumentParts(*(array[last_start:] for array in parts))
        first_kept = first_part + last_start
        self.empty_parts = {number: item for number, item in self.empty_parts.items() if number >= first_kept}

    def _append_documents(self, parts: DocumentParts, first_part: int) -> None:
        """Append complete documents, whose first part has number `first_part`; drop those without tokens."""
        starts, stage = np.flatnonzero(~parts.continued), self.ledger.stage("tokens")
        sentence_counts, hashes = parts.sentence_counts, parts.hashes
        if 0 < len(starts) < len(sentence_counts):  # some documents have several parts
            sentence_counts = np.add.reduceat(sentence_counts, starts)
            bounds = pairwise([*starts, len(hashes)])
            hashes = np.array([combine_hashes(hashes[start:end]) for start, end in bounds], np.uint64)
        stage.add_in(documents=len(starts))
        has_tokens = sentence_counts > 0
        for number in first_part + starts[~has_tokens]:
            self.ledger.drop("tokens", NO_TOKENS_REASON, documents=1, **self.empty_parts[int(number)])
        stage.add_out(documents=int(has_tokens.sum()))
        sentence_counts = sentence_counts[has_tokens]
        self.arrays["documents"].append(self.num_sentences + np.cumsum(sentence_counts) - sentence_counts)
        self.num_sentences += int(sentence_counts.sum())
        self.arrays["hashes"].append(hashes[has_tokens])

    def finish(self) -> dict[str, dict[str, Any]]:
        self._append_documents(self.last_document, self.num_parts - len(self.last_document.continued))
        self.arrays["sizes"].append(self.sizes.last)
        self.arrays["sentences"].append(np.array([self.num_tokens]))
        self.arrays["documents"].append(np.array([self.num_sentences]))
        return {name: array.finish() for name, array in self.arrays.items()}

    def close(self) -> None:
        for array in self.arrays.values():
            array.close()
