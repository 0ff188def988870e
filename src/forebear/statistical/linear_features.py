"""Features of linear models: tf-idf n-grams of texts and text pairs, and context words of words to be tagged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from forebear.data.unicode import SHAPES
from forebear.errors import ForebearError, InputError
from forebear.statistical.feature_matrix import SparseMatrix, stack_rows
from forebear.statistical.ngram.index import NgramIndex

# --- Rows of tokens ---

CHUNK_TOKENS = 1 << 20  # tokens processed at once: bounds memory


def row_chunks(lengths: np.ndarray, max_tokens: int) -> Iterator[tuple[slice, slice]]:
    """Slices of rows and of their concatenated tokens, each of one row or of up to `max_tokens` tokens."""
    ends = np.concatenate(([0], np.cumsum(lengths)))
    first = 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + max_tokens, side="right")) - 1)
        yield slice(first, last), slice(int(ends[first]), int(ends[last]))
        first = last


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Concatenated rows: token ids (T,), row lengths (B,), and segment ids (T,), 0 or 1 in the texts of a pair."""

    tokens: np.ndarray
    lengths: np.ndarray
    segments: np.ndarray | None = None

    @classmethod
    def from_rows(cls, inputs: Mapping[str, np.ndarray], *, vocab_size: int, is_segmented: bool) -> TokenRows:
        """From the inputs of a batch; raise an error unless they are valid."""
        tokens, lengths = np.asarray(inputs["tokens"]), np.asarray(inputs["lengths"], np.int64)
        segments = inputs.get("segments")
        if lengths.sum() != len(tokens) or (lengths < 0).any():
            raise ForebearError(f"rows of {int(lengths.sum()):,} tokens in all, but there are {len(tokens):,}")
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
            message = f"a row holds ids outside 0 to {vocab_size - 1}"
            raise InputError(message, hint="prepare the text with the tokenizer of this run")
        if not is_segmented:
            return cls(tokens, lengths)
        if segments is None or len(segments) != len(tokens) or not np.isin(segments, (0, 1)).all():
            raise ForebearError("of two texts, each token has to say whether it is of the first (0) or the second (1)")
        return cls(tokens, lengths, np.asarray(segments))

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self) -> np.ndarray:
        """(T,) the row index of each token."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def drop(self, ids: np.ndarray) -> TokenRows:
        """The same rows without these ids."""
        is_kept = ~np.isin(self.tokens, ids)
        lengths = np.bincount(self.rows()[is_kept], minlength=len(self.lengths))
        return TokenRows(self.tokens[is_kept], lengths, None if self.segments is None else self.segments[is_kept])

    def token_positions(self) -> np.ndarray:
        """(T,) position of each token in its text: n-grams do not cross text boundaries."""
        texts = self.rows() * 2 + (0 if self.segments is None else self.segments)
        positions = np.arange(len(self.tokens))
        is_start = np.diff(texts, prepend=-1) != 0
        return positions - np.maximum.accumulate(np.where(is_start, positions, 0))

    def chunks(self) -> Iterator[TokenRows]:
        """The rows in chunks of bounded size."""
        for rows, tokens in row_chunks(self.lengths, CHUNK_TOKENS):
            segments = None if self.segments is None else self.segments[tokens]
            yield TokenRows(self.tokens[tokens], self.lengths[rows], segments)


# --- Texts and text pairs ---

LARGE_TEXT_TOKENS = 1 << 20  # tokens; in larger training sets n-grams that occur once are dropped by default
PAIR_FIELDS = ("first", "second", "both")


class FeatureName(NamedTuple):
    """Description of a column: an n-gram (its ids) and its field, or a named dense feature."""

    tokens: tuple[int, ...]
    field: str


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """N-gram features weighted by inverse document frequency, learned from training rows.

    A text is the set of its n-grams; its vector has unit length. For a pair, n-grams of the first text only, of the
    second only and of both are three different features, followed by dense features of the overlap.

    weights  (N,) inverse document frequencies of all n-grams, unigrams first; 0: too rare to be a feature
    """

    ngrams: NgramIndex
    weights: np.ndarray
    special_ids: np.ndarray
    is_pair: bool

    @classmethod
    def fit(
        cls,
        rows: TokenRows,
        *,
        vocab_size: int,
        order: int,
        is_pair: bool,
        special_ids: np.ndarray,
        min_count: int | None,
    ) -> TextFeatures:
        rows = rows.drop(special_ids)
        if min_count is None:
            min_count = 2 if len(rows.tokens) > LARGE_TEXT_TOKENS else 1
        ngrams, token_counts = _frequent_ngrams(rows, vocab_size, order, min_count)
        unweighted = cls(
            ngrams, np.ones(sum(map(ngrams.num_ngrams, range(1, order + 1))), np.float32), special_ids, is_pair
        )
        document_counts = np.zeros(len(unweighted.weights), np.int64)
        for chunk in rows.chunks():
            for level in unweighted.levels(chunk):
                columns = level.columns[level.distinct() % len(level.columns)]
                document_counts += np.bincount(columns[columns >= 0], minlength=len(document_counts))
        weights = np.log((1 + len(rows)) / (1 + document_counts)) + 1
        weights[:vocab_size][token_counts < min_count] = 0
        return cls(ngrams, weights.astype(np.float32), special_ids, is_pair)

    @property
    def width(self) -> int:
        return len(self.weights) * len(PAIR_FIELDS) + len(self.overlap_names) if self.is_pair else len(self.weights)

    @cached_property
    def overlap_names(self) -> tuple[str, ...]:
        """Names of the overlap features of a pair."""
        if not self.is_pair:
            return ()
        by_order = ("shared of all {}-grams", "shared of the first's {}-grams", "shared of the second's {}-grams")
        orders = range(1, self.ngrams.order + 1)
        return (*(name.format(n) for n in orders for name in by_order), "length of the shorter by the longer")

    def transform(self, rows: TokenRows) -> SparseMatrix:
        """The feature matrix of these rows."""
        parts = [self._chunk(chunk) for chunk in rows.drop(self.special_ids).chunks()]
        return stack_rows(parts, self.width)

    def feature(self, column: int) -> FeatureName:
        """Description of a column."""
        field_id, ngram_id = divmod(column, len(self.weights))
        if self.is_pair and field_id >= len(PAIR_FIELDS):
            return FeatureName((), self.overlap_names[column - len(PAIR_FIELDS) * len(self.weights)])
        n = 1
        while ngram_id >= self.ngrams.num_ngrams(n):
            ngram_id -= self.ngrams.num_ngrams(n)
            n += 1
        tokens: list[int] = []
        for keys in (self.ngrams.sorted_keys(length) for length in range(n, 1, -1)):
            ngram_id, last = divmod(int(keys[ngram_id]), self.ngrams.vocab_size)
            tokens.append(last)
        return FeatureName((ngram_id, *reversed(tokens)), PAIR_FIELDS[field_id] if self.is_pair else "text")

    def levels(self, rows: TokenRows) -> Iterator[NgramColumns]:
        """The n-grams of these rows, length by length, including unknown ones."""
        positions, row_ids = rows.token_positions(), rows.rows()
        tokens, ids = np.unique(rows.tokens, return_inverse=True)
        columns = tokens.astype(np.int64)
        token_ids, ngram_ids, eligible, offset = ids, ids, np.arange(len(ids)), 0
        for n in range(1, self.ngrams.order + 1):
            if n > 1:
                prefix_ids = ngram_ids
                eligible = np.flatnonzero(positions >= n - 1)
                keys, ids = np.unique(prefix_ids[eligible - 1] * len(tokens) + token_ids[eligible], return_inverse=True)
                prefixes, last_tokens = np.divmod(keys, max(1, len(tokens)))
                columns = self.ngrams.find_many(n, columns[prefixes], tokens[last_tokens].astype(np.int64))
                ngram_ids = np.full(len(token_ids), -1)
                ngram_ids[eligible] = ids
            segments = None if rows.segments is None else rows.segments[eligible]
            yield NgramColumns(row_ids[eligible], ids, np.where(columns >= 0, columns + offset, -1), segments)
            offset += self.ngrams.num_ngrams(n)

    def _chunk(self, rows: TokenRows) -> SparseMatrix:
        row_ids, columns, values = [], [], []
        overlaps = np.zeros((len(rows), len(self.overlap_names)), np.float32)
        for n, level in enumerate(self.levels(rows)):
            for field_id, keys in enumerate(level.per_row() if self.is_pair else [level.distinct()]):
                ngram_rows, ngram_columns = np.divmod(keys, max(1, len(level.columns)))
                ngram_columns = level.columns[ngram_columns]
                weight = np.where(ngram_columns >= 0, self.weights[ngram_columns], 0)
                if self.is_pair:
                    weights = np.where(weight > 0, weight, self.weights.max())  # unknown n-grams are rare
                    overlaps[:, 3 * n + field_id] = np.bincount(ngram_rows, weights, len(rows))
                is_kept = weight > 0
                row_ids.append(ngram_rows[is_kept])
                columns.append(ngram_columns[is_kept] + field_id * len(self.weights))
                values.append(weight[is_kept])
        row_id, value = np.concatenate(row_ids), np.concatenate(values)
        value /= np.sqrt(np.bincount(row_id, value.astype(np.float64) ** 2, len(rows)))[row_id]
        column = np.concatenate(columns)
        if self.is_pair:
            overlaps = _shared_fractions(overlaps, rows)
            row_id = np.append(row_id, np.repeat(np.arange(len(rows)), overlaps.shape[1]))
            overlap_columns = len(PAIR_FIELDS) * len(self.weights) + np.arange(overlaps.shape[1])
            column = np.append(column, np.tile(overlap_columns, len(rows)))
            value = np.append(value, overlaps.ravel())
        order = np.argsort(row_id, kind="stable")
        indptr = np.concatenate(([0], np.cumsum(np.bincount(row_id, minlength=len(rows)))))
        return SparseMatrix(indptr, column[order].astype(np.int32), value[order].astype(np.float32), self.width)

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        return self.ngrams.arrays() | {"weights_of_ngrams": self.weights}

    @classmethod
    def load(
        cls, arrays: Mapping[str, np.ndarray], *, vocab_size: int, order: int, is_pair: bool, special_ids: np.ndarray
    ) -> TextFeatures:
        ngrams = NgramIndex.load(arrays, vocab_size=vocab_size, order=order)
        weights, size = arrays["weights_of_ngrams"], sum(map(ngrams.num_ngrams, range(1, order + 1)))
        if weights.dtype != np.float32 or weights.shape != (size,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ForebearError(
                f"the array 'weights_of_ngrams' holds {weights.dtype} {list(weights.shape)} instead of {size} weights",
                hint="use an earlier checkpoint",
            )
        return cls(ngrams, weights, special_ids, is_pair)


class NgramColumns(NamedTuple):
    """The n-grams of one length: row and local id of each, and the column of each local id (-1: unknown)."""

    row_ids: np.ndarray
    ngram_ids: np.ndarray
    columns: np.ndarray
    segments: np.ndarray | None

    def distinct(self) -> np.ndarray:
        """The distinct n-grams of each row, as row · n-grams + id."""
        return _distinct(self.row_ids * len(self.columns) + self.ngram_ids)

    def per_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distinct n-grams of each row: first text only, second text only, and both."""
        keys = self.row_ids * len(self.columns) + self.ngram_ids
        first, second = _distinct(keys[self.segments == 0]), _distinct(keys[self.segments == 1])
        both = np.intersect1d(first, second, assume_unique=True)
        return np.setdiff1d(first, both, assume_unique=True), np.setdiff1d(second, both, assume_unique=True), both


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Sorted unique keys; faster than np.unique, which builds a hash table."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) != 0]


def _shared_fractions(sums: np.ndarray, rows: TokenRows) -> np.ndarray:
    """(B, features) overlap ratios, from weight sums of n-grams of the first text only, the second only, and both."""
    first, second, both = sums[:, 0:-1:3], sums[:, 1:-1:3], sums[:, 2:-1:3]
    fractions = np.empty_like(sums)
    for column, total in enumerate((first + second + both, first + both, second + both)):
        fractions[:, column:-1:3] = np.divide(both, total, out=np.zeros_like(both), where=total > 0)
    lengths = np.bincount(rows.rows() * 2 + rows.segments, minlength=2 * len(rows)).reshape(-1, 2)
    fractions[:, -1] = lengths.min(axis=1) / np.maximum(lengths.max(axis=1), 1)
    return fractions


def _frequent_ngrams(rows: TokenRows, vocab_size: int, order: int, min_count: int) -> tuple[NgramIndex, np.ndarray]:
    """The n-grams that occur at least `min_count` times, and the token counts."""
    tokens, positions = rows.tokens.astype(np.int64), rows.token_positions()
    token_counts = np.bincount(tokens, minlength=vocab_size)
    ngrams, levels = NgramIndex(vocab_size, (), ()), []
    ngram_ids = np.where(token_counts[tokens] >= min_count, tokens, -1)
    for n in range(2, order + 1):
        eligible = np.flatnonzero(positions >= n - 1)
        eligible = eligible[ngram_ids[eligible - 1] >= 0]
        keys, counts = np.unique(ngram_ids[eligible - 1] * vocab_size + tokens[eligible], return_counts=True)
        levels.append(keys[counts >= min_count])
        ngrams = NgramIndex.from_sorted_keys(vocab_size, levels)
        if n < order:
            ids = ngrams.find_many(n, ngram_ids[eligible - 1], tokens[eligible])
            ngram_ids = np.full(len(tokens), -1)
            ngram_ids[eligible] = ids
    return ngrams, token_counts


# --- Words to be tagged ---

WORD_OFFSETS = (-2, -1, 0, 1, 2)  # context tokens that are features
PAIR_OFFSETS = (-1, 0, 1, 2)  # second tokens of the bigrams that are features
SHAPE_OFFSETS = (-1, 0, 1)  # tokens whose shapes are features, individually and jointly
MAX_OFFSET = 2
LARGE_TAGGED_WORDS = 1 << 17  # with more words, bigrams that occur once are dropped: same accuracy, twice as fast
OUTSIDE = -1  # token of positions outside the row and of special ids


@dataclass(frozen=True, eq=False)
class WordFeatures:
    """Features of a word and its context: all tokens, and the bigrams that occur in training.

    bigrams  over the vocabulary and one more id, for positions outside the row
    shapes   (V + 1,) word shape of each id; None: not used
    """

    bigrams: NgramIndex
    special_ids: np.ndarray
    shapes: np.ndarray | None = None

    @classmethod
    def fit(
        cls,
        rows: TokenRows,
        positions: np.ndarray,
        *,
        vocab_size: int,
        special_ids: np.ndarray,
        min_count: int | None,
        shapes: np.ndarray | None = None,
    ) -> WordFeatures:
        """From training rows; `positions` are the tokens with targets."""
        if min_count is None:
            min_count = 2 if len(positions) > LARGE_TAGGED_WORDS else 1
        padded, padded_positions = pad_rows(rows, vocab_size, special_ids)
        is_second = np.zeros(len(padded), bool)
        for offset in PAIR_OFFSETS:
            is_second[padded_positions[positions] + offset] = True
        ends = np.flatnonzero(is_second)
        keys, counts = np.unique(padded[ends - 1] * (vocab_size + 1) + padded[ends], return_counts=True)
        return cls(NgramIndex.from_sorted_keys(vocab_size + 1, [keys[counts >= min_count]]), special_ids, shapes)

    @property
    def width(self) -> int:
        num_shape_features = len(SHAPE_OFFSETS) * len(SHAPES) + len(SHAPES) ** len(SHAPE_OFFSETS)
        return self._num_token_features + (0 if self.shapes is None else num_shape_features)

    @property
    def _num_token_features(self) -> int:
        """Number of token and bigram features, which precede those of shapes."""
        return len(WORD_OFFSETS) * self.bigrams.vocab_size + len(PAIR_OFFSETS) * self.bigrams.num_ngrams(2)

    def transform(self, rows: TokenRows, positions: np.ndarray) -> SparseMatrix:
        """A row for each of these tokens."""
        padded, padded_positions = pad_rows(rows, self.bigrams.vocab_size - 1, self.special_ids)
        size, first_pair = self.bigrams.vocab_size, len(WORD_OFFSETS) * self.bigrams.vocab_size
        matrices = []
        for begin in range(0, len(positions), CHUNK_TOKENS):
            centers = padded_positions[positions[begin : begin + CHUNK_TOKENS]]
            columns = [padded[centers + offset] + index * size for index, offset in enumerate(WORD_OFFSETS)]
            for index, offset in enumerate(PAIR_OFFSETS):
                pair_ids = self.bigrams.find_many(2, padded[centers + offset - 1], padded[centers + offset])
                columns.append(np.where(pair_ids < 0, -1, pair_ids + first_pair + index * self.bigrams.num_ngrams(2)))
            if self.shapes is not None:
                shapes = [self.shapes[padded[centers + offset]] for offset in SHAPE_OFFSETS]
                joint = np.ravel_multi_index(shapes, (len(SHAPES),) * len(SHAPE_OFFSETS))
                first_shapes = self._num_token_features + len(SHAPES) * np.arange(len(SHAPE_OFFSETS) + 1)
                columns += [first + shape for first, shape in zip(first_shapes, (*shapes, joint), strict=True)]
            column_table = np.stack(columns, axis=1).astype(np.int32)
            is_present = column_table >= 0
            indptr = np.concatenate(([0], np.cumsum(is_present.sum(axis=1))))
            values = np.ones(int(indptr[-1]), np.float32)
            matrices.append(SparseMatrix(indptr, column_table[is_present], values, self.width))
        return stack_rows(matrices, self.width)

    def feature(self, column: int) -> FeatureName:
        """Description of a column: one or two tokens and the offset of the last, or shapes."""
        size = self.bigrams.vocab_size
        if column >= self._num_token_features:
            index, shape = divmod(column - self._num_token_features, len(SHAPES))
            if index < len(SHAPE_OFFSETS):
                return FeatureName((), f"written {SHAPES[shape]}, at {SHAPE_OFFSETS[index]:+d}")
            joint = column - self._num_token_features - len(SHAPE_OFFSETS) * len(SHAPES)
            shape_ids = np.unravel_index(joint, (len(SHAPES),) * len(SHAPE_OFFSETS))
            return FeatureName((), f"written {', '.join(SHAPES[int(shape_id)] for shape_id in shape_ids)}, around it")
        index, token = divmod(column, size)
        if index < len(WORD_OFFSETS):
            return FeatureName((clipped_token(token, size - 1),), f"{WORD_OFFSETS[index]:+d}")
        index, pair = divmod(column - len(WORD_OFFSETS) * size, self.bigrams.num_ngrams(2))
        tokens = (clipped_token(token, size - 1) for token in divmod(int(self.bigrams.sorted_keys(2)[pair]), size))
        return FeatureName(tuple(tokens), f"{PAIR_OFFSETS[index]:+d}")

    def arrays(self) -> dict[str, np.ndarray]:
        return self.bigrams.arrays()

    @classmethod
    def load(
        cls,
        arrays: Mapping[str, np.ndarray],
        *,
        vocab_size: int,
        special_ids: np.ndarray,
        shapes: np.ndarray | None = None,
    ) -> WordFeatures:
        return cls(NgramIndex.load(arrays, vocab_size=vocab_size + 1, order=2), special_ids, shapes)


def clipped_token(token: int, vocab_size: int) -> int:
    return OUTSIDE if token == vocab_size else token


def pad_rows(rows: TokenRows, vocab_size: int, special_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate the rows, padded on both sides; also returns the position of each token."""
    positions = np.arange(len(rows.tokens)) + MAX_OFFSET * (2 * rows.rows() + 1)
    padded = np.full(len(rows.tokens) + 2 * MAX_OFFSET * len(rows), vocab_size, np.int64)
    padded[positions] = np.where(np.isin(rows.tokens, special_ids), vocab_size, rows.tokens)
    return padded, positions
