"""N-gram models: scores, next-token probabilities, step-by-step decoding, and loaded probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ngram_models import (
    END,
    PADDING,
    VOCABULARY,
    contexts,
    count,
    counted_model,
    next_probs,
    skewed_texts,
    text_lists,
)

from forebear.errors import ForebearError, InputError
from forebear.statistical.ngram.language_model import NgramModel

SMOOTHINGS = st.sampled_from(["none", "add", "witten-bell", "stupid", "kneser-ney"])


@given(text_lists, st.integers(1, 5), SMOOTHINGS, st.lists(contexts.filter(bool), min_size=1, max_size=4))
def test_ngram_scores_equal_next_log_probs_at_each_token(
    given_texts: list[list[int]], order: int, smoothing: str, rows: list[list[int]]
):
    model = counted_model(given_texts, order, smoothing)
    scores = model.score([np.array(row) for row in rows])
    for row, row_scores in zip(rows, scores, strict=True):
        log_probs = model.next_log_probs([np.array(row[:end]) for end in range(1, len(row))])
        expected = [row_log_probs[token] for row_log_probs, token in zip(log_probs, row[1:], strict=True)]
        assert np.allclose(row_scores, expected, rtol=1e-12, atol=0)


def test_end_of_text_resets_the_context():
    for smoothing in ("none", "add", "kneser-ney"):
        model = counted_model(skewed_texts(1), 4, smoothing)
        assert np.array_equal(next_probs(model, [3, 4, END]), next_probs(model, [END]))
        assert np.array_equal(next_probs(model, [3, 4, END, 5]), next_probs(model, [END, 5]))


def test_only_the_last_tokens_of_the_context_matter():
    model = counted_model(skewed_texts(1), 3)
    assert np.array_equal(next_probs(model, [END, 4, 5, 3, 4]), next_probs(model, [3, 4]))
    assert not np.array_equal(next_probs(model, [5, 4]), next_probs(model, [3, 4]))


def test_ngram_decoding_step_by_step_equals_next_log_probs():
    model = counted_model(skewed_texts(1), 3)
    rows = [[END], [END, 3, 4, 3], [END, 5]]
    decoder = model.start_decoding([np.array(row) for row in rows], max_new_tokens=5)
    for next_tokens, selected in (([3, 4, 5], [0, 1, 2]), ([4, 3, 3], [2, 0]), ([5, 5], [0, 1]), ([4, 3], [1, 0, 1])):
        rows = [[*row, token] for row, token in zip(rows, next_tokens, strict=True)]
        rows = [rows[i] for i in selected]
        decoder.append(np.array(next_tokens))
        decoder.select(np.array(selected))
        logits = decoder.next_logits()
        assert logits.dtype == np.float32
        assert np.allclose(logits, model.next_log_probs([np.array(row) for row in rows]))


def test_ngram_scores_of_no_rows_are_empty():
    model = counted_model(skewed_texts(1), 3)
    assert model.score([]) == []
    assert model.next_log_probs([]).shape == (0, VOCABULARY)
    assert [len(scores) for scores in model.score([np.array([END]), np.array([END, 3])])] == [0, 1]
    assert next_probs(model, []).sum() == pytest.approx(1)


@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_ngram_model_refuses_ids_outside_the_vocabulary(token: int):
    with pytest.raises(InputError, match="outside"):
        counted_model([], 2).score([np.array([END, token])])


# -- loaded probabilities


def loadable_model(order: int) -> NgramModel:
    return NgramModel(order=order, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing="given")


@given(text_lists, st.integers(1, 4), st.sampled_from(["none", "kneser-ney"]), contexts)
def test_probabilities_written_and_loaded_are_equal(
    given_texts: list[list[int]], order: int, smoothing: str, context: list[int]
):
    model, loaded = counted_model(given_texts, order, smoothing), loadable_model(order)
    loaded.load_probabilities(*model.to_arpa())
    assert np.array_equal(next_probs(model, context), next_probs(loaded, context))
    reloaded = loadable_model(order)
    reloaded.load(loaded.arrays())
    assert np.array_equal(next_probs(model, context), next_probs(reloaded, context))


def test_add_k_smoothing_is_not_exported_as_back_off():
    with pytest.raises(InputError, match="no back-off model"):
        counted_model(skewed_texts(1), 2, "add").to_arpa()
    assert counted_model(skewed_texts(1), 1, "add").to_arpa()[1][0].size == VOCABULARY - 1


def test_loaded_models_refuse_counts_and_counted_models_refuse_probabilities():
    with pytest.raises(ForebearError, match="not given"):
        loadable_model(2).score([np.array([END, 3])])
    with pytest.raises(InputError, match="no counts"):
        count(loadable_model(2), [[3]])
    with pytest.raises(ForebearError, match="does not take"):
        counted_model([], 2).load_probabilities(*counted_model(skewed_texts(1), 2).to_arpa())


def test_damaged_loaded_arrays_are_refused_by_name():
    model = loadable_model(2)
    model.load_probabilities(*counted_model(skewed_texts(1), 2).to_arpa())
    for name, array in model.arrays().items():
        with pytest.raises(ForebearError, match=name):
            loadable_model(2).load({**model.arrays(), name: array[:-1]})
    with pytest.raises(ForebearError, match=r"logs\.1.*no logarithm"):
        loadable_model(2).load({**model.arrays(), "logs.1": model.arrays()["logs.1"] + 9})


def test_describe_counts_ngrams_tokens_and_parameters():
    facts = counted_model([[3, 4], [3]], 2).describe()
    assert facts["ngrams"] == [VOCABULARY, 4]  # end 3, 3 4, 4 end, 3 end
    assert (facts["tokens"], facts["predictable"]) == (5, VOCABULARY - 1)
    assert counted_model([[3, 4], [3]], 2).num_parameters == VOCABULARY + 4
