"""Phrase detection (New York, 人工 智能), and merging phrases into tokens (Mikolov et al. 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forebear.data.corpus.subset import Subset

TOKENS_PER_BLOCK = 1 << 22  # tokens whose pairs are counted per block
MIN_PAIR_COUNT = 5  # minimum count of a phrase, and the discount in its score
SCORE_THRESHOLD = 100.0  # minimum ratio to the expected count; halved with each pass


@dataclass(frozen=True, eq=False)
class PhraseTable:
    """Pairs of ids that form a phrase: pair k has the id `vocab_size + k`, and may be part of a later pair.

    `pairs` (P, 2) are in order of detection; `passes` is the number of pairs known after each pass over the text.
    """

    vocab_size: int
    pairs: np.ndarray
    passes: tuple[int, ...] = ()

    @classmethod
    def empty(cls, vocab_size: int) -> PhraseTable:
        return cls(vocab_size, np.zeros((0, 2), np.int64))

    @property
    def size(self) -> int:
        """Vocabulary size with phrases."""
        return self.vocab_size + len(self.pairs)

    def join(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Merge every phrase into one token, from the left: in a b c, with both pairs known, a b wins."""
        for keys, ids in self._by_pass:
            tokens, lengths = _join_pairs(tokens, lengths, keys, ids)
        return tokens, lengths

    @cached_property
    def _by_pass(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Sorted pair keys and phrase ids of each pass."""
        passes, start = [], 0
        for end in self.passes:
            keys = _pair_keys(self.pairs[start:end, 0], self.pairs[start:end, 1])
            order = np.argsort(keys)
            passes.append((keys[order], (self.vocab_size + start + order).astype(np.int32)))
            start = end
        return passes

    def phrase_names(self, tokens: Sequence[str]) -> list[str]:
        """The text of each phrase: its words, joined by a space where the script uses one."""
        names = list(tokens)
        for first, second in self.pairs.tolist():
            left, right = names[first], names[second]
            names.append(left + ("" if _is_wide(left[-1:]) or _is_wide(right[:1]) else " ") + right)
        return names[len(tokens) :]

    def learn(self, source: Subset, is_excluded: np.ndarray, min_count: int = 1) -> PhraseTable:
        """A table extended by one pass: pairs that are more frequent in the merged text than expected.

        is_excluded  (V + 1,) whether an id is not a word; the last entry applies to all phrases
        min_count    minimum count of a pair, if above MIN_PAIR_COUNT
        """
        counts, keys, pair_counts = self._count_pairs(source)
        first, second = keys >> 32, keys & 0xFFFFFFFF
        is_selected = pair_counts >= max(MIN_PAIR_COUNT, min_count)
        for ids in (first, second):
            is_selected &= ~is_excluded[np.minimum(ids, len(is_excluded) - 1)]
        keys, pair_counts, first, second = (array[is_selected] for array in (keys, pair_counts, first, second))
        expected = counts[first] * counts[second].astype(np.float64)
        score = (pair_counts - MIN_PAIR_COUNT) * float(counts.sum()) / expected
        new_pairs = np.flatnonzero(score > SCORE_THRESHOLD / 2 ** len(self.passes))
        new_pairs = new_pairs[np.lexsort((keys[new_pairs], -pair_counts[new_pairs]))]  # by descending frequency
        pairs = np.concatenate((self.pairs, np.stack((first[new_pairs], second[new_pairs]), axis=1)))
        return PhraseTable(self.vocab_size, pairs, (*self.passes, len(pairs)))

    def count(self, source: Subset) -> np.ndarray:
        """(size,) counts of each word and phrase in a text."""
        counts = np.zeros(self.size, np.int64)
        for tokens, _ in self._blocks(source):
            counts += np.bincount(tokens, minlength=self.size)
        return counts

    def _count_pairs(self, source: Subset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Token counts, keys of all adjacent pairs, and pair counts."""
        counts, keys, pair_counts = np.zeros(self.size, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        for tokens, lengths in self._blocks(source):
            counts += np.bincount(tokens, minlength=self.size)
            is_inner = np.ones(len(tokens), bool)
            is_inner[np.cumsum(lengths) - 1] = False
            block_keys, block_counts = np.unique(_pair_keys(tokens[:-1], tokens[1:])[is_inner[:-1]], return_counts=True)
            merged = np.concatenate((keys, block_keys))
            keys, inverse = np.unique(merged, return_inverse=True)
            pair_counts = np.bincount(inverse, np.concatenate((pair_counts, block_counts)), len(keys)).astype(np.int64)
        return counts, keys, pair_counts

    def _blocks(self, source: Subset):
        """A text as merged sequences, block by block; a unit longer than a block is split."""
        for begin in range(0, source.num_tokens, TOKENS_PER_BLOCK):
            yield self.join(*source.token_slice(begin, min(begin + TOKENS_PER_BLOCK, source.num_tokens)))


def _join_pairs(
    tokens: np.ndarray, lengths: np.ndarray, keys: np.ndarray, ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if not len(keys) or len(tokens) < 2:
        return tokens, lengths
    pair_keys = _pair_keys(tokens[:-1], tokens[1:])
    positions = np.minimum(np.searchsorted(keys, pair_keys), len(keys) - 1)
    is_pair = np.append(keys[positions] == pair_keys, False)
    is_pair[np.cumsum(lengths) - 1] = False  # no pair spans two sequences
    indices = np.arange(len(tokens))
    run_length = indices - np.maximum.accumulate(np.where(is_pair, 0, indices + 1))  # consecutive pair starts before
    is_joined = is_pair & (run_length % 2 == 0)  # in a b c the first pair takes b from the second
    rows = np.repeat(np.arange(len(lengths)), lengths)
    is_removed = np.append(False, is_joined[:-1])  # second tokens of merged pairs
    result = tokens.copy()
    result[is_joined] = ids[positions[np.flatnonzero(is_joined)]]
    return result[~is_removed], lengths - np.bincount(rows[is_removed], minlength=len(lengths))


def _pair_keys(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first.astype(np.int64) << 32 | second.astype(np.int64)


def _is_wide(character: str) -> bool:
    """Whether the character belongs to a script without spaces between words."""
    return bool(character) and ("\u3040" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff")
