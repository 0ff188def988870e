"""GloVe's sweep: a case worked by hand, its gradient against differences, and compiled loops against numpy's way."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.kernels import glove as kernels


def tables(words: int, width: int, seed: int = 0, kind: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(words, kernels.columns_of(width))).astype(kind) for _ in "wc"]
    for table in made:
        table[:, width : 2 * width] = 1 + rng.random((words, width))
        table[:, 2 * width + 1] = 1 + rng.random(words)
    return made


def entries(words: int, many: int, seed: int = 0, kind: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(0, words, many).astype(np.int32) for _ in "rc")
    return [rows, columns, rng.normal(size=many).astype(kind), rng.random(many).astype(kind)]


def test_one_entry_worked_by_hand():
    # vector 2, its sum of squares 4, bias 1, its sum 9; context 3, 1, bias -1, 1; log 5, weight 1/2, rate 1/10
    words, contexts = np.array([[2.0, 4.0, 1.0, 9.0]]), np.array([[3.0, 1.0, -1.0, 1.0]])
    entry = np.array([0]), np.array([0]), np.array([5.0]), np.array([0.5])
    assert kernels.sweep_in_numpy(*entry, words, contexts, 0.1) == pytest.approx(0.25)  # ½ · ½ · (6 + 1 - 1 - 5)²
    step = 0.05  # rate · weight · error
    assert words[0] == pytest.approx([2 - 3 * step / 2, 4 + (3 * step) ** 2, 1 - step / 3, 9 + step**2])
    assert contexts[0] == pytest.approx([3 - 2 * step, 1 + (2 * step) ** 2, -1 - step, 1 + step**2])


def test_the_step_is_the_gradient_of_the_loss():
    words, contexts = tables(1, 3)
    entry = entries(1, 1)
    for side in range(2):
        for place in (0, 1, 2, 6):  # the vector, the bias
            here = [words.copy(), contexts.copy()]
            losses = []
            for nudge in (1e-6, -1e-6):
                here[side][0, place] = (words, contexts)[side][0, place] + nudge
                losses.append(kernels.losses_in_numpy(*entry, *here))
            slope = (losses[0] - losses[1]) / 2e-6
            moved = [words.copy(), contexts.copy()]
            kernels.sweep_in_numpy(*entry, *moved, 1e-3)
            root = np.sqrt((words, contexts)[side][0, place + 3 if place < 3 else 7])
            change = (moved[side] - (words, contexts)[side])[0, place]
            assert change == pytest.approx(-1e-3 * slope / root, rel=1e-5)


@pytest.mark.parametrize("width", [1, 7, 8, 100])
def test_compiled_loops_do_what_numpy_does(width: int):
    exact, single = tables(5, width), tables(5, width, kind=np.float32)
    for table in exact + single:
        table[:, :width] /= np.sqrt(width)
    given, narrow = entries(5, 400), entries(5, 400, kind=np.float32)
    before = kernels.losses_in_numpy(*given, *exact)
    assert kernels.losses(*narrow, *single) == pytest.approx(before, rel=1e-5)
    told = kernels.sweep_in_numpy(*given, *exact, 0.05)
    assert kernels.sweep(*narrow, *single, 0.05) == pytest.approx(told, rel=1e-4)
    for mine, right in zip(single, exact, strict=True):
        assert np.allclose(mine, right, atol=2e-4, rtol=2e-4)
    assert kernels.losses_in_numpy(*given, *exact) < 0.5 * before


def test_loops_do_what_numpy_does():
    one, other = tables(3, 4), tables(3, 4)
    given = entries(3, 50)
    assert kernels.sweep_in_loops(*given, *one, 0.05) == pytest.approx(kernels.sweep_in_numpy(*given, *other, 0.05))
    assert np.allclose(one, other, rtol=1e-6)
    assert kernels.losses_in_loops(*given, *one) == pytest.approx(kernels.losses_in_numpy(*given, *other))
