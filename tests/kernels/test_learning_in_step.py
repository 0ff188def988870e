"""word2vec in step: what the readable twin does, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from plain_sweeps import LENGTHS, small_tables, small_text, small_way
from test_learning_freely import KINDS, compare

from forebear.kernels import sweeping
from forebear.kernels.sweeping import STILL, swept


@pytest.mark.parametrize(("mean", "negatives", "spelled"), KINDS)
def test_loops_in_step_do_what_their_twin_does(mean: bool, negatives: int, spelled: bool):
    compare(mean=mean, negatives=negatives, spelled=spelled, width=37, in_step=True)


@pytest.mark.parametrize(("mean", "negatives", "spelled"), KINDS)
def test_threads_change_no_bit(mean: bool, negatives: int, spelled: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sweeping, "WORTH", 1)  # as many threads as are asked for, however little there is to do
    way, kept = small_way(mean=mean, negatives=negatives, spelled=spelled)
    tokens, _ = small_text()
    ends = []
    for threads in (1, 2, 3, 8):
        tables = small_tables(50)
        how = {"rate": 0.01, "moment": (1, 2), "threads": threads, "in_step": True}
        loss = swept(*tables, np.tile(tokens, 8), np.tile(LENGTHS, 8), kept, way, **how)
        ends.append((loss, *(one.tobytes() for one in tables)))
    assert all(end == ends[0] for end in ends)


def test_the_busier_a_row_the_fewer_words_are_learned_in_step():
    """Otherwise vectors would grow without end: a row would be pulled a hundred times as if it had not moved."""
    plain, _ = small_way(mean=False, negatives=5, spelled=False)
    means, _ = small_way(mean=True, negatives=5, spelled=False)
    tree, _ = small_way(mean=False, negatives=0, spelled=False)
    spelled, _ = small_way(mean=False, negatives=5, spelled=True)
    for way in (plain, means, tree, spelled):
        assert way.still(0.025) * 0.025 * way.busiest <= STILL
        assert way.still(0.05) <= way.still(0.025)
        assert way.still(1e30) == 1
    assert tree.busiest == pytest.approx(5)  # the root is on the path of every word, for each of the words around
    assert means.busiest == pytest.approx(plain.busiest / 5)
    assert spelled.busiest > plain.busiest


@pytest.mark.parametrize("mean", [False, True])
def test_many_words_in_step_stay_finite(mean: bool):
    way, kept = small_way(mean=mean, negatives=5, spelled=False, sample=0)
    tokens, _ = small_text()
    tables = small_tables(16)
    losses = []
    for step in range(6):
        how = {"rate": 0.025, "moment": (1, step), "threads": 1, "in_step": True}
        loss, many = swept(*tables, np.tile(tokens, 40), np.tile(LENGTHS, 40), kept, way, **how)
        losses.append(loss / many)
    assert losses[-1] < 1.1 * losses[0]  # words that follow no rule: there is nothing to learn
    assert np.abs(tables[0]).max() < 10


def test_a_thread_that_cannot_begin_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch):
    way, kept = small_way(mean=True, negatives=5, spelled=False)
    begun = []
    whole = sweeping.ThreadPoolExecutor.submit

    def submit(self, *work):
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(whole(self, *work))
        return begun[0]

    monkeypatch.setattr(sweeping.ThreadPoolExecutor, "submit", submit)
    monkeypatch.setattr(sweeping, "WORTH", 1)
    with pytest.raises(RuntimeError, match="new thread"):
        swept(*small_tables(50), *small_text(), kept, way, rate=0.01, moment=(1, 2), threads=3, in_step=True)
    assert begun[0].done()
