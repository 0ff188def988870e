"""Recurrent layers against torch.nn on the same weights, hand-worked numbers, and their own step-by-step twin."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrent_layers import INPUTS, KINDS, LENGTHS, NARROW, WIDTH, answered, begun, drawn, filled
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence

from forebear.nn import lstm_scan
from forebear.nn.lstm_scan import ClipLimits
from forebear.nn.model import Model
from forebear.nn.recurrent import ElmanLayer, GRULayer, LSTMLayer, RecurrentLayer
from forebear.nn.weight_packing import pack_for_matrix


def peer_of(kind: type[nn.RNNBase], layers: list[RecurrentLayer], dtype: torch.dtype) -> nn.RNNBase:
    """torch's, in one direction or in both, with the same weights."""
    project = {"proj_size": NARROW} if layers[0].project is not None else {}
    peer = kind(INPUTS, WIDTH, bidirectional=len(layers) == 2, dtype=dtype, **project)
    with torch.no_grad():
        for layer, suffix in zip(layers, ("", "_reverse"), strict=False):
            own: dict[str, Any] = {"weight_ih": layer.input.weight, "weight_hh": layer.state.weight}
            own |= {"bias_ih": layer.input.bias, "bias_hh": layer.state.bias}
            own |= {} if layer.project is None else {"weight_hr": layer.project.weight}
            for name, value in own.items():
                place = getattr(peer, f"{name}_l0{suffix}")
                place.zero_() if value is None else place.copy_(value)
    return peer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_torchs(kind: str, lengths: str, directions: int, dtype: torch.dtype):
    ours, theirs, how = KINDS[kind]
    rows = LENGTHS[lengths]
    layers = [filled(ours(INPUTS, WIDTH, backward=bool(way), **how), way + 1, dtype=dtype) for way in range(directions)]
    peer = peer_of(theirs, layers, dtype)
    x = drawn(sum(rows), INPUTS, dtype=dtype).requires_grad_()
    states = [begun(layer, len(rows), dtype) for layer in layers]
    outs, ends = zip(*(layer(x, rows, state) for layer, state in zip(layers, states, strict=True)), strict=True)
    found = [torch.cat(outs, 1), *(torch.stack(parts) for parts in zip(*ends, strict=True))]

    begin = tuple(torch.stack(parts) for parts in zip(*states, strict=True))
    packed, left = peer(pack_sequence(x.split(rows), enforce_sorted=False), begin[0] if len(begin) == 1 else begin)
    assert isinstance(packed, PackedSequence)
    wanted = [torch.cat(unpack_sequence(packed)), *([left] if isinstance(left, Tensor) else left)]
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other, **near)

    own, names = [x, *(part for state in states for part in state)], ["weight_ih", "weight_hh", "bias_ih"]
    own += [value for layer in layers for value in (layer.input.weight, layer.state.weight, layer.input.bias)]
    other = own[: 1 + directions * len(begin)]
    other += [getattr(peer, f"{name}_l0{suffix}") for suffix in ("", "_reverse")[:directions] for name in names]
    if how:
        own += [layer.project.weight for layer in layers]
        other += [getattr(peer, f"weight_hr_l0{suffix}") for suffix in ("", "_reverse")[:directions]]
    for one, its in zip(answered(found, own), answered(wanted, other), strict=True):
        torch.testing.assert_close(one, its, **near)


def test_the_second_bias_of_a_gru_is_learned_as_torch_does():
    layer = filled(GRULayer(INPUTS, WIDTH))
    peer, x = peer_of(nn.GRU, [layer], torch.float64), drawn(8, INPUTS)
    (own,) = answered([layer(x, (5, 3))[0]], [layer.state.bias])
    packed = peer(pack_sequence(x.split([5, 3])))[0]
    (their,) = answered([torch.cat(unpack_sequence(packed))], [peer.bias_hh_l0])  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(own, their)


def twins(layer: RecurrentLayer, rows: tuple[int, ...], given_state: bool) -> list[list[Tensor]]:
    """All values and gradients, of `forward` and of `read`."""
    x = drawn(sum(rows), INPUTS).requires_grad_()
    state = begun(layer, len(rows)) if given_state else None
    told = []
    for way in (layer, layer.forward_reference):
        out, ends = way(x, rows, state)
        gradients = answered([out, *ends], [x, *layer.parameters(), *(state or ())])
        told.append([out, *ends, *gradients])
    return told


@settings(max_examples=60)
@given(
    rows=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    kind=st.sampled_from(sorted(KINDS)),
    backward=st.booleans(),
    clipped=st.booleans(),
    given_state=st.booleans(),
)
def test_whole_rows_are_what_reading_token_by_token_gives(
    rows: list[int], kind: str, backward: bool, clipped: bool, given_state: bool
):
    cell, _, how = KINDS[kind]
    layer = filled(
        cell(INPUTS, WIDTH, backward=backward, clip_limits=ClipLimits(0.5, 0.4) if clipped else ClipLimits(), **how)
    )
    for fast, plain in zip(*twins(layer, tuple(rows), given_state), strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("project", [None, NARROW], ids=["plain", "projected"])
def test_packed_weights_give_the_same(project: int | None, monkeypatch: pytest.MonkeyPatch):
    """As large layers have them; packing is for single precision alone."""
    layer = filled(LSTMLayer(INPUTS, WIDTH, project=project, clips=ClipLimits(0.5, 0.4)), dtype=torch.float32)
    x = drawn(11, INPUTS, dtype=torch.float32).requires_grad_()
    monkeypatch.setattr(lstm_scan, "MIN_PACKED_WEIGHTS", 0)
    packed = laid_out(monkeypatch)
    told = []
    for way in (layer, layer.forward_reference):
        out = way(x, (5, 2, 4))[0]
        told.append([out, *answered([out], [x, *layer.parameters()])])
    for fast, plain in zip(*told, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)
    assert len(packed) == (2 if project is None else 4)  # on the way there and back


def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The weights that are laid out for several rows from now on."""
    seen: list[Tensor] = []

    def laid(weight: Tensor, bias: Tensor | None) -> Any:
        seen.append(weight)
        return pack_for_matrix(weight, bias)

    monkeypatch.setattr(lstm_scan, "pack_for_matrix", laid)
    return seen


def test_clips_cut_off_what_is_beyond_them_and_nothing_else():
    """Of both kinds of number there are some at the limit and some within."""
    layer = filled(LSTMLayer(INPUTS, WIDTH, project=NARROW, clips=ClipLimits(0.5, 0.4)))
    x, rows = drawn(19, INPUTS), (9, 6, 4)
    out, (h, c) = layer(x, rows)
    for numbers, limit in ((out, 0.4), (h, 0.4), (c, 0.5)):
        assert numbers.abs().max() == limit
        assert 0 < (numbers.abs() == limit).double().mean() < 1
    for fast, plain in zip(*twins(layer, rows, True), strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-11)


def by_hand(
    cell: type[RecurrentLayer], inputs: list[float], states: list[float], biases: list[float], **how: Any
) -> Any:
    """One unit and one input, with these weights of its gates."""
    layer = filled(cell(1, 1, **how))
    with torch.no_grad():
        layer.input.weight.copy_(torch.tensor(inputs)[:, None])
        layer.state.weight.copy_(torch.tensor(states)[:, None])
        layer.input.bias.copy_(torch.tensor(biases))
    return layer


def one_step(layer: RecurrentLayer, x: float, *state: float) -> list[float]:
    """What comes out, and the state: the same by a step and by a row of one token."""
    token, before = torch.tensor([[x]], dtype=torch.float64), tuple(torch.tensor([[one]]).double() for one in state)
    ways = layer.step(token, before), layer(token, (1,), before)
    told = [[out.item(), *(one.item() for one in left)] for out, left in ways]
    assert told[0] == pytest.approx(told[1], abs=1e-12)
    return told[0]


def test_a_step_of_an_rnn_by_hand():
    layer = by_hand(ElmanLayer, [0.5], [0.25], [0.1])
    h = math.tanh(0.5 * 2 + 0.25 * -0.4 + 0.1)  # tanh 1
    assert one_step(layer, 2.0, -0.4) == pytest.approx([h, h], abs=1e-7)
    assert h == pytest.approx(0.7615942)


def test_a_step_of_a_gru_by_hand():
    """r = σ(1 - ½·2) = ½; z = σ(log 3 + ½·2 - 1) = ¾; n = tanh(-¼ + ¼ + ½ (½·2 + 1)) = tanh 1."""
    layer = by_hand(GRULayer, [1.0, math.log(3), -0.25], [-0.5, 0.5, 0.5], [0.0, -1.0, 0.25])
    layer.state.bias.data = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    h = (1 - 0.75) * math.tanh(1) + 0.75 * 2
    assert one_step(layer, 1.0, 2.0) == pytest.approx([h, h], abs=1e-6)
    assert h == pytest.approx(1.6903985)


def test_a_step_of_an_lstm_by_hand():
    """i = σ(1 - 1) = ½; f = σ(log 3) = ¾; g = tanh(2 - 1) = tanh 1; o = σ(-log 3) = ¼."""
    gates = [1.0, math.log(3), 2.0, -math.log(3)], [1.0, 0.0, 0.5, 0.25], [0.0, 0.0, -0.5, 0.25]
    c = 0.75 * 2 + 0.5 * math.tanh(1)
    h = 0.25 * math.tanh(c)
    assert one_step(by_hand(LSTMLayer, *gates), 1.0, -1.0, 2.0) == pytest.approx([h, h, c], abs=1e-6)
    assert (h, c) == pytest.approx((0.2386407, 1.8807971), abs=1e-6)
    projected = by_hand(LSTMLayer, *gates, project=1)
    projected.project.weight.data.fill_(-2.0)
    assert one_step(projected, 1.0, -1.0, 2.0) == pytest.approx([-2 * h, -2 * h, c], abs=1e-6)
    clipped = by_hand(LSTMLayer, *gates, project=1, clips=ClipLimits(1.0, 0.3))
    clipped.project.weight.data.fill_(-2.0)  # the cell stops at 1, and -2 · ¼ · tanh 1 = -0.38 stops at -0.3
    assert one_step(clipped, 1.0, -1.0, 2.0) == pytest.approx([-0.3, -0.3, 1.0], abs=1e-6)


@pytest.mark.parametrize("backward", [False, True], ids=["onward", "backward"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_alone_gives_what_it_gives_among_others(kind: str, backward: bool):
    """A backward direction that began in padding would know how long the others are."""
    cell, _, how = KINDS[kind]
    layer = filled(cell(INPUTS, WIDTH, backward=backward, **how), dtype=torch.float32)
    rows = (2, 9, 1, 9, 4)
    x = drawn(sum(rows), INPUTS, dtype=torch.float32)
    out, ends = layer(x, rows)
    for number, (mine, among) in enumerate(zip(x.split(rows), out.split(rows), strict=True)):
        alone, left = layer(mine, (len(mine),))
        torch.testing.assert_close(among, alone, rtol=1e-5, atol=1e-6)
        for end, own in zip(ends, left, strict=True):
            torch.testing.assert_close(end[number], own[0], rtol=1e-5, atol=1e-6)
        end = among[0 if backward else -1]
        torch.testing.assert_close(ends[0][number], end)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_go_on_from_where_they_were_left_are_read_as_a_whole(kind: str):
    cell, _, how = KINDS[kind]
    layer = filled(cell(INPUTS, WIDTH, **how))
    whole, first = drawn(16, INPUTS), torch.tensor([0, 1, 2, 7, 8, 13, 14])
    second = torch.tensor([3, 4, 5, 6, 9, 10, 11, 12, 15])
    out, ends = layer(whole, (7, 6, 3))
    begin, left = layer(whole[first], (3, 2, 2))
    rest, over = layer(whole[second], (4, 4, 1), left)
    torch.testing.assert_close(begin, out[first])
    torch.testing.assert_close(rest, out[second])
    for one, other in zip(over, ends, strict=True):
        torch.testing.assert_close(one, other)


def test_forget_gates_begin_more_or_less_open():
    """Of what a cell holds, σ(bias) is left after a token: from 2 in 3 to 32 in 33."""
    layer = Model(LSTMLayer(3, 5), {}).initialize(0).encoder
    i, f, g, o = layer.input.bias.view(4, 5)  # pyright: ignore[reportAttributeAccessIssue]
    left = torch.sigmoid(f)
    assert (left[0].item(), left[-1].item()) == pytest.approx((2 / 3, 32 / 33))
    assert (left.diff() > 0).all()
    assert not torch.stack((i, g, o)).any()
