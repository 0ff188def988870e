"""Word senses as an HTML page: planes of occurrences and all sentences by cluster."""

from __future__ import annotations

from html import escape

import numpy as np

from forebear.inspection import embedding_plots
from forebear.inspection.embedding_plots import CLUSTER_COLORS, PlotPoint, cluster_summary, occurrence_context
from forebear.inspection.occurrences import Occurrence
from forebear.inspection.senses import RunSenses, SenseAnalysis

OPEN = 12  # sentences shown per cluster; the rest is collapsed
SENSES_PAGE_SIDE = 26  # columns of context in a dot's label


def senses_page(analysis: SenseAnalysis, title: str) -> str:
    result = analysis.result
    about = f"{len(result.occurrences):,} occurrences by {result.name}: {result.conclusion}."
    about += " A dot that is pointed at tells its words."
    groups = "".join(_group(analysis, number) for number in range(len(result.groups)))
    others = "".join(_other(analysis, other) for other in analysis.others)
    notes = "".join(f'<p class="about">{escape(note)}</p>' for note in analysis.notes)
    return embedding_plots.words_page(
        title, about, _senses_page_plane(analysis, result) + groups + others + notes, "senses.css"
    )


def _senses_page_plane(analysis: SenseAnalysis, result: RunSenses) -> str:
    """Summary and dots, or the conclusion where all dots would coincide."""
    summary = f'<p class="about">{escape(cluster_summary(analysis, result))}</p>'
    if result.is_by_spelling:
        return f'{summary}<p class="about">{escape(result.conclusion)}</p>'
    low, high = result.points.min(0), result.points.max(0)
    plane_size = np.array((embedding_plots.WIDE, embedding_plots.HIGH)) - 2 * embedding_plots.EDGE
    scale = float((plane_size / np.maximum(high - low, 1e-9)).min())  # one scale for both axes
    positions = (result.points - (low + high) / 2) * scale / plane_size + 0.5
    labeled = {group.members[0] for group in result.groups}
    dots = [_dot(result, number, place, number in labeled) for number, place in enumerate(positions)]
    return summary + embedding_plots.svg_plane(sorted(dots, key=lambda dot: not dot.is_labeled))


def _dot(one: RunSenses, number: int, position: np.ndarray, is_labeled: bool) -> PlotPoint:
    occurrence, cluster = one.occurrences[number], int(one.clustering.labels[number])
    sense = "" if occurrence.sense is None else f" ({occurrence.sense})"
    tooltip = f"group {cluster + 1}{sense}: {' '.join(occurrence.sentence.split())}"
    before, word, after = occurrence_context(occurrence, SENSES_PAGE_SIDE)
    has_space = (
        occurrence.sentence[: occurrence.start][-1:].isspace(),
        occurrence.sentence[occurrence.end :][:1].isspace(),
    )
    name = before + " " * has_space[0] + word + " " * has_space[1] + after
    return PlotPoint(
        name,
        float(position[0]),
        float(position[1]),
        tooltip,
        CLUSTER_COLORS[cluster % len(CLUSTER_COLORS)],
        is_labeled=is_labeled,
    )


def _group(analysis: SenseAnalysis, number: int) -> str:
    group, tint = analysis.result.groups[number], CLUSTER_COLORS[number % len(CLUSTER_COLORS)]
    summary = (
        f"{len(group.members):,} occurrences{analysis.label_counts(group.members)}; mean cosine {group.cohesion:.3f}"
    )
    lines = [_sentence(analysis.result.occurrences[member]) for member in group.members]
    details = f"<details><summary>{len(lines) - OPEN:,} more</summary>{_list_html(lines[OPEN:])}</details>"
    return (
        f'<section style="--tint:{tint}"><h2 class="of">group {number + 1}</h2><p class="about">{escape(summary)}</p>'
        f"{_list_html(lines[:OPEN])}{details if len(lines) > OPEN else ''}</section>"
    )


def _list_html(lines: list[str]) -> str:
    return f'<ul class="sense">{"".join(lines)}</ul>'


def _sentence(occurrence: Occurrence) -> str:
    sense_html = "" if occurrence.sense is None else f'<span class="known">{escape(occurrence.sense)}</span>'
    before, after = occurrence.sentence[: occurrence.start], occurrence.sentence[occurrence.end :]
    return f"<li>{sense_html}{escape(before)}<mark>{escape(occurrence.surface)}</mark>{escape(after)}</li>"


def _other(analysis: SenseAnalysis, result: RunSenses) -> str:
    return f"<section><h2>beside: {escape(result.name)}</h2>{_senses_page_plane(analysis, result)}</section>"
