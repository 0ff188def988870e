"""The conditional random field against all ways to label a short row, one by one; long rows; gradients."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from forebear.nn.crf import FORBIDDEN_SCORE, CRFLayer
from forebear.nn.layers import initial_values

LENGTHS = [3, 0, 1, 5, 1, 0, 4]
K = 3
# Label 1 goes on with label 2 and with nothing else, 2 follows only 1 or 2: B and E of one kind, beside O.
MOVES = np.array([[True, True, False], [False, False, True], [True, True, True]])
START, END = np.array([True, True, False]), np.array([True, False, True])
FREE = (np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool))


def made(moves=MOVES, start=START, end=END, *, kind=torch.float64, spread: float = 1.0) -> CRFLayer:
    crf = CRFLayer(moves, start, end)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in list(crf.named_parameters()):
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * spread
        setattr(crf, name, torch.nn.Parameter(values.to(kind)))
    return crf


def emitted(words: int, *, labels: int = K, kind=torch.float64, spread: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(words)
    return (torch.randn(words, labels, generator=generator, dtype=torch.float64) * spread).to(kind)


def weighed(crf: CRFLayer, emissions: torch.Tensor, path: tuple[int, ...]) -> float:
    """The score of one way to label a row, by hand."""
    learned = {name: value.detach() for name, value in crf.named_parameters()}
    moves, start, end = (torch.from_numpy(costs) for costs in crf._mask_scores)
    score = learned["start_bias"][path[0]] + start[path[0]] + learned["end_bias"][path[-1]] + end[path[-1]]
    score = score + sum(emissions[word, label] for word, label in enumerate(path))
    for here, there in pairwise(path):
        score = score + learned["transition_bias"][here, there] + moves[here, there]
    return float(score)


def enumerated(crf: CRFLayer, emissions: torch.Tensor) -> tuple[float, np.ndarray, tuple[int, ...]]:
    """ln of the sum over all ways to label a row, each word's probabilities, and the best way."""
    words, labels = emissions.shape
    paths = list(product(range(labels), repeat=words))
    scores = np.array([weighed(crf, emissions, path) for path in paths])
    total = float(np.logaddexp.reduce(scores))
    marginals = np.zeros((words, labels))
    for path, score in zip(paths, scores, strict=True):
        marginals[np.arange(words), path] += np.exp(score - total)
    return total, marginals, paths[int(scores.argmax())]


def rows_of(values, lengths):
    return np.split(np.asarray(values), np.cumsum(lengths)[:-1])


@pytest.mark.parametrize("allowed", [(MOVES, START, END), FREE], ids=["some", "all"])
def test_equals_the_enumeration_of_all_ways(allowed):
    crf, emissions = made(*allowed), emitted(sum(LENGTHS))
    tags = torch.tensor(np.random.default_rng(0).integers(0, K, sum(LENGTHS)))
    best, marginals = crf.viterbi(emissions, LENGTHS), rows_of(crf.marginals(emissions, LENGTHS), LENGTHS)
    expected = 0.0
    for row, length in enumerate(LENGTHS):
        own = emissions[sum(LENGTHS[:row]) :][:length]
        assert len(best[row]) == len(marginals[row]) == length
        if not length:
            continue
        total, wanted, path = enumerated(crf, own)
        given = tuple(tags[sum(LENGTHS[:row]) :][:length].tolist())
        expected += total - weighed(crf, own, given)
        assert tuple(best[row]) == path
        np.testing.assert_allclose(marginals[row], wanted, atol=1e-12)
    assert float(crf.loss(emissions, LENGTHS, tags).detach()) == pytest.approx(expected, rel=1e-10)


def test_gradients_equal_those_by_differences():
    crf = made(*FREE)
    emissions = emitted(sum(LENGTHS)).requires_grad_()
    tags = torch.tensor(np.random.default_rng(1).integers(0, K, sum(LENGTHS)))

    def loss(emissions, transition_bias, start_bias, end_bias):
        values = {"transition_bias": transition_bias, "start_bias": start_bias, "end_bias": end_bias}
        return torch.func.functional_call(_Losing(crf), {f"crf.{k}": v for k, v in values.items()}, (emissions, tags))

    assert torch.autograd.gradcheck(loss, (emissions, *(value.detach().requires_grad_() for value in crf.parameters())))


class _Losing(torch.nn.Module):
    def __init__(self, crf: CRFLayer) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, emissions, tags):
        return 3 * self.crf.loss(emissions, LENGTHS, tags)


def test_gradients_of_a_constrained_field_equal_those_of_the_enumeration():
    crf, emissions = made(), emitted(4).requires_grad_()
    tags = torch.tensor([0, 1, 2, 0])
    crf.loss(emissions, [4], tags).backward()
    _, marginals, _ = enumerated(crf, emissions.detach())
    marginals[np.arange(4), tags] -= 1
    np.testing.assert_allclose(emissions.grad, marginals, atol=1e-12)
    np.testing.assert_allclose(crf.start_bias.grad, marginals[0], atol=1e-12)
    np.testing.assert_allclose(crf.end_bias.grad, marginals[-1], atol=1e-12)
    assert float(crf.transition_bias.grad.sum()) == pytest.approx(0, abs=1e-12)  # as many moves as were expected
    assert float(crf.transition_bias.grad[0, 2].abs()) < 1e-12  # nothing pulls at what is forbidden


def test_long_odds_are_exact_too():
    """A word that is almost surely 0, and a later one that can only be 2 if it was 1."""
    crf = made(spread=20.0)
    emissions = torch.tensor([[200.0, 0.0, 0.0], [0.0, 0.0, 500.0], [90.0, 0.0, 0.0]], dtype=torch.float64)
    total, marginals, best = enumerated(crf, emissions)
    for kind in (torch.float64, torch.float32):
        cost = crf.loss(emissions.to(kind), [3], torch.tensor(best))
        assert float(cost.detach()) == pytest.approx(total - weighed(crf, emissions, best), abs=1e-9)
        np.testing.assert_allclose(crf.marginals(emissions.to(kind), [3]), marginals, atol=1e-12)


def test_many_rows_at_once_are_each_row_by_itself():
    crf, emissions = made(), emitted(sum(LENGTHS)).requires_grad_()
    tags = torch.tensor(np.random.default_rng(2).integers(0, K, sum(LENGTHS)))
    together = crf.loss(emissions, LENGTHS, tags)
    together.backward()
    gradients = [emissions.grad.clone(), *(parameter.grad.clone() for parameter in crf.parameters())]
    emissions.grad = None
    crf.zero_grad()
    alone = 0.0
    for at, length in zip(np.cumsum(LENGTHS) - LENGTHS, LENGTHS, strict=True):
        cost = crf.loss(emissions[at : at + length], [length], tags[at : at + length])
        cost.backward()
        alone += float(cost.detach())
        marginals = crf.marginals(emissions[at : at + length], [length])
        torch.testing.assert_close(marginals, crf.marginals(emissions, LENGTHS)[at : at + length])
    assert float(together.detach()) == pytest.approx(alone, rel=1e-12)
    for one, other in zip(gradients, [emissions.grad, *(p.grad for p in crf.parameters())], strict=True):
        torch.testing.assert_close(one, other)


def test_rows_that_people_labelled_against_the_rules_have_a_finite_loss():
    crf, emissions = made(kind=torch.float32), emitted(3, kind=torch.float32).requires_grad_()
    cost = crf.loss(emissions, [3], torch.tensor([2, 0, 2]))  # starts with 2, and 2 follows 0
    cost.backward()
    assert -FORBIDDEN_SCORE < float(cost.detach()) < -3 * FORBIDDEN_SCORE
    assert all(bool(torch.isfinite(p.grad).all()) for p in [emissions, *crf.parameters()])


def test_long_rows_are_as_exact_in_single_precision():
    lengths, labels = [1000, 17, 999], 13
    allowed = (np.ones((labels, labels), bool), np.ones(labels, bool), np.ones(labels, bool))
    double, single = made(*allowed), made(*allowed, kind=torch.float32)
    emissions = emitted(sum(lengths), labels=labels, spread=5.0) + 300  # scores of a row in the hundred thousands
    best = np.concatenate(double.viterbi(emissions, lengths))
    found, wanted = (crf.loss(emissions.to(p), lengths, torch.from_numpy(best))
                     for crf, p in ((single, torch.float32), (double, torch.float64)))  # fmt: skip
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), rel=1e-4)
    marginals = single.marginals(emissions.float(), lengths)
    assert float((marginals - double.marginals(emissions, lengths)).abs().max()) < 2e-4
    assert float((marginals.sum(1) - 1).abs().max()) < 1e-5
    assert np.mean(np.concatenate(single.viterbi(emissions.float(), lengths)) == best) > 0.999


def test_begins_with_nothing_learned_and_keeps_rules_out_of_what_is_saved():
    crf = CRFLayer(MOVES, START, END)
    assert all(parameter.is_meta for parameter in crf.parameters())
    assert {*crf.state_dict()} == {"transition_bias", "start_bias", "end_bias"}
    assert all(not value.any() for value in initial_values(crf, seed=3).values())


def test_half_precision_emissions_and_no_words_at_all():
    crf = made(kind=torch.float32)
    emissions, tags = emitted(4, kind=torch.bfloat16).requires_grad_(), torch.tensor([0, 1, 2, 0])
    crf.loss(emissions, [4], tags).backward()
    assert emissions.grad.dtype == torch.bfloat16
    nothing = torch.zeros(0, K, requires_grad=True)
    for lengths in ([], [0], [0, 0]):
        cost = crf.loss(nothing, lengths, tags[:0])
        cost.backward()
        assert float(cost.detach()) == 0
        assert [len(row) for row in crf.viterbi(nothing, lengths)] == list(lengths)
        assert crf.marginals(nothing, lengths).shape == (0, K)


def test_learns_what_follows_what():
    """Emissions say nothing; only the order 0 1 2 0 1 2 … is to be learned."""
    crf = made(*FREE, kind=torch.float32, spread=0.0)
    tags, lengths = torch.tensor([0, 1, 2] * 6), [6, 9, 3]
    optimizer = torch.optim.SGD(crf.parameters(), lr=0.1)
    for _ in range(30):
        optimizer.zero_grad()
        crf.loss(torch.zeros(18, K), lengths, tags).backward()
        optimizer.step()
    assert [row.tolist() for row in crf.viterbi(torch.zeros(15, K), [3, 12])] == [[0, 1, 2], [0, 1, 2] * 4]
