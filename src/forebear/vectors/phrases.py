"""Words that stand together more often than by chance become one: New York, 人工 智能."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forebear.text.portion import Portion

BLOCK = 1 << 22  # tokens whose pairs are counted at once
SEEN = 5  # times that a pair is seen before it can be a phrase; so many are also taken off its count
THRESHOLD = 100.0  # how many times as often as by chance; half as much for what was joined already


@dataclass(frozen=True, eq=False)
class Phrases:
    """Pairs of ids that are one: pair number k has the id `vocabulary + k`, and may be a part of a later pair.

    `pairs` (P, 2) are in the order in which they were found; `passes` tells how many were known after each pass over
    the text: a pass joins only what was known to it.
    """

    vocabulary: int
    pairs: np.ndarray
    passes: tuple[int, ...] = ()

    @classmethod
    def none(cls, vocabulary: int) -> Phrases:
        return cls(vocabulary, np.zeros((0, 2), np.int64))

    @property
    def size(self) -> int:
        """Of the vocabulary with all phrases."""
        return self.vocabulary + len(self.pairs)

    def joined(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same rows with every phrase one token, from the left: of a b c, where both pairs are known, a b is."""
        for keys, ids in self._by_pass:
            tokens, lengths = _joined(tokens, lengths, keys, ids)
        return tokens, lengths

    @cached_property
    def _by_pass(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each pass the keys of its pairs, rising, and their ids."""
        made, begin = [], 0
        for end in self.passes:
            keys = _keys(self.pairs[begin:end, 0], self.pairs[begin:end, 1])
            order = np.argsort(keys)
            made.append((keys[order], (self.vocabulary + begin + order).astype(np.int32)))
            begin = end
        return made

    def names(self, tokens: Sequence[str]) -> list[str]:
        """What each phrase is called: its words, with a space between those that are written with one."""
        names = list(tokens)
        for first, second in self.pairs.tolist():
            one, other = names[first], names[second]
            names.append(one + ("" if _is_wide(one[-1:]) or _is_wide(other[:1]) else " ") + other)
        return names[len(tokens) :]

    def learned(self, source: Portion, never: np.ndarray, least: int = 1) -> Phrases:
        """With one more pass: the pairs that a text, joined as far as it is known, has more often than by chance.

        never  whether an id, or any phrase (the last), is no word
        least  how often a pair must be seen, if that is more than SEEN
        """
        counts, keys, often = self._counted(source)
        first, second = keys >> 32, keys & 0xFFFFFFFF
        fine = often >= max(SEEN, least)
        for side in (first, second):
            fine &= ~never[np.minimum(side, len(never) - 1)]
        keys, often, first, second = keys[fine], often[fine], first[fine], second[fine]
        score = (often - SEEN) * float(counts.sum()) / (counts[first] * counts[second].astype(np.float64))
        new = np.flatnonzero(score > THRESHOLD / 2 ** len(self.passes))
        new = new[np.lexsort((keys[new], -often[new]))]  # frequent ones first, as in a vocabulary
        pairs = np.concatenate((self.pairs, np.stack((first[new], second[new]), axis=1)))
        return Phrases(self.vocabulary, pairs, (*self.passes, len(pairs)))

    def counted(self, source: Portion) -> np.ndarray:
        """(size,) how often each word and phrase occurs in a text."""
        counts = np.zeros(self.size, np.int64)
        for tokens, _ in self._blocks(source):
            counts += np.bincount(tokens, minlength=self.size)
        return counts

    def _counted(self, source: Portion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How often each token occurs, the keys of all pairs that stand together, and how often they do."""
        counts, keys, often = np.zeros(self.size, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        for tokens, lengths in self._blocks(source):
            counts += np.bincount(tokens, minlength=self.size)
            inner = np.ones(len(tokens), bool)
            inner[np.cumsum(lengths) - 1] = False
            here, times = np.unique(_keys(tokens[:-1], tokens[1:])[inner[:-1]], return_counts=True)
            both = np.concatenate((keys, here))
            keys, places = np.unique(both, return_inverse=True)
            often = np.bincount(places, np.concatenate((often, times)), len(keys)).astype(np.int64)
        return counts, keys, often

    def _blocks(self, source: Portion):
        """A text as rows, joined, a block at a time; a unit longer than a block is cut."""
        for begin in range(0, source.tokens, BLOCK):
            yield self.joined(*source.stretch(begin, min(begin + BLOCK, source.tokens)))


def _joined(
    tokens: np.ndarray, lengths: np.ndarray, keys: np.ndarray, ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if not len(keys) or len(tokens) < 2:
        return tokens, lengths
    wanted = _keys(tokens[:-1], tokens[1:])
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    begins = np.append(keys[found] == wanted, False)
    begins[np.cumsum(lengths) - 1] = False  # no pair reaches into the next row
    here = np.arange(len(tokens))
    since = here - np.maximum.accumulate(np.where(begins, 0, here + 1))  # how many beginnings stand right before
    taken = begins & (since % 2 == 0)  # of a b c the first pair takes b away from the second
    rows = np.repeat(np.arange(len(lengths)), lengths)
    lost = np.append(False, taken[:-1])  # second halves
    made = tokens.copy()
    made[taken] = ids[found[np.flatnonzero(taken)]]
    return made[~lost], lengths - np.bincount(rows[lost], minlength=len(lengths))


def _keys(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first.astype(np.int64) << 32 | second.astype(np.int64)


def _is_wide(letter: str) -> bool:
    """Whether it is of a script that writes no spaces between words."""
    return bool(letter) and ("\u3040" <= letter <= "\u9fff" or "\U00020000" <= letter <= "\U0003ffff")
