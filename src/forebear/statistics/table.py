"""A finished n-gram model as a table on the disk: opened in no time, however large, and asked by hash."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.errors import ForebearError
from forebear.kernels.lines import ABOVE, LONGEST, MIDDLE, SPARE
from forebear.statistics.backoff import ROUNDING
from forebear.statistics.ngrams import Ngrams
from forebear.statistics.room import UNBOUNDED, Room, head, mapped
from forebear.statistics.smoothing import SELDOM, Levels
from forebear.text.aside import written_aside
from forebear.text.mapping import let_go

FORMAT = "forebear-ngrams/3"
FULL = 0.6  # of the room for n-grams in a table; the fuller it is, the oftener a second line is looked at
HASHED = 1 << 15  # n-grams whose hashes are there at once, where nobody wants them again
# Lines that are filled at once, at least, and parts at most: the longest n-grams come last, when there is more memory.
NEAR, PARTS, PARTS_OF_LONGEST = 1 << 17, 5, 3
UNSIGNED, UNSUMMED = "0" * 64, "-" * 24  # the digest of no weights; and what stands for the sum until it is known
TRIES = 8  # salts that are tried: two n-grams of a billion are alike in 64 bits once in fifty tables
AGAIN = "remove it: it is made again from the run's weights"


@dataclass(frozen=True, eq=False)
class Table:
    """Logarithms of probabilities and back-off weights, by hash; the readable twin is `Backoff`.

    single   (V, 2) float32, of single tokens by their ids
    lines    (many, 8) uint64, of longer n-grams; `kernels.ngram_table` says what stands in them
    begins   (order + 2,) where the lines of n-grams of n tokens begin
    far      (order + 1,) how many lines from its own an n-gram of n tokens stands at most
    even     (V,) or none, as in `Backoff`
    sizes    how many n-grams there are of each length
    about    what else is to be known of the model, as JSON values
    """

    single: np.ndarray
    lines: np.ndarray
    begins: np.ndarray
    far: np.ndarray
    even: np.ndarray
    sizes: list[int]
    about: dict[str, Any]
    salt: int = 0
    file: Path | None = None

    @property
    def order(self) -> int:
        return len(self.sizes)

    @property
    def _flat(self) -> np.ndarray:
        return self.lines.reshape(-1)

    def score(self, tokens: np.ndarray, lengths: np.ndarray, end: int, matched: np.ndarray | None = None) -> np.ndarray:
        """As `Backoff.score`."""
        from forebear.kernels import ngram_table
        from forebear.kernels.compiling import compiled
        from forebear.kernels.ngram_scoring import rooms, scored_in_loops

        told, found = np.empty(len(tokens)), np.zeros(len(tokens) if matched is not None else 0, np.uint8)
        tokens, lengths = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(lengths, np.int64)
        given = self.single, self._flat, self.begins, self.far, self.even, told, found
        loop = compiled(scored_in_loops, bare=True, beside=(ngram_table,))
        loop(tokens, lengths, end, self.order, np.uint64(self.salt), *given, *rooms(self.order))
        if matched is not None:
            matched[:] = found
        if not (told <= ROUNDING).all():
            raise self._damaged("holds what is no logarithm of a probability")
        return told

    def follow(self, ngrams: Ngrams, context: np.ndarray, told: np.ndarray) -> None:
        """As `Backoff.follow`; which n-grams there are says who was seen after the context."""
        from forebear.kernels import ngram_table as kernels
        from forebear.kernels.compiling import compiled

        told[:] = self.single[:, 0]
        for n in range(1, len(context) + 1):
            tokens = np.ascontiguousarray(context[len(context) - n :], np.int32)
            number = ngrams.number(tokens)
            if number < 0:
                break
            hashed = np.uint64(compiled(kernels.context_in_loops)(tokens, np.uint64(self.salt)))
            if len(self.even):
                told[:] = self.even
            if n == 1:
                told += self.single[tokens[0], 1]
            else:
                told += compiled(kernels.weight_in_loops)(hashed, n, self.order, self._flat, self.begins, self.far)
            words = np.ascontiguousarray(ngrams.words[n - 1][ngrams.following(n, number)], np.int32)
            seen = np.empty(len(words))
            given = n + 1, self.order, self._flat, self.begins, self.far
            compiled(kernels.asked_in_loops)(hashed, words, *given, seen)
            told[words] = seen
        if not (told <= ROUNDING).all():
            raise self._damaged("does not hold what was counted")

    def entry(self, tokens: np.ndarray) -> tuple[float, float] | None:
        """As `Backoff.entry`."""
        from forebear.kernels import ngram_table as kernels
        from forebear.kernels.compiling import compiled

        n, tokens = len(tokens), np.ascontiguousarray(tokens, np.int32)
        if n == 1:
            log, weight = self.single[tokens[0]].tolist()
            return log, weight if self.order > 1 else 0.0
        before, told = np.uint64(compiled(kernels.context_in_loops)(tokens[:-1], np.uint64(self.salt))), np.empty(1)
        given = n, self.order, self._flat, self.begins, self.far
        compiled(kernels.asked_in_loops)(before, tokens[-1:], *given, told)
        if np.isnan(told[0]):
            return None
        if n == self.order:
            return float(told[0]), 0.0
        hashed = np.uint64(compiled(kernels.context_in_loops)(tokens, np.uint64(self.salt)))
        weight = compiled(kernels.weight_in_loops)(hashed, *given)
        return float(told[0]), float(weight)

    def _damaged(self, what: str) -> ForebearError:
        return ForebearError(what, file=self.file, remedy=AGAIN if self.file else "train again")

    # -- making

    @classmethod
    def made(
        cls,
        ngrams: Ngrams,
        levels: Callable[[], Levels],
        even: np.ndarray | None = None,
        about: Callable[[], dict[str, Any]] = dict,
        file: Path | None = None,
        room: Room = UNBOUNDED,
    ) -> Table:
        """From probabilities level by level, in memory or in a file; what is known `about` them is asked in between."""
        for salt in range(TRIES):
            try:
                making = _Making(ngrams, even, salt, room)
                if file is None:
                    return making.in_memory(levels(), about)
                with written_aside(file) as opened:
                    making.into(opened, levels(), about)
                return cls.open(file)
            except _Alike:
                continue
        raise ForebearError("the n-grams cannot be told apart by their hashes")

    @classmethod
    def open(cls, file: Path, weights: str | None = None) -> Table:
        """Maps the file, unread. With `weights`, it must have been made from weights of this digest."""
        try:
            told, arrays = mapped(file)
            facts = json.loads(told["ngrams"])
            made = cls(**{name: arrays[name] for name in _NAMES}, **facts, file=file)
            right = told["format"] == FORMAT and (weights is None or told["weights"] == weights) and made._is_whole()
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ForebearError("is no table of n-grams, or a damaged one", file=file, remedy=AGAIN) from error
        if not right:
            raise ForebearError("is a table of other n-grams, or a damaged one", file=file, remedy=AGAIN)
        return made

    def verify(self) -> None:
        """Reads all of it: an error if it is not what was written."""
        assert self.file is not None
        sums = _Sums()
        sums.add(self.lines)
        told, _ = mapped(self.file)
        if told["sum"] != sums.told(self.single, self.begins, self.far, self.even):
            raise self._damaged("was damaged on the disk")

    def _is_whole(self) -> bool:
        order, begins, far = self.order, np.asarray(self.begins), np.asarray(self.far)
        return (
            order >= 1
            and self.single.shape == (self.sizes[0], 2)
            and self.lines.ndim == 2
            and self.lines.shape[1] == ABOVE
            and begins.shape == (order + 2,)
            and far.shape == (order + 1,)
            and int(begins[0]) == 0
            and bool((np.diff(begins)[2:] > SPARE).all())
            and bool((np.diff(begins)[:2] == 0).all())
            and int(begins[-1]) == len(self.lines)
            and bool((far >= 0).all() and (far < SPARE).all())
            and len(self.even) in (0, self.sizes[0])
        )


_NAMES = ("lines", "single", "begins", "far", "even")


def sign(file: Path, weights: str) -> None:
    """Enters of which weights a table was made, in the place that was left for it."""
    with open(file, "r+b") as opened:
        size = int.from_bytes(opened.read(8), "little")
        at = opened.read(size).index(UNSIGNED.encode())
        opened.seek(8 + at)
        opened.write(weights.encode())
        opened.flush()
        os.fsync(opened.fileno())


class _Sums:
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


class _Alike(Exception):
    """Two n-grams have the same hash."""


class _Making:
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

    def in_memory(self, levels: Levels, about: Callable[[], dict[str, Any]]) -> Table:
        lines, at = self.room.zeros((int(self.begins[-1]), ABOVE), np.uint64), 0
        for part in self._parts(levels):
            lines[at : at + len(part)] = part
            at += len(part)
        return Table(self.single, lines, self.begins, self.far, self.even, self.sizes, about(), self.salt)

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
        begin, sums = head(shapes, {"format": FORMAT, "weights": UNSIGNED, "sum": UNSUMMED, "ngrams": told}), _Sums()
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
                    raise _Alike
                self.far[n] = max(int(self.far[n]), far)
                let_go(some, logs, backoffs)
            if compiled(alike_in_loops)(*mine):
                raise _Alike
            yield lines[:own]
            for array in (lines, used):
                array[:SPARE], array[SPARE:] = array[own : own + SPARE].copy(), 0
        yield lines[:SPARE]
        self.room.free(logs, backoffs, lines)
