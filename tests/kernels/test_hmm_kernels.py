"""HMM kernels equal the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import hmm as kernels

VOCABULARY = 5


@st.composite
def random_hmms(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Tokens, ends, first, transitions and emissions: some are impossible, and one token is in every state."""
    states = draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    lengths = np.array(draw(st.lists(st.integers(0, 9), max_size=5)), np.int64)
    transitions, emissions = rng.random((states, states)) + 0.01, rng.random((VOCABULARY, states)) + 0.01
    if draw(st.booleans()):
        emissions *= rng.random(emissions.shape) < 0.7
        emissions[1] += 0.1
    emissions[0] = 0.0
    first = rng.random((len(lengths), states))
    tokens = rng.integers(draw(st.integers(0, 1)), VOCABULARY, int(lengths.sum()))
    probs = transitions / transitions.sum(1, keepdims=True), emissions / emissions.sum(0)
    return tokens, np.cumsum(lengths), first / first.sum(1, keepdims=True), *probs


@given(random_hmms())
def test_forward_filter_equals_the_reference(hmm: tuple[np.ndarray, ...]):
    for computed, expected in zip(kernels.forward_filter(*hmm), kernels.forward_filter_reference(*hmm), strict=True):
        assert computed == pytest.approx(expected)


@given(random_hmms())
def test_state_posteriors_equal_the_reference(hmm: tuple[np.ndarray, ...]):
    assert kernels.state_posteriors(*hmm) == pytest.approx(kernels.state_posteriors_reference(*hmm)[0], abs=1e-12)


@given(random_hmms())
def test_hmm_viterbi_equals_the_reference(hmm: tuple[np.ndarray, ...]):
    tokens, ends, *probs = hmm
    with np.errstate(divide="ignore"):
        logs = [np.log(prob) for prob in probs]
    assert np.array_equal(kernels.hmm_viterbi(tokens, ends, *logs), kernels.hmm_viterbi_reference(tokens, ends, *logs))


@given(random_hmms(), st.sampled_from([2, 4096]))
def test_baum_welch_counts_and_losses_equal_the_reference(hmm: tuple[np.ndarray, ...], block: int):
    tokens, ends, _, transitions, emissions = hmm
    border = np.tile(np.arange(len(transitions)) == len(transitions) - 1, (len(ends), 1)).astype(np.float64)
    transition_counts, emission_counts = np.zeros(transitions.shape, np.int64), np.zeros(emissions.shape, np.int64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "BLOCK", block)
        losses = kernels.baum_welch(tokens, ends, transitions, emissions, transition_counts, emission_counts)
    posteriors, expected_transitions = kernels.state_posteriors_reference(tokens, ends, border, transitions, emissions)
    logs, _ = kernels.forward_filter_reference(tokens, ends, border, transitions, emissions)
    begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    assert losses == pytest.approx([-logs[begin:end].sum() for begin, end in zip(begins, ends, strict=True)])
    assert transition_counts / kernels.UNIT == pytest.approx(expected_transitions, abs=1e-7)
    expected_emissions = np.zeros(emissions.shape)
    possible = logs > -np.inf  # tokens that no state emits are not counted
    np.add.at(expected_emissions, tokens[possible], posteriors[possible])
    assert emission_counts / kernels.UNIT == pytest.approx(expected_emissions, abs=1e-7)
