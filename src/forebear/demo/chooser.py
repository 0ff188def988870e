"""Takes every decision behind a generated text and keeps account of how much it told, in bits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from math import log2
from random import Random


class Odds:
    """Fixed probabilities of a few options: what is drawn from, and the bits each option is worth."""

    __slots__ = ("bits", "shares", "upto")

    def __init__(self, weights: Sequence[float]) -> None:
        whole = sum(weights)
        self.shares = [weight / whole for weight in weights]
        self.upto = [*accumulate(self.shares)][:-1]  # the last option takes what rounding leaves
        self.bits = [-log2(share) for share in self.shares]

    def bits_without(self, index: int, taken: Collection[int]) -> float:
        """What an option is worth where those taken are known not to come."""
        if not taken:
            return self.bits[index]
        return log2(1 - sum(self.shares[other] for other in taken)) + self.bits[index]


class Chooser:
    """One text's randomness: the sum of −log2 p over its decisions is `bits`."""

    __slots__ = ("bits", "draw")

    def __init__(self, seed: str) -> None:
        self.draw = Random(seed).random
        self.bits = 0.0

    def choose(self, odds: Odds) -> int:
        index = bisect_right(odds.upto, self.draw())
        self.bits += odds.bits[index]
        return index

    def choose_without(self, odds: Odds, taken: Collection[int]) -> int:
        """One of the options that are not taken, in their old proportions."""
        while (index := bisect_right(odds.upto, self.draw())) in taken:
            pass
        self.bits += odds.bits_without(index, taken)
        return index


def zipf(count: int, shift: float) -> list[float]:
    """Weights that fall with rank as words do; a larger shift makes the first ranks more alike."""
    return [1 / (rank + shift) for rank in range(1, count + 1)]
