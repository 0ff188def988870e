"""What is asked of hidden states, against every chain of states there is."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hidden_chains import END, PADDING, VOCABULARY, WORDS, chains, tables
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import InputError
from forebear.statistical.hmm import HMMParameters

models = st.builds(tables, st.integers(1, 3), st.integers(0, 50), sparse=st.booleans())
rows = st.lists(st.sampled_from([*WORDS, END]), max_size=4).map(lambda row: [END, *row])


def probability(model: HMMParameters, row: list[int]) -> float:
    return sum(p for _, p in chains(model, row))


@given(models, rows)
def test_scores_are_sums_over_all_chains(model: HMMParameters, row: list[int]):
    wanted = [probability(model, row[: place + 1]) for place in range(len(row))]
    if wanted[-1] == 0:
        return
    told = np.exp(model.score([np.array(row)])[0])
    assert told == pytest.approx([p / before for before, p in pairwise(wanted)])


@given(models, rows)
def test_what_follows_is_a_sum_over_all_chains(model: HMMParameters, row: list[int]):
    before = probability(model, row)
    if before == 0:
        return
    told = np.exp(model.next_log_probs([np.array(row)])[0])
    assert told == pytest.approx([probability(model, [*row, token]) / before for token in range(VOCABULARY)], abs=1e-12)


@given(models, st.lists(st.integers(0, VOCABULARY - 1), max_size=6))
def test_what_follows_any_row_is_probability(model: HMMParameters, row: list[int]):
    """Also after rows that are empty, begin in the middle of a text, or hold what cannot be."""
    assert np.exp(model.next_log_probs([np.array(row, np.int64)])[0]).sum() == pytest.approx(1)


@given(models, rows)
def test_states_in_hindsight_are_shares_of_all_chains(model: HMMParameters, row: list[int]):
    total = probability(model, row)
    if total == 0:
        return
    wanted = np.zeros((len(row) - 1, len(model.moves)))
    for chain, p in chains(model, row):
        wanted[np.arange(len(chain)), chain] += p / total
    assert model.posteriors([np.array(row)])[0] == pytest.approx(wanted, abs=1e-12)


@given(models, rows)
def test_no_chain_is_better_than_the_best(model: HMMParameters, row: list[int]):
    everyone = dict(chains(model, row))
    best = max(everyone.values())
    assert everyone[tuple(model.viterbi([np.array(row)])[0].tolist())] == pytest.approx(best)


def test_every_short_text_together_is_everything():
    """P of all texts of up to five words, and of all that are longer, is 1."""
    model = tables(2, 3)
    said = [text for size in range(6) for text in product(WORDS, repeat=size)]
    total = sum(math.exp(scores.sum()) for scores in model.score([np.array([END, *text, END]) for text in said]))
    alive = np.eye(3)[model.border]
    ended = 0.0
    for _ in range(6):
        alive = alive @ model.moves
        ended += alive[model.border]
        alive[model.border] = 0
    assert total == pytest.approx(ended)


def test_a_text_that_begins_in_the_middle_is_read_as_the_usual_middle():
    model = tables(3, 1)
    assert model.stationary @ model.moves == pytest.approx(model.stationary)
    after = model.stationary * model.emissions[3]
    assert model.final_states([np.array([3])])[0] == pytest.approx(after / after.sum())
    assert model.final_states([np.zeros(0, np.int64)])[0] == pytest.approx(model.stationary)


def test_what_cannot_be_is_infinitely_surprising_and_tells_nothing():
    model = tables(2, 1)
    scores = model.score([np.array([END, 3, PADDING, 4])])[0]
    assert scores[1] == -math.inf
    assert np.isfinite(scores[[0, 2]]).all()


def test_an_end_begins_anew():
    model = tables(3, 5)
    whole = model.score([np.array([END, 3, 4, END, 5, 3, END])])[0]
    parts = model.score([np.array([END, 3, 4, END]), np.array([END, 5, 3, END])])
    assert np.array_equal(whole, np.concatenate(parts))


def test_reading_on_is_following():
    model = tables(3, 2)
    reading = model.start_decoding([np.array([END, 3]), np.array([END])], 5)
    for taken in ([4, 5], [5, END]):
        reading.append(np.array(taken))
    assert np.array_equal(
        reading.next_logits(), model.next_log_probs([np.array([END, 3, 4, 5]), np.array([END, 5, END])]).astype("f")
    )
    reading.select(np.array([1, 1, 0]))
    assert reading.next_logits().shape == (3, VOCABULARY)


def test_rows_in_any_company_have_the_same_bits():
    model, rng = tables(3, 2), np.random.default_rng(0)
    many = [np.append([END], rng.choice(WORDS, size)) for size in rng.integers(0, 900, 300)]
    together = model.score(many), model.viterbi(many), model.posteriors(many), model.final_states(many)
    for number in (0, 1, 150, 299):
        alone = model.score([many[number]]), model.viterbi([many[number]]), model.posteriors([many[number]])
        for mine, ours in zip(alone, together, strict=False):
            assert np.array_equal(mine[0], ours[number])
        assert np.array_equal(model.final_states([many[number]])[0], together[3][number])


@pytest.mark.slow
def test_a_row_of_a_million_tokens():
    model = tables(3, 4)
    row = np.append([END], np.random.default_rng(1).choice(WORDS, 1_000_000))
    scores, best = model.score([row])[0], model.viterbi([row])[0]
    assert np.isfinite(scores).all()
    assert len(best) == 1_000_000
    assert np.exp(model.next_log_probs([row])).sum() == pytest.approx(1)
    assert model.posteriors([row])[0].sum(1) == pytest.approx(np.ones(1_000_000))


def test_ids_that_are_not_there_are_refused():
    model = tables(2, 0)
    for row in ([END, VOCABULARY], [VOCABULARY, 3], [END, -1]):
        with pytest.raises(InputError, match="outside 0 to"):
            model.score([np.array(row)])


def test_nothing_is_asked_of_no_rows():
    model = tables(2, 0)
    assert model.score([]) == model.viterbi([]) == model.posteriors([]) == []
    assert model.next_log_probs([]).shape == (0, VOCABULARY)


def test_texts_by_chance_are_as_frequent_as_they_are_probable():
    model = tables(2, 6)
    drawn = model.sample(20_000, seed=1)
    counts: dict[tuple[int, ...], int] = {}
    for tokens, states in drawn:
        assert len(tokens) == len(states)
        counts[tuple(tokens.tolist())] = counts.get(tuple(tokens.tolist()), 0) + 1
    for text in [(), *product(WORDS, repeat=1), *product(WORDS, repeat=2)]:
        p = probability(model, [END, *text, END])
        assert counts.get(text, 0) / 20_000 == pytest.approx(p, abs=5 * math.sqrt(p / 20_000) + 1e-4)
    moved = np.zeros((3, 3))
    for _, states in drawn:
        for one, other in zip([2, *states.tolist()], [*states.tolist(), 2], strict=True):
            moved[one, other] += 1
    assert moved / moved.sum(1, keepdims=True) == pytest.approx(model.moves, abs=0.02)
    assert [len(tokens) for tokens, _ in model.sample(50, seed=1, max_length=2)] <= [2] * 50
