"""Figures and HTML pages of word vectors: neighbors, projections, norms by frequency, and word senses."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.embeddings.lexicon import WordNeighbors
from forebear.inspection.occurrences import Occurrence
from forebear.inspection.senses import RunSenses, SenseAnalysis
from forebear.inspection.word_vector_geometry import VectorNorms, WordProjection
from forebear.reports.page import html_page, html_table, read_assets
from forebear.reports.plotting import (
    ACCENT,
    BLUE,
    FAINT,
    INK,
    SOFT,
    figure_bytes,
    new_figure,
    place_point_labels,
    plot_style,
    shorten_label,
    undrawable_texts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

CLUSTER_COLORS = ("#1c4f9c", "#c2410c", "#2f7d4f", "#7b3fa0", "#a16207", "#0e7490", "#be185d", "#4d5b6a")
NEIGHBOR_COLUMNS = 3  # neighbor charts side by side
MAX_PLOTTED_WORDS = 20_000  # in a plot of norms; a random sample of more words
MAX_LABELED_WORDS = 60  # in a plot of norms
LABEL_FONT_SIZE = 8
HTML_HINT = ", or let a browser do it: --to FILE.html"


def cluster_color(cluster: int) -> str:
    return CLUSTER_COLORS[cluster % len(CLUSTER_COLORS)]


def plot_neighbors(answers: Sequence[WordNeighbors], title: str, file_format: str) -> bytes:
    """A bar chart of cosines for each word, on a common scale, with counts at the right."""
    names = [[shorten_label(neighbor.word) for neighbor in answer.nearest] for answer in answers]
    titles = [shorten_label(answer.text, 40) for answer in answers]
    with plot_style([title, "×", *titles, *chain.from_iterable(names)], HTML_HINT):
        columns = min(NEIGHBOR_COLUMNS, len(answers))
        rows, max_neighbors = math.ceil(len(answers) / columns), max(map(len, names))
        figure = new_figure(3.9 * columns + 0.3, rows * (0.24 * max_neighbors + 0.75) + 0.5)
        figure.set_layout_engine("constrained", wspace=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(answers) :]:
            axes.set_visible(False)
        max_cosine = max((neighbor.cosine for answer in answers for neighbor in answer.nearest), default=1.0)
        for axes, answer, names_of_answer in zip(grid, answers, names, strict=False):
            _plot_bars(axes, answer, names_of_answer, max(max_cosine, 0.05))
        figure.suptitle(title, fontsize=11)
        return figure_bytes(figure, file_format)


def _plot_bars(axes: Axes, answer: WordNeighbors, names: Sequence[str], max_cosine: float) -> None:
    rows = range(len(names))
    axes.barh(rows, [neighbor.cosine for neighbor in answer.nearest], color=BLUE, height=0.68)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    min_cosine = min((neighbor.cosine for neighbor in answer.nearest), default=0.0)
    count_note = " (at the right: times seen)" if any(neighbor.count is not None for neighbor in answer.nearest) else ""
    axes.set(xlim=(min(min_cosine * 1.35, 0), max_cosine * 1.4), xlabel=f"cosine{count_note}")
    axes.set_xticks([tick for tick in axes.get_xticks() if min(min_cosine * 1.35, 0) <= tick <= 1])
    count_style: Any = {"va": "center", "ha": "right", "fontsize": 7, "color": SOFT}
    for row, neighbor in zip(rows, answer.nearest, strict=True):
        count_text = "" if neighbor.count is None else f"  {neighbor.count:,}×"
        axes.text(max(neighbor.cosine, 0), row, f" {neighbor.cosine:.3f}", va="center", fontsize=7.5)
        axes.text(0.995, row, count_text, transform=axes.get_yaxis_transform(), **count_style)
    axes.set_title(shorten_label(answer.text, 40), fontsize=10, loc="left", fontweight="bold")
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#eceae6", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def plot_projection(projection: WordProjection, title: str, file_format: str) -> bytes:
    """Labeled points; words that no installed font can draw get no label, unless those are all words."""
    names = [shorten_label(word, 24) for word in projection.words]
    undrawable_names = set(undrawable_texts(names))
    if undrawable_names.issuperset(names):
        undrawable_names = set[str]()  # plot_style raises an error with a hint
    with plot_style([title, *(name for name in names if name not in undrawable_names)], HTML_HINT):
        size_inches = 6.5 if len(names) <= 40 else 8.5 if len(names) <= 150 else 10.5
        figure = new_figure(size_inches * 1.3, size_inches)
        axes = figure.subplots()
        colors = [cluster_color(group) for group in projection.groups]
        sizes = [26 if is_highlighted else 12 for is_highlighted in projection.highlights]
        axes.scatter(*projection.points.T, c=colors, s=sizes, lw=0, zorder=3)
        axes.set(xlabel=f"first component: {projection.explained_variance[0]:.1%} of the variance")
        axes.set(ylabel=f"second component: {projection.explained_variance[1]:.1%}")
        axes.margins(0.07)
        for axis_line in (axes.axhline, axes.axvline):
            axis_line(0, color=FAINT, lw=0.6, zorder=1)
        axes.tick_params(length=0, labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_aspect("equal", adjustable="datalim")
        subtitle = "vectors of length 1, projected"
        suptitle = figure.suptitle(f"{title}\n{subtitle}", fontsize=11)
        drawable = (index for index, name in enumerate(names) if name not in undrawable_names)
        order = sorted(drawable, key=lambda index: not projection.is_query[index])
        styles = [(colors[index], projection.highlights[index]) for index in order]
        num_labeled = _draw_labels(figure, axes, projection.points[order], [names[index] for index in order], styles)
        label_note = ""
        if num_labeled < len(order):
            label_note = f"{num_labeled:,} of {len(names):,} words have room for their names; "
        if undrawable_names:
            label_note += f"no font here has all characters of {len(names) - len(order):,}; "
        suptitle.set_text(f"{title}\n{label_note}{subtitle}")  # replaces the placeholder, now that the layout is fixed
        return figure_bytes(figure, file_format)


def plot_norms(norms: VectorNorms, title: str, file_format: str) -> bytes:
    rows = np.arange(len(norms.words))
    if len(rows) > MAX_PLOTTED_WORDS:
        rows = np.random.default_rng(0).choice(rows, MAX_PLOTTED_WORDS, replace=False)
    labels = {row: shorten_label(norms.words[row], 20) for row in labeled_words(norms)}
    undrawable_labels = set(undrawable_texts(labels.values()))
    labels = {row: label for row, label in labels.items() if label not in undrawable_labels}
    labeled_rows, rows = list(labels), np.union1d(rows, list(labels))
    with plot_style([title, *labels.values()], HTML_HINT):
        figure = new_figure(10.5, 6.6)
        axes = figure.subplots()
        counts = np.maximum(norms.counts, 1)
        opacity = np.ones(len(norms.words))  # dots of rare words are many and overlap
        for band in norms.bands:
            is_in_band = (norms.counts >= band.min_count) & (norms.counts <= band.max_count)
            opacity[is_in_band] = min(0.9, max(0.1, 11 / math.sqrt(band.num_words)))
        style: Any = {"s": 6, "lw": 0, "alpha": opacity[rows], "rasterized": True}
        axes.scatter(counts[rows], norms.norms[rows], color=BLUE, **style)
        band_centers = [band.center for band in norms.bands]
        medians = [band.median for band in norms.bands]
        axes.plot(band_centers, medians, color=ACCENT, marker="o", ms=4, label="median of a band")
        quantile_curves = ([band.quantile_10 for band in norms.bands], [band.quantile_90 for band in norms.bands])
        axes.fill_between(band_centers, *quantile_curves, color=ACCENT, alpha=0.12, lw=0, label="eight of ten words")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
        axes.set(xlabel="times seen", ylabel="length of the vector", ylim=(0, float(norms.norms.max()) * 1.08))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="best")
        subtitle = f"Spearman's correlation of length and frequency: {norms.correlations[0]}"
        if len(rows) < len(norms.words):
            subtitle += f"; {len(rows):,} of {len(norms.words):,} words are drawn"
        figure.suptitle(f"{title}\n{subtitle}", fontsize=11)
        points = np.stack((counts[labeled_rows], norms.norms[labeled_rows]), 1).astype(float)
        _draw_labels(figure, axes, points, list(labels.values()), [(INK, False)] * len(labels))
        return figure_bytes(figure, file_format)


def labeled_words(norms: VectorNorms) -> list[int]:
    """The words with the longest and shortest vectors, the most frequent words, and words of all frequency ranks."""
    order = np.argsort(-norms.counts, kind="stable")
    rank_spaced_rows = order[np.unique(np.geomspace(1, len(order), MAX_LABELED_WORDS).astype(int)) - 1].tolist()
    longest, shortest = norms.extremes
    return list(dict.fromkeys([*longest, *rank_spaced_rows, *shortest]))[:MAX_LABELED_WORDS]


def _draw_labels(
    figure: Figure, axes: Axes, points: np.ndarray, names: Sequence[str], styles: Sequence[tuple[str, bool]]
) -> int:
    """Draw the labels that fit, in order; returns their number."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # fixes the layout
    figure.set_layout_engine("none")
    renderer, texts, sizes = canvas.get_renderer(), [], []
    for name, (color, is_bold) in zip(names, styles, strict=True):
        weight: Any = {"fontweight": "bold"} if is_bold else {}
        text = axes.text(0, 0, name, fontsize=LABEL_FONT_SIZE, color=color, ha="left", va="bottom", zorder=4, **weight)
        text.set_path_effects([withStroke(linewidth=1.6, foreground="white")])
        texts.append(text)
        extent = text.get_window_extent(renderer)
        sizes.append((extent.width + 2, extent.height))
    axes_box, dot_positions = axes.get_window_extent(renderer), axes.transData.transform(points)
    area = (axes_box.x0, axes_box.y0, axes_box.x1, axes_box.y1)
    boxes = place_point_labels(dot_positions, sizes, area, gap=figure.dpi / 30)
    for text, box in zip(texts, boxes, strict=True):
        if box is None:
            text.remove()
        else:
            text.set_position(tuple(axes.transData.inverted().transform(box[:2])))
    return sum(box is not None for box in boxes)


# --- Word senses: occurrences in a plane, colored by cluster, with a concordance ---

SENSE_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")  # of gold senses
MAX_SENTENCES = 18  # in the concordance
CLUSTER_GAP, MIN_LINES = 1.6, 14  # lines between clusters, and minimum height in lines
# The concordance is excluded from the layout: a long sentence would leave no room for the planes.
CONCORDANCE_STYLE: Any = {"fontsize": 8.0, "va": "baseline", "in_layout": False}
CONTEXT_COLUMNS = 44  # columns of context on either side; Chinese characters take two
MAX_OTHER_PLANES = 3  # of other runs


def plot_senses(analysis: SenseAnalysis, title: str, file_format: str) -> bytes:
    """The plane of the run's vectors on the left, a concordance on the right, planes of other runs below."""
    sentences = [_drawable_sentences(analysis.result, index) for index in range(len(analysis.result.groups))]
    lines = [part for group in sentences for result in group for part in occurrence_context(result)]
    others = analysis.others[:MAX_OTHER_PLANES]
    names = [part for result in (analysis.result, *others) for part in (result.name, result.conclusion)]
    texts = [*lines, *analysis.labels, title, *names]
    with plot_style(texts, HTML_HINT):
        figure = new_figure(12.6, 7.0)
        columns = max(2, len(others)) if others else 1
        rows: Any = [[*["own"] * columns, *["text"] * columns]]
        if others:
            rows.append([*["own"] * columns, *(str(index) for index in range(columns))])
        grid = figure.subplot_mosaic(rows, height_ratios=(1.7, 1)[: len(rows)])
        _plot_plane(grid["own"], analysis, analysis.result, large=True)
        _plot_concordance(grid["text"], analysis, sentences)
        for index, result in enumerate(others):
            _plot_plane(grid[str(index)], analysis, result, large=False)
        for index in range(len(others), columns if others else 0):
            grid[str(index)].set_visible(False)
        figure.suptitle(f"{title}\n{analysis.result.conclusion}", fontsize=11)
        return figure_bytes(figure, file_format)


def _drawable_sentences(result: RunSenses, cluster: int) -> list[Occurrence]:
    """The most typical sentences of a cluster that can be drawn; if none can, the font error follows."""
    max_sentences = max(1, MAX_SENTENCES // len(result.groups))
    members = result.typical_occurrences(cluster, 4 * max_sentences)
    undrawable_sentences = set(undrawable_texts(occurrence.sentence for occurrence in members))
    drawable = [occurrence for occurrence in members if occurrence.sentence not in undrawable_sentences]
    return (drawable or members)[:max_sentences]


def occurrence_context(occurrence: Occurrence, max_columns: int = CONTEXT_COLUMNS) -> tuple[str, str, str]:
    """The truncated text before the word, the word, and the truncated text after it, without line breaks."""
    before, word, after = (" ".join(part.split()) for part in (occurrence.before, occurrence.surface, occurrence.after))
    return _truncate(before[::-1], max_columns)[::-1], word, _truncate(after, max_columns)


def _truncate(text: str, max_columns: int) -> str:
    """The beginning of the text that fits, with an ellipsis if it is truncated."""
    used_columns = 0
    for index, character in enumerate(text):
        used_columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used_columns > max_columns:
            return text[: max(0, index - 1)].rstrip() + "…"
    return text


def _plot_plane(axes: Axes, analysis: SenseAnalysis, result: RunSenses, *, large: bool) -> None:
    for line in (axes.axhline, axes.axvline):
        line(0, color=FAINT, lw=0.6, zorder=1)
    if result.is_by_spelling:
        _plot_spellings(axes, result)
    else:
        _plot_occurrences(axes, analysis, result, large=large)
    axes.spines[["top", "right", "left", "bottom"]].set_color(FAINT)
    summary = cluster_summary(analysis, result, separator=" · " if large else "\n")
    axes.set_title(f"{shorten_label(result.name, 48)}\n{summary}", fontsize=9.5 if large else 8.5, loc="left")


def _plot_occurrences(axes: Axes, analysis: SenseAnalysis, result: RunSenses, *, large: bool) -> None:
    """A dot for each occurrence: colors are clusters, markers are gold senses."""
    points, (first, second) = result.plane
    for sense in analysis.labels or ("",):
        is_shown = np.array([not analysis.labels or occurrence.sense == sense for occurrence in result.occurrences])
        marker = SENSE_MARKERS[analysis.labels.index(sense) % len(SENSE_MARKERS)] if analysis.labels else "o"
        colors = [cluster_color(cluster) for cluster in result.clustering.labels[is_shown]]
        style: Any = {"s": 30 if large else 12, "lw": 0.4, "edgecolors": "white", "alpha": 0.85, "zorder": 3}
        axes.scatter(*points[is_shown].T, c=colors, marker=marker, label=sense, **style)
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"{first:.0%} of the variance" if large else f"{first:.0%}", fontsize=8 if large else 7)
    axes.set_ylabel(f"{second:.0%}", fontsize=8 if large else 7)
    axes.tick_params(length=0, labelsize=6, labelcolor=SOFT)
    if large and analysis.labels:
        legend = axes.legend(frameon=False, fontsize=8, loc="best", title="known meaning", title_fontsize=8)
        for handle in legend.legend_handles:
            if handle is not None:
                handle.set_color(INK)  # pyright: ignore[reportAttributeAccessIssue] - of dots


def _plot_spellings(axes: Axes, result: RunSenses) -> None:
    """One dot per spelling of the word, for vectors that depend on nothing else."""
    axes.set(ylim=(-1, 1), xticks=[], yticks=[])
    if result.clustering.num_distinct == 1:
        max_offset = 1.0
        dots = [(0, 0.0, f"{len(result.occurrences):,} occurrences,\none vector")]
    else:
        points, _ = result.plane
        max_offset = float(np.abs(points).max())
        surfaces = [occurrence.surface for occurrence in result.occurrences]
        first_rows = {surface: surfaces.index(surface) for surface in surfaces}
        dots = [
            (first_row, float(points[first_row, 0]), f"{surfaces.count(surface):,} × {surface}")
            for surface, first_row in first_rows.items()
        ]
    axes.set_xlim(-2 * max_offset, 2 * max_offset)
    for row, x, label in dots:
        axes.scatter(x, 0, s=260, color=cluster_color(result.clustering.labels[row]), lw=0, zorder=4)
        axes.text(x, -0.28, label, ha="center", va="top", fontsize=9, color=INK)


def cluster_summary(analysis: SenseAnalysis, result: RunSenses, separator: str = " · ") -> str:
    """Number of clusters, silhouette, and agreement with gold senses."""
    clustering = result.clustering
    group_summary = f"{clustering.num_clusters} groups, silhouette {clustering.silhouette or 0:.2f}"
    parts = [group_summary if clustering.num_clusters > 1 else "1 group"]
    if analysis.labels and result.agreement is not None:
        agreement = result.agreement[0]
        rand_note = f"Rand index {agreement.adjusted_rand:.2f}"
        if agreement.num_clusters > len(analysis.labels):
            rand_note += f", of joined groups {agreement.merged_adjusted_rand:.2f}"
        parts += [f"purity {agreement.purity:.2f} (by chance {agreement.shuffled_purity:.2f})", rand_note]
    return separator.join(parts)


def _plot_concordance(axes: Axes, analysis: SenseAnalysis, sentences: Sequence[Sequence[Occurrence]]) -> None:
    """Occurrences aligned at the word, one block per cluster."""
    axes.set_axis_off()
    num_lines = sum(len(occurrences) + CLUSTER_GAP for occurrences in sentences)
    axes.set(xlim=(0, 1), ylim=(max(num_lines, MIN_LINES), -0.5))
    y = 0.0
    for index, occurrences in enumerate(sentences):
        color, members = cluster_color(index), analysis.result.groups[index].members
        summary = f"{len(members):,} occurrences{analysis.label_counts(members)}"
        heading = axes.text(0, y, f"group {index + 1}", color=color, fontweight="bold", **CONCORDANCE_STYLE)
        _annotate_beside(axes, heading, summary, 8, SOFT)
        for occurrence in occurrences:
            y += 1
            before, word_text, after = occurrence_context(occurrence)
            word = axes.text(0.5, y, word_text, ha="center", color=color, fontweight="bold", **CONCORDANCE_STYLE)
            _annotate_beside(axes, word, after, 2.4 if occurrence.after[:1].isspace() else 0.4, INK)
            _annotate_beside(axes, word, before, -2.4 if occurrence.before[-1:].isspace() else -0.4, INK)
        y += CLUSTER_GAP


def _annotate_beside(axes: Axes, anchor: Text, text: str, points: float, color: str) -> None:
    """Text at a distance in points to the right (or left, if negative) of another text."""
    is_right = points > 0
    options: Any = {"xycoords": (anchor, "data"), "textcoords": "offset points", "annotation_clip": False}
    options |= {"ha": "left" if is_right else "right", "color": color} | CONCORDANCE_STYLE
    axes.annotate(text, (1 if is_right else 0, anchor.get_position()[1]), (points, 0), **options)


# --- HTML pages without scripts: neighbor tables, and planes of labeled dots ---

PLANE_WIDTH, PLANE_HEIGHT, PLANE_MARGIN = 1000, 680, 40  # size and margin of a plane in SVG units
PLANE_SIZE = np.array((PLANE_WIDTH - 2 * PLANE_MARGIN, PLANE_HEIGHT - 2 * PLANE_MARGIN))
LABEL_HEIGHT = 13
MAX_PAGE_DOTS = 3000  # in a page of norms, evenly from all frequency ranks


@dataclass(frozen=True)
class PlotPoint:
    """A word at (x, y), both from 0 to 1, with a tooltip."""

    name: str
    x: float
    y: float
    tooltip: str
    tint: str = CLUSTER_COLORS[0]
    is_query: bool = False
    is_labeled: bool = True  # whether its label is shown if it fits, or only on hover


def neighbors_page(answers: Sequence[WordNeighbors], title: str) -> str:
    body = ""
    for answer in answers:
        rows = []
        for neighbor in answer.nearest:
            direction = "for" if neighbor.cosine >= 0 else "against"
            bar = f'<span class="bar {direction}" style="width:{abs(neighbor.cosine):.1%}"></span>'
            rows.append((escape(neighbor.word), bar, f"{neighbor.cosine:.3f}", _count_text(neighbor.count)))
        note = f'<p class="about">{escape(answer.note)}</p>' if answer.note else ""
        table = html_table(("word", "", "#cosine", "#seen"), rows, "near")
        body += f"<section><h2>{escape(answer.text)}</h2>{note}{table}</section>"
    return _words_page(title, "How near each word is (cosine), and how often it was seen.", body)


def projection_page(projection: WordProjection, title: str) -> str:
    columns = projection.words, projection.points.tolist(), projection.counts
    words = zip(*columns, strict=True)
    rows = ((escape(word), f"{x:+.4f}", f"{y:+.4f}", _count_text(count)) for word, (x, y), count in words)
    table = html_table(("word", "#first", "#second", "#seen"), rows)
    dots = []
    for index, (word, position) in enumerate(zip(projection.words, _scale_to_plane(projection.points), strict=True)):
        tooltip, color = word + _count_suffix(projection.counts[index]), cluster_color(projection.groups[index])
        dots.append(PlotPoint(word, *position, tooltip, color, projection.highlights[index]))
    description = (
        f"{len(dots):,} words: the directions in which their vectors, of length 1, differ most; to the right "
        f"{projection.explained_variance[0]:.1%} of the variance, upwards {projection.explained_variance[1]:.1%}. "
        "A dot that is pointed at tells its name."
    )
    plane_svg = _svg_plane(sorted(dots, key=lambda dot: not dot.is_query))
    return _words_page(title, description, f"{plane_svg}<details open><summary>Figures</summary>{table}</details>")


def _scale_to_plane(points: np.ndarray) -> list[tuple[float, float]]:
    """Points (n, 2) from 0 to 1, with one scale for both axes."""
    minima, maxima = points.min(0), points.max(0)
    scale = float((PLANE_SIZE / np.maximum(maxima - minima, 1e-9)).min())
    return [(x, y) for x, y in ((points - (minima + maxima) / 2) * scale / PLANE_SIZE + 0.5).tolist()]


def norms_page(norms: VectorNorms, title: str) -> str:
    log_counts = np.log10(np.maximum(norms.counts, 1))
    max_log_count, max_norm = float(log_counts.max()) or 1.0, float(norms.norms.max()) or 1.0
    labeled_rows = labeled_words(norms)
    order = np.argsort(-norms.counts, kind="stable")
    sampled_rows = order[:: max(1, math.ceil(len(order) / MAX_PAGE_DOTS))].tolist()
    dots = []
    for row in dict.fromkeys([*labeled_rows, *sampled_rows]):
        tooltip = f"{norms.words[row]}{_count_suffix(int(norms.counts[row]))}: {norms.norms[row]:.3f}"
        position = float(log_counts[row]) / max_log_count, float(norms.norms[row]) / max_norm
        dots.append(PlotPoint(norms.words[row], *position, tooltip, is_labeled=row in labeled_rows))
    median_line = [(math.log10(band.center) / max_log_count, band.median / max_norm) for band in norms.bands]
    description = (
        f"{len(dots):,} of {len(norms.words):,} words: to the right how often a word was seen (logarithm, up to "
        f"{int(norms.counts.max()):,} times), upwards how long its vector is (from 0 to {max_norm:.3g}); the line is "
        f"the median. Spearman's correlation of both: {norms.correlations[0]}; of a word's frequency and its "
        f"neighbours': {norms.correlations[1]}."
    )
    rows = []
    for band in norms.bands:
        counts = f"{band.min_count:,} to {band.max_count:,}"
        quantiles = f"{band.quantile_10:.3f} to {band.quantile_90:.3f}"
        cosine = "" if band.cosine is None else f"{band.cosine:.3f}"
        rows.append((counts, f"{band.num_words:,}", f"{band.median:.3f}", quantiles, cosine))
    table = html_table(("#times seen", "#words", "#median length", "#eight of ten", "#mean cosine of two"), rows)
    bands_html = f"<details open><summary>Bands</summary>{table}</details>"
    return _words_page(title, description, _svg_plane(dots, median_line) + bands_html)


def _words_page(title: str, description: str, body: str, *styles: str) -> str:
    """A complete page; `styles` are extra style sheets of this package."""
    main_html = f'<h1>{escape(title)}</h1><p class="about">{escape(description)}</p>{body}'
    return html_page(title, main_html, read_assets("forebear.inspection", "page.css", "words.css", *styles))


def _count_text(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _count_suffix(count: int | None) -> str:
    return "" if count is None else f", seen {count:,} times"


def _svg_plane(dots: Sequence[PlotPoint], line_points: Sequence[tuple[float, float]] = ()) -> str:
    """Dots with the labels that fit; other labels appear on hover or keyboard focus."""
    positions = PLANE_MARGIN + np.array([(dot.x, dot.y) for dot in dots]) * PLANE_SIZE
    sizes = [(_label_width(dot.name), LABEL_HEIGHT * 1.1) if dot.is_labeled else (math.inf, 0.0) for dot in dots]
    boxes = place_point_labels(positions, sizes, (0, 0, PLANE_WIDTH, PLANE_HEIGHT), gap=5)
    polyline_points = " ".join(
        f"{PLANE_MARGIN + x * PLANE_SIZE[0]:.1f},{PLANE_HEIGHT - PLANE_MARGIN - y * PLANE_SIZE[1]:.1f}"
        for x, y in line_points
    )
    line_svg = f'<polyline class="level" points="{polyline_points}"/>' if line_points else ""
    labeled_last = sorted(zip(dots, positions, boxes, strict=True), key=lambda item: item[2] is not None)
    dots_svg = "".join(_svg_dot(*item) for item in labeled_last)
    view_box = f"0 0 {PLANE_WIDTH} {PLANE_HEIGHT}"
    return f'<svg class="plane" viewBox="{view_box}" role="img" aria-label="words">{dots_svg}{line_svg}</svg>'


def _svg_dot(dot: PlotPoint, position: np.ndarray, box: tuple[float, float, float, float] | None) -> str:
    x, y = float(position[0]), PLANE_HEIGHT - float(position[1])
    label_position = (x + 6, y - 4) if box is None else (box[0], PLANE_HEIGHT - box[1] - LABEL_HEIGHT * 0.25)
    css_classes = "dot" + " named" * (box is not None) + " asked" * dot.is_query
    anchor = ' text-anchor="end"' if box is None and x > PLANE_WIDTH * 0.8 else ""
    x_shift, center = -12 if anchor else 0, f'cx="{x:.1f}" cy="{y:.1f}"'
    return (
        f'<g class="{css_classes}" tabindex="0" style="--tint:{dot.tint}"><title>{escape(dot.tooltip)}</title>'
        f'<circle class="ring" {center} r="8"/><circle {center} r="{4 if dot.is_query else 3}"/>'
        f'<text x="{label_position[0] + x_shift:.1f}" y="{label_position[1]:.1f}"{anchor}>{escape(dot.name)}</text></g>'
    )


def _label_width(text: str) -> float:
    """Approximate width of a label; Chinese characters are square."""
    widths = (1.0 if unicodedata.east_asian_width(character) in "WF" else 0.6 for character in text)
    return sum(LABEL_HEIGHT * width for width in widths) + 2


# --- HTML page of word senses: planes of occurrences, and all sentences by cluster ---

MAX_OPEN_SENTENCES = 12  # shown per cluster; the rest is collapsed
TOOLTIP_COLUMNS = 26  # columns of context in a dot's label


def senses_page(analysis: SenseAnalysis, title: str) -> str:
    result = analysis.result
    description = f"{len(result.occurrences):,} occurrences by {result.name}: {result.conclusion}."
    description += " A dot that is pointed at tells its words."
    body = _senses_plane(analysis, result)
    body += "".join(_cluster_section(analysis, index) for index in range(len(result.groups)))
    for other_result in analysis.others:
        heading = f"<h2>beside: {escape(other_result.name)}</h2>"
        body += f"<section>{heading}{_senses_plane(analysis, other_result)}</section>"
    body += "".join(f'<p class="about">{escape(note)}</p>' for note in analysis.notes)
    return _words_page(title, description, body, "senses.css")


def _senses_plane(analysis: SenseAnalysis, result: RunSenses) -> str:
    """Summary and dots, or the conclusion where all dots would coincide."""
    summary = f'<p class="about">{escape(cluster_summary(analysis, result))}</p>'
    if result.is_by_spelling:
        return f'{summary}<p class="about">{escape(result.conclusion)}</p>'
    labeled_rows, dots = {group.members[0] for group in result.groups}, []
    positions = _scale_to_plane(result.plane[0])
    for index, (occurrence, position) in enumerate(zip(result.occurrences, positions, strict=True)):
        cluster = int(result.clustering.labels[index])
        sense = "" if occurrence.sense is None else f" ({occurrence.sense})"
        tooltip = f"group {cluster + 1}{sense}: {' '.join(occurrence.sentence.split())}"
        before, word, after = occurrence_context(occurrence, TOOLTIP_COLUMNS)
        name = f"{before}{' ' * occurrence.before[-1:].isspace()}{word}{' ' * occurrence.after[:1].isspace()}{after}"
        dots.append(PlotPoint(name, *position, tooltip, cluster_color(cluster), is_labeled=index in labeled_rows))
    return summary + _svg_plane(sorted(dots, key=lambda dot: not dot.is_labeled))


def _cluster_section(analysis: SenseAnalysis, cluster: int) -> str:
    group, color = analysis.result.groups[cluster], cluster_color(cluster)
    summary = f"{len(group.members):,} occurrences{analysis.label_counts(group.members)}"
    summary += f"; mean cosine {group.cohesion:.3f}"
    sentences = [_sentence_html(analysis.result.occurrences[member]) for member in group.members]
    open_list, collapsed_list = (
        f'<ul class="sense">{"".join(items)}</ul>'
        for items in (sentences[:MAX_OPEN_SENTENCES], sentences[MAX_OPEN_SENTENCES:])
    )
    details = f"<details><summary>{len(sentences) - MAX_OPEN_SENTENCES:,} more</summary>{collapsed_list}</details>"
    return (
        f'<section style="--tint:{color}"><h2 class="of">group {cluster + 1}</h2><p class="about">{escape(summary)}</p>'
        f"{open_list}{details if len(sentences) > MAX_OPEN_SENTENCES else ''}</section>"
    )


def _sentence_html(occurrence: Occurrence) -> str:
    sense_html = "" if occurrence.sense is None else f'<span class="known">{escape(occurrence.sense)}</span>'
    before, word, after = map(escape, (occurrence.before, occurrence.surface, occurrence.after))
    return f"<li>{sense_html}{before}<mark>{word}</mark>{after}</li>"
