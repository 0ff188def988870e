"""Several runs as one: the mean of what they say of every token, with weights that make held-out text most probable.

An n-gram knows what it has seen, a network what is like it: together they predict better than either alone, as Bengio
et al. found in 2003. Jelinek and Mercer (1980) found the weights of such a mean by expectation and maximisation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import InputError
from forebear.inference.measure import ProgressFn, TextEvaluation, evaluate_text, prepare_texts, scoring_rows
from forebear.inference.predictor import row_log_probs, token_batches

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.io.reader import TextFormat
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor import CausalLM, DecodingState
    from forebear.inference.run import Run

Texts = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
ENOUGH = 4 << 20  # bytes of text: so few weights are known from far less
SLIGHT = 1e-6  # what the others keep where one alone is best: it may hold impossible what they do not
SETTLED, MOST = 1e-9, 10_000  # nats a token by which a round of tuning still helps, and rounds at most


@dataclass(frozen=True)
class InterpolationEvaluation:
    """Runs and their mixture, measured on the same text; `tuned` tokens of other text gave the weights, if any did."""

    weights: tuple[float, ...]
    individual: tuple[TextEvaluation, ...]
    mixture: TextEvaluation
    tuned: int = 0

    def to_dict(self) -> dict[str, Any]:
        alone = [{"weight": weight, **one.to_dict()} for weight, one in zip(self.weights, self.individual, strict=True)]
        return {"mixture": self.mixture.to_dict(), "alone": alone, "tuned_tokens": self.tuned}


def evaluate_interpolation(
    runs: Sequence[Run],
    texts: Subset | Texts,
    *,
    tune: Subset | Texts | None = None,
    limit: int | None = None,
    reading: TextFormat | None = None,
    workers: int | None = None,
    preparing: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> InterpolationEvaluation:
    """How well these runs predict text together, and each alone; `tune` is other text, by which they are weighed.

    Without it all weigh the same. They must cut text alike, as it is tokens that are predicted.
    """
    predictors = [run.predictor for run in runs]
    _alike(runs)
    first = runs[0]
    weights, tuned = tuple(1 / len(runs) for _ in runs), 0
    if tune is not None:
        portion = prepare_texts(first, tune, reading, workers, preparing).first(ENOUGH)
        weights, tuned = weighed(predictors, first.tokenizer, portion, unit=first.text_unit)
    portion = prepare_texts(first, texts, reading, workers, preparing)
    portion = portion if limit is None else portion.first(limit)
    heard = [_RecordingLM(one, first.tokenizer.unk_id) for one in predictors]
    together = evaluate_text(
        InterpolatedLM(heard, weights), first.tokenizer, portion, unit=first.text_unit, progress=progress
    )
    alone = (replace(together, nats=one.nats, known_nats=one.known, num_impossible=one.impossible) for one in heard)
    known = [run.learned_from(portion.corpus, together.documents) for run in runs]
    least, size = max((told for told in known if told[0] is not None), default=(None, None))
    return InterpolationEvaluation(
        weights,
        tuple(
            replace(one, learned_from=count, learned_bytes=bytes_of)
            for one, (count, bytes_of) in zip(alone, known, strict=True)
        ),
        replace(together, learned_from=least, learned_bytes=size),
        tuned,
    )


def weighed(
    predictors: Sequence[CausalLM], tokenizer: Tokenizer, source: Subset | Sequence[str], *, unit: str = "document"
) -> tuple[tuple[float, ...], int]:
    """The weights with which the mixture finds this text most probable, and how many tokens it has."""
    told: list[list[np.ndarray]] = [[] for _ in predictors]
    for group in token_batches(scoring_rows(source, tokenizer, unit), len):
        for mine, predictor in zip(told, predictors, strict=True):
            mine += row_log_probs(predictor, group)
    if not told[0]:
        raise InputError("there is no text to find weights by", hint="give text that has at least one character")
    scores = np.stack([np.concatenate(mine) for mine in told])
    return tuple(best_weights(scores).tolist()), scores.shape[1]


def best_weights(scores: np.ndarray) -> np.ndarray:
    """(n, T) log P of each token by each of n → the (n,) weights λ that make Σ log Σ λ P largest.

    Each round gives every one the share of the tokens that it explains: Σ log Σ λ P never falls, and has no peak but
    the highest. Tokens that all hold impossible tell nothing.
    """
    possible = scores[:, np.isfinite(scores).any(axis=0)]
    weights = np.full(len(scores), 1 / len(scores))
    if not possible.shape[1]:
        return weights
    shares = np.exp(possible - possible.max(axis=0))  # by the largest of each, so that none is lost in rounding
    before = reached = -np.inf
    for _ in range(MOST):
        parts = weights[:, None] * shares
        totals = parts.sum(axis=0)
        reached = float(np.log(totals).mean())
        if reached - before < SETTLED:
            break
        before, weights = reached, (parts / totals).mean(axis=1)
    with np.errstate(divide="ignore"):
        alone = np.log(shares).mean(axis=1)
    best = int(np.argmax(alone))
    if alone[best] > reached:  # where one alone is best, rounds help ever less on the way to it
        weights = SLIGHT * weights + (1 - SLIGHT) * (np.arange(len(weights)) == best)
    return weights / weights.sum()


def _alike(runs: Sequence[Run]) -> None:
    """An error where the runs do not predict the same tokens of the same texts."""
    if len(runs) < 2:
        raise InputError("a mixture has at least two runs", hint="name another run (--with RUN)")
    first = runs[0]
    for run in runs:
        if run.task is not None:
            raise InputError(f"was adapted to {run.task.name}", file=run.folder.path, hint="mix runs that predict text")
    for run in runs[1:]:
        if run.tokenizer.digest != first.tokenizer.digest:
            own = first.folder.path / "tokenizer.json"
            what = f"cuts text by another tokenizer than {first.folder.path}: they do not predict the same tokens"
            raise InputError(what, file=run.folder.path, hint=f"train it with the other's: --tokenizer {own}")
        if run.text_unit != first.text_unit:
            what = f"takes a {run.text_unit} for a text of its own, {first.folder.path} a {first.text_unit}"
            raise InputError(what, file=run.folder.path, hint=f"train it with --unit {first.text_unit}")


class InterpolatedLM:
    """Σ λ P of several predictors: one more of them (`using.predicting.Predictor`)."""

    is_pseudo_likelihood = False

    def __init__(self, parts: Sequence[CausalLM], weights: Sequence[float]) -> None:
        self.parts = list(parts)
        with np.errstate(divide="ignore"):
            self.logs = np.log(np.asarray(weights, np.float64))  # a weight of 0 is -inf

    @property
    def vocab_size(self) -> int:
        return self.parts[0].vocab_size

    @property
    def max_length(self) -> int | None:
        """As long as the shortest: a prompt is made to fit all."""
        return min((part.max_length for part in self.parts if part.max_length is not None), default=None)

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        told = [part.score(rows) for part in self.parts]
        return [self._mean(np.stack(row)) for row in zip(*told, strict=True)]

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return self._mean(np.stack([part.next_log_probs(rows) for part in self.parts]))

    def read(self, rows: Sequence[np.ndarray], room: int) -> DecodingState:
        return _InterpolatedDecodingState([part.read(rows, room) for part in self.parts], self._mean)

    def _mean(self, told: np.ndarray) -> np.ndarray:
        """(n, …) log P by each → log Σ λ P."""
        weighed = told.astype(np.float64) + self.logs.reshape(-1, *[1] * (told.ndim - 1))
        return np.logaddexp.reduce(weighed, axis=0)


class _InterpolatedDecodingState:
    """Rows that are being continued by several at once."""

    def __init__(self, readers: Sequence[DecodingState], mean: Any) -> None:
        self._readers, self._mean = readers, mean

    def next_logits(self) -> np.ndarray:
        logits = [reader.next_logits().astype(np.float64) for reader in self._readers]
        told = [one - np.logaddexp.reduce(one, axis=1, keepdims=True) for one in logits]
        return self._mean(np.stack(told)).astype(np.float32)

    def append(self, ids: np.ndarray) -> None:
        for reader in self._readers:
            reader.append(ids)

    def select(self, rows: np.ndarray) -> None:
        for reader in self._readers:
            reader.select(rows)


class _RecordingLM:
    """A predictor that remembers the sum of what it said, so that it is asked once."""

    is_pseudo_likelihood = False

    def __init__(self, predictor: CausalLM, unknown: int | None) -> None:
        self.predictor, self.unknown = predictor, unknown
        self.nats, self.known, self.impossible = 0.0, 0.0, 0  # `known`: without what unknown tokens cost

    @property
    def vocab_size(self) -> int:
        return self.predictor.vocab_size

    @property
    def max_length(self) -> int | None:
        return self.predictor.max_length

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        told = row_log_probs(self.predictor, rows)
        self.nats -= sum(float(scores.sum()) for scores in told)
        self.known -= sum(float(scores[row[1:] != self.unknown].sum()) for row, scores in zip(rows, told, strict=True))
        self.impossible += sum(int(np.isneginf(scores).sum()) for scores in told)
        return told

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return self.predictor.next_log_probs(rows)

    def read(self, rows: Sequence[np.ndarray], room: int) -> DecodingState:
        return self.predictor.read(rows, room)
