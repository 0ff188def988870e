"""Encoding of a batch of documents to a shard: arrays of sentences, token ids, words and entities, and their ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from forebear.data.entities import ENTITY_BEGIN, EntityDictionary, entity_flags, tagged_entities
from forebear.data.io.document import Document
from forebear.data.io.text_ledger import Ledger, utf8_size
from forebear.data.sentences import SentenceMode, document_lines, split_sentences
from forebear.data.tokenizers.offsets import sum_by_index, text_lengths, utf8_offsets
from forebear.errors import ForebearError, require_choice

if TYPE_CHECKING:
    from forebear.data.segmentation import Segmenter
    from forebear.data.tokenizers.tokenizer import EncodedBatch, Tokenizer

NO_TOKENS_REASON = "no tokens in it"


@dataclass(frozen=True)
class DocumentEncoder:
    """Encodes documents with a tokenizer and settings; sent to worker processes."""

    tokenizer: Tokenizer
    sentences: SentenceMode = "split"
    segmenter: Segmenter | None = None
    entities: EntityDictionary | None = None

    def __post_init__(self) -> None:
        require_choice("--sentences", self.sentences, get_args(SentenceMode))

    @property
    def is_fast(self) -> bool:
        """Whether encoding is about as fast as reading, and results in token ids only."""
        return self.tokenizer.splits_on_whitespace_only and self.segmenter is None and self.entities is None

    def encode(self, documents: Sequence[Document]) -> EncodedShard:
        """The arrays of these documents (or parts of documents), and the ledger of encoding."""
        dropped: list[dict[str, Any]] = []
        ledger = Ledger(on_drop=dropped.append)
        characters, entities = sum(len(document.text) for document in documents), None
        if (encoded_lines := self._encode_lines(documents)) is not None:
            tokens, sentence_bytes, num_lines = encoded_lines
            sentences, sentence_counts, num_characters = [], num_lines.tolist(), characters  # each line has a token
        else:
            sentences, sentence_counts, sentence_bytes = self._split(documents)
            num_characters = sum(map(len, sentences))
            try:
                tokens = self._tokens(documents, sentences, sentence_counts)
                if self._has_entities(documents):  # from the source, a dictionary, or both
                    matches = self.entities.find(sentences) if self.entities else np.zeros((0, 2), np.int64)
                    entities = entity_flags(tokens, tagged_entities(documents, sentences), matches)
            except Exception as error:
                raise self._with_location(error, documents, sentences, sentence_counts) from error
        stage, num_documents = ledger.stage("sentences"), sum(document.part == 0 for document in documents)
        num_bytes = sum(document.utf8_size for document in documents)
        stage.add_in(documents=num_documents, characters=characters, bytes=num_bytes)
        units = {"characters": num_characters, "bytes": int(sentence_bytes.sum()), "sentences": len(sentence_bytes)}
        stage.add_out(documents=num_documents, **units)
        self._account_tokens(documents, sentences, sentence_counts, tokens, ledger)
        if entities is not None:
            ledger.stage("tokens").add_out(entities=int(np.count_nonzero(entities == ENTITY_BEGIN)))
        return _encoded_shard(documents, np.array(sentence_counts), tokens, entities, sentence_bytes, dropped, ledger)

    def _encode_lines(self, documents: Sequence[Document]) -> tuple[EncodedBatch, np.ndarray, np.ndarray] | None:
        """The tokens of all lines, their bytes, and the number of lines of each document, without creating strings.

        None if that is not possible: sentences are not lines, or words are not found by their bytes.
        """
        if (
            self.sentences != "lines"
            or not self.is_fast
            or any(document.word_ends is not None for document in documents)
        ):
            return None
        lines = document_lines(documents)
        tokens = None if lines is None else self.tokenizer.encode_lines(lines.data, lines.ends)
        if lines is None or tokens is None or not tokens.counts.all():
            return None
        return tokens, lines.sizes, lines.line_counts

    def _split(self, documents: Sequence[Document]) -> tuple[list[str], list[int], np.ndarray]:
        """All sentences, the number of sentences of each document, and the bytes of each sentence."""
        all_sentences: list[str] = []
        sentence_counts: list[int] = []
        sentence_bytes: list[np.ndarray] = [np.zeros(0, np.int64)]
        for document in documents:
            sentences = split_sentences(document.text, self.sentences)
            all_sentences += sentences
            sentence_counts.append(len(sentences))
            sentence_lengths = text_lengths(sentences)
            if not document.text.isascii():
                ends = utf8_offsets(np.frombuffer(document.utf8, np.uint8), np.cumsum(sentence_lengths))
                sentence_lengths = np.diff(ends, prepend=0)
            sentence_bytes.append(sentence_lengths)
        return all_sentences, sentence_counts, np.concatenate(sentence_bytes)

    def _tokens(self, documents: Sequence[Document], sentences: list[str], sentence_counts: list[int]) -> EncodedBatch:
        """The tokens of all sentences, with word starts if words are known from the source or by segmentation."""
        has_words = self.segmenter is not None or self._has_entities(documents)
        if not has_words and all(document.word_ends is None for document in documents):
            return self.tokenizer.encode_batch(sentences)
        ends: list[list[int]] = []
        start = 0
        for document, num_sentences in zip(documents, sentence_counts, strict=True):
            words = document.word_ends if document.word_ends is not None else self._words(document.text)
            ends += _ends_by_sentence(sentences[start : start + num_sentences], words)
            start += num_sentences
        return self.tokenizer.encode_batch(sentences, ends, with_offsets=self._has_entities(documents))

    def _has_entities(self, documents: Sequence[Document]) -> bool:
        return self.entities is not None or any(document.entity_spans is not None for document in documents)

    def _words(self, text: str) -> Sequence[int]:
        """The ends of words in a document without marked words: by segmentation, else by the tokenizer."""
        segmenter = self.segmenter or self.tokenizer.segmenter
        if segmenter is not None:
            return segmenter.word_ends(text)
        return (len(text),) if self.tokenizer.kind == "words" else range(1, len(text) + 1)

    def _with_location(
        self, error: Exception, documents: Sequence[Document], sentences: list[str], sentence_counts: list[int]
    ) -> Exception:
        """The error with the file and line of the document that causes it."""
        start = 0
        for document, num_sentences in zip(documents, sentence_counts, strict=True):
            try:
                self._tokens([document], sentences[start : start + num_sentences], [num_sentences])
            except Exception as cause:  # noqa: BLE001 - the same error, now located
                return ForebearError(f"{type(cause).__name__}: {cause}", file=document.file, line=document.line)
            start += num_sentences
        return error

    def _account_tokens(
        self,
        documents: Sequence[Document],
        sentences: list[str],
        sentence_counts: list[int],
        tokens: EncodedBatch,
        ledger: Ledger,
    ) -> None:
        """Record this stage in the ledger; drop sentences without tokens (the merge of shards drops documents)."""
        stage = ledger.stage("tokens")
        units = {**ledger.stage("sentences").outputs}
        del units["documents"]  # a document may continue in the next shard
        stage.add_in(**units)
        for document, line, text in _sentences_without_tokens(documents, sentences, sentence_counts, tokens.counts):
            dropped_units = {"sentences": 1, "characters": len(text), "bytes": utf8_size(text)}
            ledger.drop("tokens", NO_TOKENS_REASON, file=document.file, line=line, excerpt=text, **dropped_units)
            units = {unit: units[unit] - dropped_units[unit] for unit in units}
        unk_id = self.tokenizer.unk_id
        num_unknown = 0 if unk_id is None else int(np.count_nonzero(tokens.ids == unk_id))
        stage.add_out(**units, tokens=len(tokens.ids), unknown=num_unknown)


@dataclass(frozen=True)
class EncodedShard:
    """The arrays of one shard, with an entry for each token, sentence or document (or part of one)."""

    ids: np.ndarray
    sentences: np.ndarray  # tokens in each sentence
    sizes: np.ndarray  # bytes of each sentence, including following sentences without tokens
    unknown: np.ndarray  # bytes of each sentence that became unknown tokens
    documents: np.ndarray  # sentences in each document
    before: np.ndarray  # bytes of each document before its first sentence with tokens
    hashes: np.ndarray
    continued: np.ndarray  # by document: True for a further part of the previous one
    empty_documents: list[dict[str, Any]]  # number and location of documents without tokens
    dropped: list[dict[str, Any]]  # all dropped items
    ledger: Ledger
    words: np.ndarray | None = None  # by token: True if it starts a word, if known
    entities: np.ndarray | None = None  # by token: entity flags, if known


def _encoded_shard(
    documents: Sequence[Document],
    sentence_counts: np.ndarray,
    tokens: EncodedBatch,
    entities: np.ndarray | None,
    sentence_bytes: np.ndarray,
    dropped: list[dict[str, Any]],
    ledger: Ledger,
) -> EncodedShard:
    """The arrays of a shard; the bytes of sentences without tokens are added to the previous sentence."""
    has_tokens = tokens.counts > 0
    document_ids = np.repeat(np.arange(len(documents)), sentence_counts)
    num_sentences = np.bincount(document_ids[has_tokens], minlength=len(documents))
    recipients = np.cumsum(has_tokens) - 1  # the last sentence with tokens, perhaps of an earlier document
    before_first = recipients < (np.cumsum(num_sentences) - num_sentences)[document_ids]
    empty_indices = np.flatnonzero(num_sentences == 0).tolist()
    return EncodedShard(
        ids=tokens.ids,
        sentences=tokens.counts[has_tokens].astype(np.int64),
        sizes=sum_by_index(sentence_bytes[~before_first], recipients[~before_first], int(has_tokens.sum())),
        unknown=tokens.unknown_bytes[has_tokens],
        documents=num_sentences,
        before=sum_by_index(sentence_bytes[before_first], document_ids[before_first], len(documents)),
        hashes=np.array([document_hash(document) for document in documents], np.uint64),
        continued=np.array([document.part > 0 for document in documents]),
        empty_documents=[{"number": n, "file": documents[n].file, "line": documents[n].line} for n in empty_indices],
        dropped=dropped,
        ledger=ledger,
        words=tokens.is_word_start,
        entities=entities,
    )


def document_hash(document: Document) -> int:
    """The content hash of a document in 64 bits, without surrounding white space."""
    stripped = document.text.strip()
    return _hash64(document.utf8 if len(stripped) == len(document.text) else stripped.encode())


def content_hash(text: str) -> int:
    """The content hash of a text in 64 bits, without surrounding white space."""
    return _hash64(text.strip().encode())


def _hash64(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def combine_hashes(part_hashes: Sequence[int] | np.ndarray) -> int:
    """The hash of a document from those of its parts."""
    if len(part_hashes) == 1:
        return int(part_hashes[0])
    return _hash64(b"".join(int(part_hash).to_bytes(8, "little") for part_hash in part_hashes))


def _ends_by_sentence(sentences: list[str], ends: Sequence[int]) -> list[list[int]]:
    """The word ends of a document, relative to each sentence; the end of a sentence is always a word end."""
    ends_by_sentence: list[list[int]] = []
    start = index = 0
    for sentence in sentences:
        stop = start + len(sentence)
        sentence_ends: list[int] = []
        while index < len(ends) and ends[index] < stop:
            sentence_ends.append(ends[index] - start)
            index += 1
        index += index < len(ends) and ends[index] == stop
        ends_by_sentence.append([*sentence_ends, len(sentence)])
        start = stop
    return ends_by_sentence


def _sentences_without_tokens(
    documents: Sequence[Document], sentences: list[str], sentence_counts: list[int], counts: np.ndarray
) -> Iterator[tuple[Document, int, str]]:
    """Sentences without tokens: document, line and text."""
    empty = set(np.flatnonzero(counts == 0).tolist())
    index = 0
    for document, num_sentences in zip(documents, sentence_counts, strict=True) if empty else ():
        line_ends = 0  # line ends of this document so far
        for text in sentences[index : index + num_sentences]:
            if index in empty:
                # White space before a sentence belongs to it.
                leading = text.count("\n", 0, len(text) - len(text.lstrip()))
                yield document, document.line_at(line_ends + (leading if text.strip() else 0)), text
            line_ends += text.count("\n")
            index += 1
