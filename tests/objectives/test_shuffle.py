"""Stateless shuffling: a permutation for every size, seed and epoch, without visible order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.objectives.shuffle import shuffled_positions


@given(size=st.integers(1, 5000), seed=st.integers(0, 2**63), epoch=st.integers(0, 2**31))
def test_shuffled_positions_are_a_permutation(size, seed, epoch):
    order = shuffled_positions(np.arange(size), size, seed=seed, epoch=epoch)
    assert np.array_equal(np.sort(order), np.arange(size))


@given(size=st.integers(2, 2**40), index=st.integers(0, 2**40), seed=st.integers(0, 100))
def test_shuffled_position_of_one_index_equals_that_in_an_array(size, index, seed):
    index %= size
    others = np.array([0, index, size - 1])
    assert shuffled_positions(index, size, seed=seed)[0] == shuffled_positions(others, size, seed=seed)[1]


def test_shuffled_positions_differ_by_seed_and_epoch_and_repeat():
    order = shuffled_positions(np.arange(1000), 1000, seed=1, epoch=0)
    assert np.array_equal(order, shuffled_positions(np.arange(1000), 1000, seed=1, epoch=0))
    assert (order != shuffled_positions(np.arange(1000), 1000, seed=1, epoch=1)).mean() > 0.99
    assert (order != shuffled_positions(np.arange(1000), 1000, seed=2, epoch=0)).mean() > 0.99


def test_shuffled_positions_are_uniform_and_uncorrelated():
    size, trials = 16, 4000
    positions = np.array([shuffled_positions(np.arange(size), size, seed=seed) for seed in range(trials)])
    counts = np.array([np.bincount(positions[:, i], minlength=size) for i in range(size)])
    expected = trials / size
    assert (
        (counts - expected) ** 2 / expected
    ).sum() < 330  # chi-squared, 225 degrees of freedom, far beyond 1 in 10,000
    order = shuffled_positions(np.arange(100_000), 100_000, seed=3)
    assert abs(np.corrcoef(np.arange(100_000), order)[0, 1]) < 0.015
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.015


def test_shuffled_positions_refuse_indices_out_of_range():
    for index in (-1, 10):
        with pytest.raises(IndexError):
            shuffled_positions(index, 10, seed=0)
