"""What a word may be by how it is written: its last letters, its first ones and its shape, learned from rare words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forebear.statistics.shapes import SHAPES, shapes_of

RARE = 10  # words seen more often than this are unlike those that nobody has seen
LONGEST = {True: 8, False: 3}  # letters at the end that are looked at, and at the beginning
BELIEF = 2.0  # so many words with a longer ending outweigh all that is known of the shorter one
FEW = 2  # words that must share an ending before it says anything
STRENGTH = 1.0  # of what the beginning says, beside the ending


class SpelledTags:
    """P(tag given how a word is written): of ever longer endings, each leaning on the shorter one (Brants's TnT, 2000);
    and of beginnings, in the same way. The first step is the word's shape: capitals, digits, how many characters.

    words   those it learns from
    counts  (words, K) how often each was seen with each tag
    """

    def __init__(self, words: Sequence[str], counts: np.ndarray) -> None:
        often = counts.sum(axis=1)
        rare = np.flatnonzero((often > 0) & (often <= RARE))
        if not len(rare):
            rare = np.flatnonzero(often)
        told = np.minimum(counts[rare], 1.0)  # each word once: what nobody has seen is met once too
        self.tags = counts.shape[1]
        self.usual = (told.sum(axis=0) + 0.5) / (told.sum() + 0.5 * self.tags)
        learned = [words[number] for number in rare.tolist()]
        self._ends, self._begins = (_Affixes(learned, told, self.usual, at_end=at_end) for at_end in (True, False))

    def of(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) P(tag given the word); each line sums to 1."""
        logs = np.log(self._ends.of(words)) + STRENGTH * np.log(self._begins.of(words))
        logs -= STRENGTH * np.log(self._begins.of_shapes(words))  # which both have in common
        shares = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))
        return shares / shares.sum(axis=1, keepdims=True)


class _Affixes:
    """Endings, or beginnings, as a tree: above each is the one that is a letter shorter, and at the top are shapes."""

    def __init__(self, words: Sequence[str], counts: np.ndarray, usual: np.ndarray, *, at_end: bool) -> None:
        self.at_end, self.longest = at_end, LONGEST[at_end]
        self._numbers: dict[tuple[int, str], int] = {}
        keys, shapes = [self._keys(word) for word in words], _shapes(words)
        often: dict[tuple[int, str], int] = {}
        for shape, mine in zip(shapes, keys, strict=True):
            for key in mine:
                often[shape, key] = often.get((shape, key), 0) + 1
        kept = sorted((key for key, many in often.items() if many >= FEW), key=lambda key: (len(key[1]), key))
        self._numbers = {key: number for number, key in enumerate(kept, start=SHAPE_COUNT)}
        shares = np.zeros((SHAPE_COUNT + len(kept), counts.shape[1]))
        for line, shape, mine in zip(counts, shapes, keys, strict=True):
            shares[shape] += line
            for key in mine:
                if (number := self._numbers.get((shape, key))) is not None:
                    shares[number] += line
        above = [(shape, key[1:] if at_end else key[:-1]) for shape, key in kept]
        parents = np.array([self._numbers.get(key, key[0]) for key in above], np.int64)
        sizes = np.array([len(key) for _, key in kept], np.int64)
        shares[:SHAPE_COUNT] = _leaning(shares[:SHAPE_COUNT], usual)
        for size in range(1, self.longest + 1):
            level = np.flatnonzero(sizes == size)
            shares[SHAPE_COUNT + level] = _leaning(shares[SHAPE_COUNT + level], shares[parents[level]])
        self._shares = shares

    def of(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) of each word's longest ending that is known."""
        found = []
        for shape, word in zip(_shapes(words), words, strict=True):
            number = shape
            for key in self._keys(word):
                deeper = self._numbers.get((shape, key))
                if deeper is None:
                    break
                number = deeper
            found.append(number)
        return self._shares[np.array(found, np.int64)]

    def of_shapes(self, words: Sequence[str]) -> np.ndarray:
        return self._shares[np.array(_shapes(words), np.int64)]

    def _keys(self, word: str) -> list[str]:
        most = min(self.longest, len(word))
        return [word[-size:] if self.at_end else word[:size] for size in range(1, most + 1)]


SIZES = 4  # of words: one character, two, three, and more
SHAPE_COUNT = len(SHAPES) * SIZES


def _shapes(words: Sequence[str]) -> list[int]:
    return [
        int(shape) * SIZES + min(len(word), SIZES) - 1 if word else 0
        for shape, word in zip(shapes_of(words)[:-1].tolist(), words, strict=True)
    ]


def _leaning(counts: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Shares of these counts, as if so many more had been seen in the shares above."""
    return (counts + BELIEF * above) / (counts.sum(axis=1, keepdims=True) + BELIEF)
