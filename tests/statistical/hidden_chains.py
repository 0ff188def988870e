"""Small hidden Markov models, and what follows from their definition by going through every chain of states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from forebear.statistical.hmm import HMMModel, HMMParameters

UNKNOWN, END, PADDING = 0, 1, 2  # PADDING is never predicted
VOCABULARY = 6
WORDS = [UNKNOWN, 3, 4, 5]
texts = st.lists(st.lists(st.sampled_from(WORDS[:-1]), max_size=7), min_size=1, max_size=6)  # 5 is never seen


def tables(states: int, seed: int, *, sparse: bool = False) -> HMMParameters:
    """Probabilities by chance; with `sparse` some moves and words are impossible."""
    rng = np.random.default_rng(seed)
    moves = rng.random((states + 1, states + 1)) ** 2 + 0.01
    emissions = np.zeros((VOCABULARY, states + 1))
    emissions[WORDS, :-1] = rng.random((len(WORDS), states)) ** 2 + 0.01
    if sparse:
        moves *= rng.random(moves.shape) < 0.7
        moves[:, -1] += 0.1
        moves[-1, 0] += 0.1
        emissions[WORDS[1:], :-1] *= rng.random((len(WORDS) - 1, states)) < 0.6
        emissions[UNKNOWN, :-1] += 0.05
    emissions[END, -1] = 1.0
    return HMMParameters(moves / moves.sum(1, keepdims=True), emissions / emissions.sum(0), END)


def chains(model: HMMParameters, row: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every chain of states behind a row that begins with an end, and P of the chain with the row."""
    states = range(len(model.moves))
    for chain in product(*[states] * (len(row) - 1)):
        p, last = 1.0, model.border
        for state, token in zip(chain, row[1:], strict=True):
            p *= model.moves[last, state] * model.emissions[token, state]
            last = state
        yield chain, float(p)


def taught(model: HMMModel, rows: Sequence[Sequence[int]], seed: int = 0) -> HMMModel:
    """The model with these texts met, and first values."""
    model.prepass(np.bincount(laid(rows)[2], minlength=model.vocab_size))
    model.initialize(seed)
    return model


def laid(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts as a batch: tokens, lengths, targets."""
    lengths = np.array([len(row) + 1 for row in rows], np.int64)
    tokens = np.array([token for row in rows for token in [END, *row]], np.int64)
    targets = np.array([token for row in rows for token in [*row, END]], np.int64)
    return tokens, lengths, targets


def made(states: int = 3, smoothing: float = 0.1) -> HMMModel:
    return HMMModel(states=states, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing=smoothing)
