"""The strongest edges of attention as lines between tokens: a picture of a long text that is not too large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from forebear.inspecting.drawing import LARGEST, SOFT, new_figure, short
from forebear.inspecting.labels import notes_on
from forebear.inspecting.views import Edge, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lines_of(view: View, title: str, edges: Sequence[Edge]) -> Figure:
    """Tokens that take part, those that look on the left, those that are looked at on the right.

    Where both are the same tokens, each stands at the same height on both sides: a slope is a distance.
    """
    of = view.map
    left, right = sorted({edge.row for edge in edges}), sorted({edge.column for edge in edges})
    sides = (left, right) if of.kind == "cross" else (sorted({*left, *right}),) * 2
    places = [_places(numbers) for numbers in sides]
    lowest = max([*places[0].values(), *places[1].values()], default=1.0)
    figure = new_figure(7.5, min(0.2 * lowest + 2.2, LARGEST))
    axes = figure.add_subplot()
    layers = sorted({edge.panel.layer for edge in edges})
    colours = dict(zip(layers, _colours(len(layers)), strict=True))
    most = max((edge.weight for edge in edges), default=1.0)
    for edge, aside in zip(reversed(edges), _asides(edges[::-1]), strict=True):
        share = edge.weight / most
        how = {"color": colours[edge.panel.layer], "lw": _width(share), "alpha": 0.25 + 0.65 * share}
        ends = (places[0][edge.row] + aside, places[1][edge.column] + aside)
        axes.plot((0, 1), ends, solid_capstyle="round", **how)
    for side, numbers, tokens in ((-1, left, of.rows), (1, right, of.columns)):
        edge_of, align = max(side, 0), "left" if side > 0 else "right"
        for number in numbers:
            at = places[edge_of][number]
            axes.text(edge_of + side * 0.02, at, str(number + 1), ha=align, va="center", fontsize=6, color=SOFT)
            axes.text(edge_of + side * 0.1, at, short(tokens[number], 18), ha=align, va="center", fontsize=8.5)
        axes.text(edge_of + side * 0.1, -1.4, view.sides[edge_of], ha=align, va="center", color=SOFT)
    axes.set(xlim=(-0.55, 1.55), ylim=(lowest + 0.7, -2))
    axes.set_axis_off()
    tokens = f"{len(of.rows)} tokens" if of.kind != "cross" else f"{len(of.rows)} and {len(of.columns)} tokens"
    figure.suptitle(f"{title}\n{of.name}, {view.about}: the {len(edges)} strongest edges of {tokens}", fontsize=11)
    _key(figure, colours, most)
    if notes := notes_on([of.rows[n] for n in left] + [of.columns[n] for n in right]):
        axes.text(0.5, lowest + 1.2, "; ".join(notes), ha="center", va="center", fontsize=7.5, color=SOFT)
        axes.set_ylim(lowest + 1.6, -2)
    return figure


def _asides(edges: Sequence[Edge]) -> list[float]:
    """How far each is drawn beside its place: the same edge of several heads would hide all but one."""
    ends = [(edge.row, edge.column) for edge in edges]
    alike, met = Counter(ends), Counter[tuple[int, int]]()
    made = []
    for one in ends:
        apart = min(0.13, 0.6 / alike[one])
        made.append(apart * (met[one] - (alike[one] - 1) / 2))
        met[one] += 1
    return made


def _width(share: float) -> float:
    return 0.4 + 2.2 * share


def _places(numbers: Sequence[int]) -> dict[int, float]:
    """Where tokens stand, one below the other; a gap is left where some were left out."""
    places: dict[int, float] = {}
    at = before = -1
    for number in numbers:
        at += 1.0 if number == before + 1 or not places else 1.5
        places[number], before = at, number
    return places


def _colours(count: int) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if count == 1:
        return ["#1c4f9c"]
    return [to_hex(colormaps["viridis"](0.88 * number / (count - 1))) for number in range(count)]


def _key(figure: Figure, colours: Mapping[int, str], most: float) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=SOFT, lw=_width(share), label=f"weight {share * most:.2f}") for share in (1, 0.5)]
    layers = list(colours)
    some = sorted({round(at) for at in np.linspace(0, len(layers) - 1, min(len(layers), 8))}) if len(layers) > 1 else []
    handles += [Line2D([], [], color=colours[layers[n]], lw=2, label=f"layer {layers[n]}") for n in some]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False, fontsize=8)
