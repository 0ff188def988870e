"""word2vec's Hogwild kernel and its reference: the same random stream, losses and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from word2vec_reference_training import ROW_LENGTHS, small_tables, small_text, small_variant, train_reference

from forebear.kernels import word2vec_reference as reference
from forebear.kernels.word2vec_training import train_word2vec

RNG_KEY = (7, 3)
VARIANTS = [(mean, negatives, subwords) for mean in (False, True) for negatives in (5, 0) for subwords in (False, True)]
# Half of them, so that any two choices are combined; each is compiled separately, which takes seconds. The rest by
# --all, and in deterministic training.
FAST_VARIANTS = [
    (mean, negatives, subwords) for mean, negatives, subwords in VARIANTS if (mean + (negatives == 0) + subwords) % 2
]
OTHER_VARIANTS = [kind for kind in VARIANTS if kind not in FAST_VARIANTS]


def with_slow_rest(selected: list[tuple[bool, int, bool]]) -> list[Any]:
    """All variants; those that are not in `selected` are marked slow."""
    return [variant if variant in selected else pytest.param(*variant, marks=pytest.mark.slow) for variant in VARIANTS]


def assert_equals_reference(
    *, mean: bool, negatives: int, subwords: bool, width: int, in_step: bool, rate: float = 0.1, window: int = 4
) -> None:
    """Two steps by kernel and reference give the same tables; the padding beyond the width stays 0."""
    variant, keep_probs = small_variant(mean=mean, negatives=negatives, subwords=subwords, window=window)
    inputs, outputs = small_tables(width)
    reference_tables = [table[:, :width].astype(np.float64) for table in (inputs, outputs)]
    for step in range(2):
        options = {"rate": rate, "rng_key": (7, step), "threads": 1, "deterministic": in_step}
        loss, num_losses = train_word2vec(inputs, outputs, *small_text(), keep_probs, variant, **options)
        assert num_losses > 100
        assert loss == pytest.approx(
            train_reference(*reference_tables, variant, keep_probs, rate, (7, step), in_step), rel=1e-4
        )
    initial_tables = small_tables(width)
    for table, expected, before in zip((inputs, outputs), reference_tables, initial_tables, strict=True):
        assert np.allclose(table[:, :width], expected, atol=1e-4)
        assert not np.allclose(before[:, :width], expected, atol=1e-2)
        assert not table[:, width:].any()


@pytest.mark.sample(2)
@pytest.mark.parametrize(("mean", "negatives", "subwords"), with_slow_rest(FAST_VARIANTS))
def test_hogwild_kernel_equals_the_reference(mean: bool, negatives: int, subwords: bool):
    assert_equals_reference(mean=mean, negatives=negatives, subwords=subwords, width=37, in_step=False)


@pytest.mark.parametrize("width", [1, 16, 300])
def test_hogwild_kernel_equals_the_reference_at_any_width(width: int):
    for mean in (False, True):
        assert_equals_reference(mean=mean, negatives=5, subwords=False, width=width, in_step=False)


@pytest.mark.parametrize("subwords", [False, True])
@pytest.mark.parametrize("negatives", [5, 0])
def test_wide_windows_update_a_few_context_words_at_a_time(negatives: int, subwords: bool):
    variant, _ = small_variant(mean=False, negatives=negatives, subwords=subwords, window=30)
    assert variant.has_wide_window(0.02)
    assert variant.context_words_at_once(0.02) == 12
    for rate in 0.25 / np.arange(2, 200):  # the widest window that is not wide is scored at once
        assert variant.has_wide_window(rate) or variant.context_words_at_once(rate) == 60
    assert_equals_reference(
        mean=False, negatives=negatives, subwords=subwords, width=20, in_step=False, rate=0.02, window=30
    )


def test_more_negatives_than_fit_into_one_block_equal_the_reference():
    assert_equals_reference(mean=False, negatives=11, subwords=False, width=20, in_step=False)  # two blocks


@pytest.mark.slow
def test_partially_filled_blocks_of_negatives_equal_the_reference():
    assert_equals_reference(mean=False, negatives=12, subwords=False, width=20, in_step=False)


@pytest.mark.parametrize("mean", [False, True])
def test_reference_update_is_the_gradient_of_the_window_loss(mean: bool):
    """By finite differences of each table. With the mean, each context word takes the full step."""
    rng = np.random.default_rng(0)
    inputs, outputs = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    blocks = [(np.array([0, 3]), np.array([1.0, -1.0])), (np.array([2, 4, 1]), np.array([-1.0, 0.0, -1.0]))]
    window = reference.TrainingWindow(np.array([1, 4, 5]), blocks if mean else blocks[:1])
    after = inputs.copy(), outputs.copy()
    reference.train_windows(*after, [window], 1e-6, mean)
    for table_index, table in enumerate((inputs, outputs)):
        slope = np.zeros_like(table)
        for position in np.ndindex(*table.shape):
            ends = []
            for delta in (-1e-6, 1e-6):
                moved = [inputs.copy(), outputs.copy()]
                moved[table_index][position] += delta
                ends.append(reference.window_loss(moved[0], moved[1], window, mean))
            slope[position] = (ends[1] - ends[0]) / 2e-6
        factor = len(window.context_ids) if mean and table_index == 0 else 1
        assert np.allclose((after[table_index] - table) / -1e-6, factor * slope, atol=1e-5)


def test_loss_of_a_long_text_is_estimated_from_a_sample_of_windows():
    variant, keep_probs = small_variant(mean=False, negatives=5, subwords=False, sample=0)
    tokens, _ = small_text()
    text = np.tile(tokens, 40), np.tile(ROW_LENGTHS, 40)
    results = [
        train_word2vec(
            *small_tables(8),
            *text_part,
            keep_probs,
            variant,
            rate=0.0,
            rng_key=RNG_KEY,
            threads=1,
            deterministic=False,
        )
        for text_part in (text, (tokens, ROW_LENGTHS))
    ]
    (loss, num_losses), (small, num_small_losses) = results
    assert num_small_losses / 5 < num_losses < 5 * num_small_losses  # not forty times as many
    assert loss / num_losses == pytest.approx(small / num_small_losses, rel=0.1)


def test_several_threads_train_on_every_part():
    variant, keep_probs = small_variant(mean=False, negatives=5, subwords=False, sample=0)
    tokens, _ = small_text()
    tables = small_tables(8)
    before = tables[0].copy()
    train_word2vec(*tables, np.tile(tokens, 40), np.tile(ROW_LENGTHS, 40), keep_probs, variant, rate=0.05,
                   rng_key=RNG_KEY, threads=3, deterministic=False)  # fmt: skip
    has_changed = np.abs(tables[0] - before).sum(1) > 0
    assert has_changed[np.unique(tokens[tokens != 5])].all()
    assert np.isfinite(tables[0]).all()
