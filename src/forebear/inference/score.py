"""Scores of texts, in total and by token: log-probability, perplexity, bits per byte."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.text_ledger import utf8_size
from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError
from forebear.inference.predictor_protocols import (
    eos_id,
    make_row,
    oov_spelling_bits,
    row_log_probs,
    row_log_probs_with_lengths,
    unknown_token_bytes,
)
from forebear.numerics import finite_or_none, perplexity
from forebear.objectives.batch import token_batches
from forebear.statistical.ngram.language_model import NgramModel

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.inference.predictor_protocols import CausalLM
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of a text, its span in code points, and its log-probability given the tokens before it.

    The end token has an empty span after the last character. `spelling_bits` is the spelling cost of an unknown token,
    0 for others. `ngram_length` is the length of the longest known n-gram that ends there, for n-gram models.
    """

    token: str
    id: int
    start: int
    end: int
    original: str
    log_prob: float
    spelling_bits: float
    ngram_length: int | None = None

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)

    @property
    def bits(self) -> float:
        """Surprisal in bits, with the spelling cost."""
        return -self.log_prob / math.log(2) + self.spelling_bits

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; an infinite log-probability is null."""
        result: dict[str, Any] = {
            "token": self.token,
            "id": self.id,
            "start": self.start,
            "end": self.end,
            "original": self.original,
            "log_probability": finite_or_none(self.log_prob),
            "probability": self.probability,
            "bits": finite_or_none(self.bits),
        }
        return result if self.ngram_length is None else {**result, "ngram_length": self.ngram_length}


@dataclass(frozen=True)
class ScoredText:
    """A text with its scored tokens; natural logarithms, infinite for probability 0."""

    text: str
    tokens: tuple[ScoredToken, ...]
    is_pseudo_likelihood: bool = False  # each token given all others: ranks texts, but is not a probability

    @property
    def log_prob(self) -> float:
        return math.fsum(token.log_prob for token in self.tokens)

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)

    @property
    def perplexity(self) -> float:
        """Perplexity per token: comparable between runs of the same tokenizer only."""
        return perplexity(-self.log_prob, len(self.tokens))

    @property
    def perplexity_known(self) -> float | None:
        """Perplexity without unknown tokens; None if all are unknown."""
        known_log_probs = [token.log_prob for token in self.tokens if not token.spelling_bits]
        return perplexity(-math.fsum(known_log_probs), len(known_log_probs)) if known_log_probs else None

    @property
    def num_bytes(self) -> int:
        return utf8_size(replace_surrogates(self.text))

    @property
    def total_bits(self) -> float:
        """Bits of all tokens, with spelling costs."""
        return math.fsum(token.bits for token in self.tokens)

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte, comparable between all runs, as unknown tokens have spelling costs."""
        return self.total_bits / self.num_bytes

    @property
    def num_unknown(self) -> int:
        return sum(token.spelling_bits > 0 for token in self.tokens)

    @property
    def num_impossible(self) -> int:
        """Number of tokens with probability 0."""
        return sum(token.log_prob == -math.inf for token in self.tokens)

    def to_dict(self, *, tokens: bool = True) -> dict[str, Any]:
        """As JSON values: infinite values are null, explained by `impossible_tokens`."""
        result: dict[str, Any] = {
            "text": self.text,
            "log_probability": finite_or_none(self.log_prob),
            "probability": self.probability,
            "perplexity": finite_or_none(self.perplexity),
            "perplexity_known": None if self.perplexity_known is None else finite_or_none(self.perplexity_known),
            "bits_per_byte": finite_or_none(self.bits_per_byte),
            "pseudo": self.is_pseudo_likelihood,
            "token_count": len(self.tokens),
            "bytes": self.num_bytes,
            "unknown_tokens": self.num_unknown,
            "impossible_tokens": self.num_impossible,
        }
        return {**result, "tokens": [token.to_dict() for token in self.tokens]} if tokens else result


def score_texts(
    predictor: CausalLM | MaskedTokenPredictor, tokenizer: Tokenizer, texts: str | Sequence[str], *, ends: bool = False
) -> list[ScoredText]:
    """Score each text by itself; with `ends`, its end token is scored too.

    A masked language model gives a pseudo-likelihood: each token is predicted from all others.

    Raises:
        InputError: A text has no tokens (its number, from 1, is in the error), or `ends` is given for a masked LM.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if predictor.is_pseudo_likelihood and ends:
        message = "whether a text ends is nothing that this run was ever asked"
        raise InputError(message, hint="leave --ends out, or ask a run that predicts the next token")
    eos = eos_id(tokenizer)
    encodings = [tokenizer.encode(text) for text in texts]
    for index, encoding in enumerate(encodings, 1):
        if not len(encoding.ids):
            raise empty_text_error(index)
    rows = [make_row(encoding.ids, eos, ends=ends) for encoding in encodings]
    scored_rows: list[tuple[np.ndarray, np.ndarray | None]] = []
    for batch in token_batches(rows, len):
        log_probs, ngram_lengths = row_log_probs_with_lengths(predictor, batch)
        scored_rows += zip(log_probs, [None] * len(log_probs) if ngram_lengths is None else ngram_lengths, strict=True)
    scored_texts = []
    for text, encoding, scores in zip(texts, encodings, scored_rows, strict=True):
        tokens = tuple(_scored_tokens(text, encoding, *scores, tokenizer))
        scored_texts.append(ScoredText(text, tokens, predictor.is_pseudo_likelihood))
    return scored_texts


def empty_text_error(number: int | None = None) -> InputError:
    message, hint = "this text has no tokens, so there is nothing to score", "leave it out, or write some text"
    return InputError(message, line=number, hint=hint)


def _scored_tokens(
    text: str, encoding: TokenEncoding, log_probs: np.ndarray, ngram_lengths: np.ndarray | None, tokenizer: Tokenizer
) -> Iterator[ScoredToken]:
    """The tokens of a text with their scores, and the end token if it was scored."""
    unknown_bytes = unknown_token_bytes(replace_surrogates(text), encoding, tokenizer.unk_id).tolist()
    scores, lengths = log_probs.tolist(), [None] * len(log_probs) if ngram_lengths is None else ngram_lengths.tolist()
    tokens = zip(encoding.texts, encoding.ids.tolist(), encoding.spans, unknown_bytes, strict=True)
    scored = zip(tokens, scores, lengths, strict=False)  # the end token may be scored too
    for (token, token_id, (start, end), num_bytes), log_prob, length in scored:
        spelling_bits = oov_spelling_bits(1, num_bytes) if token_id == tokenizer.unk_id else 0.0
        yield ScoredToken(token, token_id, start, end, text[start:end], log_prob, spelling_bits, length)
    if len(scores) > len(encoding.ids):
        eos = eos_id(tokenizer)
        yield ScoredToken(tokenizer.id_to_token(eos), eos, len(text), len(text), "", scores[-1], 0.0, lengths[-1])


def score_ranks(scored: Sequence[ScoredText]) -> list[int]:
    """Rank of each text by total bits: 1 is the most probable; ties share a rank."""
    bits = [text.total_bits for text in scored]
    sorted_bits = sorted(bits)
    return [1 + bisect_left(sorted_bits, value) for value in bits]


# --- Total log-probability of many texts ---


def text_log_probs(predictor: CausalLM, tokenizer: Tokenizer, texts: Sequence[str], *, ends: bool = True) -> np.ndarray:
    """(n,) log-probability of each text, with its end token if `ends`; creates no object per token."""
    is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
    if not is_list or not all(issubclass(item_type, str) for item_type in set(map(type, texts))):
        raise InputError("totals are asked of several texts", hint='give a list of them, such as ["one", "another"]')
    eos, (ids, counts) = eos_id(tokenizer), tokenizer.encode_many(texts)
    if isinstance(predictor, NgramModel):
        lengths = counts.astype(np.int64) + 1 + ends
        row_starts = np.cumsum(lengths) - lengths
        tokens, is_text_token = np.full(int(lengths.sum()), eos, np.int32), np.ones(int(lengths.sum()), bool)
        is_text_token[row_starts] = False
        if ends:
            is_text_token[row_starts + lengths - 1] = False
        tokens[is_text_token] = ids
        log_probs = predictor.score_flat(tokens, lengths)
        log_probs[row_starts] = 0.0  # the first token of a row is given, not predicted
        return np.add.reduceat(log_probs, row_starts) if len(row_starts) else log_probs
    rows = (make_row(row, eos, ends=ends) for row in np.split(ids, np.cumsum(counts)[:-1]))
    scores = (row_scores for batch in token_batches(rows, len) for row_scores in row_log_probs(predictor, batch))
    return np.array([float(row_scores.sum()) for row_scores in scores][: len(counts)])
