"""Learning from examples: every one once an epoch, in an order of its own, in batches of about equal size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import Batch, Moment
from forebear.tasks.rows import Rows, following
from forebear.text.order import shuffled


@dataclass(frozen=True)
class EveryExample:
    """`language` is how much predicting the next token counts beside the task (GPT's auxiliary objective)."""

    language: float = 0.0

    def steps(self, source: Rows, size: int) -> int:
        """How many batches of about `size` tokens show everything once; never more than there are examples."""
        return min(max(1, round(int(source.sizes.sum()) / size)), len(source))

    def batch(self, source: Rows, size: int, moment: Moment) -> Batch:
        epoch, number = divmod(moment.step, self.steps(source, size))
        order, cuts = _epoch(source, self.steps(source, size), moment.seed, epoch)
        chosen = order[cuts[number] : cuts[number + 1]]
        # Rows of equal length stand together: attention takes them at once.
        batch = source.batch(chosen[np.argsort(source.sizes[chosen], kind="stable")])
        if not self.language:
            return batch
        return replace(batch, targets=batch.targets | {"next": following(batch)}, weights={"next": self.language})

    def check(self, source: Rows) -> None:
        if not len(source):
            raise BadInput("there is no example to learn from", remedy="give a file with labelled examples")


@lru_cache(maxsize=4)
def _epoch(source: Rows, steps: int, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """The order of the examples, and where in it each batch begins: about as many tokens in each, at least one row."""
    order = shuffled(np.arange(len(source)), len(source), seed=seed, epoch=epoch)
    ends = np.cumsum(source.sizes[order])
    wanted = ends[-1] * np.arange(1, steps) / steps
    cuts = np.searchsorted(ends, wanted) + 1
    least = np.arange(1, steps)
    cuts = np.maximum.accumulate(cuts - least) + least  # each batch has an example of its own
    cuts = np.minimum(cuts, len(source) - steps + least)
    return order, np.concatenate(([0], cuts, [len(source)])).astype(np.int64)
