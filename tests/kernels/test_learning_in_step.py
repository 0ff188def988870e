"""word2vec in step: what the readable twin does, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from plain_sweeps import LENGTHS, small_tables, small_text, small_way
from test_learning_freely import OTHERS, compare, mostly

from forebear.embeddings.word2vec import word2vec_variant
from forebear.kernels import word2vec_threads
from forebear.kernels.layout import aligned_table
from forebear.kernels.word2vec_sampling import keep_probabilities
from forebear.kernels.word2vec_threads import MAX_RATE_SUM, train_word2vec


@pytest.mark.sample(2)
@pytest.mark.parametrize(("mean", "negatives", "spelled"), mostly(OTHERS))
def test_loops_in_step_do_what_their_twin_does(mean: bool, negatives: int, spelled: bool):
    compare(mean=mean, negatives=negatives, spelled=spelled, width=37, in_step=True, rate=0.02)


@pytest.mark.parametrize(("mean", "negatives", "spelled"), mostly(OTHERS))
def test_threads_change_no_bit(mean: bool, negatives: int, spelled: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        word2vec_threads, "MIN_THREAD_WORK", 1
    )  # as many threads as are asked for, however little there is to do
    way, kept = small_way(mean=mean, negatives=negatives, spelled=spelled)
    tokens, _ = small_text()
    ends = []
    for threads in (1, 2, 3, 8):
        tables = small_tables(50)
        how = {"rate": 0.01, "seed_parts": (1, 2), "threads": threads, "in_step": True}
        loss = train_word2vec(*tables, np.tile(tokens, 8), np.tile(LENGTHS, 8), kept, way, **how)
        ends.append((loss, *(one.tobytes() for one in tables)))
    assert all(end == ends[0] for end in ends)


def test_the_busier_a_row_the_fewer_words_are_learned_in_step():
    """Otherwise vectors would grow without end: a row would be pulled a hundred times as if it had not moved."""
    plain, _ = small_way(mean=False, negatives=5, spelled=False)
    means, _ = small_way(mean=True, negatives=5, spelled=False)
    tree, _ = small_way(mean=False, negatives=0, spelled=False)
    spelled, _ = small_way(mean=False, negatives=5, spelled=True)
    for way in (plain, means, tree, spelled):
        assert way.max_words_in_step(0.025) * 0.025 * way.busiest_row_rate <= MAX_RATE_SUM
        assert way.max_words_in_step(0.05) <= way.max_words_in_step(0.025)
        assert way.max_words_in_step(1e30) == 1
    assert tree.busiest_row_rate == pytest.approx(
        5
    )  # the root is on the path of every word, for each of the words around
    assert means.busiest_row_rate == pytest.approx(plain.busiest_row_rate / 5)
    assert spelled.busiest_row_rate > plain.busiest_row_rate


@pytest.mark.parametrize("mean", [False, True])
def test_many_words_in_step_stay_finite(mean: bool):
    way, kept = small_way(mean=mean, negatives=5, spelled=False, sample=0)
    tokens, _ = small_text()
    tables = small_tables(16)
    losses = []
    for step in range(6):
        how = {"rate": 0.025, "seed_parts": (1, step), "threads": 1, "in_step": True}
        loss, many = train_word2vec(*tables, np.tile(tokens, 40), np.tile(LENGTHS, 40), kept, way, **how)
        losses.append(loss / many)
    assert losses[-1] < 1.1 * losses[0]  # words that follow no rule: there is nothing to learn
    assert np.abs(tables[0]).max() < 10


def test_a_thread_that_cannot_begin_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch):
    way, kept = small_way(mean=True, negatives=5, spelled=False)
    begun = []
    whole = word2vec_threads.ThreadPoolExecutor.submit

    def submit(self, *work):
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(whole(self, *work))
        return begun[0]

    monkeypatch.setattr(word2vec_threads.ThreadPoolExecutor, "submit", submit)
    monkeypatch.setattr(word2vec_threads, "MIN_THREAD_WORK", 1)
    with pytest.raises(RuntimeError, match="new thread"):
        train_word2vec(
            *small_tables(50), *small_text(), kept, way, rate=0.01, seed_parts=(1, 2), threads=3, in_step=True
        )
    assert begun[0].done()


@pytest.mark.parametrize("mean", [False, True])
def test_text_that_repeats_itself_here_and_there_stays_finite(mean: bool):
    """Some documents say two words again and again, which are rare in the whole."""
    rng = np.random.default_rng(0)
    tokens, lengths = rng.integers(2, 500, 100_000).astype(np.int32), np.full(500, 200)
    for document in range(0, 500, 100):
        tokens[document * 200 : document * 200 + 200] = np.tile([0, 1], 100)
    counts = np.bincount(tokens, minlength=500)
    allowed = np.ones(500, bool)
    kept = keep_probabilities(counts, 1e-3, allowed)
    how = {"keep_probs": kept, "window": 5, "mean": mean, "negatives": 5, "power": 0.75, "spelling": None}
    way = word2vec_variant(counts, allowed, **how)
    begun, largest = rng.uniform(-0.02, 0.02, (500, 50)), []
    for in_step in (False, True):
        tables = aligned_table(500, 50), aligned_table(500, 50)
        tables[0][:, :50] = begun
        for step in range(10):
            train_word2vec(
                *tables, tokens, lengths, kept, way, rate=0.025, seed_parts=(1, step), threads=1, in_step=in_step
            )
        largest.append(np.abs(tables[0]).max())
    assert largest[1] < 3 * largest[0], "of the size that they have freely"


def test_what_is_too_heavy_is_learned_from_by_one_thread_freely():
    way, kept = small_way(mean=False, negatives=5, spelled=False)
    assert way.needs_hogwild(0.1)
    ends = []
    for threads, in_step in ((1, True), (2, True), (1, False)):
        tables = small_tables(50)
        how = {"rate": 0.1, "seed_parts": (1, 2), "threads": threads, "in_step": in_step}
        train_word2vec(*tables, *small_text(), kept, way, **how)
        ends.append([one.tobytes() for one in tables])
    assert ends[0] == ends[1] == ends[2]
