"""Attention as a picture: one map with all its tokens, many small ones, or the strongest edges as lines."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.tokenizers.char_level import code_points, is_han
from forebear.inspection.attention import (
    AttentionEdge,
    AttentionMap,
    AttentionPanel,
    AttentionView,
    HeadChoice,
    attention_rollouts,
    attention_view,
)
from forebear.inspection.token_labels import label_notes
from forebear.reports.plotting import (
    ACCENT,
    INK,
    MAX_INCHES,
    SOFT,
    blue_colormap,
    figure_bytes,
    hatch_background,
    new_figure,
    plot_style,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# The strongest edges of attention as lines between tokens: a picture of a long text that is not too large.


def plot_attention_lines(view: AttentionView, title: str, edges: Sequence[AttentionEdge]) -> Figure:
    """Tokens that take part, those that look on the left, those that are looked at on the right.

    Where both are the same tokens, each stands at the same height on both sides: a slope is a distance.
    """
    of = view.attention_map
    left, right = sorted({edge.row for edge in edges}), sorted({edge.column for edge in edges})
    sides = (left, right) if of.kind == "cross" else (sorted({*left, *right}),) * 2
    places = [_places(numbers) for numbers in sides]
    lowest = max([*places[0].values(), *places[1].values()], default=1.0)
    figure = new_figure(7.5, min(0.2 * lowest + 2.2, MAX_INCHES))
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
            axes.text(edge_of + side * 0.1, at, shorten_label(tokens[number], 18), ha=align, va="center", fontsize=8.5)
        axes.text(edge_of + side * 0.1, -1.4, view.axis_labels[edge_of], ha=align, va="center", color=SOFT)
    axes.set(xlim=(-0.55, 1.55), ylim=(lowest + 0.7, -2))
    axes.set_axis_off()
    tokens = f"{len(of.rows)} tokens" if of.kind != "cross" else f"{len(of.rows)} and {len(of.columns)} tokens"
    figure.suptitle(
        f"{title}\n{of.name}, {view.description}: the {len(edges)} strongest edges of {tokens}", fontsize=11
    )
    _key(figure, colours, most)
    if notes := label_notes([of.rows[n] for n in left] + [of.columns[n] for n in right]):
        axes.text(0.5, lowest + 1.2, "; ".join(notes), ha="center", va="center", fontsize=7.5, color=SOFT)
        axes.set_ylim(lowest + 1.6, -2)
    return figure


def _asides(edges: Sequence[AttentionEdge]) -> list[float]:
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


OTHERWISE = "; or --to FILE.html, which leaves fonts to the browser"
NUMBERED = 16  # tokens: in a map of more there is no room for numbers
LINED = 40  # tokens: in a map of more, lines between cells are more than the cells
NAMED = 16  # panels: more systems of coordinates with names would take minutes
WIDE, LETTERS = 9.0, 6.0  # inches that maps side by side fill, and the smallest letters beside them, in points


def plot_attention(view: AttentionView, title: str, form: str, top: int | None = None) -> bytes:
    """The bytes of a picture of this form; with `top` so many of the strongest edges as lines."""
    of = view.attention_map
    with plot_style([title, of.name, *of.rows, *of.columns], OTHERWISE):
        if top is not None:
            figure = plot_attention_lines(view, title, view.strongest_edges(top))
        elif len(view.panels) == 1:
            figure = _single(view, view.panels[0], title)
        else:
            few = len(view.panels) <= NAMED and _side(view) / max(of.weights.shape[2:]) * 72 >= LETTERS * 1.2
            figure = _grid(view, title) if few else _mosaic(view, title)
        return figure_bytes(figure, form)


def _single(view: AttentionView, panel: AttentionPanel, title: str) -> Figure:
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
    axes.set_ylabel(view.axis_labels[0], color=SOFT)
    axes.set_xlabel(view.axis_labels[1], color=SOFT)
    axes.xaxis.set_label_position("top")
    if max(rows, columns) <= NUMBERED:
        _numbers(axes, view, panel, size)
    figure.suptitle(f"{title}\n{view.attention_map.name}, {panel.title}", fontsize=11)
    _legend(figure, view, image, axes)
    return figure


def _grid(view: AttentionView, title: str) -> Figure:
    """Few maps of few tokens, with the tokens beside them."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.attention_map.weights.shape[2:]
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
        axes.set_title(view.summary(view.panels[number]), fontsize=8, pad=3)
        _named(axes, view, size, left=number % across == 0, top=False, bottom=number + across >= len(view.panels))
    figure.suptitle(f"{title}\n{view.attention_map.name}: {view.description}", fontsize=11)
    _legend(figure, view, images[0], list(grid.flat), [_rows_and_columns(view)])
    return figure


def _side(view: AttentionView) -> float:
    """Inches of the longer side of each of several maps: together they are one page, and no cell is huge."""
    down = ceil(len(view.panels) / view.across)
    room = min(WIDE / view.across, (MAX_INCHES - 2.5) / (down * 1.1))
    return min(room, max(1.15, 0.32 * max(view.attention_map.weights.shape[2:])))


def _longest(view: AttentionView, size: float) -> tuple[float, float]:
    """Inches that the longest names take, of rows and of columns; Chinese is twice as wide."""
    wide = [
        max(len(name) + int(is_han(code_points(name)).sum()) for name in map(shorten_label, tokens))
        for tokens in (view.attention_map.rows, view.attention_map.columns)
    ]
    return wide[0] * size * 0.62 / 72, wide[1] * size * 0.62 / 72


def _rows_and_columns(view: AttentionView) -> str:
    if view.attention_map.kind == "cross":
        return "rows: the translation, as it is written; columns: the source, at which it looks"
    return "rows: the tokens that look; columns: those they look at"


def _most(view: AttentionView) -> float:
    """The strongest weight of all: one scale for all maps."""
    return max(float(panel.weights.max()) for panel in view.panels)


def _mosaic(view: AttentionView, title: str) -> Figure:
    """Many maps, all in one system of coordinates: hundreds of systems would take minutes."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.attention_map.weights.shape[2:]
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
            axes.text(x + wide / 2, y - 0.03, view.summary(panel), ha="center", va="bottom", fontsize=7)
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
    figure.suptitle(f"{title}\n{view.attention_map.name}: {view.description}", fontsize=11)
    _legend(figure, view, images[0], axes, [_sequence(view)])
    return figure


def _is_whole(view: AttentionView) -> bool:
    """Whether layers stand below each other, and heads beside each other."""
    layers, heads = {one.layer for one in view.panels}, {one.head for one in view.panels}
    return len(layers) > 1 and len(heads) > 1


def _sequence(view: AttentionView) -> str:
    """The tokens in order, where there is no room to write them beside every map."""

    def line(tokens: tuple[str, ...]) -> str:
        parts, held = [], ""
        for word in tokens:
            if len(held) + len(word) > 110:
                parts, held = [*parts, held], ""
            held += ("  " if held else "") + word
        return "\n".join([*parts, held])

    if view.attention_map.kind == "cross":
        return f"rows: {line(view.attention_map.rows)}\ncolumns: {line(view.attention_map.columns)}"
    return f"rows look, columns are looked at: {line(view.attention_map.rows)}"


def _heat(
    axes: Axes,
    view: AttentionView,
    panel: AttentionPanel,
    most: float,
    extent: tuple[float, float, float, float] | None = None,
) -> AxesImage:
    """A map in its place (left, right, bottom, top); what is not seen is hatched, not of the colour of zero."""
    rows, columns = panel.weights.shape
    left, right, bottom, top = place = extent or (-0.5, columns - 0.5, rows - 0.5, -0.5)
    weights = np.ma.masked_array(panel.weights, ~view.attention_map.visible_mask)
    how = {"vmin": 0, "vmax": most, "aspect": "equal", "interpolation": "nearest", "extent": place}
    if view.attention_map.kind == "masked":
        hatch_background(axes, place)
    image = axes.imshow(weights, cmap=blue_colormap(), **how)
    axes.set(xticks=[], yticks=[])
    for border in view.attention_map.word_borders if view.attention_map.kind != "cross" else ():
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


def _named(
    axes: Axes, view: AttentionView, size: float, *, left: bool = True, top: bool = True, bottom: bool = False
) -> None:
    """Tokens at the sides; those above or below lie on their sides, unless they are short or can be stacked."""
    rows, columns = (
        [shorten_label(token) for token in tokens] for tokens in (view.attention_map.rows, view.attention_map.columns)
    )
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
    return len(name) <= 4 and bool(is_han(code_points(name)).all())


def _numbers(axes: Axes, view: AttentionView, panel: AttentionPanel, size: float) -> None:
    half = panel.weights.max() * 0.55
    for row, column in zip(*np.nonzero(view.attention_map.visible_mask), strict=True):
        much = float(panel.weights[row, column])
        colour = "white" if much > half else INK
        told = f"{much:.2f}".removeprefix("0") if much < 0.995 else "1"
        axes.text(column, row, told, ha="center", va="center", fontsize=size * 0.85, color=colour)


def _legend(
    figure: Figure, view: AttentionView, image: AxesImage, axes: Axes | list[Axes], notes: Sequence[str] = ()
) -> None:
    bar = figure.colorbar(image, ax=axes, aspect=32, pad=0.02, fraction=0.05, label="weight: each row sums to 1")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    about = ["hatched: comes later, is not seen"] if view.attention_map.kind == "masked" else []
    about += (
        ["dashed: the second text begins"]
        if view.attention_map.word_borders and view.attention_map.kind != "cross"
        else []
    )
    about += label_notes((*view.attention_map.rows, *view.attention_map.columns))
    if about or notes:
        told = [*notes, *(["; ".join(about)] if about else [])]
        figure.supxlabel("\n".join(told), fontsize=8, color=SOFT)


# Attention as one HTML page that needs nothing else: layers and heads to choose, and what each token looks at.


CLOSED = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # the page cannot call home
ROWS = 20  # edges in the table that is there without a script
FINE = 65535  # steps from 0 to 1: two bytes a weight


def attention_page(views: Sequence[tuple[AttentionView, int | None]], title: str) -> str:
    """The whole page. A view says what is shown first; with a number beside it, only so many edges of each head."""
    style, script = (
        files("forebear.inspection").joinpath(name).read_text("utf-8") for name in ("attention.css", "attention.js")
    )
    data = json.dumps([_data(one, top) for one, top in views], ensure_ascii=False).replace("<", "\\u003c")
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main><h1>{escape(title)}</h1>"
        f"{''.join(_section(number, one, top) for number, (one, top) in enumerate(views))}</main>"
        f'<script type="application/json" id="maps">{data}</script><script>{script}</script></body></html>\n'
    )
    return made.encode("utf-8", "replace").decode("utf-8")


def _section(number: int, of: AttentionView, top: int | None) -> str:
    """What can be read without a script; the script fills the empty part."""
    rows = "".join(
        f"<tr><td class=number>{edge.panel.layer}</td><td class=number>{edge.panel.head}</td>"
        f"<td>{escape(of.attention_map.rows[edge.row])}</td><td>{escape(of.attention_map.columns[edge.column])}</td>"
        f"<td class=number>{edge.weight:.3f}</td></tr>"
        for edge in of.strongest_edges(min(top or ROWS, ROWS))
    )
    head = "<thead><tr><th class=number>layer</th><th class=number>head</th><th>token</th><th>looks at</th>"
    return (
        f'<section data-map="{number}"><h2>{escape(of.attention_map.name)}</h2><p class="about">{escape(_about(of.attention_map))}</p>'
        '<div class="live"></div><noscript><p class="about">Choosing layers and heads needs scripts to be allowed; '
        "what is below is there without.</p></noscript>"
        f"<details><summary>The strongest edges of {escape(of.description)}</summary>"
        f"<table>{head}<th class=number>weight</th></tr></thead><tbody>{rows}</tbody></table></details></section>"
    )


def _about(of: AttentionMap) -> str:
    sees = {
        "self": "every token looks at all",
        "masked": "every token looks at itself and at those before it",
        "cross": "every token of the translation looks at all of the source",
    }
    notes = "; ".join(label_notes((*of.rows, *of.columns)))
    return f"{of.layers} layers of {of.heads} heads; {sees[of.kind]}. What a token looks at sums to 1." + (
        f" ({notes})" if notes else ""
    )


def _data(of: AttentionView, top: int | None) -> dict[str, Any]:
    """All weights, two bytes each; of a long text only the strongest edges of each head."""
    first = of.panels[0]
    start = (
        {"layer": first.layer, "head": first.head} if len(of.panels) == 1 else {"layer": first.layer, "head": "mean"}
    )
    told = of.attention_map.to_dict() | {"columns": list(of.attention_map.columns), "start": start}
    if top is None:
        fine = np.rint(of.attention_map.weights * FINE).astype("<u2")
        return told | {"weights": base64.b64encode(fine.tobytes()).decode()} | _rolled(of.attention_map)
    edges = [edge for one in _each(of.attention_map) for edge in one.strongest_edges(top)]
    listed = [[edge.panel.layer, edge.panel.head, edge.row, edge.column, round(edge.weight, 4)] for edge in edges]
    return told | {"edges": listed}


def _rolled(of: AttentionMap) -> dict[str, Any]:
    if of.kind == "cross":
        return {}
    fine = np.rint(np.stack(list(attention_rollouts(of))) * FINE).astype("<u2")
    return {"rollout": base64.b64encode(fine.tobytes()).decode()}


def _each(of: AttentionMap) -> list[AttentionView]:
    """Every head of every layer, their means and the roll-outs, each by itself."""
    heads: list[HeadChoice] = [*range(1, of.heads + 1), "mean"]
    made = [attention_view(of, layer, head) for layer in range(1, of.layers + 1) for head in heads]
    rolled = enumerate(attention_rollouts(of), 1) if of.kind != "cross" else ()
    return [*made, *(AttentionView(of, (AttentionPanel(layer, "roll-out", weights),), 1) for layer, weights in rolled)]
