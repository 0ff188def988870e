"""What a text consists of: its n-grams, rare ones weighing more; and of two texts, which n-grams they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from forebear.errors import ForebearError
from forebear.statistical.matrices import SparseMatrix, stack_rows
from forebear.statistical.ngram.counts import NgramIndex
from forebear.statistical.token_rows import TokenRows

TEXT_FEATURES_MANY = 1 << 20  # tokens; of more, n-grams that occur only once are left out unless told otherwise
SPACES = ("first", "second", "both")


class FeatureName(NamedTuple):
    """What a column stands for: an n-gram (its ids) and where it was found, or a figure that has only a name."""

    tokens: tuple[int, ...]
    field: str


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """Which n-grams are features, and how much each weighs: learned from training rows.

    A text is the n-grams that it has, however often, each with its inverse document frequency; the vector has length
    1. Of two texts, n-grams that only the first has, only the second, and both are three different features, and
    beside them stand a few figures about how much they share.

    weights  (N,) of all n-grams, those of one token first; 0: seen too seldom to be a feature
    """

    ngrams: NgramIndex
    weights: np.ndarray
    skipped: np.ndarray
    pairs: bool

    @classmethod
    def fit(
        cls, rows: TokenRows, *, vocabulary: int, order: int, pairs: bool, skipped: np.ndarray, least: int | None
    ) -> TextFeatures:
        rows = rows.drop(skipped)
        if least is None:
            least = 2 if len(rows.tokens) > TEXT_FEATURES_MANY else 1
        ngrams, often = _frequent(rows, vocabulary, order, least)
        blank = cls(ngrams, np.ones(sum(map(ngrams.count, range(1, order + 1))), np.float32), skipped, pairs)
        found = np.zeros(len(blank.weights), np.int64)
        for chunk in rows.chunks():
            for level in blank.levels(chunk):
                columns = level.known[level.distinct() % len(level.known)]
                found += np.bincount(columns[columns >= 0], minlength=len(found))
        weights = np.log((1 + len(rows)) / (1 + found)) + 1
        weights[:vocabulary][often < least] = 0
        return cls(ngrams, weights.astype(np.float32), skipped, pairs)

    @property
    def width(self) -> int:
        return len(self.weights) * len(SPACES) + len(self.figures) if self.pairs else len(self.weights)

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The names of what is told of two texts beside their n-grams."""
        if not self.pairs:
            return ()
        by_order = ("shared of all {}-grams", "shared of the first's {}-grams", "shared of the second's {}-grams")
        orders = range(1, self.ngrams.order + 1)
        return (*(name.format(n) for n in orders for name in by_order), "length of the shorter by the longer")

    def of(self, rows: TokenRows) -> SparseMatrix:
        """The features of these rows."""
        parts = [self._chunk(chunk) for chunk in rows.drop(self.skipped).chunks()]
        return stack_rows(parts, self.width)

    def feature(self, column: int) -> FeatureName:
        """What a column stands for."""
        space, number = divmod(column, len(self.weights))
        if self.pairs and space >= len(SPACES):
            return FeatureName((), self.figures[column - len(SPACES) * len(self.weights)])
        n = 1
        while number >= self.ngrams.count(n):
            number -= self.ngrams.count(n)
            n += 1
        tokens: list[int] = []
        for keys in (self.ngrams.sorted_keys(length) for length in range(n, 1, -1)):
            number, last = divmod(int(keys[number]), self.ngrams.vocabulary)
            tokens.append(last)
        return FeatureName((number, *reversed(tokens)), SPACES[space] if self.pairs else "text")

    def levels(self, rows: TokenRows) -> Iterator[NgramColumns]:
        """All n-grams of these rows, length by length; those that are not known are numbered too."""
        places, owners = rows.token_positions(), rows.rows()
        tokens, mine = np.unique(rows.tokens, return_inverse=True)
        known = tokens.astype(np.int64)
        words, numbers, inside, offset = mine, mine, np.arange(len(mine)), 0
        for n in range(1, self.ngrams.order + 1):
            if n > 1:
                before = numbers
                inside = np.flatnonzero(places >= n - 1)
                keys, mine = np.unique(before[inside - 1] * len(tokens) + words[inside], return_inverse=True)
                prefixes, lasts = np.divmod(keys, max(1, len(tokens)))
                known = self.ngrams.find_many(n, known[prefixes], tokens[lasts].astype(np.int64))
                numbers = np.full(len(words), -1)
                numbers[inside] = mine
            segments = None if rows.segments is None else rows.segments[inside]
            yield NgramColumns(owners[inside], mine, np.where(known >= 0, known + offset, -1), segments)
            offset += self.ngrams.count(n)

    def _chunk(self, rows: TokenRows) -> SparseMatrix:
        owners, columns, values = [], [], []
        figures = np.zeros((len(rows), len(self.figures)), np.float32)
        for n, level in enumerate(self.levels(rows)):
            for space, found in enumerate(level.per_row() if self.pairs else [level.distinct()]):
                who, which = np.divmod(found, max(1, len(level.known)))
                which = level.known[which]
                weight = np.where(which >= 0, self.weights[which], 0)
                if self.pairs:
                    each = np.where(weight > 0, weight, self.weights.max())  # what nobody taught is rare
                    figures[:, 3 * n + space] = np.bincount(who, each, len(rows))
                kept = weight > 0
                owners.append(who[kept])
                columns.append(which[kept] + space * len(self.weights))
                values.append(weight[kept])
        owner, value = np.concatenate(owners), np.concatenate(values)
        value /= np.sqrt(np.bincount(owner, value.astype(np.float64) ** 2, len(rows)))[owner]
        return self._laid(rows, owner, np.concatenate(columns), value, figures)

    def _laid(
        self, rows: TokenRows, owner: np.ndarray, column: np.ndarray, value: np.ndarray, figures: np.ndarray
    ) -> SparseMatrix:
        """One row of the matrix for each text or pair, figures behind the n-grams."""
        if self.pairs:
            figures = _shares(figures, rows)
            owner = np.append(owner, np.repeat(np.arange(len(rows)), figures.shape[1]))
            behind = len(SPACES) * len(self.weights) + np.arange(figures.shape[1])
            column = np.append(column, np.tile(behind, len(rows)))
            value = np.append(value, figures.ravel())
        order = np.argsort(owner, kind="stable")
        indptr = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(rows)))))
        return SparseMatrix(indptr, column[order].astype(np.int32), value[order].astype(np.float32), self.width)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        return self.ngrams.arrays() | {"weights_of_ngrams": self.weights}

    @classmethod
    def load(
        cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, order: int, pairs: bool, skipped: np.ndarray
    ) -> TextFeatures:
        ngrams = NgramIndex.load(arrays, vocabulary=vocabulary, order=order)
        weights, size = arrays["weights_of_ngrams"], sum(map(ngrams.count, range(1, order + 1)))
        if weights.dtype != np.float32 or weights.shape != (size,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ForebearError(
                f"the array 'weights_of_ngrams' holds {weights.dtype} {list(weights.shape)} instead of {size} weights",
                hint="use an earlier checkpoint",
            )
        return cls(ngrams, weights, skipped, pairs)


class NgramColumns(NamedTuple):
    """The n-grams of one length: whose each is, its number here, and for each such number the column, or -1."""

    owners: np.ndarray
    numbers: np.ndarray
    known: np.ndarray
    segments: np.ndarray | None

    def distinct(self) -> np.ndarray:
        """Every n-gram of every row once: row · n-grams + number."""
        return _distinct(self.owners * len(self.known) + self.numbers)

    def per_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same, apart: what only the first text of a row has, only the second, and both."""
        keys = self.owners * len(self.known) + self.numbers
        first, second = _distinct(keys[self.segments == 0]), _distinct(keys[self.segments == 1])
        both = np.intersect1d(first, second, assume_unique=True)
        return np.setdiff1d(first, both, assume_unique=True), np.setdiff1d(second, both, assume_unique=True), both


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Each key once, rising. (numpy's `unique` puts them into a table first, which takes thirty times as long.)"""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) != 0]


def _shares(sums: np.ndarray, rows: TokenRows) -> np.ndarray:
    """(B, figures) from the sums over each order's n-grams in the first text only, the second only, and both."""
    first, second, both = sums[:, 0:-1:3], sums[:, 1:-1:3], sums[:, 2:-1:3]
    told = np.empty_like(sums)
    for column, whole in enumerate((first + second + both, first + both, second + both)):
        told[:, column:-1:3] = np.divide(both, whole, out=np.zeros_like(both), where=whole > 0)
    lengths = np.bincount(rows.rows() * 2 + rows.segments, minlength=2 * len(rows)).reshape(-1, 2)
    told[:, -1] = lengths.min(axis=1) / np.maximum(lengths.max(axis=1), 1)
    return told


def _frequent(rows: TokenRows, vocabulary: int, order: int, least: int) -> tuple[NgramIndex, np.ndarray]:
    """The n-grams that occur `least` times, and how often each single token does."""
    tokens, places = rows.tokens.astype(np.int64), rows.token_positions()
    often = np.bincount(tokens, minlength=vocabulary)
    ngrams, levels = NgramIndex(vocabulary, (), ()), []
    numbers = np.where(often[tokens] >= least, tokens, -1)
    for n in range(2, order + 1):
        inside = np.flatnonzero(places >= n - 1)
        inside = inside[numbers[inside - 1] >= 0]
        keys, times = np.unique(numbers[inside - 1] * vocabulary + tokens[inside], return_counts=True)
        levels.append(keys[times >= least])
        ngrams = NgramIndex.from_sorted_keys(vocabulary, levels)
        if n < order:
            found = ngrams.find_many(n, numbers[inside - 1], tokens[inside])
            numbers = np.full(len(tokens), -1)
            numbers[inside] = found
    return ngrams, often
