"""How a table of n-grams is made: level by level, part by part, into memory or into a file that can be told whole."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.kernels.lines import ABOVE, LONGEST, MIDDLE, SPARE
from forebear.statistics.ngrams import Ngrams
from forebear.statistics.room import Room, head
from forebear.statistics.smoothing import SELDOM, Levels
from forebear.text.mapping import let_go

FORMAT = "forebear-ngrams/3"
FULL = 0.6  # of the room for n-grams in a table; the fuller it is, the oftener a second line is looked at
HASHED = 1 << 15  # n-grams whose hashes are there at once, where nobody wants them again
# Lines that are filled at once, at least, and parts at most: the longest n-grams come last, when there is more memory.
NEAR, PARTS, PARTS_OF_LONGEST = 1 << 17, 5, 3
UNSIGNED, UNSUMMED = "0" * 64, "-" * 24  # the digest of no weights; and what stands for the sum until it is known


def sign(file: Path, weights: str) -> None:
    """Enters of which weights a table was made, in the place that was left for it."""
    with open(file, "r+b") as opened:
        size = int.from_bytes(opened.read(8), "little")
        at = opened.read(size).index(UNSIGNED.encode())
        opened.seek(8 + at)
        opened.write(weights.encode())
        opened.flush()
        os.fsync(opened.fileno())


class Sums:
    """What tells whether a table is still what was written: of its lines, part by part, and of all else."""

    def __init__(self) -> None:
        self._sums = np.zeros(ABOVE, np.uint64)

    def add(self, lines: np.ndarray) -> None:
        from forebear.kernels.compiling import compiled
        from forebear.kernels.ngram_table import summed_in_loops

        compiled(summed_in_loops)(lines, self._sums)

    def told(self, *others: np.ndarray) -> str:
        """As a text as long as UNSUMMED."""
        rest = 0
        for array in others:
            rest = zlib.crc32(np.ascontiguousarray(array).data, rest)
        return f"{int(np.bitwise_xor.reduce(self._sums)):016x}{rest:08x}"


class Alike(Exception):
    """Two n-grams have the same hash."""


class Making:
    """Level by level: what a level leaves to shorter contexts is known with the next, and only then it is entered."""

    def __init__(self, ngrams: Ngrams, even: np.ndarray | None, salt: int, room: Room) -> None:
        self.ngrams, self.salt, self.room = ngrams, salt, room
        self.even = np.zeros(0, np.float32) if even is None else even.astype(np.float32)
        self.sizes = [ngrams.size(n) for n in range(1, ngrams.order + 1)]
        self.begins, self.far = np.zeros(ngrams.order + 2, np.int64), np.zeros(ngrams.order + 1, np.int64)
        self.begins[3:] = np.cumsum([self._many(n) for n in range(2, ngrams.order + 1)])
        self.single = np.zeros((ngrams.vocabulary, 2), np.float32)

    def _many(self, n: int) -> int:
        """Lines for the n-grams of n tokens."""
        return int(self.sizes[n - 1] / (FULL * (MIDDLE if n < self.ngrams.order else LONGEST))) + 1 + SPARE

    def in_memory(self, levels: Levels) -> np.ndarray:
        """All its lines."""
        lines, at = self.room.zeros((int(self.begins[-1]), ABOVE), np.uint64), 0
        for part in self._parts(levels):
            lines[at : at + len(part)] = part
            at += len(part)
        return lines

    def into(self, file: IO[bytes], levels: Levels, about: Callable[[], dict[str, Any]]) -> None:
        """As a safetensors file: of known sizes, so that each part is written as soon as it is made."""
        first = next(levels)  # only now all is known about them
        shapes = {
            "lines": ("U64", (int(self.begins[-1]), ABOVE)),
            "single": ("F32", self.single.shape),
            "begins": ("I64", self.begins.shape),
            "far": ("I64", self.far.shape),
            "even": ("F32", self.even.shape),
        }
        told = json.dumps({"sizes": self.sizes, "about": about(), "salt": self.salt})
        begin, sums = head(shapes, {"format": FORMAT, "weights": UNSIGNED, "sum": UNSUMMED, "ngrams": told}), Sums()
        file.write(begin)
        for part in self._parts(chain([first], levels)):
            file.write(part.data)
            sums.add(part)
        others = self.single, self.begins, self.far, self.even
        for array in others:
            file.write(np.ascontiguousarray(array).data)
        file.seek(begin.index(UNSUMMED.encode()))
        file.write(sums.told(*others).encode())

    def _parts(self, levels: Levels) -> Iterator[np.ndarray]:
        """The lines of the n-grams of two tokens, of three, …, one after the other; each is good until the next."""
        from forebear.kernels import ngram_table as kernels
        from forebear.kernels.compiling import compiled

        nothing, order = np.zeros(0, np.float32), self.ngrams.order
        logs, hashes = nothing, np.zeros(0, np.uint64)  # of n-grams one and two tokens shorter than those of the level
        for n, level in enumerate(levels, start=1):
            if n == 2:
                self.single[:, 1] = level.backoffs
            elif n > 2:
                hashes = self._hashed(n - 1, hashes)
                yield from self._filled(n - 1, lambda known=hashes: [(0, known)], logs, level.backoffs)
            logs = level.logs
            del level  # its back-offs, while the next is made
            if n == 1:
                self.single[:, 0] = logs
                ids = np.arange(self.ngrams.vocabulary, dtype=np.int32)
                hashes = compiled(kernels.of_tokens_in_loops)(ids, np.uint64(self.salt))
        if order > 1:  # nothing continues these, so their hashes are never there together
            yield from self._filled(order, lambda: self._hashed_in_parts(order, hashes), logs, nothing)

    def _hashed(self, n: int, before: np.ndarray) -> np.ndarray:
        """The 64 bits of the n-grams of n tokens, from those one shorter, which are needed no more."""
        made = self.room.empty(self.ngrams.size(n), np.uint64)
        for at, part in self._hashed_in_parts(n, before):
            made[at : at + len(part)] = part
            let_go(made)
        self.room.free(before)
        return made

    def _hashed_in_parts(self, n: int, before: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The same part by part, each good until the next, with the number of its first n-gram."""
        from forebear.kernels.compiling import compiled
        from forebear.kernels.ngram_table import of_level_in_loops

        given = before, self.ngrams.continuations[n - 2], self.ngrams.words[n - 2]
        made, context, at = np.empty(max(HASHED, int(given[1].max(initial=0))), np.uint64), 0, 0
        while context < len(before):
            context, end = compiled(of_level_in_loops)(*given, made, context, at)
            yield at, made[: end - at]
            if end // SELDOM > at // SELDOM:
                let_go(*given)
            at = end

    def _filled(
        self,
        n: int,
        hashes: Callable[[], Iterable[tuple[int, np.ndarray]]],
        logs: np.ndarray,
        backoffs: np.ndarray,
    ) -> Iterator[np.ndarray]:
        """In parts that fit near the processor; the spare lines of one are the first of the next."""
        from forebear.kernels.compiling import compiled
        from forebear.kernels.ngram_table import alike_in_loops, filled_in_loops

        size = self._many(n)
        homes = size - SPARE
        parts = PARTS if n < self.ngrams.order else PARTS_OF_LONGEST
        each = max(NEAR, SPARE, -(-homes // parts))
        lines = self.room.zeros((min(each, homes) + SPARE, ABOVE), np.uint64)
        used = np.zeros(len(lines), np.uint8)
        for begin in range(0, homes, each):
            own = min(each, homes - begin)
            mine = lines[: own + SPARE], used[: own + SPARE]
            for at, some in hashes():
                bits = (values[at : at + len(some)].view(np.uint32) for values in (logs, backoffs))
                far = compiled(filled_in_loops)(*mine, begin, size, some, *bits, n == self.ngrams.order)
                if far < 0:
                    raise Alike
                self.far[n] = max(int(self.far[n]), far)
                let_go(some, logs, backoffs)
            if compiled(alike_in_loops)(*mine):
                raise Alike
            yield lines[:own]
            for array in (lines, used):
                array[:SPARE], array[SPARE:] = array[own : own + SPARE].copy(), 0
        yield lines[:SPARE]
        self.room.free(logs, backoffs, lines)
