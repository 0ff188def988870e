"""The character CNN against convolutions over each word padded to its full length."""

from __future__ import annotations

import pytest
import torch
from small_recurrent_layers import fill_parameters, random_tensor
from torch import Tensor
from torch.nn import functional

from forebear.data.tokenizers.char_ids import CHAR_MARKERS, CharIds
from forebear.nn.char_cnn import HIGHWAY_GATE_BIAS, CharCNNEmbedding, Highway

WORDS = ["</s>", "a", "cat", "catalogue", "银行", "x" * 48, "y" * 47, "z" * 60, "z" * 61, "naïve", "行"]
FILTERS = [(1, 4), (2, 3), (3, 5), (7, 6)]
WIDTH, SYMBOL = 6, 4


def char_cnn(activation: str = "relu", longest: int = 50, highways: int = 2) -> CharCNNEmbedding:
    spelling = CharIds(WORDS, longest, {"end": 0})
    embedding = CharCNNEmbedding(
        spelling, WIDTH, char_size=SYMBOL, filters=FILTERS, num_highways=highways, activation=activation
    )
    return fill_parameters(embedding, dtype=torch.float64)


def reference_vector(embedding: CharCNNEmbedding, symbols: list[int]) -> Tensor:
    """(D,) one word: all positions, padding included."""
    assert len(symbols) == embedding.char_ids.longest
    x = torch.stack([embedding.character.weight[symbol] for symbol in symbols]).t()[None]  # (1, symbol, longest)
    features = []
    for (span, count), convolution in zip(FILTERS, embedding.filters, strict=True):
        weight = convolution.weight.view(count, span, SYMBOL).transpose(1, 2)  # pyright: ignore[reportCallIssue]
        activations = functional.conv1d(x, weight, convolution.bias)[0]  # pyright: ignore[reportArgumentType]
        features.append(
            (torch.relu(activations) if embedding.activation == "relu" else torch.tanh(activations)).max(1).values
        )
    y = torch.cat(features)
    for highway in embedding.highways:
        assert isinstance(highway, Highway)
        gate = torch.sigmoid(highway.carry.weight @ y + highway.carry.bias)
        y = gate * torch.relu(highway.transform.weight @ y + highway.transform.bias) + (1 - gate) * y
    return embedding.project.weight @ y + embedding.project.bias


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("words", [[1], [4], [2, 1, 2], [0, 9, 10, 2], [3, 6], [5, 2], [8, 7, 1], list(range(11))])
def test_char_cnn_and_gradients_equal_convolution_over_padded_words(words: list[int], activation: str):
    embedding = char_cnn(activation)
    actual = embedding(torch.tensor(words))
    rows = embedding.char_ids.char_rows(torch.tensor(words).numpy()).tolist()
    expected = torch.stack([reference_vector(embedding, row) for row in rows])
    assert float(expected.detach().std()) > 0.1
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    weights = random_tensor(*actual.shape, seed=3)
    gradients = [
        torch.autograd.grad((vectors * weights).sum(), list(embedding.parameters())) for vectors in (actual, expected)
    ]
    for gradient, expected_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-9)


def test_char_cnn_filters_see_the_padding_of_short_words():
    """Filters that respond only to padding: short words have such positions, a word of maximum length has none."""
    embedding = char_cnn(highways=0)
    with torch.no_grad():
        embedding.character.weight.fill_(-1.0)
        embedding.character.weight[CHAR_MARKERS] = 1.0
        for convolution in embedding.filters:
            convolution.weight.fill_(1.0)
            convolution.bias.zero_()
    features = []
    embedding.project.register_forward_pre_hook(lambda _, arguments: features.append(arguments[0]))
    embedding(torch.tensor([1, 5]))
    short, full = features[0].tolist()
    assert short == [span * SYMBOL for span, count in FILTERS for _ in range(count)]
    assert full == [0.0] * len(full)  # the maximum of each filter is negative
    embedding(torch.tensor([1, 2]))
    assert features[1].tolist() == [short, short]


def test_char_cnn_computes_each_distinct_word_once_without_padding():
    embedding = char_cnn()
    input_shapes = []
    embedding.filters[3].register_forward_pre_hook(lambda _, arguments: input_shapes.append(arguments[0].shape))
    tokens = torch.tensor([3, 2, 3, 1, 2, 2, 3, 1])
    vectors = embedding(tokens)
    num_positions = len("catalogue") + 2 + 7 - 7 + 1  # all positions of the widest filter, and one of padding
    assert input_shapes == [(3 * num_positions, 7 * SYMBOL)]
    for token, vector in zip(tokens.tolist(), vectors, strict=True):
        torch.testing.assert_close(vector, embedding(torch.tensor([token]))[0])


def test_words_differing_beyond_maximum_length_have_equal_vectors():
    embedding = char_cnn()
    long, longer, other = embedding(torch.tensor([7, 8, 5]))
    assert torch.equal(long, longer)
    assert not torch.equal(long, other)


def test_oov_word_gets_vector_of_its_characters():
    embedding = char_cnn()
    known = embedding(torch.tensor([2]))[0]
    cat_id, cats_id = embedding.char_ids.oov_id("cat"), embedding.char_ids.oov_id("cats")
    assert (cat_id, cats_id) == (11, 12)
    cat_vector, plural = embedding(torch.tensor([cat_id, cats_id]))
    torch.testing.assert_close(cat_vector, known)
    torch.testing.assert_close(plural, reference_vector(embedding, embedding.char_ids.encode_word("cats").tolist()))
    assert embedding.vocab_size == len(WORDS)


def test_highway_starts_with_carry_bias():
    from forebear.nn.layers import initial_values

    highway = Highway(5)
    values = initial_values(highway, 0)
    assert values["carry.bias"].tolist() == [HIGHWAY_GATE_BIAS] * 5
    assert values["transform.bias"].tolist() == [0.0] * 5
