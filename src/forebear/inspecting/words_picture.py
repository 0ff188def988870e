"""Words as pictures: which are near and how near, where they lie in a plane, and how long vectors are by frequency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.inspecting.drawing import ACCENT, FAINT, INK, SOFT, drawing, new_figure, saved, short
from forebear.inspecting.fonts import undrawable
from forebear.inspecting.label_placing import boxes_for
from forebear.inspecting.norms import Norms
from forebear.inspecting.projection import Projection
from forebear.using.lexicon import NearWords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#1c4f9c"
GROUPS = ("#1c4f9c", "#c2410c", "#2f7d4f", "#7b3fa0", "#a16207", "#0e7490", "#be185d", "#4d5b6a")
BESIDE = 3  # words side by side
DRAWN = 20_000  # dots of lengths, drawn by chance where there are more
NAMED = 60  # words beside their lengths
LETTERS = 8  # points
PAGE = ", or let a browser do it: --to FILE.html"


def neighbours(answers: Sequence[NearWords], title: str, form: str) -> bytes:
    """Bars of cosines for each word, all to one scale; how often a word was seen stands at the right."""
    names = [[short(one.word) for one in answer.nearest] for answer in answers]
    titles = [short(answer.text, 40) for answer in answers]
    with drawing([title, "×", *titles, *(name for line in names for name in line)], PAGE):
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
        return saved(figure, form)


def _bars(axes: Axes, answer: NearWords, names: Sequence[str], most: float) -> None:
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
    axes.set_title(short(answer.text, 40), fontsize=10, loc="left", fontweight="bold")
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#eceae6", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def projection(of: Projection, title: str, form: str) -> bytes:
    """Dots with their names; a word that no font here can write is a dot without, if only some are such words."""
    names = [short(word, 24) for word in of.words]
    unwritten = set(undrawable(names))
    unwritten = set() if unwritten.issuperset(names) else unwritten  # then it is refused, with the remedy
    with drawing([title, *(name for name in names if name not in unwritten)], PAGE):
        side = 6.5 if len(names) <= 40 else 8.5 if len(names) <= 150 else 10.5
        figure = new_figure(side * 1.3, side)
        axes = figure.subplots()
        colours = [GROUPS[group % len(GROUPS)] for group in of.groups]
        sizes = [26 if asked and not all(of.asked) else 12 for asked in of.asked]
        axes.scatter(*of.points.T, c=colours, s=sizes, lw=0, zorder=3)
        axes.set(xlabel=f"first component: {of.shares[0]:.1%} of the variance")
        axes.set(ylabel=f"second component: {of.shares[1]:.1%}")
        axes.margins(0.07)
        for line in (axes.axhline, axes.axvline):
            line(0, color=FAINT, lw=0.6, zorder=1)
        axes.tick_params(length=0, labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_aspect("equal", adjustable="datalim")
        told = "vectors of length 1, projected"
        above = figure.suptitle(f"{title}\n{told}", fontsize=11)
        written = (place for place, name in enumerate(names) if name not in unwritten)
        order = sorted(written, key=lambda place: not of.asked[place])
        styles = [(colours[place], of.asked[place] and not all(of.asked)) for place in order]
        shown = _labelled(figure, axes, of.points[order], [names[place] for place in order], styles)
        some = f"{shown:,} of {len(names):,} words have room for their names; " if shown < len(order) else ""
        some += f"no font here has all characters of {len(names) - len(order):,}; " if unwritten else ""
        above.set_text(f"{title}\n{some}{told}")  # in its place
        return saved(figure, form)


def norms(of: Norms, title: str, form: str) -> bytes:
    rows = np.arange(len(of.words))
    if len(rows) > DRAWN:
        rows = np.sort(np.random.default_rng(0).choice(rows, DRAWN, replace=False))
    named = worth_naming(of)
    unwritten = set(undrawable(short(of.words[row], 20) for row in named))
    named = [row for row in named if short(of.words[row], 20) not in unwritten]
    rows, names = np.union1d(rows, named), [short(of.words[row], 20) for row in named]
    with drawing([title, *names], PAGE):
        figure = new_figure(10.5, 6.6)
        axes = figure.subplots()
        seen = np.maximum(of.counts, 1)
        how: Any = {"s": 6, "lw": 0, "alpha": _crowded(of)[rows], "rasterized": True}
        axes.scatter(seen[rows], of.lengths[rows], color=BLUE, **how)
        middles = [math.sqrt(max(band.least, 1) * band.most) for band in of.bands]
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
        return saved(figure, form)


def _crowded(of: Norms) -> np.ndarray:
    """How dark each dot is: those of rare words are very many, and lie on each other."""
    made = np.ones(len(of.words))
    for band in of.bands:
        made[(of.counts >= band.least) & (of.counts <= band.most)] = min(0.9, max(0.1, 11 / math.sqrt(band.words)))
    return made


def worth_naming(of: Norms) -> list[int]:
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
    found = boxes_for(dots, sizes, (room.x0, room.y0, room.x1, room.y1), gap=figure.dpi / 30)
    for text, box in zip(texts, found, strict=True):
        if box is None:
            text.remove()
        else:
            text.set_position(tuple(axes.transData.inverted().transform(box[:2])))
    return sum(box is not None for box in found)
