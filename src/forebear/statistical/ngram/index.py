"""Index of n-grams: sorted by length, with prefixes, suffixes and lookup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebear.data.io.arrays import release_pages
from forebear.errors import ForebearError
from forebear.kernels.jit import compile_kernel
from forebear.kernels.ngram_layout import narrow_ints
from forebear.statistical.disk_backed_arrays import UNBOUNDED_POOL, ArrayPool, narrowest_dtype

ABSENT = -1  # id of an absent n-gram
MIN_COMPILED_NGRAMS = 1 << 18  # n-grams; for fewer, numpy takes less time than loading compiled kernels


@dataclass(frozen=True, eq=False)
class NgramIndex:
    """All n-grams up to an order, with ids in lexicographic order within each length; a unigram's id is its token.

    The continuations of an n-gram are contiguous, so their number and their last tokens determine the set.

    last_tokens        last tokens of the bigrams, trigrams, …
    num_continuations  number of continuations of each token, bigram, …
    """

    vocab_size: int
    last_tokens: tuple[np.ndarray, ...]
    num_continuations: tuple[np.ndarray, ...]
    _cached: dict[tuple[str, int], np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def order(self) -> int:
        return len(self.last_tokens) + 1

    def num_ngrams(self, n: int) -> int:
        """Number of n-grams of n tokens; 1 for n = 0."""
        return 1 if n == 0 else self.vocab_size if n == 1 else len(self.last_tokens[n - 2])

    def last_tokens_of_length(self, n: int) -> np.ndarray:
        """The last token of each n-gram."""
        return np.arange(self.vocab_size) if n == 1 else self.last_tokens[n - 2].astype(np.int64)

    def prefixes(self, n: int) -> np.ndarray:
        """The id of each n-gram's prefix, all tokens but the last; 0 for unigrams."""
        if n == 1:
            return np.zeros(self.vocab_size, np.int64)
        return np.repeat(np.arange(self.num_ngrams(n - 1)), self.num_continuations[n - 2])

    def continuation_starts(self, n: int) -> np.ndarray:
        """(size + 1,) offsets of the continuations of each n-gram among the (n+1)-grams."""
        if ("starts", n) not in self._cached:
            self._cached["starts", n] = np.concatenate(([0], np.cumsum(self.num_continuations[n - 1], dtype=np.int64)))
        return self._cached["starts", n]

    def sorted_keys(self, n: int) -> np.ndarray:
        """Prefix · vocab_size + last token of each n-gram (n > 1), ascending."""
        if ("keys", n) not in self._cached:
            self._cached["keys", n] = self.prefixes(n) * self.vocab_size + self.last_tokens_of_length(n)
        return self._cached["keys", n]

    def to_rows(self, n: int) -> np.ndarray:
        """(size, n) the tokens of the n-grams."""
        rows = np.empty((self.num_ngrams(n), n), np.int32)
        rows[:, n - 1] = self.last_tokens_of_length(n)
        ngram_ids = self.prefixes(n)
        for length in range(n - 1, 0, -1):
            rows[:, length - 1] = self.last_tokens_of_length(length)[ngram_ids]
            ngram_ids = self.prefixes(length)[ngram_ids] if length > 1 else ngram_ids
        return rows

    def index_of(self, tokens: Sequence[int] | np.ndarray) -> int:
        """The id of one n-gram, or ABSENT."""
        ngram_id = int(tokens[0])
        for n, token in enumerate(np.asarray(tokens)[1:].tolist(), start=2):
            span = self.continuation_range(n - 1, ngram_id)
            position = span.start + int(np.searchsorted(self.last_tokens[n - 2][span], token))
            if position == span.stop or self.last_tokens[n - 2][position] != token:
                return ABSENT
            ngram_id = position
        return ngram_id

    def continuation_range(self, n: int, ngram_id: int) -> slice:
        """The ids of the (n+1)-grams that extend this n-gram."""
        begin, end = self.continuation_starts(n)[ngram_id : ngram_id + 2].tolist()
        return slice(begin, end)

    def find_many(self, n: int, prefixes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The ids, or ABSENT, of the n-grams (n > 1) with these prefixes and last tokens."""
        keys = self.sorted_keys(n)
        if not len(keys):
            return np.full(len(words), ABSENT)
        queries = prefixes * self.vocab_size + words  # negative, so never found, where the prefix is ABSENT
        positions = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
        return np.where(keys[positions] == queries, positions, ABSENT)

    def suffixes(self, pool: ArrayPool = UNBOUNDED_POOL) -> list[np.ndarray]:
        """For each length, the id of each n-gram's suffix, all tokens but the first."""
        suffix_ids = [np.zeros(self.vocab_size, np.int64), *self.last_tokens[:1]]
        is_large = sum(map(len, self.last_tokens)) > MIN_COMPILED_NGRAMS
        for n in range(3, self.order + 1):
            if is_large:
                suffix_ids.append(self._suffixes(n, suffix_ids[-1], pool))
            else:
                suffix_ids.append(
                    self.find_many(n - 1, suffix_ids[-1][self.prefixes(n)], self.last_tokens_of_length(n))
                )
        return suffix_ids

    def missing_suffixes(self) -> list[np.ndarray]:
        """For n = 1, 2, … the absent n-grams (size, n) that are suffixes of present ones."""
        suffixes, missing = self.suffixes(), [np.zeros((0, n), np.int32) for n in range(1, self.order + 1)]
        for n in range(self.order - 1, 1, -1):
            rows, orphans = missing[n][:, 1:], np.flatnonzero(suffixes[n] == ABSENT)
            if len(orphans):
                rows = np.concatenate((rows, self.to_rows(n + 1)[orphans, 1:]))
            ngram_ids = rows[:, 0].astype(np.int64)
            for length in range(2, n + 1):
                ngram_ids = self.find_many(length, ngram_ids, rows[:, length - 1].astype(np.int64))
            missing[n - 1] = np.unique(rows[ngram_ids == ABSENT], axis=0)
        return missing

    def _suffixes(self, n: int, shorter_suffixes: np.ndarray, pool: ArrayPool = UNBOUNDED_POOL) -> np.ndarray:
        from forebear.kernels.kneser_ney import suffix_ids_kernel

        suffix_ids, starts = pool.empty(self.num_ngrams(n), np.int32), pool.zeros(self.num_ngrams(n - 2) + 1, np.int64)
        np.cumsum(self.num_continuations[n - 3], dtype=np.int64, out=starts[1:])
        last_tokens, shorter_last_tokens = self.last_tokens[n - 2], self.last_tokens[n - 3]
        arrays = self.num_continuations[n - 2], last_tokens, starts, shorter_last_tokens, shorter_suffixes
        compile_kernel(suffix_ids_kernel)(*arrays, 0, self.num_ngrams(n - 1), 0, suffix_ids)
        pool.release(starts)
        release_pages(suffix_ids, *arrays)
        return suffix_ids

    def match_text(self, tokens: np.ndarray, max_context: np.ndarray, max_order: int) -> list[np.ndarray]:
        """For each length up to `max_order`, the id of the n-gram that ends at each token, or ABSENT."""
        matches = [tokens]
        for n in range(2, max_order + 1):
            ngram_ids = np.full(len(tokens), ABSENT)
            eligible = np.flatnonzero(max_context >= n - 1)
            ngram_ids[eligible] = self.find_many(n, matches[-1][eligible - 1], tokens[eligible])
            matches.append(ngram_ids)
        return matches

    def storage_layout(self) -> dict[str, tuple[np.ndarray, Any]]:
        """Arrays `words.n` (last tokens) and `continuations.n` (number of continuations), with narrow types."""
        layout = {}
        for n in range(2, self.order + 1):
            layout[f"words.{n}"] = self.last_tokens[n - 2], np.min_scalar_type(self.vocab_size - 1)
            num_continuations = self.num_continuations[n - 2]
            layout[f"continuations.{n - 1}"] = num_continuations, narrowest_dtype(num_continuations)
        return layout

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: array.astype(kind) for name, (array, kind) in self.storage_layout().items()}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocab_size: int, order: int) -> NgramIndex:
        """Load such arrays; raise ForebearError unless they are a valid, sorted set."""
        words: list[np.ndarray] = []
        num_continuations: list[np.ndarray] = []
        for n in range(2, order + 1):
            num_contexts = vocab_size if n == 2 else len(words[-1])
            num_children = narrow_ints(load_array(arrays, f"continuations.{n - 1}", num_contexts))
            last_tokens = load_array(arrays, f"words.{n}", int(num_children.sum(dtype=np.int64)))
            decreases = np.flatnonzero(np.diff(last_tokens.astype(np.int64)) <= 0) + 1
            is_sorted = np.isin(decreases, np.cumsum(num_children, dtype=np.int64)).all()
            if not is_sorted or int(last_tokens.max(initial=-1)) >= vocab_size:
                raise corrupt_error(f"words.{n}", "is not sorted, or holds ids that the vocabulary lacks")
            words.append(last_tokens)
            num_continuations.append(num_children)
        return cls(vocab_size, tuple(words), tuple(num_continuations))

    @classmethod
    def from_sorted_keys(cls, vocab_size: int, keys: Sequence[np.ndarray]) -> NgramIndex:
        """From the `sorted_keys` of the bigrams, trigrams, …"""
        last_tokens, num_continuations, num_contexts = [], [], vocab_size
        for level in keys:
            last_tokens.append((level % vocab_size).astype(np.int32))
            num_continuations.append(np.bincount(level // vocab_size, minlength=num_contexts).astype(np.int32))
            num_contexts = len(level)
        return cls(vocab_size, tuple(last_tokens), tuple(num_continuations))

    @classmethod
    def from_rows(cls, ngrams: Sequence[np.ndarray], vocab_size: int) -> tuple[NgramIndex, list[np.ndarray]]:
        """From n-grams (size, n) for n = 2, 3, …, whose prefixes must be included; also returns their ids."""
        index = cls(vocab_size, (), ())
        ids_by_length: list[np.ndarray] = []
        level: list[np.ndarray] = []
        for n, rows in enumerate(ngrams, start=2):
            prefixes = rows[:, 0].astype(np.int64)
            for length in range(2, n):
                prefixes = index.find_many(length, prefixes, rows[:, length - 1].astype(np.int64))
            if (prefixes < 0).any():
                row = rows[int(np.argmax(prefixes < 0))].tolist()
                raise ForebearError(f"the n-gram {row} has no entry for its first {n - 1} tokens")
            keys, ngram_ids = np.unique(prefixes * vocab_size + rows[:, -1], return_inverse=True)
            if len(keys) < len(rows):
                raise ForebearError(f"an n-gram of {n} tokens is there twice")
            level.append(keys)
            index = cls.from_sorted_keys(vocab_size, level)
            ids_by_length.append(ngram_ids)
        return index, ids_by_length


def load_array(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """An array as int32, or int64 if its values need it; raise ForebearError unless it has `size` unsigned integers."""
    array = arrays[name]
    if array.dtype.kind != "u" or array.shape != (size,):
        raise corrupt_error(name, f"holds {array.dtype} {list(array.shape)} instead of {size} whole numbers")
    return array.astype(np.int32 if int(array.max(initial=0)) <= np.iinfo(np.int32).max else np.int64)


def corrupt_error(name: str, problem: str) -> ForebearError:
    return ForebearError(f"the array {name!r} of the n-gram model {problem}", hint="use an earlier checkpoint")
