"""Every filter against the processors of transformers on random scores; drawing against the shares it must have."""

import numpy as np
import pytest
import torch
from bigrams import Tabled
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from forebear.errors import ForebearError, InputError
from forebear.inference.sampling import (
    AllowedTokens,
    SamplingConfig,
    apply_repetition_penalty,
    filter_top_k,
    filter_top_p,
)

SEEDS = st.integers(0, 2**32 - 1)


def random_scores(seed, size, spread=4.0):
    return np.random.default_rng(seed).normal(size=size) * spread


def theirs(processor, scores, said=(0,)):
    return processor(torch.tensor([list(said)]), torch.tensor(scores)[None].clone())[0].numpy()


@given(SEEDS, st.integers(1, 300), st.integers(1, 40))
def test_top_k_is_that_of_transformers(seed, size, count):
    scores = random_scores(seed, size)
    np.testing.assert_array_equal(filter_top_k(scores, count), theirs(TopKLogitsWarper(count), scores))


@given(SEEDS, st.integers(1, 300), st.floats(0.01, 0.99), st.floats(0.1, 8))
def test_top_p_is_that_of_transformers(seed, size, share, spread):
    scores = random_scores(seed, size, spread)
    np.testing.assert_array_equal(filter_top_p(scores, share), theirs(TopPLogitsWarper(share), scores))


@given(SEEDS, st.lists(st.integers(0, 49), max_size=12), st.floats(0.5, 3))
def test_the_penalty_is_that_of_transformers(seed, said, penalty):
    scores = random_scores(seed, 50)
    expected = theirs(RepetitionPenaltyLogitsProcessor(penalty), scores, said) if said else scores
    np.testing.assert_allclose(apply_repetition_penalty(scores, said, penalty), expected, rtol=1e-12)


@settings(max_examples=30)
@given(SEEDS, st.floats(0.2, 2), st.integers(1, 60), st.floats(0.05, 0.99), st.floats(1, 2))
def test_all_together_draw_from_what_transformers_would(seed, temperature, count, share, penalty):
    scores, said = random_scores(seed, 60), [1, 2, 3, 2]
    left = scores
    for processor in (
        RepetitionPenaltyLogitsProcessor(penalty),
        TemperatureLogitsWarper(temperature),
        TopKLogitsWarper(count),
        TopPLogitsWarper(share),
    ):
        left = theirs(processor, left, said)
    probabilities = torch.softmax(torch.tensor(left), dim=0).numpy()
    sampling = SamplingConfig(temperature, count, share, penalty)
    chances = (np.arange(500) + 0.5) / 500
    drawn = np.bincount([sampling.choose(scores, said, chance) for chance in chances], minlength=60) / 500
    np.testing.assert_allclose(drawn, probabilities, atol=1.01 / 500)


def test_a_temperature_of_zero_takes_the_first_of_the_best():
    assert SamplingConfig(0).choose(np.array([0.0, 3.0, 3.0, 1.0]), [], 0.99) == 1
    assert SamplingConfig(0, repetition_penalty=2).choose(np.array([0.0, 3.0, 2.0]), [1], 0) == 2


@pytest.mark.parametrize("temperature", [1e-300, 1e-6, 1e6])
def test_no_temperature_overflows(temperature):
    sampling = SamplingConfig(temperature, top_p=1)
    scores = np.array([-90.0, 80.0, -np.inf, 20.0])
    drawn = {sampling.choose(scores, [], chance) for chance in np.linspace(0, 0.999, 50)}
    assert drawn == ({1} if temperature < 1 else {0, 1, 3})


def test_chance_at_the_border_never_falls_off():
    sampling = SamplingConfig(1.0, top_p=1)
    assert sampling.choose(np.zeros(7), [], np.nextafter(1, 0)) == 6
    assert sampling.choose(np.array([-np.inf, 0.0, -np.inf]), [], np.nextafter(1, 0)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_k": 0},
        {"top_p": 0},
        {"top_p": 1.5},
        {"repetition_penalty": 0},
        {"repetition_penalty": float("inf")},
    ],
)
def test_senseless_settings_are_refused_with_a_remedy(wrong):
    with pytest.raises(InputError) as caught:
        SamplingConfig(**wrong)
    assert caught.value.hint


def test_unknown_only_where_nothing_else_is_possible_and_then_the_end():
    permitted = AllowedTokens(blocked_ids=np.array([0]), unk_id=1, eos_id=2)
    low = -np.inf
    assert permitted.mask(np.array([9.0, 8.0, 1.0, 0.0], np.float32)).tolist() == [low, low, 1, 0]
    assert permitted.mask(np.array([9.0, 8.0, low, low], np.float32)).tolist() == [low, 8, low, low]
    assert permitted.mask(np.array([9.0, low, low, low], np.float32)).tolist() == [low, low, 0, low]
    with pytest.raises(ForebearError, match="no numbers"):
        permitted.mask(np.array([0.0, np.nan, 0.0, 0.0]))


def test_the_table_of_the_tests_is_right():
    assert Tabled([[0.5, 0.5], [1, 0]]).score([np.array([0, 1, 0])])[0].tolist() == [np.log(0.5), 0]
