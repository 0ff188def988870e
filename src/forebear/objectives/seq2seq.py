"""Sequence-to-sequence objective: predict each target token from the source text and the previous target tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.corpus.subset import concat_ranges
from forebear.errors import InputError
from forebear.objectives.batch import Batch, BatchKey, balanced_splits
from forebear.objectives.shuffle import shuffled_positions

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import ParallelSubset
    from forebear.data.corpus.subset import Subset

BATCHES_PER_POOL = 64  # batches sampled together, so that pairs of similar length share a batch


@dataclass(frozen=True)
class SequenceToSequence:
    """Teacher forcing on sentence pairs: source + `source_eos_id` → `target_eos_id` + target, shifted by one.

    An epoch has every pair once, in random order. Pairs are sampled in pools. A pool is sorted by length and split into
    batches of similar lengths, in random order, so that attention processes many sequences in one call.

    Attributes:
        max_length: Maximum tokens of source or target, with end of text; longer pairs are skipped (see `num_too_long`).
        source_eos_id: The id that ends a source.
        target_eos_id: The id that starts and ends a target.
    """

    max_length: int
    source_eos_id: int
    target_eos_id: int

    def steps(self, source: ParallelSubset, batch_size: int) -> int:
        usable, tokens = source.within_length(self.max_length - 1)
        return min(len(usable), max(1, round((tokens + 2 * len(usable)) / batch_size)))

    def batch(self, source: ParallelSubset, batch_size: int, key: BatchKey) -> Batch:
        usable, steps = source.within_length(self.max_length - 1)[0], self.steps(source, batch_size)
        epoch, step = divmod(key.step, steps)
        num_pools = -(-steps // BATCHES_PER_POOL)
        pool = step * num_pools // steps
        first_step, last_step = (-(-steps * pool_index // num_pools) for pool_index in (pool, pool + 1))  # of this pool
        start, end = (len(usable) * pool_index // steps for pool_index in (first_step, last_step))
        pairs = usable[shuffled_positions(np.arange(start, end), len(usable), seed=key.seed, epoch=epoch)]
        lengths = source.lengths[pairs]
        pairs = pairs[np.lexsort((pairs, lengths[:, 0], lengths[:, 1]))]
        count = last_step - first_step
        boundaries = balanced_splits(np.concatenate(([0], np.cumsum(source.lengths[pairs].sum(axis=1) + 2))), count)
        order = np.random.default_rng([key.seed, epoch, pool]).permutation(count)
        batch_index = order[step - first_step]
        return self.make_batch(source, pairs[boundaries[batch_index] : boundaries[batch_index + 1]])

    def make_batch(self, source: ParallelSubset, pairs: np.ndarray) -> Batch:
        """A batch of these pairs, in this order."""
        source_ids, source_lengths = _tokens_with_eos(source.source, pairs, self.source_eos_id)
        target_ids, lengths = _tokens_with_eos(source.target, pairs, self.target_eos_id)
        ends = np.cumsum(lengths) - 1
        decoder_inputs = np.roll(target_ids, 1)
        decoder_inputs[np.concatenate(([0], ends[:-1] + 1))] = self.target_eos_id
        inputs = {"tokens": decoder_inputs, "lengths": lengths, "source": source_ids, "source_lengths": source_lengths}
        return Batch(inputs, {"translation": target_ids})

    def check(self, source: ParallelSubset) -> None:
        if not len(source.within_length(self.max_length - 1)[0]):
            raise InputError(
                f"no pair has at most {self.max_length - 1} tokens on either side",
                hint="give shorter texts (a sentence each), or a larger --context",
            )

    def num_too_long(self, source: ParallelSubset) -> int:
        """The number of pairs that exceed `max_length`."""
        return len(source) - len(source.within_length(self.max_length - 1)[0])


def _tokens_with_eos(subset: Subset, indices: np.ndarray, eos_id: int) -> tuple[np.ndarray, np.ndarray]:
    """(T,) tokens of these texts, each followed by `eos_id`, and (B,) their lengths."""
    spans = subset.spans[indices]
    lengths = spans[:, 1] - spans[:, 0]
    tokens = np.full(int(lengths.sum()) + len(indices), eos_id, np.int64)
    positions = concat_ranges(np.cumsum(lengths + 1) - lengths - 1, lengths)
    tokens[positions] = subset.corpus.ids[concat_ranges(spans[:, 0], lengths)]
    return tokens, lengths + 1
