"""Which n-grams there are: sorted keys, level by level; any is found by halving, and equal sets are equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.errors import ForebearError

ABSENT = -1  # the number of an n-gram that is not there


@dataclass(frozen=True, eq=False)
class Ngrams:
    """All n-grams up to an order, each known by its number among those of its length. A token's number is its id.

    A longer n-gram is its prefix (the number of all its tokens but the last) and its last token, packed into one key:
    prefix · vocabulary + token. Keys rise, so the continuations of an n-gram lie side by side, and the number of an
    n-gram is the place of its key.

    keys  of the n-grams of two tokens, of three, …
    """

    vocabulary: int
    keys: tuple[np.ndarray, ...]

    @property
    def order(self) -> int:
        return len(self.keys) + 1

    def size(self, n: int) -> int:
        """How many n-grams of n tokens there are; there is one of none."""
        return 1 if n == 0 else self.vocabulary if n == 1 else len(self.keys[n - 2])

    def prefixes(self, n: int) -> np.ndarray:
        """The number of each n-gram's prefix; that of a single token is the n-gram of none."""
        return np.zeros(self.vocabulary, np.int64) if n == 1 else self.keys[n - 2] // self.vocabulary

    def words(self, n: int) -> np.ndarray:
        """The last token of each n-gram."""
        return np.arange(self.vocabulary) if n == 1 else self.keys[n - 2] % self.vocabulary

    def continued(self, n: int) -> np.ndarray:
        """(size + 1,) where the continuations of each n-gram begin among those of n + 1 tokens, and their end."""
        return np.searchsorted(self.keys[n - 1], np.arange(self.size(n) + 1) * self.vocabulary)

    def tokens(self, n: int) -> np.ndarray:
        """(size, n) the n-grams written out."""
        columns = []
        numbers = np.arange(self.size(n))
        for length in range(n, 0, -1):
            columns.append(self.words(length)[numbers])
            numbers = self.prefixes(length)[numbers]
        return np.stack(columns[::-1], axis=1)

    def find(self, n: int, prefixes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The numbers of the n-grams (n > 1) with these prefixes and last tokens; ABSENT where there is none."""
        keys = self.keys[n - 2]
        if not len(keys):
            return np.full(len(words), ABSENT)
        wanted = prefixes * self.vocabulary + words  # below 0, so not there, where a prefix is ABSENT
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, places, ABSENT)

    def suffixes(self) -> list[np.ndarray]:
        """For each length, the number of each n-gram without its first token; of a single token nothing is left."""
        told = [np.zeros(self.vocabulary, np.int64)]
        for n in range(2, self.order + 1):
            words = self.words(n)
            told.append(words if n == 2 else self.find(n - 1, told[-1][self.prefixes(n)], words))
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

    def arrays(self) -> dict[str, np.ndarray]:
        """`words.n`: last tokens; `continuations.n`: how many longer n-grams begin with each. In the smallest types."""
        told = {}
        for n in range(2, self.order + 1):
            told[f"words.{n}"] = self.words(n).astype(np.min_scalar_type(self.vocabulary - 1))
            told[f"continuations.{n - 1}"] = smallest(np.diff(self.continued(n - 1)))
        return told

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, order: int) -> Ngrams:
        """From such arrays; whatever is not an orderly set of n-grams is refused by its name."""
        keys: list[np.ndarray] = []
        for n in range(2, order + 1):
            before = vocabulary if n == 2 else len(keys[-1])
            many = whole(arrays, f"continuations.{n - 1}", before)
            words = whole(arrays, f"words.{n}", int(many.sum()))
            level = np.repeat(np.arange(before), many) * vocabulary + words
            if len(words) and (words.max() >= vocabulary or (np.diff(level) <= 0).any()):
                raise damaged(f"words.{n}", "is not sorted, or holds ids that the vocabulary lacks")
            keys.append(level)
        return cls(vocabulary, tuple(keys))

    @classmethod
    def of(cls, ngrams: Sequence[np.ndarray], vocabulary: int) -> tuple[Ngrams, list[np.ndarray]]:
        """From n-grams written out, (size, n) for n = 2, 3, …, each with its prefix among the shorter ones; and the
        number that each of them got."""
        found = cls(vocabulary, ())
        places: list[np.ndarray] = []
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
            found = cls(vocabulary, (*found.keys, keys))
            places.append(numbers)
        return found, places


def smallest(numbers: np.ndarray) -> np.ndarray:
    """The same whole numbers in the narrowest unsigned type: equal numbers, equal bytes."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def whole(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """The array of this name as int64, if it is one of `size` whole numbers."""
    array = arrays[name]
    if array.dtype.kind != "u" or array.shape != (size,):
        raise damaged(name, f"holds {array.dtype} {list(array.shape)} instead of {size} whole numbers")
    return array.astype(np.int64)


def damaged(name: str, what: str) -> ForebearError:
    return ForebearError(f"the array {name!r} of the n-gram model {what}", remedy="use an earlier checkpoint")
