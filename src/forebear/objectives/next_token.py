"""Predict every token from those before it: documents one after the other, cut into windows of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING, Batch, Moment
from forebear.text.order import shuffled

if TYPE_CHECKING:
    from forebear.text.portion import Portion


@dataclass(frozen=True)
class NextToken:
    """Each document is followed by `end`, and the stream of all documents is thought of as a ring.

    An epoch cuts the ring into windows, from a place of its own, and shows each once in an order of its own: every
    token is asked exactly once an epoch, and in another context the next time.

    context  tokens in a window
    end      the id that ends a document, and stands before the first token of the next
    apart    a window that holds several documents becomes several rows, so that none is seen from another
    lead     tokens before each window that are seen too, and asked nothing about: where they are all that is looked
             back at from its first, it does not matter where windows are cut; None: it does, and there are none
    """

    context: int
    end: int
    apart: bool = False
    lead: int | None = None

    def steps(self, source: Portion, size: int) -> int:
        rows, windows, _ = self._shape(source, size)
        return -(-windows // rows)

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        seen, targets, begins = self.windows(source, size, moment)
        lengths = np.full(len(seen), seen.shape[1], np.int64)
        if self.apart:
            begins[:, 0] = True
            lengths = np.diff(np.append(np.flatnonzero(begins), begins.size))
        return Batch({"tokens": seen.ravel(), "lengths": lengths}, {"next": targets.ravel()})

    def windows(self, source: Portion, size: int, moment: Moment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The windows of a batch, (rows, tokens): what is seen, what follows it or NOTHING, and True for an `end`."""
        rows, windows, width = self._shape(source, size)
        length = int(source.stream_ends[-1])
        numbers = moment.step * rows + np.arange(rows)
        places = np.empty(rows, np.int64)  # of each row's first target, counted from where the epoch begins to cut
        shifts = np.empty(rows, np.int64)
        for epoch in np.unique(numbers // windows).tolist():
            mine = numbers // windows == epoch
            places[mine] = shuffled(numbers[mine] % windows, windows, seed=moment.seed, epoch=epoch) * width
            shifts[mine] = np.random.default_rng([moment.seed, epoch]).integers(length)
        before = self.lead or 0
        asked = places[:, None] + np.arange(-before, width)  # (rows, before + width)
        stream = (asked + shifts[:, None]) % length
        targets, _ = tokens_at(source, stream, self.end)
        seen, begins = tokens_at(source, (stream - 1) % length, self.end)
        own = (asked >= places[:, None]) & (asked < length)
        return seen, np.where(own, targets, NOTHING), begins

    def check(self, source: Portion) -> None:
        if self.lead is None and self.context > source.tokens:
            shorter = f", or --context {source.tokens // 8}" if source.tokens >= 16 else ""
            raise BadInput(
                f"a context of {self.context:,} tokens is longer than the whole text to learn from "
                f"({source.tokens:,} tokens)",
                remedy=f"give more text{shorter}",
            )

    def _shape(self, source: Portion, size: int) -> tuple[int, int, int]:
        """Rows in a batch, windows in an epoch, tokens in a window."""
        length = int(source.stream_ends[-1])
        width = min(self.context, length)
        windows = -(-length // width)
        return max(1, size // (width + (self.lead or 0))), windows, width


def tokens_at(source: Portion, stream: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens at these places of the stream, and True where one is an `end`: there another document begins."""
    unit = np.searchsorted(source.stream_ends, stream, side="right")
    before_end = source.stream_ends[unit] - 1 - stream  # tokens of the document from here on
    last = source.spans[unit, 1]
    ends = before_end == 0
    ids = source.corpus.ids[np.where(ends, 0, last - before_end)].astype(np.int64)
    return np.where(ends, end, ids), ends
