"""Quantized layers against float layers: exact for integers, close after rounding, independent of the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from forebear.kernels.activation_quantization import (
    dequantize_products,
    dequantize_products_kernel,
    scale_activations,
    scale_activations_kernel,
)
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.nn import quantized
from forebear.nn.encode_rows import pooled_vectors
from forebear.nn.next_token_predictors import TransformerPredictor
from forebear.nn.quantized import (
    QuantizedEmbedding,
    QuantizedLinear,
    dequantize,
    int8_product_reference,
    max_level,
    quantize_activations,
    quantize_rows,
    quantized_copy,
)

SHAPES = [(1, 8, 8), (1, 16, 50), (3, 24, 17), (70, 64, 96), (200, 96, 32)]


def set_parameters(layer, **values: torch.Tensor):
    for name, value in values.items():
        setattr(layer, name, torch.nn.Parameter(value, requires_grad=False))
    return layer


def quantize_layer(layer, weight: torch.Tensor, **values: torch.Tensor):
    integers, scale = quantize_rows(weight)
    return set_parameters(layer, weight=integers, scale=scale, **values)


def quantized_layer(
    inputs: int, outputs: int, *, bias: bool = True, seed: int = 0
) -> tuple[QuantizedLinear, torch.Tensor]:
    """A quantized layer and the float weights it was made of."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=generator)
    parameters = {"bias": torch.randn(outputs, generator=generator)} if bias else {}
    return quantize_layer(QuantizedLinear(inputs, outputs, bias), weight, **parameters), weight


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_int8_product_is_exact(rows, inputs, outputs):
    layer, _ = quantized_layer(inputs, outputs)
    q = torch.randint(0, max_level() + 1, (rows, inputs)).float()
    q[0] = max_level()  # the largest possible sums
    expected = q.long() @ layer.weight.long().T
    assert torch.equal(int8_product_reference(q, layer.weight, torch.ones(outputs)), expected.float())
    actual = layer.packed_matrix.multiply(q)
    assert torch.allclose(actual.double(), expected * layer.scale.double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("largest", [255, 127])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_quantized_linear_is_close_to_float(monkeypatch, rows, inputs, outputs, bias, largest):
    monkeypatch.setattr(quantized, "max_level", lambda: min(largest, max_level()))
    layer, weight = quantized_layer(inputs, outputs, bias=bias)
    x = torch.randn(rows, inputs) * torch.logspace(-3, 3, rows)[:, None]  # tokens of very different scale
    expected = functional.linear(x, weight, layer.bias)
    for actual in (layer(x), layer.packed_product()(x)):
        relative_error = (actual - expected).norm(dim=1) / expected.norm(dim=1)
        assert float(relative_error.max()) < 0.04


@given(
    rows=st.integers(1, 9),
    width=st.integers(1, 40),
    size=st.floats(1e-6, 1e6),
    off=st.floats(-100, 100),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_quantized_activations_are_within_half_a_step(rows, width, size, off, seed):
    x = (torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) + off) * size
    q, step, low = quantize_activations(x)
    assert float(q.min()) >= 0
    assert float(q.max()) <= max_level() * (1 + 1e-5)
    assert torch.all((low + step * q.round() - x).abs() <= step * 0.51 + 1e-6 * x.abs())


@pytest.mark.parametrize("rows", [1, 2, 17])
def test_int8_kernels_equal_their_reference(rows):
    x, sums, bias = torch.randn(rows, 33) * 5, torch.randn(21), torch.randn(21)
    x[-1] = 2.5  # constant
    q, step, low = quantize_activations(x)
    for quantize_kernel in (scale_activations, scale_activations_kernel):
        step_and_low = np.empty((rows, 2), np.float32)
        actual = quantize_kernel(x.numpy(), np.float32(max_level()), np.float32(quantized.MIN_STEP), step_and_low)
        np.testing.assert_allclose(actual, q.numpy(), rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(step_and_low, torch.cat((step, low), 1).numpy(), rtol=1e-6)
    y = torch.randn(rows, 21)
    expected = dequantize(y.clone(), step, low, sums, bias).numpy()
    step_and_low = torch.cat((step, low), 1).numpy()
    for dequantize_kernel in (dequantize_products, dequantize_products_kernel):
        actual = dequantize_kernel(y.numpy().copy(), step_and_low, sums.numpy(), bias.numpy())
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_quantized_output_of_a_token_is_independent_of_the_batch():
    layer, _ = quantized_layer(48, 64)
    x = torch.randn(100, 48) * torch.logspace(-2, 4, 100)[:, None]
    batched, alone = layer(x), torch.cat([layer(row[None]) for row in x])
    assert float(((batched - alone).norm(dim=1) / alone.norm(dim=1)).max()) < 1e-6


def test_quantized_embedding_looks_up_and_computes_logits():
    weight = torch.randn(30, 16)
    table = quantize_layer(QuantizedEmbedding(30, 16), weight)
    assert torch.allclose(table(torch.tensor([3, 3, 29])), weight[[3, 3, 29]], atol=float(table.scale.max()) / 2)
    x = torch.randn(5, 16)
    assert torch.allclose(table.logits(x, None), x @ weight.T, atol=0.2)


def test_quantized_zero_inputs_and_weights_stay_finite():
    bias = torch.tensor([1.0, 2.0, 3.0])
    layer = quantize_layer(QuantizedLinear(4, 3, bias=True), torch.zeros(3, 4), bias=bias)
    assert torch.equal(layer(torch.zeros(2, 4)), bias.expand(2, 3))


def test_gradients_pass_through_quantized_linear():
    layer, _ = quantized_layer(8, 5)
    x = torch.randn(3, 8, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, (layer.weight * layer.scale[:, None]).sum(0).expand(3, 8))


class FakeTokenizer:
    """The attributes of a tokenizer that models read."""

    vocab_size, special_roles = 50, {"start": 1, "end": 2, "mask": 3, "pad": 0}


def float_and_quantized(spec):
    """The same network, in float32 and quantized."""
    floats = spec.build(FakeTokenizer()).initialize(0).eval()
    return floats, quantized_copy(floats)


def test_quantized_encoder_vectors_are_close_to_float():
    floats, quantized_model = float_and_quantized(BertSpec(width=64, depth=2, heads=4, context=32))
    rng = np.random.default_rng(0)
    rows = [rng.integers(4, 50, length) for length in (3, 30, 7, 1, 12)]
    first, second = (pooled_vectors(model, rows, {-1: 1.0}, "mean") for model in (floats, quantized_model))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert cosines.min() > 0.999
    alone = np.concatenate([pooled_vectors(quantized_model, [row], {-1: 1.0}, "mean") for row in rows])
    np.testing.assert_allclose(alone, second, atol=2e-5)


def test_quantized_decoder_decoding_equals_its_scores():
    floats, quantized_model = float_and_quantized(GPT2Spec(width=64, depth=2, heads=4, context=32))
    predictor, rng = TransformerPredictor(quantized_model), np.random.default_rng(0)
    rows = [rng.integers(4, 50, length) for length in (4, 9, 2)]
    decoding = predictor.start_decoding(rows, 4)
    logits = torch.from_numpy(decoding.next_logits())
    np.testing.assert_allclose(torch.log_softmax(logits, 1).numpy(), predictor.next_log_probs(rows), atol=1e-4)
    decoding.append(np.array([5, 6, 7]))
    longer = [np.append(row, token) for row, token in zip(rows, (5, 6, 7), strict=True)]
    log_probs = torch.log_softmax(torch.from_numpy(decoding.next_logits()), 1).numpy()
    np.testing.assert_allclose(log_probs, predictor.next_log_probs(longer), atol=1e-4)
    exact = np.concatenate(TransformerPredictor(floats).score(longer))
    assert np.abs(np.concatenate(predictor.score(longer)) - exact).max() < 0.1


def test_quantized_model_load_names_missing_scale():
    _, quantized_model = float_and_quantized(GPT2Spec(width=32, depth=1, heads=2, context=16))
    names = set(quantized_model.tensors())
    assert "encoder.embedding.token.scale" in names
    without_scale = {
        name: value for name, value in quantized_model.tensors().items() if not name.endswith("expand.scale")
    }
    with pytest.raises(Exception, match=r"expand\.scale is missing"):
        quantized_model.load(without_scale)
