"""Positions: a step of the sinusoid is a rotation; of a learned table the best linear map is found and tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import InputError
from forebear.inspection import position_embeddings
from forebear.inspection.position_embeddings import fit_linear_map, linear_map_error, position_table, rotation_matrix
from forebear.reports.plotting import figure_bytes
from small_runs import opened


@given(st.integers(1, 40).map(lambda half: 2 * half), st.integers(1, 90), st.integers(0, 400))
def test_a_rotation_leads_from_any_position_to_that_so_far_on(width: int, step: int, place: int):
    def waves(p: int) -> np.ndarray:
        angles = p / 10_000 ** (np.arange(0, width, 2) / width)
        return np.stack((np.sin(angles), np.cos(angles)), 1).ravel()

    turn = rotation_matrix(width, step)
    np.testing.assert_allclose(turn @ waves(place), waves(place + step), atol=1e-10)
    np.testing.assert_allclose(turn @ turn.T, np.eye(width), atol=1e-12)


def test_the_sinusoid_turns_and_random_numbers_do_not():
    found = position_table(width=32, count=50)
    assert (found.kind, found.table.shape) == ("sinusoid", (50, 32))
    assert [step.step for step in found.steps] == [1, 2, 4, 8, 16]
    assert all(step.rotation_error is not None and step.rotation_error < 1e-6 for step in found.steps)
    assert all(step.map_error < 1e-6 for step in found.steps)
    assert all(step.noise_error > 0.9 for step in found.steps)
    assert found.table[0].tolist() == [0.0, 1.0] * 16
    np.testing.assert_allclose(np.diagonal(found.cosines), 1, atol=1e-9)
    assert found.by_distance[1] == pytest.approx(found.cosines[3, 4])  # the same wherever it is


def test_the_best_map_is_that_of_ridge_regression_and_is_found_where_it_exists():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    table = [rng.normal(size=6)]
    for _ in range(39):
        table.append(turn @ table[-1])
    table = np.array(table)
    assert linear_map_error(table, 1) < 1e-12
    np.testing.assert_allclose(fit_linear_map(table[:-1], table[1:]).T, turn, atol=1e-6)
    noisy = table + 0.3 * rng.normal(size=table.shape)
    linear_model = pytest.importorskip("sklearn.linear_model")
    here, there = noisy[:-1], noisy[1:]
    penalties = np.linalg.norm(here, 2) ** 2 * 10.0 ** np.arange(-14, 3)
    theirs = linear_model.RidgeCV(penalties, fit_intercept=False).fit(here, there)  # leaves out each in turn, too
    np.testing.assert_allclose(fit_linear_map(here, there).T, theirs.coef_, atol=1e-8)


def test_a_learned_table_is_the_runs_own(tmp_path: Path):
    run = opened("gpt2", tmp_path, steps=2)
    found = position_table(run)
    assert (found.kind, found.name) == ("learned", run.name)
    np.testing.assert_array_equal(found.table, run.network.encoder.embedding.position.weight.detach().double().numpy())
    assert all(step.rotation_error is None for step in found.steps)
    assert position_table(run, count=9).table.shape == (9, 32)
    for how, what in (({"count": 17}, "16 positions"), ({"width": 8}, "run's own"), ({"count": 2}, "is 2")):
        with pytest.raises(InputError, match=what):
            position_table(run, **how)
    with pytest.raises(InputError, match="no table of positions"):
        position_table(opened("ngram", tmp_path, to="counted"))
    with pytest.raises(InputError, match="even number"):
        position_table(width=7)


@pytest.mark.parametrize("learned", [False, True])
def test_nothing_in_the_picture_lies_on_something_else(learned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(
        position_embeddings, "figure_bytes", lambda figure, form: figures.append(figure) or figure_bytes(figure, form)
    )
    found = position_table(opened("gpt2", tmp_path, steps=2)) if learned else position_table()
    position_embeddings.plot_positions(found, "positions", "png")
    (figure,) = figures
    steps = next(axes for axes in figure.axes if "linear map" in axes.get_title())
    legend, notes = steps.get_legend().get_window_extent(), [note.get_window_extent() for note in steps.texts]
    assert len(notes) == (0 if learned else 1)
    assert not any(legend.overlaps(note) for note in notes)
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert not any(one.overlaps(other) for n, one in enumerate(titles) for other in titles[:n])
    square = next(axes for axes in figure.axes if "cosine" in axes.get_title()).get_window_extent()
    assert square.width == pytest.approx(square.height, rel=0.01)
