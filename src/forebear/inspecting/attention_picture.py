"""Attention as a picture: one map with all its tokens, many small ones, or the strongest edges as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from forebear.inspecting.drawing import ACCENT, INK, SOFT, blues, drawing, empty, new_figure, saved, short
from forebear.inspecting.views import Edge, Panel, View
from forebear.text.characters import codes_of, is_han

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

NUMBERED = 14  # tokens: in a map of more there is no room for numbers
NAMED = 16  # tokens and panels: where there are more, small maps have no names at their sides
LARGEST = 16.0  # inches


def picture(view: View, title: str, form: str, top: int | None = None) -> bytes:
    """The bytes of a picture of this form; with `top` so many of the strongest edges as lines."""
    of = view.map
    with drawing([title, of.name, *of.rows, *of.columns]):
        if top is not None:
            figure = _lines(view, title, view.edges(top))
        elif len(view.panels) == 1:
            figure = _single(view, view.panels[0], title)
        else:
            figure = _grid(view, title)
        return saved(figure, form)


def _single(view: View, panel: Panel, title: str) -> Figure:
    rows, columns = panel.weights.shape
    cell = float(np.clip(8.0 / max(rows, columns), 0.2, 0.62))
    size = float(np.clip(cell * 72 * 0.42, 7, 11))
    longest = max(len(short(token)) for token in view.map.rows) * size / 100
    figure = new_figure(max(columns * cell + longest + 1.6, 4.6), max(rows * cell + longest + 1.1, 3.4))
    axes = figure.add_subplot()
    image = _heat(axes, view, panel, float(panel.weights.max()))
    _named(axes, view, size)
    axes.set_xlabel("… looks at", color=SOFT)
    axes.xaxis.set_label_position("top")
    axes.set_ylabel("each token …", color=SOFT)
    if max(rows, columns) <= NUMBERED:
        _numbers(axes, view, panel, size)
    figure.suptitle(f"{title}\n{view.map.name}, {panel.title}", fontsize=11)
    _legend(figure, view, image, axes)
    return figure


def _grid(view: View, title: str) -> Figure:
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.map.weights.shape[2:]
    named = max(rows, columns) <= NAMED and len(view.panels) <= NAMED
    side = min(max(1.9, 0.24 * max(rows, columns)) if named else 1.15, LARGEST / max(across, down))
    wide, high = (side * length / max(rows, columns) for length in (columns, rows))
    figure = new_figure(max(across * wide + 1.8, 5.5), down * (high + 0.22) + 1.4)
    grid = figure.subplots(down, across, squeeze=False)
    most = max(float(panel.weights.max()) for panel in view.panels)
    image = None
    for number, axes in enumerate(grid.flat):
        if number >= len(view.panels):
            axes.set_axis_off()
            continue
        panel = view.panels[number]
        image = _heat(axes, view, panel, most)
        axes.set_title(view.brief(panel), fontsize=8 if side > 0.9 else 6, pad=3)
        if named:
            _named(axes, view, 7, left=number % across == 0, top=False, bottom=number + across >= len(view.panels))
    figure.suptitle(f"{title}\n{view.map.name}: {view.about}", fontsize=11)
    assert image is not None
    _legend(figure, view, image, list(grid.flat), [] if named else [_sequence(view)])
    return figure


def _sequence(view: View) -> str:
    """The tokens in order, where there is no room to write them beside every map."""

    def line(tokens: tuple[str, ...]) -> str:
        told = "  ".join(tokens[:40]) + ("  …" if len(tokens) > 40 else "")
        parts, held = [], ""
        for word in told.split("  "):
            if len(held) + len(word) > 90:
                parts, held = [*parts, held], ""
            held += ("  " if held else "") + word
        return "\n".join([*parts, held])

    if view.map.kind == "cross":
        return f"down: {line(view.map.rows)}\nacross: {line(view.map.columns)}"
    return f"down and across: {line(view.map.rows)}"


def _heat(axes: Axes, view: View, panel: Panel, most: float) -> AxesImage:
    empty(axes)
    weights = np.ma.masked_array(panel.weights, ~view.map.seen)
    image = axes.imshow(weights, cmap=blues(), vmin=0, vmax=most, aspect="equal", interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    if view.map.kind != "cross":
        for border in view.map.borders:
            axes.axhline(border - 0.5, color=ACCENT, lw=1, ls=(0, (4, 2)))
            axes.axvline(border - 0.5, color=ACCENT, lw=1, ls=(0, (4, 2)))
    return image


def _named(axes: Axes, view: View, size: float, *, left: bool = True, top: bool = True, bottom: bool = False) -> None:
    """Tokens at the sides; those above or below lie on their sides, unless they are short or can be stacked."""
    rows, columns = ([short(token) for token in tokens] for tokens in (view.map.rows, view.map.columns))
    axes.tick_params(length=0, labelsize=size)
    if left:
        axes.set_yticks(range(len(rows)), rows)
    if top or bottom:
        stacked = ["\n".join(name) if _stacks(name) else name for name in columns]
        axes.tick_params(axis="x", top=False, bottom=False, labeltop=top, labelbottom=bottom)
        axes.set_xticks(range(len(columns)), stacked)
        for name, label in zip(columns, axes.get_xticklabels(), strict=True):
            label.set(rotation=0 if _stacks(name) or len(name) == 1 else 90, linespacing=1.0)


def _stacks(name: str) -> bool:
    """Chinese can be written from above."""
    return len(name) <= 4 and bool(is_han(codes_of(name)).all())


def _numbers(axes: Axes, view: View, panel: Panel, size: float) -> None:
    half = panel.weights.max() * 0.55
    for row, column in zip(*np.nonzero(view.map.seen), strict=True):
        much = float(panel.weights[row, column])
        colour = "white" if much > half else INK
        told = f"{much:.2f}".removeprefix("0") if much < 0.995 else "1"
        axes.text(column, row, told, ha="center", va="center", fontsize=size * 0.85, color=colour)


def _legend(figure: Figure, view: View, image: AxesImage, axes: Axes | list[Axes], notes: Sequence[str] = ()) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30, pad=0.02, label="weight; each row sums to 1")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    about = ["hatched: not seen"] if view.map.kind == "masked" else []
    about += ["dashed: the second text begins"] if view.map.borders and view.map.kind != "cross" else []
    if about or notes:
        told = [*notes, *([" · ".join(about)] if about else [])]
        figure.supxlabel("\n".join(told), fontsize=8, color=SOFT)


def _lines(view: View, title: str, edges: list[Edge]) -> Figure:
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
    for edge in reversed(edges):
        share = edge.weight / most
        how = {"color": colours[edge.panel.layer], "lw": _width(share), "alpha": 0.25 + 0.65 * share}
        axes.plot((0, 1), (places[0][edge.row], places[1][edge.column]), solid_capstyle="round", **how)
    for side, numbers, tokens in ((-1, left, of.rows), (1, right, of.columns)):
        edge_of, align = max(side, 0), "left" if side > 0 else "right"
        for number in numbers:
            at = places[edge_of][number]
            axes.text(edge_of + side * 0.02, at, str(number + 1), ha=align, va="center", fontsize=6, color=SOFT)
            axes.text(edge_of + side * 0.1, at, short(tokens[number], 18), ha=align, va="center", fontsize=8.5)
        words = "… looks at" if side > 0 else "this token …"
        axes.text(edge_of + side * 0.1, -1.4, words, ha=align, va="center", color=SOFT)
    axes.set(xlim=(-0.55, 1.55), ylim=(lowest + 0.7, -2))
    axes.set_axis_off()
    tokens = f"{len(of.rows)} tokens" if of.kind != "cross" else f"{len(of.rows)} and {len(of.columns)} tokens"
    figure.suptitle(f"{title}\n{of.name}, {view.about}: the {len(edges)} strongest edges of {tokens}", fontsize=11)
    _key(figure, colours, most)
    return figure


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

    handles = [Line2D([], [], color=SOFT, lw=_width(share), label=f"{share * most:.2f}") for share in (1, 0.5)]
    layers = list(colours)
    some = sorted({round(at) for at in np.linspace(0, len(layers) - 1, min(len(layers), 8))}) if len(layers) > 1 else []
    handles += [Line2D([], [], color=colours[layers[n]], lw=2, label=f"layer {layers[n]}") for n in some]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
