"""Vectors of texts from those of their words: their mean, or one that gives rare words more weight (SIF)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import get_args

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.using.nearest import BLOCK, SMALLEST, blocks
from forebear.using.vectors import AnyPooling, Embedded, Matrix, Word, checked, refuse_empty
from forebear.using.word_cutting import NONE, Cutting, Spoken

RARE = 1e-3  # a word of this share of the text counts half (the paper's a)


class Pooled:
    """Texts by the words of a table, each text by itself alone.

    A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora, Liang, Ma; 2017), "sif": a word of the share p
    counts a / (a + p), and what all texts have in common is taken away. The paper finds that direction in the texts at
    hand, so that every vector depends on all others, and a single text has none. Here it is the direction of the mean
    of all words, weighed as above and by how often they were seen, which is what texts are drawn from: its cosine to
    the paper's was 0.995 and more on English and Chinese Wikipedia.
    """

    def __init__(self, cutting: Cutting) -> None:
        self.cutting, self.table = cutting, cutting.table

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) of each word."""
        if self.table.counts is None:
            remedy = "choose --pooling mean, or a run that was trained here"
            raise BadInput("sif needs to know how often words are seen, and nobody counted these", remedy=remedy)
        return (RARE / (RARE + self.table.counts / max(1, self.table.counts.sum()))).astype(np.float32)

    @cached_property
    def shared(self) -> np.ndarray:
        """(D,) of length 1: what all texts have in common."""
        assert self.table.counts is not None
        shares, found = self.weights * self.table.counts / max(1, self.table.counts.sum()), np.zeros(self._width)
        for part in blocks(self.table.matrix):
            found += shares[part] @ self.table.matrix[part]
        return (found / max(float(np.linalg.norm(found)), SMALLEST)).astype(np.float32)

    def matrix(
        self, texts: Sequence[str], pooling: AnyPooling = "mean", normalise: bool = True, zeros: bool = False
    ) -> Matrix:
        """A vector for each text; words without one are counted as cut.

        A text of which no word has one is an error, or has `zeros`.
        """
        return self._matrix(self.cutting.spoken(texts), pooling, normalise, zeros)

    def embed(
        self, texts: Sequence[str], pooling: AnyPooling, words: bool, normalise: bool, zeros: bool = False
    ) -> list[Embedded]:
        """The same one by one; with `words`, those that have a vector too."""
        spoken = self.cutting.spoken(texts, spans=words)
        made = self._matrix(spoken, pooling, normalise, zeros)
        found: list[tuple[Word, ...] | None] = [None] * len(texts)
        if spoken.spans is not None:
            each = np.split(spoken.rows, np.cumsum(spoken.counts)[:-1])
            told = zip(texts, each, spoken.spans, strict=True)
            found = [self._words(sound(text), rows, spans, normalise) for text, rows, spans in told]
        facts = zip(texts, made.vectors, made.tokens.tolist(), made.cut.tolist(), found, strict=True)
        return [Embedded(*one) for one in facts]

    def _words(self, text: str, rows: np.ndarray, spans: list[tuple[int, int]], normalise: bool) -> tuple[Word, ...]:
        known = rows != NONE
        vectors = self._scaled(self._vectors(rows[known]), normalise)
        places = (span for span, there in zip(spans, known.tolist(), strict=True) if there)
        told = zip(places, vectors, strict=True)
        return tuple(Word(text[begin:end], begin, end, vector) for (begin, end), vector in told)

    def _matrix(self, spoken: Spoken, pooling: AnyPooling, normalise: bool, zeros: bool) -> Matrix:
        checked("pooling", pooling, get_args(AnyPooling))
        known = spoken.rows != NONE
        rows, owners = spoken.rows[known], spoken.owners()[known]
        read = np.bincount(owners, minlength=len(spoken.counts))
        if not zeros:
            refuse_empty(spoken.counts)
            refuse_unknown(read)
        there = read > 0
        found = np.zeros((len(read), self._width), np.float32)
        if there.any():
            found[there] = self._pooled(rows, (np.cumsum(there) - 1)[owners], read[there], pooling)
        return Matrix(self._scaled(found, normalise), read, spoken.counts - read)

    def _pooled(self, rows: np.ndarray, owners: np.ndarray, read: np.ndarray, pooling: AnyPooling) -> np.ndarray:
        ends = np.cumsum(read)
        if pooling in ("first", "last"):
            return self._vectors(rows[ends - read if pooling == "first" else ends - 1])
        together = np.maximum if pooling == "max" else np.add
        made = np.full((len(read), self._width), -np.inf if pooling == "max" else 0.0, np.float32)
        for place in _portions(read.tolist(), self._step):
            part, whose = self._vectors(rows[place]), owners[place]
            if pooling == "sif":
                part *= self._weights(rows[place])[:, None]
            starts = np.flatnonzero(np.diff(whose, prepend=-1))
            whole = together.reduceat(part, starts)
            made[whose[starts]] = together(made[whose[starts]], whole)
        if pooling != "max":
            made /= read[:, None].astype(np.float32)
        if pooling == "sif":
            made -= np.einsum("nd,d->n", made, self.shared)[:, None] * self.shared
        return made

    def _weights(self, rows: np.ndarray) -> np.ndarray:
        """Words that were never seen are rarer than all others."""
        given = np.minimum(rows, len(self.weights) - 1)
        return np.where(rows < len(self.weights), self.weights[given], np.float32(1))

    def _vectors(self, rows: np.ndarray) -> np.ndarray:
        """(n, D) by rows; those beyond the table are of words that were composed."""
        count = len(self.table.words)
        made = np.empty((len(rows), self._width), np.float32)
        own = rows < count
        made[own] = self.table.matrix[rows[own]]
        for place in np.flatnonzero(~own).tolist():
            made[place] = self.cutting.more[rows[place] - count]
        return made

    @property
    def _width(self) -> int:
        return self.table.matrix.shape[1]

    @property
    def _step(self) -> int:
        return max(1, BLOCK // self._width)

    def _scaled(self, vectors: np.ndarray, normalise: bool) -> np.ndarray:
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST) if normalise else vectors


def refuse_unknown(read: np.ndarray) -> None:
    """A text of which no word was read, named by its number from 1."""
    for number in np.flatnonzero(read == 0)[:1].tolist():
        remedy = "leave it out, or ask a run with subwords, which has a vector for words with letter groups that it saw"
        raise BadInput("none of this text's words has a vector", line=number + 1, remedy=remedy)


def _portions(counts: Sequence[int], most: int) -> Iterator[slice]:
    """Words of whole texts, at most so many; a longer text is cut from its own beginning, whatever is around it."""
    begin = end = 0
    for count in counts:
        if end > begin and end + count - begin > most:
            yield slice(begin, end)
            begin = end
        end += count
        while end - begin > most:
            yield slice(begin, begin + most)
            begin += most
    if end > begin:
        yield slice(begin, end)
