"""Show every text once and whole, from beginning to end: what a model that counts wants to see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import Batch, Moment
from forebear.text.portion import Portion

UNITS = ("sentence", "document")


@dataclass(frozen=True)
class EveryText:
    """Each unit is a row [end, w1 … wn] that asks for [w1 … wn, end]: in the text's order, each exactly once an epoch.

    A batch holds the units that begin in its stretch of `size` tokens; a unit longer than that leaves batches without
    rows behind it. Nothing is drawn by chance.

    unit  what a row is: "sentence" or "document"
    end   the id that stands before and after each
    """

    unit: str
    end: int

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise BadInput(f"no unit of text is named {self.unit!r}", remedy=f"there are: {', '.join(UNITS)}")

    def steps(self, source: Portion, size: int) -> int:
        return max(1, -(-int(self._sizes(source).sum()) // size))

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        ends = np.cumsum(self._sizes(source))
        begin = moment.step % self.steps(source, size) * size
        # Only documents that reach into this stretch are looked at, so that memory does not grow with the text.
        first, last = np.searchsorted(ends, [begin, begin + size], side="right")
        units = Portion(source.corpus, source.units[first : last + 1])
        units = units.by_sentence() if self.unit == "sentence" else units
        starts = (ends[first - 1] if first else 0) + units.stream_ends - (units.spans[:, 1] - units.spans[:, 0] + 1)
        return self._rows(source.corpus.ids, units.spans[(starts >= begin) & (starts < begin + size)])

    def check(self, source: Portion) -> None:
        """Any text can be counted."""

    def _sizes(self, source: Portion) -> np.ndarray:
        """(n,) what each document asks for: its tokens, and the ends of its units."""
        ends = source.units[:, 1] - source.units[:, 0] if self.unit == "sentence" else 1
        return source.spans[:, 1] - source.spans[:, 0] + ends

    def _rows(self, ids: np.ndarray, spans: np.ndarray) -> Batch:
        lengths = spans[:, 1] - spans[:, 0] + 1
        lasts = np.cumsum(lengths) - 1
        inner = np.ones(int(lengths.sum()), bool)
        inner[lasts] = False
        places = np.arange(len(inner)) + np.repeat(spans[:, 0] - (lasts + 1 - lengths), lengths)
        targets = np.full(len(inner), self.end, np.int64)
        targets[inner] = ids[places[inner]]
        tokens = np.roll(targets, 1)  # what was asked before is seen; before the first of a row stands an end
        return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})
