"""Texts as rows of a table of words: cut by the tokenizer, phrases joined, words it lacks looked up or composed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forebear.text.characters import sound
from forebear.text.tokenizer import Tokenizer
from forebear.vectors.phrases import Phrases
from forebear.vectors.table import WordTable

NONE = -1  # the row of a word that has no vector
_LOCK = threading.Lock()  # of vectors that are composed
Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Spoken:
    """The words of some texts: their rows one text after the other, how many each text has, and where they stand."""

    rows: np.ndarray
    counts: np.ndarray
    spans: list[Spans] | None = None

    def owners(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.counts)), self.counts)


class Cutting:
    """Finds the words of texts in a table.

    phrases  which words are one (new york), where the table has rows for such
    """

    def __init__(self, table: WordTable, tokenizer: Tokenizer, phrases: Phrases | None = None) -> None:
        self.table, self.tokenizer, self.phrases = table, tokenizer, phrases
        self.more: list[np.ndarray] = []  # vectors of words that were composed; their rows come after the table's
        self._composed: dict[str, int] = {}

    def words(self, text: str) -> list[str]:
        """The words of one text: as the vocabulary spells them, or as they are written where it lacks them."""
        text = sound(text)
        pieces = self.tokenizer.encode(text)
        ids, _ = self._joined(pieces.ids, np.array([len(pieces.ids)]))
        firsts = np.cumsum(self._sizes[ids]) - self._sizes[ids]
        told = zip(ids.tolist(), firsts.tolist(), strict=True)
        return [
            self._names[i] if i != self.tokenizer.unknown else text[slice(*pieces.spans[first])] for i, first in told
        ]

    def spoken(self, texts: Sequence[str], *, spans: bool = False) -> Spoken:
        """The words of all texts; those that the tokenizer lacks are looked up as they are written."""
        texts = [sound(text) for text in texts]
        pieces, cut = self.tokenizer.encode_many(texts)
        ids, counts = self._joined(pieces, cut.astype(np.int64))
        rows, sizes = self._rows[ids], self._sizes[ids]
        ends = np.cumsum(counts)
        lacking = np.zeros(len(texts), bool)
        lacking[np.repeat(np.arange(len(texts)), counts)[rows == NONE]] = True
        places: list[Spans] = [[] for _ in texts]
        for number in range(len(texts)) if spans else np.flatnonzero(lacking).tolist():
            text, here = texts[number], slice(int(ends[number] - counts[number]), int(ends[number]))
            own = places[number] = self._places(text, sizes[here])
            for at in np.flatnonzero(rows[here] == NONE).tolist():
                rows[here.start + at] = self._row(text[slice(*own[at])])
        return Spoken(rows, counts, places if spans else None)

    def _joined(self, ids: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (ids, counts) if self.phrases is None else self.phrases.joined(ids, counts)

    def _places(self, text: str, sizes: np.ndarray) -> Spans:
        """Where words stand that are so many tokens each."""
        spans, ends = self.tokenizer.encode(text).spans, np.cumsum(sizes)
        told = zip(ends.tolist(), sizes.tolist(), strict=True)
        return [(spans[end - size][0], spans[end - 1][1]) for end, size in told]

    @cached_property
    def _names(self) -> list[str]:
        """Of all ids: tokens, then phrases."""
        tokens = self.tokenizer.tokens()
        return tokens if self.phrases is None else [*tokens, *self.phrases.names(tokens)]

    @cached_property
    def _rows(self) -> np.ndarray:
        """The row of each id."""
        return np.array([self.table.rows.get(name, NONE) for name in self._names], np.int64)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """How many tokens each id stands for."""
        made = [1] * self.tokenizer.size
        for first, second in [] if self.phrases is None else self.phrases.pairs.tolist():
            made.append(made[first] + made[second])
        return np.array(made, np.int64)

    def _row(self, word: str) -> int:
        """A word that is no token: written otherwise, or composed once and kept."""
        row = self.table.row(word)
        if row is not None or self.table.compose is None:
            return NONE if row is None else row
        with _LOCK:
            if word not in self._composed:
                made, row = self.table.compose(word), NONE
                if made is not None:
                    row = len(self.table.words) + len(self.more)
                    self.more.append(np.asarray(made, np.float32))
                self._composed[word] = row  # last, so that an interrupt leaves no row without its vector
            return self._composed[word]
