"""A generated text: prompt, continuation, why it ended, and its probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

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
