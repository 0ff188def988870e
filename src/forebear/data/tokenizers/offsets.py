"""Which characters of a text its tokens stand for, and how many bytes those are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from forebear.data.tokenizers.char_level import code_points

if TYPE_CHECKING:
    import tokenizers


def flatten_ints(lists: Iterable[Iterable[int]]) -> np.ndarray:
    """Many lists of integers as one array."""
    return np.fromiter(chain.from_iterable(lists), np.int64)


def text_lengths(texts: Sequence[Sized]) -> np.ndarray:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def token_offsets(encodings: Sequence[tokenizers.Encoding]) -> np.ndarray:
    """(tokens, 2) the first character of each token and the one after its last, counted within its own text."""
    return flatten_ints(chain.from_iterable(encoding.offsets) for encoding in encodings).reshape(-1, 2)


def last_characters(offsets: np.ndarray) -> np.ndarray:
    """The last character of each token; of one that stands for none, the character it stands at."""
    return np.maximum(offsets[:, 1] - 1, offsets[:, 0])


def without_separators(positions: np.ndarray, boundaries: np.ndarray) -> np.ndarray:
    """Positions in a text with separators as positions in the text without them."""
    if not len(boundaries):
        return positions
    separators = boundaries + np.arange(len(boundaries))
    return positions - np.searchsorted(separators, positions)


def without_overlap(spans: np.ndarray) -> np.ndarray:
    """Spans that never overlap: what an earlier one covers is no longer the later one's."""
    if not len(spans):
        return spans
    ends = np.maximum.accumulate(spans.max(axis=1))
    begins = spans[:, 0].copy()
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    return np.stack((begins, ends), axis=1)


def global_offsets(texts: Sequence[str], offsets: Sequence[Sequence[int]]) -> np.ndarray:
    """Places in each text as places in all texts, where one more character follows each text."""
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
    return flatten_ints(offsets) + np.repeat(begins, text_lengths(offsets))


def char_word_ids(texts: Sequence[str], ends: Sequence[Sequence[int]]) -> np.ndarray:
    """For each character of all texts, one more after each text, the number of its word."""
    begins_word = np.zeros(sum(map(len, texts)) + len(texts) + 1, np.int32)
    begins_word[global_offsets(texts, ends)] = 1
    begins_word[global_offsets(texts, [[0]] * len(texts))] = 1
    return np.cumsum(begins_word)


def utf8_widths(codes: np.ndarray) -> np.ndarray:
    """The bytes of each code point in UTF-8."""
    return np.uint8(1) + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)


def utf8_offsets(data: np.ndarray, characters: np.ndarray) -> np.ndarray:
    """How many bytes of a text in UTF-8 stand before each of these characters."""
    continuation_bytes = np.flatnonzero((data & 0xC0) == 0x80)  # bytes that go on with a character
    return characters + np.searchsorted(
        continuation_bytes - np.arange(len(continuation_bytes)), characters, side="right"
    )


def unknown_bytes(texts: Sequence[str], is_unknown: np.ndarray, counts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The bytes of each text that its missed tokens stand for; `counts` says how many tokens each text has.

    A character that several tokens come from counts as the first one's alone, as everywhere.
    """
    if not is_unknown.any():
        return np.zeros(len(texts), np.int64)
    text_ids = np.repeat(np.arange(len(texts)), counts)
    begins = np.cumsum(lengths := text_lengths(texts)) - lengths
    spans = without_overlap(offsets + begins[text_ids, np.newaxis])
    byte_offsets = np.concatenate(([0], np.cumsum(utf8_widths(code_points("".join(texts))), dtype=np.int64)))
    begin, end = byte_offsets[spans[is_unknown]].T
    return sum_by_index(end - begin, text_ids[is_unknown], len(texts))


def sum_by_index(values: np.ndarray, indices: np.ndarray, size: int) -> np.ndarray:
    """The values that belong to each place."""
    return np.bincount(indices, values, minlength=size).astype(np.int64)
