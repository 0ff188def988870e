"""Beside hmmlearn's CategoricalHMM: the same parameters give the same probabilities, chains and iterations.

hmmlearn knows no end of a text, so that here ends are left out of the question: moves to the border are equally
probable from everywhere, and say nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.statistical.hmm import HMMModel, HMMParameters

peer = pytest.importorskip("hmmlearn.hmm")

END, WORDS, SHARE = 0, 7, 0.1  # of tokens that are ends
sentences = st.lists(st.lists(st.integers(1, WORDS), min_size=1, max_size=9), min_size=1, max_size=5)


def both(states: int, seed: int) -> tuple[HMMParameters, Any]:
    rng = np.random.default_rng(seed)
    start, moves = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(states), states)
    words = rng.dirichlet(np.ones(WORDS), states)
    theirs = peer.CategoricalHMM(
        states, n_features=WORDS, init_params="", implementation="scaling", n_iter=1, tol=0.0,
        startprob_prior=1.0, transmat_prior=1.0, emissionprob_prior=1.0,
    )  # fmt: skip
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = start, moves, words
    own = np.zeros((states + 1, states + 1))
    own[:-1, :-1], own[:-1, -1], own[-1, :-1] = (1 - SHARE) * moves, SHARE, start
    emissions = np.zeros((WORDS + 1, states + 1))
    emissions[1:, :-1], emissions[END, -1] = words.T, 1.0
    return HMMParameters(own, emissions, END), theirs


@given(sentences, st.integers(1, 4), st.integers(0, 20))
def test_the_same_probabilities_states_and_chains(rows: list[list[int]], states: int, seed: int):
    mine, theirs = both(states, seed)
    for row in rows:
        seen, given_row = np.array(row)[:, None] - 1, np.array([END, *row])
        log, hindsight = theirs.score_samples(seen)
        # the first move of all is by chance alone; every other one leaves 1 - SHARE to the states
        assert mine.score([given_row])[0].sum() == pytest.approx(log + (len(row) - 1) * np.log(1 - SHARE))
        assert mine.posteriors([given_row])[0][:, :-1] == pytest.approx(hindsight, abs=1e-9)
        log, chain = theirs.decode(seen, algorithm="viterbi")
        assert mine.viterbi([given_row])[0].tolist() == chain.tolist()


@given(sentences, st.integers(1, 4), st.integers(0, 20))
def test_the_same_iteration(rows: list[list[int]], states: int, seed: int):
    mine, theirs = both(states, seed)
    model = HMMModel(states=states, vocabulary=WORDS + 1, end=END, smoothing=0.0)
    counts = np.bincount(laid_here(rows)[2], minlength=WORDS + 1)
    own = mine.emissions[:, :-1].copy()
    model.load({"moves": mine.moves, "words": own, "counts": counts, "iterations": np.zeros(1, np.int64)})
    model.accumulate(*laid_here(rows))
    model.update()
    told = model.finalize()
    theirs.fit(np.array([word for row in rows for word in row])[:, None] - 1, [len(row) for row in rows])
    assert told.moves[-1, :-1] == pytest.approx(theirs.startprob_, abs=1e-6)
    words = told.emissions[1:, :-1].T
    assert words == pytest.approx(theirs.emissionprob_, abs=1e-6)
    going_on = told.moves[:-1, :-1].sum(1)
    for state in np.flatnonzero(going_on > 1e-6):
        assert told.moves[state, :-1] / going_on[state] == pytest.approx(theirs.transmat_[state], abs=1e-5)


def laid_here(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(row) + 1 for row in rows])
    tokens = np.array([token for row in rows for token in [END, *row]])
    return tokens, lengths, np.array([token for row in rows for token in [*row, END]])
