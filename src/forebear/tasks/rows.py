"""Examples as rows of tokens: what a task has made of a person's texts and labels, ready to be learned or answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from forebear.objectives.batch import NOTHING, Arrays, Batch


@dataclass(frozen=True)
class Row:
    """One row of an example: its tokens, which text each is of, and targets that it has for itself.

    `marks` tells for each token what it answers for: the number of a word, or (begin, end) in a passage; NOTHING: none.
    """

    example: int
    tokens: np.ndarray
    segments: np.ndarray
    targets: Mapping[str, int | np.ndarray] = field(default_factory=dict)
    marks: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows, one after the other.

    tokens    (T,) and lengths (B,), as in a batch
    segments  (T,) the number of the text that each token is of
    examples  (B,) the number of the example that each row is of, rising; all of 0, 1, 2, … have at least one
    targets   as in a batch: for each token (T,), row (B,) or example (E, …)
    tells     whether the encoder is to be told the segments
    grouped   whether heads look at the rows of one example together
    cut       tokens of text that no row holds
    marks     (T, …) for each token what of its example it answers for, NOTHING for none; None: nobody asks
    """

    tokens: np.ndarray
    lengths: np.ndarray
    segments: np.ndarray
    examples: np.ndarray
    targets: Arrays
    tells: bool
    grouped: bool
    cut: int = 0
    marks: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        rows: Iterable[Row],
        *,
        tells: bool,
        grouped: bool,
        of_examples: Arrays | None = None,
        cut: int = 0,
    ) -> Rows:
        """Rows in order; `of_examples` are targets with an entry for each example."""
        made = list(rows)
        lengths = np.array([len(row.tokens) for row in made], np.int64)
        targets: Arrays = dict(of_examples or {})
        for name in made[0].targets if made else ():
            values: list[Any] = [row.targets[name] for row in made]
            each = isinstance(values[0], np.ndarray)
            targets[name] = np.concatenate(values).astype(np.int64) if each else np.array(values, np.int64)
        empty = [np.empty(0, np.int32)]
        marked = all(row.marks is not None for row in made)
        return cls(
            np.concatenate([row.tokens for row in made] or empty).astype(np.int32),
            lengths,
            np.concatenate([row.segments for row in made] or empty).astype(np.int8),
            np.array([row.example for row in made], np.int64),
            targets,
            tells,
            grouped,
            cut,
            np.concatenate([row.marks for row in made if row.marks is not None]) if made and marked else None,
        )

    def __len__(self) -> int:
        """How many examples."""
        return int(self.examples[-1]) + 1 if len(self.examples) else 0

    @cached_property
    def _ends(self) -> np.ndarray:
        """(B + 1,) where each row begins, and the last ends."""
        return np.concatenate(([0], np.cumsum(self.lengths)))

    @cached_property
    def _first_rows(self) -> np.ndarray:
        """(E + 1,) the first row of each example, and the number of rows."""
        return np.append(np.flatnonzero(np.diff(self.examples, prepend=-1)), len(self.examples))

    @cached_property
    def sizes(self) -> np.ndarray:
        """(E,) tokens of each example."""
        return np.diff(self._ends[self._first_rows])

    def rows_of(self, example: int) -> range:
        """The numbers of an example's rows."""
        return range(int(self._first_rows[example]), int(self._first_rows[example + 1]))

    def marks_of(self, row: int) -> np.ndarray:
        """What the tokens of a row answer for."""
        assert self.marks is not None
        return self.marks[self._ends[row] : self._ends[row + 1]]

    def apart(self) -> Rows:
        """For asking: where heads look at each row by itself, a row is as good as an example of its own."""
        if self.grouped or len(self) == len(self.lengths):
            return self
        return replace(self, examples=np.arange(len(self.lengths)), targets={})

    def batch(self, examples: Sequence[int] | np.ndarray) -> Batch:
        """These examples as a batch."""
        numbers = np.concatenate([np.arange(*self._first_rows[[one, one + 1]]) for one in examples])
        places = _ranges(self._ends[numbers], self.lengths[numbers])
        inputs = {"tokens": self.tokens[places].astype(np.int64), "lengths": self.lengths[numbers]}
        if self.tells:
            inputs["segments"] = self.segments[places].astype(np.int64)
        if self.grouped:
            rows = np.diff(self._first_rows)[np.asarray(examples)]
            inputs["groups"] = np.repeat(np.arange(len(rows)), rows)
        of_length = {len(self): np.asarray(examples), len(self.tokens): places}
        of_length |= {len(self.lengths): numbers} if len(self.lengths) != len(self) else {}
        targets = {name: target[of_length[len(target)]] for name, target in self.targets.items()}
        return Batch(inputs, targets)


def _ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """begin, begin + 1, … for each."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)


def following(batch: Batch) -> np.ndarray:
    """(T,) the token after each, NOTHING at the end of a row: what a language model is asked on the same rows."""
    tokens, ends = batch.inputs["tokens"], np.cumsum(batch.inputs["lengths"]) - 1
    after = np.append(tokens[1:], NOTHING)
    after[ends] = NOTHING
    return after
