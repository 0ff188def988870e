"""What the heads `next` and `translation` of any run can do, in token ids and natural logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np


class Reader(Protocol):
    """Rows that are being continued: knows what comes next, takes what was chosen."""

    def next(self) -> np.ndarray:
        """(B, V) float32 scores of the next token of each row: logits, that is log-probabilities up to a constant."""
        ...

    def take(self, ids: np.ndarray) -> None:
        """(B,) the token chosen for each row."""
        ...

    def keep(self, rows: np.ndarray) -> None:
        """Go on with these rows (numbers among the present ones), in this order; one named twice goes on twice."""
        ...


class Predictor(Protocol):
    """A model of the next token. Rows are int arrays of ids; their first id is given, never predicted."""

    pseudo: bool  # False: scores of tokens are factors of the probability of their row

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int | None:
        """The most tokens of a row it can see at once; None: no limit of its own."""
        ...

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …: one value fewer than tokens."""
        ...

    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row): each line sums to 1 in probability."""
        ...

    def read(self, rows: Sequence[np.ndarray], room: int) -> Reader:
        """Begin to continue these rows (of any lengths) by up to `room` tokens each."""
        ...


@runtime_checkable
class Matching(Protocol):
    """A model of the next token that knows n-grams: it also tells how long the one was that it used."""

    def score_matching(self, rows: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What `score` says, and for each of those tokens the length of the longest known n-gram that ends there."""
        ...


class Translator(Protocol):
    """A model of translations. Sources and targets are int arrays of ids, each with its end."""

    @property
    def context(self) -> int:
        """The most tokens of a source."""
        ...

    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        ...

    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> Reader:
        """Begin a row for each source, of which nothing is written yet but `start`; up to `room` tokens will be."""
        ...
