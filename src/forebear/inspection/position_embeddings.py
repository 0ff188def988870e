"""What a network knows of places in a row: its table of positions, how alike they are, and what a step further is.

A step in the sinusoid of the Transformer is a linear map that does not depend on the place: each pair of dimensions,
sine and cosine of one angle, turns by an angle of its own. Whether a learned table has such a map is measured: the best
one by least squares is found on some positions, and tried on others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import InputError
from forebear.reports.plotting import ACCENT, SOFT, figure_bytes, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forebear.inference.run import Run

STEPS = (1, 2, 4, 8, 16, 32, 64)
LEAST = 8  # positions of which anything can be said
APART = 4  # every so many positions one is not shown to the least squares, and examines them
PENALTIES = 10.0 ** np.arange(-14, 3)  # on a map's size, by the square of the table's longest direction


@dataclass(frozen=True)
class PositionShift:
    """So many positions further, as a linear map.

    turned   the largest error of the map that is known beforehand; None where none is: of a learned table
    missed   of the best map by least squares, what share of the variance it misses at positions it was not fitted to
    waves    the same of a sinusoid of this size
    noise    the same of random numbers
    """

    step: int
    rotation_error: float | None
    map_error: float
    sinusoid_error: float
    noise_error: float

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"step": self.step, "rotation_error": self.rotation_error}
        shares = {
            "missed": self.map_error,
            "missed_by_sinusoid": self.sinusoid_error,
            "missed_by_noise": self.noise_error,
        }
        return told | {name: float(f"{share:.4g}") for name, share in shares.items()}


@dataclass(frozen=True, eq=False)
class PositionTable:
    """A table of positions (n, width), learned or sinusoid."""

    name: str
    kind: str
    table: np.ndarray
    steps: tuple[PositionShift, ...]

    @property
    def cosines(self) -> np.ndarray:
        """(n, n) between all positions."""
        lengths = np.maximum(np.linalg.norm(self.table, axis=1, keepdims=True), 1e-12)
        return (self.table / lengths) @ (self.table / lengths).T

    @property
    def by_distance(self) -> np.ndarray:
        """(n,) the mean cosine of positions so far apart."""
        cosines = self.cosines
        return np.array([np.diagonal(cosines, far).mean() for far in range(len(cosines))])

    def to_dict(self) -> dict[str, Any]:
        positions, width = self.table.shape
        told: dict[str, Any] = {"name": self.name, "placing": self.kind, "positions": positions, "width": width}
        told["cosine_by_distance"] = [round(float(one), 6) for one in self.by_distance]
        return told | {"steps": [step.to_dict() for step in self.steps]}


def position_table(run: Run | None = None, *, width: int | None = None, count: int | None = None) -> PositionTable:
    """Those of a run, as many as `count` or all; or, without a run, a sinusoid so wide."""
    from forebear.nn.embedding import sinusoid_table

    if run is None:
        wide, long = 128 if width is None else width, 64 if count is None else count
        if wide < 2 or wide % 2:
            raise InputError(f"--width is {wide}", hint="give an even number: sines and cosines come in pairs")
        table, name, placing = sinusoid_table(_enough(long), wide).double().numpy(), "sinusoid", "sinusoid"
    else:
        if width is not None:
            raise InputError("--width is the run's own", hint="leave it away, or leave the run away")
        table, placing = _table(run)
        name = run.name
        if count is not None and count > len(table):
            what = f"the run has {len(table):,} positions, fewer than {count:,}"
            raise InputError(what, hint=f"give at most {len(table):,}")
        table = table[: _enough(len(table) if count is None else count)]
    steps = [step for step in STEPS if step <= len(table) // 2]  # enough are left to fit a map to, and to try it
    return PositionTable(name, placing, table, tuple(_step(table, placing, step) for step in steps))


def _enough(count: int) -> int:
    if count < LEAST:
        raise InputError(f"--positions is {count}", hint=f"give at least {LEAST}")
    return count


def _table(run: Run) -> tuple[np.ndarray, str]:
    from forebear.nn.embedding import InputEmbedding

    embedding = None if run.encoder is None else run.encoder.embedding
    if not isinstance(embedding, InputEmbedding) or embedding.placing == "none":
        raise InputError(
            "has no table of positions", file=run.folder.path, hint="look at a Transformer (gpt2, bert, …)"
        )
    return embedding.position.weight.detach().double().cpu().numpy(), embedding.placing


def rotation(width: int, step: int) -> np.ndarray:
    """(D, D) the map from the sinusoid at any position to that `step` positions further, known beforehand.

    sin(a + b) = sin a · cos b + cos a · sin b, and cos(a + b) = cos a · cos b - sin a · sin b, for each pair.
    """
    from forebear.nn.embedding import MAX_PERIOD

    made = np.zeros((width, width))
    for even in range(0, width, 2):
        turn = step / MAX_PERIOD ** (even / width)
        pair = slice(even, even + 2)
        made[pair, pair] = [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    return made


def _step(table: np.ndarray, placing: str, step: int) -> PositionShift:
    from forebear.nn.embedding import sinusoid_table

    paired = table.shape[1] // 2 * 2  # where the width is odd, the last sine has no cosine
    turned = None
    if placing == "sinusoid":
        waves = table[:, :paired] if paired == table.shape[1] else sinusoid_table(len(table), paired).double().numpy()
        turned = float(np.abs(waves[step:] - waves[:-step] @ rotation(paired, step).T).max())
    same = sinusoid_table(*table.shape).double().numpy()
    noise = np.random.default_rng(0).normal(size=table.shape)
    return PositionShift(
        step, turned, missed_by_best(table, step), missed_by_best(same, step), missed_by_best(noise, step)
    )


def missed_by_best(table: np.ndarray, step: int) -> float:
    """The share of variance that the best linear map of a step misses at positions that it was not fitted to.

    Every fourth position is kept from the fit: where there are fewer positions than dimensions, some map always fits.
    """
    here, there = table[:-step], table[step:]
    asked = np.arange(len(here)) % APART == APART // 2
    missed = there[asked] - here[asked] @ best_map(here[~asked], there[~asked])
    spread = there[asked] - there.mean(0)
    return float((missed**2).sum() / max((spread**2).sum(), 1e-300))


def best_map(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """(D, D) by least squares with as much of a penalty as serves best where each position in turn is left out.

    Without a penalty as many positions as dimensions would be fitted exactly, by a map that is wild elsewhere.
    """
    turned, lengths, back = np.linalg.svd(here, full_matrices=False)
    aims = turned.T @ there
    beyond, free = there - turned @ aims, np.maximum(1 - (turned**2).sum(1), 0.0)  # what no map could say
    best, chosen = np.inf, np.zeros_like(lengths)
    for penalty in lengths[0] ** 2 * PENALTIES:
        lost = penalty / (lengths**2 + penalty)
        left = beyond + turned @ (lost[:, None] * aims)
        outside = left / (free + turned**2 @ lost)[:, None]  # what is missed of a position when it is left out
        if (outside**2).sum() < best:
            best, chosen = (outside**2).sum(), lengths / (lengths**2 + penalty)
    return back.T @ (chosen[:, None] * aims)


# Positions as a picture: the table, how alike positions are, and what is left of that by distance.


def plot_positions(of: PositionTable, title: str, form: str) -> bytes:
    with plot_style([title]):
        figure = new_figure(10.5, 7.4)
        grid = figure.subplot_mosaic([["table", "cosines"], ["distance", "steps"]], height_ratios=(1.7, 1))
        most = float(np.quantile(np.abs(of.table), 0.995)) or 1.0
        table = grid["table"].imshow(of.table, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        dimensions = "dimension (even: a sine, odd: its cosine)" if of.kind == "sinusoid" else "dimension"
        grid["table"].set(xlabel=dimensions, ylabel="position", title="the table: each row is a position's vector")
        cosines = grid["cosines"].imshow(of.cosines, cmap="RdBu_r", vmin=-1, vmax=1, aspect="equal")
        grid["cosines"].set(xlabel="position", ylabel="position", title="how alike two positions are (cosine)")
        for image, name in ((table, "table"), (cosines, "cosines")):
            figure.colorbar(image, ax=grid[name], pad=0.02, aspect=28).outline.set_visible(False)  # pyright: ignore[reportCallIssue]
        grid["distance"].axhline(0, color=SOFT, lw=0.6)
        grid["distance"].plot(of.by_distance, color="#1c4f9c")
        grid["distance"].set(
            xlabel="positions apart", ylabel="mean cosine", title="how alike, by distance", ylim=(None, 1.05)
        )
        _steps(grid["steps"], of)
        for name in ("distance", "steps"):
            grid[name].spines[["top", "right"]].set_visible(False)
        figure.suptitle(title, fontsize=11)
        return figure_bytes(figure, form)


def _steps(axes: Axes, of: PositionTable) -> None:
    """What the best map of each step misses; of the sinusoid also how well the one that is known beforehand does."""
    steps = range(len(of.steps))
    lines = {"a sinusoid": ("sinusoid_error", SOFT, "--"), "random numbers": ("noise_error", SOFT, ":")}
    if of.kind != "sinusoid":
        lines = {"this table": ("map_error", "#1c4f9c", "-"), **lines}
    for name, (field, colour, style) in lines.items():
        values = [100 * getattr(step, field) for step in of.steps]
        axes.plot(steps, values, color=colour, ls=style, marker="o", ms=3, label=name)
    turned = [step.rotation_error for step in of.steps if step.rotation_error is not None]
    if turned:
        told = f"a sinusoid's map is a rotation that is known\nbeforehand: its largest error is {max(turned):.0e}"
        axes.text(0.5, 0.3, told, transform=axes.transAxes, ha="center", va="center", color=ACCENT, fontsize=9)
    axes.set(xlabel="so many positions further", ylabel="variance missed (%)", ylim=(-4, None))
    axes.set_title("is a step the same linear map everywhere? what the best one misses")
    axes.set_xticks(steps, [str(step.step) for step in of.steps])
    axes.legend(frameon=False, fontsize=8, loc="center", bbox_to_anchor=(0.5, 0.68), ncols=len(lines))
