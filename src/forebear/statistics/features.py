"""Which features each kind of answer is read off: learned from training rows, or taken from a saved state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forebear.statistics.matrices import Matrix, Sparse
from forebear.statistics.passage_features import PassageFeatures
from forebear.statistics.text_features import TextFeatures
from forebear.statistics.token_rows import TokenRows
from forebear.statistics.word_features import WordFeatures

Kind = Literal["label", "labels", "number", "tag", "choice", "span"]
Features = TextFeatures | WordFeatures | PassageFeatures


@dataclass(frozen=True, eq=False)
class Making:
    """How features are made: all that is not learned. The fields are those of `LinearModel`."""

    kind: Kind
    vocabulary: int
    order: int
    pairs: bool
    skipped: np.ndarray
    least: int | None
    shapes: np.ndarray | None = None

    def rows(self, inputs: Mapping[str, np.ndarray]) -> TokenRows:
        return TokenRows.of(inputs, vocabulary=self.vocabulary, segmented=self.pairs)

    def learned(self, rows: TokenRows, asked: np.ndarray) -> Features:
        """From training rows; `asked` are the numbers of the tokens that a target with an entry for each asks about."""
        own = {"vocabulary": self.vocabulary, "skipped": self.skipped}
        if self.kind == "tag":
            return WordFeatures.learned(rows, asked, least=self.least, shapes=self.shapes, **own)
        if self.kind == "span":
            return PassageFeatures.learned(rows, shapes=self._shapes, **own)
        return TextFeatures.learned(rows, order=self.order, pairs=self.pairs, least=self.least, **own)

    def names(self) -> set[str]:
        """Of the arrays that hold what was learned."""
        if self.kind == "span":
            return {"weights_of_tokens", "asking"}
        order = 2 if self.kind == "tag" else self.order
        levels = {f"words.{n}" for n in range(2, order + 1)} | {f"continuations.{n}" for n in range(1, order)}
        return levels | ({"weights_of_ngrams"} if self.kind != "tag" else set())

    def loaded(self, arrays: Mapping[str, np.ndarray]) -> Features:
        """From such arrays; what is misshapen is refused by its name."""
        own = {"vocabulary": self.vocabulary, "skipped": self.skipped}
        if self.kind == "tag":
            return WordFeatures.load(arrays, shapes=self.shapes, **own)
        if self.kind == "span":
            return PassageFeatures.load(arrays, shapes=self._shapes, **own)
        return TextFeatures.load(arrays, order=self.order, pairs=self.pairs, **own)

    @property
    def _shapes(self) -> np.ndarray:
        """How ids are written; where nobody says, all alike."""
        return np.zeros(self.vocabulary + 1, np.int64) if self.shapes is None else self.shapes

    def matrix(
        self,
        features: Features,
        rows: TokenRows,
        groups: np.ndarray | None = None,
        places: np.ndarray | None = None,
    ) -> Matrix:
        """A row for each example, token (tag: those at `places`, or all; span) or row (choice)."""
        if isinstance(features, WordFeatures):
            return features.of(rows, np.arange(len(rows.tokens)) if places is None else places)
        matrix = features.of(rows)
        if isinstance(matrix, Sparse) and self.kind != "choice" and groups is not None:
            return matrix.averaged(groups)
        return matrix
