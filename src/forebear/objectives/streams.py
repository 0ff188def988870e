"""Predict every token from those before it, each batch going on where the one before has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING, Batch, Moment
from forebear.objectives.next_token import tokens_at

if TYPE_CHECKING:
    from forebear.text.portion import Portion

FRESH = 0.1  # share of windows that begin anew


@dataclass(frozen=True)
class Streams:
    """Each document is followed by `end`, and the stream of all documents is thought of as a ring.

    An epoch cuts the ring, at a place of its own, into as many streams as a batch has rows, and reads all of them from
    their beginning to their end, a window at a time: every token is asked exactly once an epoch. A network that
    remembers may go on from what it knew at the end of the last window (`streams`). Where a window is `fresh` it begins
    with nothing known: the first of an epoch, and some by chance, because that is how every text begins in use.

    context  tokens in a window: as far back as gradients go
    end      the id that ends a document, and stands before the first token of the next
    """

    context: int
    end: int

    def steps(self, source: Portion, size: int) -> int:
        _, length, width = self._shape(source, size)
        return -(-length // width)

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        rows, length, width = self._shape(source, size)
        epoch, window = divmod(moment.step, -(-length // width))
        total = int(source.stream_ends[-1])
        first = window * width
        width = min(width, length - first)
        shift = int(np.random.default_rng([moment.seed, epoch]).integers(total))
        asked = np.arange(rows)[:, None] * length + first + np.arange(width)  # counted from where the epoch begins
        stream = (asked + shift) % total
        targets = np.where(asked < total, tokens_at(source, stream, self.end)[0], NOTHING)
        inputs = {
            "tokens": tokens_at(source, (stream - 1) % total, self.end)[0].ravel(),
            "lengths": np.full(rows, width, np.int64),
            "streams": np.arange(rows),
            "fresh": np.full(rows, window == 0) | (moment.rng().random(rows) < FRESH),
        }
        return Batch(inputs, {"next": targets.ravel()})

    def check(self, source: Portion) -> None:
        if self.context > source.tokens:
            shorter = f", or --context {source.tokens // 8}" if source.tokens >= 16 else ""
            raise BadInput(
                f"a context of {self.context:,} tokens is longer than the whole text to learn from "
                f"({source.tokens:,} tokens)",
                remedy=f"give more text{shorter}, or --state fresh",
            )

    def _shape(self, source: Portion, size: int) -> tuple[int, int, int]:
        """Rows in a batch, tokens in a stream, tokens in a window."""
        total = int(source.stream_ends[-1])
        width = min(self.context, total)
        rows = min(max(1, size // width), -(-total // width))
        return rows, -(-total // rows), width
