"""Input format of an encoder ([CLS] A [SEP] B [SEP], pooling), and the configuration of task encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Pooling = Literal["first", "last", "mean", "max"]
TaskEncoderKind = Literal["mean", "convolution", "recurrent"]
MixPosition = Literal["before", "after", "both"]


@dataclass(frozen=True)
class InputFormat:
    """Special ids before the first text, between two texts, and after the last.

    Attributes:
        before: Ids before the first text.
        between: Ids between two texts.
        after: Ids after the last text.
        pooling: The sequence vector: first token ([CLS]), last token, mean, or maximum over tokens.
        segments: Whether the encoder has segment embeddings.
        both_orders: Whether symmetric pairs are encoded in both orders, as causal models need.
        max_length: Maximum tokens of a sequence; None: unlimited.
    """

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pooling: Pooling = "mean"
    segments: bool = False
    both_orders: bool = False
    max_length: int | None = None

    def max_text_tokens(self, num_texts: int) -> int:
        """Maximum text tokens in a sequence of `num_texts` texts."""
        num_special = len(self.before) + len(self.after) + (num_texts - 1) * len(self.between)
        return 1 << 40 if self.max_length is None else self.max_length - num_special

    def make_row(self, *texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and their segment ids; special ids after a text belong to its segment."""
        parts, counts = [np.array(self.before, np.int32)], []
        for index, text in enumerate(texts):
            special_ids = self.after if index == len(texts) - 1 else self.between
            parts += [text, np.array(special_ids, np.int32)]
            counts.append(len(text) + len(special_ids))
        counts[0] += len(self.before)
        return np.concatenate(parts).astype(np.int32), np.repeat(np.arange(len(texts), dtype=np.int8), counts)

    def last_text_start(self, *texts: np.ndarray) -> int:
        """The offset of the last text in the sequence."""
        return len(self.before) + sum(len(text) + len(self.between) for text in texts[:-1])


@dataclass(frozen=True)
class TaskEncoderConfig:
    """A task encoder over static word vectors, or over a scalar mix of the layers of a contextual encoder.

    Attributes:
        kind: mean (no context), convolution (neighbors), recurrent (all words); None: the vectors themselves.
        width: Hidden size, and size of vectors trained with it; None: that of the given vectors.
        pairs: Whether sequences hold two texts to compare.
        dropout: Dropout rate of the input vectors.
        mixture: Where the scalar mix is concatenated: to the input ("before"), the output ("after"), or both.
        normed: Whether layers are normalized before mixing.
    """

    kind: TaskEncoderKind | None = "mean"
    width: int | None = None
    pairs: bool = False
    dropout: float = 0.0
    mixture: MixPosition = "before"
    normed: bool = False
