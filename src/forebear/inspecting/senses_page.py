"""One word in many sentences as a page that needs nothing else: all sentences, and planes whose dots tell theirs."""

from __future__ import annotations

from html import escape

import numpy as np

from forebear.inspecting import words_page
from forebear.inspecting.occurrences import Occurrence
from forebear.inspecting.senses import Senses, Vectors
from forebear.inspecting.senses_picture import around, figures
from forebear.inspecting.words_page import Dot
from forebear.inspecting.words_picture import GROUPS

OPEN = 12  # sentences of a group that are seen at once; the others are unfolded
SIDE = 26  # columns of text to either side of the word, at a dot


def page(of: Senses, title: str) -> str:
    own = of.own
    about = (
        f"{len(own.occurrences):,} occurrences by {own.name}: {own.verdict}. A dot that is pointed at tells its words."
    )
    groups = "".join(_group(of, number) for number in range(len(own.groups)))
    others = "".join(_other(of, one) for one in of.beside)
    notes = "".join(f'<p class="about">{escape(note)}</p>' for note in of.notes)
    return words_page.page(title, about, _plane(of, own) + groups + others + notes, "senses.css")


def _plane(of: Senses, one: Vectors) -> str:
    """Figures, and the dots; where all would be one, that is said instead."""
    told = f'<p class="about">{escape(figures(of, one))}</p>'
    if one.spelled:
        return f'{told}<p class="about">{escape(one.verdict)}</p>'
    low, high = one.points.min(0), one.points.max(0)
    room = np.array((words_page.WIDE, words_page.HIGH)) - 2 * words_page.EDGE
    scale = float((room / np.maximum(high - low, 1e-9)).min())  # one for both directions
    places = (one.points - (low + high) / 2) * scale / room + 0.5
    named = {group.members[0] for group in one.groups}
    dots = [_dot(one, number, place, number in named) for number, place in enumerate(places)]
    return told + words_page.plane(sorted(dots, key=lambda dot: not dot.named))


def _dot(one: Vectors, number: int, place: np.ndarray, named: bool) -> Dot:
    occurrence, owner = one.occurrences[number], int(one.grouping.owners[number])
    sense = "" if occurrence.sense is None else f" ({occurrence.sense})"
    told = f"group {owner + 1}{sense}: {' '.join(occurrence.sentence.split())}"
    before, written, behind = around(occurrence, SIDE)
    gaps = occurrence.sentence[: occurrence.start][-1:].isspace(), occurrence.sentence[occurrence.end :][:1].isspace()
    name = before + " " * gaps[0] + written + " " * gaps[1] + behind
    return Dot(name, float(place[0]), float(place[1]), told, GROUPS[owner % len(GROUPS)], named=named)


def _group(of: Senses, number: int) -> str:
    group, tint = of.own.groups[number], GROUPS[number % len(GROUPS)]
    told = f"{len(group.members):,} occurrences{of.meant(group.members)}; mean cosine {group.cohesion:.3f}"
    lines = [_sentence(of.own.occurrences[member]) for member in group.members]
    more = f"<details><summary>{len(lines) - OPEN:,} more</summary>{_listed(lines[OPEN:])}</details>"
    return (
        f'<section style="--tint:{tint}"><h2 class="of">group {number + 1}</h2><p class="about">{escape(told)}</p>'
        f"{_listed(lines[:OPEN])}{more if len(lines) > OPEN else ''}</section>"
    )


def _listed(lines: list[str]) -> str:
    return f'<ul class="sense">{"".join(lines)}</ul>'


def _sentence(one: Occurrence) -> str:
    known = "" if one.sense is None else f'<span class="known">{escape(one.sense)}</span>'
    before, behind = one.sentence[: one.start], one.sentence[one.end :]
    return f"<li>{known}{escape(before)}<mark>{escape(one.written)}</mark>{escape(behind)}</li>"


def _other(of: Senses, one: Vectors) -> str:
    return f"<section><h2>beside: {escape(one.name)}</h2>{_plane(of, one)}</section>"
