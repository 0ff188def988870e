"""Chunked cross-entropy and its gradients against torch's on full logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from forebear.nn import layers, softmax
from forebear.nn.layers import gelu_tanh
from forebear.nn.softmax import summed_cross_entropy, target_log_probs


def reference_loss(x, weight, bias, target):
    return functional.cross_entropy(functional.linear(x, weight, bias), target, reduction="sum")


def random_problem(rows: int, vocabulary: int, *, biased: bool):
    torch.manual_seed(3)
    x, weight = torch.randn(rows, 24) * 2, torch.randn(vocabulary, 24)
    return x, weight, torch.randn(vocabulary) if biased else None, torch.randint(0, vocabulary, (rows,))


def loss_and_gradients(loss_function, x, weight, bias, target):
    leaves = [tensor.clone().requires_grad_() if tensor is not None else None for tensor in (x, weight, bias)]
    value = loss_function(*leaves, target)
    (value / 7).backward()
    return value.detach(), *(leaf.grad for leaf in leaves if leaf is not None)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 5), (37, 11), (300, 901)])
def test_summed_cross_entropy_and_gradients_equal_torch(rows, vocabulary, biased, monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 901 * 64)  # several chunks, the last one smaller
    problem = random_problem(rows, vocabulary, biased=biased)
    for actual, expected in zip(
        loss_and_gradients(summed_cross_entropy, *problem), loss_and_gradients(reference_loss, *problem), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(summed_cross_entropy(*problem), reference_loss(*problem), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("biased", [False, True])
def test_label_smoothing_equals_torch(biased, monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 16)
    monkeypatch.setattr(softmax, "MAX_SCORES", 11 * 16)
    problem = random_problem(37, 11, biased=biased)

    def smoothed_reference(x, weight, bias, target):
        scores = functional.linear(x, weight, bias)
        return functional.cross_entropy(scores, target, reduction="sum", label_smoothing=0.3)

    actual = loss_and_gradients(lambda *arguments: summed_cross_entropy(*arguments, 0.3), *problem)
    for tensor, expected in zip(actual, loss_and_gradients(smoothed_reference, *problem), strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-5)


def test_cross_entropy_of_extreme_scores_does_not_overflow():
    x, weight = torch.tensor([[1000.0]]), torch.tensor([[1.0], [-1.0]])
    assert float(summed_cross_entropy(x, weight, None, torch.tensor([1]))) == 2000.0
    results = loss_and_gradients(summed_cross_entropy, x, weight, None, torch.tensor([1]))
    assert float(results[0]) == 2000.0
    assert bool(torch.isfinite(results[1]).all())


def test_target_log_probs_sum_to_one():
    x, weight, bias, _ = random_problem(4, 30, biased=True)
    all_ids = torch.arange(30)
    for row in x:
        log_probs = target_log_probs(
            lambda x: functional.linear(x, weight, bias), row.expand(30, -1), all_ids, len(weight)
        )
        assert float(log_probs.double().exp().sum()) == pytest.approx(1, abs=1e-6)


def test_bfloat16_gradients_are_close_to_float32():
    problem = random_problem(200, 300, biased=True)
    expected = loss_and_gradients(reference_loss, *problem)

    def bfloat16_loss(*arguments):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return summed_cross_entropy(*arguments)

    actual = loss_and_gradients(bfloat16_loss, *problem)
    assert float(actual[0]) == pytest.approx(float(expected[0]), rel=1e-2)
    for gradient, expected_gradient in zip(actual[1:], expected[1:], strict=True):
        assert gradient.dtype == torch.float32
        assert float(functional.cosine_similarity(gradient.flatten(), expected_gradient.flatten(), dim=0)) > 0.999


@pytest.mark.parametrize("shape", [(3, 5), (700, 101)])  # torch's own for few elements, ours in several blocks
def test_gelu_tanh_and_gradient_equal_formula(shape, monkeypatch):
    monkeypatch.setattr(layers, "BLOCK_SIZE", 1 << 14)
    torch.manual_seed(0)
    x, output_gradient = torch.randn(shape) * 4, torch.randn(shape)
    exact = x.double().requires_grad_()
    expected = 0.5 * exact * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (exact + 0.044715 * exact**3)))
    expected.backward(output_gradient.double())
    leaf = x.clone().requires_grad_()
    actual = gelu_tanh(leaf)
    actual.backward(output_gradient)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gelu_tanh(x).double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(leaf.grad.double(), exact.grad, rtol=1e-5, atol=1e-5)
