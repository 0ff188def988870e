"""Task encoders over word vectors: independence of the batch and, but for matching words, of the other text."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from forebear.errors import InputError
from forebear.nn.model import Model
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.word_vector_task_encoders import (
    TASK_ENCODERS,
    BiRecurrentLayer,
    ConvolutionLayer,
    TaskEncoder,
    attend_other_text,
    split_text_lengths,
)

WIDTH = 8
ROWS = ([3, 4, 5, 6, 7, 8], [5], [9, 3, 3, 1], [2, 6])
SEGMENTS = ([0, 0, 1, 1, 1, 1], [0], [0, 1, 1, 1], [0, 0])  # the second and the last sequence have one text


def encoder(reader: str | None, *, pairs: bool = False, width: int = WIDTH, words: int = WIDTH) -> TaskEncoder:
    result = TaskEncoder(WordEmbedding(10, words), kind=reader, width=width, is_pair=pairs)
    Model(result, {}).initialize(3)
    return result.eval()


def last_vectors(
    task_encoder: TaskEncoder, rows: tuple[list[int], ...], segments: tuple[list[int], ...] | None = None
) -> list[Tensor]:
    """The last layer of each sequence."""
    tokens = torch.tensor([token for row in rows for token in row])
    segment_ids = None if segments is None else torch.tensor([segment for row in segments for segment in row])
    states = task_encoder(tokens, [len(row) for row in rows], segment_ids)
    assert len(states.layers) == task_encoder.depth + 1
    assert [tuple(layer.shape) for layer in states.layers] == [(len(tokens), width) for width in task_encoder.widths]
    return list(states.last.split([len(row) for row in rows]))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("reader", [None, *TASK_ENCODERS])
def test_task_encoder_of_a_sequence_is_independent_of_the_batch(reader: str | None, pairs: bool):
    task_encoder = encoder(reader, pairs=pairs)
    for number, batched in enumerate(last_vectors(task_encoder, ROWS, SEGMENTS)):
        (alone,) = last_vectors(task_encoder, (ROWS[number],), (SEGMENTS[number],))
        torch.testing.assert_close(batched, alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reader", ["convolution", "recurrent"])
def test_task_encoder_of_first_text_is_independent_of_second_text(reader: str):
    """Except for matching words: changing the second text leaves the first unchanged."""
    body = TASK_ENCODERS[reader](WIDTH, WIDTH)
    Model(body, {}).initialize(3)
    x = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(0))
    changed_x = torch.cat((x[:4], 5 * x[4:]))
    original, changed = body(x, (4, 2)), body(changed_x, (4, 2))
    torch.testing.assert_close(original[:4], changed[:4], atol=1e-6, rtol=0)
    assert not torch.allclose(original[4:], changed[4:])


def test_convolution_equals_torch_with_zero_padding():
    body = ConvolutionLayer(WIDTH, WIDTH)
    Model(body, {}).initialize(1)
    x = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    features = []
    for convolution in body.filters:
        assert isinstance(convolution, nn.Conv1d)
        span = convolution.kernel_size[0]
        left_padding = (span - 1) // 2
        padded = nn.functional.pad(x.t(), (left_padding, span - 1 - left_padding))
        features.append(convolution(padded[None])[0].t())
    torch.testing.assert_close(body(x, (5,)), torch.cat(features, 1).relu(), atol=1e-6, rtol=1e-5)
    assert body(x, (5,)).shape == (5, WIDTH)


def test_bidirectional_layer_starts_backward_at_last_word_of_each_text():
    body = BiRecurrentLayer(WIDTH, WIDTH)
    Model(body, {}).initialize(1)
    x = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(0))
    texts = [(part, (len(part),)) for part in x.split([2, 5])]
    expected = torch.cat(
        [
            torch.cat([direction.forward_reference(*text)[0] for direction in (body.onward, body.back)], 1)
            for text in texts
        ]
    )
    torch.testing.assert_close(body(x, (2, 5)), expected, atol=1e-6, rtol=1e-5)
    with pytest.raises(InputError, match="two directions"):
        BiRecurrentLayer(WIDTH, 7)


def test_attend_other_text_finds_equal_words():
    x = torch.eye(4)[[0, 1, 2, 1, 0, 3]]  # a b c | b a d
    attention = attend_other_text(x, (3, 3))
    matches = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 3, 4])
    assert (attention[matches[1], matches[0]] > 0.99).all()
    assert attention[2].sum() < 1 - 1e-9  # c has no match: part of its weight goes nowhere
    assert torch.equal(attend_other_text(x, (6, 0)), torch.zeros(6, 4))


def test_split_text_lengths_follow_segments():
    segments = torch.tensor([part for row in SEGMENTS for part in row])
    assert split_text_lengths((6, 1, 4, 2), segments) == (2, 4, 1, 0, 1, 3, 2, 0)
    assert split_text_lengths((2, 3), None) == (2, 0, 3, 0)


@pytest.mark.parametrize("reader", TASK_ENCODERS)
@pytest.mark.parametrize("pairs", [False, True])
def test_task_encoder_width_may_differ_from_vectors(reader: str, pairs: bool):
    task_encoder = encoder(reader, pairs=pairs, width=6, words=10)
    assert [tuple(vectors.shape) for vectors in last_vectors(task_encoder, ROWS, SEGMENTS)] == [
        (len(row), 6) for row in ROWS
    ]


def test_task_encoders_give_finite_logits_for_empty_sequences():
    from forebear.nn.heads import LabelHead

    for reader, pooling in (("mean", "mean"), ("convolution", "max"), ("recurrent", "max")):
        task_encoder = encoder(reader, words=WIDTH + 2)
        head = LabelHead(WIDTH, 2, pooling, dense=True)
        model = Model(task_encoder, {"label": head}).initialize(0).eval()
        for tokens, lengths in (([3, 4], [0, 2, 0]), ([], [0])):
            inputs = {"tokens": torch.tensor(tokens, dtype=torch.long), "lengths": torch.tensor(lengths)}
            assert torch.isfinite(model.logits(inputs)["label"]).all()


def test_lower_parameters_start_with_the_embedding():
    task_encoder = encoder("convolution", pairs=True)
    assert [id(parameter) for parameter in task_encoder.lower_parameters(0)] == [
        id(task_encoder.embedding.token.weight)
    ]
    assert {id(parameter) for parameter in task_encoder.lower_parameters(1)} == {
        id(parameter) for parameter in task_encoder.parameters()
    }
    assert next(iter(encoder(None, pairs=True).parameters())) is not None
    assert len(list(encoder(None, pairs=True).parameters())) == 1  # the embedding is the only parameter
