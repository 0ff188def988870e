"""Labeled examples as token sequences with targets, and their batches."""

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
    """One sequence of an example: tokens, segment ids, and targets.

    `answer_spans` has for each token a word index, or (start, end) in a passage; IGNORE_INDEX for none.
    """

    example: int
    tokens: np.ndarray
    segments: np.ndarray
    targets: Mapping[str, int | np.ndarray] = field(default_factory=dict)
    answer_spans: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ExampleRows:
    """All sequences of some examples, packed.

    Attributes:
        tokens: (T,) as in a batch.
        lengths: (B,) as in a batch.
        segments: (T,) segment id of each token.
        examples: (B,) rising example number of each sequence; every number from 0 has at least one.
        targets: As in a batch: per token (T,), sequence (B,) or example (E, …).
        uses_segments: Whether the encoder gets the segment ids.
        grouped: Whether heads combine the sequences of an example.
        num_truncated: Text tokens that no sequence holds.
        answer_spans: (T, …) what each token stands for, IGNORE_INDEX for nothing; None: not needed.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    segments: np.ndarray
    examples: np.ndarray
    targets: TargetArrays
    uses_segments: bool
    groups_rows: bool
    num_truncated: int = 0
    answer_spans: np.ndarray | None = None

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[ExampleRow],
        *,
        uses_segments: bool,
        grouped: bool,
        example_targets: TargetArrays | None = None,
        num_truncated: int = 0,
    ) -> ExampleRows:
        """Pack sequences; `example_targets` have one entry per example."""
        row_list = list(rows)
        lengths = np.array([len(row.tokens) for row in row_list], np.int64)
        targets: TargetArrays = dict(example_targets or {})
        for name in row_list[0].targets if row_list else ():
            values: list[Any] = [row.targets[name] for row in row_list]
            is_per_token = isinstance(values[0], np.ndarray)
            targets[name] = np.concatenate(values).astype(np.int64) if is_per_token else np.array(values, np.int64)
        empty = [np.empty(0, np.int32)]
        has_spans = all(row.answer_spans is not None for row in row_list)
        return cls(
            np.concatenate([row.tokens for row in row_list] or empty).astype(np.int32),
            lengths,
            np.concatenate([row.segments for row in row_list] or empty).astype(np.int8),
            np.array([row.example for row in row_list], np.int64),
            targets,
            uses_segments,
            grouped,
            num_truncated,
            np.concatenate([row.answer_spans for row in row_list if row.answer_spans is not None])
            if row_list and has_spans
            else None,
        )

    def __len__(self) -> int:
        """The number of examples."""
        return int(self.examples[-1]) + 1 if len(self.examples) else 0

    @cached_property
    def _ends(self) -> np.ndarray:
        """(B + 1,) start of each sequence, and the end of the last."""
        return np.concatenate(([0], np.cumsum(self.lengths)))

    @cached_property
    def _first_rows(self) -> np.ndarray:
        """(E + 1,) first sequence of each example, and the number of sequences."""
        return np.append(np.flatnonzero(np.diff(self.examples, prepend=-1)), len(self.examples))

    @cached_property
    def example_lengths(self) -> np.ndarray:
        """(E,) tokens of each example."""
        return np.diff(self._ends[self._first_rows])

    def row_range(self, example: int) -> range:
        """The sequence numbers of an example."""
        return range(int(self._first_rows[example]), int(self._first_rows[example + 1]))

    def row_answer_spans(self, row: int) -> np.ndarray:
        """What the tokens of a sequence stand for."""
        assert self.answer_spans is not None
        return self.answer_spans[self._ends[row] : self._ends[row + 1]]

    def per_row(self) -> ExampleRows:
        """For prediction: each sequence as an example of its own, unless heads combine sequences."""
        if self.groups_rows or len(self) == len(self.lengths):
            return self
        return replace(self, examples=np.arange(len(self.lengths)), targets={})

    def make_batch(self, examples: Sequence[int] | np.ndarray) -> Batch:
        """These examples as a batch."""
        row_ids = np.concatenate([np.arange(*self._first_rows[[example, example + 1]]) for example in examples])
        token_positions = _concat_ranges(self._ends[row_ids], self.lengths[row_ids])
        inputs = {"tokens": self.tokens[token_positions].astype(np.int64), "lengths": self.lengths[row_ids]}
        if self.uses_segments:
            inputs["segments"] = self.segments[token_positions].astype(np.int64)
        if self.groups_rows:
            rows = np.diff(self._first_rows)[np.asarray(examples)]
            inputs["groups"] = np.repeat(np.arange(len(rows)), rows)
        indices_of_length = {len(self): np.asarray(examples), len(self.tokens): token_positions}
        indices_of_length |= {len(self.lengths): row_ids} if len(self.lengths) != len(self) else {}
        targets = {name: target[indices_of_length[len(target)]] for name, target in self.targets.items()}
        return Batch(inputs, targets)


def _concat_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1, … for each range."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)


def next_token_targets(batch: Batch) -> np.ndarray:
    """(T,) the next token, IGNORE_INDEX at the end of a sequence: targets of an auxiliary LM loss."""
    tokens, ends = batch.inputs["tokens"], np.cumsum(batch.inputs["lengths"]) - 1
    targets = np.append(tokens[1:], IGNORE_INDEX)
    targets[ends] = IGNORE_INDEX
    return targets


# --- Training batches: every example once per epoch, in random order ---


POOL_BATCHES = 64  # batches sampled together, so that examples of similar length share a batch


@dataclass(frozen=True)
class ExampleEpochs:
    """Every example once per epoch, in random order.

    Attributes:
        lm_weight: Weight of the auxiliary LM loss (GPT).
        length_grouping: Whether the examples of a batch have similar lengths, which saves steps of recurrent networks.
    """

    lm_weight: float = 0.0
    length_grouping: bool = False

    def steps(self, source: ExampleRows, size: int) -> int:
        """The number of batches of about `size` tokens in an epoch; at most one per example."""
        return min(max(1, round(int(source.example_lengths.sum()) / size)), len(source))

    def batch(self, source: ExampleRows, size: int, key: BatchKey) -> Batch:
        epoch, batch_index = divmod(key.step, self.steps(source, size))
        order, boundaries = _epoch_order(source, self.steps(source, size), key.seed, epoch, self.length_grouping)
        examples = order[boundaries[batch_index] : boundaries[batch_index + 1]]
        # Sequences of equal length are adjacent: attention processes them in one call.
        batch = source.make_batch(examples[np.argsort(source.example_lengths[examples], kind="stable")])
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
    """Every step has all examples, always in the same order, for learners that need all of them at once."""

    def steps(self, source: ExampleRows, size: int) -> int:
        return 1

    def batch(self, source: ExampleRows, size: int, key: BatchKey) -> Batch:
        return _full_batch(source)

    def check(self, source: ExampleRows) -> None:
        ExampleEpochs().check(source)


@lru_cache(maxsize=1)
def _full_batch(source: ExampleRows) -> Batch:
    return source.make_batch(np.arange(len(source)))


@lru_cache(maxsize=4)
def _epoch_order(
    source: ExampleRows, steps: int, seed: int, epoch: int, group_lengths: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The order of the examples and the batch boundaries in it, at about equal numbers of tokens."""
    order = shuffled_positions(np.arange(len(source)), len(source), seed=seed, epoch=epoch)
    ends = np.cumsum(source.example_lengths[order])
    targets = ends[-1] * np.arange(1, steps) / steps
    boundaries = np.searchsorted(ends, targets) + 1
    min_bounds = np.arange(1, steps)
    boundaries = np.maximum.accumulate(boundaries - min_bounds) + min_bounds  # each batch has an example of its own
    boundaries = np.minimum(boundaries, len(source) - steps + min_bounds)
    boundaries = np.concatenate(([0], boundaries, [len(source)])).astype(np.int64)
    return (
        _group_by_length(source.example_lengths, order, boundaries, [seed, epoch])
        if group_lengths
        else (order, boundaries)
    )


def _group_by_length(
    sizes: np.ndarray, order: np.ndarray, boundaries: np.ndarray, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Sort each pool by length, split it again into as many batches, and shuffle these."""
    batches: list[np.ndarray] = []
    for first in range(0, len(boundaries) - 1, POOL_BATCHES):
        last = min(first + POOL_BATCHES, len(boundaries) - 1)
        pool = order[boundaries[first] : boundaries[last]]
        pool = pool[np.argsort(sizes[pool], kind="stable")]
        pool_batches = np.split(
            pool, balanced_splits(np.concatenate(([0], np.cumsum(sizes[pool]))), last - first)[1:-1]
        )
        batches += [
            pool_batches[index] for index in np.random.default_rng([*seed, first]).permutation(len(pool_batches))
        ]
    return np.concatenate(batches), np.cumsum([0, *map(len, batches)])
