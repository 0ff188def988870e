"""Sampled softmax: exact if all words are sampled, unbiased on average otherwise."""

from __future__ import annotations

import math

import pytest
import torch
from small_recurrent_layers import random_tensor
from torch import Tensor, nn

from forebear.nn.encoder import States
from forebear.nn.heads import LMHead
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.softmax import AdaptiveSoftmax, log_inclusion_prob, sample_zipf, sampled_softmax_loss

WORDS, WIDTH, ROWS = 12, 5, 60


def random_problem(words: int = WORDS, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, weight, bias and targets."""
    shapes = ((ROWS, WIDTH), (words, WIDTH), (words,))
    x, weight, bias = (random_tensor(*shape, seed=seed, dtype=torch.float32) for seed, shape in enumerate(shapes))
    target = torch.arange(ROWS) * 7 % words
    return x.requires_grad_(), (spread * weight).requires_grad_(), (spread * bias).requires_grad_(), target


def reference_loss(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(x @ weight.t() + bias, target, reduction="sum")


def test_sampled_softmax_of_all_words_equals_cross_entropy():
    x, weight, bias, target = random_problem()
    torch.manual_seed(0)
    losses = [sampled_softmax_loss(x, weight, bias, target, 20_000), reference_loss(x, weight, bias, target)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    gradients = [torch.autograd.grad(loss, [x, weight, bias]) for loss in losses]
    for gradient, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


def test_sampled_softmax_without_bias_equals_cross_entropy():
    x, weight, _, target = random_problem()
    torch.manual_seed(0)
    expected = reference_loss(x, weight, torch.zeros(WORDS), target)
    assert sampled_softmax_loss(x, weight, None, target, 20_000).item() == pytest.approx(expected.item(), rel=1e-5)


def mean_gradient(tries: int, seeds: int) -> tuple[Tensor, Tensor]:
    """Of the weights, averaged over samples; and the exact one. Both are means over targets."""
    x, weight, bias, target = random_problem(200, 0.3)
    total = torch.zeros_like(weight)
    for seed in range(seeds):
        torch.manual_seed(seed)
        total += torch.autograd.grad(sampled_softmax_loss(x, weight, bias, target, tries), weight)[0]
    (expected,) = torch.autograd.grad(reference_loss(x, weight, bias, target), weight)
    return total / seeds / ROWS, expected / ROWS


def test_mean_sampled_gradient_approaches_cross_entropy_gradient():
    """Closer with more samples. Without the correction for sampling probability, it is 17% and 12% off."""
    for tries, max_error in ((100, 0.08), (200, 0.05)):
        actual, expected = mean_gradient(tries, 150)
        assert float((actual - expected).norm()) < max_error * float(expected.norm())


def test_sampled_softmax_excludes_target_from_negatives():
    """With a vocabulary of one word there is no negative, so the loss is 0."""
    x, weight = random_tensor(4, WIDTH, dtype=torch.float32), random_tensor(1, WIDTH, dtype=torch.float32)
    loss = sampled_softmax_loss(x, weight, None, torch.zeros(4, dtype=torch.long), 5)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_sample_zipf_follows_zipfs_law():
    torch.manual_seed(0)
    ids = sample_zipf(400_000, 9, torch.device("cpu"))
    expected = [math.log((number + 2) / (number + 1)) / math.log(10) for number in range(9)]
    assert sum(expected) == pytest.approx(1.0)
    frequencies = (torch.bincount(ids, minlength=9) / len(ids)).tolist()
    assert frequencies == pytest.approx(expected, abs=0.004)  # five standard deviations


def test_log_inclusion_prob_equals_observed_frequency():
    torch.manual_seed(0)
    tries, words, num_samples = 20, 50, 4000
    counts = torch.zeros(words)
    for _ in range(num_samples):
        counts[torch.unique(sample_zipf(tries, words, torch.device("cpu")))] += 1
    expected = log_inclusion_prob(torch.arange(words), words, tries).exp()
    assert float(expected[0]) > 0.9
    assert float(expected[-1]) < 0.15
    assert torch.allclose(counts / num_samples, expected, atol=0.035)  # more than four standard deviations


def test_eval_mode_computes_full_softmax():
    """Of a separate softmax and of one tied to the embedding."""
    x, weight, bias, target = random_problem()
    softmax = AdaptiveSoftmax(WIDTH, WORDS, num_samples=3)
    softmax.scores.weight, softmax.scores.bias = nn.Parameter(weight), nn.Parameter(bias)
    words = WordEmbedding(WORDS, WIDTH)
    head = LMHead(words, bias=True, num_samples=3)
    words.token.weight, head.bias = nn.Parameter(weight), nn.Parameter(bias)
    expected = reference_loss(x, weight, bias, target).item()
    states = States([x], (ROWS,))
    for loss, module in ((lambda: softmax.loss(x, target), softmax), (lambda: head.loss(states, target), head)):
        torch.manual_seed(0)
        assert loss().item() != pytest.approx(expected, rel=1e-3)
        module.eval()
        assert loss().item() == pytest.approx(expected, rel=1e-5)


def test_sample_as_large_as_vocabulary_disables_sampling():
    assert AdaptiveSoftmax(WIDTH, WORDS, num_samples=WORDS).num_samples == 0
    assert AdaptiveSoftmax(WIDTH, WORDS, num_samples=WORDS - 1).num_samples == WORDS - 1
