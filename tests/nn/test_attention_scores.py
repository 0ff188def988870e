"""Attention score functions against loops over single queries and keys, and the weights computed from scores."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from forebear.nn.attention_scores import AdditiveScore, BilinearScore, ConcatScore, DotProductScore, attend_with_scores
from forebear.nn.layers import initial_values


def initialize_score(similarity: nn.Module) -> nn.Module:
    """On the meta device until `initial_values`; then larger values, so that every weight matters."""
    assert {value.device.type for value in similarity.parameters()} <= {"meta"}
    values = {name: value * 40 for name, value in initial_values(similarity, 3).items()}
    similarity.load_state_dict(values, assign=True)
    return similarity


def random_queries_and_keys(queries: int, keys: int, *leading: int):
    torch.manual_seed(0)
    return torch.randn(*leading, 3, queries), torch.randn(*leading, 5, keys)


def loop_scores(score, queries, keys):
    return torch.tensor([[score(query.tolist(), key.tolist()) for key in keys] for query in queries])


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def reference_score(similarity):
    """The score of one query and one key, written as in the formula."""
    values = {name: value.tolist() for name, value in similarity.state_dict().items()}
    if isinstance(similarity, DotProductScore):
        scale = 4**-0.5 if similarity.scaled else 1.0
        return lambda query, key: product([query], key)[0] * scale
    if isinstance(similarity, BilinearScore):
        return lambda query, key: product([query], product(values["between.weight"], key))[0]
    if isinstance(similarity, ConcatScore):
        (of_query,), (of_key,) = values["query.weight"], values["key.weight"]
        return lambda query, key: product([of_query + of_key], query + key)[0]

    def perceptron(query, key):
        sums = zip(product(values["query.weight"], query), product(values["key.weight"], key), strict=True)
        return product(values["score.weight"], [math.tanh(query_sum + key_sum) for query_sum, key_sum in sums])[0]

    return perceptron


SCORES = {
    "dot": lambda: (DotProductScore(scaled=False), 4, 4),
    "scaled": lambda: (DotProductScore(), 4, 4),
    "bilinear": lambda: (BilinearScore(4, 6), 4, 6),
    "concatenated": lambda: (ConcatScore(4, 6), 4, 6),
    "perceptron": lambda: (AdditiveScore(4, 6, 7), 4, 6),
}


@pytest.mark.parametrize("name", SCORES)
def test_each_attention_score_equals_its_formula(name):
    similarity, *widths = SCORES[name]()
    score = reference_score(initialize_score(similarity))
    queries, keys = random_queries_and_keys(*widths, 2)
    actual = similarity(queries, keys)
    assert actual.shape == (2, 3, 5)
    assert float(actual.detach().std()) > 0.1
    for scores, *pair in zip(actual, queries, keys, strict=True):
        torch.testing.assert_close(scores, loop_scores(score, *pair), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(similarity(queries[0], keys[0]), actual[0])
    torch.testing.assert_close(similarity.scores(queries[:, :1], similarity.project_keys(keys)), actual[:, :1])


@pytest.mark.parametrize("name", ["bilinear", "concatenated", "perceptron"])
def test_every_weight_of_an_attention_score_has_a_gradient(name):
    similarity, *widths = SCORES[name]()
    queries, keys = random_queries_and_keys(*widths)
    (initialize_score(similarity)(queries, keys) ** 2).sum().backward()
    assert all(bool((value.grad != 0).all()) for value in similarity.parameters())


def test_only_concat_score_gives_equal_weights_for_every_query():
    for name, make in SCORES.items():
        similarity, *widths = make()
        queries, keys = random_queries_and_keys(*widths)
        _, weights = attend_with_scores(initialize_score(similarity)(queries, keys), keys)
        assert torch.allclose(weights, weights[:1].expand_as(weights), atol=1e-6) == (name == "concatenated")


def test_scaled_dot_product_of_112_and_96_matches_worked_example():
    """The worked example: divided by 8 = √64 they are 14 and 12, whose softmax is 0.88 and 0.12."""
    query = torch.zeros(1, 64)
    query[0, 0] = 1.0
    keys = torch.zeros(2, 64)
    keys[:, 0] = torch.tensor([112.0, 96.0])
    assert DotProductScore(scaled=False)(query, keys).tolist() == [[112.0, 96.0]]
    assert DotProductScore()(query, keys).tolist() == [[14.0, 12.0]]
    mixed, weights = attend_with_scores(DotProductScore()(query, keys), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert [round(weight, 2) for weight in weights[0].tolist()] == [0.88, 0.12]
    torch.testing.assert_close(mixed, weights)
    unscaled = attend_with_scores(DotProductScore(scaled=False)(query, keys), keys)[1]
    assert float(unscaled[0, 1]) < 1e-6  # without the scale the second key has almost no weight


@pytest.mark.parametrize("width", [16, 64, 256])
def test_scaled_dot_product_has_unit_variance(width):
    generator = torch.Generator().manual_seed(width)
    queries, keys = (torch.randn(600, width, generator=generator) for _ in range(2))
    assert float(DotProductScore(scaled=False)(queries, keys).var()) == pytest.approx(width, rel=0.05)
    assert float(DotProductScore()(queries, keys).var()) == pytest.approx(1, rel=0.05)


def test_masked_keys_have_no_weight_and_the_rest_sums_to_one():
    queries, keys = random_queries_and_keys(4, 4, 2)
    scores, allowed = (
        DotProductScore()(queries, keys),
        torch.rand(3, 5, generator=torch.Generator().manual_seed(1)) > 0.4,
    )
    allowed[0] = torch.tensor([False, False, True, False, False])
    mixed, weights = attend_with_scores(scores, keys, allowed)
    assert bool((weights[:, ~allowed] == 0).all())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(mixed[:, 0], keys[:, 2])
    for row in range(3):  # as if masked keys did not exist
        visible = allowed[row]
        expected, expected_weights = attend_with_scores(scores[:, row : row + 1, visible], keys[:, visible])
        torch.testing.assert_close(weights[:, row, visible], expected_weights[:, 0])
        torch.testing.assert_close(mixed[:, row], expected[:, 0])
