"""Batches with named targets and without padding, their keys, and batching within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

IGNORE_INDEX = -1  # a target that is not supervised
TOKEN_BUDGET = 1 << 16  # tokens of a batch for inference: bounds memory, does not affect results

TargetArrays = dict[str, np.ndarray]
Item = TypeVar("Item")


@dataclass(frozen=True)
class BatchKey:
    """Seed and step of a batch. All its randomness depends on them alone, so that training can be resumed."""

    seed: int
    step: int

    def rng(self, stream: int = 0) -> np.random.Generator:
        """The random generator of a stream; nested objectives use different streams, so that they are independent."""
        return np.random.default_rng([self.seed, self.step, stream])


@dataclass(frozen=True)
class Batch:
    """Sequences of tokens, packed without padding.

    Attributes:
        inputs: `lengths` (B,) of the sequences; `tokens` and others (T,) with one entry per token; `groups` (B,), the
            ascending example index of each sequence, if an example has several; `source` and `source_lengths` (B,),
            the source tokens of sequence-to-sequence batches.
        targets: One entry per token (T,), sequence (B,) or example; IGNORE_INDEX or NaN is not supervised; an entry
            may be several numbers.
        positions: (T,) corpus position of each token, IGNORE_INDEX for inserted ones; None: unknown.
        weights: Loss weight of each target, 1 by default.
    """

    inputs: TargetArrays
    targets: TargetArrays
    positions: np.ndarray | None = None
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def num_target_tokens(self) -> int:
        return len(self.inputs["tokens"])

    @property
    def num_tokens(self) -> int:
        """All tokens, source tokens included: what budgets and throughput count."""
        return self.num_target_tokens + len(self.inputs.get("source", ()))

    def supervised_counts(self) -> dict[str, int]:
        """The number of supervised entries of each target, by which losses are divided."""
        return {name: int(np.count_nonzero(is_supervised(target))) for name, target in self.targets.items()}

    def split(self, count: int) -> list[Batch]:
        """Split into `count` batches (fewer if there are fewer examples) of about equally many tokens.

        The sequences of one example stay together.
        """
        if count == 1:
            return [self]
        lengths = self.inputs["lengths"]
        groups = self.inputs.get("groups", np.arange(len(lengths)))
        example_first_rows = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(lengths))  # of each example
        ends, source_ends = (
            np.concatenate(([0], np.cumsum(counts))) for counts in (lengths, self.inputs.get("source_lengths", []))
        )
        examples = len(example_first_rows) - 1
        boundaries = balanced_splits(ends[example_first_rows], min(count, examples))

        def slice_arrays(arrays: TargetArrays, first: int, last: int) -> TargetArrays:
            rows = slice(example_first_rows[first], example_first_rows[last])
            slice_by_length = {ends[-1]: slice(ends[rows.start], ends[rows.stop]), examples: slice(first, last)}
            slice_by_length[len(lengths)] = rows
            slices = {name: array[slice_by_length[len(array)]] for name, array in arrays.items() if name != "source"}
            if "source" in arrays:
                slices["source"] = arrays["source"][source_ends[rows.start] : source_ends[rows.stop]]
            if "groups" in slices:
                slices["groups"] = slices["groups"] - first
            return slices

        pairs = zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True)
        return [
            Batch(slice_arrays(self.inputs, *pair), slice_arrays(self.targets, *pair), weights=self.weights)
            for pair in pairs
        ]


def balanced_splits(ends: np.ndarray, count: int) -> np.ndarray:
    """(count + 1,) boundaries that split consecutive examples into `count` non-empty parts of about equal length.

    `ends` has the start of each example, and finally the end of the last one.
    """
    targets = ends[-1] * np.arange(1, count) / count
    upper_index = np.searchsorted(ends, targets)
    nearest_index = upper_index - (targets - ends[upper_index - 1] < ends[upper_index] - targets)
    min_ends = np.arange(1, count)  # each part has at least one example
    nearest_index = np.maximum.accumulate(nearest_index - min_ends) + min_ends
    return np.concatenate(([0], np.clip(nearest_index, min_ends, len(ends) - 1 - count + min_ends), [len(ends) - 1]))


def is_supervised(target: np.ndarray) -> np.ndarray:
    """Which entries of a target are supervised; of entries with several numbers, the first decides."""
    values = target if target.ndim == 1 else target[:, 0]
    return ~np.isnan(values) if values.dtype.kind == "f" else values != IGNORE_INDEX


def token_batches(
    items: Iterable[Item], length: Callable[[Item], int], budget: int = TOKEN_BUDGET
) -> Iterator[list[Item]]:
    """Items in order, in batches within a token budget; a longer item is a batch of its own."""
    batch: list[Item] = []
    batch_tokens = 0
    for item in items:
        num_tokens = length(item)
        if batch and batch_tokens + num_tokens > budget:
            yield batch
            batch, batch_tokens = [], 0
        batch.append(item)
        batch_tokens += num_tokens
    if batch:
        yield batch


UINT64 = np.uint64
