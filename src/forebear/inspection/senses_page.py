"""Word senses as an HTML page: planes of occurrences and all sentences by cluster."""

from __future__ import annotations

from html import escape

from forebear.inspection.embedding_plots import (
    PlotPoint,
    cluster_color,
    cluster_summary,
    occurrence_context,
    scale_to_plane,
    svg_plane,
    words_page,
)
from forebear.inspection.occurrences import Occurrence
from forebear.inspection.senses import RunSenses, SenseAnalysis

OPEN = 12  # sentences shown per cluster; the rest is collapsed
SENSES_PAGE_SIDE = 26  # columns of context in a dot's label


def senses_page(analysis: SenseAnalysis, title: str) -> str:
    result = analysis.result
    about = f"{len(result.occurrences):,} occurrences by {result.name}: {result.conclusion}."
    about += " A dot that is pointed at tells its words."
    body = _senses_page_plane(analysis, result)
    body += "".join(_group(analysis, number) for number in range(len(result.groups)))
    for other in analysis.others:
        body += f"<section><h2>beside: {escape(other.name)}</h2>{_senses_page_plane(analysis, other)}</section>"
    body += "".join(f'<p class="about">{escape(note)}</p>' for note in analysis.notes)
    return words_page(title, about, body, "senses.css")


def _senses_page_plane(analysis: SenseAnalysis, result: RunSenses) -> str:
    """Summary and dots, or the conclusion where all dots would coincide."""
    summary = f'<p class="about">{escape(cluster_summary(analysis, result))}</p>'
    if result.is_by_spelling:
        return f'{summary}<p class="about">{escape(result.conclusion)}</p>'
    labeled = {group.members[0] for group in result.groups}
    positions = scale_to_plane(result.points)
    dots = [_dot(result, number, position, number in labeled) for number, position in enumerate(positions)]
    return summary + svg_plane(sorted(dots, key=lambda dot: not dot.is_labeled))


def _dot(result: RunSenses, number: int, position: tuple[float, float], is_labeled: bool) -> PlotPoint:
    occurrence, cluster = result.occurrences[number], int(result.clustering.labels[number])
    sense = "" if occurrence.sense is None else f" ({occurrence.sense})"
    tooltip = f"group {cluster + 1}{sense}: {' '.join(occurrence.sentence.split())}"
    before, word, after = occurrence_context(occurrence, SENSES_PAGE_SIDE)
    name = f"{before}{' ' * occurrence.before[-1:].isspace()}{word}{' ' * occurrence.after[:1].isspace()}{after}"
    return PlotPoint(name, *position, tooltip, cluster_color(cluster), is_labeled=is_labeled)


def _group(analysis: SenseAnalysis, number: int) -> str:
    group, tint = analysis.result.groups[number], cluster_color(number)
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
    before, word, after = map(escape, (occurrence.before, occurrence.surface, occurrence.after))
    return f"<li>{sense_html}{before}<mark>{word}</mark>{after}</li>"
