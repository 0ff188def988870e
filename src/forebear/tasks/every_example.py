"""Learning from examples: every one once an epoch, in an order of its own, in batches of about equal size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import Batch, Moment, even_cuts
from forebear.tasks.rows import Rows, following
from forebear.text.order import shuffled

POOL = 64  # batches that are drawn together, so that examples of like lengths can be in one


@dataclass(frozen=True)
class EveryExample:
    """An epoch shows every example once, in an order of its own.

    language  how much predicting the next token counts beside the task (GPT's auxiliary objective)
    alike     whether examples of a batch are about equally long: who reads word by word then goes fewer steps
    """

    language: float = 0.0
    alike: bool = False

    def steps(self, source: Rows, size: int) -> int:
        """How many batches of about `size` tokens show everything once; never more than there are examples."""
        return min(max(1, round(int(source.sizes.sum()) / size)), len(source))

    def batch(self, source: Rows, size: int, moment: Moment) -> Batch:
        epoch, number = divmod(moment.step, self.steps(source, size))
        order, cuts = _epoch(source, self.steps(source, size), moment.seed, epoch, self.alike)
        chosen = order[cuts[number] : cuts[number + 1]]
        # Rows of equal length stand together: attention takes them at once.
        batch = source.batch(chosen[np.argsort(source.sizes[chosen], kind="stable")])
        if not self.language:
            return batch
        return replace(batch, targets=batch.targets | {"next": following(batch)}, weights={"next": self.language})

    def check(self, source: Rows) -> None:
        if not len(source):
            raise BadInput("there is no example to learn from", remedy="give a file with labelled examples")


@dataclass(frozen=True)
class AllExamples:
    """Every step shows every example, always in the same order: for who learns from all of them at once."""

    def steps(self, source: Rows, size: int) -> int:
        return 1

    def batch(self, source: Rows, size: int, moment: Moment) -> Batch:
        return _all(source)

    def check(self, source: Rows) -> None:
        EveryExample().check(source)


@lru_cache(maxsize=1)
def _all(source: Rows) -> Batch:
    return source.batch(np.arange(len(source)))


@lru_cache(maxsize=4)
def _epoch(source: Rows, steps: int, seed: int, epoch: int, alike: bool) -> tuple[np.ndarray, np.ndarray]:
    """The order of the examples, and where in it each batch begins: about as many tokens in each, at least one row."""
    order = shuffled(np.arange(len(source)), len(source), seed=seed, epoch=epoch)
    ends = np.cumsum(source.sizes[order])
    wanted = ends[-1] * np.arange(1, steps) / steps
    cuts = np.searchsorted(ends, wanted) + 1
    least = np.arange(1, steps)
    cuts = np.maximum.accumulate(cuts - least) + least  # each batch has an example of its own
    cuts = np.minimum(cuts, len(source) - steps + least)
    cuts = np.concatenate(([0], cuts, [len(source)])).astype(np.int64)
    return _by_length(source.sizes, order, cuts, [seed, epoch]) if alike else (order, cuts)


def _by_length(
    sizes: np.ndarray, order: np.ndarray, cuts: np.ndarray, chance: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The same in as many batches: those of each pool are sorted by length, cut anew, and come in any order."""
    made: list[np.ndarray] = []
    for first in range(0, len(cuts) - 1, POOL):
        last = min(first + POOL, len(cuts) - 1)
        drawn = order[cuts[first] : cuts[last]]
        drawn = drawn[np.argsort(sizes[drawn], kind="stable")]
        parts = np.split(drawn, even_cuts(np.concatenate(([0], np.cumsum(sizes[drawn]))), last - first)[1:-1])
        made += [parts[one] for one in np.random.default_rng([*chance, first]).permutation(len(parts))]
    return np.concatenate(made), np.cumsum([0, *map(len, made)])
