"""CRF kernels against the numpy reference, and both against a sum over all labelings."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.kernels import crf
from forebear.tasks import tagging


def random_crf(labels: int, lengths: list[int], seed: int, spread: float = 1.0):
    rng = np.random.default_rng(seed)
    words = sum(lengths)
    scores, transitions = rng.normal(size=(words, labels)) * spread, rng.normal(size=(labels, labels)) * spread
    return scores, transitions, rng.normal(size=labels), rng.normal(size=labels), rng.integers(0, labels, words)


def compiled_forward_backward(scores, transitions, start, end, gold, lengths):
    """(log Z, marginals, expected transitions, starts and ends) by the compiled kernel."""
    labels = scores.shape[1]
    width = crf.padded_labels(labels)
    padded = np.zeros((len(scores), width))
    padded[:, :labels] = scores
    workspace = np.empty(width)
    levels = crf.exponentials(padded, labels, workspace, workspace.view(np.int64))
    powers = np.zeros((width, width)), np.zeros(width), np.zeros(width)
    powers[0][:labels, :labels], powers[1][:labels], powers[2][:labels] = (
        np.exp(transitions),
        np.exp(start),
        np.exp(end),
    )
    expected, edges = np.zeros((width, width)), np.zeros((2, width))
    log_z = crf.forward_backward(padded, np.array(lengths), powers, gold, expected, edges) + levels.sum()
    padded[np.arange(len(gold)), gold] += 1
    return log_z, padded[:, :labels], (expected * powers[0])[:labels, :labels], edges[:, :labels]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 10**6))
def test_forward_backward_and_viterbi_equal_a_sum_over_all_labelings(labels: int, words: int, seed: int):
    scores, transitions, start, end, gold = random_crf(labels, [words], seed)
    labelings = list(product(range(labels), repeat=words))
    total = np.array(
        [
            start[labeling[0]]
            + end[labeling[-1]]
            + sum(scores[word, label] for word, label in enumerate(labeling))
            + sum(transitions[a, b] for a, b in pairwise(labeling))
            for labeling in labelings
        ]
    )
    log_sum = np.log(np.exp(total - total.max()).sum()) + total.max()
    p = np.exp(total - log_sum)
    marginals = np.array(
        [
            [p[[labeling[word] == label for labeling in labelings]].sum() for label in range(labels)]
            for word in range(words)
        ]
    )
    for log_z, computed in (
        compiled_forward_backward(scores, transitions, start, end, gold, [words])[:2],
        crf.forward_backward_reference(scores, transitions, start, end)[:2],
    ):
        assert log_z == pytest.approx(log_sum, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(computed, marginals, atol=1e-12)
    assert tuple(crf.viterbi(scores, np.array([words]), transitions, start, end)) == labelings[int(total.argmax())]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 10**6))
def test_crf_kernels_equal_the_numpy_reference(lengths: list[int], labels: int, seed: int):
    scores, transitions, start, end, gold = random_crf(labels, lengths, seed, spread=3.0)
    log_z, marginals, expected, edges = compiled_forward_backward(scores, transitions, start, end, gold, lengths)
    ends = np.cumsum(lengths)
    sentences = [
        crf.forward_backward_reference(scores[last - size : last], transitions, start, end)
        for size, last in zip(lengths, ends.tolist(), strict=True)
        if size
    ]
    assert log_z == pytest.approx(sum(sentence[0] for sentence in sentences), abs=1e-9)
    if sentences:
        np.testing.assert_allclose(marginals, np.concatenate([sentence[1] for sentence in sentences]), atol=1e-10)
        np.testing.assert_allclose(expected, sum(sentence[2] for sentence in sentences), atol=1e-9)
        np.testing.assert_allclose(edges[0], sum(sentence[1][0] for sentence in sentences), atol=1e-10)
        np.testing.assert_allclose(edges[1], sum(sentence[1][-1] for sentence in sentences), atol=1e-10)
    best_path = crf.viterbi(scores, np.array(lengths), transitions, start, end)
    assert (best_path == tagging.chain_viterbi(scores, lengths, transitions, start, end)).all()


def test_chain_viterbi_of_many_words_uses_the_kernel_with_equal_results(monkeypatch: pytest.MonkeyPatch):
    scores, transitions, start, end, _ = random_crf(5, [7, 0, 3], 1)
    uncompiled = tagging.chain_viterbi(scores, [7, 0, 3], transitions, start, end)
    monkeypatch.setattr(tagging, "MIN_COMPILED_SIZE", 0)
    assert (tagging.chain_viterbi(scores, [7, 0, 3], transitions, start, end) == uncompiled).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_emission_scores_and_gradients_equal_the_reference(seed: int, labels: int):
    rng = np.random.default_rng(seed)
    width = crf.padded_labels(labels)
    sizes = rng.choice([0, 1, min(2, labels), width], 12)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    feature_labels = [rng.permutation(labels)[:size] if size < width else np.arange(width) for size in sizes]
    all_labels = np.concatenate([*feature_labels, np.empty(0)]).astype(np.uint16)
    offsets = np.concatenate(([0], np.cumsum([len(labels_of_feature) for labels_of_feature in feature_labels])))
    weights, features = rng.normal(size=offsets[-1]), rng.integers(-1, 12, (6, 4)).astype(np.int32)
    scores = np.empty((6, width))
    crf.emission_scores_kernel(features, offsets, all_labels, weights, 0, 6, scores)
    np.testing.assert_allclose(
        scores, crf.emission_scores_reference(features, offsets, all_labels, weights, width), atol=1e-12
    )
    gradient = np.zeros(len(weights))
    for first, last in ((0, 1), (1, 4)):  # templates, shared out
        crf.add_emission_gradient(features, offsets, all_labels, scores, 0, 6, first, last, gradient)
    np.testing.assert_allclose(
        gradient, crf.emission_gradient_reference(features, offsets, all_labels, scores), atol=1e-12
    )


def test_exponentials_equal_numpys_and_are_clipped():
    scores = np.linspace(-800, 5, 4 * 4000).reshape(-1, 4)
    powers, workspace = scores.copy(), np.empty(4)
    levels = crf.exponentials(powers, 4, workspace, workspace.view(np.int64))
    expected = np.exp(np.maximum(scores - scores.max(1, keepdims=True), crf.LOWEST))
    np.testing.assert_allclose(powers, expected, rtol=4e-16)
    assert (levels == scores.max(1)).all()
    extreme = np.array([[0.0, -2000.0, -699.0, -701.0]])
    crf.exponentials(extreme, 3, workspace, workspace.view(np.int64))
    np.testing.assert_allclose(extreme[0], [1, np.exp(-700.0), np.exp(-699.0), 0], rtol=1e-13)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forward_backward_of_overflowing_scores_is_infinite():
    lengths = np.array([2])
    log_z, *_ = compiled_forward_backward(
        np.zeros((2, 2)), np.full((2, 2), 800.0), np.zeros(2), np.zeros(2), np.zeros(2, int), lengths
    )
    assert log_z == np.inf
