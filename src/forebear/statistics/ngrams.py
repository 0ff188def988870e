"""Which n-grams there are: in the order of a dictionary, level by level; equal sets are equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebear.errors import ForebearError
from forebear.kernels.narrowing import compact
from forebear.statistics.room import UNBOUNDED, Room, narrow
from forebear.text.mapping import let_go

ABSENT = -1  # the number of an n-gram that is not there
MUCH = 1 << 18  # n-grams of more than one token; of fewer, numpy is ready before compiled loops are loaded


@dataclass(frozen=True, eq=False)
class Ngrams:
    """All n-grams up to an order, each known by its number among those of its length. A token's number is its id.

    They stand in the order of a dictionary, so the continuations of an n-gram lie side by side, in the order of the
    n-grams that they continue: how many there are of each, and their last tokens, say everything.

    words          last tokens of the n-grams of two tokens, of three, …
    continuations  of each token, of each n-gram of two tokens, …: how many n-grams go on with it
    """

    vocabulary: int
    words: tuple[np.ndarray, ...]
    continuations: tuple[np.ndarray, ...]
    _made: dict[tuple[str, int], np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def order(self) -> int:
        return len(self.words) + 1

    def size(self, n: int) -> int:
        """How many n-grams of n tokens there are; there is one of none."""
        return 1 if n == 0 else self.vocabulary if n == 1 else len(self.words[n - 2])

    def last(self, n: int) -> np.ndarray:
        """The last token of each n-gram."""
        return np.arange(self.vocabulary) if n == 1 else self.words[n - 2].astype(np.int64)

    def prefixes(self, n: int) -> np.ndarray:
        """The number of each n-gram's prefix, all its tokens but the last; that of a single token is 0."""
        if n == 1:
            return np.zeros(self.vocabulary, np.int64)
        return np.repeat(np.arange(self.size(n - 1)), self.continuations[n - 2])

    def starts(self, n: int) -> np.ndarray:
        """(size + 1,) where the continuations of each n-gram begin among those of n + 1 tokens, and their end."""
        if ("starts", n) not in self._made:
            self._made["starts", n] = np.concatenate(([0], np.cumsum(self.continuations[n - 1], dtype=np.int64)))
        return self._made["starts", n]

    def keys(self, n: int) -> np.ndarray:
        """Prefix · vocabulary + token of each n-gram (n > 1): rising numbers, to be looked up in."""
        if ("keys", n) not in self._made:
            self._made["keys", n] = self.prefixes(n) * self.vocabulary + self.last(n)
        return self._made["keys", n]

    def tokens(self, n: int) -> np.ndarray:
        """(size, n) the n-grams written out."""
        told = np.empty((self.size(n), n), np.int32)
        told[:, n - 1] = self.last(n)
        numbers = self.prefixes(n)
        for length in range(n - 1, 0, -1):
            told[:, length - 1] = self.last(length)[numbers]
            numbers = self.prefixes(length)[numbers] if length > 1 else numbers
        return told

    def number(self, tokens: Sequence[int] | np.ndarray) -> int:
        """The number of one n-gram; ABSENT: it is not there."""
        at = int(tokens[0])
        for n, token in enumerate(np.asarray(tokens)[1:].tolist(), start=2):
            begin, end = self.starts(n - 1)[at : at + 2].tolist()
            place = begin + int(np.searchsorted(self.words[n - 2][begin:end], token))
            if place == end or self.words[n - 2][place] != token:
                return ABSENT
            at = place
        return at

    def following(self, n: int, number: int) -> slice:
        """The numbers of the n-grams of n + 1 tokens that go on with this one of n."""
        begin, end = self.starts(n)[number : number + 2].tolist()
        return slice(begin, end)

    def find(self, n: int, prefixes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The numbers of the n-grams (n > 1) with these prefixes and last tokens; ABSENT where there is none."""
        keys = self.keys(n)
        if not len(keys):
            return np.full(len(words), ABSENT)
        wanted = prefixes * self.vocabulary + words  # below 0, so not there, where a prefix is ABSENT
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, places, ABSENT)

    def suffixes(self, room: Room = UNBOUNDED) -> list[np.ndarray]:
        """For each length, the number of each n-gram without its first token; of a single token nothing is left."""
        told = [np.zeros(self.vocabulary, np.int64)]
        much = sum(map(len, self.words)) > MUCH
        for n in range(2, self.order + 1):
            if n == 2:
                told.append(self.words[0])
            elif much:
                told.append(self._suffixes(n, told[-1], room))
            else:
                told.append(self.find(n - 1, told[-1][self.prefixes(n)], self.last(n)))
        return told

    def lacking(self) -> list[np.ndarray]:
        """For n = 1, 2, … the n-grams (size, n) that are not there, though one is that ends with them."""
        suffixes, told = self.suffixes(), [np.zeros((0, n), np.int32) for n in range(1, self.order + 1)]
        for n in range(self.order - 1, 1, -1):
            rows, gone = told[n][:, 1:], np.flatnonzero(suffixes[n] == ABSENT)
            if len(gone):
                rows = np.concatenate((rows, self.tokens(n + 1)[gone, 1:]))
            numbers = rows[:, 0].astype(np.int64)
            for length in range(2, n + 1):
                numbers = self.find(length, numbers, rows[:, length - 1].astype(np.int64))
            told[n - 1] = np.unique(rows[numbers == ABSENT], axis=0)
        return told

    def _suffixes(self, n: int, before: np.ndarray, room: Room = UNBOUNDED) -> np.ndarray:
        from forebear.kernels.compiling import compiled
        from forebear.kernels.smoothing import suffixes_in_loops

        told, starts = room.empty(self.size(n), np.int32), room.zeros(self.size(n - 2) + 1, np.int64)
        np.cumsum(self.continuations[n - 3], dtype=np.int64, out=starts[1:])
        given = self.continuations[n - 2], self.words[n - 2], starts, self.words[n - 3], before
        compiled(suffixes_in_loops)(*given, 0, self.size(n - 1), 0, told)
        room.free(starts)
        let_go(told, *given)
        return told

    def ending(self, tokens: np.ndarray, places: np.ndarray, longest: int) -> list[np.ndarray]:
        """For each length up to `longest`, the number of the n-gram that ends at each token, or ABSENT.

        `places` says how many tokens an n-gram may reach back from each.
        """
        told = [tokens]
        for n in range(2, longest + 1):
            numbers = np.full(len(tokens), ABSENT)
            inside = np.flatnonzero(places >= n - 1)
            numbers[inside] = self.find(n, told[-1][inside - 1], tokens[inside])
            told.append(numbers)
        return told

    def stored(self) -> dict[str, tuple[np.ndarray, Any]]:
        """`words.n`: last tokens; `continuations.n`: how many longer n-grams begin with each. With the smallest types
        that they can be stored in.
        """
        told = {}
        for n in range(2, self.order + 1):
            told[f"words.{n}"] = self.words[n - 2], np.min_scalar_type(self.vocabulary - 1)
            told[f"continuations.{n - 1}"] = self.continuations[n - 2], narrow(self.continuations[n - 2])
        return told

    def arrays(self) -> dict[str, np.ndarray]:
        """Those arrays in those types."""
        return {name: array.astype(kind) for name, (array, kind) in self.stored().items()}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, order: int) -> Ngrams:
        """From such arrays; whatever is not an orderly set of n-grams is refused by its name."""
        words: list[np.ndarray] = []
        continuations: list[np.ndarray] = []
        for n in range(2, order + 1):
            before = vocabulary if n == 2 else len(words[-1])
            many = counts_in(arrays, f"continuations.{n - 1}", before)
            mine = whole(arrays, f"words.{n}", int(many.sum(dtype=np.int64)))
            falls = np.flatnonzero(np.diff(mine.astype(np.int64)) <= 0) + 1
            starts = np.cumsum(many, dtype=np.int64)
            if len(mine) and (int(mine.max()) >= vocabulary or not np.isin(falls, starts, assume_unique=False).all()):
                raise damaged(f"words.{n}", "is not sorted, or holds ids that the vocabulary lacks")
            words.append(mine)
            continuations.append(many)
        return cls(vocabulary, tuple(words), tuple(continuations))

    @classmethod
    def sorted(cls, vocabulary: int, keys: Sequence[np.ndarray]) -> Ngrams:
        """From prefix · vocabulary + token of the n-grams of two tokens, of three, …, rising."""
        sizes = [vocabulary, *map(len, keys)]
        words = tuple((level % vocabulary).astype(np.int32) for level in keys)
        many = (np.bincount(level // vocabulary, minlength=size) for level, size in zip(keys, sizes, strict=False))
        return cls(vocabulary, words, tuple(mine.astype(np.int32) for mine in many))

    @classmethod
    def of(cls, ngrams: Sequence[np.ndarray], vocabulary: int) -> tuple[Ngrams, list[np.ndarray]]:
        """From n-grams written out, (size, n) for n = 2, 3, …, each with its prefix among the shorter ones; and the
        number that each of them got."""
        found = cls(vocabulary, (), ())
        places: list[np.ndarray] = []
        level: list[np.ndarray] = []
        for n, rows in enumerate(ngrams, start=2):
            prefixes = rows[:, 0].astype(np.int64)
            for length in range(2, n):
                prefixes = found.find(length, prefixes, rows[:, length - 1].astype(np.int64))
            if (prefixes < 0).any():
                row = rows[int(np.argmax(prefixes < 0))].tolist()
                raise ForebearError(f"the n-gram {row} has no entry for its first {n - 1} tokens")
            keys, numbers = np.unique(prefixes * vocabulary + rows[:, -1], return_inverse=True)
            if len(keys) < len(rows):
                raise ForebearError(f"an n-gram of {n} tokens is there twice")
            level.append(keys)
            found = cls.sorted(vocabulary, level)
            places.append(numbers)
        return found, places


def whole(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """The array of this name, if it is one of `size` whole numbers: small ones as int32, to count with."""
    array = arrays[name]
    if array.dtype.kind != "u" or array.shape != (size,):
        raise damaged(name, f"holds {array.dtype} {list(array.shape)} instead of {size} whole numbers")
    return array.astype(np.int32 if int(array.max(initial=0)) <= np.iinfo(np.int32).max else np.int64)


def counts_in(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """The same, of numbers that are mostly small, in as little room as counting leaves them in."""
    return compact(whole(arrays, name, size))


def damaged(name: str, what: str) -> ForebearError:
    return ForebearError(f"the array {name!r} of the n-gram model {what}", remedy="use an earlier checkpoint")
