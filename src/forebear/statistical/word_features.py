"""What stands around a word: the tokens beside it, their pairs and their shapes, for models that tag each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from forebear.data.unicode import SHAPES
from forebear.statistical.matrices import SparseMatrix, stack_rows
from forebear.statistical.ngram.counts import NgramIndex
from forebear.statistical.text_features import FeatureName
from forebear.statistical.token_rows import CHUNK, TokenRows

WORDS = (-2, -1, 0, 1, 2)  # whose tokens are features, counted from the word
PAIRS = (-1, 0, 1, 2)  # which token and the one before it are a feature together
SHAPED = (-1, 0, 1)  # whose shapes are features, each and all together
REACH = 2
WORD_FEATURES_MANY = (
    1 << 17
)  # words; of more, pairs that occur only once are left out unless told otherwise: as good, twice as fast
OUTSIDE = -1  # stands in a feature for what lies before or behind a row, and for ids that mean nothing


@dataclass(frozen=True, eq=False)
class WordFeatures:
    """Which pairs of tokens are features: those around the words of the training rows. Single tokens all are.

    pairs   over one id more than the vocabulary has: the last stands for what lies outside of a row
    shapes  (V + 1,) the number of each one's shape; None: they are of no concern
    """

    pairs: NgramIndex
    skipped: np.ndarray
    shapes: np.ndarray | None = None

    @classmethod
    def fit(
        cls,
        rows: TokenRows,
        places: np.ndarray,
        *,
        vocabulary: int,
        skipped: np.ndarray,
        least: int | None,
        shapes: np.ndarray | None = None,
    ) -> WordFeatures:
        """From rows, the tokens with the numbers `places` being asked about."""
        if least is None:
            least = 2 if len(places) > WORD_FEATURES_MANY else 1
        around, here = pad_rows(rows, vocabulary, skipped)
        asked = np.zeros(len(around), bool)
        for offset in PAIRS:
            asked[here[places] + offset] = True
        ends = np.flatnonzero(asked)
        keys, times = np.unique(around[ends - 1] * (vocabulary + 1) + around[ends], return_counts=True)
        return cls(NgramIndex.from_sorted_keys(vocabulary + 1, [keys[times >= least]]), skipped, shapes)

    @property
    def width(self) -> int:
        shaped = 0 if self.shapes is None else len(SHAPED) * len(SHAPES) + len(SHAPES) ** len(SHAPED)
        return self._of_tokens + shaped

    @property
    def _of_tokens(self) -> int:
        """Features that are tokens or pairs of them; those of shapes stand behind."""
        return len(WORDS) * self.pairs.vocabulary + len(PAIRS) * self.pairs.count(2)

    def of(self, rows: TokenRows, places: np.ndarray) -> SparseMatrix:
        """A row for each of these tokens."""
        around, here = pad_rows(rows, self.pairs.vocabulary - 1, self.skipped)
        size = self.pairs.vocabulary
        parts = []
        for begin in range(0, len(places), CHUNK):
            at = here[places[begin : begin + CHUNK]]
            columns = [around[at + offset] + number * size for number, offset in enumerate(WORDS)]
            for number, offset in enumerate(PAIRS):
                found = self.pairs.find_many(2, around[at + offset - 1], around[at + offset])
                columns.append(np.where(found < 0, -1, found + len(WORDS) * size + number * self.pairs.count(2)))
            columns += self._shaped(around, at)
            table = np.stack(columns, axis=1).astype(np.int32)
            there = table >= 0
            indptr = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
            parts.append(SparseMatrix(indptr, table[there], np.ones(int(indptr[-1]), np.float32), self.width))
        return stack_rows(parts, self.width)

    def _shaped(self, around: np.ndarray, at: np.ndarray) -> list[np.ndarray]:
        """Columns of the shapes around the words `at` these places: each by itself, and all of them as one."""
        if self.shapes is None:
            return []
        each = [self.shapes[around[at + offset]] for offset in SHAPED]
        whole = np.ravel_multi_index(each, (len(SHAPES),) * len(SHAPED))
        alone = [self._of_tokens + number * len(SHAPES) + shape for number, shape in enumerate(each)]
        return [*alone, self._of_tokens + len(SHAPED) * len(SHAPES) + whole]

    def feature(self, column: int) -> FeatureName:
        """What a column stands for: one token or two and how far the last is from the word, or shapes by name."""
        size = self.pairs.vocabulary
        if column >= self._of_tokens:
            number, shape = divmod(column - self._of_tokens, len(SHAPES))
            if number < len(SHAPED):
                return FeatureName((), f"written {SHAPES[shape]}, at {SHAPED[number]:+d}")
            whole = column - self._of_tokens - len(SHAPED) * len(SHAPES)
            named = np.unravel_index(whole, (len(SHAPES),) * len(SHAPED))
            return FeatureName((), f"written {', '.join(SHAPES[int(one)] for one in named)}, around it")
        number, token = divmod(column, size)
        if number < len(WORDS):
            return FeatureName((clipped_token(token, size - 1),), f"{WORDS[number]:+d}")
        number, pair = divmod(column - len(WORDS) * size, self.pairs.count(2))
        both = divmod(int(self.pairs.sorted_keys(2)[pair]), size)
        return FeatureName((clipped_token(both[0], size - 1), clipped_token(both[1], size - 1)), f"{PAIRS[number]:+d}")

    def arrays(self) -> dict[str, np.ndarray]:
        return self.pairs.arrays()

    @classmethod
    def load(
        cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, skipped: np.ndarray, shapes: np.ndarray | None = None
    ) -> WordFeatures:
        return cls(NgramIndex.load(arrays, vocabulary=vocabulary + 1, order=2), skipped, shapes)


def clipped_token(token: int, vocabulary: int) -> int:
    return OUTSIDE if token == vocabulary else token


def pad_rows(rows: TokenRows, vocabulary: int, skipped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All rows with an edge on both sides, as wide as features reach, and where in them each token stands."""
    here = np.arange(len(rows.tokens)) + REACH * (2 * rows.rows() + 1)
    around = np.full(len(rows.tokens) + 2 * REACH * len(rows), vocabulary, np.int64)
    around[here] = np.where(np.isin(rows.tokens, skipped), vocabulary, rows.tokens)
    return around, here
