"""Small hidden Markov models, and probabilities by enumerating every path of states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from forebear.statistical.hmm import HMMModel, HMMParameters

UNKNOWN, END, PADDING = 0, 1, 2  # PADDING is never predicted
VOCABULARY = 6
WORDS = [UNKNOWN, 3, 4, 5]
text_lists = st.lists(st.lists(st.sampled_from(WORDS[:-1]), max_size=7), min_size=1, max_size=6)  # 5 never occurs


def random_hmm(states: int, seed: int, *, sparse: bool = False) -> HMMParameters:
    """Random probabilities; with `sparse` some transitions and words are impossible."""
    rng = np.random.default_rng(seed)
    transitions = rng.random((states + 1, states + 1)) ** 2 + 0.01
    emissions = np.zeros((VOCABULARY, states + 1))
    emissions[WORDS, :-1] = rng.random((len(WORDS), states)) ** 2 + 0.01
    if sparse:
        transitions *= rng.random(transitions.shape) < 0.7
        transitions[:, -1] += 0.1
        transitions[-1, 0] += 0.1
        emissions[WORDS[1:], :-1] *= rng.random((len(WORDS) - 1, states)) < 0.6
        emissions[UNKNOWN, :-1] += 0.05
    emissions[END, -1] = 1.0
    return HMMParameters(transitions / transitions.sum(1, keepdims=True), emissions / emissions.sum(0), END)


def state_paths(model: HMMParameters, row: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every path of states for a row that begins with an end, and the joint probability of path and row."""
    states = range(len(model.transitions))
    for path in product(*[states] * (len(row) - 1)):
        p, last = 1.0, model.boundary_state
        for state, token in zip(path, row[1:], strict=True):
            p *= model.transitions[last, state] * model.emissions[token, state]
            last = state
        yield path, float(p)


def initialized(model: HMMModel, rows: Sequence[Sequence[int]], seed: int = 0) -> HMMModel:
    """The model after the pre-pass over these texts, with initial parameters."""
    model.set_token_counts(np.bincount(text_batch(rows)[2], minlength=model.vocab_size))
    model.initialize(seed)
    return model


def text_batch(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A batch of texts: tokens, lengths, targets."""
    lengths = np.array([len(row) + 1 for row in rows], np.int64)
    tokens = np.array([token for row in rows for token in [END, *row]], np.int64)
    targets = np.array([token for row in rows for token in [*row, END]], np.int64)
    return tokens, lengths, targets


def new_hmm(states: int = 3, smoothing: float = 0.1) -> HMMModel:
    return HMMModel(states=states, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing=smoothing)
