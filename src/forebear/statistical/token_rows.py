"""Rows of token ids, one after the other, as linear models read them: in chunks, without ids that mean nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from forebear.errors import ForebearError, InputError

CHUNK = 1 << 20  # tokens that are looked at together: memory stays bounded however many rows there are


@dataclass(frozen=True, eq=False)
class TokenRows:
    """tokens (T,) all ids; lengths (B,) of the rows; segments (T,) 0 in a first text, 1 in a second."""

    tokens: np.ndarray
    lengths: np.ndarray
    segments: np.ndarray | None = None

    @classmethod
    def from_rows(cls, inputs: Mapping[str, np.ndarray], *, vocabulary: int, segmented: bool) -> TokenRows:
        """From the inputs of a batch, if they are such rows."""
        tokens, lengths = np.asarray(inputs["tokens"]), np.asarray(inputs["lengths"], np.int64)
        segments = inputs.get("segments")
        if lengths.sum() != len(tokens) or (lengths < 0).any():
            raise ForebearError(f"rows of {int(lengths.sum()):,} tokens in all, but there are {len(tokens):,}")
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocabulary:
            what = f"a row holds ids outside 0 to {vocabulary - 1}"
            raise InputError(what, hint="prepare the text with the tokenizer of this run")
        if not segmented:
            return cls(tokens, lengths)
        if segments is None or len(segments) != len(tokens) or not np.isin(segments, (0, 1)).all():
            raise ForebearError("of two texts, each token has to say whether it is of the first (0) or the second (1)")
        return cls(tokens, lengths, np.asarray(segments))

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self) -> np.ndarray:
        """(T,) the row of each token."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def drop(self, skipped: np.ndarray) -> TokenRows:
        """The same rows without these ids."""
        kept = ~np.isin(self.tokens, skipped)
        lengths = np.bincount(self.rows()[kept], minlength=len(self.lengths))
        return TokenRows(self.tokens[kept], lengths, None if self.segments is None else self.segments[kept])

    def token_positions(self) -> np.ndarray:
        """(T,) how many tokens stand before each in its text: n-grams never reach from one text into another."""
        texts = self.rows() * 2 + (0 if self.segments is None else self.segments)
        here = np.arange(len(self.tokens))
        begins = np.diff(texts, prepend=-1) != 0
        return here - np.maximum.accumulate(np.where(begins, here, 0))

    def chunks(self) -> Iterator[TokenRows]:
        """The same rows, some at a time."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))
        first = 0
        while first < len(self.lengths):
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + CHUNK, side="right")) - 1)
            tokens = slice(ends[first], ends[last])
            segments = None if self.segments is None else self.segments[tokens]
            yield TokenRows(self.tokens[tokens], self.lengths[first:last], segments)
            first = last
