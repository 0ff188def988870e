"""Examples as rows of tokens: what a task has made of a person's texts and labels, ready to be learned or answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, TargetArrays, balanced_splits, shuffled_positions


@dataclass(frozen=True)
class ExampleRow:
    """One row of an example: its tokens, which text each is of, and targets that it has for itself.

    `marks` tells for each token what it answers for: the number of a word, or (begin, end) in a passage; NOTHING: none.
    """

    example: int
    tokens: np.ndarray
    segments: np.ndarray
    targets: Mapping[str, int | np.ndarray] = field(default_factory=dict)
    answer_spans: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ExampleRows:
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
    targets: TargetArrays
    uses_segments: bool
    grouped: bool
    num_truncated: int = 0
    answer_spans: np.ndarray | None = None

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[ExampleRow],
        *,
        tells: bool,
        grouped: bool,
        of_examples: TargetArrays | None = None,
        cut: int = 0,
    ) -> ExampleRows:
        """Rows in order; `of_examples` are targets with an entry for each example."""
        made = list(rows)
        lengths = np.array([len(row.tokens) for row in made], np.int64)
        targets: TargetArrays = dict(of_examples or {})
        for name in made[0].targets if made else ():
            values: list[Any] = [row.targets[name] for row in made]
            each = isinstance(values[0], np.ndarray)
            targets[name] = np.concatenate(values).astype(np.int64) if each else np.array(values, np.int64)
        empty = [np.empty(0, np.int32)]
        marked = all(row.answer_spans is not None for row in made)
        return cls(
            np.concatenate([row.tokens for row in made] or empty).astype(np.int32),
            lengths,
            np.concatenate([row.segments for row in made] or empty).astype(np.int8),
            np.array([row.example for row in made], np.int64),
            targets,
            tells,
            grouped,
            cut,
            np.concatenate([row.answer_spans for row in made if row.answer_spans is not None])
            if made and marked
            else None,
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
    def example_lengths(self) -> np.ndarray:
        """(E,) tokens of each example."""
        return np.diff(self._ends[self._first_rows])

    def row_range(self, example: int) -> range:
        """The numbers of an example's rows."""
        return range(int(self._first_rows[example]), int(self._first_rows[example + 1]))

    def row_answer_spans(self, row: int) -> np.ndarray:
        """What the tokens of a row answer for."""
        assert self.answer_spans is not None
        return self.answer_spans[self._ends[row] : self._ends[row + 1]]

    def per_row(self) -> ExampleRows:
        """For asking: where heads look at each row by itself, a row is as good as an example of its own."""
        if self.grouped or len(self) == len(self.lengths):
            return self
        return replace(self, examples=np.arange(len(self.lengths)), targets={})

    def make_batch(self, examples: Sequence[int] | np.ndarray) -> Batch:
        """These examples as a batch."""
        numbers = np.concatenate([np.arange(*self._first_rows[[one, one + 1]]) for one in examples])
        places = _ranges(self._ends[numbers], self.lengths[numbers])
        inputs = {"tokens": self.tokens[places].astype(np.int64), "lengths": self.lengths[numbers]}
        if self.uses_segments:
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


def next_token_targets(batch: Batch) -> np.ndarray:
    """(T,) the token after each, NOTHING at the end of a row: what a language model is asked on the same rows."""
    tokens, ends = batch.inputs["tokens"], np.cumsum(batch.inputs["lengths"]) - 1
    after = np.append(tokens[1:], IGNORE_INDEX)
    after[ends] = IGNORE_INDEX
    return after


# Learning from examples: every one once an epoch, in an order of its own, in batches of about equal size.


POOL = 64  # batches that are drawn together, so that examples of like lengths can be in one


@dataclass(frozen=True)
class ExampleEpochs:
    """An epoch shows every example once, in an order of its own.

    language  how much predicting the next token counts beside the task (GPT's auxiliary objective)
    alike     whether examples of a batch are about equally long: who reads word by word then goes fewer steps
    """

    lm_weight: float = 0.0
    length_grouping: bool = False

    def steps(self, source: ExampleRows, size: int) -> int:
        """How many batches of about `size` tokens show everything once; never more than there are examples."""
        return min(max(1, round(int(source.example_lengths.sum()) / size)), len(source))

    def batch(self, source: ExampleRows, size: int, moment: BatchKey) -> Batch:
        epoch, number = divmod(moment.step, self.steps(source, size))
        order, cuts = _epoch(source, self.steps(source, size), moment.seed, epoch, self.length_grouping)
        chosen = order[cuts[number] : cuts[number + 1]]
        # Rows of equal length stand together: attention takes them at once.
        batch = source.make_batch(chosen[np.argsort(source.example_lengths[chosen], kind="stable")])
        if not self.lm_weight:
            return batch
        return replace(
            batch, targets=batch.targets | {"next": next_token_targets(batch)}, weights={"next": self.lm_weight}
        )

    def check(self, source: ExampleRows) -> None:
        if not len(source):
            raise InputError("there is no example to learn from", hint="give a file with labelled examples")


@dataclass(frozen=True)
class FullBatch:
    """Every step shows every example, always in the same order: for who learns from all of them at once."""

    def steps(self, source: ExampleRows, size: int) -> int:
        return 1

    def batch(self, source: ExampleRows, size: int, moment: BatchKey) -> Batch:
        return _all(source)

    def check(self, source: ExampleRows) -> None:
        ExampleEpochs().check(source)


@lru_cache(maxsize=1)
def _all(source: ExampleRows) -> Batch:
    return source.make_batch(np.arange(len(source)))


@lru_cache(maxsize=4)
def _epoch(source: ExampleRows, steps: int, seed: int, epoch: int, alike: bool) -> tuple[np.ndarray, np.ndarray]:
    """The order of the examples, and where in it each batch begins: about as many tokens in each, at least one row."""
    order = shuffled_positions(np.arange(len(source)), len(source), seed=seed, epoch=epoch)
    ends = np.cumsum(source.example_lengths[order])
    wanted = ends[-1] * np.arange(1, steps) / steps
    cuts = np.searchsorted(ends, wanted) + 1
    least = np.arange(1, steps)
    cuts = np.maximum.accumulate(cuts - least) + least  # each batch has an example of its own
    cuts = np.minimum(cuts, len(source) - steps + least)
    cuts = np.concatenate(([0], cuts, [len(source)])).astype(np.int64)
    return _by_length(source.example_lengths, order, cuts, [seed, epoch]) if alike else (order, cuts)


def _by_length(
    sizes: np.ndarray, order: np.ndarray, cuts: np.ndarray, chance: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The same in as many batches: those of each pool are sorted by length, cut anew, and come in any order."""
    made: list[np.ndarray] = []
    for first in range(0, len(cuts) - 1, POOL):
        last = min(first + POOL, len(cuts) - 1)
        drawn = order[cuts[first] : cuts[last]]
        drawn = drawn[np.argsort(sizes[drawn], kind="stable")]
        parts = np.split(drawn, balanced_splits(np.concatenate(([0], np.cumsum(sizes[drawn]))), last - first)[1:-1])
        made += [parts[one] for one in np.random.default_rng([*chance, first]).permutation(len(parts))]
    return np.concatenate(made), np.cumsum([0, *map(len, made)])
