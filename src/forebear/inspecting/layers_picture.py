"""Mixtures of layers as a picture: a panel for each, a bar for each layer, all to one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebear.inspecting.drawing import ACCENT, INK, SOFT, drawing, new_figure, saved, short
from forebear.inspecting.layer_weights import LayerWeights, layer_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#1c4f9c"
BESIDE = 4  # panels side by side


def picture(found: Sequence[LayerWeights], form: str) -> bytes:
    titles = [short(f"{one.run}: {one.task or one.place}", 40) for one in found]
    with drawing([*titles, *(one.place for one in found), "γ"]):
        columns = min(BESIDE, len(found))
        rows, deepest = math.ceil(len(found) / columns), max(len(one.weights) for one in found)
        figure = new_figure(3.3 * columns + 0.6, rows * (0.3 * deepest + 1.15) + 0.5)
        figure.set_layout_engine("constrained", wspace=0.06, hspace=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(found) :]:
            axes.set_visible(False)
        most = max(weight for one in found for weight in one.weights)
        for number, (axes, one, title) in enumerate(zip(grid, found, titles, strict=False)):
            _bars(axes, one, title, most, first=number % columns == 0)
        figure.suptitle("which layers a task reads (dashed: all alike)", fontsize=11)
        return saved(figure, form)


def _bars(axes: Axes, one: LayerWeights, title: str, most: float, *, first: bool) -> None:
    """The last layer stands on top, as layers do."""
    places = range(len(one.weights))
    axes.barh(places, one.weights, color=BLUE, height=0.66)
    axes.axvline(one.even, color=ACCENT, lw=1, ls="--")
    axes.set_yticks(places, layer_names(one) if first else [str(layer) for layer in places])
    for place, weight in zip(places, one.weights, strict=True):
        inside = weight > most / 3
        colour, side = ("white", "right") if inside else (INK, "left")
        axes.text(weight, place, f" {weight:.3f} ", va="center", ha=side, color=colour, fontsize=8)
    axes.set_xlim(0, most * 1.06)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(f"{one.place}, γ {one.gain:.2f}", fontsize=8)
    axes.set_title(title, fontsize=10, loc="left", fontweight="bold")
    axes.tick_params(length=0, labelsize=8)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(SOFT)
