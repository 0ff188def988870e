"""The CRF layer against the enumeration of all label sequences of short inputs; long inputs; gradients."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from forebear.nn.crf import FORBIDDEN_SCORE, CRFLayer
from forebear.nn.layers import initial_values

LENGTHS = [3, 0, 1, 5, 1, 0, 4]
K = 3
# Label 1 can only be followed by 2, and 2 follows only 1 or 2: B and E of one kind, next to O.
TRANSITIONS = np.array([[True, True, False], [False, False, True], [True, True, True]])
START, END = np.array([True, True, False]), np.array([True, False, True])
FREE = (np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool))


def crf_layer(transitions=TRANSITIONS, start=START, end=END, *, dtype=torch.float64, spread: float = 1.0) -> CRFLayer:
    crf = CRFLayer(transitions, start, end)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in list(crf.named_parameters()):
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * spread
        setattr(crf, name, torch.nn.Parameter(values.to(dtype)))
    return crf


def random_emissions(words: int, *, labels: int = K, dtype=torch.float64, spread: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(words)
    return (torch.randn(words, labels, generator=generator, dtype=torch.float64) * spread).to(dtype)


def path_score(crf: CRFLayer, emissions: torch.Tensor, path: tuple[int, ...]) -> float:
    """The score of one label sequence, by hand."""
    learned = {name: value.detach() for name, value in crf.named_parameters()}
    transitions, start, end = (torch.from_numpy(costs) for costs in crf._mask_scores)
    score = learned["start_bias"][path[0]] + start[path[0]] + learned["end_bias"][path[-1]] + end[path[-1]]
    score = score + sum(emissions[word, label] for word, label in enumerate(path))
    for previous, following in pairwise(path):
        score = score + learned["transition_bias"][previous, following] + transitions[previous, following]
    return float(score)


def enumerate_paths(crf: CRFLayer, emissions: torch.Tensor) -> tuple[float, np.ndarray, tuple[int, ...]]:
    """The log partition function, the marginals of each word, and the best path."""
    words, labels = emissions.shape
    paths = list(product(range(labels), repeat=words))
    scores = np.array([path_score(crf, emissions, path) for path in paths])
    total = float(np.logaddexp.reduce(scores))
    marginals = np.zeros((words, labels))
    for path, score in zip(paths, scores, strict=True):
        marginals[np.arange(words), path] += np.exp(score - total)
    return total, marginals, paths[int(scores.argmax())]


def split_rows(values, lengths):
    return np.split(np.asarray(values), np.cumsum(lengths)[:-1])


@pytest.mark.parametrize("allowed", [(TRANSITIONS, START, END), FREE], ids=["some", "all"])
def test_crf_loss_viterbi_and_marginals_equal_enumeration(allowed):
    crf, emissions = crf_layer(*allowed), random_emissions(sum(LENGTHS))
    tags = torch.tensor(np.random.default_rng(0).integers(0, K, sum(LENGTHS)))
    best, marginals = crf.viterbi(emissions, LENGTHS), split_rows(crf.marginals(emissions, LENGTHS), LENGTHS)
    expected = 0.0
    for row, length in enumerate(LENGTHS):
        row_emissions = emissions[sum(LENGTHS[:row]) :][:length]
        assert len(best[row]) == len(marginals[row]) == length
        if not length:
            continue
        total, expected_marginals, path = enumerate_paths(crf, row_emissions)
        gold = tuple(tags[sum(LENGTHS[:row]) :][:length].tolist())
        expected += total - path_score(crf, row_emissions, gold)
        assert tuple(best[row]) == path
        np.testing.assert_allclose(marginals[row], expected_marginals, atol=1e-12)
    assert float(crf.loss(emissions, LENGTHS, tags).detach()) == pytest.approx(expected, rel=1e-10)


def test_crf_gradients_equal_finite_differences():
    crf = crf_layer(*FREE)
    emissions = random_emissions(sum(LENGTHS)).requires_grad_()
    tags = torch.tensor(np.random.default_rng(1).integers(0, K, sum(LENGTHS)))

    def loss(emissions, transition_bias, start_bias, end_bias):
        values = {"transition_bias": transition_bias, "start_bias": start_bias, "end_bias": end_bias}
        return torch.func.functional_call(
            _LossModule(crf), {f"crf.{k}": v for k, v in values.items()}, (emissions, tags)
        )

    assert torch.autograd.gradcheck(loss, (emissions, *(value.detach().requires_grad_() for value in crf.parameters())))


class _LossModule(torch.nn.Module):
    def __init__(self, crf: CRFLayer) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, emissions, tags):
        return 3 * self.crf.loss(emissions, LENGTHS, tags)


def test_constrained_crf_gradients_equal_enumerated_marginals():
    crf, emissions = crf_layer(), random_emissions(4).requires_grad_()
    tags = torch.tensor([0, 1, 2, 0])
    crf.loss(emissions, [4], tags).backward()
    _, marginals, _ = enumerate_paths(crf, emissions.detach())
    marginals[np.arange(4), tags] -= 1
    np.testing.assert_allclose(emissions.grad, marginals, atol=1e-12)
    np.testing.assert_allclose(crf.start_bias.grad, marginals[0], atol=1e-12)
    np.testing.assert_allclose(crf.end_bias.grad, marginals[-1], atol=1e-12)
    # the gold path has as many transitions as expected ones
    assert float(crf.transition_bias.grad.sum()) == pytest.approx(0, abs=1e-12)
    assert float(crf.transition_bias.grad[0, 2].abs()) < 1e-12  # no gradient for a forbidden transition


def test_crf_is_exact_for_extreme_scores():
    """A word that is almost surely 0, and a later one that can only be 2 after a 1."""
    crf = crf_layer(spread=20.0)
    emissions = torch.tensor([[200.0, 0.0, 0.0], [0.0, 0.0, 500.0], [90.0, 0.0, 0.0]], dtype=torch.float64)
    total, marginals, best = enumerate_paths(crf, emissions)
    for dtype in (torch.float64, torch.float32):
        loss = crf.loss(emissions.to(dtype), [3], torch.tensor(best))
        assert float(loss.detach()) == pytest.approx(total - path_score(crf, emissions, best), abs=1e-9)
        np.testing.assert_allclose(crf.marginals(emissions.to(dtype), [3]), marginals, atol=1e-12)


def test_crf_of_batch_equals_each_sequence_alone():
    crf, emissions = crf_layer(), random_emissions(sum(LENGTHS)).requires_grad_()
    tags = torch.tensor(np.random.default_rng(2).integers(0, K, sum(LENGTHS)))
    batch_loss = crf.loss(emissions, LENGTHS, tags)
    batch_loss.backward()
    gradients = [emissions.grad.clone(), *(parameter.grad.clone() for parameter in crf.parameters())]
    emissions.grad = None
    crf.zero_grad()
    summed_loss = 0.0
    for start, length in zip(np.cumsum(LENGTHS) - LENGTHS, LENGTHS, strict=True):
        loss = crf.loss(emissions[start : start + length], [length], tags[start : start + length])
        loss.backward()
        summed_loss += float(loss.detach())
        marginals = crf.marginals(emissions[start : start + length], [length])
        torch.testing.assert_close(marginals, crf.marginals(emissions, LENGTHS)[start : start + length])
    assert float(batch_loss.detach()) == pytest.approx(summed_loss, rel=1e-12)
    for actual, expected in zip(gradients, [emissions.grad, *(p.grad for p in crf.parameters())], strict=True):
        torch.testing.assert_close(actual, expected)


def test_crf_loss_of_forbidden_gold_transitions_is_finite():
    crf, emissions = crf_layer(dtype=torch.float32), random_emissions(3, dtype=torch.float32).requires_grad_()
    loss = crf.loss(emissions, [3], torch.tensor([2, 0, 2]))  # starts with 2, and 2 follows 0
    loss.backward()
    assert -FORBIDDEN_SCORE < float(loss.detach()) < -3 * FORBIDDEN_SCORE
    assert all(bool(torch.isfinite(p.grad).all()) for p in [emissions, *crf.parameters()])


def test_crf_of_long_sequences_is_accurate_in_float32():
    lengths, labels = [1000, 17, 999], 13
    allowed = (np.ones((labels, labels), bool), np.ones(labels, bool), np.ones(labels, bool))
    double, single = crf_layer(*allowed), crf_layer(*allowed, dtype=torch.float32)
    emissions = random_emissions(sum(lengths), labels=labels, spread=5.0) + 300  # path scores in the hundred thousands
    best = np.concatenate(double.viterbi(emissions, lengths))
    actual, expected = (crf.loss(emissions.to(p), lengths, torch.from_numpy(best))
                     for crf, p in ((single, torch.float32), (double, torch.float64)))  # fmt: skip
    assert float(actual.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    marginals = single.marginals(emissions.float(), lengths)
    assert float((marginals - double.marginals(emissions, lengths)).abs().max()) < 2e-4
    assert float((marginals.sum(1) - 1).abs().max()) < 1e-5
    assert np.mean(np.concatenate(single.viterbi(emissions.float(), lengths)) == best) > 0.999


def test_crf_starts_at_zero_and_saves_no_constraints():
    crf = CRFLayer(TRANSITIONS, START, END)
    assert all(parameter.is_meta for parameter in crf.parameters())
    assert {*crf.state_dict()} == {"transition_bias", "start_bias", "end_bias"}
    assert all(not value.any() for value in initial_values(crf, seed=3).values())


def test_crf_accepts_bfloat16_emissions_and_empty_sequences():
    crf = crf_layer(dtype=torch.float32)
    emissions, tags = random_emissions(4, dtype=torch.bfloat16).requires_grad_(), torch.tensor([0, 1, 2, 0])
    crf.loss(emissions, [4], tags).backward()
    assert emissions.grad.dtype == torch.bfloat16
    empty = torch.zeros(0, K, requires_grad=True)
    for lengths in ([], [0], [0, 0]):
        loss = crf.loss(empty, lengths, tags[:0])
        loss.backward()
        assert float(loss.detach()) == 0
        assert [len(row) for row in crf.viterbi(empty, lengths)] == list(lengths)
        assert crf.marginals(empty, lengths).shape == (0, K)


def test_crf_learns_label_order_from_transitions_alone():
    """Emissions are zero; only the order 0 1 2 0 1 2 … is to be learned."""
    crf = crf_layer(*FREE, dtype=torch.float32, spread=0.0)
    tags, lengths = torch.tensor([0, 1, 2] * 6), [6, 9, 3]
    optimizer = torch.optim.SGD(crf.parameters(), lr=0.1)
    for _ in range(30):
        optimizer.zero_grad()
        crf.loss(torch.zeros(18, K), lengths, tags).backward()
        optimizer.step()
    assert [row.tolist() for row in crf.viterbi(torch.zeros(15, K), [3, 12])] == [[0, 1, 2], [0, 1, 2] * 4]
