"""Baum and Welch's way: one iteration is what every chain of states says, and none makes the text less probable."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hidden_chains import END, PADDING, UNKNOWN, VOCABULARY, chains, laid, made, taught, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.errors import ForebearError, InputError
from forebear.kernels import hmm as kernels
from forebear.statistical.hmm import HMMModel

smoothings = st.sampled_from([0.0, 0.05, 0.5])


@given(texts, st.integers(1, 9), smoothings, st.integers(0, 5))
def test_no_iteration_makes_the_text_less_probable(rows: list[list[int]], states: int, smoothing: float, seed: int):
    model, last = taught(made(states, smoothing), rows, seed), math.inf
    for _ in range(6):
        loss = model.accumulate(*laid(rows))
        assert loss <= last + 1e-7
        model.update()
        last = loss


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from([UNKNOWN, 3, 4]), max_size=3), min_size=1, max_size=3), st.integers(0, 5))
def test_an_iteration_counts_what_all_chains_expect(rows: list[list[int]], seed: int):
    model = taught(made(2, 0.0), rows, seed)
    tables = model.finalize()
    moves, words, loss = np.zeros((3, 3)), np.zeros((VOCABULARY, 3)), 0.0
    for row in rows:
        whole = [END, *row, END]
        total = sum(p for _, p in chains(tables, whole))
        loss -= math.log(total)
        for chain, p in chains(tables, whole):
            for one, other in zip([tables.border, *chain], chain, strict=False):
                moves[one, other] += p / total
            for token, state in zip(whole[1:], chain, strict=True):
                words[token, state] += p / total
    assert model.accumulate(*laid(rows)) == pytest.approx(loss)
    told = model.training_state()
    assert told["told_moves"] / kernels.UNIT == pytest.approx(moves, abs=1e-8)
    assert told["told_words"] / kernels.UNIT == pytest.approx(words, abs=1e-8)
    model.update()
    renewed = model.finalize()
    for line in np.flatnonzero(moves.sum(1)):
        assert renewed.moves[line] == pytest.approx(moves[line] / moves[line].sum(), abs=1e-7)
    for state in np.flatnonzero(words[:, :-1].sum(0)):
        assert renewed.emissions[:, state] == pytest.approx(words[:, state] / words[:, state].sum(), abs=1e-7)


@given(texts, st.integers(1, 9), st.sampled_from([0.01, 0.3]), st.lists(st.integers(0, VOCABULARY - 1), max_size=5))
def test_everything_predictable_has_its_share(rows: list[list[int]], states: int, smoothing: float, context: list[int]):
    model = taught(made(states, smoothing), rows)
    model.accumulate(*laid(rows))
    model.update()
    shares = np.exp(model.next_log_probs([np.array(context, np.int64)])[0])
    assert shares.sum() == pytest.approx(1)
    assert shares[PADDING] == 0
    assert (np.delete(shares, PADDING) > 0).all(), "unknown words, and those that were never seen, too"
    tables = model.finalize()
    assert tables.emissions.sum(0) == pytest.approx(np.ones(states + 1))
    assert tables.moves.sum(1) == pytest.approx(np.ones(states + 1))


@given(texts, st.integers(1, 5), st.integers(1, 4))
def test_batches_of_any_size_end_in_the_same_bits(rows: list[list[int]], states: int, size: int):
    whole, parts = (taught(made(states), rows) for _ in range(2))
    whole.accumulate(*laid(rows))
    for first in range(0, len(rows), size):
        parts.accumulate(*laid(rows[first : first + size]))
    for model in (whole, parts):
        model.update()
    for name, array in whole.arrays().items():
        assert np.array_equal(array, parts.arrays()[name]), name


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    rows = [rng.choice([UNKNOWN, 3, 4], size).tolist() for size in rng.integers(0, 40, 400)]
    found = []
    for many in (1, 3):
        monkeypatch.setattr("forebear.statistical.hmm.cpu_count", lambda many=many: many)
        monkeypatch.setattr("forebear.statistical.hmm.WORK_PER_THREAD", 100)
        model = taught(made(5), rows)
        model.accumulate(*laid(rows))
        model.update()
        found.append(model.arrays())
    for name, array in found[0].items():
        assert np.array_equal(array, found[1][name]), name


def test_it_finds_the_states_that_said_a_text():
    """Two states that take turns, each with words of its own: learned, it knows which word comes next."""
    rows = [[3, 4] * 6 if number % 2 else [4, 3] * 6 for number in range(20)]
    model = taught(made(2, 0.01), rows, seed=3)
    for _ in range(60):
        model.accumulate(*laid(rows))
        model.update()
    assert np.exp(model.next_log_probs([np.array([END, 3, 4, 3])])[0, 4]) > 0.85
    assert np.exp(model.next_log_probs([np.array([END, 4, 3, 4])])[0, 3]) > 0.85


@pytest.mark.parametrize(
    "rows", [[[3]], [[3] * 50], [[]], [[], []], [[3], [], [3]], [[UNKNOWN]]], ids=lambda rows: str(rows)[:20]
)
@pytest.mark.parametrize("states", [1, 8])
def test_texts_with_hardly_anything_in_them(rows: list[list[int]], states: int):
    """One word, one word again and again, nothing; more states than words."""
    model, last = taught(made(states), rows), math.inf
    for _ in range(4):
        loss = model.accumulate(*laid(rows))
        assert loss <= last + 1e-9
        last = loss
        model.update()
    assert np.exp(model.next_log_probs([np.array([END]), np.array([END, 3])])).sum(1) == pytest.approx(np.ones(2))
    assert np.isfinite(np.concatenate(model.score([np.array([END, *row, END]) for row in rows]))).all()


def test_a_vocabulary_of_one_word():
    model = HMMModel(states=3, vocabulary=2, end=1, smoothing=0.1)
    rows = [[0, 0], [0]]
    model.prepass(np.array([3, 2]))
    model.initialize(0)
    model.accumulate(*laid(rows))
    model.update()
    assert np.exp(model.next_log_probs([np.array([1])])).sum() == pytest.approx(1)
    only_end = HMMModel(states=2, vocabulary=1, end=0, smoothing=0.1)
    only_end.prepass(np.array([4]))
    only_end.initialize(0)
    assert only_end.accumulate(np.zeros(4, int), np.ones(4, int), np.zeros(4, int)) == 0
    assert np.exp(only_end.next_log_probs([np.array([0])])).tolist() == [[1]]


def test_a_row_of_a_million_tokens_is_learned_from(monkeypatch: pytest.MonkeyPatch):
    row = np.random.default_rng(0).choice([3, 4], 1_000_000).tolist()
    model = taught(made(3), [row])
    before = model.accumulate(*laid([row]))
    model.update()
    assert math.isfinite(before)
    assert model.accumulate(*laid([row])) <= before


def test_blocks_of_a_long_row_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    rows = [np.random.default_rng(0).choice([3, 4], size).tolist() for size in (100, 7, 64, 0, 65)]
    found = []
    for block in (4096, 7, 64):
        monkeypatch.setattr(kernels, "BLOCK", block)
        model = taught(made(3), rows)
        model.accumulate(*laid(rows))
        found.append(model.training_state())
    for told in found[1:]:
        assert all(np.array_equal(array, told[name]) for name, array in found[0].items())


def test_half_an_epoch_is_remembered():
    rows = [[3, 4, 4], [4, 3], [UNKNOWN, 3]]
    whole = taught(made(), rows)
    whole.accumulate(*laid(rows))
    half = taught(made(), rows)
    half.accumulate(*laid(rows[:2]))
    again = made()
    again.load(half.arrays())
    again.load_training_state(half.training_state())
    again.accumulate(*laid(rows[2:]))
    for model in (whole, again):
        model.update()
    assert all(np.array_equal(array, again.arrays()[name]) for name, array in whole.arrays().items())
    assert whole.describe()["iterations"] == 1


def test_what_is_no_model_is_refused():
    for states, smoothing in ((0, 0.1), (2, 1.0), (2, -0.1)):
        with pytest.raises(InputError):
            made(states, smoothing)
    with pytest.raises(InputError, match="never predicted"):
        HMMModel(states=2, vocabulary=4, end=1, never=[1])


def test_more_tokens_than_can_be_counted_are_refused():
    with pytest.raises(InputError, match="more than can be counted"):
        made().prepass(np.full(VOCABULARY, 1 << 30))


def test_what_is_no_batch_of_texts_is_refused():
    model = taught(made(), [[3]])
    with pytest.raises(ForebearError, match="whole rows"):
        model.accumulate(np.array([END, 3]), np.array([2]), np.array([3, 4]))
    with pytest.raises(ForebearError, match="whole rows"):
        model.accumulate(np.array([END, 3, END]), np.array([3]), np.array([3, END, END]))
    with pytest.raises(InputError, match="never predicts"):
        model.accumulate(np.array([END, PADDING]), np.array([2]), np.array([PADDING, END]))
    assert model.accumulate(np.zeros(0, int), np.zeros(0, int), np.zeros(0, int)) == 0


def test_a_damaged_state_is_refused_by_name():
    model = taught(made(), [[3]])
    arrays = model.arrays()
    with pytest.raises(ForebearError, match="lacks"):
        made().load({name: array for name, array in arrays.items() if name != "words"})
    with pytest.raises(ForebearError, match="'words'"):
        made().load(arrays | {"words": arrays["words"][:, :1]})
    with pytest.raises(ForebearError, match="should not"):
        made().load(arrays | {"more": arrays["words"]})
