"""From counts to probabilities: as they are, with something added to each, or by Kneser and Ney's discounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebear.statistics.backoff import Backoff
from forebear.statistics.counting import Counts


def maximum_likelihood(counts: Counts, predictable: np.ndarray) -> Backoff:
    """Shares of counts. A context that was never seen has none; the shorter context answers for it."""
    ngrams, logs, backoffs = counts.ngrams, [], []
    for n, times in enumerate(counts.times, start=1):
        prefixes = ngrams.prefixes(n)
        total = np.bincount(prefixes, weights=times, minlength=ngrams.size(n - 1))
        logs.append(_log(times / np.maximum(total, 1)[prefixes]))
        backoffs.append(np.where(total > 0, -np.inf, 0.0))
    if not counts.times[0].any():
        logs[0] = _log(_even(predictable))  # of nothing, all is equally likely
    return Backoff(ngrams, tuple(logs), tuple(backoffs[1:]))


def added(counts: Counts, predictable: np.ndarray, k: float) -> Backoff:
    """As if every token had followed every context k times more than it did (Laplace's rule where k is 1)."""
    ngrams, logs, backoffs = counts.ngrams, [], []
    size = int(np.count_nonzero(predictable))
    for n, times in enumerate(counts.times, start=1):
        prefixes = ngrams.prefixes(n)
        total = np.bincount(prefixes, weights=times, minlength=ngrams.size(n - 1)) + k * size
        logs.append(_log((times + k) / total[prefixes]))
        backoffs.append(_log(k * size / total))
    logs[0] = np.where(predictable, logs[0], -np.inf)
    return Backoff(ngrams, tuple(logs), tuple(backoffs[1:]), even=_log(_even(predictable)))


@dataclass(frozen=True)
class Discounts:
    """What is taken from n-grams seen once, twice, and more often, to be given to those never seen.

    way  "modified": three discounts, from how many n-grams were seen 1 to 4 times (Chen & Goodman 1998).
         "absolute": one for all, where the three cannot be had (Kneser & Ney 1995).
         "half": one half, where even that cannot, because none was seen once or none twice.
    """

    way: str
    taken: tuple[float, float, float]
    seen: tuple[int, int, int, int]  # how many n-grams were seen 1, 2, 3 and 4 times

    @classmethod
    def of(cls, times: np.ndarray) -> Discounts:
        once, twice, thrice, four = seen = _seen(times)
        if not (once and twice):
            return cls("half", (0.5, 0.5, 0.5), seen)
        share = once / (once + 2 * twice)
        if thrice:
            three = (share, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice)
            # At 0 nothing would be left for the unseen; below, probability would be made of nothing.
            if all(taken > 0 for taken in three):
                return cls("modified", three, seen)
        return cls("absolute", (share, share, share), seen)


def _seen(times: np.ndarray) -> tuple[int, int, int, int]:
    often = np.bincount(np.minimum(times, 5), minlength=5).tolist()
    return often[1], often[2], often[3], often[4]


def kneser_ney(counts: Counts, predictable: np.ndarray, end: int) -> tuple[Backoff, list[Discounts]]:
    """Interpolated modified Kneser–Ney, as KenLM estimates it; and the discounts of each length.

    P(w|context) = (a(context w) - D) / Σ a(context ·) + left(context) · P(w|shorter context), down to a single token,
    whose rest is shared evenly by all that can be predicted, seen or not.
    """
    ngrams = counts.ngrams
    adjusted, suffixes = _adjusted(counts, end)
    shares = [np.zeros(0)] * ngrams.order
    backoffs, discounts = [], []
    for n, times in enumerate(adjusted, start=1):
        discounts.append(Discounts.of(times))
        taken = np.array([0.0, *discounts[-1].taken])[np.minimum(times, 3)]
        prefixes, contexts = ngrams.prefixes(n), ngrams.size(n - 1)
        total = np.bincount(prefixes, weights=times, minlength=contexts)
        left = np.bincount(prefixes, weights=taken, minlength=contexts)
        left = np.divide(left, total, out=np.ones(contexts), where=total > 0)
        lower = _even(predictable) if n == 1 else shares[n - 2][suffixes[n - 1]]
        shares[n - 1] = (times - taken) / np.maximum(total, 1)[prefixes] + left[prefixes] * lower
        backoffs.append(_log(left))
    return Backoff(ngrams, tuple(map(_log, shares)), tuple(backoffs[1:])), discounts


def _adjusted(counts: Counts, end: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Counts as Kneser and Ney want them, and each n-gram's number without its first token.

    Below the highest order an n-gram counts for how many different tokens stand before it: San Francisco makes
    Francisco frequent but not likely elsewhere. Nothing stands before the beginning of a text: there, its count.
    """
    ngrams = counts.ngrams
    suffixes = ngrams.suffixes()
    begins = np.arange(ngrams.vocabulary) == end
    adjusted = []
    for n in range(1, ngrams.order):
        different = np.bincount(suffixes[n], minlength=ngrams.size(n))
        if n > 1:
            begins = begins[ngrams.prefixes(n)]
            different = np.where(begins, counts.times[n - 1], different)
        adjusted.append(different)
    return [*adjusted, counts.times[-1]], suffixes


def _even(predictable: np.ndarray) -> np.ndarray:
    return predictable / np.count_nonzero(predictable)


def _log(shares: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # what never occurs
        return np.log(shares)
