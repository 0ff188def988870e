"""Which token comes next, given scores and one random number: penalty, temperature, top-k, top-p, in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.using.texts import end_of, no_numbers

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer


def at_least_one(**counts: int) -> None:
    """Refuses what is no number of things."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise BadInput(f"{name} is {count}", remedy=f"give a {name} of at least 1, a whole number")


def log_sums(scores: np.ndarray) -> np.ndarray:
    """(B,) what logits (B, V) must be less to be log P; -inf where nothing is possible."""
    high = scores.max(axis=1, initial=-np.inf, keepdims=True)
    if not (high < np.inf).all():
        raise no_numbers()
    shifted = scores - np.where(np.isfinite(high), high, 0)
    with np.errstate(divide="ignore"):
        return high[:, 0] + np.log(np.exp(shifted, out=shifted).sum(axis=1, dtype=np.float64))


@dataclass(frozen=True)
class Sampling:
    """How one token is chosen. A temperature of 0 takes the best, the first of several; then nothing is random.

    temperature         scores are divided by it: below 1 bolder, above 1 more even
    top_k               only the k best are drawn from (and those equal to the last of them); None: from all
    top_p               only the fewest best are drawn from that together have this probability; 1: from all
    repetition_penalty  tokens already in the row lose: a score above 0 is divided by it, one below multiplied
    """

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float = 0.95
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise BadInput(f"the temperature is {self.temperature}", remedy="choose 0 for the best token, or above")
        if self.top_k is not None and (self.top_k < 1 or not isinstance(self.top_k, Integral)):
            raise BadInput(f"top-k is {self.top_k}", remedy="choose 1 or more, or leave it out to draw from all")
        if not 0 < self.top_p <= 1:
            raise BadInput(f"top-p is {self.top_p}", remedy="choose a share above 0 and up to 1, such as 0.95")
        if not (math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            raise BadInput(f"the repetition penalty is {self.repetition_penalty}", remedy="choose 1 for none, or 1.2")

    def choose(self, scores: np.ndarray, said: Sequence[int], chance: float) -> int:
        """The token for these scores (V,), one of them finite at least, and a number drawn evenly from [0, 1).

        The tokens that are left share [0, 1) by their probabilities, in the order of their ids; the one on whose part
        the number falls is chosen. So equal numbers give equal tokens, whatever else is drawn beside this row.
        """
        scores = penalised(scores, said, self.repetition_penalty)
        if self.temperature == 0:
            return int(scores.argmax())
        scores = (scores - scores.max()) / self.temperature  # the best is 0, so that no temperature overflows
        left = np.arange(len(scores))
        for narrowed in self._narrowing():
            scores = narrowed(scores)
            kept = np.flatnonzero(scores > -np.inf)
            left, scores = left[kept], scores[kept]
        shares = np.cumsum(np.exp(scores))
        at = int(np.searchsorted(shares, chance * shares[-1], side="right"))
        return int(left[min(at, len(left) - 1)])

    def _narrowing(self) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
        """What leaves fewer tokens to draw from, one after the other; what is gone costs no time any more."""
        if self.top_k is not None:
            count = self.top_k
            yield lambda scores: best(scores, count)
        yield lambda scores: likeliest(scores, self.top_p)


def penalised(scores: np.ndarray, said: Sequence[int], penalty: float) -> np.ndarray:
    """Scores (V,) where what was said already is less likely, however often it was said."""
    if penalty == 1 or not len(said):
        return scores
    told = np.unique(np.asarray(said, np.int64))
    changed = scores.copy()
    changed[told] = np.where(scores[told] < 0, scores[told] * penalty, scores[told] / penalty)
    return changed


def best(scores: np.ndarray, count: int) -> np.ndarray:
    """Scores (V,) where all below the last of the best `count` are -inf."""
    if count >= len(scores):
        return scores
    last = np.partition(scores, -count)[-count]
    return np.where(scores < last, -np.inf, scores)


def likeliest(scores: np.ndarray, share: float) -> np.ndarray:
    """Scores (V,) where all are -inf but the fewest best whose probabilities reach the share.

    Tokens with less than (1 - share) / V each cannot reach 1 - share together: they go unsorted.
    """
    if share == 1:
        return scores
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    rare = weights < (1 - share) / len(weights)
    ids = np.flatnonzero(~rare)
    ids = ids[np.argsort(weights[ids], kind="stable")]  # rising
    below = weights[rare].sum() + np.cumsum(weights[ids])
    kept = ids[below > 1 - share]
    if not len(kept):  # rounding: at a share near 0 the best alone
        kept = ids[-1:]
    left = np.full_like(scores, -np.inf)
    left[kept] = scores[kept]
    return left


@dataclass(frozen=True)
class Permitted:
    """Which tokens a text may have: none of `never`, `unknown` only where nothing else is possible, else the end."""

    never: np.ndarray
    unknown: int | None
    end: int

    @classmethod
    def by(cls, tokenizer: Tokenizer, vocabulary: int) -> Permitted:
        """What a text of this tokenizer may have, for a run that knows so many entries."""
        end = end_of(tokenizer)
        beyond = range(tokenizer.size, vocabulary)  # entries that only round the vocabulary up
        never = [*(tokenizer.specials - {end, tokenizer.unknown}), *beyond]
        return cls(np.array(never, np.int64), tokenizer.unknown, end)

    def of(self, scores: np.ndarray) -> np.ndarray:
        """The scores (V,) in float64, -inf where a token may not be said."""
        kept = np.array(scores, np.float64)
        if np.isnan(kept).any():
            raise no_numbers()
        kept[self.never] = -np.inf
        if self.unknown is not None:
            unknown, kept[self.unknown] = kept[self.unknown], -np.inf
            if kept.max() == -np.inf:
                kept[self.unknown] = unknown
        if kept.max() == -np.inf:
            kept[self.end] = 0.0
        return kept

    def of_rows(self, scores: np.ndarray) -> np.ndarray:
        """The scores (B, V) of rows that compete: -inf likewise, but a row that can say nothing is given no end."""
        kept = scores.copy()
        kept[:, self.never] = -np.inf
        if self.unknown is not None:
            kept[:, self.unknown] = -np.inf
            silent = np.flatnonzero(kept.max(axis=1) == -np.inf)
            kept[silent, self.unknown] = scores[silent, self.unknown]
        return kept
