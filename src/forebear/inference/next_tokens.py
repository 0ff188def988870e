"""Next-token prediction with a causal language model, and blanks filled by scoring whole texts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.tokenizers.bpe import readable_token, token_bytes
from forebear.data.unicode import code_points, is_han
from forebear.errors import InputError
from forebear.inference.predictor_protocols import eos_id, make_row, reject_nan, row_log_probs
from forebear.numerics import finite_or_none
from forebear.objectives.batch import token_batches

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.predictor_protocols import CausalLM
    from forebear.statistical.ngram.explain_probability import NgramEvidence
    from forebear.statistical.ngram.language_model import NgramModel

BLANK_PATTERN = re.compile("[_＿]{3,}|(?<![A-Za-z0-9_＿])[_＿]{2}(?![A-Za-z0-9_＿])")  # no blank in __init__
TOKEN_BUDGET = 1 << 13  # tokens scored for one blank: some seconds on a laptop
CHEAP_TOKEN_BUDGET = 1 << 20  # for models that are cheap per token: without a maximum length, or with a short one
SHORT_LENGTH = 16


@dataclass(frozen=True)
class TokenCandidate:
    """A candidate token, its readable `text` and its probability."""

    token: str
    id: int
    text: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        return {"token": self.token, "id": self.id, "text": self.text, "probability": self.probability}


@dataclass(frozen=True)
class NextCandidate(TokenCandidate):
    """A candidate for the next token or for a blank; `full_text` is the text with the blank filled."""

    log_prob: float
    full_text: str | None = None
    evidence: NgramEvidence | None = None  # counts behind the probability, on request

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; an infinite log-probability is null."""
        result = super().to_dict() | {"log_probability": finite_or_none(self.log_prob)}
        result |= {} if self.full_text is None else {"whole": self.full_text}
        return result if self.evidence is None else {**result, "why": self.evidence.to_dict()}


@dataclass(frozen=True)
class TokenPrediction:
    """The best candidates, best first.

    Without a blank, probabilities are those of the next token, the end of the text included. For a blank, `log_prob` is
    that of the whole filled text, and probabilities are normalized over the considered candidates. `num_valid` tokens
    could fill it; if not all were considered, `covered_mass` is the probability mass of those that were, given the
    text before the blank.
    """

    text: str
    has_blank: bool
    candidates: tuple[NextCandidate, ...]
    num_valid: int
    num_considered: int
    covered_mass: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        result: dict[str, Any] = {"text": self.text, "has_blank": self.has_blank, "fitting": self.num_valid}
        result |= {"considered": self.num_considered, "covered": self.covered_mass}
        return {**result, "candidates": [candidate.to_dict() for candidate in self.candidates]}


def next_tokens(
    predictor: CausalLM,
    tokenizer: Tokenizer,
    text: str,
    *,
    top: int = 10,
    ends: bool = False,
    among: int | None = None,
    why: bool = False,
) -> TokenPrediction:
    """Predict the `top` next tokens, or fill the blank (two or more underscores) in the text.

    Args:
        ends: Whether a filled text must end after its last character.
        among: Number of candidates tried if text follows the blank, by probability given the text before it; None: all
            within a token budget.
        why: Whether to add the counts behind each probability; for n-gram models only.
    """
    if top < 1:
        raise InputError(f"top is {top}", hint="ask for at least 1 candidate")
    if among is not None and among < 1:
        raise InputError(f"among is {among}", hint="try at least 1 candidate")
    match = find_blank(BLANK_PATTERN, text)
    if match is None:
        return _next_candidates(predictor, tokenizer, text, top, why)
    if why:
        message = "a blank is filled by the probability of the whole text, and --why tells why a token comes next"
        raise InputError(message, hint="leave out --why, or end the text where the blank begins")
    return _blank_candidates(predictor, tokenizer, match, top=top, ends=ends, among=among)


def find_blank(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The blank of a text, if any; InputError if there are several."""
    blanks = list(pattern.finditer(text))
    if len(blanks) > 1:
        raise InputError(f"the text has {len(blanks)} blanks", hint="fill one at a time: leave one ____ in it")
    return blanks[0] if blanks else None


def _next_candidates(predictor: CausalLM, tokenizer: Tokenizer, text: str, top: int, why: bool) -> TokenPrediction:
    row = make_row(tokenizer.encode(text).ids, eos_id(tokenizer), ends=False)
    ngram_model = _require_ngram(predictor) if why else None
    scores = _next_log_probs(predictor, row)
    candidates = []
    for token_id in top_ids(scores[: tokenizer.vocab_size], top):
        token, log_prob = tokenizer.id_to_token(token_id), float(scores[token_id])
        display_text = token_text(tokenizer, token_id)
        candidates.append(NextCandidate(token, token_id, display_text, math.exp(log_prob), log_prob))
    if ngram_model is not None:
        from forebear.statistical.ngram.explain_probability import ngram_evidence

        ids = [candidate.id for candidate in candidates]
        evidence = ngram_evidence(ngram_model, row, ids, lambda token: readable_token(tokenizer, token))
        pairs = zip(candidates, evidence, strict=True)
        candidates = [replace(candidate, evidence=counts) for candidate, counts in pairs]
    return TokenPrediction(text, False, tuple(candidates), tokenizer.vocab_size, tokenizer.vocab_size, 1.0)


def _require_ngram(predictor: CausalLM) -> NgramModel:
    from forebear.statistical.ngram.language_model import NgramModel

    if not isinstance(predictor, NgramModel):
        message = "this run did not count n-grams, so there are no counts that could tell why"
        raise InputError(message, hint="leave out --why, or ask an n-gram: forebear pretrain ngram TEXT")
    return predictor


def _next_log_probs(predictor: CausalLM, row: np.ndarray) -> np.ndarray:
    return reject_nan(np.asarray(predictor.next_log_probs([row])[0], np.float64))


def top_ids(scores: np.ndarray, count: int) -> list[int]:
    """Indices of the highest scores, best first, ties by index; without impossible ones."""
    order = np.argsort(-scores, kind="stable")[:count].tolist()
    return [index for index in order if scores[index] > -np.inf]


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """A token as text; special tokens by name."""
    return tokenizer.id_to_token(token) if token in tokenizer.special_ids else tokenizer.decode([token])


def blank_context(prefix: str, tokenizer: Tokenizer) -> str:
    """The text before a blank; in byte-level BPE a space at its end belongs to the filled token."""
    return prefix.removesuffix(" ") if tokenizer.kind == "bytepair" else prefix


def valid_ids(prefix: str, tokenizer: Tokenizer) -> np.ndarray:
    """The ids that can fill a blank after this text: visible complete characters; word-initial or continuation tokens
    as the text requires."""
    is_word_internal = bool(prefix) and (prefix[-1].isalnum() and not is_han(code_points(prefix[-1]))[0])
    special_ids, ids = tokenizer.special_ids, []
    for token_id, token in enumerate(tokenizer.vocabulary()):
        if token_id in special_ids:
            continue
        if tokenizer.kind == "bytepair":
            spelled_bytes = token_bytes(token)
            is_valid = spelled_bytes.startswith(b" ") == prefix.endswith(" ") and _is_visible(spelled_bytes)
        elif tokenizer.continuation_prefix:
            is_valid = bool(tokenizer.continuation_mask[token_id]) == is_word_internal
        else:
            is_valid = bool(token.strip())
        if is_valid:
            ids.append(token_id)
    return np.array(ids, np.int64)


def _is_visible(spelled_bytes: bytes) -> bool:
    try:
        return bool(spelled_bytes.decode().strip())
    except UnicodeDecodeError:
        return False


def _blank_candidates(
    predictor: CausalLM, tokenizer: Tokenizer, blank: re.Match[str], *, top: int, ends: bool, among: int | None
) -> TokenPrediction:
    """Score the full text of every candidate, or of the most probable ones given the left context if too many."""
    prefix, suffix = blank.string[: blank.start()], blank.string[blank.end() :]
    eos = eos_id(tokenizer)
    left_ids = make_row(tokenizer.encode(blank_context(prefix, tokenizer)).ids, eos, ends=False)
    right_ids = make_row(tokenizer.encode(suffix if suffix.strip() else "").ids, eos, ends=ends)[1:]
    valid = valid_ids(prefix, tokenizer)
    if not len(valid):
        hint = "write it elsewhere, or leave a space before it"
        if prefix.endswith(" "):
            hint = "take away the space before it: the tokenizer knows nothing that begins so here"
        raise InputError("no token can fill this blank", hint=hint)
    next_scores = _next_log_probs(predictor, left_ids)[valid]
    considered_indices, covered_mass = np.arange(len(valid)), 1.0
    if len(right_ids):
        is_cheap = predictor.max_length is None or predictor.max_length < SHORT_LENGTH
        token_budget = CHEAP_TOKEN_BUDGET if is_cheap else TOKEN_BUDGET
        max_considered = among or token_budget // (len(left_ids) + 1 + len(right_ids))
        considered_indices = np.sort(np.argsort(-next_scores, kind="stable")[: max(max_considered, 1)])
        scores = _full_text_log_probs(predictor, left_ids, valid[considered_indices], right_ids)
    else:
        scores = next_scores + row_log_probs(predictor, [left_ids])[0].sum()
    if len(considered_indices) < len(valid):
        weights = np.exp(next_scores)
        covered_mass = float(weights[considered_indices].sum() / weights.sum()) if weights.any() else 0.0
    total, candidates = float(np.logaddexp.reduce(scores)), []
    for index in top_ids(scores, top):
        token_id, log_prob = int(valid[considered_indices[index]]), float(scores[index])
        filler_text = token_text(tokenizer, token_id).removeprefix(tokenizer.continuation_prefix)
        probability, full_text = math.exp(log_prob - total), prefix + filler_text.strip() + suffix
        token = tokenizer.id_to_token(token_id)
        candidates.append(NextCandidate(token, token_id, filler_text, probability, log_prob, full_text))
    return TokenPrediction(blank.string, True, tuple(candidates), len(valid), len(considered_indices), covered_mass)


def _full_text_log_probs(
    predictor: CausalLM, left_ids: np.ndarray, ids: np.ndarray, right_ids: np.ndarray
) -> np.ndarray:
    """(n,) log-probability of the text with each candidate."""
    row = np.concatenate((left_ids, [0], right_ids))
    rows = np.broadcast_to(row, (len(ids), len(row))).copy()
    rows[:, len(left_ids)] = ids
    text_log_probs = (scores.sum() for group in token_batches(rows, len) for scores in row_log_probs(predictor, group))
    return np.fromiter(text_log_probs, np.float64, len(ids))
