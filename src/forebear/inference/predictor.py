"""Texts as rows that a predictor reads: between two ends, with what their unknown parts cost to spell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np

from forebear.data.io.ledger import utf8_size
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import TokenEncoding, Tokenizer
    from forebear.nn.masked_lm import MaskedLM

# What the heads `next` and `translation` of any run can do, in token ids and natural logarithms.


class DecodingState(Protocol):
    """Rows that are being continued: knows what comes next, takes what was chosen."""

    def next_logits(self) -> np.ndarray:
        """(B, V) float32 scores of the next token of each row: logits, that is log-probabilities up to a constant."""
        ...

    def append(self, ids: np.ndarray) -> None:
        """(B,) the token chosen for each row."""
        ...

    def select(self, rows: np.ndarray) -> None:
        """Go on with these rows (numbers among the present ones), in this order; one named twice goes on twice."""
        ...


class CausalLM(Protocol):
    """A model of the next token. Rows are int arrays of ids; their first id is given, never predicted."""

    is_pseudo_likelihood: bool  # False: scores of tokens are factors of the probability of their row

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_length(self) -> int | None:
        """The most tokens of a row it can see at once; None: no limit of its own."""
        ...

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …: one value fewer than tokens."""
        ...

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row): each line sums to 1 in probability."""
        ...

    def read(self, rows: Sequence[np.ndarray], room: int) -> DecodingState:
        """Begin to continue these rows (of any lengths) by up to `room` tokens each."""
        ...


@runtime_checkable
class Matching(Protocol):
    """A model of the next token that knows n-grams: it also tells how long the one was that it used."""

    def score_matching(self, rows: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """What `score` says, and for each of those tokens the length of the longest known n-gram that ends there."""
        ...


class Seq2Seq(Protocol):
    """A model of translations. Sources and targets are int arrays of ids, each with its end."""

    @property
    def max_length(self) -> int:
        """The most tokens of a source."""
        ...

    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        ...

    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> DecodingState:
        """Begin a row for each source, of which nothing is written yet but `start`; up to `room` tokens will be."""
        ...


Item = TypeVar("Item")

TOKEN_BUDGET = 1 << 16  # tokens handed to a predictor at once: bounds memory, changes no result
BITS_PER_SPELLED_BYTE = math.log2(257)  # bits for one of 256 bytes, or for the sign that the spelling is over


def eos_id(tokenizer: Tokenizer) -> int:
    """The id with which every text begins and ends."""
    if "end" not in tokenizer.special_roles:
        raise InputError(
            "this tokenizer has no token for the end of a text",
            hint="a run that predicts the next token needs one: train it with a tokenizer of forebear's own",
        )
    return tokenizer.special_roles["end"]


def make_row(ids: np.ndarray, end: int, *, ends: bool) -> np.ndarray:
    """The row [end, ids…], and with `ends` the end once more: as what is given first, and as a prediction."""
    return np.concatenate(([end], np.asarray(ids, np.int64), [end] if ends else [])).astype(np.int64)


def unknown_token_bytes(text: str, encoding: TokenEncoding, unknown: int | None) -> np.ndarray:
    """(tokens,) for each token the bytes of text it leaves unsaid: those of its span where it is unknown, else 0."""
    spans = zip(encoding.ids.tolist(), encoding.spans, strict=True)
    return np.array([utf8_size(text[a:b]) if i == unknown else 0 for i, (a, b) in spans], np.int64)


def oov_spelling_bits(tokens: int, count: int) -> float:
    """What so many unknown tokens cost in bits on top of their own probability: their `count` bytes spelled evenly.

    A byte, or the sign that the spelling is over, is one of 257: without this a small vocabulary would win.
    """
    return (tokens + count) * BITS_PER_SPELLED_BYTE


def row_log_probs(predictor: CausalLM | MaskedLM, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the predictor says of each row, in float64; what is no logarithm of a probability is refused."""
    return _validated_log_probs(rows, predictor.score(rows))


def row_log_probs_with_lengths(
    predictor: CausalLM | MaskedLM, rows: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """The same; and of a predictor that counts, for each token, how long the n-gram was by which it was told."""
    if not isinstance(predictor, Matching):
        return row_log_probs(predictor, rows), None
    log_probs, lengths = predictor.score_matching(rows)
    return _validated_log_probs(rows, log_probs), lengths


def _validated_log_probs(rows: Sequence[np.ndarray], log_probs: Sequence[np.ndarray]) -> list[np.ndarray]:
    validated = [np.asarray(scores, np.float64) for scores in log_probs]
    for row, scores in zip(rows, validated, strict=True):
        if scores.shape != (len(row) - 1,) or np.isnan(scores).any():
            raise non_finite_error()
    return validated


def non_finite_error() -> ForebearError:
    """What to say of a run whose scores cannot be used."""
    return ForebearError(
        "the run's scores are no numbers: its weights are damaged or its training went astray",
        hint="use an earlier checkpoint, or train again with a smaller learning rate",
    )


def token_batches(
    items: Iterable[Item], length: Callable[[Item], int], budget: int = TOKEN_BUDGET
) -> Iterator[list[Item]]:
    """The items in order, as many at once as the budget of tokens allows; a longer one comes alone."""
    batch: list[Item] = []
    tokens = 0
    for item in items:
        num_tokens = length(item)
        if batch and tokens + num_tokens > budget:
            yield batch
            batch, tokens = [], 0
        batch.append(item)
        tokens += num_tokens
    if batch:
        yield batch
