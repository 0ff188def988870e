"""Words as one HTML page that needs nothing else and runs nothing: bars of neighbours, planes of dots with names."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np

from forebear.inspecting.label_placing import boxes_for
from forebear.inspecting.norms import Norms
from forebear.inspecting.page import CLOSED
from forebear.inspecting.projection import Projection
from forebear.inspecting.words_picture import GROUPS, worth_naming
from forebear.using.lexicon import NearWords

WIDE, HIGH, EDGE = 1000, 680, 40  # of a plane, in its own units, and what is left free around the dots
LETTER = 13  # the height of a label
DRAWN = 3000  # dots of lengths, evenly from all ranks: a page with more is slow


@dataclass(frozen=True)
class Dot:
    """A word at its place (x to the right, y upwards, both from 0 to 1) and what is told of it."""

    name: str
    x: float
    y: float
    told: str
    tint: str = GROUPS[0]
    asked: bool = False
    named: bool = True  # whether its name is written where there is room, or only when it is pointed at


def neighbours(answers: Sequence[NearWords], title: str) -> str:
    return page(title, "How near each word is (cosine), and how often it was seen.", "".join(map(_near, answers)))


def projection(of: Projection, title: str) -> str:
    low, high, room = of.points.min(0), of.points.max(0), np.array((WIDE - 2 * EDGE, HIGH - 2 * EDGE))
    scale = float((room / np.maximum(high - low, 1e-9)).min())  # one for both directions
    places = (of.points - (low + high) / 2) * scale / room + 0.5
    some = not all(of.asked)
    dots = []
    for word, (x, y), count, group, asked in zip(of.words, places, of.counts, of.groups, of.asked, strict=True):
        told = f"{word}{_seen(count)}"
        dots.append(Dot(word, float(x), float(y), told, GROUPS[group % len(GROUPS)], asked and some))
    about = (
        f"{len(dots):,} words: the directions in which their vectors, of length 1, differ most; to the right "
        f"{of.shares[0]:.1%} of the variance, upwards {of.shares[1]:.1%}. A dot that is pointed at tells its name."
    )
    return page(title, about, plane(sorted(dots, key=lambda dot: not dot.asked)) + _places(of))


def norms(of: Norms, title: str) -> str:
    seen = np.log10(np.maximum(of.counts, 1))
    most, longest = float(seen.max()) or 1.0, float(of.lengths.max()) or 1.0
    named = worth_naming(of)
    order = np.argsort(-of.counts, kind="stable")
    others = order[:: max(1, math.ceil(len(order) / DRAWN))].tolist()
    rows = list(dict.fromkeys([*named, *others]))
    dots = []
    for row in rows:
        told = f"{of.words[row]}{_seen(int(of.counts[row]))}: {of.lengths[row]:.3f}"
        place = float(seen[row]) / most, float(of.lengths[row]) / longest
        dots.append(Dot(of.words[row], *place, told, named=row in named))
    level = [(math.log10(math.sqrt(max(band.least, 1) * band.most)) / most, band.median / longest) for band in of.bands]
    about = (
        f"{len(dots):,} of {len(of.words):,} words: to the right how often a word was seen (logarithm, up to "
        f"{int(of.counts.max()):,} times), upwards how long its vector is (from 0 to {longest:.3g}); the line is the "
        f"median. Spearman's correlation of both: {of.correlations[0]}; of a word's frequency and its neighbours': "
        f"{of.correlations[1]}."
    )
    return page(title, about, plane(dots, level) + _bands(of))


def page(title: str, about: str, body: str, *styles: str) -> str:
    """A whole page; `styles` are files of this room, beside those of all pages about words."""
    style = "".join(
        files("forebear.inspecting").joinpath(name).read_text("utf-8") for name in ("page.css", "words.css", *styles)
    )
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="about">{escape(about)}</p>{body}</main></body></html>\n'
    )
    return made.encode("utf-8", "replace").decode("utf-8")


def _near(answer: NearWords) -> str:
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


def plane(dots: Sequence[Dot], level: Sequence[tuple[float, float]] = ()) -> str:
    """Dots with the names that have room; the others' are there when they are pointed at, or reached by the tab key."""
    places = np.array([_at(dot.x, dot.y) for dot in dots])
    sizes = [(_width(dot.name), LETTER * 1.1) if dot.named else (math.inf, 0.0) for dot in dots]
    boxes = boxes_for(places, sizes, (0, 0, WIDE, HIGH), gap=5)
    line = " ".join(f"{x:.1f},{HIGH - y:.1f}" for x, y in (_at(*point) for point in level))
    curve = f'<polyline class="level" points="{line}"/>' if level else ""
    told = sorted(zip(dots, places, boxes, strict=True), key=lambda one: one[2] is not None)  # names lie above dots
    drawn = "".join(_dot(*one) for one in told)
    return f'<svg class="plane" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="words">{drawn}{curve}</svg>'


def _at(x: float, y: float) -> tuple[float, float]:
    return EDGE + x * (WIDE - 2 * EDGE), EDGE + y * (HIGH - 2 * EDGE)


def _dot(dot: Dot, place: np.ndarray, box: tuple[float, float, float, float] | None) -> str:
    x, y = float(place[0]), HIGH - float(place[1])
    beside = (x + 6, y - 4) if box is None else (box[0], HIGH - box[1] - LETTER * 0.25)
    kind = "dot" + " named" * (box is not None) + " asked" * dot.asked
    anchor = ' text-anchor="end"' if box is None and x > WIDE * 0.8 else ""
    shift, centre = -12 if anchor else 0, f'cx="{x:.1f}" cy="{y:.1f}"'
    return (
        f'<g class="{kind}" tabindex="0" style="--tint:{dot.tint}"><title>{escape(dot.told)}</title>'
        f'<circle class="ring" {centre} r="8"/><circle {centre} r="{4 if dot.asked else 3}"/>'
        f'<text x="{beside[0] + shift:.1f}" y="{beside[1]:.1f}"{anchor}>{escape(dot.name)}</text></g>'
    )


def _width(text: str) -> float:
    """About as wide as it is in most fonts; Chinese characters are as wide as high."""
    return sum(LETTER * (1.0 if unicodedata.east_asian_width(one) in "WF" else 0.6) for one in text) + 2


def _seen(count: int | None) -> str:
    return "" if count is None else f", seen {count:,} times"


def _places(of: Projection) -> str:
    rows = "".join(
        f'<tr><td>{escape(word)}</td><td class="number">{x:+.4f}</td><td class="number">{y:+.4f}</td>'
        f'<td class="number">{"" if count is None else f"{count:,}"}</td></tr>'
        for word, (x, y), count in zip(of.words, of.points.tolist(), of.counts, strict=True)
    )
    head = "".join(f"<th class=number>{name}</th>" for name in ("first", "second", "seen"))
    return _folded("Figures", f"<thead><tr><th>word</th>{head}</tr></thead><tbody>{rows}</tbody>")


def _bands(of: Norms) -> str:
    def cells() -> Iterator[str]:
        for band in of.bands:
            alike = "" if band.alike is None else f"{band.alike:.3f}"
            told = (f"{band.least:,} to {band.most:,}", f"{band.words:,}", f"{band.median:.3f}")
            figures = (*told, f"{band.shortest:.3f} to {band.longest:.3f}", alike)
            yield "<tr>" + "".join(f'<td class="number">{one}</td>' for one in figures) + "</tr>"

    names = ("times seen", "words", "median length", "eight of ten", "mean cosine of two")
    head = "".join(f"<th class=number>{name}</th>" for name in names)
    return _folded("Bands", f"<thead><tr>{head}</tr></thead><tbody>{''.join(cells())}</tbody>")


def _folded(name: str, table: str) -> str:
    return f"<details open><summary>{name}</summary><table>{table}</table></details>"
