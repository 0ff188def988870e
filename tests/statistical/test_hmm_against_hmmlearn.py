"""HMM against hmmlearn's CategoricalHMM: the same parameters give the same probabilities, paths and iterations.

hmmlearn has no end of a text, so ends carry no information here: transitions to the border are equally
probable from every state.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.statistical.hmm import HMMModel, HMMParameters

peer = pytest.importorskip("hmmlearn.hmm")

END, WORDS, END_SHARE = 0, 7, 0.1  # share of tokens that are ends
sentences = st.lists(st.lists(st.integers(1, WORDS), min_size=1, max_size=9), min_size=1, max_size=5)


def both_hmms(states: int, seed: int) -> tuple[HMMParameters, Any]:
    rng = np.random.default_rng(seed)
    start, transitions = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(states), states)
    emission_probs = rng.dirichlet(np.ones(WORDS), states)
    hmmlearn_model = peer.CategoricalHMM(
        states, n_features=WORDS, init_params="", implementation="scaling", n_iter=1, tol=0.0,
        startprob_prior=1.0, transmat_prior=1.0, emissionprob_prior=1.0,
    )  # fmt: skip
    hmmlearn_model.startprob_, hmmlearn_model.transmat_, hmmlearn_model.emissionprob_ = (
        start,
        transitions,
        emission_probs,
    )
    padded_transitions = np.zeros((states + 1, states + 1))
    padded_transitions[:-1, :-1], padded_transitions[:-1, -1], padded_transitions[-1, :-1] = (
        (1 - END_SHARE) * transitions,
        END_SHARE,
        start,
    )
    emissions = np.zeros((WORDS + 1, states + 1))
    emissions[1:, :-1], emissions[END, -1] = emission_probs.T, 1.0
    return HMMParameters(padded_transitions, emissions, END), hmmlearn_model


def path_log_prob(model: Any, row: list[int], path: list[int]) -> float:
    """log P of a path of states together with the words of a row."""
    transition_probs = [model.transmat_[states] for states in pairwise(path)]
    emission_probs = model.emissionprob_[path, np.array(row) - 1]
    return np.log([model.startprob_[path[0]], *transition_probs, *emission_probs]).sum()


@given(sentences, st.integers(1, 4), st.integers(0, 20))
def test_hmm_scores_posteriors_and_viterbi_equal_hmmlearns(rows: list[list[int]], states: int, seed: int):
    parameters, hmmlearn_model = both_hmms(states, seed)
    for row in rows:
        observations, row_with_end = np.array(row)[:, None] - 1, np.array([END, *row])
        log, posteriors = hmmlearn_model.score_samples(observations)
        # the first transition is free; every other one leaves 1 - END_SHARE to the states
        assert parameters.score([row_with_end])[0].sum() == pytest.approx(log + (len(row) - 1) * np.log(1 - END_SHARE))
        assert parameters.posteriors([row_with_end])[0][:, :-1] == pytest.approx(posteriors, abs=1e-9)
        log, path = hmmlearn_model.decode(observations, algorithm="viterbi")
        best_path = parameters.viterbi([row_with_end])[0].tolist()
        # rounding decides between paths of the same transitions in another order
        assert best_path == path.tolist() or path_log_prob(hmmlearn_model, row, best_path) == pytest.approx(
            log, abs=1e-9
        )


@given(sentences, st.integers(1, 4), st.integers(0, 20))
def test_baum_welch_iteration_equals_hmmlearns(rows: list[list[int]], states: int, seed: int):
    parameters, hmmlearn_model = both_hmms(states, seed)
    model = HMMModel(states=states, vocab_size=WORDS + 1, eos_id=END, smoothing=0.0)
    counts = np.bincount(text_batch(rows)[2], minlength=WORDS + 1)
    emissions = parameters.emissions[:, :-1].copy()
    model.load(
        {"moves": parameters.transitions, "words": emissions, "counts": counts, "iterations": np.zeros(1, np.int64)}
    )
    model.accumulate(*text_batch(rows))
    model.update()
    updated = model.smoothed_parameters()
    hmmlearn_model.fit(np.array([word for row in rows for word in row])[:, None] - 1, [len(row) for row in rows])
    assert updated.transitions[-1, :-1] == pytest.approx(hmmlearn_model.startprob_, abs=1e-6)
    words = updated.emissions[1:, :-1].T
    assert words == pytest.approx(hmmlearn_model.emissionprob_, abs=1e-6)
    continue_probs = updated.transitions[:-1, :-1].sum(1)
    for state in np.flatnonzero(continue_probs > 1e-6):
        assert updated.transitions[state, :-1] / continue_probs[state] == pytest.approx(
            hmmlearn_model.transmat_[state], abs=1e-5
        )


def text_batch(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(row) + 1 for row in rows])
    tokens = np.array([token for row in rows for token in [END, *row]])
    return tokens, lengths, np.array([token for row in rows for token in [*row, END]])
