"""One word in many sentences as a picture: its vectors in a plane, coloured by group, and what stands around it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.inspecting.drawing import FAINT, INK, SOFT, drawing, new_figure, saved, short
from forebear.inspecting.fonts import undrawable
from forebear.inspecting.occurrences import Occurrence
from forebear.inspecting.senses import Senses, Vectors
from forebear.inspecting.words_picture import GROUPS, PAGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

MARKS = ("o", "^", "s", "D", "v", "P", "X", "*")  # of known meanings
LINES = 18  # sentences in all
GAP, FEWEST = 1.6, 14  # lines between groups, and lines that the room is made for at least
LETTERS = 8.0  # points
SIDE = 44  # columns of text to either side of the word; Chinese characters take two
BESIDE = 3  # small planes


def picture(of: Senses, title: str, form: str) -> bytes:
    """Left the plane of the run's vectors, right what stands around the word, below it the planes of others."""
    shown = [_typical(of.own, number) for number in range(len(of.own.groups))]
    lines = [part for group in shown for one in group for part in around(one)]
    others = of.beside[:BESIDE]
    names = [part for one in (of.own, *others) for part in (one.name, one.verdict)]
    told = [*lines, *of.known, title, *names]
    with drawing(told, PAGE):
        figure = new_figure(12.6, 7.0)
        columns = max(2, len(others)) if others else 1
        rows: Any = [[*["own"] * columns, *["text"] * columns]]
        if others:
            rows.append([*["own"] * columns, *(str(number) for number in range(columns))])
        grid = figure.subplot_mosaic(rows, height_ratios=(1.7, 1)[: len(rows)])
        _plane(grid["own"], of, of.own, large=True)
        _concordance(grid["text"], of, shown)
        for number, one in enumerate(others):
            _plane(grid[str(number)], of, one, large=False)
        for number in range(len(others), columns if others else 0):
            grid[str(number)].set_visible(False)
        figure.suptitle(f"{title}\n{of.own.verdict}", fontsize=11)
        return saved(figure, form)


def _typical(own: Vectors, number: int) -> list[Occurrence]:
    """The most typical sentences of a group that can be drawn; where none can, it is told which font is missing."""
    most = max(1, LINES // len(own.groups))
    members = own.typical(number, 4 * most)
    bad = set(undrawable(one.sentence for one in members))
    return ([one for one in members if one.sentence not in bad] or members)[:most]


def around(one: Occurrence, room: int = SIDE) -> tuple[str, str, str]:
    """What stands before the word, the word, and what stands behind it, each in one line and not too long."""
    before, written, behind = (
        " ".join(part.split()) for part in (one.sentence[: one.start], one.written, one.sentence[one.end :])
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


def _plane(axes: Axes, of: Senses, one: Vectors, *, large: bool) -> None:
    for line in (axes.axhline, axes.axvline):
        line(0, color=FAINT, lw=0.6, zorder=1)
    if one.spelled:
        _spellings(axes, one)
    else:
        _dots(axes, of, one, large=large)
    axes.spines[["top", "right", "left", "bottom"]].set_color(FAINT)
    told = figures(of, one, between=" · " if large else "\n")
    axes.set_title(f"{short(one.name, 48)}\n{told}", fontsize=9.5 if large else 8.5, loc="left")


def _dots(axes: Axes, of: Senses, one: Vectors, *, large: bool) -> None:
    """One for each occurrence: colours are groups, forms are known meanings."""
    for sense in of.known or ("",):
        mine = np.array([not of.known or place.sense == sense for place in one.occurrences])
        mark = MARKS[of.known.index(sense) % len(MARKS)] if of.known else "o"
        colours = [GROUPS[owner % len(GROUPS)] for owner in one.grouping.owners[mine]]
        how: Any = {"s": 30 if large else 12, "lw": 0.4, "edgecolors": "white", "alpha": 0.85, "zorder": 3}
        axes.scatter(*one.points[mine].T, c=colours, marker=mark, label=sense, **how)
    axes.margins(0.08)
    axes.set_aspect("equal", adjustable="datalim")
    first, second = one.shares
    axes.set_xlabel(f"{first:.0%} of the variance" if large else f"{first:.0%}", fontsize=8 if large else 7)
    axes.set_ylabel(f"{second:.0%}", fontsize=8 if large else 7)
    axes.tick_params(length=0, labelsize=6, labelcolor=SOFT)
    if large and of.known:
        key = axes.legend(frameon=False, fontsize=8, loc="best", title="known meaning", title_fontsize=8)
        for handle in key.legend_handles:
            if handle is not None:
                handle.set_color(INK)  # pyright: ignore[reportAttributeAccessIssue] - of dots


def _spellings(axes: Axes, one: Vectors) -> None:
    """One dot for each way of writing the word: all its occurrences lie there."""
    counts = Counter(place.written for place in one.occurrences)
    first = {place.written: number for number, place in reversed(list(enumerate(one.occurrences)))}
    span = float(np.abs(one.points).max()) if one.grouping.distinct > 1 else 1.0
    axes.set(xlim=(-2 * span, 2 * span), ylim=(-1, 1), xticks=[], yticks=[])
    for written, count in counts.items() if one.grouping.distinct > 1 else ((None, len(one.occurrences)),):
        x, colour = (0.0, 0) if written is None else (float(one.points[first[written], 0]), first[written])
        axes.scatter(x, 0, s=260, color=GROUPS[int(one.grouping.owners[colour]) % len(GROUPS)], lw=0, zorder=4)
        told = f"{count:,} occurrences,\none vector" if written is None else f"{count:,} × {written}"
        axes.text(x, -0.28, told, ha="center", va="top", fontsize=9, color=INK)


def figures(of: Senses, one: Vectors, between: str = " · ") -> str:
    """How many groups there are, how well they hang together, and how far they agree with known meanings."""
    silhouette, agreement = one.grouping.silhouette, one.agreement
    told = ["1 group" if silhouette is None else f"{one.grouping.count} groups, silhouette {silhouette:.2f}"]
    if of.known and agreement is not None:
        own = agreement[0]
        told.append(f"purity {own.purity:.2f} (by chance {own.chance:.2f})")
        joined = f", of joined groups {own.joined:.2f}" if own.groups > len(of.known) else ""
        told.append(f"Rand index {own.rand:.2f}{joined}")
    return between.join(told)


def _concordance(axes: Axes, of: Senses, shown: Sequence[Sequence[Occurrence]]) -> None:
    """The word in a column, what stands around it at its sides, a block for each group."""
    axes.set_axis_off()
    count = sum(len(group) + GAP for group in shown)
    axes.set(xlim=(0, 1), ylim=(max(count, FEWEST), -0.5))
    y = 0.0
    for number, group in enumerate(shown):
        colour, members = GROUPS[number % len(GROUPS)], of.own.groups[number].members
        told = f"{len(members):,} occurrences{of.meant(members)}"
        _beside(axes, axes.text(0, y, f"group {number + 1}", color=colour, **_letters(bold=True)), (told, 8, SOFT))
        for one in group:
            y += 1
            before, written, behind = around(one)
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
    return {"fontsize": LETTERS, "va": "baseline", "in_layout": False} | ({"fontweight": "bold"} if bold else {})
