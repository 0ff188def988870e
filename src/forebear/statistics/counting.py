"""How often each n-gram occurs: counted batch by batch, the same whatever the batches were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.statistics.ngrams import Ngrams, damaged, smallest, whole


@dataclass(frozen=True, eq=False)
class Counts:
    """For each length, how often each n-gram ends at a predicted token."""

    ngrams: Ngrams
    times: tuple[np.ndarray, ...]

    @classmethod
    def none(cls, vocabulary: int, order: int) -> Counts:
        nothing = np.zeros(0, np.int64)
        ngrams = Ngrams(vocabulary, (nothing,) * (order - 1))
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


def counted(rows: np.ndarray, lengths: np.ndarray, *, vocabulary: int, order: int) -> Counts:
    """Of whole rows one after the other: the first token of each is only seen, every other is predicted.

    Level by level: the number of the n-gram that ends at a token comes from that of the shorter one before it.
    """
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    keys: list[np.ndarray] = []
    times = [np.bincount(rows[places >= 1], minlength=vocabulary)]
    numbers = rows
    for n in range(2, order + 1):
        inside = np.flatnonzero(places >= n - 1)
        level, mine, count = np.unique(
            numbers[inside - 1] * vocabulary + rows[inside], return_inverse=True, return_counts=True
        )
        numbers = np.full(len(rows), -1)
        numbers[inside] = mine
        keys.append(level)
        times.append(count)
    return Counts(Ngrams(vocabulary, tuple(keys)), tuple(times))


def merged(parts: Sequence[Counts]) -> Counts:
    """The counts of all parts together. An n-gram's number depends on the others, so prefixes are renumbered."""
    vocabulary, order = parts[0].ngrams.vocabulary, parts[0].ngrams.order
    keys: list[np.ndarray] = []
    times = [np.sum([part.times[0] for part in parts], axis=0)]
    numbers = [np.arange(vocabulary)] * len(parts)
    for n in range(2, order + 1):
        renewed = [
            at[part.ngrams.prefixes(n)] * vocabulary + part.ngrams.words(n)
            for at, part in zip(numbers, parts, strict=True)
        ]
        together = np.sort(np.concatenate(renewed), kind="stable")  # sorted runs: merged in one pass
        level = together[np.flatnonzero(np.diff(together, prepend=-1))]
        numbers = [np.searchsorted(level, mine) for mine in renewed]
        total = np.zeros(len(level), np.int64)
        for at, part in zip(numbers, parts, strict=True):
            total[at] += part.times[n - 1]
        keys.append(level)
        times.append(total)
    return Counts(Ngrams(vocabulary, tuple(keys)), tuple(times))
