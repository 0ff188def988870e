"""How often each n-gram occurs: counted batch by batch, the same whatever the batches were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.statistics.ngrams import MUCH, Ngrams, damaged, smallest, whole


@dataclass(frozen=True, eq=False)
class Counts:
    """For each length, how often each n-gram ends at a predicted token.

    `suffixes` are the numbers of n-grams without their first token, where counting has found them on its way.
    """

    ngrams: Ngrams
    times: tuple[np.ndarray, ...]
    suffixes: tuple[np.ndarray, ...] | None = None

    @classmethod
    def none(cls, vocabulary: int, order: int) -> Counts:
        nothing = np.zeros(0, np.int32)
        continued = (np.zeros(vocabulary, np.int32), *(nothing,) * (order - 2))[: order - 1]
        ngrams = Ngrams(vocabulary, (nothing,) * (order - 1), continued)
        return cls(ngrams, (np.zeros(vocabulary, np.int64), *(nothing,) * (order - 1)))

    @property
    def size(self) -> int:
        return sum(map(len, self.times))

    def arrays(self) -> dict[str, np.ndarray]:
        return self.ngrams.arrays() | {f"counts.{n}": smallest(times) for n, times in enumerate(self.times, start=1)}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, order: int) -> Counts:
        ngrams = Ngrams.load(arrays, vocabulary=vocabulary, order=order)
        times = tuple(whole(arrays, f"counts.{n}", ngrams.size(n)) for n in range(1, order + 1))
        for n, counts in enumerate(times[1:], start=2):
            if not counts.all():
                raise damaged(f"counts.{n}", "says that an n-gram occurs not at all")
        return cls(ngrams, times)


def counted(text: np.ndarray, *, vocabulary: int, order: int, threads: int = 1) -> Counts:
    """Of rows with a BORDER behind each: the first token of each row is only seen, every other is predicted."""
    from forebear.kernels.ngrams import BORDER, levels, levels_in_numpy

    way = levels if len(text) * order > MUCH else levels_in_numpy
    found = way(text, vocabulary, order, *([threads] if way is levels else []))
    predicted = (text != BORDER) & (np.concatenate(([BORDER], text[:-1])) != BORDER)
    times = np.bincount(text[predicted], minlength=vocabulary)
    ngrams = Ngrams(vocabulary, tuple(one.words for one in found), tuple(one.continuations for one in found))
    suffixes = (np.zeros(vocabulary, np.int32), *(one.suffixes for one in found))
    return Counts(ngrams, (times, *(one.times for one in found)), suffixes)


def merged(parts: Sequence[Counts]) -> Counts:
    """The counts of all parts together, two and two."""
    parts = list(parts)
    while len(parts) > 1:
        parts = [
            _merged(*parts[first : first + 2]) if first + 1 < len(parts) else parts[first]
            for first in range(0, len(parts), 2)
        ]
    return parts[0]


def _merged(one: Counts, other: Counts) -> Counts:
    """An n-gram's number depends on the others, so prefixes are renumbered, level by level."""
    vocabulary, order = one.ngrams.vocabulary, one.ngrams.order
    words: list[np.ndarray] = []
    continuations: list[np.ndarray] = []
    times = [one.times[0].astype(np.int64) + other.times[0]]
    numbers = [np.arange(vocabulary)] * 2
    for n in range(2, order + 1):
        renewed = [
            at[part.ngrams.prefixes(n)] * vocabulary + part.ngrams.last(n)
            for at, part in zip(numbers, (one, other), strict=True)
        ]
        together = np.sort(np.concatenate(renewed), kind="stable")  # sorted runs: merged in one pass
        level = together[np.flatnonzero(np.diff(together, prepend=-1))]
        numbers = [np.searchsorted(level, mine) for mine in renewed]
        total = np.zeros(len(level), np.int64)
        for at, part in zip(numbers, (one, other), strict=True):
            total[at] += part.times[n - 1]
        before = vocabulary if n == 2 else len(words[-1])
        continuations.append(np.bincount(level // vocabulary, minlength=before).astype(np.int32))
        words.append((level % vocabulary).astype(np.int32))
        times.append(total)
    return Counts(Ngrams(vocabulary, tuple(words), tuple(continuations)), tuple(times))
