"""Batches with named targets and no padding, the Objective protocol, and a stateless shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from forebear.data.io.files import ProgressFn

IGNORE_INDEX = -1  # a target that is not supervised
TOKEN_BUDGET = 1 << 16  # tokens of a batch for inference: bounds memory, does not affect results

TargetArrays = dict[str, np.ndarray]
Item = TypeVar("Item")


@dataclass(frozen=True)
class BatchKey:
    """Seed and step of a batch. All its randomness depends on them alone, so that training can be resumed."""

    seed: int
    step: int

    def rng(self, purpose: int = 0) -> np.random.Generator:
        """A generator per purpose, so that nested objectives sample independently."""
        return np.random.default_rng([self.seed, self.step, purpose])


@dataclass(frozen=True)
class Batch:
    """Sequences of tokens, packed without padding.

    Attributes:
        inputs: `lengths` (B,) of the sequences; `tokens` and others (T,) with one entry per token; `groups` (B,), the
            rising example number of each sequence, where an example has several; `source` and `source_lengths` (B,),
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
            slices |= (
                {"source": arrays["source"][source_ends[rows.start] : source_ends[rows.stop]]}
                if "source" in arrays
                else {}
            )
            return slices | ({"groups": slices["groups"] - first} if "groups" in slices else {})

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
    min_ends = np.arange(1, count)  # each part has an example of its own
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


@runtime_checkable
class PrepassObjective(Protocol):
    """An objective that needs a pass over the whole text before its first batch."""

    def prepass(self, source: Any, progress: ProgressFn | None = None) -> None: ...


@runtime_checkable
class HasBatchUnit(Protocol):
    """An objective whose batches are not made of tokens."""

    batch_unit: ClassVar[str]


def batch_unit(objective: object) -> str:
    """What the size of an objective's batches counts: tokens by default."""
    return objective.batch_unit if isinstance(objective, HasBatchUnit) else "tokens"


class Objective(Protocol):
    """A training objective: builds batches from a Subset of a corpus, or from labeled examples."""

    def steps(self, source: Any, size: int) -> int:
        """The number of batches of about `size` tokens in an epoch."""
        ...

    def batch(self, source: Any, size: int, key: BatchKey) -> Batch:
        """Batch number `key.step` of about `size` tokens."""
        ...

    def check(self, source: Any) -> None:
        """Raise InputError if the objective cannot be trained on this text."""
        ...


# --- Stateless shuffle: the i-th index of epoch e from (seed, e, i) alone ---


FEISTEL_ROUNDS = 6
UINT64 = np.uint64


def shuffled_positions(indices: np.ndarray | int, size: int, *, seed: int, epoch: int = 0) -> np.ndarray:
    """The position of each index of 0..size-1 in this epoch's permutation.

    A Feistel network permutes a range somewhat larger than `size`; results outside 0..size-1 are permuted again until
    they are inside, so that the result is a permutation without any stored state.
    """
    positions = np.atleast_1d(np.asarray(indices, dtype=np.int64))
    if size < 1 or (positions.size and (positions.min() < 0 or positions.max() >= size)):
        raise IndexError(f"indices must lie in 0..{size - 1}")
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = _round_keys(seed, epoch)
    result = _permute(positions.astype(UINT64), half_bits, keys)
    outside = np.flatnonzero(result >= size)
    while outside.size:
        result[outside] = _permute(result[outside], half_bits, keys)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _permute(values: np.ndarray, half_bits: int, keys: list[np.uint64]) -> np.ndarray:
    """Feistel rounds: each half is mixed into the other, which is invertible and hence a permutation."""
    low_bits = UINT64((1 << half_bits) - 1)
    left, right = values >> UINT64(half_bits), values & low_bits
    for key in keys:
        left, right = right, left ^ (_mix_bits(right + key) & low_bits)
    return (left << UINT64(half_bits)) | right


def _mix_bits(values: np.ndarray) -> np.ndarray:
    """A full avalanche of 64 bits (the finaliser of SplitMix64)."""
    values = (values ^ (values >> UINT64(30))) * UINT64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> UINT64(27))) * UINT64(0x94D049BB133111EB)
    return values ^ (values >> UINT64(31))


def _round_keys(seed: int, epoch: int) -> list[np.uint64]:
    words = np.random.SeedSequence([seed, epoch]).generate_state(FEISTEL_ROUNDS, dtype=UINT64)
    return list(words)
