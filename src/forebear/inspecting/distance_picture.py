"""Gradients by distance as a picture: a line for each run, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forebear.inspecting.distance import Reach
from forebear.inspecting.drawing import FAINT, SOFT, drawing, new_figure, saved, short
from forebear.inspecting.words_picture import GROUPS

HIGH, LETTERS = 300, 11  # points: about what the lines take, and what a name does
LOWEST = 1e-12  # what is smaller is not drawn: a line that falls so far has vanished


def picture(found: Sequence[Reach], form: str) -> bytes:
    names = [short(one.name, 30) for one in found]
    with drawing([*names, *(one.verdict for one in found)]):
        figure = new_figure(10.5, 5.9)
        axes = figure.subplots()
        lines = [_drawn(one) for one in found]
        for number, ((at, shares), one, name) in enumerate(zip(lines, found, names, strict=True)):
            how: Any = {"color": GROUPS[number % len(GROUPS)], "lw": 2, "marker": "o", "ms": 2.6, "zorder": 3}
            axes.plot(at, shares, label=f"{name} {one.verdict}", **how)
        for number, shift in enumerate(_shifts([float(shares[-1]) for _, shares in lines])):
            (at, shares), colour = lines[number], GROUPS[number % len(GROUPS)]
            told = f" {names[number]}" + (" ends here" if found[number].is_cut else "")
            place: Any = {"textcoords": "offset points", "va": "center", "color": colour}
            axes.annotate(told, (float(at[-1]), float(shares[-1])), (4, shift), **place)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:g}" if share >= 1e-4 else f"{share:.0e}")
        axes.set_xlim(-0.5, max(one.far for one in found) * 1.02)
        axes.set(xlabel="tokens back", ylabel="size of the gradient, of that at the token itself")
        axes.grid(color=FAINT, lw=0.5)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, which="both", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(0, -0.11), labelcolor=SOFT)
        figure.suptitle("how much a state depends on the token so far back", fontsize=12)
        return saved(figure, form)


def _drawn(one: Reach) -> tuple[np.ndarray, np.ndarray]:
    """Distances and shares, as far as a line goes without a gap."""
    at = np.flatnonzero(one.relative > LOWEST)
    at = at[at == np.arange(len(at))]
    return at, one.relative[at]


def _shifts(ends: Sequence[float]) -> list[float]:
    """How many points the name at each line's end is moved down, so that none lies on another."""
    lowest, highest = math.log10(min(ends)), 0.0
    points = {
        number: (math.log10(end) - lowest) / max(highest - lowest, 1e-9) * HIGH for number, end in enumerate(ends)
    }
    moved, above = dict(points), math.inf
    for number in sorted(points, key=lambda number: -points[number]):
        above = moved[number] = min(points[number], above - LETTERS)
    return [moved[number] - points[number] for number in range(len(ends))]
