"""A finished n-gram model as a table on the disk: opened in no time, however large, and asked by hash."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import ForebearError
from forebear.kernels.lines import ABOVE, SPARE
from forebear.statistics.backoff import ROUNDING
from forebear.statistics.ngrams import Ngrams
from forebear.statistics.room import UNBOUNDED, Room, mapped
from forebear.statistics.smoothing import Levels
from forebear.statistics.tabling import FORMAT, Alike, Making, Sums
from forebear.text.aside import written_aside

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
                making = Making(ngrams, even, salt, room)
                if file is None:
                    lines = making.in_memory(levels())
                    given = making.single, lines, making.begins, making.far, making.even, making.sizes
                    return cls(*given, about(), salt)
                with written_aside(file) as opened:
                    making.into(opened, levels(), about)
                return cls.open(file)
            except Alike:
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
        sums = Sums()
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
