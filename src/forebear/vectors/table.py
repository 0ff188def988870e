"""A table of words: a vector for each, and what to do with a word that has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forebear.text.characters import codes_of, is_han

COMMON = 100  # the most frequent words, which mean little by themselves
LETTERS, HAN_LETTERS = 5, 2  # of a word that means something
LOOKED_AT = 1000  # words among which there is one, if there is
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

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.rows

    def __getitem__(self, word: str) -> np.ndarray:
        """The vector of a word as it is written."""
        return np.asarray(self.matrix[self.rows[word]], np.float32)

    def __repr__(self) -> str:
        return f"WordTable({len(self):,} words, width {self.matrix.shape[1]:,})"

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def row(self, word: str) -> int | None:
        """The row of a word as it is written, or else in small letters."""
        found = self.rows.get(word)
        return self.rows.get(word.lower()) if found is None else found

    @property
    def example(self) -> str | None:
        """A word to begin with: frequent, but none of those that every text has, and longer than those are."""
        for begin in (COMMON, 0):
            named = [word for word in self.words[begin : begin + LOOKED_AT] if word.isalpha()]
            long = (word for word in named if len(word) >= (HAN_LETTERS if _is_han(word) else LETTERS))
            if (found := next(long, named[0] if named else None)) is not None:
                return found
        return self.words[0] if self.words else None

    def vector(self, word: str) -> np.ndarray | None:
        """(D,) the vector of a word: its row, or what is composed of its parts; None where it has none."""
        row = self.row(word)
        if row is not None:
            return np.asarray(self.matrix[row], np.float32)
        return None if self.compose is None else self.compose(word)


def _is_han(word: str) -> bool:
    return bool(is_han(codes_of(word)).all())
