"""Continuations told along the tree of what they share are as likely as each scored whole."""

import numpy as np
import pytest
from bigrams import Dreaming, Tabled
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.inference import prompting
from forebear.inference.prompting import continuation_log_probs, score_options

TAILS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=30)


def scored(predictor, begun, tails):
    rows = [np.array([*begun, *tail]) for tail in tails]
    return [told[len(begun) - 1 :].sum() for told in predictor.score(rows)]


@settings(max_examples=40, deadline=None)
@given(tails=TAILS, begun=st.lists(st.integers(0, 4), min_size=1, max_size=4), together=st.sampled_from([1, 3, 64]))
def test_a_tree_tells_what_scoring_each_tells(tails, begun, together):
    predictor = Dreaming(5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prompting, "BRANCH_BATCH", together)
        found = continuation_log_probs(predictor, np.array(begun), tails)
    np.testing.assert_allclose(found, scored(predictor, begun, tails), atol=1e-5)


def test_what_is_impossible_stays_so():
    predictor = Tabled([[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]])
    found = continuation_log_probs(predictor, np.array([0]), [[2], [1, 2], [1, 1], [1, 1, 0]])
    assert found.tolist() == pytest.approx([-np.inf, np.log(0.5), -np.inf, -np.inf])


def test_many_choices_are_told_as_few_are(tokenizer, monkeypatch):
    predictor = Dreaming(tokenizer.vocab_size)
    choices = ["cat", "cat sat", "dog", "dog sat", "mat and", "a cat and a dog", "log"]
    few = score_options(predictor, tokenizer, ["the dog sat on the", "我很"], choices=choices)
    monkeypatch.setattr(prompting, "MIN_SHARED_TOKENS", 1)
    predictor.batches.clear()
    many = score_options(predictor, tokenizer, ["the dog sat on the", "我很"], choices=choices)
    assert sum(predictor.batches) == 0  # nothing was scored whole
    for one, other in zip(few, many, strict=True):
        wanted = [answer.probability for answer in one.answers]
        np.testing.assert_allclose([answer.probability for answer in other.answers], wanted, atol=1e-5)
