"""How one text or two become a row of tokens for an encoder, and which of its vectors then stands for the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Pooling = Literal["first", "last", "mean", "max"]
TaskEncoderKind = Literal["mean", "convolution", "recurrent"]
PromptSide = Literal["before", "after", "both"]


@dataclass(frozen=True)
class InputFormat:
    """Ids before the first text, between two and behind the last.

    read         the vector that stands for a row: the first token's ([CLS]), the last one's, which has seen all of it,
                 the mean of all, or of each number the largest
    segments     the encoder has vectors that tell a second text from the first
    both_orders  what is said of two texts alike is asked in either order: one that looks back sees only one of them
                 from the other
    context      tokens in a row at most; None: any number
    """

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pooling: Pooling = "mean"
    segments: bool = False
    both_orders: bool = False
    max_length: int | None = None

    def max_text_tokens(self, texts: int) -> int:
        """Tokens of text in a row of so many texts."""
        taken = len(self.before) + len(self.after) + (texts - 1) * len(self.between)
        return 1 << 40 if self.max_length is None else self.max_length - taken

    def make_row(self, *texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens, and for each the number of the text it belongs to; what stands behind a text is its own."""
        parts, counts = [np.array(self.before, np.int32)], []
        for number, text in enumerate(texts):
            around = self.after if number == len(texts) - 1 else self.between
            parts += [text, np.array(around, np.int32)]
            counts.append(len(text) + len(around))
        counts[0] += len(self.before)
        return np.concatenate(parts).astype(np.int32), np.repeat(np.arange(len(texts), dtype=np.int8), counts)

    def last_text_start(self, *texts: np.ndarray) -> int:
        """Where in the row the last of the texts begins."""
        return len(self.before) + sum(len(text) + len(self.between) for text in texts[:-1])


@dataclass(frozen=True)
class TaskEncoderConfig:
    """What reads vectors of words that know nothing of each other, where a milestone has no encoder of its own; or the
    layers of one that has, mixed as the task learns.

    kind     mean: every word by itself; convolution: with its neighbours; recurrent: with all words of its text; None:
             the vectors are taken as they are
    width    of what is read, and of vectors that are learned with it; None: that of the vectors there are
    pairs    whether rows hold two texts, which are to be compared
    dropout  share of the numbers of vectors that it does not see in training
    mixture  where a mixture of layers is put beside what it reads ("before"), what it makes of it ("after"), or both
    normed   whether layers are brought to one scale before they are mixed
    """

    kind: TaskEncoderKind | None = "mean"
    width: int | None = None
    pairs: bool = False
    dropout: float = 0.0
    mixture: PromptSide = "before"
    normed: bool = False
