"""Figures of a batch in which something is hidden: what became of it, and that nothing is half hidden or mixed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING, Batch, Objective
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.objectives.sentence_pairs import Passages
from forebear.objectives.units import word_begins

if TYPE_CHECKING:
    from forebear.text.portion import Portion


def fates_of(batch: Batch, mask: int) -> np.ndarray:
    """(T,) "masked", "random" or "kept" where a token is asked for, and nothing elsewhere."""
    seen, asked = batch.inputs["tokens"], batch.targets["token"]
    told = np.where(seen == mask, "masked", np.where(seen == asked, "kept", "random"))
    return np.where(asked == NOTHING, "", told)


def answers_of(objective: Objective) -> tuple[str, ...]:
    """What may be answered about the two halves of a row, where that is asked beside what is hidden."""
    inner = objective.inner if isinstance(objective, MaskedTokens) else None
    return inner.answers if isinstance(inner, Passages) else ()


def hidden_figures(batch: Batch, source: Portion, objective: MaskedTokens) -> dict[str, Any]:
    """Of the whole batch; and of the whole text, what was too long for a row."""
    assert batch.places is not None
    fates = fates_of(batch, objective.mask)
    asked = max(1, int(np.count_nonzero(fates != "")))
    text = int(np.count_nonzero(batch.places != NOTHING))
    told: dict[str, Any] = {
        "hidden_share": float(np.count_nonzero(fates != "") / max(1, text)),
        "fates": {fate: float(np.count_nonzero(fates == fate) / asked) for fate in ("masked", "random", "kept")},
        "mixed_halves": _mixed(batch, source),
        "words_half_hidden": _half_hidden(batch, source),
    }
    answers = answers_of(objective)
    if "pair" in batch.targets:
        pairs = batch.targets["pair"]
        told["pairs"] = {answer: int(np.count_nonzero(pairs == number)) for number, answer in enumerate(answers)}
        told["pairs_unasked"] = int(np.count_nonzero(pairs == NOTHING))
    if isinstance(objective.inner, Passages):
        pieces = objective.inner.pieces(source)
        told |= {"long_sentences": pieces.cut, "tokens_left_away": pieces.left_away}
    return told


def _mixed(batch: Batch, source: Portion) -> int:
    """Stretches of text within a row, from one special token to the next, that lie in more than one document."""
    assert batch.places is not None
    inside = batch.places != NOTHING
    starts = source.corpus.starts
    document = np.searchsorted(starts, np.maximum(batch.places, 0), side="right")
    together = inside[1:] & inside[:-1]
    return int(np.count_nonzero(together & (document[1:] != document[:-1])))


def _half_hidden(batch: Batch, source: Portion) -> int | None:
    """Words of which a part is hidden and a part is not; None where nobody knows where words begin."""
    try:
        words = np.cumsum(word_begins(batch, source))
    except BadInput:
        return None
    hidden = (batch.targets["token"] != NOTHING).astype(np.int64)
    sizes, parts = np.bincount(words), np.bincount(words, hidden)
    return int(np.count_nonzero((parts > 0) & (parts < sizes)))
