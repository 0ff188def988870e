"""Attention as a picture: one map with all its tokens, many small ones, or the strongest edges as lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from forebear.inspecting.attention_lines import lines_of
from forebear.inspecting.drawing import ACCENT, INK, LARGEST, SOFT, blues, drawing, hatched, new_figure, saved, short
from forebear.inspecting.labels import notes_on
from forebear.inspecting.views import Panel, View
from forebear.text.characters import codes_of, is_han

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

OTHERWISE = "; or --to FILE.html, which leaves fonts to the browser"
NUMBERED = 16  # tokens: in a map of more there is no room for numbers
LINED = 40  # tokens: in a map of more, lines between cells are more than the cells
NAMED = 16  # panels: more systems of coordinates with names would take minutes
WIDE, LETTERS = 9.0, 6.0  # inches that maps side by side fill, and the smallest letters beside them, in points


def picture(view: View, title: str, form: str, top: int | None = None) -> bytes:
    """The bytes of a picture of this form; with `top` so many of the strongest edges as lines."""
    of = view.map
    with drawing([title, of.name, *of.rows, *of.columns], OTHERWISE):
        if top is not None:
            figure = lines_of(view, title, view.edges(top))
        elif len(view.panels) == 1:
            figure = _single(view, view.panels[0], title)
        else:
            few = len(view.panels) <= NAMED and _side(view) / max(of.weights.shape[2:]) * 72 >= LETTERS * 1.2
            figure = _grid(view, title) if few else _mosaic(view, title)
        return saved(figure, form)


def _single(view: View, panel: Panel, title: str) -> Figure:
    rows, columns = panel.weights.shape
    cell = float(np.clip(6.4 / max(rows, columns), 0.16, 0.55))
    size = float(np.clip(cell * 72 * 0.56, 7, 11))
    beside, above = _longest(view, size)
    figure = new_figure(columns * cell + beside + 1.5, rows * cell + above + 1.3, "compressed")
    axes = figure.add_subplot()
    image = _heat(axes, view, panel, float(panel.weights.max()))
    _named(axes, view, size)
    if max(rows, columns) <= LINED:
        _lined(axes, rows, columns)
    axes.set_ylabel(view.sides[0], color=SOFT)
    axes.set_xlabel(view.sides[1], color=SOFT)
    axes.xaxis.set_label_position("top")
    if max(rows, columns) <= NUMBERED:
        _numbers(axes, view, panel, size)
    figure.suptitle(f"{title}\n{view.map.name}, {panel.title}", fontsize=11)
    _legend(figure, view, image, axes)
    return figure


def _grid(view: View, title: str) -> Figure:
    """Few maps of few tokens, with the tokens beside them."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.map.weights.shape[2:]
    cell = _side(view) / max(rows, columns)
    size = float(np.clip(cell * 72 * 0.78, LETTERS, 9))
    beside, below = _longest(view, size)
    wide, high = across * (columns * cell + 0.1), down * (rows * cell + 0.25)
    figure = new_figure(wide + beside + 1.1, high + below + 1.2, "compressed")
    grid = figure.subplots(down, across, squeeze=False)
    images = []
    for number, axes in enumerate(grid.flat):
        if number >= len(view.panels):
            axes.set_axis_off()
            continue
        images.append(_heat(axes, view, view.panels[number], _most(view)))
        axes.set_title(view.brief(view.panels[number]), fontsize=8, pad=3)
        _named(axes, view, size, left=number % across == 0, top=False, bottom=number + across >= len(view.panels))
    figure.suptitle(f"{title}\n{view.map.name}: {view.about}", fontsize=11)
    _legend(figure, view, images[0], list(grid.flat), [_rows_and_columns(view)])
    return figure


def _side(view: View) -> float:
    """Inches of the longer side of each of several maps: together they are one page, and no cell is huge."""
    down = ceil(len(view.panels) / view.across)
    room = min(WIDE / view.across, (LARGEST - 2.5) / (down * 1.1))
    return min(room, max(1.15, 0.32 * max(view.map.weights.shape[2:])))


def _longest(view: View, size: float) -> tuple[float, float]:
    """Inches that the longest names take, of rows and of columns; Chinese is twice as wide."""
    wide = [
        max(len(name) + int(is_han(codes_of(name)).sum()) for name in map(short, tokens))
        for tokens in (view.map.rows, view.map.columns)
    ]
    return wide[0] * size * 0.62 / 72, wide[1] * size * 0.62 / 72


def _rows_and_columns(view: View) -> str:
    if view.map.kind == "cross":
        return "rows: the translation, as it is written; columns: the source, at which it looks"
    return "rows: the tokens that look; columns: those they look at"


def _most(view: View) -> float:
    """The strongest weight of all: one scale for all maps."""
    return max(float(panel.weights.max()) for panel in view.panels)


def _mosaic(view: View, title: str) -> Figure:
    """Many maps, all in one system of coordinates: hundreds of systems would take minutes."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.map.weights.shape[2:]
    wide, high = columns / max(rows, columns), rows / max(rows, columns)
    right, below = wide + 0.08, high + (0.08 if _is_whole(view) else 0.3)  # from one map to the next
    side = _side(view)
    figure = new_figure(max(across * right * side + 1.6, 6.5), down * below * side + 1.9, "compressed")
    axes = figure.add_subplot()
    images = []
    for number, panel in enumerate(view.panels):
        x, y = number % across * right, number // across * below
        images.append(_heat(axes, view, panel, _most(view), (x, x + wide, y + high, y)))
        if not _is_whole(view):
            axes.text(x + wide / 2, y - 0.03, view.brief(panel), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(-0.05, across * right), ylim=(down * below, -0.05 if _is_whole(view) else -0.3))
    if _is_whole(view):
        size = float(np.clip(side * 8, 5, 9))
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
        parts, held = [], ""
        for word in tokens:
            if len(held) + len(word) > 110:
                parts, held = [*parts, held], ""
            held += ("  " if held else "") + word
        return "\n".join([*parts, held])

    if view.map.kind == "cross":
        return f"rows: {line(view.map.rows)}\ncolumns: {line(view.map.columns)}"
    return f"rows look, columns are looked at: {line(view.map.rows)}"


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


def _lined(axes: Axes, rows: int, columns: int) -> None:
    """White lines between cells, so that an eye can follow a row."""
    axes.set_xticks(np.arange(columns - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(rows - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", lw=0.8)
    axes.tick_params(which="minor", length=0)


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
    bar = figure.colorbar(image, ax=axes, aspect=32, pad=0.02, fraction=0.05, label="weight: each row sums to 1")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    about = ["hatched: comes later, is not seen"] if view.map.kind == "masked" else []
    about += ["dashed: the second text begins"] if view.map.borders and view.map.kind != "cross" else []
    about += notes_on((*view.map.rows, *view.map.columns))
    if about or notes:
        told = [*notes, *(["; ".join(about)] if about else [])]
        figure.supxlabel("\n".join(told), fontsize=8, color=SOFT)
