"""How often each n-gram occurs: counted batch by batch, the same whatever the batches were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from forebear.statistics.ngrams import MUCH, Ngrams, counts_in, damaged, whole
from forebear.statistics.room import Growing, narrow, parts_of
from forebear.text.mapping import let_go

AT_ONCE = 1 << 20  # n-grams of two parts that are joined at once


@dataclass(frozen=True, eq=False)
class Counts:
    """For each length, how often each n-gram ends at a predicted token.

    `suffixes` are the numbers of n-grams without their first token, where counting has found them on its way and nobody
    has taken them yet.
    """

    ngrams: Ngrams
    times: tuple[np.ndarray, ...]
    suffixes: list[np.ndarray] = field(default_factory=list)

    def take_suffixes(self) -> list[np.ndarray]:
        """Those, for who asks first; they take much room, and are wanted once."""
        taken = list(self.suffixes)
        self.suffixes.clear()
        return taken

    @classmethod
    def none(cls, vocabulary: int, order: int) -> Counts:
        nothing = np.zeros(0, np.int32)
        continued = (np.zeros(vocabulary, np.int32), *(nothing,) * (order - 2))[: order - 1]
        ngrams = Ngrams(vocabulary, (nothing,) * (order - 1), continued)
        return cls(ngrams, (np.zeros(vocabulary, np.int64), *(nothing,) * (order - 1)))

    @property
    def size(self) -> int:
        return sum(map(len, self.times))

    def on_disk(self, folder: Path) -> Counts:
        """The same in files of this folder, which vanish with it."""

        def stored(array: np.ndarray) -> np.ndarray:
            growing = Growing(np.int32 if array.dtype.itemsize == 2 else array.dtype, folder)
            for part in parts_of(array):
                growing.add(part)
            return growing.whole()

        ngrams = Ngrams(
            self.ngrams.vocabulary, tuple(map(stored, self.ngrams.words)), tuple(map(stored, self.ngrams.continuations))
        )
        return Counts(ngrams, (self.times[0], *map(stored, self.times[1:])))

    def stored(self) -> dict[str, tuple[np.ndarray, Any]]:
        """All arrays by name, and the smallest types that they can be stored in: equal numbers, equal bytes."""
        told = self.ngrams.stored()
        return told | {f"counts.{n}": (times, narrow(times)) for n, times in enumerate(self.times, start=1)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: array.astype(kind) for name, (array, kind) in self.stored().items()}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, order: int) -> Counts:
        ngrams = Ngrams.load(arrays, vocabulary=vocabulary, order=order)
        single = whole(arrays, "counts.1", ngrams.size(1)).astype(np.int64)
        times = [counts_in(arrays, f"counts.{n}", ngrams.size(n)) for n in range(2, order + 1)]
        for n, counts in enumerate(times, start=2):
            if not counts.all():
                raise damaged(f"counts.{n}", "says that an n-gram occurs not at all")
        return cls(ngrams, (single, *times))


def bordered(
    tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray, end: int, allowed: np.ndarray, text: np.ndarray
) -> int:
    """Lays rows [end, w1 … wn] that ask for [w1 … wn, end] out as text: the row, an end and a BORDER behind each.

    -1: all is well. The place of a target that is not `allowed`; as many as there are tokens, or more: rows are others.
    """
    from forebear.kernels.ngrams import BORDER

    if len(tokens) > MUCH:
        from forebear.kernels.compiling import compiled
        from forebear.kernels.counts import bordered_in_loops

        return int(compiled(bordered_in_loops)(tokens, lengths, targets, end, allowed, text))
    lasts = np.cumsum(lengths) - 1
    asked, before = np.roll(tokens, -1), np.zeros(len(tokens), bool)
    asked[lasts] = end
    before[lasts + 1 - lengths] = True
    if not np.array_equal(asked, targets) or not np.array_equal(np.asarray(tokens) == end, before):
        return len(tokens)
    fine = (targets >= 0) & (targets < len(allowed))
    fine[fine] = allowed[targets[fine]]
    if not fine.all():
        return int(np.argmin(fine))
    ends = lasts + 1 + 2 * np.arange(1, len(lengths) + 1)  # behind the border of each row
    own = np.ones(len(text), bool)
    own[ends - 1], own[ends - 2] = False, False
    text[ends - 1], text[ends - 2], text[own] = BORDER, end, tokens
    return -1


def counted(text: np.ndarray, *, vocabulary: int, order: int, threads: int = 1) -> Counts:
    """Of rows with a BORDER behind each: the first token of each row is only seen, every other is predicted.

    The text is used up.
    """
    from forebear.kernels.ngrams import BORDER, levels, levels_in_numpy

    if len(text) * order > MUCH:
        from forebear.kernels.compiling import compiled
        from forebear.kernels.counts import predicted_in_loops

        times = compiled(predicted_in_loops)(text, np.zeros(vocabulary, np.int64))
        found = levels(text, vocabulary, order, threads)
    else:
        predicted = (text != BORDER) & (np.concatenate(([BORDER], text[:-1])) != BORDER)
        times = np.bincount(text[predicted], minlength=vocabulary)
        found = levels_in_numpy(text, vocabulary, order)
    ngrams = Ngrams(vocabulary, tuple(one.words for one in found), tuple(one.continuations for one in found))
    suffixes = [np.zeros(vocabulary, np.int32), *(one.suffixes for one in found)]
    return Counts(ngrams, (times, *(one.times for one in found)), suffixes)


def merged(parts: Sequence[Counts], folder: Path | None = None) -> Counts:
    """The counts of all parts together, two and two; the new ones in memory, or in files of that folder."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [parts[first : first + 2] for first in range(0, len(parts), 2)]
        parts = [_merged(*pair, folder) if len(pair) > 1 else pair[0] for pair in pairs]
    return parts[0]


def _merged(one: Counts, other: Counts, folder: Path | None) -> Counts:
    if folder is None and one.size + other.size <= MUCH:
        return _merged_in_numpy(one, other)
    from forebear.kernels.compiling import compiled
    from forebear.kernels.counts import joined_in_loops

    vocabulary, order = one.ngrams.vocabulary, one.ngrams.order
    single = one.times[0].astype(np.int64) + other.times[0]
    kind = np.int32 if int(single.sum()) <= np.iinfo(np.int32).max else np.int64
    kinds = np.full(vocabulary, 3, np.uint8)
    words, continuations, times = [], [], [single]
    most = max(AT_ONCE, 2 * vocabulary)
    rooms = np.empty(most, np.int32), np.empty(most, kind), np.empty(most, np.uint8), np.empty(AT_ONCE, np.int32)
    for n in range(2, order + 1):
        made = Growing(np.int32, folder), Growing(kind, folder), Growing(np.uint8, folder), Growing(np.int32, folder)
        sides = [
            (_wide(mine.ngrams.continuations[n - 2]), mine.ngrams.words[n - 2], _wide(mine.times[n - 1]))
            for mine in (one, other)
        ]
        context, read = 0, (np.zeros(2, np.int64), np.zeros(2, np.int64))
        while context < len(kinds):
            after, filled = compiled(joined_in_loops)(kinds, *sides[0], *sides[1], context, *read, *rooms)
            for growing, part in zip(made[:3], rooms[:3], strict=True):
                growing.add(part[:filled])
            made[3].add(rooms[3][: after - context])
            let_go(kinds, *sides[0], *sides[1])
            context = after
        last, counts, kinds, many = (growing.whole() for growing in made)
        words.append(last)
        times.append(counts)
        continuations.append(many)
    return Counts(Ngrams(vocabulary, tuple(words), tuple(continuations)), tuple(times))


def _wide(numbers: np.ndarray) -> np.ndarray:
    """As joining wants them: not for every mixture of types are its loops compiled anew."""
    return numbers if numbers.dtype.itemsize > 2 else numbers.astype(np.int32)


def _merged_in_numpy(one: Counts, other: Counts) -> Counts:
    """An n-gram's number depends on the others, so prefixes are renumbered, level by level."""
    vocabulary, order = one.ngrams.vocabulary, one.ngrams.order
    levels: list[np.ndarray] = []
    times = [one.times[0].astype(np.int64) + other.times[0]]
    numbers = [np.arange(vocabulary)] * 2
    for n in range(2, order + 1):
        renewed = [
            at[part.ngrams.prefixes(n)] * vocabulary + part.ngrams.last(n)
            for at, part in zip(numbers, (one, other), strict=True)
        ]
        together = np.sort(np.concatenate(renewed), kind="stable")  # sorted runs: merged in one pass
        levels.append(together[np.flatnonzero(np.diff(together, prepend=-1))])
        numbers = [np.searchsorted(levels[-1], mine) for mine in renewed]
        total = np.zeros(len(levels[-1]), np.int64)
        for at, part in zip(numbers, (one, other), strict=True):
            total[at] += part.times[n - 1]
        times.append(total)
    return Counts(Ngrams.sorted(vocabulary, levels), tuple(times))
