"""Recurrent layers against torch.nn with equal weights, worked examples, and their step-by-step reference."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recurrent_layers import (
    INPUTS,
    KINDS,
    LENGTHS,
    NARROW,
    WIDTH,
    fill_parameters,
    random_initial_state,
    random_tensor,
    weighted_gradients,
)
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence

from forebear.nn import lstm_scan
from forebear.nn.lstm_scan import ClipLimits
from forebear.nn.model import Model
from forebear.nn.recurrent import ElmanLayer, GRULayer, LSTMLayer, RecurrentLayer
from forebear.nn.weight_packing import pack_for_matrix


def peer_of(kind: type[nn.RNNBase], layers: list[RecurrentLayer], dtype: torch.dtype) -> nn.RNNBase:
    """torch's layer, in one direction or both, with equal weights."""
    project = {"proj_size": NARROW} if layers[0].project is not None else {}
    peer = kind(INPUTS, WIDTH, bidirectional=len(layers) == 2, dtype=dtype, **project)
    with torch.no_grad():
        for layer, suffix in zip(layers, ("", "_reverse"), strict=False):
            values_ours: dict[str, Any] = {"weight_ih": layer.input.weight, "weight_hh": layer.state.weight}
            values_ours |= {"bias_ih": layer.input.bias, "bias_hh": layer.state.bias}
            values_ours |= {} if layer.project is None else {"weight_hr": layer.project.weight}
            for name, value in values_ours.items():
                parameter = getattr(peer, f"{name}_l0{suffix}")
                parameter.zero_() if value is None else parameter.copy_(value)
    return peer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_outputs_and_gradients_equal_torch(kind: str, lengths: str, directions: int, dtype: torch.dtype):
    layer_class, torch_class, options = KINDS[kind]
    rows = LENGTHS[lengths]
    layers = [
        fill_parameters(layer_class(INPUTS, WIDTH, backward=bool(direction), **options), direction + 1, dtype=dtype)
        for direction in range(directions)
    ]
    peer = peer_of(torch_class, layers, dtype)
    x = random_tensor(sum(rows), INPUTS, dtype=dtype).requires_grad_()
    states = [random_initial_state(layer, len(rows), dtype) for layer in layers]
    outs, ends = zip(*(layer(x, rows, state) for layer, state in zip(layers, states, strict=True)), strict=True)
    actual = [torch.cat(outs, 1), *(torch.stack(parts) for parts in zip(*ends, strict=True))]

    initial_state = tuple(torch.stack(parts) for parts in zip(*states, strict=True))
    packed, final_state = peer(
        pack_sequence(x.split(rows), enforce_sorted=False),
        initial_state[0] if len(initial_state) == 1 else initial_state,
    )
    assert isinstance(packed, PackedSequence)
    expected = [
        torch.cat(unpack_sequence(packed)),
        *([final_state] if isinstance(final_state, Tensor) else final_state),
    ]
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    for tensor, torch_parameters in zip(actual, expected, strict=True):
        assert tensor.dtype == dtype
        torch.testing.assert_close(tensor, torch_parameters, **tolerance)

    parameters, names = [x, *(part for state in states for part in state)], ["weight_ih", "weight_hh", "bias_ih"]
    parameters += [value for layer in layers for value in (layer.input.weight, layer.state.weight, layer.input.bias)]
    torch_parameters = parameters[: 1 + directions * len(initial_state)]
    torch_parameters += [
        getattr(peer, f"{name}_l0{suffix}") for suffix in ("", "_reverse")[:directions] for name in names
    ]
    if options:
        parameters += [layer.project.weight for layer in layers]
        torch_parameters += [getattr(peer, f"weight_hr_l0{suffix}") for suffix in ("", "_reverse")[:directions]]
    for tensor, expected_gradient in zip(
        weighted_gradients(actual, parameters), weighted_gradients(expected, torch_parameters), strict=True
    ):
        torch.testing.assert_close(tensor, expected_gradient, **tolerance)


def test_gru_state_bias_gradient_equals_torch():
    layer = fill_parameters(GRULayer(INPUTS, WIDTH))
    peer, x = peer_of(nn.GRU, [layer], torch.float64), random_tensor(8, INPUTS)
    (gradient,) = weighted_gradients([layer(x, (5, 3))[0]], [layer.state.bias])
    packed = peer(pack_sequence(x.split([5, 3])))[0]
    (expected,) = weighted_gradients([torch.cat(unpack_sequence(packed))], [peer.bias_hh_l0])  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(gradient, expected)


def fast_and_reference(layer: RecurrentLayer, rows: tuple[int, ...], given_state: bool) -> list[list[Tensor]]:
    """All outputs and gradients of `forward` and of `forward_reference`."""
    x = random_tensor(sum(rows), INPUTS).requires_grad_()
    state = random_initial_state(layer, len(rows)) if given_state else None
    results = []
    for forward in (layer, layer.forward_reference):
        output, ends = forward(x, rows, state)
        gradients = weighted_gradients([output, *ends], [x, *layer.parameters(), *(state or ())])
        results.append([output, *ends, *gradients])
    return results


@settings(max_examples=60)
@given(
    rows=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    kind=st.sampled_from(sorted(KINDS)),
    backward=st.booleans(),
    clipped=st.booleans(),
    given_state=st.booleans(),
)
def test_recurrent_layer_equals_step_by_step_reference(
    rows: list[int], kind: str, backward: bool, clipped: bool, given_state: bool
):
    cell, _, options = KINDS[kind]
    layer = fill_parameters(
        cell(INPUTS, WIDTH, backward=backward, clip_limits=ClipLimits(0.5, 0.4) if clipped else ClipLimits(), **options)
    )
    for fast, reference in zip(*fast_and_reference(layer, tuple(rows), given_state), strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("project", [None, NARROW], ids=["plain", "projected"])
def test_lstm_with_packed_weights_equals_reference(project: int | None, monkeypatch: pytest.MonkeyPatch):
    """Large layers pack their weights, in float32 only."""
    layer = fill_parameters(
        LSTMLayer(INPUTS, WIDTH, project=project, clip_limits=ClipLimits(0.5, 0.4)), dtype=torch.float32
    )
    x = random_tensor(11, INPUTS, dtype=torch.float32).requires_grad_()
    monkeypatch.setattr(lstm_scan, "MIN_PACKED_WEIGHTS", 0)
    packed = record_packed_weights(monkeypatch)
    results = []
    for forward in (layer, layer.forward_reference):
        output = forward(x, (5, 2, 4))[0]
        results.append([output, *weighted_gradients([output], [x, *layer.parameters()])])
    for fast, reference in zip(*results, strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-4, atol=1e-5)
    assert len(packed) == (2 if project is None else 4)  # in the forward and backward pass


def record_packed_weights(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The weights that are packed for several sequences from now on."""
    packed: list[Tensor] = []

    def pack_and_record(weight: Tensor, bias: Tensor | None) -> Any:
        packed.append(weight)
        return pack_for_matrix(weight, bias)

    monkeypatch.setattr(lstm_scan, "pack_for_matrix", pack_and_record)
    return packed


def test_lstm_clips_cell_and_output_at_their_limits():
    """Some values of each are at the limit and some within."""
    layer = fill_parameters(LSTMLayer(INPUTS, WIDTH, project=NARROW, clip_limits=ClipLimits(0.5, 0.4)))
    x, rows = random_tensor(19, INPUTS), (9, 6, 4)
    out, (h, c) = layer(x, rows)
    for values, limit in ((out, 0.4), (h, 0.4), (c, 0.5)):
        assert values.abs().max() == limit
        assert 0 < (values.abs() == limit).double().mean() < 1
    for fast, reference in zip(*fast_and_reference(layer, rows, True), strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-9, atol=1e-11)


def single_unit_layer(
    cell: type[RecurrentLayer], inputs: list[float], states: list[float], biases: list[float], **options: Any
) -> Any:
    """A layer of one unit and one input with the given gate weights."""
    layer = fill_parameters(cell(1, 1, **options))
    with torch.no_grad():
        layer.input.weight.copy_(torch.tensor(inputs)[:, None])
        layer.state.weight.copy_(torch.tensor(states)[:, None])
        layer.input.bias.copy_(torch.tensor(biases))
    return layer


def one_step(layer: RecurrentLayer, x: float, *state: float) -> list[float]:
    """The output and state after one token; `step` and `forward` agree."""
    token, before = torch.tensor([[x]], dtype=torch.float64), tuple(torch.tensor([[value]]).double() for value in state)
    results = layer.step(token, before), layer(token, (1,), before)
    values = [[out.item(), *(value.item() for value in state_after)] for out, state_after in results]
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    return values[0]


def test_rnn_step_matches_worked_example():
    layer = single_unit_layer(ElmanLayer, [0.5], [0.25], [0.1])
    h = math.tanh(0.5 * 2 + 0.25 * -0.4 + 0.1)  # tanh 1
    assert one_step(layer, 2.0, -0.4) == pytest.approx([h, h], abs=1e-7)
    assert h == pytest.approx(0.7615942)


def test_gru_step_matches_worked_example():
    """r = σ(1 - ½·2) = ½; z = σ(log 3 + ½·2 - 1) = ¾; n = tanh(-¼ + ¼ + ½ (½·2 + 1)) = tanh 1."""
    layer = single_unit_layer(GRULayer, [1.0, math.log(3), -0.25], [-0.5, 0.5, 0.5], [0.0, -1.0, 0.25])
    layer.state.bias.data = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    h = (1 - 0.75) * math.tanh(1) + 0.75 * 2
    assert one_step(layer, 1.0, 2.0) == pytest.approx([h, h], abs=1e-6)
    assert h == pytest.approx(1.6903985)


def test_lstm_step_matches_worked_example():
    """i = σ(1 - 1) = ½; f = σ(log 3) = ¾; g = tanh(2 - 1) = tanh 1; o = σ(-log 3) = ¼."""
    gates = [1.0, math.log(3), 2.0, -math.log(3)], [1.0, 0.0, 0.5, 0.25], [0.0, 0.0, -0.5, 0.25]
    c = 0.75 * 2 + 0.5 * math.tanh(1)
    h = 0.25 * math.tanh(c)
    assert one_step(single_unit_layer(LSTMLayer, *gates), 1.0, -1.0, 2.0) == pytest.approx([h, h, c], abs=1e-6)
    assert (h, c) == pytest.approx((0.2386407, 1.8807971), abs=1e-6)
    projected = single_unit_layer(LSTMLayer, *gates, project=1)
    projected.project.weight.data.fill_(-2.0)
    assert one_step(projected, 1.0, -1.0, 2.0) == pytest.approx([-2 * h, -2 * h, c], abs=1e-6)
    clipped = single_unit_layer(LSTMLayer, *gates, project=1, clip_limits=ClipLimits(1.0, 0.3))
    clipped.project.weight.data.fill_(-2.0)  # the cell stops at 1, and -2 · ¼ · tanh 1 = -0.38 stops at -0.3
    assert one_step(clipped, 1.0, -1.0, 2.0) == pytest.approx([-0.3, -0.3, 1.0], abs=1e-6)


@pytest.mark.parametrize("backward", [False, True], ids=["onward", "backward"])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layer_of_a_sequence_is_independent_of_the_batch(kind: str, backward: bool):
    """A backward direction that started in the padding would depend on the other lengths."""
    cell, _, options = KINDS[kind]
    layer = fill_parameters(cell(INPUTS, WIDTH, backward=backward, **options), dtype=torch.float32)
    rows = (2, 9, 1, 9, 4)
    x = random_tensor(sum(rows), INPUTS, dtype=torch.float32)
    out, ends = layer(x, rows)
    for number, (sequence, in_batch) in enumerate(zip(x.split(rows), out.split(rows), strict=True)):
        alone, ends_alone = layer(sequence, (len(sequence),))
        torch.testing.assert_close(in_batch, alone, rtol=1e-5, atol=1e-6)
        for end, end_alone in zip(ends, ends_alone, strict=True):
            torch.testing.assert_close(end[number], end_alone[0], rtol=1e-5, atol=1e-6)
        end = in_batch[0 if backward else -1]
        torch.testing.assert_close(ends[0][number], end)


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_resumed_from_their_state_equal_full_sequences(kind: str):
    cell, _, options = KINDS[kind]
    layer = fill_parameters(cell(INPUTS, WIDTH, **options))
    full, first = random_tensor(16, INPUTS), torch.tensor([0, 1, 2, 7, 8, 13, 14])
    second = torch.tensor([3, 4, 5, 6, 9, 10, 11, 12, 15])
    out, ends = layer(full, (7, 6, 3))
    first_out, first_state = layer(full[first], (3, 2, 2))
    second_out, second_state = layer(full[second], (4, 4, 1), first_state)
    torch.testing.assert_close(first_out, out[first])
    torch.testing.assert_close(second_out, out[second])
    for state, expected in zip(second_state, ends, strict=True):
        torch.testing.assert_close(state, expected)


def test_lstm_forget_gate_biases_start_spread():
    """The share of the cell kept after a token, σ(bias), goes from 2/3 to 32/33."""
    layer = Model(LSTMLayer(3, 5), {}).initialize(0).encoder
    i, f, g, o = layer.input.bias.view(4, 5)  # pyright: ignore[reportAttributeAccessIssue]
    retention = torch.sigmoid(f)
    assert (retention[0].item(), retention[-1].item()) == pytest.approx((2 / 3, 32 / 33))
    assert (retention.diff() > 0).all()
    assert not torch.stack((i, g, o)).any()
