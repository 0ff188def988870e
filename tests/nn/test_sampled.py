"""The softmax that is learned from a sample: exact where all words are drawn, near it on average where some are."""

from __future__ import annotations

import math

import pytest
import torch
from recurrent_layers import drawn
from torch import Tensor, nn

from forebear.nn.encoder import States
from forebear.nn.heads import LMHead
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.softmax import AdaptiveSoftmax, log_inclusion_prob, sample_zipf, sampled_softmax_loss

WORDS, WIDTH, ROWS = 12, 5, 60


def given(words: int = WORDS, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, weight, bias and targets."""
    shapes = ((ROWS, WIDTH), (words, WIDTH), (words,))
    x, weight, bias = (drawn(*shape, seed=seed, dtype=torch.float32) for seed, shape in enumerate(shapes))
    target = torch.arange(ROWS) * 7 % words
    return x.requires_grad_(), (spread * weight).requires_grad_(), (spread * bias).requires_grad_(), target


def exact(x: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(x @ weight.t() + bias, target, reduction="sum")


def test_with_all_words_drawn_it_is_the_plain_cross_entropy():
    x, weight, bias, target = given()
    torch.manual_seed(0)
    told = [sampled_softmax_loss(x, weight, bias, target, 20_000), exact(x, weight, bias, target)]
    assert told[0].item() == pytest.approx(told[1].item(), rel=1e-5)
    gradients = [torch.autograd.grad(one, [x, weight, bias]) for one in told]
    for own, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-4, atol=1e-5)


def test_without_biases_too():
    x, weight, _, target = given()
    torch.manual_seed(0)
    wanted = exact(x, weight, torch.zeros(WORDS), target)
    assert sampled_softmax_loss(x, weight, None, target, 20_000).item() == pytest.approx(wanted.item(), rel=1e-5)


def mean_gradient(tries: int, seeds: int) -> tuple[Tensor, Tensor]:
    """Of the weights, over so many samples; and the exact one. Both as a mean over targets."""
    x, weight, bias, target = given(200, 0.3)
    total = torch.zeros_like(weight)
    for seed in range(seeds):
        torch.manual_seed(seed)
        total += torch.autograd.grad(sampled_softmax_loss(x, weight, bias, target, tries), weight)[0]
    (wanted,) = torch.autograd.grad(exact(x, weight, bias, target), weight)
    return total / seeds / ROWS, wanted / ROWS


def test_on_average_it_pulls_where_the_plain_cross_entropy_pulls():
    """Nearer with more words drawn. Without what is taken off for being likely, it is 17 and 12 % off."""
    for tries, most in ((100, 0.08), (200, 0.05)):
        found, wanted = mean_gradient(tries, 150)
        assert float((found - wanted).norm()) < most * float(wanted.norm())


def test_the_right_word_is_never_weighed_against_itself():
    """One word, drawn for sure: nothing else is there, and the cost of it is none."""
    x, weight = drawn(4, WIDTH, dtype=torch.float32), drawn(1, WIDTH, dtype=torch.float32)
    cost = sampled_softmax_loss(x, weight, None, torch.zeros(4, dtype=torch.long), 5)
    assert cost.item() == pytest.approx(0.0, abs=1e-6)


def test_words_are_drawn_by_zipfs_law():
    torch.manual_seed(0)
    ids = sample_zipf(400_000, 9, torch.device("cpu"))
    wanted = [math.log((number + 2) / (number + 1)) / math.log(10) for number in range(9)]
    assert sum(wanted) == pytest.approx(1.0)
    shares = (torch.bincount(ids, minlength=9) / len(ids)).tolist()
    assert shares == pytest.approx(wanted, abs=0.004)  # five standard deviations


def test_how_likely_a_word_is_to_be_there_is_what_trying_finds():
    torch.manual_seed(0)
    tries, words, often = 20, 50, 4000
    there = torch.zeros(words)
    for _ in range(often):
        there[torch.unique(sample_zipf(tries, words, torch.device("cpu")))] += 1
    wanted = log_inclusion_prob(torch.arange(words), words, tries).exp()
    assert float(wanted[0]) > 0.9
    assert float(wanted[-1]) < 0.15
    assert torch.allclose(there / often, wanted, atol=0.035)  # more than four standard deviations


def test_in_use_nothing_is_drawn():
    """Neither by a softmax of its own nor by one that reads words by the same vectors."""
    x, weight, bias, target = given()
    softmax = AdaptiveSoftmax(WIDTH, WORDS, num_samples=3)
    softmax.scores.weight, softmax.scores.bias = nn.Parameter(weight), nn.Parameter(bias)
    words = WordEmbedding(WORDS, WIDTH)
    head = LMHead(words, bias=True, num_samples=3)
    words.token.weight, head.bias = nn.Parameter(weight), nn.Parameter(bias)
    wanted = exact(x, weight, bias, target).item()
    states = States([x], (ROWS,))
    for told, part in ((lambda: softmax.loss(x, target), softmax), (lambda: head.loss(states, target), head)):
        torch.manual_seed(0)
        assert told().item() != pytest.approx(wanted, rel=1e-3)
        part.eval()
        assert told().item() == pytest.approx(wanted, rel=1e-5)


def test_a_sample_as_large_as_the_vocabulary_is_no_sample():
    assert AdaptiveSoftmax(WIDTH, WORDS, num_samples=WORDS).draws == 0
    assert AdaptiveSoftmax(WIDTH, WORDS, num_samples=WORDS - 1).draws == WORDS - 1
