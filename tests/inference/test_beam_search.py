"""Beam search: equal to exhaustive search with enough beams, independent of batching, and ties go to smaller ids."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_language_models import HashedLM

from forebear.errors import ForebearError, InputError
from forebear.inference.beam_search import Hypothesis, beam_search

END = 0


def exhaustive_search(predictor: HashedLM, prompt: list[int], max_length: int, penalty: float) -> list[Hypothesis]:
    """All texts of up to `most` tokens, best first: the definition."""
    hypotheses = []
    others = [token for token in range(predictor.vocab_size) if token != END]
    for length in range(1, max_length + 1):
        lasts = [END, *others] if length == max_length else [END]
        for ids in itertools.product(*[others] * (length - 1), lasts):
            row = np.array([*prompt, *ids])
            value = float(predictor.score([row])[0][len(prompt) - 1 :].sum())
            ended = ids[-1] == END
            hypotheses.append(Hypothesis(ids[:-1] if ended else ids, value, value / length**penalty, ended))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def search(predictor, prompts, **options) -> list[list[Hypothesis]]:
    rows = [np.array(prompt) for prompt in prompts]
    return beam_search(predictor.start_decoding(rows, max(options["lengths"])), len(rows), eos_id=END, **options)


def assert_close(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(hypothesis.ids, hypothesis.is_finished) for hypothesis in actual] == [
        (hypothesis.ids, hypothesis.is_finished) for hypothesis in expected
    ]
    for value in ("log_prob", "score"):
        np.testing.assert_allclose(
            [getattr(f, value) for f in actual], [getattr(w, value) for w in expected], atol=1e-5
        )


@settings(max_examples=40, deadline=None)
@given(
    vocabulary=st.integers(2, 4),
    prompts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=3), min_size=1, max_size=3),
    lengths=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -1.0]),
    stopping=st.sampled_from(["full", "unlikely", "impossible"]),
    spread=st.floats(0.1, 4),
)
def test_enough_beams_find_what_exhaustive_search_finds(vocabulary, prompts, lengths, penalty, stopping, spread):
    predictor = HashedLM(vocabulary, spread)
    lengths = lengths[: len(prompts)]
    beams = vocabulary ** max(lengths)
    options = {"beams": beams, "best": beams, "penalty": penalty, "stopping": stopping}
    for prompt, max_length, hypotheses in zip(
        prompts, lengths, search(predictor, prompts, lengths=lengths, **options), strict=True
    ):
        assert_close(hypotheses, exhaustive_search(predictor, prompt, max_length, penalty))


@settings(max_examples=30, deadline=None)
@given(
    prompts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=5),
    seed=st.integers(0, 9),
    beams=st.integers(1, 12),
    penalty=st.sampled_from([0.0, 1.0, 1.4]),
    stopping=st.sampled_from(["full", "unlikely", "impossible"]),
)
def test_batched_search_equals_single_searches(prompts, seed, beams, penalty, stopping):
    predictor = HashedLM(7)
    lengths = np.random.default_rng(seed).integers(1, 9, len(prompts)).tolist()
    options = {"beams": beams, "best": beams, "penalty": penalty, "stopping": stopping}
    together = search(predictor, prompts, lengths=lengths, **options)
    alone = [
        search(predictor, [p], lengths=[max_length], **options)[0]
        for p, max_length in zip(prompts, lengths, strict=True)
    ]
    assert together == alone


@pytest.mark.parametrize("vocabulary", [5, 300])
def test_one_beam_is_greedy_decoding(vocabulary):
    predictor = HashedLM(vocabulary, spread=3)
    for first in range(vocabulary if vocabulary < 10 else 20):
        row = [first]
        while len(row) < 13 and (len(row) == 1 or row[-1] != END):
            row.append(int(predictor.next_log_probs([np.array(row)])[0].argmax()))
        ((hypothesis,),) = search(predictor, [[first]], beams=1, lengths=[12])
        assert list(hypothesis.ids) + [END] * hypothesis.is_finished == row[1:]


def test_ties_go_to_the_smaller_ids():
    equal_scores = SimpleNamespace(next_logits=lambda: np.zeros((1, 1000), np.float32), select=None, append=None)
    ((*hypotheses,),) = beam_search(equal_scores, 1, eos_id=999, beams=3, best=3, lengths=[1])
    assert [hypothesis.ids for hypothesis in hypotheses] == [(0,), (1,), (2,)]


def test_vocabulary_smaller_than_beams_and_blocked_tokens():
    predictor = HashedLM(3)

    def permitted(scores):
        return np.where(np.arange(3) == 1, -np.inf, scores)

    (hypotheses,) = search(predictor, [[1]], beams=50, best=50, lengths=[3], mask_logits=permitted)
    expected = [hypothesis for hypothesis in exhaustive_search(predictor, [1], 3, 1.0) if 1 not in hypothesis.ids]
    assert_close(hypotheses, expected)
    assert len(hypotheses) == 4  # END, 2 END, 2 2 END, 2 2 2: P is as without the rule
    without_tokens = search(
        predictor, [[1]], beams=2, lengths=[3], mask_logits=lambda scores: np.full_like(scores, -np.inf)
    )
    assert without_tokens == [[]]


def test_ends_text_callback_finishes_hypotheses():
    predictor = HashedLM(4)
    options = {"beams": 64, "best": 64, "lengths": [3]}
    (hypotheses,) = search(predictor, [[1]], ends_text=lambda source, ids: ids[-1] == 2, **options)
    expected = [hypothesis for hypothesis in exhaustive_search(predictor, [1], 3, 1.0) if 2 not in hypothesis.ids]
    stopped = [hypothesis for hypothesis in hypotheses if hypothesis.ids and hypothesis.ids[-1] == 2]
    assert all(hypothesis.is_finished and hypothesis.ids.count(2) == 1 for hypothesis in stopped)
    assert_close([hypothesis for hypothesis in hypotheses if hypothesis not in stopped], expected)
    assert len(stopped) == 1 + 2 + 4


def test_impossible_stopping_equals_never_stopping(monkeypatch):
    from forebear.inference import beam_search

    for seed in range(30):
        options = {"beams": 3, "best": 1, "lengths": [8], "stopping": "impossible", "penalty": 1.5}
        hypotheses = search(HashedLM(6, spread=1 + seed / 10), [[seed % 6]], **options)
        with monkeypatch.context() as patched:
            patched.setattr(beam_search._FinishedHypotheses, "is_complete", lambda *_: False)
            assert hypotheses == search(HashedLM(6, spread=1 + seed / 10), [[seed % 6]], **options)


@pytest.mark.parametrize(
    "invalid",
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
def test_invalid_search_options_are_refused(invalid):
    with pytest.raises(InputError) as caught:
        search(HashedLM(3), [[1]], **({"beams": 2, "lengths": [3]} | invalid))
    assert caught.value.hint


def test_nan_search_scores_are_refused():
    broken = SimpleNamespace(next_logits=lambda: np.full((1, 9), np.nan, np.float32))
    with pytest.raises(ForebearError, match="no numbers"):
        beam_search(broken, 1, eos_id=0, beams=2, lengths=[4])
