"""Encoding in a single pass: whitespace-split words get provisional numbers while their tokenizer is trained.

The id of a word depends on its frequency, which is known only at the end of the text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from forebear.data.corpus import shards
from forebear.data.corpus.document_encoder import DocumentEncoder, EncodedShard
from forebear.data.io.document import Document
from forebear.data.io.text_formats import TextFormat
from forebear.data.io.text_ledger import Ledger
from forebear.data.sentences import SentenceMode
from forebear.data.tokenizers.build_vocabulary import WordCounts
from forebear.data.tokenizers.offsets import sum_by_index
from forebear.data.tokenizers.tokenizer import EncodedBatch
from forebear.data.tokenizers.word_level import WORD_SEPARATORS


class ProvisionalTokenizer:
    """Replaces a tokenizer that is not yet trained: a word's id is its index in order of first occurrence."""

    unk_id = segmenter = None
    kind, splits_on_whitespace_only = "words", True

    def __init__(self) -> None:
        self.word_counts = WordCounts(" " + WORD_SEPARATORS)

    def encode_batch(self, texts: Sequence[str], ends: None = None, *, with_offsets: bool = False) -> EncodedBatch:
        assert ends is None
        assert not with_offsets
        return _single_token_batch(*self.word_counts.words.number_texts(texts))

    def encode_lines(self, data: bytes, ends: np.ndarray) -> EncodedBatch | None:
        numbered = self.word_counts.words.number_bytes(data, ends)
        return None if numbered is None else _single_token_batch(*numbered)


def _single_token_batch(numbers: np.ndarray, ends: np.ndarray) -> EncodedBatch:
    return EncodedBatch(numbers, np.diff(ends, prepend=0).astype(np.int32), np.zeros(len(ends), np.int64))


@dataclass
class SinglePassText:
    """The encoded shards of a text that is read once; word ids are added when the vocabulary is known."""

    text_format: TextFormat
    sentences: SentenceMode
    max_bytes: int  # of the text, as its arrays are held in memory
    ledger: Ledger = field(default_factory=Ledger)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    ids: np.ndarray | None = None  # by word number, once the vocabulary is known; -1: out of vocabulary
    _tokenizer: ProvisionalTokenizer = field(default_factory=ProvisionalTokenizer)
    _shards: deque[EncodedShard] = field(default_factory=deque)  # without their ids
    _word_numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # the word numbers of all shards
    _num_words: int = 0

    def __post_init__(self) -> None:
        self.ledger.on_drop = self.dropped.append

    def record_texts(self, documents: Iterator[Document]) -> Iterator[str]:
        """Yield the texts of these documents and encode them; their reader records them in its ledger."""
        encoder = DocumentEncoder(self._tokenizer, self.sentences)  # pyright: ignore[reportArgumentType] - it has all that is used
        for batch in shards.document_batches(documents):
            shard = encoder.encode(batch)
            self.word_counts.count(shard.ids)
            start, self._num_words = self._num_words, self._num_words + len(shard.ids)
            if self._num_words > len(self._word_numbers):  # grows in place
                self._word_numbers.resize(max(self._num_words, len(self._word_numbers) * 3 // 2), refcheck=False)
            self._word_numbers[start : self._num_words] = shard.ids
            self._shards.append(replace(shard, ids=shard.ids[:0].copy()))
            yield from (part.text for part in batch)

    @property
    def word_counts(self) -> WordCounts:
        """The frequencies of words in the text so far."""
        return self._tokenizer.word_counts

    def matches(self, content_digest: str, text_format: TextFormat, sentences: SentenceMode) -> bool:
        """Whether this is the text with that digest, read in this format, and its words have ids."""
        is_same_format = self.ids is not None and (self.text_format, self.sentences) == (text_format, sentences)
        return is_same_format and self.ledger.fingerprint == content_digest

    def shards(self, unk_id: int) -> Iterator[EncodedShard]:
        """Yield the shards with the ids of words, and release them."""
        assert self.ids is not None
        ids, word_bytes = np.where(self.ids < 0, unk_id, self.ids), self.word_counts.words.word_lengths()[1]
        end = 0
        while self._shards:
            shard = self._shards.popleft()
            start, end = end, end + int(shard.sentences.sum())
            numbers = self._word_numbers[start:end]
            shard_ids = ids[numbers]
            if (unknown_positions := np.flatnonzero(shard_ids == unk_id)).size:
                sentence_ids = np.searchsorted(np.cumsum(shard.sentences), unknown_positions, side="right")
                unknown_bytes = sum_by_index(word_bytes[numbers[unknown_positions]], sentence_ids, len(shard.sentences))
                shard.ledger.stage("tokens").add_out(unknown=len(unknown_positions))
                shard = replace(shard, unknown=unknown_bytes)
            yield replace(shard, ids=shard_ids)
        self._word_numbers, self._tokenizer = self._word_numbers[:0].copy(), ProvisionalTokenizer()
