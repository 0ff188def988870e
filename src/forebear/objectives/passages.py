"""Documents cut into passages: neighbouring sentences of one document, as many as a row holds, none of them lost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from forebear.text.portion import ranges

if TYPE_CHECKING:
    from forebear.text.portion import Portion

SHORT = 0.1  # share of passages that are made shorter than they could be, so that short rows too are known (BERT's)
FULL = 0.05  # share of passages that fill the context, where most rows are to be shorter, so that every place is known
LEAST = 8  # tokens that a passage made shorter may have at least


@dataclass(frozen=True, eq=False)
class Pieces:
    """Sentences, and parts of those that are too long for a row, in the order of the text.

    spans      (n, 2) the first token of each and the one after its last
    documents  (n,) the number of the unit of the portion that each belongs to
    stretches  (n,) the number of the piece after the last that goes on without a gap, in the same document
    cut        sentences that were too long for a row
    left_away  tokens of them that no row shows
    """

    spans: np.ndarray
    documents: np.ndarray
    stretches: np.ndarray
    cut: int
    left_away: int

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def lengths(self) -> np.ndarray:
        return self.spans[:, 1] - self.spans[:, 0]


@lru_cache(maxsize=4)
def pieces_of(source: Portion, room: int, long: str) -> Pieces:
    """The pieces of a portion, none longer than `room` tokens.

    A longer sentence is cut into windows, where words are known before a word; with `long` "truncate" only the first
    of them is kept.
    """
    spans = source.by_sentence().spans
    documents = np.repeat(np.arange(len(source)), source.units[:, 1] - source.units[:, 0])
    too_long = np.flatnonzero(spans[:, 1] - spans[:, 0] > room)
    left_away = 0
    if len(too_long):
        windows = [_windows(source, begin, end, room) for begin, end in spans[too_long].tolist()]
        if long == "truncate":
            left_away = sum(int(window[-1, 1] - window[0, 1]) for window in windows)
            windows = [window[:1] for window in windows]
        counts = np.ones(len(spans), np.int64)
        counts[too_long] = [len(window) for window in windows]
        documents, spans = np.repeat(documents, counts), np.repeat(spans, counts, axis=0)
        where = ranges((np.cumsum(counts) - counts)[too_long], counts[too_long])
        spans[where] = np.concatenate(windows)
    breaks = np.flatnonzero((documents[1:] != documents[:-1]) | (spans[1:, 0] != spans[:-1, 1])) + 1
    ends = np.append(breaks, len(spans))
    stretches = np.repeat(ends, np.diff(ends, prepend=0))
    return Pieces(spans, documents, stretches, len(too_long), left_away)


def _windows(source: Portion, begin: int, end: int, room: int) -> np.ndarray:
    """(m, 2) spans of at most `room` tokens, one after the other."""
    cuts = [begin]
    while end - cuts[-1] > room:
        cut = cuts[-1] + room
        words = source.corpus.words
        starts = np.empty(0, int) if words is None else np.flatnonzero(words[cuts[-1] + 1 : cut + 1])
        cuts.append(cuts[-1] + 1 + int(starts[-1]) if len(starts) else cut)
    return np.array([*zip(cuts, [*cuts[1:], end], strict=True)])


def packed(pieces: Pieces, room: int, rng: np.random.Generator, *, usual: int | None = None) -> np.ndarray:
    """(m, 2) the first piece of each passage and the one after its last: every piece is in exactly one of them.

    A passage holds as many pieces as have `room` tokens together; a few are drawn shorter. With `usual` most of them
    have only so many, but for a piece that is longer itself. So an epoch cuts a text otherwise than the one before. By
    a coin a stretch is packed from its beginning or from its end: the piece that did not fit is a long one, and if it
    always came first, its length would tell which half of a passage is the first.
    """
    here, ends = np.arange(len(pieces)), pieces.stretches
    begins = np.searchsorted(ends, ends)  # (n,) the first piece of each one's stretch
    backwards = (rng.random(len(pieces)) < 0.5)[begins]
    lengths = pieces.lengths[np.where(backwards, begins + ends - 1 - here, here)]  # as in a mirror
    upto = np.cumsum(lengths)
    most = room if usual is None else min(usual, room)
    rooms = np.full(len(pieces), most)
    short = np.flatnonzero(rng.random(len(pieces)) < SHORT)
    rooms[short] = rng.integers(min(LEAST, most), most + 1, len(short))
    if most < room:
        rooms[rng.random(len(pieces)) < FULL] = room
    after = np.searchsorted(upto, upto - lengths + rooms, side="right")
    after = np.maximum(np.minimum(after, ends), here + 1)
    found = np.array(_hops(after.tolist()), np.int64)
    first = found[:, 0]
    mirrored = (begins + ends)[first, None] - found[:, ::-1]
    return np.where(backwards[first, None], mirrored, found)


def _hops(after: list[int]) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < len(after):
        found.append((at, after[at]))
        at = after[at]
    return found
