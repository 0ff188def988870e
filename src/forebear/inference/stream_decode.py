"""Incremental decoding of tokens to text, in complete characters, up to a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.tokenizers.bpe import token_bytes

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer


class TextStream:
    """The continuation of a prompt as text: `text` is all of it so far; `append` returns pieces that cannot change.

    Joined, the pieces are the decoded prompt and continuation minus the decoded prompt, up to the first stop string.
    Incomplete characters and text that may begin a stop string are held back.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] | np.ndarray, stop: Sequence[str] = ()) -> None:
        self.text = ""
        self.stopped = False
        self._stop = stop
        self._num_released = 0  # characters of `text` already returned
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._tokenizer = tokenizer
        self._previous_token = [int(prompt[-1])] if len(prompt) else []

    def append(self, token: int) -> str:
        """Append a token and return the text that can no longer change."""
        if self._tokenizer.kind == "bytepair":
            return self._release(self._utf8.decode(token_bytes(self._tokenizer.id_to_token(token))))
        previous, self._previous_token = self._previous_token, [token]  # it alone decides whether a space precedes
        return self._release(self._tokenizer.decode([*previous, token])[len(self._tokenizer.decode(previous)) :])

    def finish(self) -> str:
        """Return the text that was held back, after the last token."""
        piece = self._release(self._utf8.decode(b"", final=True))
        held_back, self._num_released = self.text[self._num_released :], len(self.text)
        return piece + held_back

    def _release(self, piece: str) -> str:
        if self.stopped:
            return ""
        previous_length = len(self.text)
        self.text += piece
        stop_positions = [self.text.find(stop, max(previous_length - len(stop) + 1, 0)) for stop in self._stop]
        certain_length = min((position for position in stop_positions if position >= 0), default=None)
        if certain_length is not None:
            self.stopped, self.text = True, self.text[:certain_length]
        else:
            partial_lengths = (_partial_stop_length(self.text, stop) for stop in self._stop)
            certain_length = len(self.text) - max(partial_lengths, default=0)
        start, self._num_released = self._num_released, max(certain_length, self._num_released)
        return self.text[start : self._num_released]


def _partial_stop_length(text: str, stop: str) -> int:
    """Number of characters at the end of the text that are a prefix of the stop string."""
    return next((length for length in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:length])), 0)
