"""Next-token objectives: causal LM over shuffled windows, stateful token streams (BPTT), and bidirectional LM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.shuffle import shuffled_positions

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset


def require_context(source: Subset, max_length: int, hint: str = "") -> None:
    """Raise InputError with `hint` if the text is shorter than one window."""
    if max_length > source.num_tokens:
        length_hint = f", or --context {source.num_tokens // 8}" if source.num_tokens >= 16 else ""
        raise InputError(
            f"a context of {max_length:,} tokens is longer than the whole text to learn from "
            f"({source.num_tokens:,} tokens)",
            hint=f"give more text{length_hint}{hint}",
        )


@dataclass(frozen=True)
class NextToken:
    """Causal LM: each document is followed by `eos_id`, and all documents form a ring.

    An epoch cuts the ring into windows from a random offset and has each window once, in random order: every token is
    predicted exactly once per epoch, in a different context each time.

    Attributes:
        max_length: Tokens in a window.
        eos_id: The id that ends a document and precedes the first token of the next.
        document_mask: Split windows with several documents into several sequences, so that attention does not cross
            documents.
        lead_tokens: Unsupervised tokens before each window, for models with a fixed context size, so that window
            boundaries do not matter; None: no such tokens.
    """

    max_length: int
    eos_id: int
    document_mask: bool = False
    lead_tokens: int | None = None

    def steps(self, source: Subset, batch_size: int) -> int:
        num_rows, num_windows, _ = self._shape(source, batch_size)
        return -(-num_windows // num_rows)

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        inputs, targets, starts = self.window_starts(source, batch_size, key)
        lengths = np.full(len(inputs), inputs.shape[1], np.int64)
        if self.document_mask:
            starts[:, 0] = True
            lengths = np.diff(np.append(np.flatnonzero(starts), starts.size))
        return Batch({"tokens": inputs.ravel(), "lengths": lengths}, {"next": targets.ravel()})

    def window_starts(
        self, source: Subset, batch_size: int, key: BatchKey
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The windows of a batch (rows, tokens): inputs, targets (or IGNORE_INDEX), and True for end-of-text inputs."""
        num_rows, num_windows, width = self._shape(source, batch_size)
        length = int(source.stream_ends[-1])
        window_ids = key.step * num_rows + np.arange(num_rows)
        offsets = np.empty(num_rows, np.int64)  # of the first target of each row, relative to the epoch's shift
        shifts = np.empty(num_rows, np.int64)  # random offset of the epoch
        for epoch in np.unique(window_ids // num_windows).tolist():
            in_epoch = window_ids // num_windows == epoch
            indices = window_ids[in_epoch] % num_windows
            offsets[in_epoch] = shuffled_positions(indices, num_windows, seed=key.seed, epoch=epoch) * width
            shifts[in_epoch] = np.random.default_rng([key.seed, epoch]).integers(length)
        num_lead = self.lead_tokens or 0
        target_offsets = offsets[:, None] + np.arange(-num_lead, width)  # (rows, lead + width)
        stream = (target_offsets + shifts[:, None]) % length
        targets, _ = stream_tokens(source, stream, self.eos_id)
        inputs, starts = stream_tokens(source, (stream - 1) % length, self.eos_id)
        is_supervised = (target_offsets >= offsets[:, None]) & (target_offsets < length)
        return inputs, np.where(is_supervised, targets, IGNORE_INDEX), starts

    def check(self, source: Subset) -> None:
        if self.lead_tokens is None:
            require_context(source, self.max_length)

    def _shape(self, source: Subset, batch_size: int) -> tuple[int, int, int]:
        """Sequences in a batch, windows in an epoch, tokens in a window."""
        length = int(source.stream_ends[-1])
        width = min(self.max_length, length)
        num_windows = -(-length // width)
        return max(1, batch_size // (width + (self.lead_tokens or 0))), num_windows, width


def stream_tokens(source: Subset, stream_positions: np.ndarray, eos_id: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens at these positions of the stream, and True where a token is `eos_id`."""
    documents = np.searchsorted(source.stream_ends, stream_positions, side="right")
    remaining = (
        source.stream_ends[documents] - 1 - stream_positions
    )  # tokens from this position to the end of the document
    document_ends = source.spans[documents, 1]
    is_end = remaining == 0
    ids = source.corpus.ids[np.where(is_end, 0, document_ends - remaining)].astype(np.int64)
    return np.where(is_end, eos_id, ids), is_end


# --- Bidirectional LM ---


@dataclass(frozen=True)
class BidirectionalLM:
    """Bidirectional LM (ELMo): windows of `NextToken` plus the token after each; targets `next` and `previous`.

    Attributes:
        max_length: Tokens of a window, without the last one, which has no next token.
        eos_id: The id between documents.
    """

    max_length: int
    eos_id: int

    def steps(self, source: Subset, batch_size: int) -> int:
        return self._windows.steps(source, batch_size)

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        window_inputs, next_tokens, _ = self._windows.window_starts(source, batch_size, key)
        is_supervised = next_tokens != IGNORE_INDEX
        ignored = np.full((len(window_inputs), 1), IGNORE_INDEX)
        # The last window of the text may be short.
        last_tokens = np.where(is_supervised[:, -1:], next_tokens[:, -1:], self.eos_id)
        inputs = {
            "tokens": np.concatenate((window_inputs, last_tokens), 1).ravel(),
            "lengths": np.full(len(window_inputs), window_inputs.shape[1] + 1, np.int64),
        }
        targets = {
            "next": np.concatenate((next_tokens, ignored), 1).ravel(),
            "previous": np.concatenate((ignored, np.where(is_supervised, window_inputs, IGNORE_INDEX)), 1).ravel(),
        }
        return Batch(inputs, targets)

    def check(self, source: Subset) -> None:
        self._windows.check(source)

    @property
    def _windows(self) -> NextToken:
        return NextToken(self.max_length, self.eos_id)


# --- Stateful streams: each batch continues where the previous one ended ---


RESET_RATE = 0.1  # fraction of windows that start with a reset state


@dataclass(frozen=True)
class TokenStreams:
    """Causal LM over parallel streams, for truncated BPTT with a hidden state that is carried across batches.

    Each document is followed by `eos_id`, and all documents form a ring. An epoch cuts the ring at a random offset into
    as many streams as a batch has sequences, and reads them in parallel, window by window: every token is predicted
    exactly once per epoch. A recurrent network may continue from its state after the last window (`streams`). A
    `fresh` window starts with a reset state, as texts do at inference: the first of an epoch and a random few.

    Attributes:
        max_length: Tokens in a window: the BPTT length.
        eos_id: The id that ends a document and precedes the first token of the next.
    """

    max_length: int
    eos_id: int

    def steps(self, source: Subset, batch_size: int) -> int:
        _, length, width = self._shape(source, batch_size)
        return -(-length // width)

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        num_rows, length, width = self._shape(source, batch_size)
        epoch, window = divmod(key.step, -(-length // width))
        total = int(source.stream_ends[-1])
        first = window * width
        width = min(width, length - first)
        shift = int(np.random.default_rng([key.seed, epoch]).integers(total))
        offsets = np.arange(num_rows)[:, None] * length + first + np.arange(width)  # from the epoch's offset
        stream = (offsets + shift) % total
        targets = np.where(offsets < total, stream_tokens(source, stream, self.eos_id)[0], IGNORE_INDEX)
        inputs = {
            "tokens": stream_tokens(source, (stream - 1) % total, self.eos_id)[0].ravel(),
            "lengths": np.full(num_rows, width, np.int64),
            "streams": np.arange(num_rows),
            "fresh": np.full(num_rows, window == 0) | (key.rng().random(num_rows) < RESET_RATE),
        }
        return Batch(inputs, {"next": targets.ravel()})

    def check(self, source: Subset) -> None:
        require_context(source, self.max_length, ", or --state fresh")

    def _shape(self, source: Subset, batch_size: int) -> tuple[int, int, int]:
        """Sequences in a batch, tokens in a stream, tokens in a window."""
        total = int(source.stream_ends[-1])
        width = min(self.max_length, total)
        rows = min(max(1, batch_size // width), -(-total // width))
        return rows, -(-total // rows), width
