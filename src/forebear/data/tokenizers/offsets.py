"""Character and byte offsets of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.unicode import code_points

if TYPE_CHECKING:
    import tokenizers


def flatten_ints(lists: Iterable[Iterable[int]]) -> np.ndarray:
    """Many lists of integers as one array."""
    return np.fromiter(chain.from_iterable(lists), np.int64)


def text_lengths(texts: Sequence[Sized]) -> np.ndarray:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def token_offsets(encodings: Sequence[tokenizers.Encoding]) -> np.ndarray:
    """(tokens, 2) start and end of each token in its own text."""
    return flatten_ints(chain.from_iterable(encoding.offsets) for encoding in encodings).reshape(-1, 2)


def last_characters(offsets: np.ndarray) -> np.ndarray:
    """The offset of the last character of each token; of an empty span, its position."""
    return np.maximum(offsets[:, 1] - 1, offsets[:, 0])


def without_separators(positions: np.ndarray, boundaries: np.ndarray) -> np.ndarray:
    """Convert positions in a text with separators to positions in the text without them."""
    if not len(boundaries):
        return positions
    separators = boundaries + np.arange(len(boundaries))
    return positions - np.searchsorted(separators, positions)


def without_overlap(spans: np.ndarray) -> np.ndarray:
    """Spans without overlap: earlier spans win."""
    if not len(spans):
        return spans
    ends = np.maximum.accumulate(spans.max(axis=1))
    starts = spans[:, 0].copy()
    starts[1:] = np.maximum(starts[1:], ends[:-1])
    return np.stack((starts, ends), axis=1)


def global_offsets(texts: Sequence[str], offsets: Sequence[Sequence[int]]) -> np.ndarray:
    """Convert offsets in each text to offsets in all texts, joined by one separator character."""
    starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
    return flatten_ints(offsets) + np.repeat(starts, text_lengths(offsets))


def char_word_ids(texts: Sequence[str], ends: Sequence[Sequence[int]]) -> np.ndarray:
    """The word number of each character of all texts, with one more character after each text."""
    is_word_start = np.zeros(sum(map(len, texts)) + len(texts) + 1, np.int32)
    is_word_start[global_offsets(texts, ends)] = 1
    is_word_start[global_offsets(texts, [[0]] * len(texts))] = 1
    return np.cumsum(is_word_start)


def utf8_widths(codes: np.ndarray) -> np.ndarray:
    """The bytes of each code point in UTF-8."""
    return np.uint8(1) + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)


def utf8_offsets(data: np.ndarray, characters: np.ndarray) -> np.ndarray:
    """Byte offsets of these characters in a UTF-8 text."""
    continuation_bytes = np.flatnonzero((data & 0xC0) == 0x80)
    num_before = continuation_bytes - np.arange(len(continuation_bytes))  # characters before each of them
    return characters + np.searchsorted(num_before, characters, side="right")


def unknown_bytes(texts: Sequence[str], is_unknown: np.ndarray, counts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The bytes of each text that are covered by unknown tokens; `counts` are the tokens of each text.

    A character that yields several tokens belongs to the first of them.
    """
    if not is_unknown.any():
        return np.zeros(len(texts), np.int64)
    text_ids = np.repeat(np.arange(len(texts)), counts)
    text_starts = np.cumsum(lengths := text_lengths(texts)) - lengths
    spans = without_overlap(offsets + text_starts[text_ids, np.newaxis])
    byte_offsets = np.concatenate(([0], np.cumsum(utf8_widths(code_points("".join(texts))), dtype=np.int64)))
    begin, end = byte_offsets[spans[is_unknown]].T
    return sum_by_index(end - begin, text_ids[is_unknown], len(texts))


def sum_by_index(values: np.ndarray, indices: np.ndarray, size: int) -> np.ndarray:
    """The sum of the values of each index."""
    return np.bincount(indices, values, minlength=size).astype(np.int64)
