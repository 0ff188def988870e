"""Whole texts in order, once per epoch, for models that are trained by counting."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from forebear.data.corpus.subset import Subset, concat_ranges
from forebear.data.io.arrays import release_pages
from forebear.errors import InputError
from forebear.objectives.batch import Batch, BatchKey

TEXT_UNITS = ("sentence", "document")


def require_text_unit(unit: str) -> None:
    if unit not in TEXT_UNITS:
        raise InputError(f"no unit of text is named {unit!r}", hint=f"there are: {', '.join(TEXT_UNITS)}")


@dataclass(frozen=True)
class WholeTexts:
    """Each unit is a sequence [end, w1 … wn] with targets [w1 … wn, end]: in text order, exactly once per epoch.

    A batch holds the units that start in its range of `size` tokens; a longer unit leaves the next batches without
    sequences. Nothing is random.

    Attributes:
        text_unit: Unit of a sequence: "sentence" or "document".
        eos_id: The id before and after each unit.
    """

    text_unit: str
    eos_id: int

    def __post_init__(self) -> None:
        require_text_unit(self.text_unit)

    def steps(self, source: Subset, size: int) -> int:
        return max(1, -(-int(self._sizes(source).sum()) // size))

    def batch(self, source: Subset, size: int, key: BatchKey) -> Batch:
        sizes = self._sizes(source)
        ends = np.cumsum(sizes)
        begin = key.step % self.steps(source, size) * size
        # Only documents that overlap this range are read, so that memory does not grow with the text.
        first, last = np.searchsorted(ends, [begin, begin + size], side="right")
        units, starts = source.units[first : last + 1], (ends - sizes)[first : last + 1]
        if self.text_unit == "document":
            selected = units[(starts >= begin) & (starts < begin + size)]
            return self._rows(source.corpus.ids, Subset(source.corpus, selected).spans)
        units = units.copy()
        if len(units):  # of the first and the last of them, only sentences that start here
            units[-1, 1] = _sentence_at(source.corpus.sentences, units[-1], begin + size - int(starts[-1]))
            units[0, 0] = _sentence_at(source.corpus.sentences, units[0], begin - int(starts[0]))
        return self._rows(source.corpus.ids, Subset(source.corpus, units).by_sentence().spans)

    def check(self, source: Subset) -> None:
        """Any text can be counted."""

    def _sizes(self, source: Subset) -> np.ndarray:
        """(n,) targets of each document: its tokens and the ends of its units."""
        ends = source.units[:, 1] - source.units[:, 0] if self.text_unit == "sentence" else 1
        return source.spans[:, 1] - source.spans[:, 0] + ends

    def _rows(self, ids: np.ndarray, spans: np.ndarray) -> Batch:
        lengths = spans[:, 1] - spans[:, 0] + 1
        row_ends = np.cumsum(lengths) - 1
        is_text = np.ones(int(lengths.sum()), bool)
        is_text[row_ends] = False
        targets = np.full(len(is_text), self.eos_id, np.int64)
        if len(spans) and np.array_equal(spans[1:, 0], spans[:-1, 1]):  # contiguous: nothing between them is held out
            targets[is_text] = ids[spans[0, 0] : spans[-1, 1]]
        else:
            targets[is_text] = ids[concat_ranges(spans[:, 0], lengths - 1)]
        release_pages(ids)  # each token is read once
        tokens = np.roll(targets, 1)  # inputs are the targets shifted by one; a sequence starts with the end id
        return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})


def _sentence_at(sentence_starts: np.ndarray, unit: np.ndarray, offset: int) -> int:
    """The first sentence of a unit that starts at this offset or later, where an end id follows each sentence."""
    first, last = unit.tolist()
    base = int(sentence_starts[first])
    return (
        bisect_left(
            range(first, last), offset, key=lambda sentence: int(sentence_starts[sentence]) - base + sentence - first
        )
        + first
    )
