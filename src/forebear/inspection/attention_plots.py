"""Attention maps as figures (heatmaps, line plots of the strongest edges) and as an interactive HTML page."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.unicode import code_points, is_han
from forebear.inspection.attention import (
    AttentionEdge,
    AttentionPanel,
    AttentionView,
    HeadChoice,
    attention_rollouts,
    attention_view,
)
from forebear.inspection.token_labels import label_notes
from forebear.reports.page import html_page, html_table, read_assets
from forebear.reports.plotting import (
    ACCENT,
    BLUE,
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

# --- Line plots of the strongest edges, for long texts ---


def plot_attention_edges(view: AttentionView, title: str, edges: Sequence[AttentionEdge]) -> Figure:
    """Query tokens on the left, key tokens on the right, and a line for each edge.

    Where both sides have the same tokens, a token has the same height on both: the slope shows the distance.
    """
    attention_map = view.attention_map
    is_cross = attention_map.kind == "cross"
    left, right = sorted({edge.row for edge in edges}), sorted({edge.column for edge in edges})
    token_columns = (left, right) if is_cross else (sorted({*left, *right}),) * 2
    heights = [_label_heights(numbers) for numbers in token_columns]
    lowest = max([*heights[0].values(), *heights[1].values()], default=1.0)
    figure = new_figure(7.5, min(0.2 * lowest + 2.2, MAX_INCHES))
    axes = figure.add_subplot()
    colors = _layer_colors(sorted({edge.panel.layer for edge in edges}))
    max_weight = max((edge.weight for edge in edges), default=1.0)
    for edge, offset in zip(reversed(edges), _line_offsets(edges[::-1]), strict=True):
        fraction = edge.weight / max_weight
        style = {"color": colors[edge.panel.layer], "lw": _line_width(fraction), "alpha": 0.25 + 0.65 * fraction}
        ends = (heights[0][edge.row] + offset, heights[1][edge.column] + offset)
        axes.plot((0, 1), ends, solid_capstyle="round", **style)
    for side, numbers, tokens in ((-1, left, attention_map.rows), (1, right, attention_map.columns)):
        edge_of, align = max(side, 0), "left" if side > 0 else "right"
        for number in numbers:
            at = heights[edge_of][number]
            axes.text(edge_of + side * 0.02, at, str(number + 1), ha=align, va="center", fontsize=6, color=SOFT)
            axes.text(edge_of + side * 0.1, at, shorten_label(tokens[number], 18), ha=align, va="center", fontsize=8.5)
        axes.text(edge_of + side * 0.1, -1.4, view.axis_labels[edge_of], ha=align, va="center", color=SOFT)
    axes.set(xlim=(-0.55, 1.55), ylim=(lowest + 0.7, -2))
    axes.set_axis_off()
    tokens = f"{len(attention_map.rows)} " + (f"and {len(attention_map.columns)} " if is_cross else "") + "tokens"
    subtitle = f"{attention_map.name}, {view.description}: the {len(edges)} strongest edges of {tokens}"
    figure.suptitle(f"{title}\n{subtitle}", fontsize=11)
    _add_legend(figure, colors, max_weight)
    if notes := label_notes([attention_map.rows[n] for n in left] + [attention_map.columns[n] for n in right]):
        axes.text(0.5, lowest + 1.2, "; ".join(notes), ha="center", va="center", fontsize=7.5, color=SOFT)
        axes.set_ylim(lowest + 1.6, -2)
    return figure


def _line_offsets(edges: Sequence[AttentionEdge]) -> list[float]:
    """Vertical offsets that separate edges of several heads between the same tokens."""
    ends = [(edge.row, edge.column) for edge in edges]
    counts, seen_counts = Counter(ends), Counter[tuple[int, int]]()
    offsets = []
    for edge_ends in ends:
        spacing = min(0.13, 0.6 / counts[edge_ends])
        offsets.append(spacing * (seen_counts[edge_ends] - (counts[edge_ends] - 1) / 2))
        seen_counts[edge_ends] += 1
    return offsets


def _line_width(share: float) -> float:
    return 0.4 + 2.2 * share


def _label_heights(numbers: Sequence[int]) -> dict[int, float]:
    """Heights of token labels, with gaps where tokens are left out."""
    heights: dict[int, float] = {}
    height = previous = -1
    for number in numbers:
        height += 1.0 if number == previous + 1 or not heights else 1.5
        heights[number], previous = height, number
    return heights


def _layer_colors(layers: Sequence[int]) -> dict[int, str]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if len(layers) == 1:
        return {layers[0]: BLUE}
    shades = colormaps["viridis"](np.linspace(0, 0.88, len(layers)))
    return {layer: to_hex(shade) for layer, shade in zip(layers, shades, strict=True)}


def _add_legend(figure: Figure, colors: Mapping[int, str], max_weight: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=SOFT, lw=_line_width(share), label=f"weight {share * max_weight:.2f}")
        for share in (1, 0.5)
    ]
    if len(colors) > 1:
        layers = list(colors)
        shown = sorted({round(at) for at in np.linspace(0, len(layers) - 1, min(len(layers), 8))})
        handles += [Line2D([], [], color=colors[layers[n]], lw=2, label=f"layer {layers[n]}") for n in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False, fontsize=8)


HTML_HINT = "; or --to FILE.html, which leaves fonts to the browser"
MAX_NUMBERED_TOKENS = 16  # tokens; larger maps have no room for numbers
MAX_LINED_TOKENS = 40  # tokens; in larger maps the cell lines would dominate
MAX_LABELED_PANELS = 16  # panels; more labeled axes would take minutes to draw
TOTAL_INCHES, MIN_FONT_SIZE = 9.0, 6.0  # width of a grid of maps in inches, and smallest font size in points


def plot_attention(view: AttentionView, title: str, form: str, top: int | None = None) -> bytes:
    """The bytes of a figure in this format; with `top`, that many of the strongest edges as lines."""
    attention_map = view.attention_map
    with plot_style([title, attention_map.name, *attention_map.rows, *attention_map.columns], HTML_HINT):
        if top is not None:
            figure = plot_attention_edges(view, title, view.strongest_edges(top))
        elif len(view.panels) == 1:
            figure = _plot_single(view, view.panels[0], title)
        else:
            cell_points = _panel_inches(view) / max(attention_map.weights.shape[2:]) * 72
            is_readable = len(view.panels) <= MAX_LABELED_PANELS and cell_points >= MIN_FONT_SIZE * 1.2
            figure = _plot_grid(view, title) if is_readable else _plot_mosaic(view, title)
        return figure_bytes(figure, form)


def _plot_single(view: AttentionView, panel: AttentionPanel, title: str) -> Figure:
    rows, columns = panel.weights.shape
    cell = float(np.clip(6.4 / max(rows, columns), 0.16, 0.55))
    size = float(np.clip(cell * 72 * 0.56, 7, 11))
    beside, above = _label_inches(view, size)
    figure = new_figure(columns * cell + beside + 1.5, rows * cell + above + 1.3, "compressed")
    axes = figure.add_subplot()
    image = _draw_heatmap(axes, view, panel, float(panel.weights.max()))
    _label_axes(axes, view, size)
    if max(rows, columns) <= MAX_LINED_TOKENS:
        axes.set_xticks(np.arange(columns - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(rows - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", lw=0.8)
        axes.tick_params(which="minor", length=0)
    axes.set_ylabel(view.axis_labels[0], color=SOFT)
    axes.set_xlabel(view.axis_labels[1], color=SOFT)
    axes.xaxis.set_label_position("top")
    if max(rows, columns) <= MAX_NUMBERED_TOKENS:
        half = panel.weights.max() * 0.55
        for row, column in zip(*np.nonzero(view.attention_map.visible_mask), strict=True):
            weight = float(panel.weights[row, column])
            color = "white" if weight > half else INK
            label = f"{weight:.2f}".removeprefix("0") if weight < 0.995 else "1"
            axes.text(column, row, label, ha="center", va="center", fontsize=size * 0.85, color=color)
    figure.suptitle(f"{title}\n{view.attention_map.name}, {panel.title}", fontsize=11)
    _legend(figure, view, image, axes)
    return figure


def _plot_grid(view: AttentionView, title: str) -> Figure:
    """A grid of few, small maps with token labels."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    rows, columns = view.attention_map.weights.shape[2:]
    cell = _panel_inches(view) / max(rows, columns)
    size = float(np.clip(cell * 72 * 0.78, MIN_FONT_SIZE, 9))
    beside, below = _label_inches(view, size)
    wide, high = across * (columns * cell + 0.1), down * (rows * cell + 0.25)
    figure = new_figure(wide + beside + 1.1, high + below + 1.2, "compressed")
    grid = figure.subplots(down, across, squeeze=False)
    images, max_weight = [], view.max_weight
    for number, axes in enumerate(grid.flat):
        if number >= len(view.panels):
            axes.set_axis_off()
            continue
        images.append(_draw_heatmap(axes, view, view.panels[number], max_weight))
        axes.set_title(view.summary(view.panels[number]), fontsize=8, pad=3)
        _label_axes(axes, view, size, left=number % across == 0, top=False, bottom=number + across >= len(view.panels))
    figure.suptitle(f"{title}\n{view.attention_map.name}: {view.description}", fontsize=11)
    axis_note = "rows: the tokens that look; columns: those they look at"
    if view.attention_map.kind == "cross":
        axis_note = "rows: the translation, as it is written; columns: the source, at which it looks"
    _legend(figure, view, images[0], list(grid.flat), [axis_note])
    return figure


def _panel_inches(view: AttentionView) -> float:
    """Size in inches of the longer side of each map of a grid."""
    down = ceil(len(view.panels) / view.across)
    room = min(TOTAL_INCHES / view.across, (MAX_INCHES - 2.5) / (down * 1.1))
    return min(room, max(1.15, 0.32 * max(view.attention_map.weights.shape[2:])))


def _label_inches(view: AttentionView, size: float) -> tuple[float, float]:
    """Inches that the longest row and column labels take; Chinese characters count twice."""
    wide = [
        max(len(name) + int(is_han(code_points(name)).sum()) for name in map(shorten_label, tokens))
        for tokens in (view.attention_map.rows, view.attention_map.columns)
    ]
    return wide[0] * size * 0.62 / 72, wide[1] * size * 0.62 / 72


def _plot_mosaic(view: AttentionView, title: str) -> Figure:
    """Many maps in one pair of axes: hundreds of axes would take minutes."""
    across, down = view.across, ceil(len(view.panels) / view.across)
    is_layers_by_heads = view.num_layers > 1 and view.num_heads > 1
    rows, columns = view.attention_map.weights.shape[2:]
    panel_width, panel_height = columns / max(rows, columns), rows / max(rows, columns)
    step_x, step_y = panel_width + 0.08, panel_height + (0.08 if is_layers_by_heads else 0.3)  # to the next map
    side = _panel_inches(view)
    figure = new_figure(max(across * step_x * side + 1.6, 6.5), down * step_y * side + 1.9, "compressed")
    axes = figure.add_subplot()
    images, max_weight = [], view.max_weight
    for number, panel in enumerate(view.panels):
        x, y = number % across * step_x, number // across * step_y
        images.append(_draw_heatmap(axes, view, panel, max_weight, (x, x + panel_width, y + panel_height, y)))
        if not is_layers_by_heads:
            axes.text(x + panel_width / 2, y - 0.03, view.summary(panel), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(-0.05, across * step_x), ylim=(down * step_y, -0.05 if is_layers_by_heads else -0.3))
    if is_layers_by_heads:
        size = float(np.clip(side * 8, 5, 9))
        heads = [f"head {panel.head}" for panel in view.panels[:across]]
        layers = [f"layer {panel.layer}" for panel in view.panels[::across]]
        axes.set_xticks([n * step_x + panel_width / 2 for n in range(across)], heads, fontsize=size)
        axes.set_yticks([n * step_y + panel_height / 2 for n in range(down)], layers, fontsize=size)
        axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        if size * 4 > side * 72:
            axes.tick_params(axis="x", labelrotation=90)
    axes.spines[:].set_visible(False)
    figure.suptitle(f"{title}\n{view.attention_map.name}: {view.description}", fontsize=11)
    _legend(figure, view, images[0], axes, [_sequence(view)])
    return figure


def _sequence(view: AttentionView) -> str:
    """The tokens in order, where labels do not fit."""

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


def _draw_heatmap(
    axes: Axes,
    view: AttentionView,
    panel: AttentionPanel,
    max_weight: float,
    extent: tuple[float, float, float, float] | None = None,
) -> AxesImage:
    """A heatmap within `extent` (left, right, bottom, top); masked cells are hatched rather than colored as 0."""
    rows, columns = panel.weights.shape
    left, right, bottom, top = place = extent or (-0.5, columns - 0.5, rows - 0.5, -0.5)
    weights = np.ma.masked_array(panel.weights, ~view.attention_map.visible_mask)
    style = {"vmin": 0, "vmax": max_weight, "aspect": "equal", "interpolation": "nearest", "extent": place}
    if view.attention_map.kind == "masked":
        hatch_background(axes, place)
    image = axes.imshow(weights, cmap=blue_colormap(), **style)
    axes.set(xticks=[], yticks=[])
    for border in view.attention_map.text_starts if view.attention_map.kind != "cross" else ():
        x, y = left + (right - left) * border / columns, top + (bottom - top) * border / rows
        for ends in (((left, right), (y, y)), ((x, x), (bottom, top))):
            axes.plot(*ends, color=ACCENT, lw=1, ls=(0, (4, 2)), scalex=False, scaley=False)
    return image


def _label_axes(
    axes: Axes, view: AttentionView, size: float, *, left: bool = True, top: bool = True, bottom: bool = False
) -> None:
    """Token labels; column labels are rotated unless they are short or can be stacked."""
    axes.tick_params(length=0, labelsize=size)
    if left:
        axes.set_yticks(range(len(view.attention_map.rows)), list(map(shorten_label, view.attention_map.rows)))
    if top or bottom:
        columns = list(map(shorten_label, view.attention_map.columns))
        stacked = ["\n".join(name) if _stacks(name) else name for name in columns]
        axes.tick_params(axis="x", top=False, bottom=False, labeltop=top, labelbottom=bottom)
        axes.set_xticks(range(len(columns)), stacked)
        for name, label in zip(columns, axes.get_xticklabels(), strict=True):
            label.set(rotation=0 if _stacks(name) or len(name) == 1 else 90, linespacing=1.0)


def _stacks(name: str) -> bool:
    """Whether a label can be written vertically (Chinese)."""
    return len(name) <= 4 and bool(is_han(code_points(name)).all())


def _legend(
    figure: Figure, view: AttentionView, image: AxesImage, axes: Axes | list[Axes], notes: Sequence[str] = ()
) -> None:
    attention_map = view.attention_map
    bar = figure.colorbar(image, ax=axes, aspect=32, pad=0.02, fraction=0.05, label="weight: each row sums to 1")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    descriptions = ["hatched: comes later, is not seen"] if attention_map.kind == "masked" else []
    if attention_map.text_starts and attention_map.kind != "cross":
        descriptions.append("dashed: the second text begins")
    descriptions += label_notes((*attention_map.rows, *attention_map.columns))
    if lines := [*notes, *filter(None, ["; ".join(descriptions)])]:
        figure.supxlabel("\n".join(lines), fontsize=8, color=SOFT)


# --- HTML page ---

ROWS = 20  # rows of the table shown without scripts
WEIGHT_LEVELS = 65535  # quantization levels of a weight: two bytes


def attention_page(views: Sequence[tuple[AttentionView, int | None]], title: str) -> str:
    """The HTML page. Each view is shown initially; a number beside it limits its data to that many edges per head."""
    style, script = (read_assets("forebear.inspection", name) for name in ("attention.css", "attention.js"))
    data = json.dumps([_view_data(view, top) for view, top in views], ensure_ascii=False).replace("<", "\\u003c")
    sections = "".join(_section(number, view, top) for number, (view, top) in enumerate(views))
    scripts = f'<script type="application/json" id="maps">{data}</script><script>{script}</script>'
    return html_page(title, f"<h1>{escape(title)}</h1>{sections}", style, scripts)


def _section(number: int, view: AttentionView, top: int | None) -> str:
    """The part that works without scripts; the script fills the rest."""
    attention_map = view.attention_map
    rows = []
    for edge in view.strongest_edges(min(top or ROWS, ROWS)):
        tokens = escape(attention_map.rows[edge.row]), escape(attention_map.columns[edge.column])
        rows.append((str(edge.panel.layer), str(edge.panel.head), *tokens, f"{edge.weight:.3f}"))
    sees = {
        "self": "every token looks at all",
        "masked": "every token looks at itself and at those before it",
        "cross": "every token of the translation looks at all of the source",
    }
    about = f"{attention_map.layers} layers of {attention_map.heads} heads; {sees[attention_map.kind]}. "
    about += "What a token looks at sums to 1."
    if notes := label_notes((*attention_map.rows, *attention_map.columns)):
        about += f" ({'; '.join(notes)})"
    return (
        f'<section data-map="{number}"><h2>{escape(attention_map.name)}</h2>'
        f'<p class="about">{escape(about)}</p>'
        '<div class="live"></div><noscript><p class="about">Choosing layers and heads needs scripts to be allowed; '
        "what is below is there without.</p></noscript>"
        f"<details><summary>The strongest edges of {escape(view.description)}</summary>"
        f"{html_table(('#layer', '#head', 'token', 'looks at', '#weight'), rows)}</details></section>"
    )


def _view_data(view: AttentionView, top: int | None) -> dict[str, Any]:
    """All weights, two bytes each; for long texts only the strongest edges of each head, layer mean and rollout."""
    attention_map, first = view.attention_map, view.panels[0]
    start = {"layer": first.layer, "head": first.head if len(view.panels) == 1 else "mean"}
    data = attention_map.to_dict() | {"columns": list(attention_map.columns), "start": start}
    rollouts = [] if attention_map.kind == "cross" else list(attention_rollouts(attention_map))
    if top is None:
        data["weights"] = _encode_weights(attention_map.weights)
        return data | ({"rollout": _encode_weights(np.stack(rollouts))} if rollouts else {})
    heads: list[HeadChoice] = [*range(1, attention_map.heads + 1), "mean"]
    layers = range(1, attention_map.layers + 1)
    panels = [attention_view(attention_map, layer, head).panels[0] for layer in layers for head in heads]
    panels += [AttentionPanel(layer, "roll-out", weights) for layer, weights in enumerate(rollouts, 1)]
    edges = [edge for panel in panels for edge in AttentionView(attention_map, (panel,), 1).strongest_edges(top)]
    rows = [[edge.panel.layer, edge.panel.head, edge.row, edge.column, round(edge.weight, 4)] for edge in edges]
    return data | {"edges": rows}


def _encode_weights(weights: np.ndarray) -> str:
    return base64.b64encode(np.rint(weights * WEIGHT_LEVELS).astype("<u2").tobytes()).decode()
