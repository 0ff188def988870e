"""What a tokenizer tells of texts: of one in detail, of many in arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of one text: ids, the span of the original text each stands for, and their names in the vocabulary.

    Spans are code-point offsets, rise and never overlap. Where several tokens come from one character (bytes of an
    emoji, an expanded ligature) the first owns it and the others have the empty span at its end.
    """

    ids: np.ndarray
    spans: list[tuple[int, int]]
    texts: list[str]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of many texts: all ids in a row, how many each text has, the bytes of each text that became unknown
    tokens, and, where somebody asked, True where a token begins a word, and the characters each token stands for, as in
    `Many`.
    """

    ids: np.ndarray
    counts: np.ndarray
    unknown: np.ndarray
    starts: np.ndarray | None = None
    first: np.ndarray | None = None
    last: np.ndarray | None = None
