"""Features of linear question answering, for each token of a passage as the start or end of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from forebear.data.unicode import SHAPES
from forebear.errors import ForebearError
from forebear.statistical.feature_matrix import (
    ColumnStack,
    DenseMatrix,
    RowRepeat,
    SparseMatrix,
    stack_repeated_rows,
    stack_rows,
)
from forebear.statistical.linear_features import FeatureName, TokenRows, clipped_token, pad_rows

STOP_SHAPE, MARK_SHAPE = SHAPES.index("stop"), SHAPES.index("mark")
TOKENS_BEFORE_PART, TOKENS_AFTER_PART = 15, 10  # tokens around a part searched for words of the question
TIE_TOLERANCE = 1e-9  # equal scores may differ by rounding, since they come from cumulative sums
PART_KINDS = ("sentence", "clause", "stretch without words of the question")
PART_FEATURE_NAMES = (
    "share of the question in or around the", "the same, compared with the best",
    "the question has most in common with the",
    "share of the question before the", "share of the question behind the",
    "begins the", "begins the best", "begins, compared with the best, the",
    "ends the", "ends the best", "ends, compared with the best, the",
)  # fmt: skip
ALL_PART_FEATURES = tuple(f"{what} {kind}" for kind in PART_KINDS for what in PART_FEATURE_NAMES)
NEIGHBOR_OFFSETS = (-1, 0, 1)  # context tokens that are features
WINDOWS = (3, 10, 30)  # tokens to either side searched for words of the question
MAX_QUESTION_WORDS = 300  # question words combined with the class of a token
EDGES = ("", ", which ends a clause", ", which begins a clause", ", which is a clause")
CLAUSE_FEATURES = ("begins the clause", "ends the clause")
NUM_TOKEN_CLASSES = len(SHAPES) * len(EDGES)  # word shape, and whether the token begins or ends a clause
DENSE_FEATURES = (
    "outside the passage", "the row's first token", "the passage's first token", "the passage's last token",
    "how rare the token is", "how far on in the passage",
    "in the question", "in the question, by rarity", "the one before is in the question",
    "the one behind is in the question", "a pair with the one before is in the question",
    "a pair with the one behind is in the question", "nearness of the question's words before",
    "nearness of the question's words behind",
    *(f"share of the question in {size} tokens before" for size in WINDOWS),
    *(f"share of the question in {size} tokens behind" for size in WINDOWS),
    *(f"pairs of the question in {size} tokens before" for size in WINDOWS),
    *(f"pairs of the question in {size} tokens behind" for size in WINDOWS),
    *ALL_PART_FEATURES,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class PassageFeatures:
    """Features of each token of a (question, passage) row, including the first token, which represents "no answer".

    weights         (V,) rarity of each id in the training rows, from 0 to 1; 0: ignored
    question_words  (A,) the most frequent ids of questions, combined with token classes: "when" with digits
    shapes          (V + 1,) word shape of each id
    """

    weights: np.ndarray
    question_words: np.ndarray
    special_ids: np.ndarray
    shapes: np.ndarray

    @classmethod
    def fit(cls, rows: TokenRows, *, vocab_size: int, special_ids: np.ndarray, shapes: np.ndarray) -> PassageFeatures:
        keys = np.sort(rows.rows() * vocab_size + rows.tokens)
        document_counts = np.bincount(keys[np.diff(keys, prepend=-1) != 0] % vocab_size, minlength=vocab_size)
        weights = np.log((1 + len(rows)) / (1 + document_counts)) / max(1.0, np.log(1 + len(rows)))
        weights[special_ids] = 0
        is_question = (rows.segments == 0) & ~np.isin(rows.tokens, special_ids)
        counts = np.bincount(rows.tokens[is_question], minlength=vocab_size)
        question_words = np.sort(
            np.argsort(-counts, kind="stable")[: min(MAX_QUESTION_WORDS, np.count_nonzero(counts))]
        )
        return cls(weights.astype(np.float32), question_words, special_ids, shapes)

    @property
    def width(self) -> int:
        return (
            len(NEIGHBOR_OFFSETS) * (len(self.weights) + 1)
            + len(DENSE_FEATURES)
            + len(self.question_words) * NUM_TOKEN_CLASSES
        )

    def transform(self, rows: TokenRows) -> ColumnStack:
        """Context tokens, dense features, and combinations of question words with token classes."""
        words, dense, question_parts = [], [np.zeros((0, len(DENSE_FEATURES)), np.float32)], []
        vocab_size, width = len(self.weights) + 1, len(NEIGHBOR_OFFSETS) * (len(self.weights) + 1)
        for chunk in (part for part in rows.chunks() if len(part.tokens)):
            padded, positions = pad_rows(chunk, vocab_size - 1, self.special_ids)
            neighbors = [
                padded[positions + offset] + index * vocab_size for index, offset in enumerate(NEIGHBOR_OFFSETS)
            ]
            columns = np.stack(neighbors, axis=1).ravel().astype(np.int32)
            indptr = np.arange(len(positions) + 1) * len(NEIGHBOR_OFFSETS)
            words.append(SparseMatrix(indptr, columns, np.ones(columns.size, np.float32), width))
            dense.append(self._dense_features(chunk))
            question_parts.append(self._question_features(chunk, dense[-1]))
        question_matrix = stack_repeated_rows(question_parts, len(self.question_words) * NUM_TOKEN_CLASSES)
        return ColumnStack((stack_rows(words, width), DenseMatrix(np.concatenate(dense)), question_matrix))

    def feature(self, column: int) -> FeatureName:
        index, token = divmod(column, len(self.weights) + 1)
        if index < len(NEIGHBOR_OFFSETS):
            return FeatureName((clipped_token(token, len(self.weights)),), f"{NEIGHBOR_OFFSETS[index]:+d}")
        column -= len(NEIGHBOR_OFFSETS) * (len(self.weights) + 1)
        if column < len(DENSE_FEATURES):
            return FeatureName((), DENSE_FEATURES[column])
        token_class, question_word = divmod(column - len(DENSE_FEATURES), len(self.question_words))
        shape, edge = divmod(token_class, len(EDGES))
        field = f"asked, of a token written {SHAPES[shape]}{EDGES[edge]}"
        return FeatureName((int(self.question_words[question_word]),), field)

    def _question_features(self, rows: TokenRows, dense: np.ndarray) -> RowRepeat:
        """The frequent question words of each row, for every class of its tokens."""
        row_ids, size = rows.rows(), len(self.question_words)
        is_question = (rows.segments == 0) & np.isin(rows.tokens, self.question_words)
        keys = np.unique(row_ids[is_question] * size + np.searchsorted(self.question_words, rows.tokens[is_question]))
        counts = np.bincount(keys // max(1, size), minlength=len(rows))
        begins_clause, ends_clause = (dense[:, DENSE_FEATURES.index(name)] > 0 for name in CLAUSE_FEATURES)
        token_classes = self.shapes[rows.tokens] * len(EDGES) + 2 * begins_clause + ends_clause
        class_keys, token_class_ids = np.unique(row_ids * NUM_TOKEN_CLASSES + token_classes, return_inverse=True)
        row, token_class = np.divmod(class_keys, NUM_TOKEN_CLASSES)
        entries = counts[row]
        indptr = np.concatenate(([0], np.cumsum(entries)))
        first = (np.cumsum(counts) - counts)[row]
        words = keys[np.repeat(first - indptr[:-1], entries) + np.arange(indptr[-1])] % max(1, size)
        columns = (np.repeat(token_class, entries) * size + words).astype(np.int32)
        class_matrix = SparseMatrix(indptr, columns, np.ones(len(columns), np.float32), size * NUM_TOKEN_CLASSES)
        return RowRepeat(class_matrix, token_class_ids)

    def _dense_features(self, rows: TokenRows) -> np.ndarray:
        """(T, len(DENSE_FEATURES)) features of the tokens."""
        tokens, row_ids = rows.tokens.astype(np.int64), rows.rows()
        in_passage = (rows.segments == 1) & ~np.isin(tokens, self.special_ids)
        in_question = (rows.segments == 0) & ~np.isin(tokens, self.special_ids)
        size = len(self.weights)
        keys = row_ids * size + tokens
        question_keys = np.unique(keys[in_question])
        total = np.bincount(question_keys // size, self.weights[question_keys % size], len(rows))
        is_match = in_passage & np.isin(keys, question_keys)
        weight = np.where(is_match, self.weights[tokens], 0) / np.maximum(total, 1e-6)[row_ids]
        with_next = np.append(in_question[:-1] & in_question[1:] & (row_ids[:-1] == row_ids[1:]), False)
        _, key_ids = np.unique(keys, return_inverse=True)  # small numbers, so that pairs fit into 64 bits
        pairs = key_ids * (len(keys) + 1) + np.append(key_ids[1:], len(keys))
        is_paired = np.append(in_passage[:-1] & in_passage[1:], False) & np.isin(pairs, pairs[with_next])
        return self._dense_table(rows, in_passage, is_match, weight, is_paired)

    def _dense_table(
        self, rows: TokenRows, in_passage: np.ndarray, is_match: np.ndarray, weight: np.ndarray, is_paired: np.ndarray
    ) -> np.ndarray:
        row_ids, positions = rows.rows(), np.arange(len(rows.tokens))
        row_ends = np.cumsum(rows.lengths)[row_ids]
        row_starts = row_ends - rows.lengths[row_ids]
        count = np.concatenate(([0], np.cumsum(in_passage)))
        passage_position, passage_length = count[positions] - count[row_starts], count[row_ends] - count[row_starts]
        after_match, before_match = _neighbor_flags(is_match, row_ids, 1), _neighbor_flags(is_match, row_ids, -1)
        last_match = _last_flag_before(after_match, positions, row_starts)
        mirrored = _last_flag_before(before_match[::-1], positions, (len(positions) - row_ends)[::-1])
        next_match = len(positions) - 1 - mirrored[::-1]
        columns = [
            ~in_passage, positions == row_starts, in_passage & (passage_position == 0),
            in_passage & (passage_position == passage_length - 1),
            self.weights[rows.tokens], passage_position / np.maximum(passage_length, 1),
            is_match, weight, after_match, before_match, _neighbor_flags(is_paired, row_ids, 1), is_paired,
            (last_match >= row_starts) / (1 + positions - last_match),
            (next_match < row_ends) / (1 + next_match - positions),
        ]  # fmt: skip
        for token_weights in (weight, np.where(is_paired | _neighbor_flags(is_paired, row_ids, 1), weight, 0)):
            sums, end = np.concatenate(([0.0], np.cumsum(token_weights))), positions + 1
            columns += [sums[positions] - sums[np.maximum(positions - size, row_starts)] for size in WINDOWS]
            columns += [sums[np.minimum(end + size, row_ends)] - sums[end] for size in WINDOWS]
        columns += _part_features(rows.tokens, row_ids, self.shapes[rows.tokens], in_passage, weight)
        table = np.zeros((len(positions), len(DENSE_FEATURES)), np.float32)
        for column, values in enumerate(columns):
            table[:, column] = values if column < 2 else np.where(in_passage, values, 0)
        return table

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        is_question_word = np.zeros(len(self.weights), np.uint8)
        is_question_word[self.question_words] = 1
        return {"weights_of_tokens": self.weights, "asking": is_question_word}

    @classmethod
    def load(
        cls, arrays: Mapping[str, np.ndarray], *, vocab_size: int, special_ids: np.ndarray, shapes: np.ndarray
    ) -> PassageFeatures:
        weights, is_question_word = arrays["weights_of_tokens"], arrays["asking"]
        if weights.dtype != np.float32 or weights.shape != (vocab_size,) or not np.isfinite(weights).all():
            message = f"the array 'weights_of_tokens' holds {weights.dtype} {list(weights.shape)}"
            raise ForebearError(f"{message} instead of {vocab_size} weights", hint="use an earlier checkpoint")
        if is_question_word.dtype != np.uint8 or is_question_word.shape != (vocab_size,):
            actual = f"{is_question_word.dtype} {list(is_question_word.shape)}"
            message = f"the array 'asking' holds {actual} instead of {vocab_size} flags"
            raise ForebearError(message, hint="use an earlier checkpoint")
        return cls(weights, np.flatnonzero(is_question_word), special_ids, shapes)


def _neighbor_flags(flags: np.ndarray, row_ids: np.ndarray, shift: int) -> np.ndarray:
    """The flag of the previous (1) or next (-1) token in the same row."""
    result = np.roll(flags, shift) & (np.roll(row_ids, shift) == row_ids)
    result[: max(shift, 0)] = False  # np.roll wraps around
    result[len(result) + min(shift, 0) :] = False
    return result


def _last_flag_before(flags: np.ndarray, positions: np.ndarray, row_starts: np.ndarray) -> np.ndarray:
    """The last flagged position up to each token, or the one before its row."""
    last = np.maximum.accumulate(np.where(flags, positions, -1))
    return np.where(last >= row_starts, last, row_starts - 1)


# --- Sentences, clauses and spans between question words: overlap of each with the question ---


def _part_features(
    tokens: np.ndarray, row_ids: np.ndarray, shapes: np.ndarray, in_passage: np.ndarray, weights: np.ndarray
) -> list[np.ndarray]:
    """PART_FIGURES, (T,) each, of the tokens.

    in_passage  (T,) whether a token is in a passage
    weights     (T,) fraction of the question's weight; 0 for tokens that are not in it
    """
    is_stop = (shapes == STOP_SHAPE) | ~in_passage
    is_mark = (shapes == MARK_SHAPE) | is_stop
    features: list[np.ndarray] = []
    for is_bound in (is_stop, is_mark):
        part = PassageParts.closed_by(is_bound, row_ids)
        features += part.features(
            part.distinct_weights(tokens, weights), part.begins, part.ends | _next_flags(is_bound)
        )
    is_bound = is_mark | (weights > 0)
    part = PassageParts.closed_by(is_bound | _next_flags(is_bound), row_ids)
    scores_around = np.where(is_bound[part.begins], 0.0, part.nearby_weights(weights))
    return features + part.features(scores_around, part.begins & ~is_bound, part.ends & ~is_bound)


@dataclass(frozen=True, eq=False)
class PassageParts:
    """A segmentation of the tokens: `part_ids` (T,) of each token's part, rising from 0; `rows` (P,) of each part."""

    part_ids: np.ndarray
    rows: np.ndarray

    @classmethod
    def closed_by(cls, is_bound: np.ndarray, row_ids: np.ndarray) -> PassageParts:
        """A part ends with a boundary token and with its row."""
        is_start = np.ones(len(row_ids), bool)
        is_start[1:] = is_bound[:-1] | (row_ids[1:] != row_ids[:-1])
        return cls(np.cumsum(is_start) - 1, row_ids[is_start])

    @property
    def begins(self) -> np.ndarray:
        """(T,) whether a token is the first of its part."""
        return np.diff(self.part_ids, prepend=-1) != 0

    @property
    def ends(self) -> np.ndarray:
        """(T,) whether a token is the last of its part."""
        return _next_flags(self.begins)

    def distinct_weights(self, tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(P,) total weight of the distinct tokens of each part."""
        positions = np.flatnonzero(weights)
        keys = self.part_ids[positions] * (int(tokens.max(initial=0)) + 1) + tokens[positions]
        first = positions[np.unique(keys, return_index=True)[1]]
        return np.bincount(self.part_ids[first], weights[first], len(self.rows))

    def nearby_weights(self, weights: np.ndarray) -> np.ndarray:
        """(P,) total weight of the tokens near each part, within its row."""
        sums = np.concatenate(([0.0], np.cumsum(weights)))
        part_starts, part_ends = np.flatnonzero(self.begins), np.flatnonzero(self.ends)
        row_starts = part_starts[np.searchsorted(self.rows, self.rows)]
        row_ends = part_ends[np.searchsorted(self.rows, self.rows, side="right") - 1]
        first = np.maximum(part_starts - TOKENS_BEFORE_PART, row_starts)
        last = np.minimum(part_ends + TOKENS_AFTER_PART, row_ends)
        return sums[last + 1] - sums[first]

    def features(self, scores: np.ndarray, may_begin: np.ndarray, may_end: np.ndarray) -> list[np.ndarray]:
        """FIGURES_OF_EACH, from the scores of parts and from the tokens (T,) at which a part may begin and end."""
        firsts = np.flatnonzero(np.diff(self.rows, prepend=-1))
        row_best = np.maximum.reduceat(scores, firsts) if len(firsts) else scores
        best_scores = np.repeat(row_best, np.diff(np.append(firsts, len(self.rows))))
        relative = np.divide(scores, best_scores, out=np.zeros(len(scores)), where=best_scores > 0)
        part_ids = self.part_ids
        is_best = (relative > 1 - TIE_TOLERANCE)[part_ids]
        same_row = self.rows[1:] == self.rows[:-1]
        previous_scores, next_scores = np.zeros(len(scores)), np.zeros(len(scores))
        previous_scores[1:], next_scores[:-1] = np.where(same_row, scores[:-1], 0), np.where(same_row, scores[1:], 0)
        relative = relative[part_ids]
        return [
            scores[part_ids], relative, is_best, previous_scores[part_ids], next_scores[part_ids],
            may_begin, may_begin & is_best, may_begin * relative, may_end, may_end & is_best, may_end * relative,
        ]  # fmt: skip


def _next_flags(flags: np.ndarray) -> np.ndarray:
    """(T,) the flag of the next token; True after the last."""
    return np.append(flags[1:], True)[: len(flags)]
