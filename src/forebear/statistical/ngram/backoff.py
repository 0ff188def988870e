"""Back-off model: log-probabilities and back-off weights of n-grams in sorted arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.errors import InputError
from forebear.statistical.ngram.index import NgramIndex, corrupt_error
from forebear.statistical.ngram.smoothing import LogProbLevel, LogProbLevels

NO_TOKEN = -1  # not a token id
PROBABILITY_TOLERANCE = 1e-6  # maximum log-probability above 0 due to rounding


@dataclass(frozen=True, eq=False)
class BackoffTable:
    """Natural logarithms, float32, for each length. `NgramStore` is faster for many n-grams.

    log_probs          log P(last token given the others) of each n-gram
    backoffs           log back-off weight of each n-gram below the highest order
    uniform_log_probs  (V,) used for tokens unseen after a context, instead of backing off (add-k); None: not used
    """

    ngrams: NgramIndex
    log_probs: tuple[np.ndarray, ...]
    backoffs: tuple[np.ndarray, ...]
    uniform_log_probs: np.ndarray | None = None

    @classmethod
    def from_levels(
        cls, ngrams: NgramIndex, levels: LogProbLevels, uniform_log_probs: np.ndarray | None = None
    ) -> BackoffTable:
        """From smoothed levels."""
        log_probs, backoffs = zip(*levels, strict=True)
        return cls(ngrams, log_probs, backoffs[1:], uniform_log_probs)

    def levels(self) -> LogProbLevels:
        """The model, level by level."""
        return map(LogProbLevel, self.log_probs, [np.zeros(1, np.float32), *self.backoffs])

    @property
    def sizes(self) -> list[int]:
        """Number of n-grams of each length."""
        return [self.ngrams.num_ngrams(n) for n in range(1, self.ngrams.order + 1)]

    def score(
        self, tokens: np.ndarray, lengths: np.ndarray, eos_id: int, match_lengths: np.ndarray | None = None
    ) -> np.ndarray:
        """log P of each token of concatenated rows, given those before it in its row.

        The first token of a row has no context, and no context reaches across an `eos_id`. `match_lengths` (tokens,)
        receives the length of the longest n-gram that is present and ends at each token.
        """
        order, max_context = self.ngrams.order, _context_lengths(tokens, lengths, eos_id)
        ngram_ids = self.ngrams.match_text(tokens, max_context, order)
        log_probs = self.log_probs[0][tokens].astype(np.float64)
        if match_lengths is not None:
            match_lengths[:] = 1
        for n in range(2, order + 1):
            eligible = np.flatnonzero(max_context >= n - 1)
            context_ids, present_ids = ngram_ids[n - 2][eligible - 1], ngram_ids[n - 1][eligible]
            lower, is_known = log_probs[eligible], context_ids >= 0
            if self.uniform_log_probs is not None:
                lower[is_known] = self.uniform_log_probs[tokens[eligible[is_known]]]
            lower[is_known] += self.backoffs[n - 2][context_ids[is_known]]
            is_listed = present_ids >= 0
            lower[is_listed] = self.log_probs[n - 1][present_ids[is_listed]]
            log_probs[eligible] = lower
            if match_lengths is not None:
                match_lengths[eligible[is_listed]] = n
        return log_probs

    def lookup(self, tokens: np.ndarray) -> tuple[float, float] | None:
        """log P of an n-gram's last token and its back-off weight (0 for the highest order); None if it is absent."""
        n, ngram_id = len(tokens), self.ngrams.index_of(tokens)
        if ngram_id < 0:
            return None
        backoff = self.backoffs[n - 1][ngram_id] if n < self.ngrams.order else 0.0
        return float(self.log_probs[n - 1][ngram_id]), float(backoff)

    def next_log_probs(self, context: np.ndarray, log_probs: np.ndarray) -> None:
        """Write log P of every token after a context of fewer than `order` tokens into `log_probs` (V,)."""
        log_probs[:] = self.log_probs[0]
        for n in range(1, len(context) + 1):
            ngram_id = self.ngrams.index_of(context[len(context) - n :])
            if ngram_id < 0:
                break
            if self.uniform_log_probs is not None:
                log_probs[:] = self.uniform_log_probs
            log_probs += self.backoffs[n - 1][ngram_id]
            continuations = self.ngrams.continuation_range(n, ngram_id)
            log_probs[self.ngrams.last_tokens[n - 1][continuations]] = self.log_probs[n][continuations]

    @classmethod
    def from_model(
        cls,
        ngrams: Sequence[np.ndarray],
        log_probs: Sequence[np.ndarray],
        backoffs: Sequence[np.ndarray],
        vocab_size: int,
    ) -> BackoffTable:
        """From n-grams (size, n) for n = 1, 2, …; unlisted tokens get probability 0.

        Pruning may have kept `a b c` without `b c`. Then `b c` is added with its backed-off probability, as in KenLM,
        because n-grams are looked up from the shortest to the longest.
        """
        table = cls._from_listed(ngrams, log_probs, backoffs, vocab_size)
        missing = table.ngrams.missing_suffixes()
        if not any(map(len, missing)):
            return table
        missing_log_probs, missing_backoffs = [], [np.zeros(len(rows), np.float32) for rows in missing]
        for rows in missing:
            scores = table.score(rows.reshape(-1).astype(np.int64), np.full(len(rows), rows.shape[1]), NO_TOKEN)
            missing_log_probs.append(scores.reshape(rows.shape)[:, -1].astype(np.float32))
        return cls._from_listed(
            [np.concatenate(pair) for pair in zip(ngrams, missing, strict=True)],
            [np.concatenate(pair) for pair in zip(log_probs, missing_log_probs, strict=True)],
            [np.concatenate(pair) for pair in zip(backoffs, missing_backoffs, strict=False)],
            vocab_size,
        )

    @classmethod
    def _from_listed(
        cls,
        ngrams: Sequence[np.ndarray],
        log_probs: Sequence[np.ndarray],
        backoffs: Sequence[np.ndarray],
        vocab_size: int,
    ) -> BackoffTable:
        index, ngram_ids = NgramIndex.from_rows(ngrams[1:], vocab_size)
        ngram_ids = [ngrams[0][:, 0], *ngram_ids]

        def place_values(n: int, values: np.ndarray, default: float) -> np.ndarray:
            result = np.full(index.num_ngrams(n), default, np.float32)
            result[ngram_ids[n - 1]] = values
            return result

        lengths = range(1, index.order + 1)
        return cls(
            index,
            tuple(place_values(n, log_probs[n - 1], -np.inf) for n in lengths),
            tuple(place_values(n, backoffs[n - 1], 0.0) for n in lengths[:-1]),
        )

    def to_arpa(self, is_listed: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """N-grams (size, n), log-probabilities and back-off weights of listed (V,) unigrams and all longer n-grams."""
        if self.uniform_log_probs is not None and self.ngrams.order > 1:
            raise InputError(
                "adding to each count gives no back-off model, and files of n-grams can hold no other",
                hint='pretrain with smoothing "kneser-ney"',
            )
        tokens = np.flatnonzero(is_listed)
        ngrams = [tokens[:, None], *(self.ngrams.to_rows(n) for n in range(2, self.ngrams.order + 1))]
        logs = [self.log_probs[0][tokens], *self.log_probs[1:]]
        return ngrams, logs, [weights[tokens] if n == 0 else weights for n, weights in enumerate(self.backoffs)]

    def arrays(self) -> dict[str, np.ndarray]:
        logs = {f"logs.{n}": array for n, array in enumerate(self.log_probs, start=1)}
        return self.ngrams.arrays() | logs | {f"backoffs.{n}": array for n, array in enumerate(self.backoffs, start=1)}

    @classmethod
    def load(cls, arrays: Mapping[str, np.ndarray], *, vocab_size: int, order: int) -> BackoffTable:
        ngrams = NgramIndex.load(arrays, vocab_size=vocab_size, order=order)
        logs = tuple(_load_log_probs(arrays, f"logs.{n}", ngrams.num_ngrams(n)) for n in range(1, order + 1))
        backoffs = tuple(_load_log_probs(arrays, f"backoffs.{n}", ngrams.num_ngrams(n)) for n in range(1, order))
        return cls(ngrams, logs, backoffs)


def _load_log_probs(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    array = arrays[name].astype(np.float32) if arrays[name].dtype == np.float64 else arrays[name]  # format 1
    if array.dtype != np.float32 or array.shape != (size,):
        raise corrupt_error(name, f"holds {array.dtype} {list(array.shape)} instead of {size} float32 numbers")
    if not (array < np.inf).all() or (name.startswith("logs") and (array > PROBABILITY_TOLERANCE).any()):
        raise corrupt_error(name, "holds what is no logarithm of a probability")
    return array


def _context_lengths(tokens: np.ndarray, lengths: np.ndarray, eos_id: int) -> np.ndarray:
    """Maximum context of each token: within its row, and back to the last `eos_id` before it."""
    ends = np.cumsum(lengths)
    row_starts, positions = np.repeat(ends - lengths, lengths), np.arange(len(tokens))
    last_ends = np.maximum.accumulate(np.where(tokens == eos_id, positions, 0))
    last_ends = np.append(0, last_ends)[: len(tokens)]  # EOS itself is predicted from the tokens before it
    return positions - np.maximum(row_starts, last_ends)


def split_rows(values: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Split values of all tokens by row, without the first of each row."""
    ends = np.cumsum(lengths).tolist()
    return [values[end - length + 1 : end] for end, length in zip(ends, lengths.tolist(), strict=True)]
