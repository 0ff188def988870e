"""Readers of word vectors: each text is read by itself, whoever stands beside it; only likes are looked for across."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from forebear.errors import InputError
from forebear.nn.model import Model
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.task_encoders import (
    TASK_ENCODERS,
    BiRecurrentLayer,
    ConvolutionLayer,
    TaskEncoder,
    attend_other_text,
    split_text_lengths,
)

WIDTH = 8
ROWS = ([3, 4, 5, 6, 7, 8], [5], [9, 3, 3, 1], [2, 6])
SEGMENTS = ([0, 0, 1, 1, 1, 1], [0], [0, 1, 1, 1], [0, 0])  # the second and the last row hold one text alone


def encoder(reader: str | None, *, pairs: bool = False, width: int = WIDTH, words: int = WIDTH) -> TaskEncoder:
    made = TaskEncoder(WordEmbedding(10, words), kind=reader, width=width, is_pair=pairs)
    Model(made, {}).initialize(3)
    return made.eval()


def read(one: TaskEncoder, rows: tuple[list[int], ...], segments: tuple[list[int], ...] | None = None) -> list[Tensor]:
    """The last vectors of each row."""
    tokens = torch.tensor([token for row in rows for token in row])
    told = None if segments is None else torch.tensor([part for row in segments for part in row])
    states = one(tokens, [len(row) for row in rows], told)
    assert len(states.layers) == one.depth + 1
    assert [tuple(layer.shape) for layer in states.layers] == [(len(tokens), width) for width in one.widths]
    return list(states.last.split([len(row) for row in rows]))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("reader", [None, *TASK_ENCODERS])
def test_a_row_alone_is_what_it_is_among_others(reader: str | None, pairs: bool):
    made = encoder(reader, pairs=pairs)
    for number, together in enumerate(read(made, ROWS, SEGMENTS)):
        (alone,) = read(made, (ROWS[number],), (SEGMENTS[number],))
        torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reader", ["convolution", "recurrent"])
def test_no_reader_looks_from_one_text_into_the_other(reader: str):
    """But for likes: without them, changing the second text changes nothing of the first."""
    body = TASK_ENCODERS[reader](WIDTH, WIDTH)
    Model(body, {}).initialize(3)
    x = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(0))
    other = torch.cat((x[:4], 5 * x[4:]))
    one, changed = body(x, (4, 2)), body(other, (4, 2))
    torch.testing.assert_close(one[:4], changed[:4], atol=1e-6, rtol=0)
    assert not torch.allclose(one[4:], changed[4:])


def test_a_convolution_is_torchs_over_a_text_with_zeros_around():
    body = ConvolutionLayer(WIDTH, WIDTH)
    Model(body, {}).initialize(1)
    x = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    found = []
    for one in body.filters:
        assert isinstance(one, nn.Conv1d)
        span = one.kernel_size[0]
        before = (span - 1) // 2
        laid = nn.functional.pad(x.t(), (before, span - 1 - before))
        found.append(one(laid[None])[0].t())
    torch.testing.assert_close(body(x, (5,)), torch.cat(found, 1).relu(), atol=1e-6, rtol=1e-5)
    assert body(x, (5,)).shape == (5, WIDTH)


def test_a_recurrent_reader_goes_back_from_the_last_word_of_each_text():
    body = BiRecurrentLayer(WIDTH, WIDTH)
    Model(body, {}).initialize(1)
    x = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(0))
    alone = [(part, (len(part),)) for part in x.split([2, 5])]
    wanted = torch.cat(
        [torch.cat([way.forward_reference(*one)[0] for way in (body.onward, body.back)], 1) for one in alone]
    )
    torch.testing.assert_close(body(x, (2, 5)), wanted, atol=1e-6, rtol=1e-5)
    with pytest.raises(InputError, match="two directions"):
        BiRecurrentLayer(WIDTH, 7)


def test_words_find_their_likes_in_the_other_text():
    x = torch.eye(4)[[0, 1, 2, 1, 0, 3]]  # a b c | b a d
    other = attend_other_text(x, (3, 3))
    near = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 3, 4])
    assert (other[near[1], near[0]] > 0.99).all()
    assert other[2].sum() < 1 - 1e-9  # c is like none: a part of it looks at nothing
    assert torch.equal(attend_other_text(x, (6, 0)), torch.zeros(6, 4))


def test_rows_are_parted_by_their_segments():
    segments = torch.tensor([part for row in SEGMENTS for part in row])
    assert split_text_lengths((6, 1, 4, 2), segments) == (2, 4, 1, 0, 1, 3, 2, 0)
    assert split_text_lengths((2, 3), None) == (2, 0, 3, 0)


@pytest.mark.parametrize("reader", TASK_ENCODERS)
@pytest.mark.parametrize("pairs", [False, True])
def test_a_reader_may_be_of_another_width_than_vectors(reader: str, pairs: bool):
    made = encoder(reader, pairs=pairs, width=6, words=10)
    assert [tuple(one.shape) for one in read(made, ROWS, SEGMENTS)] == [(len(row), 6) for row in ROWS]


def test_rows_without_words_are_no_trouble():
    from forebear.nn.heads import LabelHead

    for reader, how in (("mean", "mean"), ("convolution", "max"), ("recurrent", "max")):
        made = encoder(reader, words=WIDTH + 2)
        head = LabelHead(WIDTH, 2, how, dense=True)
        model = Model(made, {"label": head}).initialize(0).eval()
        for tokens, lengths in (([3, 4], [0, 2, 0]), ([], [0])):
            inputs = {"tokens": torch.tensor(tokens, dtype=torch.long), "lengths": torch.tensor(lengths)}
            assert torch.isfinite(model.logits(inputs)["label"]).all()


def test_the_first_layer_is_what_stays():
    made = encoder("convolution", pairs=True)
    assert [id(one) for one in made.lower_parameters(0)] == [id(made.embedding.token.weight)]
    assert {id(one) for one in made.lower_parameters(1)} == {id(one) for one in made.parameters()}
    assert next(iter(encoder(None, pairs=True).parameters())) is not None
    assert len(list(encoder(None, pairs=True).parameters())) == 1  # as they are: there is nothing else to learn
