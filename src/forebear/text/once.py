"""Text whose words white space parts, read once: words have numbers as they turn up, and ids when all are known.

What a word's id is depends on how often it occurs, which only the end of the text tells. So that nobody has to read it
again, the arrays of its corpus are made of numbers, and renamed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from forebear.text import shards
from forebear.text.documents import Document
from forebear.text.encoding import Encoded, Encoder
from forebear.text.ledger import Ledger
from forebear.text.reading import Reading
from forebear.text.sentences import Mode
from forebear.text.spans import added_up
from forebear.text.tokens import Tokens
from forebear.text.vocabulary import Spoken
from forebear.text.words import GAPS


class Numbering:
    """Stands for a tokenizer that is yet to be learned: the id of a word is its number."""

    unknown = segmenter = None
    kind, is_quick = "words", True

    def __init__(self) -> None:
        self.spoken = Spoken(" " + GAPS)

    def encode_all(self, texts: Sequence[str], ends: None = None, *, spans: bool = False) -> Tokens:
        assert ends is None
        assert not spans
        return _tokens(*self.spoken.words.numbered(texts))

    def encode_lines(self, data: bytes, ends: np.ndarray) -> Tokens | None:
        found = self.spoken.words.numbered_in(data, ends)
        return None if found is None else _tokens(*found)


def _tokens(numbers: np.ndarray, upto: np.ndarray) -> Tokens:
    return Tokens(numbers, np.diff(upto, prepend=0).astype(np.int32), np.zeros(len(upto), np.int64))


@dataclass
class Once:
    """A text that was read: what its corpus will hold, but for the ids of words.

    reading, sentences  how it is taken
    most                bytes of it that may be; what it becomes is held in memory
    ids                 of each word by its number, once they are known; -1: the vocabulary lacks it
    """

    reading: Reading
    sentences: Mode
    most: int
    ledger: Ledger = field(default_factory=Ledger)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    ids: np.ndarray | None = None
    _numbering: Numbering = field(default_factory=Numbering)
    _shards: deque[Encoded] = field(default_factory=deque)  # all but their ids,
    _numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # which stand here together
    _filled: int = 0

    def __post_init__(self) -> None:
        self.ledger.on_drop = self.dropped.append

    def passed(self, documents: Iterator[Document]) -> Iterator[str]:
        """The texts of these documents, which are taken on their way; who reads them enters them in its ledger."""
        encoder = Encoder(self._numbering, self.sentences)  # pyright: ignore[reportArgumentType] - all that is wanted
        for run in shards.runs(documents):
            self._keep(encoder.encode(run))
            yield from (document.text for document in run)

    def _keep(self, shard: Encoded) -> None:
        """Counts its words, and keeps them in one large piece of memory, which can be given back, and grows without
        being copied.
        """
        self.spoken.count(shard.ids)
        begin, self._filled = self._filled, self._filled + len(shard.ids)
        if self._filled > len(self._numbers):
            self._numbers.resize(max(self._filled, len(self._numbers) * 3 // 2), refcheck=False)
        self._numbers[begin : self._filled] = shard.ids
        self._shards.append(replace(shard, ids=shard.ids[:0].copy()))

    @property
    def spoken(self) -> Spoken:
        """How often words occur in what was passed."""
        return self._numbering.spoken

    def is_of(self, text: str, reading: Reading, sentences: Mode) -> bool:
        """Whether it is the text of this fingerprint, taken so, and its words have ids."""
        same = self.ids is not None and (self.reading, self.sentences) == (reading, sentences)
        return same and self.ledger.fingerprint == text

    def shards(self, unknown: int) -> Iterator[Encoded]:
        """What it became, with ids; all of it is gone then."""
        assert self.ids is not None
        ids, sizes = np.where(self.ids < 0, unknown, self.ids), self.spoken.words.lengths()[1]
        end = 0
        while self._shards:
            shard = self._shards.popleft()
            begin, end = end, end + int(shard.sentences.sum())
            numbers = self._numbers[begin:end]
            named = ids[numbers]
            if (lacking := np.flatnonzero(named == unknown)).size:
                owners = np.searchsorted(np.cumsum(shard.sentences), lacking, side="right")
                missed = added_up(sizes[numbers[lacking]], owners, len(shard.sentences))
                shard.ledger.stage("tokens").give(unknown=len(lacking))
                shard = replace(shard, unknown=missed)
            yield replace(shard, ids=named)
        self._numbers, self._numbering = self._numbers[:0].copy(), Numbering()
