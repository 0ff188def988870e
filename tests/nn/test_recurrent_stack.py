"""Stacks of recurrent layers, dropout, overridden and quantized layers, and autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_recurrent_layers import (
    INPUTS,
    KINDS,
    LENGTHS,
    WIDTH,
    fill_parameters,
    random_initial_state,
    random_tensor,
    weighted_gradients,
)
from torch import Tensor, nn

from forebear.nn.layers import DeferredLinear
from forebear.nn.quantized import quantize_layers, quantized_tensors
from forebear.nn.recurrent import ElmanLayer, LockedDropout, LSTMLayer, RecurrentStack


class OtherLinear(DeferredLinear):
    """The same layer as a subclass."""


@pytest.mark.parametrize("rows", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layer_calls_overridden_linear(kind: str, rows: tuple[int, ...]):
    cell, _, options = KINDS[kind]
    layer = fill_parameters(cell(INPUTS, WIDTH, backward=True, **options), dtype=torch.float32)
    x, state = (
        random_tensor(sum(rows), INPUTS, dtype=torch.float32),
        random_initial_state(layer, len(rows), torch.float32),
    )
    out, ends = layer(x, rows, state)
    overridden = OtherLinear(layer.out, layer.num_gates * WIDTH, bias=layer.has_recurrent_bias, device="meta")
    overridden.weight, overridden.bias = layer.state.weight, layer.state.bias
    layer.state = overridden
    calls = []
    overridden.register_forward_hook(lambda *_: calls.append(1))
    actual, actual_ends = layer(x, rows, state)
    assert len(calls) == max(rows)
    for tensor, expected in zip((actual, *actual_ends), (out, *ends), strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_quantized_recurrent_layer_is_close_to_float_and_equals_reference(kind: str):
    cell, _, options = KINDS[kind]
    rows, x = (3, 8, 1), random_tensor(12, INPUTS, dtype=torch.float32)
    holder = nn.ModuleDict({"layer": fill_parameters(cell(INPUTS, WIDTH, **options), dtype=torch.float32)})
    floats = holder["layer"](x, rows)[0].detach()
    values = {name: value.detach() for name, value in holder.named_parameters()}
    quantize_layers(holder)
    for name, value in quantized_tensors(holder, values).items():
        part, _, last = name.rpartition(".")
        setattr(holder.get_submodule(part), last, nn.Parameter(value, requires_grad=False))
    quantized: Any = holder["layer"]
    with torch.inference_mode():
        out, (h, *_) = quantized(x, rows)
        reference, _ = quantized.forward_reference(x, rows)
    torch.testing.assert_close(out, reference, rtol=1e-5, atol=1e-6)
    assert 0 < float((out - floats).abs().max()) < 0.05
    assert torch.equal(h[1], out[10])


# --- dropout ---


@pytest.mark.parametrize("rows", [(4, 4, 4), (2, 7, 3)], ids=["equal", "ragged"])
def test_locked_dropout_drops_the_same_units_along_a_sequence(rows: tuple[int, ...]):
    drop, x = LockedDropout(0.5), 1 + torch.rand(sum(rows), 32)
    torch.manual_seed(0)
    out = drop(x, rows)
    masks = []
    for dropped, original in zip(out.split(rows), x.split(rows), strict=True):
        is_dropped = dropped[0] == 0
        assert 4 < int(is_dropped.sum()) < 28
        torch.testing.assert_close(dropped, torch.where(is_dropped, 0.0, 2 * original))
        masks.append(is_dropped.tolist())
    assert masks[0] != masks[1]
    assert masks[1] != masks[2]
    torch.manual_seed(0)
    assert torch.equal(drop(x, rows), out)
    assert torch.equal(drop.eval()(x, rows), x)
    assert torch.equal(LockedDropout(0.0)(x, rows), x)


@pytest.mark.parametrize("rows", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("kind", KINDS)
def test_weight_dropout_acts_in_training_only_and_follows_the_seed(kind: str, rows: tuple[int, ...]):
    cell, _, options = KINDS[kind]
    layer = fill_parameters(cell(INPUTS, WIDTH, weight_dropout=0.5, **options), dtype=torch.float32)
    x = random_tensor(sum(rows), INPUTS, dtype=torch.float32)

    def out(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return layer(x, rows)[0]

    assert torch.equal(out(1), out(1))
    assert not torch.equal(out(1), out(2))
    torch.manual_seed(1)
    dropped = nn.functional.dropout(layer.state.weight, 0.5)  # one mask for the whole step
    trained = out(1)
    layer.eval()
    evaluated = out(1)
    assert torch.equal(evaluated, out(2))
    assert not torch.equal(evaluated, trained)
    layer.state.weight = nn.Parameter(dropped.detach())
    torch.testing.assert_close(out(1), trained)


# --- stacks ---


def test_recurrent_stack_with_skip_connections_equals_single_layers():
    """The inputs of the second and third layer are added to their outputs; the input of the first is not."""
    layers = [fill_parameters(LSTMLayer(INPUTS if not number else WIDTH, WIDTH), number) for number in range(3)]
    x, rows = random_tensor(9, INPUTS), (4, 2, 3)
    states = [random_initial_state(layer, 3) for layer in layers]
    outputs, ends = RecurrentStack(layers, skip=True)(x, rows, states)
    first, first_left = layers[0](x, rows, states[0])
    second, second_left = layers[1](first, rows, states[1])
    second = second + first
    third, third_left = layers[2](second, rows, states[2])
    for actual, expected in zip(outputs, (first, second, third + second), strict=True):
        torch.testing.assert_close(actual, expected)
    for actual, expected in zip(ends, (first_left, second_left, third_left), strict=True):
        torch.testing.assert_close(actual, expected)
    plain, _ = RecurrentStack(layers)(x, rows, states)
    torch.testing.assert_close(plain[2], layers[2](layers[1](first, rows, states[1])[0], rows, states[2])[0])


@pytest.mark.parametrize("skip", [False, True])
def test_recurrent_stack_step_equals_full_sequence(skip: bool):
    layers = [fill_parameters(LSTMLayer(WIDTH, WIDTH + 2, project=WIDTH), number) for number in range(2)]
    stack, x = RecurrentStack(layers, skip=skip), random_tensor(8, WIDTH)
    outputs, ends = stack(x, (4, 4))
    states = stack.zero_state(2, x)
    for position in range(4):
        out, states = stack.step(x[[position, 4 + position]], states)
        torch.testing.assert_close(out, outputs[-1][[position, 4 + position]])
    torch.testing.assert_close(states, ends)


def test_recurrent_stack_dropout_is_locked_and_between_layers():
    layers = [fill_parameters(ElmanLayer(INPUTS, WIDTH), 0), fill_parameters(ElmanLayer(WIDTH, WIDTH), 1)]
    stack, x, rows = RecurrentStack(layers, dropout=0.5), random_tensor(7, INPUTS), (4, 3)
    torch.manual_seed(3)
    (first, second), _ = stack(x, rows)
    torch.testing.assert_close(first, layers[0](x, rows)[0])
    torch.manual_seed(3)
    dropped = LockedDropout(0.5)(first, rows)
    assert not torch.equal(dropped, first)
    torch.testing.assert_close(second, layers[1](dropped, rows)[0])
    (_, evaluated), _ = stack.eval()(x, rows)
    torch.testing.assert_close(evaluated, layers[1](first, rows)[0])


@pytest.mark.parametrize("rows", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layer_under_bfloat16_autocast_is_close_to_float32(kind: str, rows: tuple[int, ...]):
    """As in training where the processor multiplies bfloat16 faster."""
    cell, _, options = KINDS[kind]
    layer = fill_parameters(cell(INPUTS, WIDTH, **options), dtype=torch.float32)
    x = random_tensor(sum(rows), INPUTS, dtype=torch.float32)
    exact, parameters = layer(x, rows)[0], list(layer.parameters())
    exact_gradients = weighted_gradients([exact], parameters)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for layer_input in (x, x.bfloat16()):
            out = layer(layer_input, rows)[0]
            torch.testing.assert_close(out.float(), exact, rtol=0.1, atol=0.05)
            for gradient, exact_gradient in zip(
                weighted_gradients([out.float()], parameters), exact_gradients, strict=True
            ):
                assert float((gradient - exact_gradient).norm()) < 0.1 * float(exact_gradient.norm())
