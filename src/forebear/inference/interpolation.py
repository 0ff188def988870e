"""Linear interpolation of language models, with weights tuned on held-out text by EM.

N-grams and neural models complement each other (Bengio et al. 2003). Jelinek and Mercer (1980) introduced the
estimation of interpolation weights by expectation maximization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.sources import Paths, ProgressFn
from forebear.errors import InputError
from forebear.inference.measure import TextEvaluation, evaluate_text, prepare_texts, scoring_rows
from forebear.inference.predictor_protocols import row_log_probs
from forebear.objectives.batch import token_batches

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.io.text_formats import TextFormat
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM, DecodingState
    from forebear.inference.run import Run

TUNING_BYTES = 4 << 20  # maximum text for tuning: enough to estimate a few weights
MIN_OTHER_WEIGHT = 1e-6  # total weight left to the other models, since the best one may assign probability 0
EM_TOLERANCE, MAX_EM_ROUNDS = 1e-9, 10_000  # minimum gain of a round in nats per token, and maximum number of rounds


@dataclass(frozen=True)
class InterpolationEvaluation:
    """Several runs and their interpolation on the same text; `num_tuning_tokens` is 0 for uniform weights."""

    weights: tuple[float, ...]
    individual: tuple[TextEvaluation, ...]
    mixture: TextEvaluation
    num_tuning_tokens: int = 0

    def to_dict(self) -> dict[str, Any]:
        pairs = zip(self.weights, self.individual, strict=True)
        individual = [{"weight": weight, **evaluation.to_dict()} for weight, evaluation in pairs]
        return {"mixture": self.mixture.to_dict(), "alone": individual, "tuned_tokens": self.num_tuning_tokens}


def evaluate_interpolation(
    runs: Sequence[Run],
    texts: Subset | Paths,
    *,
    tune: Subset | Paths | None = None,
    limit: int | None = None,
    reading: TextFormat | None = None,
    workers: int | None = None,
    preparing: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> InterpolationEvaluation:
    """Evaluate the interpolation of runs, and each run by itself, on the same text.

    Weights are tuned on the text `tune`; without it they are uniform. All runs must have the same tokenizer.
    """
    predictors = [run.predictor for run in runs]
    _require_compatible(runs)
    tokenizer, unit = runs[0].tokenizer, runs[0].text_unit
    weights, num_tuning_tokens = tuple(1 / len(runs) for _ in runs), 0
    if tune is not None:
        subset = prepare_texts(runs[0], tune, reading, workers, preparing).first(TUNING_BYTES)
        weights, num_tuning_tokens = tune_weights(predictors, tokenizer, subset, unit=unit)
    subset = prepare_texts(runs[0], texts, reading, workers, preparing)
    subset = subset if limit is None else subset.first(limit)
    recorder = _RecordingLM(predictors, weights, tokenizer.unk_id)
    mixture = evaluate_text(recorder, tokenizer, subset, unit=unit, progress=progress)
    trained_counts = [run.learned_from(subset.corpus, mixture.documents) for run in runs]
    individual = tuple(
        replace(mixture, **totals, learned_from=count, learned_bytes=num_bytes)
        for totals, (count, num_bytes) in zip(recorder.totals, trained_counts, strict=True)
    )
    max_documents, max_bytes = max((counts for counts in trained_counts if counts[0] is not None), default=(None, None))
    mixture = replace(mixture, learned_from=max_documents, learned_bytes=max_bytes)
    return InterpolationEvaluation(weights, individual, mixture, num_tuning_tokens)


def tune_weights(
    predictors: Sequence[CausalLM], tokenizer: Tokenizer, source: Subset | Sequence[str], *, unit: str = "document"
) -> tuple[tuple[float, ...], int]:
    """The weights that maximize the likelihood of this text, and its number of tokens."""
    log_probs: list[list[np.ndarray]] = [[] for _ in predictors]
    for batch in token_batches(scoring_rows(source, tokenizer, unit), len):
        for model_log_probs, predictor in zip(log_probs, predictors, strict=True):
            model_log_probs += row_log_probs(predictor, batch)
    if not log_probs[0]:
        raise InputError("there is no text to find weights by", hint="give text that has at least one character")
    scores = np.stack([np.concatenate(model_log_probs) for model_log_probs in log_probs])
    return tuple(best_weights(scores).tolist()), scores.shape[1]


def best_weights(scores: np.ndarray) -> np.ndarray:
    """The (n,) weights λ that maximize Σ log Σ λ P, from (n, T) log-probabilities of tokens, by EM.

    Each round sets a weight to the model's mean posterior. The objective is concave, so EM converges to the maximum.
    Tokens that are impossible for all models are ignored.
    """
    finite_scores = scores[:, np.isfinite(scores).any(axis=0)]
    weights = np.full(len(scores), 1 / len(scores))
    if not finite_scores.shape[1]:
        return weights
    likelihoods = np.exp(finite_scores - finite_scores.max(axis=0))  # relative to the largest, so that none underflows
    previous = current = -np.inf
    for _ in range(MAX_EM_ROUNDS):
        joint = weights[:, None] * likelihoods
        totals = joint.sum(axis=0)
        current = float(np.log(totals).mean())
        if current - previous < EM_TOLERANCE:
            break
        previous, weights = current, (joint / totals).mean(axis=1)
    with np.errstate(divide="ignore"):
        individual = np.log(likelihoods).mean(axis=1)
    best = int(np.argmax(individual))
    if individual[best] > current:  # if one model alone is best, EM converges slowly
        weights = MIN_OTHER_WEIGHT * weights + (1 - MIN_OTHER_WEIGHT) * (np.arange(len(weights)) == best)
    return weights / weights.sum()


def _require_compatible(runs: Sequence[Run]) -> None:
    """Raise InputError unless the runs predict the same tokens of the same units."""
    if len(runs) < 2:
        raise InputError("a mixture has at least two runs", hint="name another run (--with RUN)")
    first = runs[0]
    for run in runs:
        if run.task is not None:
            raise InputError(f"was adapted to {run.task.name}", file=run.folder.path, hint="mix runs that predict text")
        if run.tokenizer.digest != first.tokenizer.digest:
            message = f"cuts text by another tokenizer than {first.folder.path}: they do not predict the same tokens"
            hint = f"train it with the other's: --tokenizer {first.folder.path / 'tokenizer.json'}"
            raise InputError(message, file=run.folder.path, hint=hint)
        if run.text_unit != first.text_unit:
            message = f"takes a {run.text_unit} for a text of its own, {first.folder.path} a {first.text_unit}"
            raise InputError(message, file=run.folder.path, hint=f"train it with --unit {first.text_unit}")


class InterpolatedLM:
    """Interpolation Σ λ P of causal language models, itself a CausalLM."""

    is_pseudo_likelihood = False

    def __init__(self, models: Sequence[CausalLM], weights: Sequence[float]) -> None:
        self.models = list(models)
        with np.errstate(divide="ignore"):
            self.log_weights = np.log(np.asarray(weights, np.float64))  # -inf for a weight of 0

    @property
    def vocab_size(self) -> int:
        return self.models[0].vocab_size

    @property
    def max_length(self) -> int | None:
        """The smallest maximum length, so that a prompt fits every model."""
        return min((model.max_length for model in self.models if model.max_length is not None), default=None)

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [self._interpolate(np.stack(scores)) for scores in zip(*self._model_scores(rows), strict=True)]

    def _model_scores(self, rows: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        return [model.score(rows) for model in self.models]

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return self._interpolate(np.stack([model.next_log_probs(rows) for model in self.models]))

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> DecodingState:
        states = [model.start_decoding(rows, max_new_tokens) for model in self.models]
        return _InterpolatedDecodingState(states, self._interpolate)

    def _interpolate(self, log_probs: np.ndarray) -> np.ndarray:
        """log Σ λ P from (n, …) log-probabilities."""
        weighted = log_probs.astype(np.float64) + self.log_weights.reshape(-1, *[1] * (log_probs.ndim - 1))
        return np.logaddexp.reduce(weighted, axis=0)


class _InterpolatedDecodingState:
    """Decoding state of all interpolated models."""

    def __init__(self, states: Sequence[DecodingState], interpolate: Callable[[np.ndarray], np.ndarray]) -> None:
        self._states, self._interpolate = states, interpolate

    def next_logits(self) -> np.ndarray:
        logits = [state.next_logits().astype(np.float64) for state in self._states]
        log_probs = [values - np.logaddexp.reduce(values, axis=1, keepdims=True) for values in logits]
        return self._interpolate(np.stack(log_probs)).astype(np.float32)

    def append(self, ids: np.ndarray) -> None:
        for state in self._states:
            state.append(ids)

    def select(self, rows: np.ndarray) -> None:
        for state in self._states:
            state.select(rows)


class _RecordingLM(InterpolatedLM):
    """An interpolation that also sums the scores of each model, so that all models are evaluated in one pass."""

    def __init__(self, models: Sequence[CausalLM], weights: Sequence[float], unk_id: int | None) -> None:
        super().__init__(models, weights)
        self.unk_id = unk_id
        self.totals: list[dict[str, Any]] = [{"nats": 0.0, "known_nats": 0.0, "num_impossible": 0} for _ in models]

    def _model_scores(self, rows: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        is_known = np.concatenate([row[1:] for row in rows]) != self.unk_id
        log_probs = [row_log_probs(model, rows) for model in self.models]
        for totals, scores in zip(self.totals, map(np.concatenate, log_probs), strict=True):
            totals["nats"] -= float(scores.sum())
            totals["known_nats"] -= float(scores[is_known].sum())
            totals["num_impossible"] += int(np.isneginf(scores).sum())
        return log_probs
