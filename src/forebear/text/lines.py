"""Where the lines of documents end, by their bytes: for text in which a line is a sentence and nobody wants its string.

The readable twin is `sentences.split_sentences` with the mode `lines`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forebear.text.documents import Document
from forebear.text.sentences import LINE_END
from forebear.text.spans import lengths_of

LINE_FEED, TAILS = b"\n", 8  # what parts lines; and how much white space may end one before this is left to the twin
_WHITE = np.array([chr(code).isspace() for code in range(128)] + [False] * 128)  # bytes that are white space
_WIDE = [c.encode() for c in map(chr, range(128, 0x3001)) if c.isspace()]
_WIDE_TWO, _WIDE_THREE = ([int.from_bytes(c, "big") for c in _WIDE if len(c) == size] for size in (2, 3))


class Lines(NamedTuple):
    """The lines of documents, one after the other."""

    data: bytes  # all documents, a line feed at the end of each
    ends: np.ndarray  # where each line ends there, white space before the next one not counted
    sizes: np.ndarray  # the bytes of each, as its document has them
    many: np.ndarray  # how many each document has


def lines_of(documents: Sequence[Document]) -> Lines | None:
    """Their lines, if line feeds part them and no other mark, and none is blank; else None."""
    if any(mark in document.text for document in documents for mark in LINE_END[1:]):
        return None
    ended = np.array([document.text.endswith("\n") for document in documents])
    parts = [d.data if done else d.data + LINE_FEED for d, done in zip(documents, ended.tolist(), strict=True)]
    data, borders = b"".join(parts), np.cumsum(lengths_of(parts))
    ends = _visible_ends(np.frombuffer(data, np.uint8))
    if ends is None:
        return None
    many = np.diff(np.searchsorted(ends, borders), prepend=0)
    lasts = np.cumsum(many) - 1
    ends[lasts] = borders  # white space behind its last line is still the document's
    sizes = np.diff(ends, prepend=0)
    sizes[lasts] -= ~ended
    return Lines(data, ends, sizes, many)


def _visible_ends(data: np.ndarray) -> np.ndarray | None:
    """Behind the last visible character of each line of a text that ends with a line feed; None where one has none."""
    ends = np.flatnonzero(data == ord(LINE_FEED))
    begins = np.concatenate(([0], ends[:-1] + 1))
    for _ in range(TAILS):
        if (ends <= begins).any():
            return None
        white = _WHITE[data[ends - 1]]
        if not white.any():
            break
        ends -= white
    else:
        return None
    wide = ends[data[ends - 1] >= 128]
    two = data[wide - 2].astype(np.int64) << 8 | data[wide - 1]
    three = data[np.maximum(wide - 3, 0)].astype(np.int64) << 16 | two
    return None if np.isin(two, _WIDE_TWO).any() or np.isin(three, _WIDE_THREE).any() else ends
