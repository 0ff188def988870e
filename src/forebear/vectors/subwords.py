"""Words as bags of their character n-grams, hashed into a table of rows, so that unknown words get vectors too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import is_han

MANY = 2000  # words; for fewer, numba takes longer to load than the loops do


@dataclass(frozen=True)
class Subwords:
    """n-grams of "<word>" as fastText makes and hashes them, so that tables can be exchanged.

    shortest, longest  characters of an n-gram, the two marks included
    buckets            rows that n-grams share
    han                single Chinese characters and pairs of them count too: each means something by itself
    """

    shortest: int = 3
    longest: int = 6
    buckets: int = 200_000
    han: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise BadInput(f"n-grams of {self.shortest} to {self.longest} characters", remedy="such as 3 to 6")
        if self.buckets < 1:
            raise BadInput(f"n-grams hashed into {self.buckets} rows", remedy="choose 1 or more, such as 200000")

    def ngrams(self, word: str) -> list[str]:
        """The n-grams of a word, in the order of their places; equal ones as often as they stand there."""
        marked = f"<{word}>"
        size = len(marked)
        han = is_han(np.array([ord(letter) for letter in marked])) & self.han
        found = []
        for start in range(size):
            for length in range(1, min(max(self.longest, 2), size - start) + 1):
                alone = length == 1 and (start == 0 or start == size - 1)  # "<" and ">" by themselves tell nothing
                chinese = length <= 2 and han[start : start + length].all()
                if (self.shortest <= length <= self.longest and not alone) or chinese:
                    found.append(marked[start : start + length])
        return found

    def rows(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The buckets of each word's n-grams: of word w rows[indptr[w]:indptr[w + 1]]."""
        if len(words) < MANY:
            return self.plain_rows(words)
        from forebear.kernels.letters import hashed_ngrams

        marked = [f"<{word}>" for word in words]
        text = "".join(marked)
        letters = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        starts = np.append(np.flatnonzero((letters & 0xC0) != 0x80), len(letters))
        ends = np.cumsum([0, *map(len, marked)])
        han = is_han(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)) & self.han
        return hashed_ngrams(letters, ends, starts, han, (self.shortest, self.longest), self.buckets)

    def plain_rows(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The same, n-gram by n-gram."""
        found = [[hashed(ngram) % self.buckets for ngram in self.ngrams(word)] for word in words]
        indptr = np.concatenate(([0], np.cumsum([len(row) for row in found], dtype=np.int64)))
        return indptr, np.array([one for row in found for one in row], np.int32)


def hashed(ngram: str) -> int:
    """FNV-1a of 32 bits; bytes above 127 count as negative numbers, as they do in fastText."""
    value = 2166136261
    for byte in ngram.encode("utf-8", "surrogatepass"):
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * 16777619 & 0xFFFFFFFF
    return value
