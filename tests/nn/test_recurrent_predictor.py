"""A recurrent network asked for probabilities: rows in pieces, in batches and token by token get the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from building import VOCABULARY, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrent_layers import filled

from forebear.errors import InputError
from forebear.nn import causal_lm, encode_rows
from forebear.nn.causal_lm import RecurrentCausalLM
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.quantized import quantized_copy
from forebear.nn.recurrent import CELLS, BiLMEncoder, LSTMLayer, RecurrentEncoder, RecurrentStack
from forebear.nn.softmax import AdaptiveSoftmax, SoftmaxHead

WIDTH = 12


def model_of(kind: str) -> Model:
    """A language model by a cell and a full softmax; tied and with an adaptive one, by an LSTM; ELMo's, both ways."""
    words = WordEmbedding(VOCABULARY, WIDTH)
    softmax = AdaptiveSoftmax(WIDTH, VOCABULARY, (10, 25) if kind == "adaptive" else ())
    head: Any = LMHead(words, bias=True) if kind == "tied" else SoftmaxHead(softmax)
    if kind == "both ways":
        halves = [
            RecurrentStack([LSTMLayer(WIDTH, 2 * WIDTH, project=WIDTH, backward=backward) for _ in range(2)], skip=True)
            for backward in (False, True)
        ]
        heads = {"next": head, "previous": SoftmaxHead(softmax, input_offset=WIDTH, is_shared=True)}
        return filled(Model(BiLMEncoder(words, *halves, boundary_ids=(0, 0)), heads), dtype=torch.float32)
    layers = [CELLS.get(kind, LSTMLayer)(WIDTH, WIDTH) for _ in range(2)]
    return filled(
        Model(RecurrentEncoder(words, RecurrentStack(layers), dropout=0.5), {"next": head}), dtype=torch.float32
    )


KINDS = [*CELLS, "tied", "adaptive", "both ways"]


def plainly(model: Model, row: np.ndarray) -> np.ndarray:
    """(n, V) log P of every token after each place of a row: one row at a time, all of it at once."""
    with torch.inference_mode():
        told = model.eval().logits({"tokens": torch.from_numpy(row), "lengths": torch.tensor([len(row)])}, ["next"])
    return told["next"].double().log_softmax(1).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_what_follows_token_by_token(kind: str):
    model = model_of(kind)
    predictor = RecurrentCausalLM(model)
    rows = rows_of(5, 9, 1, 2, 9)
    scores = predictor.score(rows)
    for row, told in zip(rows, scores, strict=True):
        table = plainly(model, row)
        np.testing.assert_allclose(told, table[np.arange(len(row) - 1), row[1:]], atol=1e-4)
        begun = [row[:place] for place in range(1, len(row) + 1)]
        followed = predictor.next_log_probs(begun)
        np.testing.assert_allclose(followed, table, atol=1e-4)
        assert np.exp(followed.astype(np.float64)).sum(1) == pytest.approx(1, abs=1e-5)
    assert [len(told) for told in scores] == [4, 8, 0, 1, 8]
    assert np.ptp(np.concatenate(scores)) > 2  # the answers differ


def test_a_row_of_ten_thousand_tokens_and_one_of_one():
    """Its end is far from its beginning, and both count: nothing is cut off, nothing is forgotten between pieces."""
    model = model_of("lstm")
    predictor = RecurrentCausalLM(model)
    long, one = rows_of(10_000, 1)
    (told, none), table = predictor.score([long, one]), plainly(model, long)
    assert len(none) == 0
    np.testing.assert_allclose(told, table[np.arange(9999), long[1:]], atol=1e-4)
    np.testing.assert_allclose(predictor.next_log_probs([one, long])[1], table[-1], atol=1e-4)
    assert predictor.max_length is None


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=7), at_once=st.sampled_from([1, 7, 30, 2048]))
def test_pieces_and_batches_change_nothing(lengths: list[int], at_once: int):
    predictor, rows = RecurrentCausalLM(model_of("lstm")), rows_of(*lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_rows, "BATCH_TOKENS", at_once)
        patch.setattr(causal_lm, "BATCH_TOKENS", at_once)
        scores, followed = predictor.score(rows), predictor.next_log_probs(rows)
        reader = predictor.start_decoding(rows, 3)
    for number, row in enumerate(rows):
        np.testing.assert_allclose(scores[number], predictor.score([row])[0], atol=1e-4)
        np.testing.assert_allclose(followed[number], predictor.next_log_probs([row])[0], atol=1e-4)
    next_ones = reader.next_logits()
    np.testing.assert_allclose(torch.from_numpy(next_ones).log_softmax(1).numpy(), followed, atol=1e-4)


@pytest.mark.parametrize("small", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_continued_kept_repeated_and_dropped(kind: str, small: bool):
    model = quantized_copy(model_of(kind)) if small else model_of(kind)
    predictor = RecurrentCausalLM(model)
    rows = rows_of(5, 1, 12, 5)
    reader = predictor.start_decoding(rows, 6)
    texts = [row.tolist() for row in rows]
    for step, kept in enumerate([[0, 1, 2, 3], [3, 3, 0, 1, 2], [4, 0, 2], [2, 1], [0], []]):
        scores = reader.next_logits()
        assert scores.dtype == np.float32
        wanted = predictor.next_log_probs([np.array(text) for text in texts])
        np.testing.assert_allclose(
            torch.from_numpy(scores).log_softmax(1).numpy(), wanted, atol=0.05 if small else 1e-4
        )
        chosen = (scores.argmax(1) + step) % VOCABULARY
        reader.append(chosen)
        texts = [[*text, int(token)] for text, token in zip(texts, chosen, strict=True)]
        reader.select(np.array(kept, np.int64))
        texts = [texts[number] for number in kept]
    assert reader.next_logits().shape == (0, VOCABULARY)
    reader.append(np.array([], np.int64))


def test_what_elmo_reads_backwards_is_not_known_to_what_comes_next():
    """Only the half that reads on is asked, and it says what both halves together say of it."""
    model = model_of("both ways")
    (row,) = rows_of(9)
    other = row.copy()
    other[-1] = (row[-1] + 1) % VOCABULARY
    told, changed = (RecurrentCausalLM(model).score([one])[0] for one in (row, other))
    np.testing.assert_array_equal(told[:-1], changed[:-1])
    assert told[-1] != changed[-1]


def test_a_text_begins_as_elmo_begins_texts():
    """Everywhere else the token that ends a text stands before the next; here another may."""
    model = model_of("both ways")
    model.encoder.boundary_ids = (3, 7)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    predictor, rest = RecurrentCausalLM(model), [5, 7, 9]
    begun, other = np.array([7, *rest]), np.array([8, *rest])
    for row, read in ((begun, np.array([3, *rest])), (other, other)):
        table = plainly(model, read)
        np.testing.assert_allclose(predictor.score([row])[0], table[np.arange(3), rest], atol=1e-4)
        np.testing.assert_allclose(predictor.next_log_probs([row])[0], table[-1], atol=1e-4)
    assert begun[0] == 7  # what was given stays as it is


def test_dropout_is_off_whatever_the_model_did_before():
    model = model_of("lstm").train()
    rows = rows_of(6, 3)
    one, same = (RecurrentCausalLM(model).score(rows) for _ in range(2))
    for told, again in zip(one, same, strict=True):
        np.testing.assert_array_equal(told, again)


def test_what_cannot_predict_the_next_token_is_refused():
    words = WordEmbedding(VOCABULARY, WIDTH)
    encoder = RecurrentEncoder(words, RecurrentStack([LSTMLayer(WIDTH, WIDTH)]))
    with pytest.raises(InputError, match="does not predict the next token"):
        RecurrentCausalLM(Model(encoder, {"label": SoftmaxHead(AdaptiveSoftmax(WIDTH, 3))}))
