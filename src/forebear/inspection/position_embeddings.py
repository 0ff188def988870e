"""Analysis of position embeddings: cosine by distance, and whether a shift is a linear map.

For sinusoids a shift is a linear map that does not depend on the position: each pair of dimensions rotates by its own
angle. For learned embeddings a linear map is fitted by least squares on some positions and tested on others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import InputError
from forebear.numerics import unit_rows
from forebear.reports.plotting import ACCENT, BLUE, SOFT, figure_bytes, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forebear.inference.run import Run

SHIFT_STEPS = (1, 2, 4, 8, 16, 32, 64)
MIN_POSITIONS = 8
TEST_INTERVAL = 4  # every n-th position is held out from the fit
RIDGE_PENALTIES = 10.0 ** np.arange(-14, 3)  # ridge penalties, relative to the largest squared singular value


@dataclass(frozen=True)
class PositionShift:
    """A shift by `step` positions as a linear map.

    rotation_error  maximum error of the exact rotation; None for learned embeddings
    map_error       fraction of the variance at held-out positions that the best linear map does not explain
    sinusoid_error  the same for sinusoids of this size
    noise_error     the same for random numbers
    """

    step: int
    rotation_error: float | None
    map_error: float
    sinusoid_error: float
    noise_error: float

    def to_dict(self) -> dict[str, Any]:
        errors = {"missed": self.map_error, "missed_by_sinusoid": self.sinusoid_error}
        errors["missed_by_noise"] = self.noise_error
        data: dict[str, Any] = {"step": self.step, "rotation_error": self.rotation_error}
        return data | {name: float(f"{error:.4g}") for name, error in errors.items()}


@dataclass(frozen=True, eq=False)
class PositionTable:
    """Position embeddings (n, width), learned or sinusoid, and the shifts that were measured."""

    name: str
    kind: str
    table: np.ndarray
    steps: tuple[PositionShift, ...]

    @property
    def cosines(self) -> np.ndarray:
        """(n, n) cosines of all pairs of positions."""
        unit_vectors = unit_rows(self.table)
        return unit_vectors @ unit_vectors.T

    @property
    def by_distance(self) -> np.ndarray:
        """(n,) mean cosine by distance."""
        cosines = self.cosines
        return np.array([np.diagonal(cosines, distance).mean() for distance in range(len(cosines))])

    def to_dict(self) -> dict[str, Any]:
        num_positions, width = self.table.shape
        data: dict[str, Any] = {"name": self.name, "placing": self.kind, "positions": num_positions, "width": width}
        data["cosine_by_distance"] = [round(float(cosine), 6) for cosine in self.by_distance]
        return data | {"steps": [step.to_dict() for step in self.steps]}


def position_table(run: Run | None = None, *, width: int | None = None, count: int | None = None) -> PositionTable:
    """The position embeddings of a run, limited to `count` positions; without a run, sinusoids of this `width`."""
    from forebear.nn.embedding import InputEmbedding, sinusoid_table

    if run is None:
        width, name, kind = 128 if width is None else width, "sinusoid", "sinusoid"
        if width < 2 or width % 2:
            raise InputError(f"--width is {width}", hint="give an even number: sines and cosines come in pairs")
        table = sinusoid_table(_validate_count(64 if count is None else count), width).double().numpy()
    else:
        if width is not None:
            raise InputError("--width is the run's own", hint="leave it away, or leave the run away")
        embedding = None if run.encoder is None else run.encoder.embedding
        if not isinstance(embedding, InputEmbedding) or embedding.placing == "none":
            hint = "look at a Transformer (gpt2, bert, …)"
            raise InputError("has no table of positions", file=run.folder.path, hint=hint)
        table, name, kind = embedding.position.weight.detach().double().cpu().numpy(), run.name, embedding.placing
        if count is not None and count > len(table):
            message = f"the run has {len(table):,} positions, fewer than {count:,}"
            raise InputError(message, hint=f"give at most {len(table):,}")
        table = table[: _validate_count(len(table) if count is None else count)]
    steps = [step for step in SHIFT_STEPS if step <= len(table) // 2]  # enough positions to fit and test a map
    return PositionTable(name, kind, table, tuple(_measure_shift(table, kind, step) for step in steps))


def _validate_count(count: int) -> int:
    if count < MIN_POSITIONS:
        raise InputError(f"--positions is {count}", hint=f"give at least {MIN_POSITIONS}")
    return count


def rotation_matrix(width: int, step: int) -> np.ndarray:
    """(D, D) exact map from the sinusoid at any position to that `step` positions later.

    sin(a + b) = sin a · cos b + cos a · sin b, and cos(a + b) = cos a · cos b - sin a · sin b, for each pair.
    """
    from forebear.nn.embedding import MAX_PERIOD

    matrix = np.zeros((width, width))
    for dimension in range(0, width, 2):
        angle = step / MAX_PERIOD ** (dimension / width)
        pair = slice(dimension, dimension + 2)
        matrix[pair, pair] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return matrix


def _measure_shift(table: np.ndarray, kind: str, step: int) -> PositionShift:
    from forebear.nn.embedding import sinusoid_table

    num_positions, width = table.shape
    even_width, rotation_error = width // 2 * 2, None  # for odd widths the last sine has no cosine
    if kind == "sinusoid":
        sinusoid = table if width == even_width else sinusoid_table(num_positions, even_width).double().numpy()
        rotation_error = float(np.abs(sinusoid[step:] - sinusoid[:-step] @ rotation_matrix(even_width, step).T).max())
    noise_table = np.random.default_rng(0).normal(size=table.shape)
    tables = (table, sinusoid_table(num_positions, width).double().numpy(), noise_table)
    return PositionShift(step, rotation_error, *(linear_map_error(compared_table, step) for compared_table in tables))


def linear_map_error(table: np.ndarray, step: int) -> float:
    """Fraction of the variance at held-out positions that the best linear map of a shift does not explain.

    Every fourth position is held out: with fewer positions than dimensions some map always fits.
    """
    inputs, targets = table[:-step], table[step:]
    is_test = np.arange(len(inputs)) % TEST_INTERVAL == TEST_INTERVAL // 2
    residual = targets[is_test] - inputs[is_test] @ fit_linear_map(inputs[~is_test], targets[~is_test])
    deviation = targets[is_test] - targets.mean(0)
    return float((residual**2).sum() / max((deviation**2).sum(), 1e-300))


def fit_linear_map(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(D, D) ridge regression with the penalty of lowest leave-one-out error.

    Without a penalty, as many positions as dimensions would be fitted exactly, by a map that generalizes badly.
    """
    u, singular_values, vt = np.linalg.svd(inputs, full_matrices=False)
    projected = u.T @ targets
    unreachable, leverage_rest = targets - u @ projected, np.maximum(1 - (u**2).sum(1), 0.0)  # outside the column space
    lowest_error, gains = np.inf, np.zeros_like(singular_values)
    for penalty in singular_values[0] ** 2 * RIDGE_PENALTIES:
        shrinkage = penalty / (singular_values**2 + penalty)
        residual = unreachable + u @ (shrinkage[:, None] * projected)
        loo_residual = residual / (leverage_rest + u**2 @ shrinkage)[:, None]  # leave-one-out residual
        if (loo_residual**2).sum() < lowest_error:
            lowest_error, gains = (loo_residual**2).sum(), singular_values / (singular_values**2 + penalty)
    return vt.T @ (gains[:, None] * projected)


# --- Figure: embeddings, cosines of positions, and map errors ---


def plot_positions(positions: PositionTable, title: str, file_format: str) -> bytes:
    with plot_style([title]):
        figure = new_figure(10.5, 7.4)
        grid = figure.subplot_mosaic([["table", "cosines"], ["distance", "steps"]], height_ratios=(1.7, 1))
        color_limit = float(np.quantile(np.abs(positions.table), 0.995)) or 1.0
        limits: Any = {"vmin": -color_limit, "vmax": color_limit}
        table = grid["table"].imshow(positions.table, cmap="RdBu_r", aspect="auto", **limits)
        dimensions = "dimension (even: a sine, odd: its cosine)" if positions.kind == "sinusoid" else "dimension"
        grid["table"].set(xlabel=dimensions, ylabel="position", title="the table: each row is a position's vector")
        cosines = grid["cosines"].imshow(positions.cosines, cmap="RdBu_r", vmin=-1, vmax=1, aspect="equal")
        grid["cosines"].set(xlabel="position", ylabel="position", title="how alike two positions are (cosine)")
        for image, name in ((table, "table"), (cosines, "cosines")):
            figure.colorbar(image, ax=grid[name], pad=0.02, aspect=28).outline.set_visible(False)  # pyright: ignore[reportCallIssue]
        grid["distance"].axhline(0, color=SOFT, lw=0.6)
        grid["distance"].plot(positions.by_distance, color=BLUE)
        grid["distance"].set(xlabel="positions apart", ylabel="mean cosine", ylim=(None, 1.05))
        grid["distance"].set_title("how alike, by distance")
        _plot_shifts(grid["steps"], positions)
        for name in ("distance", "steps"):
            grid[name].spines[["top", "right"]].set_visible(False)
        figure.suptitle(title, fontsize=11)
        return figure_bytes(figure, file_format)


def _plot_shifts(axes: Axes, positions: PositionTable) -> None:
    """Error of the best map by step; for sinusoids also of the exact rotation."""
    steps = range(len(positions.steps))
    curves = {"a sinusoid": ("sinusoid_error", SOFT, "--"), "random numbers": ("noise_error", SOFT, ":")}
    if positions.kind != "sinusoid":
        curves = {"this table": ("map_error", BLUE, "-"), **curves}
    for name, (field, color, style) in curves.items():
        values = [100 * getattr(step, field) for step in positions.steps]
        axes.plot(steps, values, color=color, ls=style, marker="o", ms=3, label=name)
    rotation_errors = [step.rotation_error for step in positions.steps if step.rotation_error is not None]
    if rotation_errors:
        note = "a sinusoid's map is a rotation that is known\nbeforehand: its largest error is "
        note += f"{max(rotation_errors):.0e}"
        axes.text(0.5, 0.3, note, transform=axes.transAxes, ha="center", va="center", color=ACCENT, fontsize=9)
    axes.set(xlabel="so many positions further", ylabel="variance missed (%)", ylim=(-4, None))
    axes.set_title("is a step the same linear map everywhere? what the best one misses")
    axes.set_xticks(steps, [str(step.step) for step in positions.steps])
    axes.legend(frameon=False, fontsize=8, loc="center", bbox_to_anchor=(0.5, 0.68), ncols=len(curves))
