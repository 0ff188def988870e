"""One word in many sentences as a page that needs nothing else: all sentences, and planes whose dots tell theirs."""

from __future__ import annotations

from html import escape

import numpy as np

from forebear.inspection import embedding_plots
from forebear.inspection.embedding_plots import CLUSTER_COLORS, PlotPoint, cluster_summary, occurrence_context
from forebear.inspection.occurrences import Occurrence
from forebear.inspection.senses import RunSenses, SenseAnalysis

OPEN = 12  # sentences of a group that are seen at once; the others are unfolded
SENSES_PAGE_SIDE = 26  # columns of text to either side of the word, at a dot


def senses_page(of: SenseAnalysis, title: str) -> str:
    own = of.result
    about = f"{len(own.occurrences):,} occurrences by {own.name}: {own.conclusion}. A dot that is pointed at tells its words."
    groups = "".join(_group(of, number) for number in range(len(own.groups)))
    others = "".join(_other(of, one) for one in of.others)
    notes = "".join(f'<p class="about">{escape(note)}</p>' for note in of.notes)
    return embedding_plots.words_page(title, about, _senses_page_plane(of, own) + groups + others + notes, "senses.css")


def _senses_page_plane(of: SenseAnalysis, one: RunSenses) -> str:
    """Figures, and the dots; where all would be one, that is said instead."""
    told = f'<p class="about">{escape(cluster_summary(of, one))}</p>'
    if one.spelling_agreement:
        return f'{told}<p class="about">{escape(one.conclusion)}</p>'
    low, high = one.points.min(0), one.points.max(0)
    room = np.array((embedding_plots.WIDE, embedding_plots.HIGH)) - 2 * embedding_plots.EDGE
    scale = float((room / np.maximum(high - low, 1e-9)).min())  # one for both directions
    places = (one.points - (low + high) / 2) * scale / room + 0.5
    named = {group.members[0] for group in one.groups}
    dots = [_dot(one, number, place, number in named) for number, place in enumerate(places)]
    return told + embedding_plots.svg_plane(sorted(dots, key=lambda dot: not dot.is_labeled))


def _dot(one: RunSenses, number: int, place: np.ndarray, named: bool) -> PlotPoint:
    occurrence, owner = one.occurrences[number], int(one.clustering_result.labels[number])
    sense = "" if occurrence.sense is None else f" ({occurrence.sense})"
    told = f"group {owner + 1}{sense}: {' '.join(occurrence.sentence.split())}"
    before, written, behind = occurrence_context(occurrence, SENSES_PAGE_SIDE)
    gaps = occurrence.sentence[: occurrence.start][-1:].isspace(), occurrence.sentence[occurrence.end :][:1].isspace()
    name = before + " " * gaps[0] + written + " " * gaps[1] + behind
    return PlotPoint(
        name, float(place[0]), float(place[1]), told, CLUSTER_COLORS[owner % len(CLUSTER_COLORS)], is_labeled=named
    )


def _group(of: SenseAnalysis, number: int) -> str:
    group, tint = of.result.groups[number], CLUSTER_COLORS[number % len(CLUSTER_COLORS)]
    told = f"{len(group.members):,} occurrences{of.labels_of(group.members)}; mean cosine {group.cohesion:.3f}"
    lines = [_sentence(of.result.occurrences[member]) for member in group.members]
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
    return f"<li>{known}{escape(before)}<mark>{escape(one.surface)}</mark>{escape(behind)}</li>"


def _other(of: SenseAnalysis, one: RunSenses) -> str:
    return f"<section><h2>beside: {escape(one.name)}</h2>{_senses_page_plane(of, one)}</section>"
