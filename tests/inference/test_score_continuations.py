"""Log-probabilities of continuations along their prefix tree equal those of each continuation scored whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_language_models import BigramTable, HashedLM

from forebear.inference import score_continuations
from forebear.inference.prompting import score_options
from forebear.inference.score_continuations import continuation_log_probs

TAILS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=30)


def reference_log_probs(predictor, prompt, tails):
    rows = [np.array([*prompt, *tail]) for tail in tails]
    return [scores[len(prompt) - 1 :].sum() for scores in predictor.score(rows)]


@settings(max_examples=40, deadline=None)
@given(tails=TAILS, prompt=st.lists(st.integers(0, 4), min_size=1, max_size=4), batch_size=st.sampled_from([1, 3, 64]))
def test_prefix_tree_equals_scoring_each_continuation(tails, prompt, batch_size):
    predictor = HashedLM(5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(score_continuations, "BRANCH_BATCH", batch_size)
        log_probs = continuation_log_probs(predictor, np.array(prompt), tails)
    np.testing.assert_allclose(log_probs, reference_log_probs(predictor, prompt, tails), atol=1e-5)


def test_impossible_continuations_have_log_prob_minus_infinity():
    predictor = BigramTable([[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]])
    log_probs = continuation_log_probs(predictor, np.array([0]), [[2], [1, 2], [1, 1], [1, 1, 0]])
    assert log_probs.tolist() == pytest.approx([-np.inf, np.log(0.5), -np.inf, -np.inf])


def test_choices_scored_by_prefix_tree_equal_those_scored_whole(tokenizer, monkeypatch):
    predictor = HashedLM(tokenizer.vocab_size)
    choices = ["cat", "cat sat", "dog", "dog sat", "mat and", "a cat and a dog", "log"]
    scored_whole = score_options(predictor, tokenizer, ["the dog sat on the", "我很"], choices=choices)
    monkeypatch.setattr(score_continuations, "MIN_SHARED_TOKENS", 1)
    predictor.batches.clear()
    scored_by_tree = score_options(predictor, tokenizer, ["the dog sat on the", "我很"], choices=choices)
    assert sum(predictor.batches) == 0  # nothing was scored whole
    for whole, by_tree in zip(scored_whole, scored_by_tree, strict=True):
        expected = [answer.probability for answer in whole.answers]
        np.testing.assert_allclose([answer.probability for answer in by_tree.answers], expected, atol=1e-5)
