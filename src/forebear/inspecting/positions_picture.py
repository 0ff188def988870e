"""Positions as a picture: the table, how alike positions are, and what is left of that by distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forebear.inspecting.drawing import ACCENT, SOFT, drawing, new_figure, saved
from forebear.inspecting.positions import Positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def picture(of: Positions, title: str, form: str) -> bytes:
    with drawing([title]):
        figure = new_figure(10.5, 7.4)
        grid = figure.subplot_mosaic([["table", "cosines"], ["distance", "steps"]], height_ratios=(1.7, 1))
        most = float(np.quantile(np.abs(of.table), 0.995)) or 1.0
        table = grid["table"].imshow(of.table, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        dimensions = "dimension (even: a sine, odd: its cosine)" if of.placing == "sinusoid" else "dimension"
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
        return saved(figure, form)


def _steps(axes: Axes, of: Positions) -> None:
    """What the best map of each step misses; of the sinusoid also how well the one that is known beforehand does."""
    steps = range(len(of.steps))
    lines = {"a sinusoid": ("waves", SOFT, "--"), "random numbers": ("noise", SOFT, ":")}
    if of.placing != "sinusoid":
        lines = {"this table": ("missed", "#1c4f9c", "-"), **lines}
    for name, (field, colour, style) in lines.items():
        values = [100 * getattr(step, field) for step in of.steps]
        axes.plot(steps, values, color=colour, ls=style, marker="o", ms=3, label=name)
    turned = [step.turned for step in of.steps if step.turned is not None]
    if turned:
        told = f"a sinusoid's map is a rotation that is known\nbeforehand: its largest error is {max(turned):.0e}"
        axes.text(0.5, 0.3, told, transform=axes.transAxes, ha="center", va="center", color=ACCENT, fontsize=9)
    axes.set(xlabel="so many positions further", ylabel="variance missed (%)", ylim=(-4, None))
    axes.set_title("is a step the same linear map everywhere? what the best one misses")
    axes.set_xticks(steps, [str(step.step) for step in of.steps])
    axes.legend(frameon=False, fontsize=8, loc="center", bbox_to_anchor=(0.5, 0.68), ncols=len(lines))
