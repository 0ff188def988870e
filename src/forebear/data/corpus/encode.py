"""A shard of documents becomes arrays: sentences, ids, words, entities, and the books that prove nothing was lost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from forebear.data.entities import ENTITY_BEGIN, EntityDictionary, entity_flags, tagged_entities
from forebear.data.io.documents import Document
from forebear.data.io.ledger import Ledger, utf8_size
from forebear.data.sentences import SentenceMode, document_lines, split_sentences
from forebear.data.tokenizers.offsets import sum_by_index, text_lengths, utf8_offsets
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.segmentation import Segmenter
    from forebear.data.tokenizers.tokenizer import EncodedBatch, Tokenizer

NO_TOKENS_REASON = "no tokens in it"


@dataclass(frozen=True)
class DocumentEncoder:
    """How documents become ids; travels to the workers."""

    tokenizer: Tokenizer
    sentences: SentenceMode = "split"
    segmenter: Segmenter | None = None
    entities: EntityDictionary | None = None

    def __post_init__(self) -> None:
        if self.sentences not in get_args(SentenceMode):
            raise InputError(
                f"--sentences is {self.sentences!r}", hint=f"choose one of {', '.join(get_args(SentenceMode))}"
            )

    @property
    def is_fast(self) -> bool:
        """Whether it takes hardly longer than reading does, and tells nothing but tokens."""
        return self.tokenizer.is_fast and self.segmenter is None and self.entities is None

    def encode(self, documents: Sequence[Document]) -> EncodedShard:
        """The arrays of these documents (or parts of documents), and what happened on the way."""
        dropped: list[dict[str, Any]] = []
        ledger = Ledger(on_drop=dropped.append)
        if (lines := self._by_lines(documents)) is not None:
            tokens, sizes, many = lines
            _account_sentences(documents, sum(len(it.text) for it in documents), sizes, ledger)
            self._account(documents, [], [], tokens, ledger)  # none of them is without a token
            return _entered(documents, many, tokens, None, sizes, dropped, ledger)
        pieces, lengths, sizes = self._split(documents)
        _account_sentences(documents, sum(map(len, pieces)), sizes, ledger)
        try:
            tokens = self._tokens(documents, pieces, lengths)
            entities = self._entities(documents, pieces, tokens)
        except Exception as error:
            raise self._located(error, documents, pieces, lengths) from error
        self._account(documents, pieces, lengths, tokens, ledger)
        if entities is not None:
            ledger.stage("tokens").add_out(entities=int(np.count_nonzero(entities == ENTITY_BEGIN)))
        return _entered(documents, np.array(lengths), tokens, entities, sizes, dropped, ledger)

    def _by_lines(self, documents: Sequence[Document]) -> tuple[EncodedBatch, np.ndarray, np.ndarray] | None:
        """The tokens of all sentences, their bytes, and how many each document has: of lines, where words are found by
        their bytes too, so that no string is made of either; None where that cannot be.
        """
        if self.sentences != "lines" or not self.is_fast or any(it.words is not None for it in documents):
            return None
        lines = document_lines(documents)
        tokens = None if lines is None else self.tokenizer.encode_lines(lines.data, lines.ends)
        if lines is None or tokens is None or not tokens.counts.all():
            return None
        return tokens, lines.sizes, lines.many

    def _split(self, documents: Sequence[Document]) -> tuple[list[str], list[int], np.ndarray]:
        """All sentences in a row, how many each document has, and the bytes of each."""
        pieces: list[str] = []
        lengths: list[int] = []
        sizes: list[np.ndarray] = [np.zeros(0, np.int64)]
        for document in documents:
            mine = split_sentences(document.text, self.sentences)
            pieces += mine
            lengths.append(len(mine))
            sizes.append(_sizes(document, mine))
        return pieces, lengths, np.concatenate(sizes)

    def _tokens(self, documents: Sequence[Document], pieces: list[str], lengths: list[int]) -> EncodedBatch:
        """The tokens of all sentences, with word starts where words are known: from the source, or by segmentation."""
        told = self.segmenter is not None or self._tells_entities(documents)
        if not told and all(document.words is None for document in documents):
            return self.tokenizer.encode_batch(pieces)
        ends: list[list[int]] = []
        at = 0
        for document, length in zip(documents, lengths, strict=True):
            words = document.words if document.words is not None else self._words(document.text)
            ends += _ends_by_sentence(pieces[at : at + length], words)
            at += length
        return self.tokenizer.encode_batch(pieces, ends, spans=self._tells_entities(documents))

    def _tells_entities(self, documents: Sequence[Document]) -> bool:
        return self.entities is not None or any(document.entities is not None for document in documents)

    def _entities(self, documents: Sequence[Document], pieces: list[str], tokens: EncodedBatch) -> np.ndarray | None:
        """Which tokens are entities, where somebody tells: the source or a dictionary of names, or both."""
        if not self._tells_entities(documents):
            return None
        named = self.entities.find(pieces) if self.entities else np.zeros((0, 2), np.int64)
        return entity_flags(tokens, tagged_entities(documents, pieces), named)

    def _words(self, text: str) -> Sequence[int]:
        """Where words end in a document that does not tell: by segmentation, else where the tokens themselves say."""
        segmenter = self.segmenter or self.tokenizer.segmenter
        if segmenter is not None:
            return segmenter.word_ends(text)
        return (len(text),) if self.tokenizer.kind == "words" else range(1, len(text) + 1)

    def _located(
        self, error: Exception, documents: Sequence[Document], pieces: list[str], lengths: list[int]
    ) -> Exception:
        """The same failure with the file and line of the document that causes it."""
        at = 0
        for document, length in zip(documents, lengths, strict=True):
            try:
                self._tokens([document], pieces[at : at + length], [length])
            except Exception as again:  # noqa: BLE001 - the very failure we look for
                return ForebearError(f"{type(again).__name__}: {again}", file=document.file, line=document.line)
            at += length
        return error

    def _account(
        self, documents: Sequence[Document], pieces: list[str], lengths: list[int], tokens: EncodedBatch, ledger: Ledger
    ) -> None:
        """The books of this stage. A sentence without tokens is dropped here, a document when all shards are there."""
        books = ledger.stage("tokens")
        taken = {**ledger.stage("sentences").given}
        del taken["documents"]  # one may go on in the next shard
        books.add_in(**taken)
        for document, line, text in _silent(documents, pieces, lengths, tokens.counts):
            lost = {"sentences": 1, "characters": len(text), "bytes": utf8_size(text)}
            ledger.drop("tokens", NO_TOKENS_REASON, file=document.file, line=line, excerpt=text, **lost)
            taken = {unit: taken[unit] - lost[unit] for unit in taken}
        unknown = self.tokenizer.unk_id
        missed = 0 if unknown is None else int(np.count_nonzero(tokens.ids == unknown))
        books.add_out(**taken, tokens=len(tokens.ids), unknown=missed)


@dataclass(frozen=True)
class EncodedShard:
    """What became of one shard: arrays with an entry for each token, sentence or document (or part of one)."""

    ids: np.ndarray
    sentences: np.ndarray  # tokens in each sentence
    sizes: np.ndarray  # bytes of each sentence, and of those without tokens after it
    unknown: np.ndarray  # bytes of each sentence that became unknown tokens
    documents: np.ndarray  # sentences in each document
    before: np.ndarray  # bytes of each document before its first sentence with tokens
    hashes: np.ndarray
    continued: np.ndarray  # by document: True for a further part of the one before
    silent: list[dict[str, Any]]  # documents without tokens, by number and place
    dropped: list[dict[str, Any]]  # all that went no further
    ledger: Ledger
    words: np.ndarray | None = None  # by token: True where one starts a word, if that is known
    entities: np.ndarray | None = None  # by token: whether one begins an entity or goes on with it, if that is known


def _entered(
    documents: Sequence[Document],
    lengths: np.ndarray,
    tokens: EncodedBatch,
    entities: np.ndarray | None,
    sizes: np.ndarray,
    dropped: list[dict[str, Any]],
    ledger: Ledger,
) -> EncodedShard:
    """The arrays, from the tokens and bytes of all sentences; those without tokens leave their bytes to others."""
    kept = tokens.counts > 0
    owners = np.repeat(np.arange(len(documents)), lengths)
    spoken = np.bincount(owners[kept], minlength=len(documents))
    heirs = np.cumsum(kept) - 1  # the last sentence with tokens, which may be another document's
    early = heirs < (np.cumsum(spoken) - spoken)[owners]
    nothing = np.flatnonzero(spoken == 0).tolist()
    return EncodedShard(
        ids=tokens.ids,
        sentences=tokens.counts[kept].astype(np.int64),
        sizes=sum_by_index(sizes[~early], heirs[~early], int(kept.sum())),
        unknown=tokens.unknown_bytes[kept],
        documents=spoken,
        before=sum_by_index(sizes[early], owners[early], len(documents)),
        hashes=np.array([document_hash(document) for document in documents], np.uint64),
        continued=np.array([document.part > 0 for document in documents]),
        silent=[{"number": n, "file": documents[n].file, "line": documents[n].line} for n in nothing],
        dropped=dropped,
        ledger=ledger,
        words=tokens.starts,
        entities=entities,
    )


def _account_sentences(documents: Sequence[Document], characters: int, sizes: np.ndarray, ledger: Ledger) -> None:
    """The books of cutting documents into sentences of so many characters in all, and of so many bytes each."""
    books, whole = ledger.stage("sentences"), sum(document.part == 0 for document in documents)
    books.add_in(
        documents=whole,
        characters=sum(len(document.text) for document in documents),
        bytes=sum(document.utf8_size for document in documents),
    )
    books.add_out(documents=whole, characters=characters, bytes=int(sizes.sum()), sentences=len(sizes))


def _sizes(document: Document, pieces: list[str]) -> np.ndarray:
    """The bytes of each of the pieces that a document is made of."""
    lengths = text_lengths(pieces)
    if document.text.isascii():
        return lengths
    return np.diff(utf8_offsets(np.frombuffer(document.utf8, np.uint8), np.cumsum(lengths)), prepend=0)


def document_hash(document: Document) -> int:
    """What a document says in 64 bits; white space around it does not count."""
    bare = document.text.strip()
    return _hashed(document.utf8 if len(bare) == len(document.text) else bare.encode())


def content_hash(text: str) -> int:
    """The same of a text."""
    return _hashed(text.strip().encode())


def _hashed(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def combine_hashes(parts: Sequence[int] | np.ndarray) -> int:
    """The hash of a document from those of its parts."""
    if len(parts) == 1:
        return int(parts[0])
    return _hashed(b"".join(int(part).to_bytes(8, "little") for part in parts))


def _ends_by_sentence(pieces: list[str], ends: Sequence[int]) -> list[list[int]]:
    """The ends of a document's words, counted from the start of each sentence; a sentence's end always ends a word."""
    shares: list[list[int]] = []
    start = at = 0
    for piece in pieces:
        stop = start + len(piece)
        mine: list[int] = []
        while at < len(ends) and ends[at] < stop:
            mine.append(ends[at] - start)
            at += 1
        at += at < len(ends) and ends[at] == stop
        shares.append([*mine, len(piece)])
        start = stop
    return shares


def _silent(
    documents: Sequence[Document], pieces: list[str], lengths: list[int], counts: np.ndarray
) -> Iterator[tuple[Document, int, str]]:
    """Sentences without a token: document, line and text. One pass, and none where there are none."""
    silent = set(np.flatnonzero(counts == 0).tolist())
    number = 0
    for document, length in zip(documents, lengths, strict=True) if silent else ():
        ends = 0  # line ends of this document so far
        for text in pieces[number : number + length]:
            if number in silent:
                before = text[: len(text) - len(text.lstrip())].count("\n")  # white space before a sentence is its own
                yield document, document.line_at(ends + (before if text.strip() else 0)), text
            ends += text.count("\n")
            number += 1
