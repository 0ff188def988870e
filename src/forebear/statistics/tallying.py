"""Counts of n-grams in bounded memory: text is gathered, counted when there is much of it, and counts are joined."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forebear.statistics.counting import Counts, counted, merged
from forebear.statistics.room import UNBOUNDED, Room, give_back_kept, memory_there

LEAST, SHARE = 1 << 31, 4  # bytes that counting may take unless somebody says otherwise, or that part of all memory
A_TOKEN, AN_NGRAM = 24, 16  # bytes that counting takes for each token of a text, and for each n-gram that ends there
FEWEST = 1 << 16  # tokens that are counted at once, however little memory there is


def usual_memory() -> int:
    """Bytes that counting may take unless somebody says otherwise."""
    return max(LEAST, memory_there() // SHARE)


class Tally:
    """What was counted so far, and text that is still to be counted. The result is the same whatever came when.

    memory   bytes that counting may take
    folder   where counts go that do not fit; None: there is no such place, and they stay in memory
    threads  that count
    """

    def __init__(self, vocabulary: int, order: int) -> None:
        self.vocabulary, self.order = vocabulary, order
        self.memory, self.threads = usual_memory(), 1
        self.folder: Path | None = None
        self._parts: list[Counts] = []
        self._text, self._filled = np.zeros(0, np.int32), 0  # what is to be counted, and how much of that is filled
        self._is_spilt = False
        self._room = UNBOUNDED

    @property
    def room(self) -> Room:
        """For what is made of the counts: one and the same for all who make something of them."""
        if self.folder is None:
            return UNBOUNDED
        if (self._room.memory, self._room.folder) != (self.memory, self.folder):
            self._room = Room(self.memory, self.folder)
        return self._room

    def begin(self, counts: Counts) -> None:
        """Goes on from these."""
        self._parts, self._filled, self._is_spilt = [counts], 0, False

    def room_for(self, many: int) -> np.ndarray:
        """Where so many more ids go: rows, with a BORDER behind each. What is there counts from now on."""
        if self._filled and self._filled + many > self.most:
            self._count()
            if self.folder is not None:
                self._parts[-1] = self._parts[-1].on_disk(self.folder)
                self._is_spilt = True
            self._join()
        begin, self._filled = self._filled, self._filled + many
        if self._filled > len(self._text):  # grows by half, without being copied where the system can move memory
            self._text.resize(max(self._filled, min(len(self._text) * 3 // 2, self.most)), refcheck=False)
        return self._text[begin : self._filled]

    def take_back(self, many: int) -> None:
        """Those that were given last do not count after all."""
        self._filled -= many

    @property
    def most(self) -> int:
        """Tokens that are counted at once; their places are small numbers."""
        a_token = A_TOKEN + AN_NGRAM * (self.order - 1)
        return max(FEWEST, min(self.memory // a_token, 1 << 30))

    def _count(self) -> None:
        if self._filled:
            text, self._text = self._text, np.zeros(0, np.int32)
            text.resize(self._filled, refcheck=False)
            self._filled = 0
            give_back_kept()
            self._parts.append(counted(text, vocabulary=self.vocabulary, order=self.order, threads=self.threads))

    def _join(self) -> None:
        """Like with like: each n-gram is merged about as often as the number of parts can be halved."""
        while len(self._parts) > 1 and self._parts[-2].size <= 2 * self._parts[-1].size:
            self._parts[-2:] = [merged(self._parts[-2:], self.folder if self._is_spilt else None)]

    @property
    def counts(self) -> Counts:
        """All that was counted so far."""
        self._count()
        if len(self._parts) != 1:
            where = self.folder if self._is_spilt else None
            self._parts = [merged(self._parts, where) if self._parts else Counts.none(self.vocabulary, self.order)]
        return self._parts[0]
