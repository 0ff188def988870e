"""Words by how they are written, against filters over every word padded to its full length, as others do it."""

from __future__ import annotations

import pytest
import torch
from recurrent_layers import drawn, filled
from torch import Tensor
from torch.nn import functional

from forebear.data.tokenizers.char_ids import CHAR_MARKERS, CharIds
from forebear.nn.char_cnn import HIGHWAY_GATE_BIAS, CharCNNEmbedding, Highway

WORDS = ["</s>", "a", "cat", "catalogue", "银行", "x" * 48, "y" * 47, "z" * 60, "z" * 61, "naïve", "行"]
FILTERS = [(1, 4), (2, 3), (3, 5), (7, 6)]
WIDTH, SYMBOL = 6, 4


def spelled(activation: str = "relu", longest: int = 50, highways: int = 2) -> CharCNNEmbedding:
    spelling = CharIds(WORDS, longest, {"end": 0})
    made = CharCNNEmbedding(spelling, WIDTH, symbol=SYMBOL, filters=FILTERS, highways=highways, activation=activation)
    return filled(made, dtype=torch.float64)


def plainly(ours: CharCNNEmbedding, symbols: list[int]) -> Tensor:
    """(D,) one word: all its places, what lies beyond it too."""
    assert len(symbols) == ours.spelling.max_symbols
    x = torch.stack([ours.character.weight[symbol] for symbol in symbols]).t()[None]  # (1, symbol, longest)
    found = []
    for (span, count), one in zip(FILTERS, ours.filters, strict=True):
        weight = one.weight.view(count, span, SYMBOL).transpose(1, 2)  # pyright: ignore[reportCallIssue]
        seen = functional.conv1d(x, weight, one.bias)[0]  # pyright: ignore[reportArgumentType]
        found.append((torch.relu(seen) if ours.activation == "relu" else torch.tanh(seen)).max(1).values)
    y = torch.cat(found)
    for highway in ours.highways:
        assert isinstance(highway, Highway)
        gate = torch.sigmoid(highway.carry.weight @ y + highway.carry.bias)
        y = gate * torch.relu(highway.transform.weight @ y + highway.transform.bias) + (1 - gate) * y
    return ours.project.weight @ y + ours.project.bias


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("words", [[1], [4], [2, 1, 2], [0, 9, 10, 2], [3, 6], [5, 2], [8, 7, 1], list(range(11))])
def test_vectors_and_gradients_are_those_of_filters_over_whole_words(words: list[int], activation: str):
    ours = spelled(activation)
    found = ours(torch.tensor(words))
    rows = ours.spelling.char_rows(torch.tensor(words).numpy()).tolist()
    wanted = torch.stack([plainly(ours, row) for row in rows])
    assert float(wanted.detach().std()) > 0.1
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    weights = drawn(*found.shape, seed=3)
    gradients = [torch.autograd.grad((told * weights).sum(), list(ours.parameters())) for told in (found, wanted)]
    for own, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-9, atol=1e-9)


def test_where_nothing_but_what_lies_beyond_is_found_it_is_found():
    """A filter that likes no symbol but that: short words have such places, and one that is as long as can be none."""
    ours = spelled(highways=0)
    with torch.no_grad():
        ours.character.weight.fill_(-1.0)
        ours.character.weight[CHAR_MARKERS] = 1.0
        for one in ours.filters:
            one.weight.fill_(1.0)
            one.bias.zero_()
    seen = []
    ours.project.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    ours(torch.tensor([1, 5]))
    short, full = seen[0].tolist()
    assert short == [span * SYMBOL for span, count in FILTERS for _ in range(count)]
    assert full == [0.0] * len(full)  # each filter's most is negative
    ours(torch.tensor([1, 2]))
    assert seen[1].tolist() == [short, short]


def test_a_batch_reads_each_word_once_and_no_further_than_the_longest_reaches():
    ours = spelled()
    read = []
    ours.filters[3].register_forward_pre_hook(lambda _, given: read.append(given[0].shape))
    tokens = torch.tensor([3, 2, 3, 1, 2, 2, 3, 1])
    once = ours(tokens)
    places = len("catalogue") + 2 + 7 - 7 + 1  # all that the widest filter can see of it, and one beyond it
    assert read == [(3 * places, 7 * SYMBOL)]
    for token, vector in zip(tokens.tolist(), once, strict=True):
        torch.testing.assert_close(vector, ours(torch.tensor([token]))[0])


def test_words_that_differ_only_beyond_what_is_read_are_the_same():
    ours = spelled()
    long, longer, other = ours(torch.tensor([7, 8, 5]))
    assert torch.equal(long, longer)
    assert not torch.equal(long, other)


def test_a_word_that_no_vocabulary_has_gets_the_vector_of_its_spelling():
    ours = spelled()
    known = ours(torch.tensor([2]))[0]
    again, other = ours.spelling.oov_id("cat"), ours.spelling.oov_id("cats")
    assert (again, other) == (11, 12)
    same, plural = ours(torch.tensor([again, other]))
    torch.testing.assert_close(same, known)
    torch.testing.assert_close(plural, plainly(ours, ours.spelling.encode_word("cats").tolist()))
    assert ours.vocabulary == len(WORDS)


def test_a_highway_begins_with_most_of_what_came_in():
    from forebear.nn.layers import initial_values

    highway = Highway(5)
    values = initial_values(highway, 0)
    assert values["carry.bias"].tolist() == [HIGHWAY_GATE_BIAS] * 5
    assert values["transform.bias"].tolist() == [0.0] * 5
