"""Recurrent language models give the same probabilities in chunks, in batches and token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import VOCABULARY, rows_of
from small_recurrent_layers import fill_parameters

from forebear.errors import InputError
from forebear.nn import encode_rows, next_token_predictors
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.next_token_predictors import RecurrentPredictor
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.quantized import quantized_copy
from forebear.nn.recurrent import CELLS, BiLMEncoder, LSTMLayer, RecurrentEncoder, RecurrentStack
from forebear.nn.softmax import AdaptiveSoftmax, SoftmaxHead

WIDTH = 12


def model_of(kind: str) -> Model:
    """A language model for each cell; an LSTM with tied or adaptive softmax; ELMo's bidirectional LM."""
    words = WordEmbedding(VOCABULARY, WIDTH)
    softmax = AdaptiveSoftmax(WIDTH, VOCABULARY, (10, 25) if kind == "adaptive" else ())
    head: Any = LMHead(words, bias=True) if kind == "tied" else SoftmaxHead(softmax)
    if kind == "both ways":
        directions = [
            RecurrentStack([LSTMLayer(WIDTH, 2 * WIDTH, project=WIDTH, backward=backward) for _ in range(2)], skip=True)
            for backward in (False, True)
        ]
        heads = {"next": head, "previous": SoftmaxHead(softmax, input_offset=WIDTH, is_shared=True)}
        return fill_parameters(Model(BiLMEncoder(words, *directions, boundary_ids=(0, 0)), heads), dtype=torch.float32)
    layers = [CELLS.get(kind, LSTMLayer)(WIDTH, WIDTH) for _ in range(2)]
    return fill_parameters(
        Model(RecurrentEncoder(words, RecurrentStack(layers), dropout=0.5), {"next": head}), dtype=torch.float32
    )


KINDS = [*CELLS, "tied", "adaptive", "both ways"]


def reference_log_probs(model: Model, row: np.ndarray) -> np.ndarray:
    """(n, V) log-probabilities of the next token after each position: one sequence, in one pass."""
    with torch.inference_mode():
        logits = model.eval().logits({"tokens": torch.from_numpy(row), "lengths": torch.tensor([len(row)])}, ["next"])
    return logits["next"].double().log_softmax(1).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_score_equals_next_log_probs_of_every_prefix(kind: str):
    model = model_of(kind)
    predictor = RecurrentPredictor(model)
    rows = rows_of(5, 9, 1, 2, 9)
    scores = predictor.score(rows)
    for row, row_scores in zip(rows, scores, strict=True):
        table = reference_log_probs(model, row)
        np.testing.assert_allclose(row_scores, table[np.arange(len(row) - 1), row[1:]], atol=1e-4)
        prefixes = [row[:length] for length in range(1, len(row) + 1)]
        next_log_probs = predictor.next_log_probs(prefixes)
        np.testing.assert_allclose(next_log_probs, table, atol=1e-4)
        assert np.exp(next_log_probs.astype(np.float64)).sum(1) == pytest.approx(1, abs=1e-5)
    assert [len(row_scores) for row_scores in scores] == [4, 8, 0, 1, 8]
    assert np.ptp(np.concatenate(scores)) > 2  # the scores differ


def test_score_of_ten_thousand_tokens_and_of_one_token():
    """The state is carried between chunks, and nothing is truncated."""
    model = model_of("lstm")
    predictor = RecurrentPredictor(model)
    long, single = rows_of(10_000, 1)
    (scores, no_scores), table = predictor.score([long, single]), reference_log_probs(model, long)
    assert len(no_scores) == 0
    np.testing.assert_allclose(scores, table[np.arange(9999), long[1:]], atol=1e-4)
    np.testing.assert_allclose(predictor.next_log_probs([single, long])[1], table[-1], atol=1e-4)
    assert predictor.max_length is None


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=7), at_once=st.sampled_from([1, 7, 30, 2048]))
def test_recurrent_scores_are_independent_of_batching(lengths: list[int], at_once: int):
    predictor, rows = RecurrentPredictor(model_of("lstm")), rows_of(*lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_rows, "BATCH_TOKENS", at_once)
        patch.setattr(next_token_predictors, "BATCH_TOKENS", at_once)
        scores, next_log_probs = predictor.score(rows), predictor.next_log_probs(rows)
        decoding = predictor.start_decoding(rows, 3)
    for number, row in enumerate(rows):
        np.testing.assert_allclose(scores[number], predictor.score([row])[0], atol=1e-4)
        np.testing.assert_allclose(next_log_probs[number], predictor.next_log_probs([row])[0], atol=1e-4)
    logits = decoding.next_logits()
    np.testing.assert_allclose(torch.from_numpy(logits).log_softmax(1).numpy(), next_log_probs, atol=1e-4)


@pytest.mark.parametrize("small", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_decoding_with_sequences_repeated_and_dropped(kind: str, small: bool):
    model = quantized_copy(model_of(kind)) if small else model_of(kind)
    predictor = RecurrentPredictor(model)
    rows = rows_of(5, 1, 12, 5)
    decoding = predictor.start_decoding(rows, 6)
    texts = [row.tolist() for row in rows]
    for step, selected in enumerate([[0, 1, 2, 3], [3, 3, 0, 1, 2], [4, 0, 2], [2, 1], [0], []]):
        scores = decoding.next_logits()
        assert scores.dtype == np.float32
        expected = predictor.next_log_probs([np.array(text) for text in texts])
        np.testing.assert_allclose(
            torch.from_numpy(scores).log_softmax(1).numpy(), expected, atol=0.05 if small else 1e-4
        )
        next_ids = (scores.argmax(1) + step) % VOCABULARY
        decoding.append(next_ids)
        texts = [[*text, int(token)] for text, token in zip(texts, next_ids, strict=True)]
        decoding.select(np.array(selected, np.int64))
        texts = [texts[number] for number in selected]
    assert decoding.next_logits().shape == (0, VOCABULARY)
    decoding.append(np.array([], np.int64))


def test_elmo_next_token_scores_do_not_depend_on_later_tokens():
    """Only the forward direction is used."""
    model = model_of("both ways")
    (row,) = rows_of(9)
    other = row.copy()
    other[-1] = (row[-1] + 1) % VOCABULARY
    scores, changed_scores = (RecurrentPredictor(model).score([ids])[0] for ids in (row, other))
    np.testing.assert_array_equal(scores[:-1], changed_scores[:-1])
    assert scores[-1] != changed_scores[-1]


def test_elmo_scores_start_with_its_border_token():
    """Text starts with ELMo's start border instead of the end token; other first tokens are read as they are."""
    model = model_of("both ways")
    model.encoder.boundary_ids = (3, 7)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    predictor, text_ids = RecurrentPredictor(model), [5, 7, 9]
    with_border, with_other_token = np.array([7, *text_ids]), np.array([8, *text_ids])
    for row, ids_read in ((with_border, np.array([3, *text_ids])), (with_other_token, with_other_token)):
        table = reference_log_probs(model, ids_read)
        np.testing.assert_allclose(predictor.score([row])[0], table[np.arange(3), text_ids], atol=1e-4)
        np.testing.assert_allclose(predictor.next_log_probs([row])[0], table[-1], atol=1e-4)
    assert with_border[0] == 7  # the input is unchanged


def test_recurrent_causal_lm_scores_without_dropout():
    model = model_of("lstm").train()
    rows = rows_of(6, 3)
    first, second = (RecurrentPredictor(model).score(rows) for _ in range(2))
    for row_scores, expected in zip(first, second, strict=True):
        np.testing.assert_array_equal(row_scores, expected)


def test_recurrent_model_without_next_token_head_is_refused():
    words = WordEmbedding(VOCABULARY, WIDTH)
    encoder = RecurrentEncoder(words, RecurrentStack([LSTMLayer(WIDTH, WIDTH)]))
    with pytest.raises(InputError, match="does not predict the next token"):
        RecurrentPredictor(Model(encoder, {"label": SoftmaxHead(AdaptiveSoftmax(WIDTH, 3))}))
