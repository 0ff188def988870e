"""Recurrent layers one above the other, with dropout, of other classes and of fewer bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recurrent_layers import INPUTS, KINDS, LENGTHS, WIDTH, answered, begun, drawn, filled
from torch import Tensor, nn

from forebear.nn.layers import DeferredLinear
from forebear.nn.quantized import quantize_layers, quantized_tensors
from forebear.nn.recurrent import ElmanLayer, LockedDropout, LSTMLayer, RecurrentStack


class Other(DeferredLinear):
    """The same, by another name."""


@pytest.mark.parametrize("rows", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_another_class_are_called_as_they_are(kind: str, rows: tuple[int, ...]):
    cell, _, how = KINDS[kind]
    layer = filled(cell(INPUTS, WIDTH, backward=True, **how), dtype=torch.float32)
    x, state = drawn(sum(rows), INPUTS, dtype=torch.float32), begun(layer, len(rows), torch.float32)
    out, ends = layer(x, rows, state)
    other = Other(layer.out, layer.gates * WIDTH, bias=layer.bias, device="meta")
    other.weight, other.bias = layer.state.weight, layer.state.bias
    layer.state = other
    called = []
    other.register_forward_hook(lambda *_: called.append(1))
    again, left = layer(x, rows, state)
    assert len(called) == max(rows)
    for one, its in zip((again, *left), (out, *ends), strict=True):
        torch.testing.assert_close(one, its, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_small_integers_say_about_the_same_and_the_same_token_by_token(kind: str):
    cell, _, how = KINDS[kind]
    rows, x = (3, 8, 1), drawn(12, INPUTS, dtype=torch.float32)
    holder = nn.ModuleDict({"layer": filled(cell(INPUTS, WIDTH, **how), dtype=torch.float32)})
    floats = holder["layer"](x, rows)[0].detach()
    values = {name: value.detach() for name, value in holder.named_parameters()}
    quantize_layers(holder)
    for name, value in quantized_tensors(holder, values).items():
        part, _, last = name.rpartition(".")
        setattr(holder.get_submodule(part), last, nn.Parameter(value, requires_grad=False))
    small: Any = holder["layer"]
    with torch.inference_mode():
        out, (h, *_) = small(x, rows)
        plain, _ = small.forward_reference(x, rows)
    torch.testing.assert_close(out, plain, rtol=1e-5, atol=1e-6)
    assert 0 < float((out - floats).abs().max()) < 0.05
    assert torch.equal(h[1], out[10])


# --- dropout ---


@pytest.mark.parametrize("rows", [(4, 4, 4), (2, 7, 3)], ids=["equal", "ragged"])
def test_locked_dropout_leaves_out_the_same_numbers_along_a_row(rows: tuple[int, ...]):
    drop, x = LockedDropout(0.5), 1 + torch.rand(sum(rows), 32)
    torch.manual_seed(0)
    out = drop(x, rows)
    kept = []
    for mine, given_ in zip(out.split(rows), x.split(rows), strict=True):
        gone = mine[0] == 0
        assert 4 < int(gone.sum()) < 28
        torch.testing.assert_close(mine, torch.where(gone, 0.0, 2 * given_))
        kept.append(gone.tolist())
    assert kept[0] != kept[1]
    assert kept[1] != kept[2]
    torch.manual_seed(0)
    assert torch.equal(drop(x, rows), out)
    assert torch.equal(drop.eval()(x, rows), x)
    assert torch.equal(LockedDropout(0.0)(x, rows), x)


@pytest.mark.parametrize("rows", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_left_out_in_training_alone_and_by_the_seed(kind: str, rows: tuple[int, ...]):
    cell, _, how = KINDS[kind]
    layer = filled(cell(INPUTS, WIDTH, weight_dropout=0.5, **how), dtype=torch.float32)
    x = drawn(sum(rows), INPUTS, dtype=torch.float32)

    def out(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return layer(x, rows)[0]

    assert torch.equal(out(1), out(1))
    assert not torch.equal(out(1), out(2))
    torch.manual_seed(1)
    dropped = nn.functional.dropout(layer.state.weight, 0.5)  # one draw for the whole step
    trained = out(1)
    layer.eval()
    plain = out(1)
    assert torch.equal(plain, out(2))
    assert not torch.equal(plain, trained)
    layer.state.weight = nn.Parameter(dropped.detach())
    torch.testing.assert_close(out(1), trained)


# --- layers one above the other ---


def test_a_stack_with_skips_by_hand():
    """What goes into the second and third layer is added to what comes out; what comes into the first is not."""
    layers = [filled(LSTMLayer(INPUTS if not number else WIDTH, WIDTH), number) for number in range(3)]
    x, rows = drawn(9, INPUTS), (4, 2, 3)
    states = [begun(layer, 3) for layer in layers]
    found, left = RecurrentStack(layers, skip=True)(x, rows, states)
    first, first_left = layers[0](x, rows, states[0])
    second, second_left = layers[1](first, rows, states[1])
    second = second + first
    third, third_left = layers[2](second, rows, states[2])
    for one, other in zip(found, (first, second, third + second), strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(left, (first_left, second_left, third_left), strict=True):
        torch.testing.assert_close(one, other)
    plain, _ = RecurrentStack(layers)(x, rows, states)
    torch.testing.assert_close(plain[2], layers[2](layers[1](first, rows, states[1])[0], rows, states[2])[0])


@pytest.mark.parametrize("skip", [False, True])
def test_a_stack_token_by_token_gives_what_it_gives_for_a_row(skip: bool):
    layers = [filled(LSTMLayer(WIDTH, WIDTH + 2, project=WIDTH), number) for number in range(2)]
    stack, x = RecurrentStack(layers, skip=skip), drawn(8, WIDTH)
    found, left = stack(x, (4, 4))
    states = stack.zero_state(2, x)
    for place in range(4):
        out, states = stack.step(x[[place, 4 + place]], states)
        torch.testing.assert_close(out, found[-1][[place, 4 + place]])
    torch.testing.assert_close(states, left)


def test_dropout_of_a_stack_lies_between_layers_and_is_locked():
    layers = [filled(ElmanLayer(INPUTS, WIDTH), 0), filled(ElmanLayer(WIDTH, WIDTH), 1)]
    stack, x, rows = RecurrentStack(layers, dropout=0.5), drawn(7, INPUTS), (4, 3)
    torch.manual_seed(3)
    (first, second), _ = stack(x, rows)
    torch.testing.assert_close(first, layers[0](x, rows)[0])
    torch.manual_seed(3)
    between = LockedDropout(0.5)(first, rows)
    assert not torch.equal(between, first)
    torch.testing.assert_close(second, layers[1](between, rows)[0])
    (_, plain), _ = stack.eval()(x, rows)
    torch.testing.assert_close(plain, layers[1](first, rows)[0])


@pytest.mark.parametrize("rows", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_sixteen_bits_give_about_the_same(kind: str, rows: tuple[int, ...]):
    """As training has them where the machine is faster with them (autocast)."""
    cell, _, how = KINDS[kind]
    layer = filled(cell(INPUTS, WIDTH, **how), dtype=torch.float32)
    x = drawn(sum(rows), INPUTS, dtype=torch.float32)
    exact, asked = layer(x, rows)[0], list(layer.parameters())
    exact_gradients = answered([exact], asked)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for given_ in (x, x.bfloat16()):
            out = layer(given_, rows)[0]
            torch.testing.assert_close(out.float(), exact, rtol=0.1, atol=0.05)
            for one, other in zip(answered([out.float()], asked), exact_gradients, strict=True):
                assert float((one - other).norm()) < 0.1 * float(other.norm())
