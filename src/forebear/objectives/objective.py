"""The protocol of an objective: batches of inputs and targets from text, by seed and step."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

from forebear.data.io.sources import ProgressFn
from forebear.objectives.batch import Batch, BatchKey


@runtime_checkable
class FirstPassObjective(Protocol):
    """An objective that needs a pass over the whole text before its first batch."""

    def run_first_pass(self, source: Any, progress: ProgressFn | None = None) -> None: ...


@runtime_checkable
class HasBatchUnit(Protocol):
    """An objective whose batch size is not in tokens."""

    batch_unit: ClassVar[str]


def batch_unit(objective: object) -> str:
    """The unit of an objective's batch size: tokens by default."""
    return objective.batch_unit if isinstance(objective, HasBatchUnit) else "tokens"


class Objective(Protocol):
    """A training objective: inputs and targets from a corpus or labeled examples. Heads compute the loss.

    Batch sizes are in tokens, or in the objective's `batch_unit`.
    """

    def steps(self, source: Any, batch_size: int) -> int:
        """The number of batches of about `batch_size` in an epoch."""
        ...

    def batch(self, source: Any, batch_size: int, key: BatchKey) -> Batch:
        """Batch number `key.step`, of about `batch_size`."""
        ...

    def check(self, source: Any) -> None:
        """Raise InputError if the objective cannot be trained on this text."""
        ...
