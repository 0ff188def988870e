"""Subsets of a corpus, and the split of a corpus into training and held-out text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus

UNITS_PER_BLOCK = 1 << 20  # units summed at a time, so that no large array is converted to 64 bits as a whole


@dataclass(frozen=True, eq=False)
class Subset:
    """A part of a corpus in units, usually documents, each of consecutive sentences.

    `units` (n, 2) are the first sentence of each and the one after its last; no unit is empty.
    """

    corpus: Corpus
    units: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:  # without cached properties
        return Subset, (self.corpus, self.units)

    def __len__(self) -> int:
        return len(self.units)

    @cached_property
    def spans(self) -> np.ndarray:
        """(n, 2) the first token of each unit in `corpus.ids` and the one after its last."""
        return np.asarray(self.corpus.sentences[self.units])

    @property
    def targets_only(self) -> Subset:
        """The text whose tokens are predicted; of parallel text it is the target."""
        return self

    @cached_property
    def num_tokens(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    @cached_property
    def token_ends(self) -> np.ndarray:
        """(n,) the end of each unit if all units are concatenated."""
        return np.cumsum(self.spans[:, 1] - self.spans[:, 0])

    @cached_property
    def stream_ends(self) -> np.ndarray:
        """(n,) the end of each unit if all units are concatenated, each followed by an end-of-text token."""
        return np.cumsum(self.spans[:, 1] - self.spans[:, 0] + 1)

    @cached_property
    def unit_bytes(self) -> np.ndarray:
        """(n,) bytes of each unit's original text."""
        return _sum_units(self.corpus.sizes, self.units)

    @cached_property
    def unit_unknown_bytes(self) -> np.ndarray:
        """(n,) bytes of each unit's original text that became unknown tokens."""
        return _sum_units(self.corpus.unknown, self.units)

    @property
    def num_bytes(self) -> int:
        return int(self.unit_bytes.sum())

    @property
    def unknown_bytes(self) -> int:
        return int(self.unit_unknown_bytes.sum())

    def by_sentence(self) -> Subset:
        """The same text with every sentence as a unit."""
        return self._sentences

    @cached_property
    def _sentences(self) -> Subset:
        first = concat_ranges(self.units[:, 0], self.units[:, 1] - self.units[:, 0])
        return Subset(self.corpus, np.stack((first, first + 1), axis=1))

    def token_slice(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens from `start` to `end`, counted through all units, and their number for each unit."""
        first, last = np.searchsorted(self.token_ends, [start, end - 1], side="right")
        ends = self.token_ends[first : last + 1]
        starts = self.spans[first : last + 1, 0].copy()
        sizes = self.spans[first : last + 1, 1] - starts
        skipped = start - int(ends[0] - sizes[0])  # tokens of the first unit that precede `start`
        starts[0] += skipped
        sizes[0] -= skipped
        sizes[-1] -= int(ends[-1]) - end
        offset = int(starts[0])
        is_contiguous = np.array_equal(starts[1:], starts[:-1] + sizes[:-1])  # no text between these units
        positions = slice(offset, offset + end - start) if is_contiguous else concat_ranges(starts, sizes)
        return self.corpus.ids[positions].astype(np.int32), sizes

    def first(self, size: int) -> Subset:
        """The first units, with about `size` bytes in total and at least one sentence.

        The last unit ends with the sentence that reaches `size`, so that a very long unit is cut as well.
        """
        cumulative = np.cumsum(self.unit_bytes)
        num_whole = int(np.searchsorted(cumulative, size))  # units that fit completely
        if num_whole >= len(self):
            return self
        start, end = self.units[num_whole].tolist()
        remaining = size - (int(cumulative[num_whole - 1]) if num_whole else 0)
        units = self.units[: num_whole + 1].copy()
        units[num_whole, 1] = start + _sentences_within(self.corpus.sizes[start:end], remaining)
        return Subset(self.corpus, units)


@dataclass(frozen=True, eq=False)
class CorpusSplit:
    """Training and held-out text, and whether they were split by content hash or by position."""

    train: Any  # a Subset, or a ParallelSubset of parallel text
    held_out: Any
    method: Literal["content", "position", "nothing"]


def held_out_mask(hashes: np.ndarray, fraction: float) -> np.ndarray:
    """Whether each of the documents with these content hashes is held out."""
    return hashes < np.uint64(int(fraction * 2**64))


def split_by_position(corpus: Corpus, fraction: float) -> CorpusSplit:
    """Hold out the end of the text, from the start of a sentence, perhaps inside a document.

    `fraction` is of the bytes, so that the boundary does not depend on the tokenizer.
    """
    num_sentences = len(corpus.sizes)
    if num_sentences < 2:
        hint = "give more text, or more lines (--sentences lines takes each for a sentence); a model that counts "
        hint += "can take all of it: --held-out 0"
        raise InputError("the text is a single sentence, of which nothing can be held out", hint=hint)
    train_bytes = round(int(corpus.sizes.sum(dtype=np.int64)) * (1 - fraction))
    boundary = min(_sentences_within(corpus.sizes, train_bytes), num_sentences - 1)
    bounds = document_bounds(corpus)
    halves = np.minimum(bounds, boundary), np.maximum(bounds, boundary)
    train, held_out = (units[units[:, 0] < units[:, 1]] for units in halves)
    return CorpusSplit(Subset(corpus, train), Subset(corpus, held_out), "position")


def document_bounds(corpus: Corpus) -> np.ndarray:
    """(documents, 2) the first sentence of each document and the one after its last."""
    return np.asarray(np.stack((corpus.documents[:-1], corpus.documents[1:]), axis=1))


def concat_ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The numbers of all ranges, concatenated: `sizes` numbers from each of `starts`."""
    return np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _sum_units(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The sum of the values of each unit."""
    sums = np.zeros(len(units), np.int64)
    for start in range(0, len(units), UNITS_PER_BLOCK):
        block = units[start : start + UNITS_PER_BLOCK]
        low, high = int(block[:, 0].min()), int(block[:, 1].max())
        padded = np.zeros(high - low + 1, np.int64)  # one more, as reduceat needs a position for the last end
        padded[:-1] = values[low:high]
        sums[start : start + UNITS_PER_BLOCK] = np.add.reduceat(padded, (block - low).ravel())[::2]
    return sums


def _sentences_within(sizes: np.ndarray, num_bytes: int) -> int:
    """The number of first sentences whose bytes together reach `num_bytes`; at least one."""
    total = 0
    for start in range(0, len(sizes), UNITS_PER_BLOCK):
        cumulative = total + np.cumsum(sizes[start : start + UNITS_PER_BLOCK], dtype=np.int64)
        if cumulative[-1] >= num_bytes:
            return start + int(np.searchsorted(cumulative, num_bytes)) + 1
        total = int(cumulative[-1])
    return len(sizes)
