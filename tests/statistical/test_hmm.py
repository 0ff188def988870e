"""Baum–Welch: an iteration equals a sum over all paths of states, and never lowers the likelihood."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_hmms import END, PADDING, UNKNOWN, VOCABULARY, initialized, new_hmm, state_paths, text_batch, text_lists

from forebear.errors import ForebearError, InputError
from forebear.kernels import hmm as kernels
from forebear.statistical.hmm import HMMModel

smoothing_values = st.sampled_from([0.0, 0.05, 0.5])


@given(text_lists, st.integers(1, 9), smoothing_values, st.integers(0, 5))
def test_baum_welch_never_lowers_the_likelihood(rows: list[list[int]], states: int, smoothing: float, seed: int):
    model, last = initialized(new_hmm(states, smoothing), rows, seed), math.inf
    for _ in range(6):
        loss = model.accumulate(*text_batch(rows))
        assert loss <= last + 1e-7
        model.update()
        last = loss


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from([UNKNOWN, 3, 4]), max_size=3), min_size=1, max_size=3), st.integers(0, 5))
def test_baum_welch_counts_are_expectations_over_all_paths(rows: list[list[int]], seed: int):
    model = initialized(new_hmm(2, 0.0), rows, seed)
    parameters = model.smoothed_parameters()
    transitions, emissions, loss = np.zeros((3, 3)), np.zeros((VOCABULARY, 3)), 0.0
    for row in rows:
        row_with_ends = [END, *row, END]
        total = sum(p for _, p in state_paths(parameters, row_with_ends))
        loss -= math.log(total)
        for path, p in state_paths(parameters, row_with_ends):
            for from_state, to_state in zip([parameters.boundary_state, *path], path, strict=False):
                transitions[from_state, to_state] += p / total
            for token, state in zip(row_with_ends[1:], path, strict=True):
                emissions[token, state] += p / total
    assert model.accumulate(*text_batch(rows)) == pytest.approx(loss)
    training_state = model.training_state()
    assert training_state["told_moves"] / kernels.COUNT_UNIT == pytest.approx(transitions, abs=1e-8)
    assert training_state["told_words"] / kernels.COUNT_UNIT == pytest.approx(emissions, abs=1e-8)
    model.update()
    updated = model.smoothed_parameters()
    for state_row in np.flatnonzero(transitions.sum(1)):
        assert updated.transitions[state_row] == pytest.approx(
            transitions[state_row] / transitions[state_row].sum(), abs=1e-7
        )
    for state in np.flatnonzero(emissions[:, :-1].sum(0)):
        assert updated.emissions[:, state] == pytest.approx(emissions[:, state] / emissions[:, state].sum(), abs=1e-7)


@given(
    text_lists, st.integers(1, 9), st.sampled_from([0.01, 0.3]), st.lists(st.integers(0, VOCABULARY - 1), max_size=5)
)
def test_hmm_gives_every_predictable_token_a_probability(
    rows: list[list[int]], states: int, smoothing: float, context: list[int]
):
    model = initialized(new_hmm(states, smoothing), rows)
    model.accumulate(*text_batch(rows))
    model.update()
    probs = np.exp(model.next_log_probs([np.array(context, np.int64)])[0])
    assert probs.sum() == pytest.approx(1)
    assert probs[PADDING] == 0
    assert (np.delete(probs, PADDING) > 0).all(), "unknown and unseen words, too"
    parameters = model.smoothed_parameters()
    assert parameters.emissions.sum(0) == pytest.approx(np.ones(states + 1))
    assert parameters.transitions.sum(1) == pytest.approx(np.ones(states + 1))


@given(text_lists, st.integers(1, 5), st.integers(1, 4))
def test_hmm_training_is_bit_identical_for_any_batch_size(rows: list[list[int]], states: int, size: int):
    unbatched, batched = (initialized(new_hmm(states), rows) for _ in range(2))
    unbatched.accumulate(*text_batch(rows))
    for first in range(0, len(rows), size):
        batched.accumulate(*text_batch(rows[first : first + size]))
    for model in (unbatched, batched):
        model.update()
    for name, array in unbatched.arrays().items():
        assert np.array_equal(array, batched.arrays()[name]), name


def test_hmm_training_is_bit_identical_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    rows = [rng.choice([UNKNOWN, 3, 4], size).tolist() for size in rng.integers(0, 40, 400)]
    results = []
    for threads in (1, 3):
        monkeypatch.setattr("forebear.statistical.hmm.cpu_count", lambda threads=threads: threads)
        monkeypatch.setattr("forebear.statistical.hmm.WORK_PER_THREAD", 100)
        model = initialized(new_hmm(5), rows)
        model.accumulate(*text_batch(rows))
        model.update()
        results.append(model.arrays())
    for name, array in results[0].items():
        assert np.array_equal(array, results[1][name]), name


def test_hmm_learns_alternating_states():
    """Two alternating states with one word each: the trained model predicts the next word."""
    rows = [[3, 4] * 6 if number % 2 else [4, 3] * 6 for number in range(20)]
    model = initialized(new_hmm(2, 0.01), rows, seed=3)
    for _ in range(60):
        model.accumulate(*text_batch(rows))
        model.update()
    assert np.exp(model.next_log_probs([np.array([END, 3, 4, 3])])[0, 4]) > 0.85
    assert np.exp(model.next_log_probs([np.array([END, 4, 3, 4])])[0, 3]) > 0.85


@pytest.mark.parametrize(
    "rows", [[[3]], [[3] * 50], [[]], [[], []], [[3], [], [3]], [[UNKNOWN]]], ids=lambda rows: str(rows)[:20]
)
@pytest.mark.parametrize("states", [1, 8])
def test_hmm_trains_on_nearly_empty_texts(rows: list[list[int]], states: int):
    """One word, one word repeated, no word; more states than words."""
    model, last = initialized(new_hmm(states), rows), math.inf
    for _ in range(4):
        loss = model.accumulate(*text_batch(rows))
        assert loss <= last + 1e-9
        last = loss
        model.update()
    assert np.exp(model.next_log_probs([np.array([END]), np.array([END, 3])])).sum(1) == pytest.approx(np.ones(2))
    assert np.isfinite(np.concatenate(model.score([np.array([END, *row, END]) for row in rows]))).all()


def test_hmm_trains_with_a_vocabulary_of_one_word():
    model = HMMModel(states=3, vocab_size=2, eos_id=1, smoothing=0.1)
    rows = [[0, 0], [0]]
    model.set_token_counts(np.array([3, 2]))
    model.initialize(0)
    model.accumulate(*text_batch(rows))
    model.update()
    assert np.exp(model.next_log_probs([np.array([1])])).sum() == pytest.approx(1)
    only_end = HMMModel(states=2, vocab_size=1, eos_id=0, smoothing=0.1)
    only_end.set_token_counts(np.array([4]))
    only_end.initialize(0)
    assert only_end.accumulate(np.zeros(4, int), np.ones(4, int), np.zeros(4, int)) == 0
    assert np.exp(only_end.next_log_probs([np.array([0])])).tolist() == [[1]]


def test_hmm_trains_on_a_row_of_a_million_tokens(monkeypatch: pytest.MonkeyPatch):
    row = np.random.default_rng(0).choice([3, 4], 1_000_000).tolist()
    model = initialized(new_hmm(3), [row])
    before = model.accumulate(*text_batch([row]))
    model.update()
    assert math.isfinite(before)
    assert model.accumulate(*text_batch([row])) <= before


def test_baum_welch_of_a_long_row_is_bit_identical_for_any_block_size(monkeypatch: pytest.MonkeyPatch):
    rows = [np.random.default_rng(0).choice([3, 4], size).tolist() for size in (100, 7, 64, 0, 65)]
    states = []
    for block in (4096, 7, 64):
        monkeypatch.setattr(kernels, "TOKENS_PER_BLOCK", block)
        model = initialized(new_hmm(3), rows)
        model.accumulate(*text_batch(rows))
        states.append(model.training_state())
    for state in states[1:]:
        assert all(np.array_equal(array, state[name]) for name, array in states[0].items())


def test_hmm_training_resumes_within_an_epoch_bit_for_bit():
    rows = [[3, 4, 4], [4, 3], [UNKNOWN, 3]]
    uninterrupted = initialized(new_hmm(), rows)
    uninterrupted.accumulate(*text_batch(rows))
    interrupted = initialized(new_hmm(), rows)
    interrupted.accumulate(*text_batch(rows[:2]))
    resumed = new_hmm()
    resumed.load(interrupted.arrays())
    resumed.load_training_state(interrupted.training_state())
    resumed.accumulate(*text_batch(rows[2:]))
    for model in (uninterrupted, resumed):
        model.update()
    assert all(np.array_equal(array, resumed.arrays()[name]) for name, array in uninterrupted.arrays().items())
    assert uninterrupted.describe()["iterations"] == 1


def test_invalid_hmm_settings_are_refused():
    for states, smoothing in ((0, 0.1), (2, 1.0), (2, -0.1)):
        with pytest.raises(InputError):
            new_hmm(states, smoothing)
    with pytest.raises(InputError, match="never predicted"):
        HMMModel(states=2, vocab_size=4, eos_id=1, excluded_ids=[1])


def test_hmm_refuses_more_tokens_than_it_can_count():
    with pytest.raises(InputError, match="more than can be counted"):
        new_hmm().set_token_counts(np.full(VOCABULARY, 1 << 30))


def test_hmm_refuses_batches_that_are_not_whole_rows():
    model = initialized(new_hmm(), [[3]])
    with pytest.raises(ForebearError, match="whole rows"):
        model.accumulate(np.array([END, 3]), np.array([2]), np.array([3, 4]))
    with pytest.raises(ForebearError, match="whole rows"):
        model.accumulate(np.array([END, 3, END]), np.array([3]), np.array([3, END, END]))
    with pytest.raises(InputError, match="never predicts"):
        model.accumulate(np.array([END, PADDING]), np.array([2]), np.array([PADDING, END]))
    assert model.accumulate(np.zeros(0, int), np.zeros(0, int), np.zeros(0, int)) == 0


def test_damaged_hmm_arrays_are_refused_by_name():
    model = initialized(new_hmm(), [[3]])
    arrays = model.arrays()
    with pytest.raises(ForebearError, match="lacks"):
        new_hmm().load({name: array for name, array in arrays.items() if name != "words"})
    with pytest.raises(ForebearError, match="'words'"):
        new_hmm().load(arrays | {"words": arrays["words"][:, :1]})
    with pytest.raises(ForebearError, match="should not"):
        new_hmm().load(arrays | {"more": arrays["words"]})
