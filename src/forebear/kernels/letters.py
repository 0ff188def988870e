"""Character n-grams of many words, hashed: compiled loops over bytes; the readable twin is Subwords.plain_rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebear.kernels.compiling import compiled


def hashed_ngrams(
    letters: np.ndarray, ends: np.ndarray, starts: np.ndarray, han: np.ndarray, lengths: tuple[int, int], buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, rows): the buckets of word after word.

    letters  (n,) uint8, all words in UTF-8, each between its marks, one after the other
    starts   (characters + 1,) int64, where each character begins, and the end
    ends     (words + 1,) int64, the number of the character at which each word begins, and the end
    han      (characters,) bool, where it is Chinese: those count alone and in pairs too
    lengths  the shortest and the longest n-gram
    """
    loops: Any = compiled(hashed_in_loops)
    indptr = np.zeros(len(ends), np.int64)
    loops(letters, ends, starts, han, *lengths, buckets, indptr, np.zeros(0, np.int32))
    rows = np.empty(indptr[-1], np.int32)
    loops(letters, ends, starts, han, *lengths, buckets, indptr, rows)
    return indptr, rows


def hashed_in_loops(letters, ends, starts, han, shortest, longest, buckets, indptr, rows):
    """Counts n-grams into indptr; where there is room for rows, fills them instead."""
    many = 0
    for word in range(len(ends) - 1):
        first, last = ends[word], ends[word + 1]
        for begin in range(first, last):
            value = np.uint32(2166136261)
            chinese = True
            for end in range(begin, min(begin + max(longest, 2), last)):
                for at in range(starts[end], starts[end + 1]):
                    value = np.uint32((value ^ np.uint32(np.int8(letters[at]))) * np.uint64(16777619))
                length = end + 1 - begin
                chinese = chinese and han[end]
                alone = length == 1 and (begin == first or begin == last - 1)
                if (shortest <= length <= longest and not alone) or (length <= 2 and chinese):
                    if len(rows):
                        rows[many] = value % np.uint32(buckets)
                    many += 1
        if not len(rows):
            indptr[word + 1] = many
