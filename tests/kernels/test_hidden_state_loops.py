"""Chains of hidden states: compiled loops and numpy's way agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels import hmm as kernels
from forebear.kernels import hmm as plainly

VOCABULARY = 5


@st.composite
def asked(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Tokens, ends, first, moves and emissions: some of them impossible, and one token in every state."""
    states = draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    lengths = np.array(draw(st.lists(st.integers(0, 9), max_size=5)), np.int64)
    moves, emissions = rng.random((states, states)) + 0.01, rng.random((VOCABULARY, states)) + 0.01
    if draw(st.booleans()):
        emissions *= rng.random(emissions.shape) < 0.7
        emissions[1] += 0.1
    emissions[0] = 0.0
    first = rng.random((len(lengths), states))
    tokens = rng.integers(draw(st.integers(0, 1)), VOCABULARY, int(lengths.sum()))
    shares = moves / moves.sum(1, keepdims=True), emissions / emissions.sum(0)
    return tokens, np.cumsum(lengths), first / first.sum(1, keepdims=True), *shares


@given(asked())
def test_forwards(given_all: tuple[np.ndarray, ...]):
    for one, other in zip(
        kernels.forward_filter(*given_all), plainly.forward_filter_reference(*given_all), strict=True
    ):
        assert one == pytest.approx(other)


@given(asked())
def test_from_both_sides(given_all: tuple[np.ndarray, ...]):
    assert kernels.state_posteriors(*given_all) == pytest.approx(
        plainly.state_posteriors_reference(*given_all)[0], abs=1e-12
    )


@given(asked())
def test_the_best_chain(given_all: tuple[np.ndarray, ...]):
    tokens, ends, *shares = given_all
    with np.errstate(divide="ignore"):
        logs = [np.log(share) for share in shares]
    assert np.array_equal(kernels.hmm_viterbi(tokens, ends, *logs), plainly.hmm_viterbi_reference(tokens, ends, *logs))


@given(asked(), st.sampled_from([2, 4096]))
def test_what_is_expected(given_all: tuple[np.ndarray, ...], block: int):
    tokens, ends, _, moves, emissions = given_all
    border = np.tile(np.arange(len(moves)) == len(moves) - 1, (len(ends), 1)).astype(np.float64)
    told_moves, told_words = np.zeros(moves.shape, np.int64), np.zeros(emissions.shape, np.int64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "BLOCK", block)
        losses = kernels.baum_welch(tokens, ends, moves, emissions, told_moves, told_words)
    found, moved = plainly.state_posteriors_reference(tokens, ends, border, moves, emissions)
    logs, _ = plainly.forward_filter_reference(tokens, ends, border, moves, emissions)
    begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    assert losses == pytest.approx([-logs[begin:end].sum() for begin, end in zip(begins, ends, strict=True)])
    assert told_moves / kernels.UNIT == pytest.approx(moved, abs=1e-7)
    words = np.zeros(emissions.shape)
    possible = logs > -np.inf  # what no state says is not counted
    np.add.at(words, tokens[possible], found[possible])
    assert told_words / kernels.UNIT == pytest.approx(words, abs=1e-7)
