"""Deterministic training of word2vec: equal to the reference, and bit-identical for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from test_word2vec_hogwild import OTHER_VARIANTS, assert_equals_reference, with_slow_rest
from word2vec_reference_training import ROW_LENGTHS, small_tables, small_text, small_variant

from forebear.embeddings.word2vec import word2vec_variant
from forebear.kernels import word2vec_training
from forebear.kernels.vector_tables import aligned_table
from forebear.kernels.word2vec_sampling import keep_probabilities
from forebear.kernels.word2vec_training import MAX_RATE_SUM, train_word2vec


@pytest.mark.sample(2)
@pytest.mark.parametrize(("mean", "negatives", "subwords"), with_slow_rest(OTHER_VARIANTS))
def test_deterministic_kernel_equals_the_reference(mean: bool, negatives: int, subwords: bool):
    assert_equals_reference(mean=mean, negatives=negatives, subwords=subwords, width=37, in_step=True, rate=0.02)


@pytest.mark.parametrize(("mean", "negatives", "subwords"), with_slow_rest(OTHER_VARIANTS))
def test_deterministic_training_is_bit_identical_for_any_number_of_threads(
    mean: bool, negatives: int, subwords: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        word2vec_training, "MIN_THREAD_WORK", 1
    )  # as many threads as requested, however small the text is
    variant, keep_probs = small_variant(mean=mean, negatives=negatives, subwords=subwords)
    tokens, _ = small_text()
    results = []
    for threads in (1, 2, 3, 8):
        tables = small_tables(50)
        options = {"rate": 0.01, "rng_key": (1, 2), "threads": threads, "deterministic": True}
        loss = train_word2vec(*tables, np.tile(tokens, 8), np.tile(ROW_LENGTHS, 8), keep_probs, variant, **options)
        results.append((loss, *(table.tobytes() for table in tables)))
    assert all(result == results[0] for result in results)


def test_max_words_in_step_falls_with_the_update_rate_of_the_busiest_row():
    """Otherwise vectors would diverge: a row would be updated a hundred times as if it had not changed."""
    skipgram, _ = small_variant(mean=False, negatives=5, subwords=False)
    cbow, _ = small_variant(mean=True, negatives=5, subwords=False)
    tree, _ = small_variant(mean=False, negatives=0, subwords=False)
    subwords, _ = small_variant(mean=False, negatives=5, subwords=True)
    for variant in (skipgram, cbow, tree, subwords):
        assert variant.max_frozen_words(0.025) * 0.025 * variant.busiest_row_rate <= MAX_RATE_SUM
        assert variant.max_frozen_words(0.05) <= variant.max_frozen_words(0.025)
        assert variant.max_frozen_words(1e30) == 1
    assert tree.busiest_row_rate == pytest.approx(5)  # the root is on the path of every word, for each context word
    assert cbow.busiest_row_rate == pytest.approx(skipgram.busiest_row_rate / 5)
    assert subwords.busiest_row_rate > skipgram.busiest_row_rate


@pytest.mark.parametrize("mean", [False, True])
def test_deterministic_training_on_many_words_does_not_diverge(mean: bool):
    variant, keep_probs = small_variant(mean=mean, negatives=5, subwords=False, sample=0)
    tokens, _ = small_text()
    tables = small_tables(16)
    losses = []
    for step in range(6):
        options = {"rate": 0.025, "rng_key": (1, step), "threads": 1, "deterministic": True}
        loss, num_losses = train_word2vec(
            *tables, np.tile(tokens, 40), np.tile(ROW_LENGTHS, 40), keep_probs, variant, **options
        )
        losses.append(loss / num_losses)
    assert losses[-1] < 1.1 * losses[0]  # random words: there is nothing to learn
    assert np.abs(tables[0]).max() < 10


def test_a_thread_that_cannot_start_releases_the_waiting_ones(monkeypatch: pytest.MonkeyPatch):
    variant, keep_probs = small_variant(mean=True, negatives=5, subwords=False)
    futures = []
    original_submit = word2vec_training.ThreadPoolExecutor.submit

    def submit(self, *work):
        if futures:
            raise RuntimeError("can't start new thread")
        futures.append(original_submit(self, *work))
        return futures[0]

    monkeypatch.setattr(word2vec_training.ThreadPoolExecutor, "submit", submit)
    monkeypatch.setattr(word2vec_training, "MIN_THREAD_WORK", 1)
    with pytest.raises(RuntimeError, match="new thread"):
        train_word2vec(
            *small_tables(50),
            *small_text(),
            keep_probs,
            variant,
            rate=0.01,
            rng_key=(1, 2),
            threads=3,
            deterministic=True,
        )
    assert futures[0].done()


@pytest.mark.parametrize("mean", [False, True])
def test_documents_that_repeat_rare_words_do_not_diverge(mean: bool):
    """Some documents repeat two words that are rare in the whole text."""
    rng = np.random.default_rng(0)
    tokens, lengths = rng.integers(2, 500, 100_000).astype(np.int32), np.full(500, 200)
    for document in range(0, 500, 100):
        tokens[document * 200 : document * 200 + 200] = np.tile([0, 1], 100)
    counts = np.bincount(tokens, minlength=500)
    allowed = np.ones(500, bool)
    keep_probs = keep_probabilities(counts, 1e-3, allowed)
    options = {"keep_probs": keep_probs, "window": 5, "mean": mean, "negatives": 5, "power": 0.75, "subwords": None}
    variant = word2vec_variant(counts, allowed, **options)
    initial, largest = rng.uniform(-0.02, 0.02, (500, 50)), []
    for in_step in (False, True):
        tables = aligned_table(500, 50), aligned_table(500, 50)
        tables[0][:, :50] = initial
        for step in range(10):
            train_word2vec(
                *tables,
                tokens,
                lengths,
                keep_probs,
                variant,
                rate=0.025,
                rng_key=(1, step),
                threads=1,
                deterministic=in_step,
            )
        largest.append(np.abs(tables[0]).max())
    assert largest[1] < 3 * largest[0], "about as large as in Hogwild training"


def test_too_high_learning_rate_falls_back_to_hogwild_with_one_thread():
    variant, keep_probs = small_variant(mean=False, negatives=5, subwords=False)
    assert variant.needs_hogwild(0.1)
    results = []
    for threads, in_step in ((1, True), (2, True), (1, False)):
        tables = small_tables(50)
        options = {"rate": 0.1, "rng_key": (1, 2), "threads": threads, "deterministic": in_step}
        train_word2vec(*tables, *small_text(), keep_probs, variant, **options)
        results.append([table.tobytes() for table in tables])
    assert results[0] == results[1] == results[2]
