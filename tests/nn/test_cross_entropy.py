"""Cost and gradients in parts against torch's own, whole: the readable twin is `plainly`."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from forebear.nn import layers, softmax
from forebear.nn.layers import gelu_tanh
from forebear.nn.softmax import summed_cross_entropy, target_log_probs


def plainly(x, weight, bias, target):
    return functional.cross_entropy(functional.linear(x, weight, bias), target, reduction="sum")


def problem(rows: int, vocabulary: int, *, biased: bool):
    torch.manual_seed(3)
    x, weight = torch.randn(rows, 24) * 2, torch.randn(vocabulary, 24)
    return x, weight, torch.randn(vocabulary) if biased else None, torch.randint(0, vocabulary, (rows,))


def with_gradients(cost, x, weight, bias, target):
    leaves = [tensor.clone().requires_grad_() if tensor is not None else None for tensor in (x, weight, bias)]
    value = cost(*leaves, target)
    (value / 7).backward()
    return value.detach(), *(leaf.grad for leaf in leaves if leaf is not None)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 5), (37, 11), (300, 901)])
def test_cost_and_gradients_equal_the_plain_ones(rows, vocabulary, biased, monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 901 * 64)  # several parts, the last of them smaller
    given = problem(rows, vocabulary, biased=biased)
    for found, wanted in zip(
        with_gradients(summed_cross_entropy, *given), with_gradients(plainly, *given), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(summed_cross_entropy(*given), plainly(*given), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("biased", [False, True])
def test_smoothing_is_torchs(biased, monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 11 * 16)
    given = problem(37, 11, biased=biased)

    def smoothly(x, weight, bias, target):
        scores = functional.linear(x, weight, bias)
        return functional.cross_entropy(scores, target, reduction="sum", label_smoothing=0.3)

    found = with_gradients(lambda *those: summed_cross_entropy(*those, 0.3), *given)
    for one, wanted in zip(found, with_gradients(smoothly, *given), strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)


def test_scores_far_apart_do_not_overflow():
    x, weight = torch.tensor([[1000.0]]), torch.tensor([[1.0], [-1.0]])
    assert float(summed_cross_entropy(x, weight, None, torch.tensor([1]))) == 2000.0
    found = with_gradients(summed_cross_entropy, x, weight, None, torch.tensor([1]))
    assert float(found[0]) == 2000.0
    assert bool(torch.isfinite(found[1]).all())


def test_log_probabilities_sum_to_one():
    x, weight, bias, _ = problem(4, 30, biased=True)
    every = torch.arange(30)
    for row in x:
        found = target_log_probs(lambda x: functional.linear(x, weight, bias), row.expand(30, -1), every, len(weight))
        assert float(found.double().exp().sum()) == pytest.approx(1, abs=1e-6)


def test_in_lower_precision_gradients_point_the_same_way():
    given = problem(200, 300, biased=True)
    wanted = with_gradients(plainly, *given)

    def lower(*arguments):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return summed_cross_entropy(*arguments)

    found = with_gradients(lower, *given)
    assert float(found[0]) == pytest.approx(float(wanted[0]), rel=1e-2)
    for low, full in zip(found[1:], wanted[1:], strict=True):
        assert low.dtype == torch.float32
        assert float(functional.cosine_similarity(low.flatten(), full.flatten(), dim=0)) > 0.999


@pytest.mark.parametrize("shape", [(3, 5), (700, 101)])  # torch's own below FEW, ours above, in several blocks
def test_gelu_tanh_and_its_slope(shape, monkeypatch):
    monkeypatch.setattr(layers, "BLOCK_SIZE", 1 << 14)
    torch.manual_seed(0)
    x, upon = torch.randn(shape) * 4, torch.randn(shape)
    exact = x.double().requires_grad_()
    wanted = 0.5 * exact * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (exact + 0.044715 * exact**3)))
    wanted.backward(upon.double())
    leaf = x.clone().requires_grad_()
    found = gelu_tanh(leaf)
    found.backward(upon)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gelu_tanh(x).double(), wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(leaf.grad.double(), exact.grad, rtol=1e-5, atol=1e-5)
