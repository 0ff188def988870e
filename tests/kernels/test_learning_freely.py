"""word2vec's compiled loops and their readable twin: the same chance, the same losses, the same tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_sweeps import LENGTHS, small_tables, small_text, small_way, swept_plainly

from forebear.kernels import word2vec_reference as plainly
from forebear.kernels.word2vec_threads import train_word2vec

MOMENT = (7, 3)
KINDS = [(mean, negatives, spelled) for mean in (False, True) for negatives in (5, 0) for spelled in (False, True)]
# Half of them, in which any two choices meet; each one is compiled by itself, which takes seconds. The other half by
# --all, and in step.
SOME = [(mean, negatives, spelled) for mean, negatives, spelled in KINDS if (mean + (negatives == 0) + spelled) % 2]
OTHERS = [kind for kind in KINDS if kind not in SOME]


def mostly(chosen: list[tuple[bool, int, bool]]) -> list[Any]:
    """All kinds, those that are not chosen marked slow."""
    return [kind if kind in chosen else pytest.param(*kind, marks=pytest.mark.slow) for kind in KINDS]


def compare(
    *, mean: bool, negatives: int, spelled: bool, width: int, in_step: bool, rate: float = 0.1, window: int = 4
) -> None:
    """Two sweeps by both; what lies beyond the width stays 0."""
    way, kept = small_way(mean=mean, negatives=negatives, spelled=spelled, window=window)
    inputs, outputs = small_tables(width)
    plain = [one[:, :width].astype(np.float64) for one in (inputs, outputs)]
    for step in range(2):
        how = {"rate": rate, "seed_parts": (7, step), "threads": 1, "in_step": in_step}
        loss, many = train_word2vec(inputs, outputs, *small_text(), kept, way, **how)
        assert many > 100
        assert loss == pytest.approx(swept_plainly(*plain, way, kept, rate, (7, step), in_step), rel=1e-4)
    begun = small_tables(width)
    for one, other, before in zip((inputs, outputs), plain, begun, strict=True):
        assert np.allclose(one[:, :width], other, atol=1e-4)
        assert not np.allclose(before[:, :width], other, atol=1e-2)
        assert not one[:, width:].any()


@pytest.mark.sample(2)
@pytest.mark.parametrize(("mean", "negatives", "spelled"), mostly(SOME))
def test_loops_do_what_their_twin_does(mean: bool, negatives: int, spelled: bool):
    compare(mean=mean, negatives=negatives, spelled=spelled, width=37, in_step=False)


@pytest.mark.parametrize("width", [1, 16, 300])
def test_any_width(width: int):
    for mean in (False, True):
        compare(mean=mean, negatives=5, spelled=False, width=width, in_step=False)


@pytest.mark.parametrize("spelled", [False, True])
@pytest.mark.parametrize("negatives", [5, 0])
def test_wide_windows_are_learned_from_a_few_words_at_a_time(negatives: int, spelled: bool):
    way, _ = small_way(mean=False, negatives=negatives, spelled=spelled, window=30)
    assert way.has_wide_window(0.02)
    assert way.context_words_at_once(0.02) == 12
    for rate in 0.25 / np.arange(2, 200):  # where a window is just not too wide, all of it is measured at once
        assert way.has_wide_window(rate) or way.context_words_at_once(rate) == 60
    compare(mean=False, negatives=negatives, spelled=spelled, width=20, in_step=False, rate=0.02, window=30)


def test_more_negatives_than_fit_into_a_block():
    compare(mean=False, negatives=11, spelled=False, width=20, in_step=False)  # two blocks


@pytest.mark.slow
def test_blocks_that_are_not_full():
    compare(mean=False, negatives=12, spelled=False, width=20, in_step=False)


@pytest.mark.parametrize("mean", [False, True])
def test_a_change_is_the_gradient(mean: bool):
    """By numbers: each table moved a little, each way. Around a mean, each word takes a step of all of it."""
    rng = np.random.default_rng(0)
    inputs, outputs = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    blocks = [(np.array([0, 3]), np.array([1.0, -1.0])), (np.array([2, 4, 1]), np.array([-1.0, 0.0, -1.0]))]
    window = plainly.TrainingWindow(np.array([1, 4, 5]), blocks if mean else blocks[:1])
    after = inputs.copy(), outputs.copy()
    plainly.train_windows(*after, [window], 1e-6, mean)
    for which, table in enumerate((inputs, outputs)):
        slope = np.zeros_like(table)
        for place in np.ndindex(*table.shape):
            ends = []
            for side in (-1e-6, 1e-6):
                moved = [inputs.copy(), outputs.copy()]
                moved[which][place] += side
                ends.append(plainly.window_loss(moved[0], moved[1], window, mean))
            slope[place] = (ends[1] - ends[0]) / 2e-6
        times = len(window.around) if mean and which == 0 else 1
        assert np.allclose((after[which] - table) / -1e-6, times * slope, atol=1e-5)


def test_the_loss_of_a_long_text_is_that_of_some_of_its_windows():
    way, kept = small_way(mean=False, negatives=5, spelled=False, sample=0)
    tokens, _ = small_text()
    text = np.tile(tokens, 40), np.tile(LENGTHS, 40)
    told = [train_word2vec(*small_tables(8), *part, kept, way, rate=0.0, seed_parts=MOMENT, threads=1, in_step=False)
            for part in (text, (tokens, LENGTHS))]  # fmt: skip
    (loss, many), (small, few) = told
    assert few / 5 < many < 5 * few  # not forty times as many
    assert loss / many == pytest.approx(small / few, rel=0.1)


def test_several_threads_learn_from_every_part():
    way, kept = small_way(mean=False, negatives=5, spelled=False, sample=0)
    tokens, _ = small_text()
    tables = small_tables(8)
    before = tables[0].copy()
    train_word2vec(*tables, np.tile(tokens, 40), np.tile(LENGTHS, 40), kept, way, rate=0.05,
                   seed_parts=MOMENT, threads=3, in_step=False)  # fmt: skip
    moved = np.abs(tables[0] - before).sum(1) > 0
    assert moved[np.unique(tokens[tokens != 5])].all()
    assert np.isfinite(tables[0]).all()
