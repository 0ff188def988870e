"""A table of words: a vector for each, and what to do with a word that has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Compose = Callable[[str], "np.ndarray | None"]


@dataclass(frozen=True, eq=False)
class WordTable:
    """What a run of word vectors leaves behind, however it was learned.

    words    the name of each row, by falling frequency where that is known; none twice
    matrix   (N, D) float32; it may lie on the disk
    counts   (N,) how often each word was seen; None where nobody knows
    compose  a vector for a word that is in no row (from its parts), or None; without it such words have no vector
    """

    words: Sequence[str]
    matrix: np.ndarray
    counts: np.ndarray | None = None
    compose: Compose | None = None

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def row(self, word: str) -> int | None:
        """The row of a word as it is written, or else in small letters."""
        found = self.rows.get(word)
        return self.rows.get(word.lower()) if found is None else found

    def vector(self, word: str) -> np.ndarray | None:
        """(D,) the vector of a word: its row, or what is composed of its parts; None where it has none."""
        row = self.row(word)
        if row is not None:
            return np.asarray(self.matrix[row], np.float32)
        return None if self.compose is None else self.compose(word)
