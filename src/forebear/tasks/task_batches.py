"""Labeled examples as token sequences with targets, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, TargetArrays, balanced_splits
from forebear.objectives.shuffle import shuffled_positions


@dataclass(frozen=True)
class ExampleRow:
    """One sequence of an example: tokens, segment ids, and targets.

    `token_sources` has a word index or a (start, end) in the passage for each token, or IGNORE_INDEX.
    """

    example: int
    tokens: np.ndarray
    segments: np.ndarray
    targets: Mapping[str, int | np.ndarray] = field(default_factory=dict)
    token_sources: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class ExampleRows:
    """All sequences of some examples, packed."""

    tokens: np.ndarray  # (T,) as in a batch
    lengths: np.ndarray  # (B,) as in a batch
    segments: np.ndarray  # (T,) segment id of each token
    examples: np.ndarray  # (B,) ascending example index of each sequence; every example has at least one
    targets: TargetArrays  # as in a batch: per token (T,), sequence (B,) or example (E, …)
    uses_segments: bool  # whether the encoder gets the segment ids
    groups_rows: bool  # whether heads combine the sequences of an example
    num_truncated: int = 0  # text tokens that no sequence holds
    token_sources: np.ndarray | None = None  # (T, …) word index or span of tokens, or IGNORE_INDEX; None: not needed

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[ExampleRow],
        *,
        uses_segments: bool,
        groups_rows: bool,
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
        no_tokens = [np.empty(0, np.int32)]
        token_sources = [row.token_sources for row in row_list if row.token_sources is not None]
        return cls(
            np.concatenate([row.tokens for row in row_list] or no_tokens).astype(np.int32),
            lengths,
            np.concatenate([row.segments for row in row_list] or no_tokens).astype(np.int8),
            np.array([row.example for row in row_list], np.int64),
            targets,
            uses_segments,
            groups_rows,
            num_truncated,
            np.concatenate(token_sources) if token_sources else None,
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
        """The indices of an example's sequences."""
        return range(int(self._first_rows[example]), int(self._first_rows[example + 1]))

    def row_token_sources(self, row: int) -> np.ndarray:
        """Word index or span of each token of a sequence."""
        assert self.token_sources is not None
        return self.token_sources[self._ends[row] : self._ends[row + 1]]

    def per_row(self) -> ExampleRows:
        """For prediction: each sequence as an example of its own, unless heads combine sequences."""
        if self.groups_rows or len(self) == len(self.lengths):
            return self
        return replace(self, examples=np.arange(len(self.lengths)), targets={})

    def make_batch(self, examples: Sequence[int] | np.ndarray) -> Batch:
        """These examples as a batch."""
        row_ids = np.concatenate([np.arange(*self._first_rows[[example, example + 1]]) for example in examples])
        lengths = self.lengths[row_ids]
        shifts = self._ends[row_ids] - (np.cumsum(lengths) - lengths)  # from the batch to all sequences
        token_positions = np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))
        inputs = {"tokens": self.tokens[token_positions].astype(np.int64), "lengths": lengths}
        if self.uses_segments:
            inputs["segments"] = self.segments[token_positions].astype(np.int64)
        if self.groups_rows:
            num_rows = np.diff(self._first_rows)[np.asarray(examples)]
            inputs["groups"] = np.repeat(np.arange(len(num_rows)), num_rows)
        indices_of_length = {len(self): np.asarray(examples), len(self.tokens): token_positions}
        indices_of_length |= {len(self.lengths): row_ids} if len(self.lengths) != len(self) else {}
        targets = {name: target[indices_of_length[len(target)]] for name, target in self.targets.items()}
        return Batch(inputs, targets)


# --- Training batches: every example once per epoch, in random order ---

POOL_BATCHES = 64  # batches sampled together, so that examples of similar length share a batch


@dataclass(frozen=True)
class ExampleEpochs:
    """Every example once per epoch, in random order."""

    lm_weight: float = 0.0  # of the auxiliary LM loss (GPT)
    length_grouping: bool = False  # in a batch lengths are similar, which saves steps of recurrent networks

    def steps(self, source: ExampleRows, batch_size: int) -> int:
        """The number of batches of about `batch_size` tokens in an epoch; at most one per example."""
        return min(max(1, round(int(source.example_lengths.sum()) / batch_size)), len(source))

    def batch(self, source: ExampleRows, batch_size: int, key: BatchKey) -> Batch:
        epoch, batch_index = divmod(key.step, self.steps(source, batch_size))
        order, boundaries = _epoch_order(source, self.steps(source, batch_size), key.seed, epoch, self.length_grouping)
        examples = order[boundaries[batch_index] : boundaries[batch_index + 1]]
        # Sequences of equal length are adjacent: attention processes them in one call.
        batch = source.make_batch(examples[np.argsort(source.example_lengths[examples], kind="stable")])
        if not self.lm_weight:
            return batch
        next_tokens = np.append(batch.inputs["tokens"][1:], IGNORE_INDEX)
        next_tokens[np.cumsum(batch.inputs["lengths"]) - 1] = IGNORE_INDEX
        return replace(batch, targets=batch.targets | {"next": next_tokens}, weights={"next": self.lm_weight})

    def check(self, source: ExampleRows) -> None:
        if not len(source):
            raise InputError("there is no example to learn from", hint="give a file with labelled examples")


@dataclass(frozen=True)
class FullBatch:
    """Every step has all examples, always in the same order, for learners that need all of them at once."""

    def steps(self, source: ExampleRows, batch_size: int) -> int:
        return 1

    def batch(self, source: ExampleRows, batch_size: int, key: BatchKey) -> Batch:
        return _full_batch(source)

    def check(self, source: ExampleRows) -> None:
        ExampleEpochs().check(source)


@lru_cache(maxsize=1)
def _full_batch(source: ExampleRows) -> Batch:
    return source.make_batch(np.arange(len(source)))


@lru_cache(maxsize=4)
def _epoch_order(
    source: ExampleRows, num_steps: int, seed: int, epoch: int, length_grouping: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The order of the examples and the batch boundaries in it, at about equal numbers of tokens."""
    order = shuffled_positions(np.arange(len(source)), len(source), seed=seed, epoch=epoch)
    token_ends = np.cumsum(source.example_lengths[order])
    target_ends = token_ends[-1] * np.arange(1, num_steps) / num_steps
    boundaries = np.searchsorted(token_ends, target_ends) + 1
    min_boundaries = np.arange(1, num_steps)
    # Each batch has at least one example.
    boundaries = np.maximum.accumulate(boundaries - min_boundaries) + min_boundaries
    boundaries = np.minimum(boundaries, len(source) - num_steps + min_boundaries)
    boundaries = np.concatenate(([0], boundaries, [len(source)])).astype(np.int64)
    if not length_grouping:
        return order, boundaries
    return _group_by_length(source.example_lengths, order, boundaries, [seed, epoch])


def _group_by_length(
    lengths: np.ndarray, order: np.ndarray, boundaries: np.ndarray, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Sort each pool by length, split it again into as many batches, and shuffle these."""
    batches: list[np.ndarray] = []
    for start in range(0, len(boundaries) - 1, POOL_BATCHES):
        end = min(start + POOL_BATCHES, len(boundaries) - 1)
        pool = order[boundaries[start] : boundaries[end]]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        splits = balanced_splits(np.concatenate(([0], np.cumsum(lengths[pool]))), end - start)
        pool_batches = np.split(pool, splits[1:-1])
        shuffled = np.random.default_rng([*seed, start]).permutation(len(pool_batches))
        batches += [pool_batches[index] for index in shuffled]
    return np.concatenate(batches), np.cumsum([0, *map(len, batches)])
