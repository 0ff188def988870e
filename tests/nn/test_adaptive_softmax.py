"""The adaptive softmax against torch's module with equal weights; normalized probabilities; initialization."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.softmax import NUM_FREQUENT, AdaptiveSoftmax, cluster_cutoffs


def fill_parameters(softmax: AdaptiveSoftmax, seed: int = 0) -> AdaptiveSoftmax:
    generator = torch.Generator().manual_seed(seed)
    for module in softmax.modules():
        for name, value in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.randn(value.shape, generator=generator)))
    return softmax


def peer_of(softmax: AdaptiveSoftmax, inputs: int) -> nn.AdaptiveLogSoftmaxWithLoss:
    """torch's module with equal weights; its clusters get biases, which they lack."""
    borders = list(softmax.cutoffs)
    peer = nn.AdaptiveLogSoftmaxWithLoss(inputs, softmax.vocab_size, borders, div_value=2, head_bias=True)
    peer.head.weight, peer.head.bias = softmax.scores.weight, softmax.scores.bias
    for tail, group in zip(peer.tail, softmax.groups, strict=True):
        tail[0], tail[1] = group.narrow, group.scores
    return peer


@pytest.mark.parametrize("borders", [(5,), (5, 11), (3, 7, 20)])
def test_adaptive_softmax_and_gradients_equal_torch(borders: tuple[int, ...]):
    softmax = fill_parameters(AdaptiveSoftmax(8, 31, borders))
    peer = peer_of(softmax, 8)
    x, target = torch.randn(40, 8), torch.randint(0, 31, (40,))
    assert torch.allclose(softmax(x), peer.log_prob(x), atol=1e-5)
    assert torch.allclose(softmax.log_probs(x, target), peer(x, target).output, atol=1e-5)
    gradients = []
    for loss in (softmax.loss(x, target), -peer(x, target).output.sum()):
        softmax.zero_grad()
        loss.backward()
        gradients.append([value.grad.clone() for value in softmax.parameters()])
    for gradient, expected in zip(*gradients, strict=True):
        assert torch.allclose(gradient, expected, atol=1e-4)


@given(vocabulary=st.integers(2, 40), cuts=st.sets(st.integers(1, 39), max_size=4), seed=st.integers(0, 99))
def test_adaptive_softmax_probabilities_sum_to_one(vocabulary: int, cuts: set[int], seed: int):
    borders = tuple(sorted(cut for cut in cuts if cut < vocabulary))
    softmax = fill_parameters(AdaptiveSoftmax(4, vocabulary, borders), seed)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    scores, target = softmax(x).double().detach(), torch.arange(6) % vocabulary
    log_probs = scores if borders else scores.log_softmax(1)  # with clusters the scores are log-probabilities already
    assert log_probs.exp().sum(1).tolist() == pytest.approx([1] * 6, abs=1e-5)
    target_log_probs = softmax.log_probs(x, target).detach()
    assert target_log_probs.tolist() == pytest.approx(log_probs[range(6), target].tolist(), abs=1e-4)
    assert softmax.loss(x, target).item() == pytest.approx(-float(target_log_probs.sum()), abs=1e-3)


def test_adaptive_softmax_without_clusters_is_plain_softmax():
    softmax = fill_parameters(AdaptiveSoftmax(8, 31))
    x, target = torch.randn(9, 8), torch.randint(0, 31, (9,))
    expected = nn.functional.cross_entropy(softmax.scores(x), target, reduction="sum").item()
    assert softmax.loss(x, target).item() == pytest.approx(expected, abs=1e-4)


def test_cluster_without_targets_has_zero_gradient():
    softmax = fill_parameters(AdaptiveSoftmax(8, 31, (5, 11)))
    softmax.loss(torch.randn(3, 8), torch.tensor([1, 6, 2])).backward()
    assert softmax.groups[1].scores.weight.grad.abs().max() == 0
    assert softmax.groups[0].scores.weight.grad.abs().max() > 0


def test_cluster_cutoffs_stay_as_the_vocabulary_grows():
    assert cluster_cutoffs(NUM_FREQUENT) == ()
    assert cluster_cutoffs(NUM_FREQUENT + 1) == (NUM_FREQUENT,)
    for smaller, larger in ((30_000, 33_000), (33_000, 300_000)):
        assert cluster_cutoffs(larger)[: len(cluster_cutoffs(smaller))] == cluster_cutoffs(smaller)
    assert all(border < 30_000 for border in cluster_cutoffs(30_000))


@pytest.mark.parametrize("borders", [(), (5, 11)])
def test_initial_probabilities_follow_zipfs_law(borders: tuple[int, ...]):
    softmax = Model(AdaptiveSoftmax(8, 31, borders), {}).initialize(0).encoder
    ids = torch.arange(31.0)
    expected = torch.log((ids + 2) / (ids + 1)) / math.log(32)
    torch.testing.assert_close(softmax(torch.zeros(1, 8)).softmax(1)[0], expected, rtol=1e-5, atol=1e-7)
    words = WordEmbedding(31, 8)
    head = (
        Model(nn.Identity(), {"next": LMHead(words, bias=True, sorted_by_frequency=True)}).initialize(0).heads["next"]
    )
    torch.testing.assert_close(head.bias.softmax(0), expected, rtol=1e-5, atol=1e-7)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
