"""Sampling: repetition penalty, temperature, top-k and top-p, and batched generation of texts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from forebear.errors import InputError
from forebear.inference.generated_text import GeneratedText, StopReason
from forebear.inference.predictor_protocols import eos_id, make_row, non_finite_error
from forebear.inference.stream_decode import TextStream

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM


def require_positive(**counts: int) -> None:
    """Raise InputError unless all counts are positive integers."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise InputError(f"{name} is {count}", hint=f"give a {name} of at least 1, a whole number")


def log_normalizers(scores: np.ndarray) -> np.ndarray:
    """(B,) log-normalizers of logits (B, V); -inf where all are impossible."""
    max_scores = scores.max(axis=1, initial=-np.inf, keepdims=True)
    if not (max_scores < np.inf).all():
        raise non_finite_error()
    shifted = scores - np.where(np.isfinite(max_scores), max_scores, 0)
    with np.errstate(divide="ignore"):
        return max_scores[:, 0] + np.log(np.exp(shifted, out=shifted).sum(axis=1, dtype=np.float64))


@dataclass(frozen=True)
class SamplingConfig:
    """How a token is sampled."""

    temperature: float = 0.8  # divides the scores; 0: greedy decoding, the first of ties
    top_k: int | None = None  # sample from the k best tokens and ties; None: from all
    top_p: float = 0.95  # sample from the smallest set of tokens with this total probability; 1: from all
    repetition_penalty: float = 1.0  # divides positive scores of tokens already in the row, multiplies negative ones

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError(f"the temperature is {self.temperature}", hint="choose 0 for the best token, or above")
        if self.top_k is not None and (self.top_k < 1 or not isinstance(self.top_k, Integral)):
            raise InputError(f"top-k is {self.top_k}", hint="choose 1 or more, or leave it out to draw from all")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top-p is {self.top_p}", hint="choose a share above 0 and up to 1, such as 0.95")
        if not (math.isfinite(self.repetition_penalty) and self.repetition_penalty > 0):
            raise InputError(f"the repetition penalty is {self.repetition_penalty}", hint="choose 1 for none, or 1.2")

    def choose(self, scores: np.ndarray, previous_ids: Sequence[int], random_number: float) -> int:
        """Sample a token from scores (V,), at least one finite, with a uniform random number in [0, 1).

        Inverse transform sampling over the remaining tokens in order of id: the result depends on this row only.
        """
        scores = apply_repetition_penalty(scores, previous_ids, self.repetition_penalty)
        if self.temperature == 0:
            return int(scores.argmax())
        scores = (scores - scores.max()) / self.temperature  # the best is 0, so that no temperature overflows it
        candidates = np.arange(len(scores))
        filters: list[Callable[[np.ndarray], np.ndarray]] = [partial(filter_top_p, top_p=self.top_p)]
        if self.top_k is not None:
            filters.insert(0, partial(filter_top_k, count=self.top_k))
        for filter_scores in filters:  # top-p filters what top-k leaves
            scores = filter_scores(scores)
            possible_positions = np.flatnonzero(scores > -np.inf)
            candidates, scores = candidates[possible_positions], scores[possible_positions]
        cumulative = np.cumsum(np.exp(scores))
        position = int(np.searchsorted(cumulative, random_number * cumulative[-1], side="right"))
        return int(candidates[min(position, len(candidates) - 1)])


def apply_repetition_penalty(scores: np.ndarray, previous_ids: Sequence[int], penalty: float) -> np.ndarray:
    """Scores (V,) with the repetition penalty applied once to each earlier token."""
    if penalty == 1 or not len(previous_ids):
        return scores
    penalized_ids = np.unique(np.asarray(previous_ids, np.int64))
    penalized, values = scores.copy(), scores[penalized_ids]
    penalized[penalized_ids] = np.where(values < 0, values * penalty, values / penalty)
    return penalized


def filter_top_k(scores: np.ndarray, count: int) -> np.ndarray:
    """Scores (V,) with all but the best `count` (and ties) set to -inf."""
    if count >= len(scores):
        return scores
    threshold = np.partition(scores, -count)[-count]
    return np.where(scores < threshold, -np.inf, scores)


def filter_top_p(scores: np.ndarray, top_p: float) -> np.ndarray:
    """Scores (V,) with all but the smallest set of best tokens with probability `top_p` set to -inf.

    Tokens with less than (1 - top_p) / V each cannot sum to 1 - top_p, so they are excluded without sorting.
    """
    if top_p == 1:
        return scores
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    is_rare = weights < (1 - top_p) / len(weights)
    ids = np.flatnonzero(~is_rare)
    ids = ids[np.argsort(weights[ids], kind="stable")]  # ascending
    cumulative_mass = weights[is_rare].sum() + np.cumsum(weights[ids])
    selected = ids[cumulative_mass > 1 - top_p]
    if not len(selected):  # rounding at a top_p near 0: the best token only
        selected = ids[-1:]
    result = np.full_like(scores, -np.inf)
    result[selected] = scores[selected]
    return result


@dataclass(frozen=True)
class AllowedTokens:
    """Tokens allowed in a text: none of `blocked_ids`, and the unknown token only if nothing else is possible."""

    blocked_ids: np.ndarray
    unk_id: int | None
    eos_id: int

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer, vocab_size: int) -> AllowedTokens:
        """Allowed tokens for a tokenizer and a model of this vocabulary size."""
        eos = eos_id(tokenizer)
        unused_ids = range(tokenizer.vocab_size, vocab_size)  # padding of the vocabulary
        blocked = [*(tokenizer.special_ids - {eos, tokenizer.unk_id}), *unused_ids]
        return cls(np.array(blocked, np.int64), tokenizer.unk_id, eos)

    def mask(self, scores: np.ndarray) -> np.ndarray:
        """The scores (V,) in float64 with -inf for forbidden tokens."""
        masked = np.array(scores, np.float64)
        if np.isnan(masked).any():
            raise non_finite_error()
        masked[self.blocked_ids] = -np.inf
        if self.unk_id is not None:
            unknown_score, masked[self.unk_id] = masked[self.unk_id], -np.inf
            if masked.max() == -np.inf:
                masked[self.unk_id] = unknown_score
        if masked.max() == -np.inf:
            masked[self.eos_id] = 0.0
        return masked

    def mask_rows(self, scores: np.ndarray) -> np.ndarray:
        """`mask` for (B, V) rows of beam search; the end token is not enforced in a row without possible tokens."""
        masked = scores.copy()
        masked[:, self.blocked_ids] = -np.inf
        if self.unk_id is not None:
            masked[:, self.unk_id] = -np.inf
            blocked_rows = np.flatnonzero(masked.max(axis=1) == -np.inf)
            masked[blocked_rows, self.unk_id] = scores[blocked_rows, self.unk_id]
        return masked


# --- Generation ---

GENERATION_BATCH = 16  # rows decoded together: bounds memory, does not affect texts


@dataclass(eq=False)
class _GenerationRow:
    """A text being generated; its random numbers depend on seed, sample and prompt only, one per token."""

    index: int
    prompt: str
    sample: int
    ids: np.ndarray
    rng: np.random.Generator
    continuation: TextStream
    generated_ids: list[int] = field(default_factory=list)
    stop_reason: StopReason | None = None

    def append_token(self, token: int, eos_id: int, length: int) -> str:
        """Append a chosen token, update the stop reason, and return the text that can no longer change."""
        if token == eos_id:
            self.stop_reason = "end"
            return self.continuation.finish()
        self.generated_ids.append(token)
        piece = self.continuation.append(token)
        if not self.continuation.stopped and len(self.generated_ids) == length:
            piece += self.continuation.finish()
            self.stop_reason = "length"
        if self.continuation.stopped:
            self.stop_reason = "stop"
        return piece

    def result(self) -> GeneratedText:
        ids, stop_reason = tuple(self.generated_ids), self.stop_reason or "length"
        return GeneratedText(self.prompt, self.sample, self.continuation.text, ids, stop_reason)


class GenerationOptions(TypedDict, total=False):
    """The options of `generation_rows`."""

    length: int
    temperature: float
    top_k: int | None
    top_p: float
    repetition_penalty: float
    stop: str | Sequence[str]
    seed: int


def sample_texts(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    *,
    samples: int = 1,
    batch: int = GENERATION_BATCH,
    on_piece: Callable[[int, str], object] | None = None,
    **options: Unpack[GenerationOptions],
) -> list[GeneratedText]:
    """Continue each prompt, which may be empty; results are all samples of the first prompt, then of the next.

    A text ends with the end token, before a stop string, or after `length` tokens, and does not depend on other
    prompts. `on_piece` is called with the index of a result and each new piece of its text.
    """
    require_positive(batch=batch)
    rows, sampling, length = generation_rows(tokenizer, prompts, samples=samples, **options)
    for start in range(0, len(rows), batch):
        for row, piece in _continue_rows(predictor, tokenizer, rows[start : start + batch], sampling, length):
            if on_piece is not None:
                on_piece(row.index, piece)
    return [row.result() for row in rows]


def stream_text(
    predictor: CausalLM, tokenizer: Tokenizer, prompt: str = "", **options: Unpack[GenerationOptions]
) -> Iterator[str]:
    """Stream the continuation of one prompt; the pieces join to the result of `sample_texts`."""
    rows_and_options = generation_rows(tokenizer, prompt, **options)
    return (piece for _, piece in _continue_rows(predictor, tokenizer, *rows_and_options))


def stop_strings(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Stop strings as a tuple."""
    stop_texts = (stop,) if isinstance(stop, str) else tuple(stop)
    if "" in stop_texts:
        raise InputError("a stop string is empty", hint="give at least one character, or leave it out")
    return stop_texts


def generation_rows(
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    *,
    length: int = 100,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float = 0.95,
    repetition_penalty: float = 1.0,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    samples: int = 1,
) -> tuple[list[_GenerationRow], SamplingConfig, int]:
    """A row for each sample of each prompt, the sampling configuration, and the maximum number of new tokens."""
    sampling = SamplingConfig(temperature, top_k, top_p, repetition_penalty)
    require_positive(length=length, samples=samples)
    stop_texts = stop_strings(stop)
    if seed < 0 or not isinstance(seed, Integral):
        raise InputError(f"the seed is {seed}", hint="choose 0 or above, a whole number")
    rows: list[_GenerationRow] = []
    for prompt in [prompts] if isinstance(prompts, str) else prompts:
        ids = tokenizer.encode(prompt).ids.astype(np.int64)
        digest = hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=16).digest()
        for sample in range(samples):
            rng = np.random.default_rng([seed, sample, *np.frombuffer(digest, "<u4").tolist()])
            rows.append(_GenerationRow(len(rows), prompt, sample, ids, rng, TextStream(tokenizer, ids, stop_texts)))
    return rows, sampling, length


def _continue_rows(
    predictor: CausalLM, tokenizer: Tokenizer, rows: Sequence[_GenerationRow], sampling: SamplingConfig, length: int
) -> Iterator[tuple[_GenerationRow, str]]:
    """Continue all rows until each has ended; yield pieces of text that can no longer change."""
    eos, allowed = eos_id(tokenizer), AllowedTokens.for_tokenizer(tokenizer, predictor.vocab_size)
    state = predictor.start_decoding([make_row(row.ids, eos, ends=False) for row in rows], length)
    active = list(rows)
    while active:
        chosen_ids: list[int] = []
        for row, scores in zip(active, state.next_logits(), strict=True):
            previous_ids = [*row.ids.tolist(), *row.generated_ids] if sampling.repetition_penalty != 1 else ()
            token = sampling.choose(allowed.mask(scores), previous_ids, row.rng.random())
            chosen_ids.append(token)
            if piece := row.append_token(token, eos, length):
                yield row, piece
        remaining = [index for index, row in enumerate(active) if row.stop_reason is None]
        if remaining and len(remaining) < len(active):
            state.select(np.array(remaining))
        if remaining:
            state.append(np.array([chosen_ids[index] for index in remaining]))
        active = [active[index] for index in remaining]
