"""Incremental decoding of tokens to text: whole characters only, and stop strings."""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

StopReason = Literal["end", "stop", "length", "choice"]


@dataclass(frozen=True)
class GeneratedText:
    """A prompt and its continuation; `ids` are the generated tokens, including those of a stop string.

    `sample` is the index of a sample, or the rank of a beam search hypothesis. `log_prob` and `score` are set by beam
    search and choices only, `choices` (with probabilities) by choices only.
    """

    prompt: str
    sample: int
    text: str
    ids: tuple[int, ...]
    stop_reason: StopReason
    log_prob: float | None = None
    score: float | None = None
    choices: tuple[tuple[str, float], ...] = ()

    @property
    def full_text(self) -> str:
        """Prompt and continuation, without a doubled space between them."""
        has_double_space = self.prompt[-1:].isspace() and self.text[:1] == " "
        return self.prompt + self.text[1 if has_double_space else 0 :]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; an infinite log-probability is null."""
        result: dict[str, Any] = {"prompt": self.prompt}
        result |= {"sample": self.sample} if self.log_prob is None else {"rank": self.sample + 1}
        result |= {"text": self.text, "whole": self.full_text, "tokens": len(self.ids), "ended": self.stop_reason}
        for name, value in (("log_probability", self.log_prob), ("score", self.score)):
            if value is not None:
                result[name] = value if math.isfinite(value) else None
        return {**result, "choices": dict(self.choices)} if self.choices else result


# Byte-level BPE writes printable Latin-1 bytes as themselves and maps the others to U+0100 and up.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = sorted({*range(0x100)} - {*_PRINTABLE})
BYTE_OF_CHARACTER = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + i): byte for i, byte in enumerate(_OTHERS)}


def token_bytes(token: str) -> bytes:
    """The bytes of a byte-level BPE token; an added token may be plain text."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode()


def readable_token(tokenizer: Tokenizer, token_id: int) -> str:
    """A token in readable form: byte-level tokens as text, or as hexadecimal bytes if they are not valid UTF-8."""
    token = tokenizer.id_to_token(token_id)
    if tokenizer.kind != "bytepair" or token_id in tokenizer.special_ids:
        return token
    spelled_bytes = token_bytes(token)
    try:
        return spelled_bytes.decode().replace(" ", "␣").replace("\n", "⏎")
    except UnicodeDecodeError:
        return f"‹{spelled_bytes.hex(' ').upper()}›"


class TextStream:
    """The continuation of a prompt as text. `text` is all of it so far; `append` returns what is certain to stay.

    The pieces join to the decoded prompt and continuation without the decoded prompt, up to the first stop string.
    Incomplete characters and possible beginnings of a stop string are held back.
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
        """Append a token and return the text that is certain now."""
        if self._tokenizer.kind == "bytepair":
            return self._release(self._utf8.decode(token_bytes(self._tokenizer.id_to_token(token))))
        before, self._previous_token = self._previous_token, [token]  # it alone decides whether a space comes first
        return self._release(self._tokenizer.decode([*before, token])[len(self._tokenizer.decode(before)) :])

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
