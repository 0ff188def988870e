"""Position embeddings: a step of the sinusoid is a rotation, and learned tables are fitted by a linear map."""

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
from small_runs import open_small_run


@given(st.integers(1, 40).map(lambda half: 2 * half), st.integers(1, 90), st.integers(0, 400))
def test_rotation_matrix_maps_a_sinusoidal_position_to_a_later_one(width: int, step: int, position: int):
    def sinusoid(p: int) -> np.ndarray:
        angles = p / 10_000 ** (np.arange(0, width, 2) / width)
        return np.stack((np.sin(angles), np.cos(angles)), 1).ravel()

    rotation = rotation_matrix(width, step)
    np.testing.assert_allclose(rotation @ sinusoid(position), sinusoid(position + step), atol=1e-10)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(width), atol=1e-12)


def test_sinusoidal_positions_are_rotations_and_noise_is_not():
    positions = position_table(width=32, count=50)
    assert (positions.kind, positions.table.shape) == ("sinusoid", (50, 32))
    assert [step.step for step in positions.steps] == [1, 2, 4, 8, 16]
    assert all(step.rotation_error is not None and step.rotation_error < 1e-6 for step in positions.steps)
    assert all(step.map_error < 1e-6 for step in positions.steps)
    assert all(step.noise_error > 0.9 for step in positions.steps)
    assert positions.table[0].tolist() == [0.0, 1.0] * 16
    np.testing.assert_allclose(np.diagonal(positions.cosines), 1, atol=1e-9)
    assert positions.by_distance[1] == pytest.approx(positions.cosines[3, 4])  # the same at every position


def test_linear_map_between_positions_equals_ridge_regression():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    table = [rng.normal(size=6)]
    for _ in range(39):
        table.append(rotation @ table[-1])
    table = np.array(table)
    assert linear_map_error(table, 1) < 1e-12
    np.testing.assert_allclose(fit_linear_map(table[:-1], table[1:]).T, rotation, atol=1e-6)
    noisy = table + 0.3 * rng.normal(size=table.shape)
    linear_model = pytest.importorskip("sklearn.linear_model")
    positions, next_positions = noisy[:-1], noisy[1:]
    penalties = np.linalg.norm(positions, 2) ** 2 * 10.0 ** np.arange(-14, 3)
    ridge = linear_model.RidgeCV(penalties, fit_intercept=False).fit(positions, next_positions)  # also leave-one-out
    np.testing.assert_allclose(fit_linear_map(positions, next_positions).T, ridge.coef_, atol=1e-8)


def test_learned_position_table_is_that_of_the_run(tmp_path: Path):
    run = open_small_run("gpt2", tmp_path, steps=2)
    positions = position_table(run)
    assert (positions.kind, positions.name) == ("learned", run.name)
    np.testing.assert_array_equal(
        positions.table, run.network.encoder.embedding.position.weight.detach().double().numpy()
    )
    assert all(step.rotation_error is None for step in positions.steps)
    assert position_table(run, count=9).table.shape == (9, 32)
    for arguments, message in (({"count": 17}, "16 positions"), ({"width": 8}, "run's own"), ({"count": 2}, "is 2")):
        with pytest.raises(InputError, match=message):
            position_table(run, **arguments)
    with pytest.raises(InputError, match="no table of positions"):
        position_table(open_small_run("ngram", tmp_path, to="counted"))
    with pytest.raises(InputError, match="even number"):
        position_table(width=7)


@pytest.mark.parametrize("learned", [False, True])
def test_position_plot_elements_do_not_overlap(learned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(
        position_embeddings, "figure_bytes", lambda figure, form: figures.append(figure) or figure_bytes(figure, form)
    )
    positions = position_table(open_small_run("gpt2", tmp_path, steps=2)) if learned else position_table()
    position_embeddings.plot_positions(positions, "positions", "png")
    (figure,) = figures
    steps = next(axes for axes in figure.axes if "linear map" in axes.get_title())
    legend, notes = steps.get_legend().get_window_extent(), [note.get_window_extent() for note in steps.texts]
    assert len(notes) == (0 if learned else 1)
    assert not any(legend.overlaps(note) for note in notes)
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert not any(title.overlaps(earlier) for index, title in enumerate(titles) for earlier in titles[:index])
    cosine_axes = next(axes for axes in figure.axes if "cosine" in axes.get_title()).get_window_extent()
    assert cosine_axes.width == pytest.approx(cosine_axes.height, rel=0.01)
