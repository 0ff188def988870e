"""Beam search finds what trying all texts finds, and what transformers finds on the same weights."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from bigrams import Dreaming
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.errors import ForebearError, InputError
from forebear.inference.beam_search import Hypothesis, beam_search

END = 0


def every_text(predictor: Dreaming, prompt: list[int], most: int, penalty: float) -> list[Hypothesis]:
    """All texts of up to `most` tokens, best first: the definition."""
    found = []
    others = [token for token in range(predictor.vocab_size) if token != END]
    for length in range(1, most + 1):
        lasts = [END, *others] if length == most else [END]
        for ids in itertools.product(*[others] * (length - 1), lasts):
            row = np.array([*prompt, *ids])
            value = float(predictor.score([row])[0][len(prompt) - 1 :].sum())
            ended = ids[-1] == END
            found.append(Hypothesis(ids[:-1] if ended else ids, value, value / length**penalty, ended))
    return sorted(found, key=lambda one: -one.score)


def found_by(predictor, prompts, **how) -> list[list[Hypothesis]]:
    rows = [np.array(prompt) for prompt in prompts]
    return beam_search(predictor.start_decoding(rows, max(how["lengths"])), len(rows), end_id=END, **how)


def close(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    assert [(one.ids, one.is_finished) for one in found] == [(one.ids, one.is_finished) for one in wanted]
    for value in ("log_prob", "score"):
        np.testing.assert_allclose([getattr(f, value) for f in found], [getattr(w, value) for w in wanted], atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    vocabulary=st.integers(2, 4),
    prompts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=3), min_size=1, max_size=3),
    lengths=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -1.0]),
    stopping=st.sampled_from(["full", "unlikely", "impossible"]),
    spread=st.floats(0.1, 4),
)
def test_with_beams_for_all_the_best_texts_are_found(vocabulary, prompts, lengths, penalty, stopping, spread):
    predictor = Dreaming(vocabulary, spread)
    lengths = lengths[: len(prompts)]
    beams = vocabulary ** max(lengths)
    how = {"beams": beams, "best": beams, "penalty": penalty, "stopping": stopping}
    for prompt, most, found in zip(prompts, lengths, found_by(predictor, prompts, lengths=lengths, **how), strict=True):
        close(found, every_text(predictor, prompt, most, penalty))


@settings(max_examples=30, deadline=None)
@given(
    prompts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=5),
    seed=st.integers(0, 9),
    beams=st.integers(1, 12),
    penalty=st.sampled_from([0.0, 1.0, 1.4]),
    stopping=st.sampled_from(["full", "unlikely", "impossible"]),
)
def test_sources_together_find_what_each_finds_alone(prompts, seed, beams, penalty, stopping):
    predictor = Dreaming(7)
    lengths = np.random.default_rng(seed).integers(1, 9, len(prompts)).tolist()
    how = {"beams": beams, "best": beams, "penalty": penalty, "stopping": stopping}
    together = found_by(predictor, prompts, lengths=lengths, **how)
    alone = [found_by(predictor, [p], lengths=[most], **how)[0] for p, most in zip(prompts, lengths, strict=True)]
    assert together == alone


@pytest.mark.parametrize("vocabulary", [5, 300])
def test_one_beam_is_the_likeliest_token_each_time(vocabulary):
    predictor = Dreaming(vocabulary, spread=3)
    for first in range(vocabulary if vocabulary < 10 else 20):
        row = [first]
        while len(row) < 13 and (len(row) == 1 or row[-1] != END):
            row.append(int(predictor.next_log_probs([np.array(row)])[0].argmax()))
        ((found,),) = found_by(predictor, [[first]], beams=1, lengths=[12])
        assert list(found.ids) + [END] * found.is_finished == row[1:]


def test_of_equals_the_smaller_ids_are_taken():
    even = SimpleNamespace(next_logits=lambda: np.zeros((1, 1000), np.float32), select=None, append=None)
    ((*found,),) = beam_search(even, 1, end_id=999, beams=3, best=3, lengths=[1])
    assert [one.ids for one in found] == [(0,), (1,), (2,)]


def test_a_vocabulary_smaller_than_the_beams_and_tokens_that_may_not_be_said():
    predictor = Dreaming(3)

    def permitted(scores):
        return np.where(np.arange(3) == 1, -np.inf, scores)

    (found,) = found_by(predictor, [[1]], beams=50, best=50, lengths=[3], mask_logits=permitted)
    wanted = [one for one in every_text(predictor, [1], 3, 1.0) if 1 not in one.ids]
    close(found, wanted)
    assert len(found) == 4  # END, 2 END, 2 2 END, 2 2 2: P is as without the rule
    nothing = found_by(predictor, [[1]], beams=2, lengths=[3], mask_logits=lambda scores: np.full_like(scores, -np.inf))
    assert nothing == [[]]


def test_texts_that_are_over_by_what_they_say():
    predictor = Dreaming(4)
    how = {"beams": 64, "best": 64, "lengths": [3]}
    (found,) = found_by(predictor, [[1]], ends_text=lambda source, ids: ids[-1] == 2, **how)
    wanted = [one for one in every_text(predictor, [1], 3, 1.0) if 2 not in one.ids]
    stopped = [one for one in found if one.ids and one.ids[-1] == 2]
    assert all(one.is_finished and one.ids.count(2) == 1 for one in stopped)
    close([one for one in found if one not in stopped], wanted)
    assert len(stopped) == 1 + 2 + 4


def test_impossible_is_as_if_it_never_stopped(monkeypatch):
    from forebear.inference import beam_search

    for seed in range(30):
        how = {"beams": 3, "best": 1, "lengths": [8], "stopping": "impossible", "penalty": 1.5}
        found = found_by(Dreaming(6, spread=1 + seed / 10), [[seed % 6]], **how)
        with monkeypatch.context() as patched:
            patched.setattr(beam_search._FinishedHypotheses, "is_complete", lambda *_: False)
            assert found == found_by(Dreaming(6, spread=1 + seed / 10), [[seed % 6]], **how)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beams": 0},
        {"beams": 2.5},
        {"beams": 2, "best": 3},
        {"best": 0},
        {"penalty": float("nan")},
        {"penalty": 1e9},
        {"stopping": "never"},
        {"lengths": [0]},
        {"lengths": [1, 1]},
    ],
)
def test_senseless_searches_are_refused(wrong):
    with pytest.raises(InputError) as caught:
        found_by(Dreaming(3), [[1]], **({"beams": 2, "lengths": [3]} | wrong))
    assert caught.value.hint


def test_scores_that_are_no_numbers_are_refused():
    broken = SimpleNamespace(next_logits=lambda: np.full((1, 9), np.nan, np.float32))
    with pytest.raises(ForebearError, match="no numbers"):
        beam_search(broken, 1, end_id=0, beams=2, lengths=[4])
