"""Texts as rows that a predictor reads: between two ends, with what their unknown parts cost to spell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.text.ledger import size
from forebear.using.predicting import Matching

if TYPE_CHECKING:
    from forebear.networks.restorer import Restorer
    from forebear.text.tokenizer import Pieces, Tokenizer
    from forebear.using.predicting import Predictor

Item = TypeVar("Item")

BUDGET = 1 << 16  # tokens handed to a predictor at once: bounds memory, changes no result
SPELLING = math.log2(257)  # bits for one of 256 bytes, or for the sign that the spelling is over


def end_of(tokenizer: Tokenizer) -> int:
    """The id with which every text begins and ends."""
    if "end" not in tokenizer.roles:
        raise BadInput(
            "this tokenizer has no token for the end of a text",
            remedy="a run that predicts the next token needs one: train it with a tokenizer of forebear's own",
        )
    return tokenizer.roles["end"]


def row_of(ids: np.ndarray, end: int, *, ends: bool) -> np.ndarray:
    """The row [end, ids…], and with `ends` the end once more: as what is given first, and as a prediction."""
    return np.concatenate(([end], np.asarray(ids, np.int64), [end] if ends else [])).astype(np.int64)


def unknown_sizes(text: str, pieces: Pieces, unknown: int | None) -> np.ndarray:
    """(tokens,) for each token the bytes of text it leaves unsaid: those of its span where it is unknown, else 0."""
    spans = zip(pieces.ids.tolist(), pieces.spans, strict=True)
    return np.array([size(text[a:b]) if i == unknown else 0 for i, (a, b) in spans], np.int64)


def spelling_bits(tokens: int, count: int) -> float:
    """What so many unknown tokens cost in bits on top of their own probability: their `count` bytes spelled evenly.

    A byte, or the sign that the spelling is over, is one of 257: without this a small vocabulary would win.
    """
    return (tokens + count) * SPELLING


def log_probabilities(predictor: Predictor | Restorer, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the predictor says of each row, in float64; what is no logarithm of a probability is refused."""
    return _sound(rows, predictor.score(rows))


def matched(
    predictor: Predictor | Restorer, rows: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """The same; and of a predictor that counts, for each token, how long the n-gram was by which it was told."""
    if not isinstance(predictor, Matching):
        return log_probabilities(predictor, rows), None
    told, lengths = predictor.score_matching(rows)
    return _sound(rows, told), lengths


def _sound(rows: Sequence[np.ndarray], told: Sequence[np.ndarray]) -> list[np.ndarray]:
    sound = [np.asarray(scores, np.float64) for scores in told]
    for row, scores in zip(rows, sound, strict=True):
        if scores.shape != (len(row) - 1,) or np.isnan(scores).any():
            raise no_numbers()
    return sound


def no_numbers() -> ForebearError:
    """What to say of a run whose scores cannot be used."""
    return ForebearError(
        "the run's scores are no numbers: its weights are damaged or its training went astray",
        remedy="use an earlier checkpoint, or train again with a smaller learning rate",
    )


def batches(items: Iterable[Item], length: Callable[[Item], int], budget: int = BUDGET) -> Iterator[list[Item]]:
    """The items in order, as many at once as the budget of tokens allows; a longer one comes alone."""
    held: list[Item] = []
    tokens = 0
    for item in items:
        mine = length(item)
        if held and tokens + mine > budget:
            yield held
            held, tokens = [], 0
        held.append(item)
        tokens += mine
    if held:
        yield held
