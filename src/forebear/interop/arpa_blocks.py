"""The same as the lines of an ARPA file one by one, many at a time: what a large file is read with.

Compiled loops read what has the usual form; a line that has not is understood, or refused, as `Lines` does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from forebear.interop.arpa_lines import BEGIN, BEGINS, END, ENDS, OTHER_UNKNOWN, UNKNOWN, Lines

if TYPE_CHECKING:
    from forebear.kernels.arpa_reading import Words

MARKS = {BEGIN: BEGINS, END: ENDS, UNKNOWN: 0, OTHER_UNKNOWN: 0}
LEAST = 1 << 12  # rows there is room for at first, where the file is packed and nobody knows its length


class Blocks(Lines):
    """Lines whose n-grams are read in blocks."""

    table: Words

    def entries(self, n: int, size: int, longest: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # A line takes at least two bytes a field: what the file says of itself must not decide how much memory is used.
        room = min(size, max(LEAST, self.path.stat().st_size // (2 * n + 2)))
        rows, logs = np.empty((room, n), np.int32), np.empty(room)
        backoffs, names, read = None if longest else np.empty(room), [], 0
        while read < size:
            if not self.more():
                raise self.too_short(n, size)
            if read == len(logs):
                _resized(min(size, 2 * read), rows, logs, backoffs)
            weights = None if backoffs is None else backoffs[read:]
            if n == 1:
                names += self._single(logs[read:], weights)
                read = len(names)
            else:
                read += self._longer(rows[read:], logs[read:], weights)
        _resized(size, rows, logs, backoffs)
        if n == 1:
            rows[:, 0] = self._entered(names)
        return rows, logs, np.zeros(0) if backoffs is None else backoffs

    def _single(self, logs: np.ndarray, backoffs: np.ndarray | None) -> list[str]:
        """The words of the next lines; fills the arrays with their numbers."""
        from forebear.kernels.arpa_reading import single

        text = np.frombuffer(self.block, np.uint8)
        count, at, pool, odd = single(text, self.at, logs, backoffs)
        sound = count
        try:
            names = pool.decode().split("\n")[:count]
        except UnicodeDecodeError as error:
            sound, names = pool.count(b"\n", 0, error.start), []
        for row, line in self._odd(odd, sound):
            logs[row], (name,), weight = self.entry(line, 1, backoffs is None)
            if backoffs is not None:
                backoffs[row] = weight
            if names:
                names[row] = name
        if sound < count:
            self.number += sound + 1
            self.decoded(pool.split(b"\n")[sound])  # which complains
        self.number, self.at = self.number + count, at
        return names

    def _longer(self, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None) -> int:
        """Fills the arrays with the n-grams of the next lines; how many they are."""
        from forebear.kernels.arpa_reading import longer

        text = np.frombuffer(self.block, np.uint8)
        count, at, odd = longer(text, self.at, self.table, rows, logs, backoffs)
        if len(odd) and len(self.numbers) == len(MARKS):  # the table of the loops is no dictionary of Python's
            self.numbers.update((word, number) for number, word in enumerate(self.words) if number > ENDS)
        for row, line in self._odd(odd, count):
            logs[row], found, weight = self.entry(line, rows.shape[1], backoffs is None)
            rows[row] = self.numbers_of(found)
            if backoffs is not None:
                backoffs[row] = weight
        self.number, self.at = self.number + count, at
        return count

    def _odd(self, odd: np.ndarray, before: int) -> Iterator[tuple[int, str]]:
        """Lines of no usual form, and which of the block's they are; while they are looked at, theirs is the number."""
        base = self.number
        for row, begin in odd.tolist():
            if row < before:
                self.number = base + row + 1
                yield row, self.decoded(self.block[begin : self.block.index(b"\n", begin)])
        self.number = base

    def _entered(self, names: list[str]) -> np.ndarray:
        """The numbers of all single words, which can be found from now on."""
        from forebear.kernels.arpa_reading import words_of

        ids = np.zeros(len(names), np.int32)
        marks = [row for row, name in enumerate(names) if name in MARKS]
        plain = np.delete(np.arange(len(names)), marks)
        ids[plain] = np.arange(len(self.words), len(self.words) + len(plain))
        ids[marks] = [MARKS[names[row]] for row in marks]
        self.words += [name for name in names if name not in MARKS]
        self.table, again = words_of("".join(name + "\n" for name in names).encode(), ids)
        if again >= 0:
            ids[again] = ids[names.index(names[again])]
        return ids


def _resized(size: int, *arrays: np.ndarray | None) -> None:
    """Arrays that nothing else looks into can grow and shrink where they are."""
    for mine in arrays:
        if mine is not None and len(mine) != size:
            mine.resize((size, *mine.shape[1:]), refcheck=False)
