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

    Unless the map is cross-attention, a token has the same height on both sides: the slope shows the distance.
    """
    attention_map = view.attention_map
    is_cross = attention_map.kind == "cross"
    query_indices, key_indices = sorted({edge.row for edge in edges}), sorted({edge.column for edge in edges})
    token_columns = (query_indices, key_indices) if is_cross else (sorted({*query_indices, *key_indices}),) * 2
    heights = [_label_heights(indices) for indices in token_columns]
    max_height = max([*heights[0].values(), *heights[1].values()], default=1.0)
    figure = new_figure(7.5, min(0.2 * max_height + 2.2, MAX_INCHES))
    axes = figure.add_subplot()
    colors = _layer_colors(sorted({edge.panel.layer for edge in edges}))
    max_weight = max((edge.weight for edge in edges), default=1.0)
    for edge, offset in zip(reversed(edges), _line_offsets(edges[::-1]), strict=True):
        fraction = edge.weight / max_weight
        style = {"color": colors[edge.panel.layer], "lw": _line_width(fraction), "alpha": 0.25 + 0.65 * fraction}
        ends = (heights[0][edge.row] + offset, heights[1][edge.column] + offset)
        axes.plot((0, 1), ends, solid_capstyle="round", **style)
    queries, keys = (query_indices, attention_map.rows), (key_indices, attention_map.columns)
    for direction, (indices, tokens) in ((-1, queries), (1, keys)):
        column_x = max(direction, 0)
        alignment: Any = {"ha": "left" if direction > 0 else "right", "va": "center"}
        number_x, label_x = column_x + direction * 0.02, column_x + direction * 0.1
        for token_index in indices:
            y = heights[column_x][token_index]
            axes.text(number_x, y, str(token_index + 1), fontsize=6, color=SOFT, **alignment)
            axes.text(label_x, y, shorten_label(tokens[token_index], 18), fontsize=8.5, **alignment)
        axes.text(label_x, -1.4, view.axis_labels[column_x], color=SOFT, **alignment)
    axes.set(xlim=(-0.55, 1.55), ylim=(max_height + 0.7, -2))
    axes.set_axis_off()
    tokens = f"{len(attention_map.rows)} " + (f"and {len(attention_map.columns)} " if is_cross else "") + "tokens"
    subtitle = f"{attention_map.name}, {view.description}: the {len(edges)} strongest edges of {tokens}"
    figure.suptitle(f"{title}\n{subtitle}", fontsize=11)
    _add_legend(figure, colors, max_weight)
    labels = [attention_map.rows[n] for n in query_indices] + [attention_map.columns[n] for n in key_indices]
    if notes := label_notes(labels):
        axes.text(0.5, max_height + 1.2, "; ".join(notes), ha="center", va="center", fontsize=7.5, color=SOFT)
        axes.set_ylim(max_height + 1.6, -2)
    return figure


def _line_offsets(edges: Sequence[AttentionEdge]) -> list[float]:
    """Vertical offsets that separate edges of several heads between the same tokens."""
    ends = [(edge.row, edge.column) for edge in edges]
    counts, num_placed = Counter(ends), Counter[tuple[int, int]]()
    offsets = []
    for edge_ends in ends:
        spacing = min(0.13, 0.6 / counts[edge_ends])
        offsets.append(spacing * (num_placed[edge_ends] - (counts[edge_ends] - 1) / 2))
        num_placed[edge_ends] += 1
    return offsets


def _line_width(fraction: float) -> float:
    return 0.4 + 2.2 * fraction


def _label_heights(indices: Sequence[int]) -> dict[int, float]:
    """Heights of token labels, with gaps where tokens are omitted."""
    heights: dict[int, float] = {}
    height = previous_index = -1
    for index in indices:
        height += 1.0 if index == previous_index + 1 or not heights else 1.5
        heights[index], previous_index = height, index
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
        Line2D([], [], color=SOFT, lw=_line_width(fraction), label=f"weight {fraction * max_weight:.2f}")
        for fraction in (1, 0.5)
    ]
    if len(colors) > 1:
        layers = list(colors)
        shown_layers = sorted({round(index) for index in np.linspace(0, len(layers) - 1, min(len(layers), 8))})
        handles += [Line2D([], [], color=colors[layers[n]], lw=2, label=f"layer {layers[n]}") for n in shown_layers]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False, fontsize=8)


HTML_HINT = "; or --to FILE.html, which leaves fonts to the browser"
MAX_ANNOTATED_TOKENS = 16  # larger maps have no room for the weights in their cells
MAX_GRIDLINE_TOKENS = 40  # in larger maps the lines between cells would dominate
MAX_LABELED_PANELS = 16  # more labeled axes would take minutes to draw
TOTAL_INCHES, MIN_FONT_SIZE = 9.0, 6.0  # width of a grid of maps in inches, and smallest font size in points


def plot_attention(view: AttentionView, title: str, file_format: str, max_edges: int | None = None) -> bytes:
    """The bytes of a figure in this format; with `max_edges`, that many of the strongest edges as lines."""
    attention_map = view.attention_map
    with plot_style([title, attention_map.name, *attention_map.rows, *attention_map.columns], HTML_HINT):
        if max_edges is not None:
            figure = plot_attention_edges(view, title, view.strongest_edges(max_edges))
        elif len(view.panels) == 1:
            figure = _plot_single(view, view.panels[0], title)
        else:
            cell_points = _panel_inches(view) / max(attention_map.weights.shape[2:]) * 72
            is_readable = len(view.panels) <= MAX_LABELED_PANELS and cell_points >= MIN_FONT_SIZE * 1.2
            figure = _plot_grid(view, title) if is_readable else _plot_mosaic(view, title)
        return figure_bytes(figure, file_format)


def _plot_single(view: AttentionView, panel: AttentionPanel, title: str) -> Figure:
    rows, columns = panel.weights.shape
    cell_inches = float(np.clip(6.4 / max(rows, columns), 0.16, 0.55))
    font_size = float(np.clip(cell_inches * 72 * 0.56, 7, 11))
    left_margin, top_margin = _label_inches(view, font_size)
    figure = new_figure(columns * cell_inches + left_margin + 1.5, rows * cell_inches + top_margin + 1.3, "compressed")
    axes = figure.add_subplot()
    image = _draw_heatmap(axes, view, panel, float(panel.weights.max()))
    _label_axes(axes, view, font_size)
    if max(rows, columns) <= MAX_GRIDLINE_TOKENS:
        axes.set_xticks(np.arange(columns - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(rows - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", lw=0.8)
        axes.tick_params(which="minor", length=0)
    axes.set_ylabel(view.axis_labels[0], color=SOFT)
    axes.set_xlabel(view.axis_labels[1], color=SOFT)
    axes.xaxis.set_label_position("top")
    if max(rows, columns) <= MAX_ANNOTATED_TOKENS:
        white_text_threshold = panel.weights.max() * 0.55
        for row, column in zip(*np.nonzero(view.attention_map.visible_mask), strict=True):
            weight = float(panel.weights[row, column])
            color = "white" if weight > white_text_threshold else INK
            label = f"{weight:.2f}".removeprefix("0") if weight < 0.995 else "1"
            axes.text(column, row, label, ha="center", va="center", fontsize=font_size * 0.85, color=color)
    figure.suptitle(f"{title}\n{view.attention_map.name}, {panel.title}", fontsize=11)
    _add_colorbar(figure, view, image, axes)
    return figure


def _plot_grid(view: AttentionView, title: str) -> Figure:
    """A grid of few, small maps with token labels."""
    num_columns, num_rows = view.num_columns, ceil(len(view.panels) / view.num_columns)
    rows, columns = view.attention_map.weights.shape[2:]
    cell_inches = _panel_inches(view) / max(rows, columns)
    font_size = float(np.clip(cell_inches * 72 * 0.78, MIN_FONT_SIZE, 9))
    left_margin, bottom_margin = _label_inches(view, font_size)
    grid_width, grid_height = num_columns * (columns * cell_inches + 0.1), num_rows * (rows * cell_inches + 0.25)
    figure = new_figure(grid_width + left_margin + 1.1, grid_height + bottom_margin + 1.2, "compressed")
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    images, max_weight = [], view.max_weight
    for index, axes in enumerate(grid.flat):
        if index >= len(view.panels):
            axes.set_axis_off()
            continue
        images.append(_draw_heatmap(axes, view, view.panels[index], max_weight))
        axes.set_title(view.summary(view.panels[index]), fontsize=8, pad=3)
        is_bottom = index + num_columns >= len(view.panels)
        _label_axes(axes, view, font_size, left=index % num_columns == 0, top=False, bottom=is_bottom)
    figure.suptitle(f"{title}\n{view.attention_map.name}: {view.description}", fontsize=11)
    axis_note = "rows: the tokens that look; columns: those they look at"
    if view.attention_map.kind == "cross":
        axis_note = "rows: the translation, as it is written; columns: the source, at which it looks"
    _add_colorbar(figure, view, images[0], list(grid.flat), [axis_note])
    return figure


def _panel_inches(view: AttentionView) -> float:
    """Size in inches of the longer side of each map of a grid."""
    num_rows = ceil(len(view.panels) / view.num_columns)
    available_inches = min(TOTAL_INCHES / view.num_columns, (MAX_INCHES - 2.5) / (num_rows * 1.1))
    return min(available_inches, max(1.15, 0.32 * max(view.attention_map.weights.shape[2:])))


def _label_inches(view: AttentionView, font_size: float) -> tuple[float, float]:
    """Inches that the longest row and column labels take; Chinese characters count twice."""
    max_lengths = [
        max(len(name) + int(is_han(code_points(name)).sum()) for name in map(shorten_label, tokens))
        for tokens in (view.attention_map.rows, view.attention_map.columns)
    ]
    return max_lengths[0] * font_size * 0.62 / 72, max_lengths[1] * font_size * 0.62 / 72


def _plot_mosaic(view: AttentionView, title: str) -> Figure:
    """Many maps in one pair of axes: hundreds of axes would take minutes."""
    num_columns, num_rows = view.num_columns, ceil(len(view.panels) / view.num_columns)
    is_layers_by_heads = view.num_layers > 1 and view.num_heads > 1
    rows, columns = view.attention_map.weights.shape[2:]
    panel_width, panel_height = columns / max(rows, columns), rows / max(rows, columns)
    step_x, step_y = panel_width + 0.08, panel_height + (0.08 if is_layers_by_heads else 0.3)  # to the next map
    panel_inches = _panel_inches(view)
    figure_width = max(num_columns * step_x * panel_inches + 1.6, 6.5)
    figure = new_figure(figure_width, num_rows * step_y * panel_inches + 1.9, "compressed")
    axes = figure.add_subplot()
    images, max_weight = [], view.max_weight
    for index, panel in enumerate(view.panels):
        x, y = index % num_columns * step_x, index // num_columns * step_y
        images.append(_draw_heatmap(axes, view, panel, max_weight, (x, x + panel_width, y + panel_height, y)))
        if not is_layers_by_heads:
            axes.text(x + panel_width / 2, y - 0.03, view.summary(panel), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(-0.05, num_columns * step_x), ylim=(num_rows * step_y, -0.05 if is_layers_by_heads else -0.3))
    if is_layers_by_heads:
        font_size = float(np.clip(panel_inches * 8, 5, 9))
        heads = [f"head {panel.head}" for panel in view.panels[:num_columns]]
        layers = [f"layer {panel.layer}" for panel in view.panels[::num_columns]]
        axes.set_xticks([n * step_x + panel_width / 2 for n in range(num_columns)], heads, fontsize=font_size)
        axes.set_yticks([n * step_y + panel_height / 2 for n in range(num_rows)], layers, fontsize=font_size)
        axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        if font_size * 4 > panel_inches * 72:
            axes.tick_params(axis="x", labelrotation=90)
    axes.spines[:].set_visible(False)
    figure.suptitle(f"{title}\n{view.attention_map.name}: {view.description}", fontsize=11)
    _add_colorbar(figure, view, images[0], axes, [_token_listing(view)])
    return figure


def _token_listing(view: AttentionView) -> str:
    """The tokens in order, where labels do not fit."""

    def line(tokens: tuple[str, ...]) -> str:
        lines, current_line = [], ""
        for word in tokens:
            if len(current_line) + len(word) > 110:
                lines, current_line = [*lines, current_line], ""
            current_line += ("  " if current_line else "") + word
        return "\n".join([*lines, current_line])

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
    left, right, bottom, top = bounds = extent or (-0.5, columns - 0.5, rows - 0.5, -0.5)
    weights = np.ma.masked_array(panel.weights, ~view.attention_map.visible_mask)
    style = {"vmin": 0, "vmax": max_weight, "aspect": "equal", "interpolation": "nearest", "extent": bounds}
    if view.attention_map.kind == "masked":
        hatch_background(axes, bounds)
    image = axes.imshow(weights, cmap=blue_colormap(), **style)
    axes.set(xticks=[], yticks=[])
    for border in view.attention_map.text_starts if view.attention_map.kind != "cross" else ():
        x, y = left + (right - left) * border / columns, top + (bottom - top) * border / rows
        for ends in (((left, right), (y, y)), ((x, x), (bottom, top))):
            axes.plot(*ends, color=ACCENT, lw=1, ls=(0, (4, 2)), scalex=False, scaley=False)
    return image


def _label_axes(
    axes: Axes, view: AttentionView, font_size: float, *, left: bool = True, top: bool = True, bottom: bool = False
) -> None:
    """Token labels; column labels are rotated unless they are short or can be stacked."""
    axes.tick_params(length=0, labelsize=font_size)
    if left:
        axes.set_yticks(range(len(view.attention_map.rows)), list(map(shorten_label, view.attention_map.rows)))
    if top or bottom:
        columns = list(map(shorten_label, view.attention_map.columns))
        tick_labels = ["\n".join(name) if _is_stackable(name) else name for name in columns]
        axes.tick_params(axis="x", top=False, bottom=False, labeltop=top, labelbottom=bottom)
        axes.set_xticks(range(len(columns)), tick_labels)
        for name, label in zip(columns, axes.get_xticklabels(), strict=True):
            label.set(rotation=0 if _is_stackable(name) or len(name) == 1 else 90, linespacing=1.0)


def _is_stackable(name: str) -> bool:
    """Whether a label can be written vertically (Chinese)."""
    return len(name) <= 4 and bool(is_han(code_points(name)).all())


def _add_colorbar(
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

MAX_TABLE_ROWS = 20  # rows of the table shown without scripts
WEIGHT_LEVELS = 65535  # quantization levels of a weight: two bytes


def attention_page(views: Sequence[tuple[AttentionView, int | None]], title: str) -> str:
    """The HTML page that shows these views first; the number with a view limits its data to so many edges per head."""
    style, script = (read_assets("forebear.inspection", name) for name in ("attention.css", "attention.js"))
    data = json.dumps([_view_data(view, max_edges) for view, max_edges in views], ensure_ascii=False).replace(
        "<", "\\u003c"
    )
    sections = "".join(_section(index, view, max_edges) for index, (view, max_edges) in enumerate(views))
    scripts = f'<script type="application/json" id="maps">{data}</script><script>{script}</script>'
    return html_page(title, f"<h1>{escape(title)}</h1>{sections}", style, scripts)


def _section(index: int, view: AttentionView, max_edges: int | None) -> str:
    """The HTML that works without scripts; the script adds the interactive view."""
    attention_map = view.attention_map
    rows = []
    for edge in view.strongest_edges(min(max_edges or MAX_TABLE_ROWS, MAX_TABLE_ROWS)):
        tokens = escape(attention_map.rows[edge.row]), escape(attention_map.columns[edge.column])
        rows.append((str(edge.panel.layer), str(edge.panel.head), *tokens, f"{edge.weight:.3f}"))
    visibility = {
        "self": "every token looks at all",
        "masked": "every token looks at itself and at those before it",
        "cross": "every token of the translation looks at all of the source",
    }
    description = f"{attention_map.layers} layers of {attention_map.heads} heads; {visibility[attention_map.kind]}. "
    description += "What a token looks at sums to 1."
    if notes := label_notes((*attention_map.rows, *attention_map.columns)):
        description += f" ({'; '.join(notes)})"
    return (
        f'<section data-map="{index}"><h2>{escape(attention_map.name)}</h2>'
        f'<p class="about">{escape(description)}</p>'
        '<div class="live"></div><noscript><p class="about">Choosing layers and heads needs scripts to be allowed; '
        "what is below is there without.</p></noscript>"
        f"<details><summary>The strongest edges of {escape(view.description)}</summary>"
        f"{html_table(('#layer', '#head', 'token', 'looks at', '#weight'), rows)}</details></section>"
    )


def _view_data(view: AttentionView, max_edges: int | None) -> dict[str, Any]:
    """All weights, two bytes each; for long texts only the strongest edges of each head, layer mean and rollout."""
    attention_map, first_panel = view.attention_map, view.panels[0]
    initial_view = {"layer": first_panel.layer, "head": first_panel.head if len(view.panels) == 1 else "mean"}
    data = attention_map.to_dict() | {"columns": list(attention_map.columns), "start": initial_view}
    rollouts = [] if attention_map.kind == "cross" else list(attention_rollouts(attention_map))
    if max_edges is None:
        data["weights"] = _encode_weights(attention_map.weights)
        return data | ({"rollout": _encode_weights(np.stack(rollouts))} if rollouts else {})
    heads: list[HeadChoice] = [*range(1, attention_map.heads + 1), "mean"]
    layers = range(1, attention_map.layers + 1)
    panels = [attention_view(attention_map, layer, head).panels[0] for layer in layers for head in heads]
    panels += [AttentionPanel(layer, "roll-out", weights) for layer, weights in enumerate(rollouts, 1)]
    edges = [edge for panel in panels for edge in AttentionView(attention_map, (panel,), 1).strongest_edges(max_edges)]
    rows = [[edge.panel.layer, edge.panel.head, edge.row, edge.column, round(edge.weight, 4)] for edge in edges]
    return data | {"edges": rows}


def _encode_weights(weights: np.ndarray) -> str:
    return base64.b64encode(np.rint(weights * WEIGHT_LEVELS).astype("<u2").tobytes()).decode()
