"""A finished n-gram model: what follows a context that was seen, and what is left for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.errors import InputError
from forebear.statistical.ngram.counts import NgramIndex, corrupt_error
from forebear.statistical.ngram.smoothing import LogProbLevel, LogProbLevels

NOBODY = -1  # no token's id
PROBABILITY_TOLERANCE = 1e-6  # by which rounding may make a share exceed 1


@dataclass(frozen=True, eq=False)
class BackoffTable:
    """Natural logarithms, float32, for each length. The fast twin, for many n-grams, is `Table`.

    logs      log P(last token given the others) of each n-gram; of a single token, log P(token)
    backoffs  what the shorter context's log-probability is lowered by, where an n-gram continues this one that was
              never seen; 0 for one that nothing continues. None are needed of the longest.
    even      (V,) where it is given, a context that lacks a token falls back to these log-probabilities instead of
              the shorter context's: what adding to each count comes to
    """

    ngrams: NgramIndex
    log_probs: tuple[np.ndarray, ...]
    backoffs: tuple[np.ndarray, ...]
    uniform_log_prob: np.ndarray | None = None

    @classmethod
    def estimated(cls, ngrams: NgramIndex, levels: LogProbLevels, even: np.ndarray | None = None) -> BackoffTable:
        logs, backoffs = zip(*levels, strict=True)
        return cls(ngrams, logs, backoffs[1:], even)

    def levels(self) -> LogProbLevels:
        """The same, level by level."""
        return map(LogProbLevel, self.log_probs, [np.zeros(1, np.float32), *self.backoffs])

    @property
    def sizes(self) -> list[int]:
        """How many n-grams there are of each length."""
        return [self.ngrams.count(n) for n in range(1, self.ngrams.order + 1)]

    def score(self, tokens: np.ndarray, lengths: np.ndarray, end: int, matched: np.ndarray | None = None) -> np.ndarray:
        """log P of each token of rows that stand one after the other, after those before it in its row.

        Of the first token of a row, only its log P alone. What stands before an end is not looked at behind it. Into
        `matched` (tokens,) goes the length of the longest n-gram that is there and ends at each token.
        """
        order, places = self.ngrams.order, _reach(tokens, lengths, end)
        numbers = self.ngrams.match_text(tokens, places, order)
        told = self.log_probs[0][tokens].astype(np.float64)
        if matched is not None:
            matched[:] = 1
        for n in range(2, order + 1):
            inside = np.flatnonzero(places >= n - 1)
            context, whole = numbers[n - 2][inside - 1], numbers[n - 1][inside]
            lower = (
                told[inside]
                if self.uniform_log_prob is None
                else self.uniform_log_prob[tokens[inside]].astype(np.float64)
            )
            known = context >= 0
            lower[known] += self.backoffs[n - 2][context[known]]
            if self.uniform_log_prob is not None:
                lower = np.where(known, lower, told[inside])
            seen = whole >= 0
            lower[seen] = self.log_probs[n - 1][whole[seen]]
            told[inside] = lower
            if matched is not None:
                matched[inside[seen]] = n
        return told

    def lookup(self, tokens: np.ndarray) -> tuple[float, float] | None:
        """log P of one n-gram's last token and its back-off (0 of the longest); None: it is not there."""
        n, number = len(tokens), self.ngrams.index_of(tokens)
        if number < 0:
            return None
        return float(self.log_probs[n - 1][number]), float(
            self.backoffs[n - 1][number]
        ) if n < self.ngrams.order else 0.0

    def next_log_probs(self, context: np.ndarray, told: np.ndarray) -> None:
        """Writes log P of every token after this context, of fewer tokens than the order, into `told` (V,).

        From no context to the whole of it: all are lowered, those that were seen are written over.
        """
        told[:] = self.log_probs[0]
        for n in range(1, len(context) + 1):
            number = self.ngrams.index_of(context[len(context) - n :])
            if number < 0:
                break
            if self.uniform_log_prob is not None:
                told[:] = self.uniform_log_prob
            told += self.backoffs[n - 1][number]
            seen = self.ngrams.continuation_range(n, number)
            told[self.ngrams.words[n - 1][seen]] = self.log_probs[n][seen]

    @classmethod
    def from_model(
        cls,
        ngrams: Sequence[np.ndarray],
        logs: Sequence[np.ndarray],
        backoffs: Sequence[np.ndarray],
        vocabulary: int,
    ) -> BackoffTable:
        """From n-grams written out, (size, n) for n = 1, 2, …; a token that is not among them gets probability 0.

        Who pruned them may have left `a b c` without `b c`: then `b c` is put in with the probability that it has
        anyway, because n-grams are looked for from the shortest to the longest. KenLM does the same.
        """
        made = cls._as_listed(ngrams, logs, backoffs, vocabulary)
        lacking = made.ngrams.missing_suffixes()
        if not any(map(len, lacking)):
            return made
        more = [made._anyway(rows) for rows in lacking]
        nothing = [np.zeros(len(rows), np.float32) for rows in lacking]
        return cls._as_listed(
            [np.concatenate(pair) for pair in zip(ngrams, lacking, strict=True)],
            [np.concatenate(pair) for pair in zip(logs, more, strict=True)],
            [np.concatenate(pair) for pair in zip(backoffs, nothing, strict=False)],
            vocabulary,
        )

    def _anyway(self, rows: np.ndarray) -> np.ndarray:
        """log P of the last tokens of n-grams that are not there."""
        size, n = rows.shape
        told = self.score(rows.reshape(-1).astype(np.int64), np.full(size, n), NOBODY).reshape(size, n)
        return told[:, -1].astype(np.float32)

    @classmethod
    def _as_listed(
        cls,
        ngrams: Sequence[np.ndarray],
        logs: Sequence[np.ndarray],
        backoffs: Sequence[np.ndarray],
        vocabulary: int,
    ) -> BackoffTable:
        found, numbers = NgramIndex.from_rows(ngrams[1:], vocabulary)
        numbers = [ngrams[0][:, 0], *numbers]

        def placed(n: int, values: np.ndarray, otherwise: float) -> np.ndarray:
            told = np.full(found.count(n), otherwise, np.float32)
            told[numbers[n - 1]] = values
            return told

        lengths = range(1, found.order + 1)
        return cls(
            found,
            tuple(placed(n, logs[n - 1], -np.inf) for n in lengths),
            tuple(placed(n, backoffs[n - 1], 0.0) for n in lengths[:-1]),
        )

    def to_arpa(self, which: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """The n-grams written out, their logs and back-offs: `which` (V,) single tokens, and all longer ones."""
        if self.uniform_log_prob is not None and self.ngrams.order > 1:
            raise InputError(
                "adding to each count gives no back-off model, and files of n-grams can hold no other",
                hint='pretrain with smoothing "kneser-ney"',
            )
        single = np.flatnonzero(which)
        ngrams = [single[:, None], *(self.ngrams.write_out(n) for n in range(2, self.ngrams.order + 1))]
        logs = [self.log_probs[0][single], *self.log_probs[1:]]
        return ngrams, logs, [mine[single] if n == 0 else mine for n, mine in enumerate(self.backoffs)]

    def arrays(self) -> dict[str, np.ndarray]:
        logs = {f"logs.{n}": array for n, array in enumerate(self.log_probs, start=1)}
        return self.ngrams.arrays() | logs | {f"backoffs.{n}": array for n, array in enumerate(self.backoffs, start=1)}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocabulary: int, order: int) -> BackoffTable:
        ngrams = NgramIndex.load(arrays, vocabulary=vocabulary, order=order)
        logs = tuple(_logarithms(arrays, f"logs.{n}", ngrams.count(n)) for n in range(1, order + 1))
        backoffs = tuple(_logarithms(arrays, f"backoffs.{n}", ngrams.count(n)) for n in range(1, order))
        return cls(ngrams, logs, backoffs)


def _logarithms(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    array = arrays[name].astype(np.float32) if arrays[name].dtype == np.float64 else arrays[name]  # as they once were
    if array.dtype != np.float32 or array.shape != (size,):
        raise corrupt_error(name, f"holds {array.dtype} {list(array.shape)} instead of {size} float32 numbers")
    if not (array < np.inf).all() or (name.startswith("logs") and (array > PROBABILITY_TOLERANCE).any()):
        raise corrupt_error(name, "holds what is no logarithm of a probability")
    return array


def _reach(tokens: np.ndarray, lengths: np.ndarray, end: int) -> np.ndarray:
    """How far back each token may look: not beyond its row, nor beyond the last end before it."""
    ends = np.cumsum(lengths)
    begins, here = np.repeat(ends - lengths, lengths), np.arange(len(tokens))
    last = np.maximum.accumulate(np.where(tokens == end, here, 0))
    before = np.concatenate(([0], last[:-1])) if len(tokens) else last  # an end itself is predicted from before it
    return here - np.maximum(begins, before)


def split_rows(told: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """What was told of all tokens, row by row, their first ones left out."""
    ends = np.cumsum(lengths).tolist()
    return [told[end - length + 1 : end] for end, length in zip(ends, lengths.tolist(), strict=True)]
