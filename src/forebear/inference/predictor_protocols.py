"""Protocols of predictors (causal and sequence-to-sequence models); rows of ids and spelling costs of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from forebear.data.io.text_ledger import utf8_size
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.nn.masked_token_predictor import MaskedTokenPredictor

# --- Protocols ---


class DecodingState(Protocol):
    """Protocol of incremental decoding of a batch of rows."""

    def next_logits(self) -> np.ndarray:
        """(B, V) float32 logits of the next token of each row."""
        ...

    def append(self, ids: np.ndarray) -> None:
        """Append (B,) the token chosen for each row."""
        ...

    def select(self, rows: np.ndarray) -> None:
        """Continue with these rows (indices of current rows), in this order; an index may be repeated."""
        ...


class CausalLM(Protocol):
    """Protocol of causal language models. Rows are int arrays of ids; the first id is given, not predicted."""

    is_pseudo_likelihood: bool  # False: token scores multiply to the probability of the row

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_length(self) -> int | None:
        """Maximum row length; None: unlimited."""
        ...

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] | row[:i]) for i = 1, 2, …: one value fewer than tokens."""
        ...

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) normalized log P(next token | row)."""
        ...

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> DecodingState:
        """Start decoding after these sequences (of any lengths), for up to `max_new_tokens` tokens each."""
        ...


@runtime_checkable
class NgramLengthLM(Protocol):
    """Protocol of causal language models that also report the length of the n-gram used for each token."""

    def score_with_lengths(self, rows: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """`score`, and for each token the length of the longest known n-gram that ends there."""
        ...


class Seq2Seq(Protocol):
    """Protocol of sequence-to-sequence models. Sources and targets are int arrays of ids, end token included."""

    @property
    def max_length(self) -> int:
        """Maximum source length."""
        ...

    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each target token given its source and the tokens before it; `start` precedes the first."""
        ...

    def start_decoding(self, sources: Sequence[np.ndarray], start: int, max_tokens: int) -> DecodingState:
        """Start decoding a sequence for each source from `start`, for up to `max_tokens` tokens."""
        ...


# --- Rows and spelling costs ---

BITS_PER_SPELLED_BYTE = math.log2(257)  # bits of one of 256 bytes or the end of the spelling


def eos_id(tokenizer: Tokenizer) -> int:
    """The id of the end-of-text token, with which every row starts and ends."""
    if "end" not in tokenizer.special_roles:
        hint = "a run that predicts the next token needs one: train it with a tokenizer of forebear's own"
        raise InputError("this tokenizer has no token for the end of a text", hint=hint)
    return tokenizer.special_roles["end"]


def make_row(ids: np.ndarray, eos: int, *, ends: bool) -> np.ndarray:
    """The row [eos, ids…], and with `ends` a final eos; the first id is given, the last predicted."""
    return np.concatenate(([eos], np.asarray(ids, np.int64), [eos] if ends else [])).astype(np.int64)


def unknown_token_bytes(text: str, encoding: TokenEncoding, unk_id: int | None) -> np.ndarray:
    """(tokens,) number of bytes of each unknown token in the text; 0 for known tokens."""
    spans = zip(encoding.ids.tolist(), encoding.spans, strict=True)
    sizes = [utf8_size(text[start:end]) if token_id == unk_id else 0 for token_id, (start, end) in spans]
    return np.array(sizes, np.int64)


def oov_spelling_bits(num_tokens: int, num_bytes: int) -> float:
    """Bits to spell unknown tokens of `num_bytes` bytes in total, in addition to their own probability.

    Each byte, and the end of each spelling, is one of 257 symbols. Without this cost small vocabularies would win.
    """
    return (num_tokens + num_bytes) * BITS_PER_SPELLED_BYTE


def row_log_probs(predictor: CausalLM | MaskedTokenPredictor, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The scores of each row in float64; ForebearError for NaN."""
    return _validated_log_probs(rows, predictor.score(rows))


def row_log_probs_with_lengths(
    predictor: CausalLM | MaskedTokenPredictor, rows: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """`row_log_probs`, and for n-gram models the length of the n-gram used for each token."""
    if not isinstance(predictor, NgramLengthLM):
        return row_log_probs(predictor, rows), None
    log_probs, lengths = predictor.score_with_lengths(rows)
    return _validated_log_probs(rows, log_probs), lengths


def _validated_log_probs(rows: Sequence[np.ndarray], log_probs: Sequence[np.ndarray]) -> list[np.ndarray]:
    float_log_probs = [np.asarray(scores, np.float64) for scores in log_probs]
    for row, scores in zip(rows, float_log_probs, strict=True):
        if scores.shape != (len(row) - 1,) or np.isnan(scores).any():
            raise non_finite_error()
    return float_log_probs


def reject_nan(scores: np.ndarray) -> np.ndarray:
    """The scores; ForebearError if one is NaN."""
    if np.isnan(scores).any():
        raise non_finite_error()
    return scores


def non_finite_error() -> ForebearError:
    """The error for a run whose scores are NaN."""
    return ForebearError(
        "the run's scores are no numbers: its weights are damaged or its training went astray",
        hint="use an earlier checkpoint, or train again with a smaller learning rate",
    )
