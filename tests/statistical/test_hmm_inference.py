"""HMM scores, posteriors and Viterbi paths against a sum over every path of states."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_hmms import END, PADDING, VOCABULARY, WORDS, random_hmm, state_paths

from forebear.errors import InputError
from forebear.statistical.hmm import HMMParameters

models = st.builds(random_hmm, st.integers(1, 3), st.integers(0, 50), sparse=st.booleans())
rows = st.lists(st.sampled_from([*WORDS, END]), max_size=4).map(lambda row: [END, *row])


def row_probability(model: HMMParameters, row: list[int]) -> float:
    return sum(p for _, p in state_paths(model, row))


@given(models, rows)
def test_hmm_scores_are_sums_over_all_paths(model: HMMParameters, row: list[int]):
    prefix_probs = [row_probability(model, row[: position + 1]) for position in range(len(row))]
    if prefix_probs[-1] == 0:
        return
    token_probs = np.exp(model.score([np.array(row)])[0])
    assert token_probs == pytest.approx([p / before for before, p in pairwise(prefix_probs)])


@given(models, rows)
def test_hmm_next_token_probabilities_are_sums_over_all_paths(model: HMMParameters, row: list[int]):
    before = row_probability(model, row)
    if before == 0:
        return
    next_probs = np.exp(model.next_log_probs([np.array(row)])[0])
    assert next_probs == pytest.approx(
        [row_probability(model, [*row, token]) / before for token in range(VOCABULARY)], abs=1e-12
    )


@given(models, st.lists(st.integers(0, VOCABULARY - 1), max_size=6))
def test_hmm_next_token_probabilities_sum_to_one(model: HMMParameters, row: list[int]):
    """Also after rows that are empty, begin inside a text, or are impossible."""
    assert np.exp(model.next_log_probs([np.array(row, np.int64)])[0]).sum() == pytest.approx(1)


@given(models, rows)
def test_hmm_posteriors_are_shares_of_all_paths(model: HMMParameters, row: list[int]):
    total = row_probability(model, row)
    if total == 0:
        return
    expected = np.zeros((len(row) - 1, len(model.transitions)))
    for path, p in state_paths(model, row):
        expected[np.arange(len(path)), path] += p / total
    assert model.posteriors([np.array(row)])[0] == pytest.approx(expected, abs=1e-12)


@given(models, rows)
def test_hmm_viterbi_path_has_the_highest_probability(model: HMMParameters, row: list[int]):
    probability_by_path = dict(state_paths(model, row))
    best = max(probability_by_path.values())
    assert probability_by_path[tuple(model.viterbi([np.array(row)])[0].tolist())] == pytest.approx(best)


def test_probabilities_of_all_short_texts_sum_to_the_chance_of_ending_early():
    """The probability of all texts of up to five words is the probability of ending within six steps."""
    model = random_hmm(2, 3)
    texts = [text for size in range(6) for text in product(WORDS, repeat=size)]
    total = sum(math.exp(scores.sum()) for scores in model.score([np.array([END, *text, END]) for text in texts]))
    alive = np.eye(3)[model.boundary_state]
    ended = 0.0
    for _ in range(6):
        alive = alive @ model.transitions
        ended += alive[model.boundary_state]
        alive[model.boundary_state] = 0
    assert total == pytest.approx(ended)


def test_text_without_a_start_begins_in_the_stationary_distribution():
    model = random_hmm(3, 1)
    assert model.stationary @ model.transitions == pytest.approx(model.stationary)
    expected = model.stationary * model.emissions[3]
    assert model.final_states([np.array([3])])[0] == pytest.approx(expected / expected.sum())
    assert model.final_states([np.zeros(0, np.int64)])[0] == pytest.approx(model.stationary)


def test_impossible_token_has_log_probability_minus_infinity():
    model = random_hmm(2, 1)
    scores = model.score([np.array([END, 3, PADDING, 4])])[0]
    assert scores[1] == -math.inf
    assert np.isfinite(scores[[0, 2]]).all()


def test_end_of_text_resets_the_hidden_state():
    model = random_hmm(3, 5)
    joined = model.score([np.array([END, 3, 4, END, 5, 3, END])])[0]
    separate = model.score([np.array([END, 3, 4, END]), np.array([END, 5, 3, END])])
    assert np.array_equal(joined, np.concatenate(separate))


def test_hmm_decoding_step_by_step_equals_next_log_probs():
    model = random_hmm(3, 2)
    decoder = model.start_decoding([np.array([END, 3]), np.array([END])], 5)
    for next_tokens in ([4, 5], [5, END]):
        decoder.append(np.array(next_tokens))
    assert np.array_equal(
        decoder.next_logits(), model.next_log_probs([np.array([END, 3, 4, 5]), np.array([END, 5, END])]).astype("f")
    )
    decoder.select(np.array([1, 1, 0]))
    assert decoder.next_logits().shape == (3, VOCABULARY)


def test_hmm_results_do_not_depend_on_other_rows_of_the_batch():
    model, rng = random_hmm(3, 2), np.random.default_rng(0)
    rows = [np.append([END], rng.choice(WORDS, size)) for size in rng.integers(0, 900, 300)]
    batched = model.score(rows), model.viterbi(rows), model.posteriors(rows), model.final_states(rows)
    for index in (0, 1, 150, 299):
        alone = model.score([rows[index]]), model.viterbi([rows[index]]), model.posteriors([rows[index]])
        for computed, expected in zip(alone, batched, strict=False):
            assert np.array_equal(computed[0], expected[index])
        assert np.array_equal(model.final_states([rows[index]])[0], batched[3][index])


@pytest.mark.slow
def test_hmm_inference_on_a_row_of_a_million_tokens():
    model = random_hmm(3, 4)
    row = np.append([END], np.random.default_rng(1).choice(WORDS, 1_000_000))
    scores, best_path = model.score([row])[0], model.viterbi([row])[0]
    assert np.isfinite(scores).all()
    assert len(best_path) == 1_000_000
    assert np.exp(model.next_log_probs([row])).sum() == pytest.approx(1)
    assert model.posteriors([row])[0].sum(1) == pytest.approx(np.ones(1_000_000))


def test_hmm_refuses_ids_outside_the_vocabulary():
    model = random_hmm(2, 0)
    for row in ([END, VOCABULARY], [VOCABULARY, 3], [END, -1]):
        with pytest.raises(InputError, match="outside 0 to"):
            model.score([np.array(row)])


def test_hmm_results_for_no_rows_are_empty():
    model = random_hmm(2, 0)
    assert model.score([]) == model.viterbi([]) == model.posteriors([]) == []
    assert model.next_log_probs([]).shape == (0, VOCABULARY)


def test_hmm_samples_follow_the_probabilities():
    model = random_hmm(2, 6)
    samples = model.sample(20_000, seed=1)
    counts: dict[tuple[int, ...], int] = {}
    for tokens, states in samples:
        assert len(tokens) == len(states)
        counts[tuple(tokens.tolist())] = counts.get(tuple(tokens.tolist()), 0) + 1
    for text in [(), *product(WORDS, repeat=1), *product(WORDS, repeat=2)]:
        p = row_probability(model, [END, *text, END])
        assert counts.get(text, 0) / 20_000 == pytest.approx(p, abs=5 * math.sqrt(p / 20_000) + 1e-4)
    transition_counts = np.zeros((3, 3))
    for _, states in samples:
        for state, next_state in zip([2, *states.tolist()], [*states.tolist(), 2], strict=True):
            transition_counts[state, next_state] += 1
    assert transition_counts / transition_counts.sum(1, keepdims=True) == pytest.approx(model.transitions, abs=0.02)
    assert [len(tokens) for tokens, _ in model.sample(50, seed=1, max_length=2)] <= [2] * 50
