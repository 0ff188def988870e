"""How probable very many texts are, each in all: one array of numbers, and nothing is made for each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.statistics.ngram import NgramModel
from forebear.using.texts import batches, end_of, log_probabilities, row_of

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Predictor


def totals(predictor: Predictor, tokenizer: Tokenizer, texts: Sequence[str], *, ends: bool = True) -> np.ndarray:
    """(n,) log P of each text, that it ends there included unless `ends` says otherwise; of no text at all it is 0."""
    several = isinstance(texts, Sequence) and not isinstance(texts, str)
    if not several or not all(issubclass(kind, str) for kind in set(map(type, texts))):
        raise BadInput("totals are asked of several texts", remedy='give a list of them, such as ["one", "another"]')
    end, (ids, counts) = end_of(tokenizer), tokenizer.encode_many(texts)
    if isinstance(predictor, NgramModel):
        lengths = counts.astype(np.int64) + 1 + ends
        firsts = np.cumsum(lengths) - lengths
        tokens, own = np.full(int(lengths.sum()), end, np.int32), np.ones(int(lengths.sum()), bool)
        own[firsts] = False
        if ends:
            own[firsts + lengths - 1] = False
        tokens[own] = ids
        told = predictor.score_laid(tokens, lengths)
        told[firsts] = 0.0  # what a text begins with is only seen
        return np.add.reduceat(told, firsts) if len(firsts) else told
    rows = (row_of(row, end, ends=ends) for row in np.split(ids, np.cumsum(counts)[:-1]))
    scores = (mine for group in batches(rows, len) for mine in log_probabilities(predictor, group))
    return np.array([float(mine.sum()) for mine in scores][: len(counts)])
