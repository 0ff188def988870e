"""Words as pictures: which are near and how near, where they lie in a plane, and how long vectors are by frequency."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.embeddings.lexicon import WordNeighbors
from forebear.inspection.attribution import CONTENT_SECURITY_POLICY
from forebear.inspection.embedding_space import VectorNorms, WordProjection
from forebear.inspection.occurrences import Occurrence
from forebear.inspection.senses import RunSenses, SenseAnalysis
from forebear.reports.plotting import (
    ACCENT,
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

BLUE = "#1c4f9c"
CLUSTER_COLORS = ("#1c4f9c", "#c2410c", "#2f7d4f", "#7b3fa0", "#a16207", "#0e7490", "#be185d", "#4d5b6a")
BESIDE = 3  # words side by side
DRAWN = 20_000  # dots of lengths, drawn by chance where there are more
NAMED = 60  # words beside their lengths
LETTERS = 8  # points
HTML_HINT = ", or let a browser do it: --to FILE.html"


def plot_neighbors(answers: Sequence[WordNeighbors], title: str, form: str) -> bytes:
    """Bars of cosines for each word, all to one scale; how often a word was seen stands at the right."""
    names = [[shorten_label(one.word) for one in answer.nearest] for answer in answers]
    titles = [shorten_label(answer.text, 40) for answer in answers]
    with plot_style([title, "×", *titles, *(name for line in names for name in line)], HTML_HINT):
        columns = min(BESIDE, len(answers))
        rows, tallest = math.ceil(len(answers) / columns), max(map(len, names))
        figure = new_figure(3.9 * columns + 0.3, rows * (0.24 * tallest + 0.75) + 0.5)
        figure.set_layout_engine("constrained", wspace=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(answers) :]:
            axes.set_visible(False)
        most = max((one.cosine for answer in answers for one in answer.nearest), default=1.0)
        for axes, answer, line in zip(grid, answers, names, strict=False):
            _bars(axes, answer, line, max(most, 0.05))
        figure.suptitle(title, fontsize=11)
        return figure_bytes(figure, form)


def _bars(axes: Axes, answer: WordNeighbors, names: Sequence[str], most: float) -> None:
    places = range(len(names))
    axes.barh(places, [one.cosine for one in answer.nearest], color=BLUE, height=0.68)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    low = min((one.cosine for one in answer.nearest), default=0.0)
    told = " (at the right: times seen)" if any(one.count is not None for one in answer.nearest) else ""
    axes.set(xlim=(min(low * 1.35, 0), most * 1.4), xlabel=f"cosine{told}")
    axes.set_xticks([tick for tick in axes.get_xticks() if min(low * 1.35, 0) <= tick <= 1])
    for place, one in zip(places, answer.nearest, strict=True):
        seen = "" if one.count is None else f"  {one.count:,}×"
        axes.text(max(one.cosine, 0), place, f" {one.cosine:.3f}", va="center", fontsize=7.5)
        axes.text(
            0.995, place, seen, va="center", ha="right", fontsize=7, color=SOFT, transform=axes.get_yaxis_transform()
        )
    axes.set_title(shorten_label(answer.text, 40), fontsize=10, loc="left", fontweight="bold")
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#eceae6", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def plot_projection(of: WordProjection, title: str, form: str) -> bytes:
    """Dots with their names; a word that no font here can write is a dot without, if only some are such words."""
    names = [shorten_label(word, 24) for word in of.words]
    unwritten = set(undrawable_texts(names))
    unwritten = set() if unwritten.issuperset(names) else unwritten  # then it is refused, with the remedy
    with plot_style([title, *(name for name in names if name not in unwritten)], HTML_HINT):
        side = 6.5 if len(names) <= 40 else 8.5 if len(names) <= 150 else 10.5
        figure = new_figure(side * 1.3, side)
        axes = figure.subplots()
        colours = [CLUSTER_COLORS[group % len(CLUSTER_COLORS)] for group in of.groups]
        sizes = [26 if asked and not all(of.query_words) else 12 for asked in of.query_words]
        axes.scatter(*of.points.T, c=colours, s=sizes, lw=0, zorder=3)
        axes.set(xlabel=f"first component: {of.explained_variance[0]:.1%} of the variance")
        axes.set(ylabel=f"second component: {of.explained_variance[1]:.1%}")
        axes.margins(0.07)
        for line in (axes.axhline, axes.axvline):
            line(0, color=FAINT, lw=0.6, zorder=1)
        axes.tick_params(length=0, labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_aspect("equal", adjustable="datalim")
        told = "vectors of length 1, projected"
        above = figure.suptitle(f"{title}\n{told}", fontsize=11)
        written = (place for place, name in enumerate(names) if name not in unwritten)
        order = sorted(written, key=lambda place: not of.query_words[place])
        styles = [(colours[place], of.query_words[place] and not all(of.query_words)) for place in order]
        shown = _labelled(figure, axes, of.points[order], [names[place] for place in order], styles)
        some = f"{shown:,} of {len(names):,} words have room for their names; " if shown < len(order) else ""
        some += f"no font here has all characters of {len(names) - len(order):,}; " if unwritten else ""
        above.set_text(f"{title}\n{some}{told}")  # in its place
        return figure_bytes(figure, form)


def plot_norms(of: VectorNorms, title: str, form: str) -> bytes:
    rows = np.arange(len(of.words))
    if len(rows) > DRAWN:
        rows = np.sort(np.random.default_rng(0).choice(rows, DRAWN, replace=False))
    named = labeled_words(of)
    unwritten = set(undrawable_texts(shorten_label(of.words[row], 20) for row in named))
    named = [row for row in named if shorten_label(of.words[row], 20) not in unwritten]
    rows, names = np.union1d(rows, named), [shorten_label(of.words[row], 20) for row in named]
    with plot_style([title, *names], HTML_HINT):
        figure = new_figure(10.5, 6.6)
        axes = figure.subplots()
        seen = np.maximum(of.counts, 1)
        how: Any = {"s": 6, "lw": 0, "alpha": _crowded(of)[rows], "rasterized": True}
        axes.scatter(seen[rows], of.lengths[rows], color=BLUE, **how)
        middles = [math.sqrt(max(band.min_count, 1) * band.max_count) for band in of.bands]
        axes.plot(middles, [band.median for band in of.bands], color=ACCENT, marker="o", ms=4, label="median of a band")
        edges = ([band.shortest for band in of.bands], [band.longest for band in of.bands])
        axes.fill_between(middles, *edges, color=ACCENT, alpha=0.12, lw=0, label="eight of ten words")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda times, _: f"{times:,.0f}")
        axes.set(xlabel="times seen", ylabel="length of the vector")
        axes.set_ylim(0, float(of.lengths.max()) * 1.08)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="best")
        drawn = "" if len(rows) == len(of.words) else f"; {len(rows):,} of {len(of.words):,} words are drawn"
        figure.suptitle(
            f"{title}\nSpearman's correlation of length and frequency: {of.correlations[0]}{drawn}", fontsize=11
        )
        places = np.stack((seen[named], of.lengths[named]), 1).astype(float)
        _labelled(figure, axes, places, names, [(INK, False)] * len(names))
        return figure_bytes(figure, form)


def _crowded(of: VectorNorms) -> np.ndarray:
    """How dark each dot is: those of rare words are very many, and lie on each other."""
    made = np.ones(len(of.words))
    for band in of.bands:
        made[(of.counts >= band.min_count) & (of.counts <= band.max_count)] = min(
            0.9, max(0.1, 11 / math.sqrt(band.words))
        )
    return made


def labeled_words(of: VectorNorms) -> list[int]:
    """The longest and shortest, the most frequent, and others from all ranks."""
    order = np.argsort(-of.counts, kind="stable")
    spread = order[np.unique(np.geomspace(1, len(order), NAMED).astype(int)) - 1].tolist()
    longest, shortest = of.extremes
    return list(dict.fromkeys([*longest, *spread, *shortest]))[:NAMED]


def _labelled(
    figure: Figure, axes: Axes, points: np.ndarray, names: Sequence[str], styles: Sequence[tuple[str, bool]]
) -> int:
    """Writes as many names beside their points as have room, the first first; how many those are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # from here on the axes stay where they are
    figure.set_layout_engine("none")
    renderer, texts, sizes = canvas.get_renderer(), [], []
    for name, (colour, bold) in zip(names, styles, strict=True):
        weight: Any = {"fontweight": "bold"} if bold else {}
        text = axes.text(0, 0, name, fontsize=LETTERS, color=colour, ha="left", va="bottom", zorder=4, **weight)
        text.set_path_effects([withStroke(linewidth=1.6, foreground="white")])
        texts.append(text)
        extent = text.get_window_extent(renderer)
        sizes.append((extent.width + 2, extent.height))
    room, dots = axes.get_window_extent(renderer), axes.transData.transform(points)
    found = place_point_labels(dots, sizes, (room.x0, room.y0, room.x1, room.y1), gap=figure.dpi / 30)
    for text, box in zip(texts, found, strict=True):
        if box is None:
            text.remove()
        else:
            text.set_position(tuple(axes.transData.inverted().transform(box[:2])))
    return sum(box is not None for box in found)


# One word in many sentences as a picture: its vectors in a plane, coloured by group, and what stands around it.


MARKS = ("o", "^", "s", "D", "v", "P", "X", "*")  # of known meanings
LINES = 18  # sentences in all
GAP, FEWEST = 1.6, 14  # lines between groups, and lines that the room is made for at least
SENSES_PICTURE_LETTERS = 8.0  # points
SIDE = 44  # columns of text to either side of the word; Chinese characters take two
SENSES_PICTURE_BESIDE = 3  # small planes


def plot_senses(of: SenseAnalysis, title: str, form: str) -> bytes:
    """Left the plane of the run's vectors, right what stands around the word, below it the planes of others."""
    shown = [_typical(of.result, number) for number in range(len(of.result.groups))]
    lines = [part for group in shown for one in group for part in occurrence_context(one)]
    others = of.others[:SENSES_PICTURE_BESIDE]
    names = [part for one in (of.result, *others) for part in (one.name, one.conclusion)]
    told = [*lines, *of.labels, title, *names]
    with plot_style(told, HTML_HINT):
        figure = new_figure(12.6, 7.0)
        columns = max(2, len(others)) if others else 1
        rows: Any = [[*["own"] * columns, *["text"] * columns]]
        if others:
            rows.append([*["own"] * columns, *(str(number) for number in range(columns))])
        grid = figure.subplot_mosaic(rows, height_ratios=(1.7, 1)[: len(rows)])
        _plane(grid["own"], of, of.result, large=True)
        _concordance(grid["text"], of, shown)
        for number, one in enumerate(others):
            _plane(grid[str(number)], of, one, large=False)
        for number in range(len(others), columns if others else 0):
            grid[str(number)].set_visible(False)
        figure.suptitle(f"{title}\n{of.result.conclusion}", fontsize=11)
        return figure_bytes(figure, form)


def _typical(own: RunSenses, number: int) -> list[Occurrence]:
    """The most typical sentences of a group that can be drawn; where none can, it is told which font is missing."""
    most = max(1, LINES // len(own.groups))
    members = own.typical(number, 4 * most)
    bad = set(undrawable_texts(one.sentence for one in members))
    return ([one for one in members if one.sentence not in bad] or members)[:most]


def occurrence_context(one: Occurrence, room: int = SIDE) -> tuple[str, str, str]:
    """What stands before the word, the word, and what stands behind it, each in one line and not too long."""
    before, written, behind = (
        " ".join(part.split()) for part in (one.sentence[: one.start], one.surface, one.sentence[one.end :])
    )
    return _cut(before[::-1], room)[::-1], written, _cut(behind, room)


def _cut(text: str, room: int) -> str:
    """As much of it as fits."""
    used = 0
    for place, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > room:
            return text[: max(0, place - 1)].rstrip() + "…"
    return text


def _plane(axes: Axes, of: SenseAnalysis, one: RunSenses, *, large: bool) -> None:
    for line in (axes.axhline, axes.axvline):
        line(0, color=FAINT, lw=0.6, zorder=1)
    if one.spelling_agreement:
        _spellings(axes, one)
    else:
        _dots(axes, of, one, large=large)
    axes.spines[["top", "right", "left", "bottom"]].set_color(FAINT)
    told = cluster_summary(of, one, between=" · " if large else "\n")
    axes.set_title(f"{shorten_label(one.name, 48)}\n{told}", fontsize=9.5 if large else 8.5, loc="left")


def _dots(axes: Axes, of: SenseAnalysis, one: RunSenses, *, large: bool) -> None:
    """One for each occurrence: colours are groups, forms are known meanings."""
    for sense in of.labels or ("",):
        mine = np.array([not of.labels or place.sense == sense for place in one.occurrences])
        mark = MARKS[of.labels.index(sense) % len(MARKS)] if of.labels else "o"
        colours = [CLUSTER_COLORS[owner % len(CLUSTER_COLORS)] for owner in one.clustering_result.labels[mine]]
        how: Any = {"s": 30 if large else 12, "lw": 0.4, "edgecolors": "white", "alpha": 0.85, "zorder": 3}
        axes.scatter(*one.points[mine].T, c=colours, marker=mark, label=sense, **how)
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")
    first, second = one.explained_variance
    axes.set_xlabel(f"{first:.0%} of the variance" if large else f"{first:.0%}", fontsize=8 if large else 7)
    axes.set_ylabel(f"{second:.0%}", fontsize=8 if large else 7)
    axes.tick_params(length=0, labelsize=6, labelcolor=SOFT)
    if large and of.labels:
        key = axes.legend(frameon=False, fontsize=8, loc="best", title="known meaning", title_fontsize=8)
        for handle in key.legend_handles:
            if handle is not None:
                handle.set_color(INK)  # pyright: ignore[reportAttributeAccessIssue] - of dots


def _spellings(axes: Axes, one: RunSenses) -> None:
    """One dot for each way of writing the word: all its occurrences lie there."""
    counts = Counter(place.surface for place in one.occurrences)
    first = {place.surface: number for number, place in reversed(list(enumerate(one.occurrences)))}
    span = float(np.abs(one.points).max()) if one.clustering_result.num_distinct > 1 else 1.0
    axes.set(xlim=(-2 * span, 2 * span), ylim=(-1, 1), xticks=[], yticks=[])
    for written, count in counts.items() if one.clustering_result.num_distinct > 1 else ((None, len(one.occurrences)),):
        x, colour = (0.0, 0) if written is None else (float(one.points[first[written], 0]), first[written])
        axes.scatter(
            x,
            0,
            s=260,
            color=CLUSTER_COLORS[int(one.clustering_result.labels[colour]) % len(CLUSTER_COLORS)],
            lw=0,
            zorder=4,
        )
        told = f"{count:,} occurrences,\none vector" if written is None else f"{count:,} × {written}"
        axes.text(x, -0.28, told, ha="center", va="top", fontsize=9, color=INK)


def cluster_summary(of: SenseAnalysis, one: RunSenses, between: str = " · ") -> str:
    """How many groups there are, how well they hang together, and how far they agree with known meanings."""
    silhouette, agreement = one.clustering_result.silhouette, one.agreement
    told = [
        "1 group" if silhouette is None else f"{one.clustering_result.num_clusters} groups, silhouette {silhouette:.2f}"
    ]
    if of.labels and agreement is not None:
        own = agreement[0]
        told.append(f"purity {own.purity:.2f} (by chance {own.chance:.2f})")
        joined = f", of joined groups {own.merged_groups:.2f}" if own.groups > len(of.labels) else ""
        told.append(f"Rand index {own.rand:.2f}{joined}")
    return between.join(told)


def _concordance(axes: Axes, of: SenseAnalysis, shown: Sequence[Sequence[Occurrence]]) -> None:
    """The word in a column, what stands around it at its sides, a block for each group."""
    axes.set_axis_off()
    count = sum(len(group) + GAP for group in shown)
    axes.set(xlim=(0, 1), ylim=(max(count, FEWEST), -0.5))
    y = 0.0
    for number, group in enumerate(shown):
        colour, members = CLUSTER_COLORS[number % len(CLUSTER_COLORS)], of.result.groups[number].members
        told = f"{len(members):,} occurrences{of.labels_of(members)}"
        _beside(axes, axes.text(0, y, f"group {number + 1}", color=colour, **_letters(bold=True)), (told, 8, SOFT))
        for one in group:
            y += 1
            before, written, behind = occurrence_context(one)
            word = axes.text(0.5, y, written, ha="center", color=colour, **_letters(bold=True))
            spaces = one.sentence[: one.start][-1:].isspace(), one.sentence[one.end :][:1].isspace()
            _beside(axes, word, (behind, 2.4 if spaces[1] else 0.4, INK))
            _beside(axes, word, (before, -2.4 if spaces[0] else -0.4, INK))
        y += GAP


def _beside(axes: Axes, word: Text, told: tuple[str, float, str]) -> None:
    """Words, so many points to the right of others, or to their left, on the same line."""
    text, points, colour = told
    right = points > 0
    how: Any = {"xycoords": (word, "data"), "textcoords": "offset points", "annotation_clip": False}
    place = (1 if right else 0, word.get_position()[1])
    axes.annotate(text, place, (points, 0), ha="left" if right else "right", color=colour, **_letters(), **how)


def _letters(*, bold: bool = False) -> Any:
    """How sentences are written. They take no part in the layout: a long one would leave no room for others."""
    return {"fontsize": SENSES_PICTURE_LETTERS, "va": "baseline", "in_layout": False} | (
        {"fontweight": "bold"} if bold else {}
    )


# Words as one HTML page that needs nothing else and runs nothing: bars of neighbours, planes of dots with names.


WIDE, HIGH, EDGE = 1000, 680, 40  # of a plane, in its own units, and what is left free around the dots
LETTER = 13  # the height of a label
WORDS_PAGE_DRAWN = 3000  # dots of lengths, evenly from all ranks: a page with more is slow


@dataclass(frozen=True)
class PlotPoint:
    """A word at its place (x to the right, y upwards, both from 0 to 1) and what is told of it."""

    name: str
    x: float
    y: float
    tooltip: str
    tint: str = CLUSTER_COLORS[0]
    is_query: bool = False
    is_labeled: bool = True  # whether its name is written where there is room, or only when it is pointed at


def neighbors_page(answers: Sequence[WordNeighbors], title: str) -> str:
    return words_page(title, "How near each word is (cosine), and how often it was seen.", "".join(map(_near, answers)))


def projection_page(of: WordProjection, title: str) -> str:
    low, high, room = of.points.min(0), of.points.max(0), np.array((WIDE - 2 * EDGE, HIGH - 2 * EDGE))
    scale = float((room / np.maximum(high - low, 1e-9)).min())  # one for both directions
    places = (of.points - (low + high) / 2) * scale / room + 0.5
    some = not all(of.query_words)
    dots = []
    for word, (x, y), count, group, asked in zip(of.words, places, of.counts, of.groups, of.query_words, strict=True):
        told = f"{word}{_seen(count)}"
        dots.append(
            PlotPoint(word, float(x), float(y), told, CLUSTER_COLORS[group % len(CLUSTER_COLORS)], asked and some)
        )
    about = (
        f"{len(dots):,} words: the directions in which their vectors, of length 1, differ most; to the right "
        f"{of.explained_variance[0]:.1%} of the variance, upwards {of.explained_variance[1]:.1%}. A dot that is pointed at tells its name."
    )
    return words_page(title, about, svg_plane(sorted(dots, key=lambda dot: not dot.is_query)) + _places(of))


def norms_page(of: VectorNorms, title: str) -> str:
    seen = np.log10(np.maximum(of.counts, 1))
    most, longest = float(seen.max()) or 1.0, float(of.lengths.max()) or 1.0
    named = labeled_words(of)
    order = np.argsort(-of.counts, kind="stable")
    others = order[:: max(1, math.ceil(len(order) / WORDS_PAGE_DRAWN))].tolist()
    rows = list(dict.fromkeys([*named, *others]))
    dots = []
    for row in rows:
        told = f"{of.words[row]}{_seen(int(of.counts[row]))}: {of.lengths[row]:.3f}"
        place = float(seen[row]) / most, float(of.lengths[row]) / longest
        dots.append(PlotPoint(of.words[row], *place, told, is_labeled=row in named))
    level = [
        (math.log10(math.sqrt(max(band.min_count, 1) * band.max_count)) / most, band.median / longest)
        for band in of.bands
    ]
    about = (
        f"{len(dots):,} of {len(of.words):,} words: to the right how often a word was seen (logarithm, up to "
        f"{int(of.counts.max()):,} times), upwards how long its vector is (from 0 to {longest:.3g}); the line is the "
        f"median. Spearman's correlation of both: {of.correlations[0]}; of a word's frequency and its neighbours': "
        f"{of.correlations[1]}."
    )
    return words_page(title, about, svg_plane(dots, level) + _bands(of))


def words_page(title: str, about: str, body: str, *styles: str) -> str:
    """A whole page; `styles` are files of this room, beside those of all pages about words."""
    style = "".join(
        files("forebear.inspection").joinpath(name).read_text("utf-8") for name in ("page.css", "words.css", *styles)
    )
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="about">{escape(about)}</p>{body}</main></body></html>\n'
    )
    return made.encode("utf-8", "replace").decode("utf-8")


def _near(answer: WordNeighbors) -> str:
    rows = "".join(
        f'<tr><td>{escape(one.word)}</td><td><span class="bar {"for" if one.cosine >= 0 else "against"}" '
        f'style="width:{abs(one.cosine):.1%}"></span></td><td class="number">{one.cosine:.3f}</td>'
        f'<td class="number">{"" if one.count is None else f"{one.count:,}"}</td></tr>'
        for one in answer.nearest
    )
    head = "<thead><tr><th>word</th><th></th><th class=number>cosine</th><th class=number>seen</th></tr></thead>"
    note = f'<p class="about">{escape(answer.note)}</p>' if answer.note else ""
    table = f'<table class="near">{head}<tbody>{rows}</tbody></table>'
    return f"<section><h2>{escape(answer.text)}</h2>{note}{table}</section>"


def svg_plane(dots: Sequence[PlotPoint], level: Sequence[tuple[float, float]] = ()) -> str:
    """Dots with the names that have room; the others' are there when they are pointed at, or reached by the tab key."""
    places = np.array([_at(dot.x, dot.y) for dot in dots])
    sizes = [(_width(dot.name), LETTER * 1.1) if dot.is_labeled else (math.inf, 0.0) for dot in dots]
    boxes = place_point_labels(places, sizes, (0, 0, WIDE, HIGH), gap=5)
    line = " ".join(f"{x:.1f},{HIGH - y:.1f}" for x, y in (_at(*point) for point in level))
    curve = f'<polyline class="level" points="{line}"/>' if level else ""
    told = sorted(zip(dots, places, boxes, strict=True), key=lambda one: one[2] is not None)  # names lie above dots
    drawn = "".join(_dot(*one) for one in told)
    return f'<svg class="plane" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="words">{drawn}{curve}</svg>'


def _at(x: float, y: float) -> tuple[float, float]:
    return EDGE + x * (WIDE - 2 * EDGE), EDGE + y * (HIGH - 2 * EDGE)


def _dot(dot: PlotPoint, place: np.ndarray, box: tuple[float, float, float, float] | None) -> str:
    x, y = float(place[0]), HIGH - float(place[1])
    beside = (x + 6, y - 4) if box is None else (box[0], HIGH - box[1] - LETTER * 0.25)
    kind = "dot" + " named" * (box is not None) + " asked" * dot.is_query
    anchor = ' text-anchor="end"' if box is None and x > WIDE * 0.8 else ""
    shift, centre = -12 if anchor else 0, f'cx="{x:.1f}" cy="{y:.1f}"'
    return (
        f'<g class="{kind}" tabindex="0" style="--tint:{dot.tint}"><title>{escape(dot.tooltip)}</title>'
        f'<circle class="ring" {centre} r="8"/><circle {centre} r="{4 if dot.is_query else 3}"/>'
        f'<text x="{beside[0] + shift:.1f}" y="{beside[1]:.1f}"{anchor}>{escape(dot.name)}</text></g>'
    )


def _width(text: str) -> float:
    """About as wide as it is in most fonts; Chinese characters are as wide as high."""
    return sum(LETTER * (1.0 if unicodedata.east_asian_width(one) in "WF" else 0.6) for one in text) + 2


def _seen(count: int | None) -> str:
    return "" if count is None else f", seen {count:,} times"


def _places(of: WordProjection) -> str:
    rows = "".join(
        f'<tr><td>{escape(word)}</td><td class="number">{x:+.4f}</td><td class="number">{y:+.4f}</td>'
        f'<td class="number">{"" if count is None else f"{count:,}"}</td></tr>'
        for word, (x, y), count in zip(of.words, of.points.tolist(), of.counts, strict=True)
    )
    head = "".join(f"<th class=number>{name}</th>" for name in ("first", "second", "seen"))
    return _folded("Figures", f"<thead><tr><th>word</th>{head}</tr></thead><tbody>{rows}</tbody>")


def _bands(of: VectorNorms) -> str:
    def cells() -> Iterator[str]:
        for band in of.bands:
            alike = "" if band.cosine is None else f"{band.cosine:.3f}"
            told = (f"{band.min_count:,} to {band.max_count:,}", f"{band.words:,}", f"{band.median:.3f}")
            figures = (*told, f"{band.shortest:.3f} to {band.longest:.3f}", alike)
            yield "<tr>" + "".join(f'<td class="number">{one}</td>' for one in figures) + "</tr>"

    names = ("times seen", "words", "median length", "eight of ten", "mean cosine of two")
    head = "".join(f"<th class=number>{name}</th>" for name in names)
    return _folded("Bands", f"<thead><tr>{head}</tr></thead><tbody>{''.join(cells())}</tbody>")


def _folded(name: str, table: str) -> str:
    return f"<details open><summary>{name}</summary><table>{table}</table></details>"
