"""Counts of n-grams in bounded memory: text is gathered, counted when there is much of it, and counts are joined."""

from __future__ import annotations

import numpy as np

from forebear.statistics.counting import Counts, counted, merged

MEMORY = 1 << 31  # bytes, unless somebody says otherwise
A_TOKEN = 20  # bytes that counting takes for each token of a text, and for each of its n-grams of one length


class Tally:
    """What was counted so far, and text that is still to be counted. The result is the same whatever came when."""

    def __init__(self, vocabulary: int, order: int) -> None:
        self.vocabulary, self.order = vocabulary, order
        self.memory, self.threads = MEMORY, 1
        self._parts: list[Counts] = []
        self._texts: list[np.ndarray] = []

    def begin(self, counts: Counts) -> None:
        """Goes on from these."""
        self._parts, self._texts = [counts], []

    def add(self, text: np.ndarray) -> None:
        """Rows of int32 ids, with a BORDER behind each."""
        self._texts.append(text)
        if sum(map(len, self._texts)) > self.most:
            self._count()

    @property
    def most(self) -> int:
        """Tokens that are counted at once."""
        a_token = A_TOKEN + 12 * max(1, self.order - 1)
        return max(1 << 16, min(self.memory // (2 * a_token), 1 << 30))

    def _count(self) -> None:
        if not self._texts:
            return
        text = self._texts[0] if len(self._texts) == 1 else np.concatenate(self._texts)
        self._texts = []
        self._parts.append(counted(text, vocabulary=self.vocabulary, order=self.order, threads=self.threads))
        # Like with like: each n-gram is merged about as often as the number of batches can be halved.
        while len(self._parts) > 1 and self._parts[-2].size <= 2 * self._parts[-1].size:
            self._parts[-2:] = [merged(self._parts[-2:])]

    @property
    def counts(self) -> Counts:
        """All that was counted so far."""
        self._count()
        if len(self._parts) != 1:
            self._parts = [merged(self._parts) if self._parts else Counts.none(self.vocabulary, self.order)]
        return self._parts[0]
