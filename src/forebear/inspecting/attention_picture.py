"""Attention as a picture: one map with all its tokens, many small ones, or the strongest edges as lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from forebear.inspecting.attention_lines import lines_of
from forebear.inspecting.drawing import ACCENT, INK, LARGEST, SOFT, blues, drawing, hatched, new_figure, saved, short
from forebear.inspecting.views import Panel, View
from forebear.text.characters import codes_of, is_han

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

OTHERWISE = "; or --to FILE.html, which leaves fonts to the browser"
NUMBERED = 14  # tokens: in a map of more there is no room for numbers
NAMED = 16  # tokens and panels: where there are more, small maps have no names at their sides


def picture(view: View, title: str, form: str, top: int | None = None) -> bytes:
    """The bytes of a picture of this form; with `top` so many of the strongest edges as lines."""
    of = view.map
    with drawing([title, of.name, *of.rows, *of.columns], OTHERWISE):
        if top is not None:
            figure = lines_of(view, title, view.edges(top))
        elif len(view.panels) == 1:
            figure = _single(view, view.panels[0], title)
        else:
            few = max(*of.weights.shape[2:], len(view.panels)) <= NAMED
            figure = _grid(view, title) if few else _mosaic(view, title)
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
    """Few maps of few tokens, with the tokens beside them."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.map.weights.shape[2:]
    side = max(1.9, 0.24 * max(rows, columns))
    wide, high = (side * length / max(rows, columns) for length in (columns, rows))
    figure = new_figure(max(across * wide + 1.8, 5.5), down * (high + 0.22) + 1.4)
    grid = figure.subplots(down, across, squeeze=False)
    images = []
    for number, axes in enumerate(grid.flat):
        if number >= len(view.panels):
            axes.set_axis_off()
            continue
        images.append(_heat(axes, view, view.panels[number], _most(view)))
        axes.set_title(view.brief(view.panels[number]), fontsize=8, pad=3)
        _named(axes, view, 7, left=number % across == 0, top=False, bottom=number + across >= len(view.panels))
    figure.suptitle(f"{title}\n{view.map.name}: {view.about}", fontsize=11)
    _legend(figure, view, images[0], list(grid.flat))
    return figure


def _most(view: View) -> float:
    """The strongest weight of all: one scale for all maps."""
    return max(float(panel.weights.max()) for panel in view.panels)


def _mosaic(view: View, title: str) -> Figure:
    """Many maps, all in one system of coordinates: hundreds of systems would take minutes."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.map.weights.shape[2:]
    wide, high = columns / max(rows, columns), rows / max(rows, columns)
    right, below = wide + 0.08, high + (0.08 if _is_whole(view) else 0.3)  # from one map to the next
    side = min(1.15, LARGEST / (max(across, down) * 1.1))
    figure = new_figure(max(across * right * side + 2.2, 6.5), down * below * side + 1.9)
    axes = figure.add_subplot()
    images = []
    for number, panel in enumerate(view.panels):
        x, y = number % across * right, number // across * below
        images.append(_heat(axes, view, panel, _most(view), (x, x + wide, y + high, y)))
        if not _is_whole(view):
            axes.text(x + wide / 2, y - 0.03, view.brief(panel), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(-0.05, across * right), ylim=(down * below, -0.05 if _is_whole(view) else -0.3))
    if _is_whole(view):
        size = float(np.clip(side * 8, 5, 8))
        heads, layers = ([one.head for one in view.panels[:across]], [one.layer for one in view.panels[::across]])
        axes.set_xticks([n * right + wide / 2 for n in range(across)], [f"head {n}" for n in heads], fontsize=size)
        axes.set_yticks([n * below + high / 2 for n in range(down)], [f"layer {n}" for n in layers], fontsize=size)
        axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        if size * 4 > side * 72:
            axes.tick_params(axis="x", labelrotation=90)
    axes.spines[:].set_visible(False)
    figure.suptitle(f"{title}\n{view.map.name}: {view.about}", fontsize=11)
    _legend(figure, view, images[0], axes, [_sequence(view)])
    return figure


def _is_whole(view: View) -> bool:
    """Whether layers stand below each other, and heads beside each other."""
    layers, heads = {one.layer for one in view.panels}, {one.head for one in view.panels}
    return len(layers) > 1 and len(heads) > 1


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


def _heat(
    axes: Axes, view: View, panel: Panel, most: float, extent: tuple[float, float, float, float] | None = None
) -> AxesImage:
    """A map in its place (left, right, bottom, top); what is not seen is hatched, not of the colour of zero."""
    rows, columns = panel.weights.shape
    left, right, bottom, top = place = extent or (-0.5, columns - 0.5, rows - 0.5, -0.5)
    weights = np.ma.masked_array(panel.weights, ~view.map.seen)
    how = {"vmin": 0, "vmax": most, "aspect": "equal", "interpolation": "nearest", "extent": place}
    if view.map.kind == "masked":
        hatched(axes, place)
    image = axes.imshow(weights, cmap=blues(), **how)
    axes.set(xticks=[], yticks=[])
    for border in view.map.borders if view.map.kind != "cross" else ():
        x, y = left + (right - left) * border / columns, top + (bottom - top) * border / rows
        for ends in (((left, right), (y, y)), ((x, x), (bottom, top))):
            axes.plot(*ends, color=ACCENT, lw=1, ls=(0, (4, 2)), scalex=False, scaley=False)
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
