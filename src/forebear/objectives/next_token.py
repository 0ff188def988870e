"""Predict every token from those before it: documents one after the other, cut into windows of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, shuffled_positions

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset


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

    max_length: int
    eos_id: int
    document_mask: bool = False
    lead_tokens: int | None = None

    def steps(self, source: Subset, size: int) -> int:
        rows, windows, _ = self._shape(source, size)
        return -(-windows // rows)

    def batch(self, source: Subset, size: int, key: BatchKey) -> Batch:
        inputs, targets, starts = self.window_starts(source, size, key)
        lengths = np.full(len(inputs), inputs.shape[1], np.int64)
        if self.document_mask:
            starts[:, 0] = True
            lengths = np.diff(np.append(np.flatnonzero(starts), starts.size))
        return Batch({"tokens": inputs.ravel(), "lengths": lengths}, {"next": targets.ravel()})

    def window_starts(self, source: Subset, size: int, key: BatchKey) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The windows of a batch, (rows, tokens): what is seen, what follows it or NOTHING, and True for an `end`."""
        rows, windows, width = self._shape(source, size)
        length = int(source.stream_ends[-1])
        window_ids = key.step * rows + np.arange(rows)
        offsets = np.empty(rows, np.int64)  # of each row's first target, counted from where the epoch begins to cut
        shifts = np.empty(rows, np.int64)
        for epoch in np.unique(window_ids // windows).tolist():
            in_epoch = window_ids // windows == epoch
            offsets[in_epoch] = shuffled_positions(window_ids[in_epoch] % windows, windows, seed=key.seed, epoch=epoch) * width
            shifts[in_epoch] = np.random.default_rng([key.seed, epoch]).integers(length)
        lead = self.lead_tokens or 0
        target_offsets = offsets[:, None] + np.arange(-lead, width)  # (rows, before + width)
        stream = (target_offsets + shifts[:, None]) % length
        targets, _ = stream_tokens(source, stream, self.eos_id)
        inputs, starts = stream_tokens(source, (stream - 1) % length, self.eos_id)
        is_supervised = (target_offsets >= offsets[:, None]) & (target_offsets < length)
        return inputs, np.where(is_supervised, targets, IGNORE_INDEX), starts

    def check(self, source: Subset) -> None:
        if self.lead_tokens is None and self.max_length > source.num_tokens:
            length_hint = f", or --context {source.num_tokens // 8}" if source.num_tokens >= 16 else ""
            raise InputError(
                f"a context of {self.max_length:,} tokens is longer than the whole text to learn from "
                f"({source.num_tokens:,} tokens)",
                hint=f"give more text{length_hint}",
            )

    def _shape(self, source: Subset, size: int) -> tuple[int, int, int]:
        """Rows in a batch, windows in an epoch, tokens in a window."""
        length = int(source.stream_ends[-1])
        width = min(self.max_length, length)
        windows = -(-length // width)
        return max(1, size // (width + (self.lead_tokens or 0))), windows, width


def stream_tokens(source: Subset, stream: np.ndarray, eos_id: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens at these places of the stream, and True where one is an `end`: there another document begins."""
    documents = np.searchsorted(source.stream_ends, stream, side="right")
    remaining = source.stream_ends[documents] - 1 - stream  # tokens of the document from here on
    document_ends = source.spans[documents, 1]
    is_end = remaining == 0
    ids = source.corpus.ids[np.where(is_end, 0, document_ends - remaining)].astype(np.int64)
    return np.where(is_end, eos_id, ids), is_end


# Predict every token twice: from those before it, and from those behind it.


@dataclass(frozen=True)
class BidirectionalLM:
    """The windows of `NextToken`, each with the token that follows its last: `next` asks for what follows a token, and
    `previous` for what stands before it, of all neighbours in a window.

    context  tokens of a window that have one behind them
    end      the id that stands between documents
    """

    max_length: int
    end: int

    def steps(self, source: Subset, size: int) -> int:
        return self._windows.steps(source, size)

    def batch(self, source: Subset, size: int, key: BatchKey) -> Batch:
        inputs_of_windows, following, _ = self._windows.window_starts(source, size, key)
        supervised = following != IGNORE_INDEX
        ignored = np.full((len(inputs_of_windows), 1), IGNORE_INDEX)
        last_tokens = np.where(supervised[:, -1:], following[:, -1:], self.end)  # a window at the end of the text may be short
        inputs = {
            "tokens": np.concatenate((inputs_of_windows, last_tokens), 1).ravel(),
            "lengths": np.full(len(inputs_of_windows), inputs_of_windows.shape[1] + 1, np.int64),
        }
        targets = {
            "next": np.concatenate((following, ignored), 1).ravel(),
            "previous": np.concatenate((ignored, np.where(supervised, inputs_of_windows, IGNORE_INDEX)), 1).ravel(),
        }
        return Batch(inputs, targets)

    def check(self, source: Subset) -> None:
        self._windows.check(source)

    @property
    def _windows(self) -> NextToken:
        return NextToken(self.max_length, self.end)


# Predict every token from those before it, each batch going on where the one before has ended.


FRESH = 0.1  # share of windows that begin anew


@dataclass(frozen=True)
class TokenStreams:
    """Each document is followed by `end`, and the stream of all documents is thought of as a ring.

    An epoch cuts the ring, at a place of its own, into as many streams as a batch has rows, and reads all of them from
    their beginning to their end, a window at a time: every token is asked exactly once an epoch. A network that
    remembers may go on from what it knew at the end of the last window (`streams`). Where a window is `fresh` it begins
    with nothing known: the first of an epoch, and some by chance, because that is how every text begins in use.

    context  tokens in a window: as far back as gradients go
    end      the id that ends a document, and stands before the first token of the next
    """

    max_length: int
    eos_id: int

    def steps(self, source: Subset, size: int) -> int:
        _, length, width = self._shape(source, size)
        return -(-length // width)

    def batch(self, source: Subset, size: int, key: BatchKey) -> Batch:
        rows, length, width = self._shape(source, size)
        epoch, window = divmod(key.step, -(-length // width))
        total = int(source.stream_ends[-1])
        first = window * width
        width = min(width, length - first)
        shift = int(np.random.default_rng([key.seed, epoch]).integers(total))
        offsets = np.arange(rows)[:, None] * length + first + np.arange(width)  # counted from where the epoch begins
        stream = (offsets + shift) % total
        targets = np.where(offsets < total, stream_tokens(source, stream, self.eos_id)[0], IGNORE_INDEX)
        inputs = {
            "tokens": stream_tokens(source, (stream - 1) % total, self.eos_id)[0].ravel(),
            "lengths": np.full(rows, width, np.int64),
            "streams": np.arange(rows),
            "fresh": np.full(rows, window == 0) | (key.rng().random(rows) < FRESH),
        }
        return Batch(inputs, {"next": targets.ravel()})

    def check(self, source: Subset) -> None:
        if self.max_length > source.num_tokens:
            length_hint = f", or --context {source.num_tokens // 8}" if source.num_tokens >= 16 else ""
            raise InputError(
                f"a context of {self.max_length:,} tokens is longer than the whole text to learn from "
                f"({source.num_tokens:,} tokens)",
                hint=f"give more text{length_hint}, or --state fresh",
            )

    def _shape(self, source: Subset, size: int) -> tuple[int, int, int]:
        """Rows in a batch, tokens in a stream, tokens in a window."""
        total = int(source.stream_ends[-1])
        width = min(self.max_length, total)
        rows = min(max(1, size // width), -(-total // width))
        return rows, -(-total // rows), width
