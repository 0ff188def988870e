"""Random sampling of word2vec: negative samples, subsampling of frequent words, streams from a seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.kernels.word2vec_sampling import (
    ALWAYS,
    hash_seed,
    hash_seeds,
    keep_probabilities,
    negative_sample_stream,
    next_random,
    subsample,
)


def test_keep_probabilities_equal_gensims():
    word2vec = pytest.importorskip("gensim.models.word2vec")
    counts = np.array([50_000, 3000, 700, 20, 1])
    sentences = [[f"w{word}"] * 1000 for word, count in enumerate(counts // 1000) for _ in range(count)]
    sentences += [[f"w{word}"] * (count % 1000) for word, count in enumerate(counts)]
    model = word2vec.Word2Vec(min_count=1, sample=1e-3)
    model.build_vocab(sentences)
    gensim_probs = [model.wv.get_vecattr(f"w{word}", "sample_int") for word in range(5)]
    keep_probs = keep_probabilities(counts, 1e-3, np.ones(5, bool))
    assert np.allclose(keep_probs / ALWAYS, np.array(gensim_probs) / 2**32, atol=1e-6)


def test_keep_probabilities_equal_the_formula_of_word2vec_c():
    counts = np.array([50, 30, 20, 10, 5, 5, 3, 2, 1])
    shares = counts / counts.sum()
    keep_probs = keep_probabilities(counts, 0.01, np.ones(9, bool)) / ALWAYS
    assert keep_probs == pytest.approx(np.minimum((np.sqrt(shares / 0.01) + 1) * 0.01 / shares, 1))


def test_words_that_are_not_allowed_do_not_affect_subsampling():
    counts = np.array([1000, 500, 300, 200])
    allowed = np.array([True, False, True, True])
    keep_probs = keep_probabilities(counts, 0.0, allowed)
    assert keep_probs.tolist() == [ALWAYS, 0, ALWAYS, ALWAYS]
    keep_probs = keep_probabilities(counts, 0.05, allowed)
    assert np.array_equal(keep_probs[allowed], keep_probabilities(counts[allowed], 0.05, np.ones(3, bool)))
    tokens = np.random.default_rng(0).integers(0, 4, 5000).astype(np.int32)
    without = tokens[tokens != 1]
    kept_tokens, ends = subsample(tokens, np.array([3000, 0, 2000]), keep_probs, (1, 2))
    lengths = np.array([np.count_nonzero(tokens[:3000] != 1), 0, np.count_nonzero(tokens[3000:] != 1)])
    same, same_ends = subsample(without, lengths, keep_probs, (1, 2))
    assert np.array_equal(kept_tokens, same)
    assert np.array_equal(ends, same_ends)
    assert ends[0] == ends[1] < ends[2] == len(kept_tokens)


def test_subsample_keeps_tokens_at_the_given_probabilities():
    keep_probs = np.array([ALWAYS // 10, ALWAYS // 2, ALWAYS], np.uint64)
    tokens = np.tile(np.arange(3, dtype=np.int32), 100_000)
    kept_tokens, _ = subsample(tokens, np.array([len(tokens)]), keep_probs, (0, 0))
    assert np.allclose(np.bincount(kept_tokens) / 100_000, [0.1, 0.5, 1], atol=0.005)
    other, _ = subsample(tokens, np.array([len(tokens)]), keep_probs, (0, 1))
    assert not np.array_equal(kept_tokens[:1000], other[:1000])


def test_negative_samples_follow_counts_to_the_power():
    counts, allowed = np.array([1000, 0, 10, 100, 7]), np.array([True, True, True, True, False])
    stream = negative_sample_stream(counts, 0.75, allowed)
    shares = np.array([1000, 0, 10, 100, 0]) ** 0.75
    assert np.allclose(np.bincount(stream, minlength=5) / len(stream), shares / shares.sum(), atol=1e-6)
    assert np.allclose(np.bincount(stream[:50_000], minlength=5) / 50_000, shares / shares.sum(), atol=0.01)
    assert np.array_equal(stream, negative_sample_stream(counts, 0.75, allowed))


@pytest.mark.parametrize("counts", [[0, 0], [5, 5]])
def test_negative_sample_stream_without_allowed_words_is_empty(counts: list[int]):
    assert len(negative_sample_stream(np.array(counts), 0.75, np.array(counts) == 0)) == 0


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3), st.integers(0, 20))
def test_hash_seeds_equals_hash_seed_one_by_one(numbers: list[int], num_seeds: int):
    seeds = hash_seeds(tuple(numbers), num_seeds)
    assert seeds.tolist() == [hash_seed(*numbers, number) for number in range(num_seeds)]
    assert all(seeds)


def test_random_streams_differ_and_do_not_repeat():
    states = {hash_seed(seed, step) for seed in range(30) for step in range(30)}
    assert len(states) == 900
    state, seen = 1, set()
    for _ in range(1000):
        state = next_random(state)
        assert 0 < state < 2**64
        seen.add(state)
    assert len(seen) == 1000
