"""Compiled chains of labels beside numpy's way, and both beside all labellings that there are."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.kernels import crf
from forebear.tasks import tagging


def told_apart(labels: int, lengths: list[int], seed: int, spread: float = 1.0):
    chance = np.random.default_rng(seed)
    words = sum(lengths)
    scores, moves = chance.normal(size=(words, labels)) * spread, chance.normal(size=(labels, labels)) * spread
    return scores, moves, chance.normal(size=labels), chance.normal(size=labels), chance.integers(0, labels, words)


def compiled(scores, moves, start, end, right, lengths):
    """(cost, marginals, expected moves, starts and ends) by the compiled loops."""
    labels = scores.shape[1]
    width = crf.padded_labels(labels)
    wide = np.zeros((len(scores), width))
    wide[:, :labels] = scores
    room = np.empty(width)
    levels = crf.exponentials(wide, labels, room, room.view(np.int64))
    powers = np.zeros((width, width)), np.zeros(width), np.zeros(width)
    powers[0][:labels, :labels], powers[1][:labels], powers[2][:labels] = np.exp(moves), np.exp(start), np.exp(end)
    expected, edges = np.zeros((width, width)), np.zeros((2, width))
    cost = crf.forward_backward(wide, np.array(lengths), powers, right, expected, edges) + levels.sum()
    wide[np.arange(len(right)), right] += 1
    return cost, wide[:, :labels], (expected * powers[0])[:labels, :labels], edges[:, :labels]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 10**6))
def test_all_labellings_of_a_short_sentence(labels: int, words: int, seed: int):
    scores, moves, start, end, right = told_apart(labels, [words], seed)
    every = list(product(range(labels), repeat=words))
    total = np.array(
        [
            start[one[0]]
            + end[one[-1]]
            + sum(scores[word, label] for word, label in enumerate(one))
            + sum(moves[a, b] for a, b in pairwise(one))
            for one in every
        ]
    )
    log_sum = np.log(np.exp(total - total.max()).sum()) + total.max()
    p = np.exp(total - log_sum)
    marginals = np.array(
        [[p[[one[word] == label for one in every]].sum() for label in range(labels)] for word in range(words)]
    )
    for cost, found in (
        compiled(scores, moves, start, end, right, [words])[:2],
        crf.forward_backward_reference(scores, moves, start, end)[:2],
    ):
        assert cost == pytest.approx(log_sum, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(found, marginals, atol=1e-12)
    assert tuple(crf.viterbi(scores, np.array([words]), moves, start, end)) == every[int(total.argmax())]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 10**6))
def test_the_compiled_way_is_numpys(lengths: list[int], labels: int, seed: int):
    scores, moves, start, end, right = told_apart(labels, lengths, seed, spread=3.0)
    cost, marginals, expected, edges = compiled(scores, moves, start, end, right, lengths)
    ends = np.cumsum(lengths)
    parts = [
        crf.forward_backward_reference(scores[last - size : last], moves, start, end)
        for size, last in zip(lengths, ends.tolist(), strict=True)
        if size
    ]
    assert cost == pytest.approx(sum(part[0] for part in parts), abs=1e-9)
    if parts:
        np.testing.assert_allclose(marginals, np.concatenate([part[1] for part in parts]), atol=1e-10)
        np.testing.assert_allclose(expected, sum(part[2] for part in parts), atol=1e-9)
        np.testing.assert_allclose(edges[0], sum(part[1][0] for part in parts), atol=1e-10)
        np.testing.assert_allclose(edges[1], sum(part[1][-1] for part in parts), atol=1e-10)
    found = crf.viterbi(scores, np.array(lengths), moves, start, end)
    assert (found == tagging.chain_viterbi(scores, lengths, moves, start, end)).all()


def test_many_words_are_judged_by_compiled_loops(monkeypatch: pytest.MonkeyPatch):
    scores, moves, start, end, _ = told_apart(5, [7, 0, 3], 1)
    plainly = tagging.chain_viterbi(scores, [7, 0, 3], moves, start, end)
    monkeypatch.setattr(tagging, "MIN_COMPILED_SIZE", 0)
    assert (tagging.chain_viterbi(scores, [7, 0, 3], moves, start, end) == plainly).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_scores_and_gradients_of_features(seed: int, labels: int):
    chance = np.random.default_rng(seed)
    width = crf.padded_labels(labels)
    sizes = chance.choice([0, 1, min(2, labels), width], 12)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    own = [chance.permutation(labels)[:size] if size < width else np.arange(width) for size in sizes]
    of_labels = np.concatenate([*own, np.empty(0)]).astype(np.uint16)
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in own])))
    weights, features = chance.normal(size=offsets[-1]), chance.integers(-1, 12, (6, 4)).astype(np.int32)
    scores = np.empty((6, width))
    crf.emission_scores_kernel(features, offsets, of_labels, weights, 0, 6, scores)
    np.testing.assert_allclose(
        scores, crf.emission_scores_reference(features, offsets, of_labels, weights, width), atol=1e-12
    )
    found = np.zeros(len(weights))
    for first, last in ((0, 1), (1, 4)):  # templates, shared out
        crf.add_emission_gradient(features, offsets, of_labels, scores, 0, 6, first, last, found)
    np.testing.assert_allclose(found, crf.emission_gradient_reference(features, offsets, of_labels, scores), atol=1e-12)


def test_powers_of_e():
    wide = np.linspace(-800, 5, 4 * 4000).reshape(-1, 4)
    made, room = wide.copy(), np.empty(4)
    levels = crf.exponentials(made, 4, room, room.view(np.int64))
    right = np.exp(np.maximum(wide - wide.max(1, keepdims=True), crf.LOWEST))
    np.testing.assert_allclose(made, right, rtol=4e-16)
    assert (levels == wide.max(1)).all()
    far = np.array([[0.0, -2000.0, -699.0, -701.0]])
    crf.exponentials(far, 3, room, room.view(np.int64))
    np.testing.assert_allclose(far[0], [1, np.exp(-700.0), np.exp(-699.0), 0], rtol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_beyond_numbers_has_no_cost():
    lengths = np.array([2])
    cost, *_ = compiled(np.zeros((2, 2)), np.full((2, 2), 800.0), np.zeros(2), np.zeros(2), np.zeros(2, int), lengths)
    assert cost == np.inf
