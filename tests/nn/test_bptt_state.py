"""Stateful truncated BPTT: a stream read in windows equals the stream read at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_recurrent_layers import fill_parameters
from torch import Tensor

from forebear.nn.bptt_state import BPTTState
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.recurrent import CELLS, RecurrentEncoder, RecurrentStack
from forebear.objectives.batch import Batch

VOCABULARY, WIDTH, STREAMS, LENGTH = 19, 6, 5, 20
WINDOWS = ((0, 7), (7, 14), (14, 20))
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (STREAMS, LENGTH))


def network(cell: str = "lstm") -> RecurrentEncoder:
    layers = RecurrentStack([CELLS[cell](WIDTH, WIDTH) for _ in range(2)])
    return fill_parameters(RecurrentEncoder(WordEmbedding(VOCABULARY, WIDTH), layers), dtype=torch.float64).train()


def window(first: int, last: int, fresh: np.ndarray | None = None) -> Batch:
    """A part of each stream as TokenStreams gives it; in the first window all sequences are fresh."""
    inputs = {"tokens": TOKENS[:, first:last].ravel(), "lengths": np.full(STREAMS, last - first)}
    inputs |= {"streams": np.arange(STREAMS), "fresh": np.full(STREAMS, not first) if fresh is None else fresh}
    return Batch(inputs, {})


def read_window(encoder: RecurrentEncoder, batch: Batch, num_parts: int = 1, order: int = 1) -> Tensor:
    """(streams, tokens, D) the last layer, computed in parts, in reverse order if `order` is -1."""
    outputs = []
    for part in batch.split(num_parts)[::order]:
        states = encoder(**{name: torch.from_numpy(array) for name, array in part.inputs.items()})
        outputs.append(states.last.view(len(part.inputs["lengths"]), -1, WIDTH))
    return torch.cat(outputs[::order])


def read_stream(encoder: RecurrentEncoder) -> Tensor:
    """(streams, tokens, D) the last layer of all streams at once, in eval mode."""
    encoder.eval()
    states = encoder(torch.from_numpy(TOKENS.ravel()), [LENGTH] * STREAMS)
    encoder.train()
    return states.last.view(STREAMS, LENGTH, WIDTH)


@pytest.mark.parametrize(("parts", "order"), [(1, 1), (2, 1), (3, -1), (9, 1)])
@pytest.mark.parametrize("cell", CELLS)
def test_windows_with_bptt_state_equal_the_full_stream(cell: str, parts: int, order: int):
    encoder = network(cell)
    outputs = []
    for first, last in WINDOWS:
        outputs.append(read_window(encoder, window(first, last), parts, order))
        encoder.bptt_state.commit()
    torch.testing.assert_close(torch.cat(outputs, 1), read_stream(encoder))


def test_bptt_state_changes_only_on_commit():
    """A step repeated in more parts, after running out of memory, starts from the same state."""
    encoder = network()
    read_window(encoder, window(0, 7))
    encoder.bptt_state.commit()
    read_window(encoder, window(7, 14))
    repeated = read_window(encoder, window(7, 14), 3)
    torch.testing.assert_close(repeated, read_stream(encoder)[:, 7:14])
    encoder.bptt_state.commit()
    torch.testing.assert_close(read_window(encoder, window(14, 20)), read_stream(encoder)[:, 14:])


def test_fresh_windows_start_from_zero_state():
    encoder = network()
    read_window(encoder, window(0, 7))
    encoder.bptt_state.commit()
    fresh = np.array([False, True, False, True, False])
    output = read_window(encoder, window(7, 14, fresh))
    encoder.eval()
    from_zero = encoder(torch.from_numpy(TOKENS[:, 7:14].ravel()), [7] * STREAMS).last.view(STREAMS, 7, WIDTH)
    expected = torch.where(torch.from_numpy(fresh)[:, None, None], from_zero, read_stream(encoder)[:, 7:14])
    torch.testing.assert_close(output, expected)
    assert not torch.equal(from_zero[0], expected[0])


def test_gradients_stop_at_the_start_of_a_window():
    encoder = network()
    read_window(encoder, window(0, 7))
    encoder.bptt_state.commit()
    encoder.zero_grad()
    read_window(encoder, window(7, 14)).sum().backward()
    previous_ids, window_ids = (set(TOKENS[:, first:last].ravel().tolist()) for first, last in WINDOWS[:2])
    changed_ids = encoder.embedding.token.weight.grad.abs().sum(1).nonzero().flatten().tolist()
    assert previous_ids - window_ids
    assert set(changed_ids) == window_ids


def test_eval_mode_neither_uses_nor_changes_bptt_state():
    encoder = network()
    read_window(encoder, window(0, 7))
    encoder.bptt_state.commit()
    state_before = {name: first.clone() for name, first in encoder.bptt_state.state_tensors().items()}
    encoder.eval()
    first, second = (read_window(encoder, window(7, 14)) for _ in range(2))
    encoder.bptt_state.commit()
    assert torch.equal(first, second)
    assert {name: first.tolist() for name, first in state_before.items()} == {
        name: first.tolist() for name, first in encoder.bptt_state.state_tensors().items()
    }


def test_saved_bptt_state_continues_after_load():
    encoder, other = network(), network()
    read_window(encoder, window(0, 7))
    assert encoder.bptt_state.state_tensors() == {}  # nothing is committed yet
    encoder.bptt_state.commit()
    saved = encoder.bptt_state.state_tensors()
    assert sorted(saved) == ["0.0", "0.1", "1.0", "1.1"]  # h and c of two layers
    assert all(tensor.shape == (STREAMS, WIDTH) and not tensor.requires_grad for tensor in saved.values())
    other.bptt_state.load(saved)
    for tensor in saved.values():
        tensor.zero_()  # the loaded state is a copy
    torch.testing.assert_close(read_window(other, window(7, 14)), read_stream(other)[:, 7:14])
    other.bptt_state.clear()
    from_zero = read_window(other, window(7, 14))
    assert not torch.allclose(from_zero, read_stream(other)[:, 7:14])


def test_bptt_state_of_more_than_ten_layers_loads_in_order():
    bptt_state, layers = BPTTState(), 12
    zeros = [(torch.zeros(2, 1),) for _ in range(layers)]
    bptt_state.stage(torch.arange(2), [(torch.full((2, 1), float(number)),) for number in range(layers)])
    bptt_state.commit()
    restored = BPTTState()
    restored.load(dict(sorted(bptt_state.state_tensors().items())))
    states = restored.states_for(torch.tensor([1]), torch.tensor([False]), [(zero[0][:1],) for zero in zeros])
    assert [state[0].item() for state in states] == list(range(layers))
