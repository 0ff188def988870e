"""Show every word once and ask nothing: all that is to be known is which words there are."""

from __future__ import annotations

from dataclasses import dataclass

from forebear.objectives.around import Around
from forebear.objectives.batch import Batch, Moment
from forebear.text.portion import Portion


@dataclass(frozen=True)
class WhichWords:
    """The stretches of `Around`, without a target."""

    def steps(self, source: Portion, size: int) -> int:
        return Around("document").steps(source, size)

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        return Batch(Around("document").batch(source, size, moment).inputs, {})

    def check(self, source: Portion) -> None:
        """Any text has words."""
