"""Sampling filters equal the processors of transformers on random scores; samples follow the filtered distribution."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_language_models import BigramTable
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


def transformers_scores(processor, scores, previous_ids=(0,)):
    return processor(torch.tensor([list(previous_ids)]), torch.tensor(scores)[None].clone())[0].numpy()


@given(SEEDS, st.integers(1, 300), st.integers(1, 40))
def test_top_k_equals_that_of_transformers(seed, size, count):
    scores = random_scores(seed, size)
    np.testing.assert_array_equal(filter_top_k(scores, count), transformers_scores(TopKLogitsWarper(count), scores))


@given(SEEDS, st.integers(1, 300), st.floats(0.01, 0.99), st.floats(0.1, 8))
def test_top_p_equals_that_of_transformers(seed, size, share, spread):
    scores = random_scores(seed, size, spread)
    np.testing.assert_array_equal(filter_top_p(scores, share), transformers_scores(TopPLogitsWarper(share), scores))


@given(SEEDS, st.lists(st.integers(0, 49), max_size=12), st.floats(0.5, 3))
def test_repetition_penalty_equals_that_of_transformers(seed, previous_ids, penalty):
    scores = random_scores(seed, 50)
    expected = (
        transformers_scores(RepetitionPenaltyLogitsProcessor(penalty), scores, previous_ids) if previous_ids else scores
    )
    np.testing.assert_allclose(apply_repetition_penalty(scores, previous_ids, penalty), expected, rtol=1e-12)


@settings(max_examples=30)
@given(SEEDS, st.floats(0.2, 2), st.integers(1, 60), st.floats(0.05, 0.99), st.floats(1, 2))
def test_samples_follow_the_distribution_filtered_by_transformers(seed, temperature, count, share, penalty):
    scores, previous_ids = random_scores(seed, 60), [1, 2, 3, 2]
    filtered = scores
    for processor in (
        RepetitionPenaltyLogitsProcessor(penalty),
        TemperatureLogitsWarper(temperature),
        TopKLogitsWarper(count),
        TopPLogitsWarper(share),
    ):
        filtered = transformers_scores(processor, filtered, previous_ids)
    probabilities = torch.softmax(torch.tensor(filtered), dim=0).numpy()
    sampling = SamplingConfig(temperature, count, share, penalty)
    uniform_numbers = (np.arange(500) + 0.5) / 500
    frequencies = (
        np.bincount([sampling.choose(scores, previous_ids, number) for number in uniform_numbers], minlength=60) / 500
    )
    np.testing.assert_allclose(frequencies, probabilities, atol=1.01 / 500)


def test_temperature_zero_takes_the_first_of_the_best():
    assert SamplingConfig(0).choose(np.array([0.0, 3.0, 3.0, 1.0]), [], 0.99) == 1
    assert SamplingConfig(0, repetition_penalty=2).choose(np.array([0.0, 3.0, 2.0]), [1], 0) == 2


@pytest.mark.parametrize("temperature", [1e-300, 1e-6, 1e6])
def test_extreme_temperatures_do_not_overflow(temperature):
    sampling = SamplingConfig(temperature, top_p=1)
    scores = np.array([-90.0, 80.0, -np.inf, 20.0])
    sampled = {sampling.choose(scores, [], number) for number in np.linspace(0, 0.999, 50)}
    assert sampled == ({1} if temperature < 1 else {0, 1, 3})


def test_random_number_just_below_1_chooses_a_possible_token():
    sampling = SamplingConfig(1.0, top_p=1)
    assert sampling.choose(np.zeros(7), [], np.nextafter(1, 0)) == 6
    assert sampling.choose(np.array([-np.inf, 0.0, -np.inf]), [], np.nextafter(1, 0)) == 1


@pytest.mark.parametrize(
    "invalid",
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
def test_invalid_sampling_settings_are_refused_with_a_hint(invalid):
    with pytest.raises(InputError) as caught:
        SamplingConfig(**invalid)
    assert caught.value.hint


def test_allowed_tokens_fall_back_to_unknown_then_to_end():
    allowed = AllowedTokens(blocked_ids=np.array([0]), unk_id=1, eos_id=2)
    impossible = -np.inf
    assert allowed.mask(np.array([9.0, 8.0, 1.0, 0.0], np.float32)).tolist() == [impossible, impossible, 1, 0]
    assert allowed.mask(np.array([9.0, 8.0, impossible, impossible], np.float32)).tolist() == [
        impossible,
        8,
        impossible,
        impossible,
    ]
    assert allowed.mask(np.array([9.0, impossible, impossible, impossible], np.float32)).tolist() == [
        impossible,
        impossible,
        0,
        impossible,
    ]
    with pytest.raises(ForebearError, match="no numbers"):
        allowed.mask(np.array([0.0, np.nan, 0.0, 0.0]))


def test_bigram_table_scores_are_log_probabilities():
    assert BigramTable([[0.5, 0.5], [1, 0]]).score([np.array([0, 1, 0])])[0].tolist() == [np.log(0.5), 0]
