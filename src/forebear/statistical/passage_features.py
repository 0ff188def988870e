"""Features of linear question answering: for each token of a passage, whether the answer may begin or end there."""

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

STOP, MARK = SHAPES.index("stop"), SHAPES.index("mark")
LOOK_BEFORE, LOOK_AFTER = 15, 10  # tokens around a stretch in which words of the question are looked for
TIE_TOLERANCE = 1e-9  # sums over other rows before it differ in their last bits
PART_KINDS = ("sentence", "clause", "stretch without words of the question")
FIGURES_OF_EACH = (
    "share of the question in or around the", "the same, compared with the best",
    "the question has most in common with the",
    "share of the question before the", "share of the question behind the",
    "begins the", "begins the best", "begins, compared with the best, the",
    "ends the", "ends the best", "ends, compared with the best, the",
)  # fmt: skip
PART_FIGURES = tuple(f"{what} {kind}" for kind in PART_KINDS for what in FIGURES_OF_EACH)
NEIGHBOR_OFFSETS = (-1, 0, 1)  # whose tokens are features too, counted from the token
WINDOWS = (3, 10, 30)  # tokens to either side in which words of the question are looked for
MAX_QUESTION_WORDS = 300  # words of questions that are features together with the look of a token
EDGES = ("", ", which ends a clause", ", which begins a clause", ", which is a clause")
NUM_LOOKS = len(SHAPES) * len(EDGES)  # how a token is written, and whether it begins or ends a clause
FIGURES = (
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
    *PART_FIGURES,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class PassageFeatures:
    """A question is the first text of a row and its passage the second. Every token of a row has figures, those of the
    question and the row's first among them, so that "no answer" has a place.

    weights  (V,) how rare each id is in the training rows, from 0 to 1; 0: it means nothing
    asking   (A,) the commonest ids of questions, rising. With each, answers may look different: a date to "when"
    shapes   (V + 1,) the number of each id's shape (shapes.py)
    """

    weights: np.ndarray
    asking: np.ndarray
    skipped: np.ndarray
    shapes: np.ndarray

    @classmethod
    def learned(cls, rows: TokenRows, *, vocabulary: int, skipped: np.ndarray, shapes: np.ndarray) -> PassageFeatures:
        keys = np.sort(rows.rows() * vocabulary + rows.tokens)
        found = np.bincount(keys[np.diff(keys, prepend=-1) != 0] % vocabulary, minlength=vocabulary)
        weights = np.log((1 + len(rows)) / (1 + found)) / max(1.0, np.log(1 + len(rows)))
        weights[skipped] = 0
        asks = (rows.segments == 0) & ~np.isin(rows.tokens, skipped)
        times = np.bincount(rows.tokens[asks], minlength=vocabulary)
        asking = np.sort(np.argsort(-times, kind="stable")[: min(MAX_QUESTION_WORDS, np.count_nonzero(times))])
        return cls(weights.astype(np.float32), asking, skipped, shapes)

    @property
    def width(self) -> int:
        return len(NEIGHBOR_OFFSETS) * (len(self.weights) + 1) + len(FIGURES) + len(self.asking) * NUM_LOOKS

    def of(self, rows: TokenRows) -> ColumnStack:
        """Each token's neighbours and figures, and how it looks beside what is asked."""
        words, figures, asked = [], [np.zeros((0, len(FIGURES)), np.float32)], []
        size = len(self.weights) + 1
        for chunk in (one for one in rows.chunks() if len(one.tokens)):
            around, here = pad_rows(chunk, size - 1, self.skipped)
            columns = np.stack(
                [around[here + at] + number * size for number, at in enumerate(NEIGHBOR_OFFSETS)], axis=1
            )
            indptr = np.arange(len(here) + 1) * len(NEIGHBOR_OFFSETS)
            values = np.ones(columns.size, np.float32)
            words.append(SparseMatrix(indptr, columns.ravel().astype(np.int32), values, len(NEIGHBOR_OFFSETS) * size))
            figures.append(self._chunk(chunk))
            asked.append(self._asked(chunk, figures[-1]))
        of_words, of_questions = (
            stack_rows(words, len(NEIGHBOR_OFFSETS) * size),
            stack_repeated_rows(asked, len(self.asking) * NUM_LOOKS),
        )
        return ColumnStack((of_words, DenseMatrix(np.concatenate(figures)), of_questions))

    def feature(self, column: int) -> FeatureName:
        number, token = divmod(column, len(self.weights) + 1)
        if number < len(NEIGHBOR_OFFSETS):
            return FeatureName((clipped_token(token, len(self.weights)),), f"{NEIGHBOR_OFFSETS[number]:+d}")
        column -= len(NEIGHBOR_OFFSETS) * (len(self.weights) + 1)
        if column < len(FIGURES):
            return FeatureName((), FIGURES[column])
        look, asked = divmod(column - len(FIGURES), len(self.asking))
        shape, edge = divmod(look, len(EDGES))
        return FeatureName((int(self.asking[asked]),), f"asked, of a token written {SHAPES[shape]}{EDGES[edge]}")

    def _asked(self, rows: TokenRows, figures: np.ndarray) -> RowRepeat:
        """The commonest words of each row's question, for every look that its tokens have."""
        owners, size = rows.rows(), len(self.asking)
        asks = (rows.segments == 0) & np.isin(rows.tokens, self.asking)
        keys = np.unique(owners[asks] * size + np.searchsorted(self.asking, rows.tokens[asks]))
        counts = np.bincount(keys // max(1, size), minlength=len(rows))
        begins, ends = (figures[:, FIGURES.index(f"{what} the clause")] > 0 for what in ("begins", "ends"))
        looks = self.shapes[rows.tokens] * len(EDGES) + 2 * begins + ends
        found, which = np.unique(owners * NUM_LOOKS + looks, return_inverse=True)
        row, look = np.divmod(found, NUM_LOOKS)
        entries = counts[row]
        indptr = np.concatenate(([0], np.cumsum(entries)))
        first = (np.cumsum(counts) - counts)[row]
        words = keys[np.repeat(first - indptr[:-1], entries) + np.arange(indptr[-1])] % max(1, size)
        columns = (np.repeat(look, entries) * size + words).astype(np.int32)
        return RowRepeat(SparseMatrix(indptr, columns, np.ones(len(columns), np.float32), size * NUM_LOOKS), which)

    def _chunk(self, rows: TokenRows) -> np.ndarray:
        tokens, owners = rows.tokens.astype(np.int64), rows.rows()
        inside = (rows.segments == 1) & ~np.isin(tokens, self.skipped)
        asks = (rows.segments == 0) & ~np.isin(tokens, self.skipped)
        size = len(self.weights)
        keys = owners * size + tokens
        asked = np.unique(keys[asks], return_index=True)
        total = np.bincount(owners[asks][asked[1]], self.weights[tokens[asks][asked[1]]], len(rows))
        matched = inside & np.isin(keys, asked[0])
        weight = np.where(matched, self.weights[tokens], 0) / np.maximum(total, 1e-6)[owners]
        with_next = np.append(asks[:-1] & asks[1:] & (owners[:-1] == owners[1:]), False)
        _, numbers = np.unique(keys, return_inverse=True)  # pairs as numbers of rows' own tokens, which stay small
        pairs = numbers * (len(keys) + 1) + np.append(numbers[1:], len(keys))
        paired = np.append(inside[:-1] & inside[1:], False) & np.isin(pairs, pairs[with_next])
        return self._figures(rows, inside, matched, weight, paired)

    def _figures(
        self, rows: TokenRows, inside: np.ndarray, matched: np.ndarray, weight: np.ndarray, paired: np.ndarray
    ) -> np.ndarray:
        owners, here = rows.rows(), np.arange(len(rows.tokens))
        ends = np.cumsum(rows.lengths)[owners]
        begins = ends - rows.lengths[owners]
        count = np.concatenate(([0], np.cumsum(inside)))
        place, long = count[here] - count[begins], count[ends] - count[begins]
        after_match, before_match = _neighbor_flags(matched, owners, 1), _neighbor_flags(matched, owners, -1)
        before = _nearest_before(after_match, here, begins)
        behind = len(here) - 1 - _nearest_before(before_match[::-1], here, (len(here) - ends)[::-1])[::-1]
        told = [
            ~inside, here == begins, inside & (place == 0), inside & (place == long - 1),
            self.weights[rows.tokens], place / np.maximum(long, 1),
            matched, weight, after_match, before_match, _neighbor_flags(paired, owners, 1), paired,
            (before >= begins) / (1 + here - before), (behind < ends) / (1 + behind - here),
        ]  # fmt: skip
        for one in (weight, np.where(paired | _neighbor_flags(paired, owners, 1), weight, 0)):
            sums = np.concatenate(([0.0], np.cumsum(one)))
            told += [sums[here] - sums[np.maximum(here - size, begins)] for size in WINDOWS]
            told += [sums[np.minimum(here + 1 + size, ends)] - sums[here + 1] for size in WINDOWS]
        told += _part_figures(rows.tokens, owners, self.shapes[rows.tokens], inside, weight)
        table = np.zeros((len(here), len(FIGURES)), np.float32)
        for column, figures in enumerate(told):
            table[:, column] = figures if column < 2 else np.where(inside, figures, 0)
        return table

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        is_asking = np.zeros(len(self.weights), np.uint8)
        is_asking[self.asking] = 1
        return {"weights_of_tokens": self.weights, "asking": is_asking}

    @classmethod
    def load(
        cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, skipped: np.ndarray, shapes: np.ndarray
    ) -> PassageFeatures:
        weights, asking = arrays["weights_of_tokens"], arrays["asking"]
        if weights.dtype != np.float32 or weights.shape != (vocabulary,) or not np.isfinite(weights).all():
            what = f"the array 'weights_of_tokens' holds {weights.dtype} {list(weights.shape)}"
            raise ForebearError(f"{what} instead of {vocabulary} weights", hint="use an earlier checkpoint")
        if asking.dtype != np.uint8 or asking.shape != (vocabulary,):
            what = f"the array 'asking' holds {asking.dtype} {list(asking.shape)} instead of {vocabulary} flags"
            raise ForebearError(what, hint="use an earlier checkpoint")
        return cls(weights, np.flatnonzero(asking), skipped, shapes)


def _neighbor_flags(flags: np.ndarray, owners: np.ndarray, by: int) -> np.ndarray:
    """The flag of the token before (by 1) or behind (by -1) each, in the same row."""
    told = np.roll(flags, by) & (np.roll(owners, by) == owners)
    told[: max(by, 0)] = False  # the roll comes round; one row alone would meet itself
    told[len(told) + min(by, 0) :] = False
    return told


def _nearest_before(flags: np.ndarray, here: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The last place up to each where a flag stands, or one before the row's begin."""
    last = np.maximum.accumulate(np.where(flags, here, -1))
    return np.where(last >= begins, last, begins - 1)


# --- Sentences, clauses and shorter stretches of a passage, and how much of its question is in or around each ---


def _part_figures(
    tokens: np.ndarray, owners: np.ndarray, shapes: np.ndarray, inside: np.ndarray, weights: np.ndarray
) -> list[np.ndarray]:
    """PART_FIGURES, (T,) each, of the tokens of rows (`owners`).

    inside   (T,) which of them are of a passage
    weights  (T,) what they are of their question: 0 where they do not stand in it
    """
    stops = (shapes == STOP) | ~inside
    marks = (shapes == MARK) | stops
    told: list[np.ndarray] = []
    for bounds in (stops, marks):
        part = PassageParts.closed_by(bounds, owners)
        told += part.figures(part.having(tokens, weights), part.begins, part.ends | _next_flags(bounds))
    bounds = marks | (weights > 0)
    part = PassageParts.closed_by(bounds | _next_flags(bounds), owners)
    around = np.where(bounds[part.begins], 0.0, part.around(weights))
    return told + part.figures(around, part.begins & ~bounds, part.ends & ~bounds)


@dataclass(frozen=True, eq=False)
class PassageParts:
    """Tokens that follow each other, cut into parts: `number` (T,) of each token's part, rising from 0; `rows` (P,)."""

    number: np.ndarray
    rows: np.ndarray

    @classmethod
    def closed_by(cls, bounds: np.ndarray, owners: np.ndarray) -> PassageParts:
        """A part ends with a token that is a bound, and with its row."""
        begins = np.ones(len(owners), bool)
        begins[1:] = bounds[:-1] | (owners[1:] != owners[:-1])
        return cls(np.cumsum(begins) - 1, owners[begins])

    @property
    def begins(self) -> np.ndarray:
        """(T,) whether a token is the first of its part."""
        return np.diff(self.number, prepend=-1) != 0

    @property
    def ends(self) -> np.ndarray:
        """(T,) whether a token is the last of its part."""
        return _next_flags(self.begins)

    def having(self, tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(P,) what the tokens in each part weigh, those that are alike counted once."""
        some = np.flatnonzero(weights)
        _, first = np.unique(self.number[some] * (int(tokens.max(initial=0)) + 1) + tokens[some], return_index=True)
        return np.bincount(self.number[some][first], weights[some][first], len(self.rows))

    def around(self, weights: np.ndarray) -> np.ndarray:
        """(P,) what the tokens near each part weigh, in its row."""
        sums = np.concatenate(([0.0], np.cumsum(weights)))
        first, last = np.flatnonzero(self.begins), np.flatnonzero(self.ends)
        begins, ends = np.searchsorted(self.rows, self.rows), np.searchsorted(self.rows, self.rows, side="right") - 1
        return (
            sums[np.minimum(last + LOOK_AFTER, last[ends]) + 1] - sums[np.maximum(first - LOOK_BEFORE, first[begins])]
        )

    def figures(self, scores: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
        """FIGURES_OF_EACH, from the scores of parts, and with which tokens (T,) a part may be said to begin and to end."""
        firsts = np.flatnonzero(np.diff(self.rows, prepend=-1))
        best = np.repeat(np.maximum.reduceat(scores, firsts) if len(firsts) else scores, self._counts(firsts))
        compared = np.divide(scores, best, out=np.zeros(len(scores)), where=best > 0)
        of = self.number
        most = (compared > 1 - TIE_TOLERANCE)[of]
        same = self.rows[1:] == self.rows[:-1]
        before, behind = np.zeros(len(scores)), np.zeros(len(scores))
        before[1:], behind[:-1] = np.where(same, scores[:-1], 0), np.where(same, scores[1:], 0)
        compared = compared[of]
        return [
            scores[of], compared, most, before[of], behind[of],
            begins, begins & most, begins * compared, ends, ends & most, ends * compared,
        ]  # fmt: skip

    def _counts(self, firsts: np.ndarray) -> np.ndarray:
        """How many parts the rows have that begin with the parts `firsts`."""
        return np.diff(np.append(firsts, len(self.rows)))


def _next_flags(flags: np.ndarray) -> np.ndarray:
    """(T,) the flag of the token behind each; behind the last everything ends."""
    return np.append(flags[1:], True)[: len(flags)]
