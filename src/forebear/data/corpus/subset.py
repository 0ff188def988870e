"""Some of a corpus's text: which documents, or parts of them, teach, and which examine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.corpus.corpus import Corpus

BLOCK = 1 << 20  # units added up at a time, so that a large corpus is never in memory as wide integers


@dataclass(frozen=True, eq=False)
class Subset:
    """Text that belongs together, unit by unit: usually documents, each read from its own beginning to its own end.

    `units` (n, 2) has the first sentence of each and the one after its last. None is empty.
    """

    corpus: Corpus
    units: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:  # what can be looked up again does not travel
        return Subset, (self.corpus, self.units)

    def __len__(self) -> int:
        return len(self.units)

    @cached_property
    def spans(self) -> np.ndarray:
        """(n, 2) the first token of each unit in `corpus.ids` and the one after its last."""
        return np.asarray(self.corpus.sentences[self.units])

    @property
    def targets_only(self) -> Subset:
        """The text whose tokens are predicted: of parallel text it is one of two."""
        return self

    @cached_property
    def num_tokens(self) -> int:
        return int((self.spans[:, 1] - self.spans[:, 0]).sum())

    @cached_property
    def token_ends(self) -> np.ndarray:
        """(n,) where each unit is over if all are put one after the other, with nothing between them."""
        return np.cumsum(self.spans[:, 1] - self.spans[:, 0])

    @cached_property
    def stream_ends(self) -> np.ndarray:
        """(n,) where each unit is over if all are put one after the other, each followed by one token for its end."""
        return np.cumsum(self.spans[:, 1] - self.spans[:, 0] + 1)

    @cached_property
    def unit_bytes(self) -> np.ndarray:
        """(n,) bytes of each unit's original text."""
        return _summed(self.corpus.sizes, self.units)

    @cached_property
    def unit_unknown_bytes(self) -> np.ndarray:
        """(n,) bytes of each unit's original text that became unknown tokens."""
        return _summed(self.corpus.unknown, self.units)

    @property
    def num_bytes(self) -> int:
        return int(self.unit_bytes.sum())

    @property
    def unknown_bytes(self) -> int:
        return int(self.unit_unknown_bytes.sum())

    def by_sentence(self) -> Subset:
        """The same text with every sentence a unit of its own."""
        return self._sentences

    @cached_property
    def _sentences(self) -> Subset:
        first = concat_ranges(self.units[:, 0], self.units[:, 1] - self.units[:, 0])
        return Subset(self.corpus, np.stack((first, first + 1), axis=1))

    def token_slice(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens from `begin` to `end`, counted through all units, and how many of each unit they are."""
        first, last = np.searchsorted(self.token_ends, [begin, end - 1], side="right")
        ends = self.token_ends[first : last + 1]
        starts = self.spans[first : last + 1, 0].copy()
        sizes = self.spans[first : last + 1, 1] - starts
        lead = begin - int(ends[0] - sizes[0])  # tokens of the first unit that stand before
        starts[0] += lead
        sizes[0] -= lead
        sizes[-1] -= int(ends[-1]) - end
        at = int(starts[0])
        unbroken = np.array_equal(starts[1:], starts[:-1] + sizes[:-1])  # nothing between these units was set apart
        places = slice(at, at + end - begin) if unbroken else concat_ranges(starts, sizes)
        return self.corpus.ids[places].astype(np.int32), sizes

    def first(self, size: int) -> Subset:
        """The leading units, about so many bytes and at least one sentence.

        The last of them ends with the sentence that reaches `size`, so that one endless unit is no exception.
        """
        upto = np.cumsum(self.unit_bytes)
        whole = int(np.searchsorted(upto, size))  # units that end before that many bytes
        if whole >= len(self):
            return self
        begin, end = self.units[whole].tolist()
        missing = size - (int(upto[whole - 1]) if whole else 0)
        units = self.units[: whole + 1].copy()
        units[whole, 1] = begin + _reached(self.corpus.sizes[begin:end], missing)
        return Subset(self.corpus, units)


@dataclass(frozen=True, eq=False)
class CorpusSplit:
    """What teaches and what examines, and whether what documents say decided it or where they stand."""

    train: Any  # a Portion, or a PairedPortion of parallel text
    held_out: Any
    method: Literal["content", "position", "nothing"]


def split_by_content(corpus: Corpus, share: float) -> CorpusSplit | None:
    """Documents set apart by what they say; None where all of them fall on one side."""
    apart = held_out_mask(corpus.hashes, share)
    if apart.all() or not apart.any():
        return None
    units = document_bounds(corpus)
    return CorpusSplit(Subset(corpus, units[~apart]), Subset(corpus, units[apart]), "content")


def held_out_mask(hashes: np.ndarray, share: float) -> np.ndarray:
    """Which of these documents, by the hash of what they say, belong to the share that examines."""
    return hashes < np.uint64(int(share * 2**64))


def split_by_position(corpus: Corpus, share: float) -> CorpusSplit:
    """The end of the text set apart, from the start of a sentence on, whatever document that is in.

    The share is one of bytes, so that the border is at the same place whatever the tokenizer.
    """
    total = len(corpus.sizes)
    if total < 2:
        raise InputError(
            "the text is a single sentence, of which nothing can be held out",
            hint="give more text, or more lines (--sentences lines takes each for a sentence); a model that counts "
            "can take all of it: --held-out 0",
        )
    wanted = round(int(corpus.sizes.sum(dtype=np.int64)) * (1 - share))
    border = min(_reached(corpus.sizes, wanted), total - 1)
    whole = document_bounds(corpus)
    sides = np.minimum(whole, border), np.maximum(whole, border)
    train, held_out = (units[units[:, 0] < units[:, 1]] for units in sides)
    return CorpusSplit(Subset(corpus, train), Subset(corpus, held_out), "position")


def document_bounds(corpus: Corpus) -> np.ndarray:
    """(documents, 2) the first sentence of each document and the one after its last."""
    return np.asarray(np.stack((corpus.documents[:-1], corpus.documents[1:]), axis=1))


def concat_ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """start, start + 1, … of each range, so many numbers as its size says, one range after the other."""
    return np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _summed(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The sum of the values from first to last of each unit."""
    sums = np.zeros(len(units), np.int64)
    for at in range(0, len(units), BLOCK):
        block = units[at : at + BLOCK]
        low, high = int(block[:, 0].min()), int(block[:, 1].max())
        padded = np.zeros(high - low + 1, np.int64)  # one more, as the end of a unit must be a place too
        padded[:-1] = values[low:high]
        sums[at : at + BLOCK] = np.add.reduceat(padded, (block - low).ravel())[::2]
    return sums


def _reached(sizes: np.ndarray, wanted: int) -> int:
    """How many sentences together have so many bytes; at least one."""
    done = 0
    for at in range(0, len(sizes), BLOCK):
        upto = done + np.cumsum(sizes[at : at + BLOCK], dtype=np.int64)
        if upto[-1] >= wanted:
            return at + int(np.searchsorted(upto, wanted)) + 1
        done = int(upto[-1])
    return len(sizes)
