"""The protocol of an objective: batches of inputs and targets from text, by seed and step."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

from forebear.data.io.sources import ProgressFn
from forebear.objectives.batch import Batch, BatchKey


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
