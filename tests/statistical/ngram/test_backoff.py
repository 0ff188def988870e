"""What a finished model answers: token by token, all at once, continuing, and given instead of counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import END, PADDING, VOCABULARY, contexts, count, made, many, probability, texts

from forebear.errors import ForebearError, InputError
from forebear.statistical.ngram.language_model import NgramModel

SMOOTHINGS = st.sampled_from(["none", "add", "witten-bell", "stupid", "kneser-ney"])


@given(texts, st.integers(1, 5), SMOOTHINGS, st.lists(contexts.filter(bool), min_size=1, max_size=4))
def test_score_is_follow_at_each_token(given_texts: list[list[int]], order: int, smoothing: str, rows: list[list[int]]):
    model = made(given_texts, order, smoothing)
    scores = model.score([np.array(row) for row in rows])
    for row, told in zip(rows, scores, strict=True):
        follow = model.next_log_probs([np.array(row[:end]) for end in range(1, len(row))])
        expected = [line[token] for line, token in zip(follow, row[1:], strict=True)]
        assert np.allclose(told, expected, rtol=1e-12, atol=0)


def test_the_end_forgets_what_was_before_it():
    for smoothing in ("none", "add", "kneser-ney"):
        model = made(many(1), 4, smoothing)
        assert np.array_equal(probability(model, [3, 4, END]), probability(model, [END]))
        assert np.array_equal(probability(model, [3, 4, END, 5]), probability(model, [END, 5]))


def test_only_the_last_tokens_matter():
    model = made(many(1), 3)
    assert np.array_equal(probability(model, [END, 4, 5, 3, 4]), probability(model, [3, 4]))
    assert not np.array_equal(probability(model, [5, 4]), probability(model, [3, 4]))


def test_reading_on_is_reading_the_whole():
    model = made(many(1), 3)
    rows = [[END], [END, 3, 4, 3], [END, 5]]
    reader = model.start_decoding([np.array(row) for row in rows], max_new_tokens=5)
    for taken, keep in (([3, 4, 5], [0, 1, 2]), ([4, 3, 3], [2, 0]), ([5, 5], [0, 1]), ([4, 3], [1, 0, 1])):
        rows = [[*row, token] for row, token in zip(rows, taken, strict=True)]
        rows = [rows[i] for i in keep]
        reader.append(np.array(taken))
        reader.select(np.array(keep))
        told = reader.next_logits()
        assert told.dtype == np.float32
        assert np.allclose(told, model.next_log_probs([np.array(row) for row in rows]))


def test_nothing_in_nothing_out():
    model = made(many(1), 3)
    assert model.score([]) == []
    assert model.next_log_probs([]).shape == (0, VOCABULARY)
    assert [len(scores) for scores in model.score([np.array([END]), np.array([END, 3])])] == [0, 1]
    assert probability(model, []).sum() == pytest.approx(1)


@pytest.mark.parametrize("token", [-1, VOCABULARY])
def test_ids_outside_the_vocabulary_are_refused(token: int):
    with pytest.raises(InputError, match="outside"):
        made([], 2).score([np.array([END, token])])


# -- given


def given_model(order: int) -> NgramModel:
    return NgramModel(order=order, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing="given")


@given(texts, st.integers(1, 4), st.sampled_from(["none", "kneser-ney"]), contexts)
def test_what_was_written_can_be_given(given_texts: list[list[int]], order: int, smoothing: str, context: list[int]):
    model, again = made(given_texts, order, smoothing), given_model(order)
    again.load_probabilities(*model.to_arpa())
    assert np.array_equal(probability(model, context), probability(again, context))
    third = given_model(order)
    third.load(again.arrays())
    assert np.array_equal(probability(model, context), probability(third, context))


def test_adding_is_not_to_be_written():
    with pytest.raises(InputError, match="no back-off model"):
        made(many(1), 2, "add").to_arpa()
    assert made(many(1), 1, "add").to_arpa()[1][0].size == VOCABULARY - 1


def test_a_given_model_cannot_count_and_one_that_counts_is_not_given():
    with pytest.raises(ForebearError, match="not given"):
        given_model(2).score([np.array([END, 3])])
    with pytest.raises(InputError, match="no counts"):
        count(given_model(2), [[3]])
    with pytest.raises(ForebearError, match="does not take"):
        made([], 2).load_probabilities(*made(many(1), 2).to_arpa())


def test_a_damaged_given_state_is_refused_by_name():
    model = given_model(2)
    model.load_probabilities(*made(many(1), 2).to_arpa())
    for name, array in model.arrays().items():
        with pytest.raises(ForebearError, match=name):
            given_model(2).load({**model.arrays(), name: array[:-1]})
    with pytest.raises(ForebearError, match=r"logs\.1.*no logarithm"):
        given_model(2).load({**model.arrays(), "logs.1": model.arrays()["logs.1"] + 9})


def test_facts():
    facts = made([[3, 4], [3]], 2).describe()
    assert facts["ngrams"] == [VOCABULARY, 4]  # end 3, 3 4, 4 end, 3 end
    assert (facts["tokens"], facts["predictable"]) == (5, VOCABULARY - 1)
    assert made([[3, 4], [3]], 2).num_parameters == VOCABULARY + 4
