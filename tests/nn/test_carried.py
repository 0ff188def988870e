"""States that go from one step of training to the next: a stream in windows is read as the whole stream is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from recurrent_layers import filled
from torch import Tensor

from forebear.nn.encoder import BPTTState
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.recurrent import CELLS, RecurrentEncoder, RecurrentStack
from forebear.objectives.batch import Batch

VOCABULARY, WIDTH, STREAMS, LENGTH = 19, 6, 5, 20
WINDOWS = ((0, 7), (7, 14), (14, 20))
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (STREAMS, LENGTH))


def network(cell: str = "lstm") -> RecurrentEncoder:
    layers = RecurrentStack([CELLS[cell](WIDTH, WIDTH) for _ in range(2)])
    return filled(RecurrentEncoder(WordEmbedding(VOCABULARY, WIDTH), layers), dtype=torch.float64).train()


def window(first: int, last: int, fresh: np.ndarray | None = None) -> Batch:
    """A part of each stream, as `Streams` gives it; at the beginning all are fresh."""
    inputs = {"tokens": TOKENS[:, first:last].ravel(), "lengths": np.full(STREAMS, last - first)}
    inputs |= {"streams": np.arange(STREAMS), "fresh": np.full(STREAMS, not first) if fresh is None else fresh}
    return Batch(inputs, {})


def read(encoder: RecurrentEncoder, batch: Batch, parts: int = 1, order: int = 1) -> Tensor:
    """(streams, tokens, D) the last layer, made in so many parts, the last first where the order is -1."""
    found = []
    for part in batch.split(parts)[::order]:
        states = encoder(**{name: torch.from_numpy(array) for name, array in part.inputs.items()})
        found.append(states.last.view(len(part.inputs["lengths"]), -1, WIDTH))
    return torch.cat(found[::order])


def whole(encoder: RecurrentEncoder) -> Tensor:
    """All of every stream at once, as it is in use."""
    encoder.eval()
    states = encoder(torch.from_numpy(TOKENS.ravel()), [LENGTH] * STREAMS)
    encoder.train()
    return states.last.view(STREAMS, LENGTH, WIDTH)


@pytest.mark.parametrize(("parts", "order"), [(1, 1), (2, 1), (3, -1), (9, 1)])
@pytest.mark.parametrize("cell", CELLS)
def test_windows_of_a_stream_are_read_as_the_stream_is(cell: str, parts: int, order: int):
    encoder = network(cell)
    found = []
    for first, last in WINDOWS:
        found.append(read(encoder, window(first, last), parts, order))
        encoder.bptt_state.commit()
    torch.testing.assert_close(torch.cat(found, 1), whole(encoder))


def test_what_a_step_leaves_counts_only_when_it_was_made():
    """A step that is made once more, in more parts for want of memory, begins where the first one did."""
    encoder = network()
    read(encoder, window(0, 7))
    encoder.bptt_state.commit()
    read(encoder, window(7, 14))
    again = read(encoder, window(7, 14), 3)
    torch.testing.assert_close(again, whole(encoder)[:, 7:14])
    encoder.bptt_state.commit()
    torch.testing.assert_close(read(encoder, window(14, 20)), whole(encoder)[:, 14:])


def test_a_fresh_window_begins_with_nothing_and_the_others_go_on():
    encoder = network()
    read(encoder, window(0, 7))
    encoder.bptt_state.commit()
    fresh = np.array([False, True, False, True, False])
    found = read(encoder, window(7, 14, fresh))
    encoder.eval()
    anew = encoder(torch.from_numpy(TOKENS[:, 7:14].ravel()), [7] * STREAMS).last.view(STREAMS, 7, WIDTH)
    expected = torch.where(torch.from_numpy(fresh)[:, None, None], anew, whole(encoder)[:, 7:14])
    torch.testing.assert_close(found, expected)
    assert not torch.equal(anew[0], expected[0])


def test_gradients_end_where_a_window_begins():
    encoder = network()
    read(encoder, window(0, 7))
    encoder.bptt_state.commit()
    encoder.zero_grad()
    read(encoder, window(7, 14)).sum().backward()
    before, inside = (set(TOKENS[:, first:last].ravel().tolist()) for first, last in WINDOWS[:2])
    learned = encoder.embedding.token.weight.grad.abs().sum(1).nonzero().flatten().tolist()
    assert before - inside
    assert set(learned) == inside


def test_in_use_nothing_is_carried_and_nothing_is_left():
    encoder = network()
    read(encoder, window(0, 7))
    encoder.bptt_state.commit()
    held = {name: one.clone() for name, one in encoder.bptt_state.state_tensors().items()}
    encoder.eval()
    one, same = (read(encoder, window(7, 14)) for _ in range(2))
    encoder.bptt_state.commit()
    assert torch.equal(one, same)
    assert {name: one.tolist() for name, one in held.items()} == {
        name: one.tolist() for name, one in encoder.bptt_state.state_tensors().items()
    }


def test_what_was_saved_goes_on():
    encoder, other = network(), network()
    read(encoder, window(0, 7))
    assert encoder.bptt_state.state_tensors() == {}  # nothing was settled yet
    encoder.bptt_state.commit()
    saved = encoder.bptt_state.state_tensors()
    assert sorted(saved) == ["0.0", "0.1", "1.0", "1.1"]  # of two layers, h and c
    assert all(one.shape == (STREAMS, WIDTH) and not one.requires_grad for one in saved.values())
    other.bptt_state.load(saved)
    for one in saved.values():
        one.zero_()  # what was loaded is a copy
    torch.testing.assert_close(read(other, window(7, 14)), whole(other)[:, 7:14])
    other.bptt_state.clear()
    anew = read(other, window(7, 14))
    assert not torch.allclose(anew, whole(other)[:, 7:14])


def test_more_than_ten_layers_are_saved_in_order():
    held, layers = BPTTState(), 12
    zeros = [(torch.zeros(2, 1),) for _ in range(layers)]
    held.stage(torch.arange(2), [(torch.full((2, 1), float(number)),) for number in range(layers)])
    held.commit()
    other = BPTTState()
    other.load(dict(sorted(held.state_tensors().items())))
    states = other.states_for(torch.tensor([1]), torch.tensor([False]), [(zero[0][:1],) for zero in zeros])
    assert [state[0].item() for state in states] == list(range(layers))
