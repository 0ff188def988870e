"""Predict every token of a translation from the text that is translated and from those before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.corpus.subset import concat_ranges
from forebear.errors import InputError
from forebear.objectives.batch import Batch, BatchKey, balanced_splits, shuffled_positions

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import ParallelSubset
    from forebear.data.corpus.subset import Subset

POOL = 64  # batches that are drawn together, so that pairs of like lengths can be in one


@dataclass(frozen=True)
class SequenceToSequence:
    """A source is followed by its `end`; a translation stands between two of its own, of which one is seen first.

    An epoch shows every pair once, in an order of its own. Pairs are drawn in pools, sorted by length within a pool
    and cut into batches of like lengths, which come in any order: attention then takes many rows in one call.

    context  tokens of either side, its end included; longer pairs are left out (`left_out` counts them)
    """

    max_length: int
    source_end: int
    target_end: int

    def steps(self, source: ParallelSubset, size: int) -> int:
        usable, tokens = source.within_length(self.max_length - 1)
        return min(len(usable), max(1, round((tokens + 2 * len(usable)) / size)))

    def batch(self, source: ParallelSubset, size: int, moment: BatchKey) -> Batch:
        usable, steps = source.within_length(self.max_length - 1)[0], self.steps(source, size)
        epoch, step = divmod(moment.step, steps)
        pools = -(-steps // POOL)
        pool = step * pools // steps
        first_step, last_step = (-(-steps * one // pools) for one in (pool, pool + 1))  # of this pool
        begin, end = (len(usable) * one // steps for one in (first_step, last_step))
        drawn = usable[shuffled_positions(np.arange(begin, end), len(usable), seed=moment.seed, epoch=epoch)]
        lengths = source.lengths[drawn]
        drawn = drawn[np.lexsort((drawn, lengths[:, 0], lengths[:, 1]))]
        count = last_step - first_step
        cuts = balanced_splits(np.concatenate(([0], np.cumsum(source.lengths[drawn].sum(axis=1) + 2))), count)
        order = np.random.default_rng([moment.seed, epoch, pool]).permutation(count)
        number = order[step - first_step]
        return self.of_pairs(source, drawn[cuts[number] : cuts[number + 1]])

    def of_pairs(self, source: ParallelSubset, numbers: np.ndarray) -> Batch:
        """These pairs as a batch, in this order."""
        read, read_lengths = _rows(source.source, numbers, after=self.source_end)
        written, lengths = _rows(source.target, numbers, after=self.target_end)
        ends = np.cumsum(lengths) - 1
        seen = np.roll(written, 1)
        seen[np.concatenate(([0], ends[:-1] + 1))] = self.target_end
        inputs = {"tokens": seen, "lengths": lengths, "source": read, "source_lengths": read_lengths}
        return Batch(inputs, {"translation": written})

    def check(self, source: ParallelSubset) -> None:
        if not len(source.within_length(self.max_length - 1)[0]):
            raise InputError(
                f"no pair has at most {self.max_length - 1} tokens on either side",
                hint="give shorter texts (a sentence each), or a larger --context",
            )

    def num_too_long(self, source: ParallelSubset) -> int:
        """Pairs that are too long to learn from."""
        return len(source) - len(source.within_length(self.max_length - 1)[0])


def _rows(portion: Subset, numbers: np.ndarray, *, after: int) -> tuple[np.ndarray, np.ndarray]:
    """(T,) the tokens of these units, each followed by `after`, and (B,) how many each then has."""
    spans = portion.spans[numbers]
    lengths = spans[:, 1] - spans[:, 0]
    found = np.full(int(lengths.sum()) + len(numbers), after, np.int64)
    places = concat_ranges(np.cumsum(lengths + 1) - lengths - 1, lengths)
    found[places] = portion.corpus.ids[concat_ranges(spans[:, 0], lengths)]
    return found, lengths + 1
