"""Show every text once and whole, from beginning to end: what a model that counts wants to see."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from forebear.data.corpus.subset import Subset, concat_ranges
from forebear.data.io.safetensors import release_pages
from forebear.errors import InputError
from forebear.objectives.batch import Batch, BatchKey

TEXT_UNITS = ("sentence", "document")


@dataclass(frozen=True)
class WholeTexts:
    """Each unit is a row [end, w1 … wn] that asks for [w1 … wn, end]: in the text's order, each exactly once an epoch.

    A batch holds the units that begin in its stretch of `size` tokens; a unit longer than that leaves batches without
    rows behind it. Nothing is drawn by chance.

    unit  what a row is: "sentence" or "document"
    end   the id that stands before and after each
    """

    text_unit: str
    end: int

    def __post_init__(self) -> None:
        if self.text_unit not in TEXT_UNITS:
            raise InputError(f"no unit of text is named {self.text_unit!r}", hint=f"there are: {', '.join(TEXT_UNITS)}")

    def steps(self, source: Subset, size: int) -> int:
        return max(1, -(-int(self._sizes(source).sum()) // size))

    def batch(self, source: Subset, size: int, moment: BatchKey) -> Batch:
        sizes = self._sizes(source)
        ends = np.cumsum(sizes)
        begin = moment.step % max(1, -(-int(sizes.sum()) // size)) * size
        # Only documents that reach into this stretch are looked at, so that memory does not grow with the text.
        first, last = np.searchsorted(ends, [begin, begin + size], side="right")
        units, starts = source.units[first : last + 1], (ends - sizes)[first : last + 1]
        if self.text_unit == "document":
            inside = units[(starts >= begin) & (starts < begin + size)]
            return self._rows(source.corpus.ids, Subset(source.corpus, inside).spans)
        units = units.copy()
        if len(units):  # of the first and the last of them, only sentences that begin here
            units[-1, 1] = _sentence_at(source.corpus.sentences, units[-1], begin + size - int(starts[-1]))
            units[0, 0] = _sentence_at(source.corpus.sentences, units[0], begin - int(starts[0]))
        return self._rows(source.corpus.ids, Subset(source.corpus, units).by_sentence().spans)

    def check(self, source: Subset) -> None:
        """Any text can be counted."""

    def _sizes(self, source: Subset) -> np.ndarray:
        """(n,) what each document asks for: its tokens, and the ends of its units."""
        ends = source.units[:, 1] - source.units[:, 0] if self.text_unit == "sentence" else 1
        return source.spans[:, 1] - source.spans[:, 0] + ends

    def _rows(self, ids: np.ndarray, spans: np.ndarray) -> Batch:
        lengths = spans[:, 1] - spans[:, 0] + 1
        lasts = np.cumsum(lengths) - 1
        inner = np.ones(int(lengths.sum()), bool)
        inner[lasts] = False
        targets = np.full(len(inner), self.end, np.int64)
        if len(spans) and np.array_equal(spans[1:, 0], spans[:-1, 1]):  # nothing between them was set apart
            targets[inner] = ids[spans[0, 0] : spans[-1, 1]]
        else:
            targets[inner] = ids[concat_ranges(spans[:, 0], lengths - 1)]
        release_pages(ids)  # each token is read once
        tokens = np.roll(targets, 1)  # what was asked before is seen; before the first of a row stands an end
        return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})


def _sentence_at(begins: np.ndarray, unit: np.ndarray, place: int) -> int:
    """The first sentence of a unit that begins at this place of its stream, in which an end follows each, or later."""
    first, last = unit.tolist()
    zero = int(begins[first])
    return bisect_left(range(first, last), place, key=lambda at: int(begins[at]) - zero + at - first) + first
