"""Which n-gram models there are: orders, ways of smoothing and pruning; what is none of them is refused early."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebear.errors import BadInput
from forebear.statistics import smoothing
from forebear.statistics.counting import Counts
from forebear.statistics.room import UNBOUNDED, Room

SMOOTHINGS = ("none", "add", "witten-bell", "stupid", "kneser-ney", "given")
PRUNING = ("witten-bell", "kneser-ney")  # ways to which nothing is lost by leaving out what is rare
HIGHEST = 10


@dataclass(frozen=True)
class Way:
    """How counts of n-grams up to an order become probabilities.

    smoothing  "none": shares of counts, and the shorter context where a context was never seen; "add": k more for each;
               "witten-bell"; "stupid"; "kneser-ney": interpolated, modified; "given": not counted here but read from
               elsewhere
    prune      n-grams of each length that are seen no more often than this are left out: "0 0 1"
    """

    order: int
    smoothing: str = "kneser-ney"
    k: float = 1.0
    prune: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.order <= HIGHEST:
            remedy = f"choose an order from 1 to {HIGHEST}, such as 3"
            raise BadInput(f"an n-gram model of order {self.order}", remedy=remedy)
        if self.smoothing not in SMOOTHINGS:
            raise BadInput(f"no smoothing is named {self.smoothing!r}", remedy=f"there are: {', '.join(SMOOTHINGS)}")
        if self.smoothing == "add" and not 0 < self.k < float("inf"):
            raise BadInput(f"k is {self.k}", remedy='add something above 0 to each count, or choose smoothing "none"')
        if self.least and self.smoothing not in PRUNING:
            what = f"smoothing {self.smoothing!r} has no use for --prune"
            raise BadInput(what, remedy=f"choose --smoothing {' or '.join(PRUNING)}")

    @property
    def least(self) -> tuple[int, ...]:
        """How often n-grams of each length have to occur; none: once."""
        parts = self.prune.replace(",", " ").split()
        if not all(part.isdecimal() and part.isascii() for part in parts):
            remedy = "give a number for each length, the last for all longer ones: --prune '0 0 1'"
            raise BadInput(f"--prune {self.prune!r}", remedy=remedy)
        most = [int(part) for part in parts]
        if most and most[0]:
            what = f"--prune {self.prune!r} would leave out single tokens"
            raise BadInput(what, remedy="begin with 0; --vocabulary makes a smaller vocabulary")
        if most != sorted(most):
            what = f"--prune {self.prune!r}: a longer n-gram would stay without the shorter ones that it is made of"
            raise BadInput(what, remedy="give numbers that do not fall")
        return tuple(count + 1 for count in most) if any(most) else ()

    def levels(
        self,
        counts: Counts,
        predictable: np.ndarray,
        end: int,
        discounts: list[smoothing.Discounts],
        room: Room = UNBOUNDED,
    ) -> smoothing.Levels:
        """Probabilities, length by length; Kneser–Ney's discounts are put into that list before the first."""
        discounts.clear()
        if self.smoothing == "none":
            return smoothing.maximum_likelihood(counts, predictable)
        if self.smoothing == "add":
            return smoothing.added(counts, predictable, self.k)
        if self.smoothing == "witten-bell":
            return smoothing.witten_bell(counts, predictable, self.least)
        if self.smoothing == "stupid":
            return smoothing.stupid(counts, predictable)
        return smoothing.kneser_ney(counts, predictable, end, discounts, self.least, room)

    def even(self, predictable: np.ndarray) -> np.ndarray | None:
        """What a context that lacks a token falls back to, where that is not the shorter context."""
        return smoothing.even(predictable) if self.smoothing == "add" else None
