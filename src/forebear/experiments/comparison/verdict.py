"""Conclusions of comparisons in words: which model is best at which cost, and which differences are significant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from forebear.experiments.comparison.results import TaskComparison, TaskComparisonRow, TextComparison, TextComparisonRow
from forebear.experiments.comparison.significance import score_difference
from forebear.settings.units import format_bytes, format_duration

MIN_IMPROVEMENT = 0.0005  # bits per byte, to take the lead
SIMILAR_COST_RATIO = 1.1  # costs with a smaller ratio count as equal


@dataclass(frozen=True)
class LeadInterval:
    """A span of training time, from `start` seconds to the next interval, in which this model leads."""

    row: TextComparisonRow
    start: float
    start_bits: float  # bits per byte at the start of the interval
    end_bits: float  # and at its end


def pareto_front_over_time(rows: Iterable[TextComparisonRow]) -> list[tuple[float, float, TextComparisonRow]]:
    """(seconds, bits per byte, row) of each new minimum over all rows that is no worse than every final result."""
    rows = list(rows)
    worst = max((bits for row in rows if (bits := row.mean("bits_per_byte")) is not None), default=0.0)
    points = [(seconds, bits, row) for row in rows for seconds, bits in row.running_minimum() if bits <= worst]
    front: list[tuple[float, float, TextComparisonRow]] = []
    for seconds, bits, row in sorted(points, key=lambda point: point[:2]):
        margin = 0 if front and front[-1][2].name == row.name else MIN_IMPROVEMENT
        if not front or bits < front[-1][1] - margin:
            front.append((seconds, bits, row))
    return front


def lead_intervals(rows: Iterable[TextComparisonRow]) -> list[LeadInterval]:
    """Intervals of training time with the leading row of each, in order of time."""
    intervals = []
    for _, group in groupby(pareto_front_over_time(rows), key=lambda point: point[2].name):
        points = list(group)
        (start, start_bits, row), (_, end_bits, _) = points[0], points[-1]
        intervals.append(LeadInterval(row, start, start_bits, end_bits))
    return intervals


def text_headline(comparison: TextComparison) -> str:
    """The main finding in one line."""
    best = comparison.best
    if best is None:
        return "No milestone has come to a result"
    bits = best.mean("bits_per_byte")
    caveat = f", {' and '.join(best.lossy_features)} not counted" if best.lossy_features else ""
    if not any(row.name != best.name and row.trial_values("bits_per_byte") for row in comparison.rows):
        return f"{best.title} needs {bits:.3f} bits for a byte{caveat}"
    return f"{best.title} describes this text best, in {bits:.3f} bits a byte{caveat}"


def text_conclusions(comparison: TextComparison) -> list[str]:
    """Which model leads at which cost, by how much, and the distance to the baselines and the entropy bound."""
    intervals, best = lead_intervals(comparison.rows), comparison.best
    other_metrics = [f"{row.title} {row.other_metrics}." for row in comparison.rows if row.other_metrics]
    if not intervals or best is None:
        return other_metrics or ["Nothing to compare yet: no milestone has scored the held-out text."]
    scored = [row for row in comparison.rows if row.trial_values("bits_per_byte")]
    lossy = [
        f"{row.title} does not pay for {' and '.join(row.lossy_features)}: its tokenizer ({row.trials[0].tokenizer})"
        " keeps none."
        for row in scored
        if row.lossy_features
    ]
    return [
        _lead_summary(intervals, multiple_models=len(comparison.rows) > 1),
        *lossy,
        *_text_unit_notes(scored),
        *other_metrics,
        *_cost_comparison(scored, best),
        *_scale_references(comparison, best.mean("bits_per_byte") or 0.0),
    ]


def _lead_summary(intervals: list[LeadInterval], *, multiple_models: bool) -> str:
    first, *later = intervals
    if not later:
        suffix = " is best at every cost" if multiple_models else ""
        return (
            f"{first.row.title}{suffix}: it gives its first answer after {format_duration(first.start)}"
            f" of learning and ends at {first.end_bits:.3f} bits a byte."
        )
    clauses = [f"up to {format_duration(later[0].start)} of learning"]
    clauses.append(f"{first.row.title} is best ({first.end_bits:.3f} bits a byte)")
    for interval, next_interval in zip(later, [*later[1:], None], strict=True):
        span = f" up to {format_duration(next_interval.start)}" if next_interval else " on"
        clauses.append(f"from {format_duration(interval.start)}{span} {interval.row.title} ({interval.end_bits:.3f})")
    text = ", ".join(clauses) + "."
    return text[0].upper() + text[1:]


def _cost_comparison(scored: Sequence[TextComparisonRow], best: TextComparisonRow) -> list[str]:
    """The best row compared with the fastest of the other rows with a result."""
    others = [row for row in scored if row.name != best.name]
    fastest = min(others, key=lambda row: row.mean("seconds") or float("inf"), default=None)
    lowest, cost = best.mean("bits_per_byte"), best.mean("seconds")
    if fastest is None or lowest is None or not cost or not (other_cost := fastest.mean("seconds")):
        return []
    saving = 1 - lowest / (fastest.mean("bits_per_byte") or lowest)
    ratio = cost / other_cost
    cost_text = f"for {ratio:.3g} times the seconds" if ratio > SIMILAR_COST_RATIO else "for about the same seconds"
    if ratio < 1 / SIMILAR_COST_RATIO:
        cost_text = f"and learns {1 / ratio:.3g} times as fast"
    bits = f"{saving:.0%} fewer bits than" if round(saving, 2) else "hardly fewer bits than"
    return [f"{best.title} needs {bits} {fastest.title}, {cost_text}."]


def _scale_references(comparison: TextComparison, lowest: float) -> list[str]:
    """The baselines and the entropy bound next to the lowest bits per byte."""
    sentences = []
    if baselines := sorted(comparison.yardsticks, key=lambda baseline: baseline.bits_per_byte):
        bits = ", ".join(f"{baseline.name} {baseline.bits_per_byte:.3f}" for baseline in baselines)
        sentences.append(f"For scale: {bits}.")
        if baselines[0].bits_per_byte < lowest:
            sentences.append(f"No milestone has come below {baselines[0].name} yet: more time, or more text, may.")
    if (limit := comparison.limit) is not None:
        distance = f"the best is {lowest - limit:.3f} above what no model can go below"
        sentences.append(f"The text's true entropy is {limit:.3f}: {distance}.")
    return sentences


def _text_unit_notes(scored: Sequence[TextComparisonRow]) -> list[str]:
    """Notes on rows that score sentences instead of documents, and so predict more end-of-text tokens."""
    num_ends = {row.name: max(ends) for row in scored if (ends := row.trial_values("ends"))}
    fewest = min(num_ends.values(), default=0)
    return [
        f"{row.title} takes each {row.trials[0].unit} for a text of its own, and pays for {num_ends[row.name]:,} ends"
        f" where others pay for {fewest:,}: perplexities of the two kinds cannot be compared."
        for row in scored
        if num_ends.get(row.name, fewest) > fewest
    ]


# --- Comparison on a task ---

ScoresByRow = Mapping[str, Sequence[np.ndarray]]  # (N,) per-example scores for each seed, by row name


def format_points(value: float) -> str:
    """A score or difference in percentage points."""
    return f"{100 * value:.1f}"


def metric_name(comparison: TaskComparison) -> str:
    """The display name of the metric."""
    display_names = {"f1": "F1", "micro_f1": "micro F1", "spearman": "rank correlation"}
    return display_names.get(comparison.figure, comparison.figure.replace("_", " "))


def task_headline(comparison: TaskComparison) -> str:
    """The main finding in one line."""
    best = comparison.best
    if best is None or best.score is None:
        return "Nothing has come to a result"
    if comparison.whole:
        return f"What BERT's parts are worth for {comparison.task}"
    return f"{best.title} does best, with {metric_name(comparison)} {format_points(best.score)}"


def task_conclusions(comparison: TaskComparison) -> list[str]:
    """Which row to choose: the best, the smallest and the fastest, or the effect of each ablation."""
    best = comparison.best
    if best is None or best.score is None:
        return ["Nothing to compare yet: no model has answered the test."]
    if comparison.whole:
        effects = [_ablation_conclusion(row.title, *row.versus) for row in comparison.rows if row.versus is not None]
        return effects or ["Only BERT as it is has a result."]
    num_seeds = len(best.trial_values("score"))
    spread = "" if best.spread is None else f" ± {format_points(best.spread)} over {num_seeds} seeds"
    conclusions = [
        f"{best.title} is best: {metric_name(comparison)} {format_points(best.score)}{spread}"
        f" on {_num_test_examples(comparison):,} examples."
    ]
    for superlative, row, cost, format_cost in (
        ("smallest", comparison.smallest, "disk", lambda size: f"{format_bytes(size)} on disk"),
        ("fastest", comparison.fastest, "milliseconds", "{:.2g} ms for one".format),
    ):
        if row is not None:
            score = format_points(row.score or 0.0) if row.name != best.name else "the best itself"
            result = f"{format_cost(row.mean(cost) or 0)}, {score}"
            conclusions.append(f"The {superlative} that is within 1 point of the best is {row.title}: {result}.")
    return conclusions


def _num_test_examples(comparison: TaskComparison) -> int:
    return int(comparison.facts.get("examples", {}).get("test", 0))


def _ablation_conclusion(title: str, difference: float, margin: float) -> str:
    text = f"{format_points(abs(difference))} points {'more' if difference > 0 else 'less'} than the whole"
    text = "as many points as the whole" if format_points(abs(difference)) == format_points(0.0) else text
    if abs(difference) <= margin:
        margin_text = f"within the noise of ± {format_points(margin)}: this budget and test say nothing about it"
        return f"BERT {title}: {text}, {margin_text}."
    return f"BERT {title}: {text} (noise ± {format_points(margin)})."


def score_versus_reference(
    comparison: TaskComparison, row: TaskComparisonRow, scores_by_row: ScoresByRow
) -> tuple[float, float] | None:
    """The score of an ablation minus that of the reference, and the margin of error of this difference."""
    scores, reference = scores_by_row.get(row.name), scores_by_row.get(comparison.whole)
    if row.name == comparison.whole or not scores or not reference:
        return None
    difference = score_difference(scores, reference)
    return difference.value, difference.margin


def comparison_notes(comparison: TaskComparison, scores_by_row: ScoresByRow) -> list[str]:
    """Caveats: uncertainty, rows below a baseline, and data splits."""
    notes = _data_notes(comparison)
    if comparison.best is not None:
        notes = [*_uncertainty_notes(comparison, comparison.best, scores_by_row), *_baseline_notes(comparison), *notes]
    return notes


def contamination_notes(files_by_title: Mapping[str, Sequence[str]]) -> list[str]:
    """Notes on rows whose base run was trained on the evaluation files."""
    return [
        f"The run that {title} begins with has learned from {' and '.join(files)} already:"
        " its scores on held-out parts of that say too much."
        for title, files in files_by_title.items()
        if files
    ]


def _uncertainty_notes(comparison: TaskComparison, best: TaskComparisonRow, scores_by_row: ScoresByRow) -> list[str]:
    notes = []
    low, high = best.mean("low"), best.mean("high")
    if low is not None and high is not None:
        notes.append(
            f"{_num_test_examples(comparison):,} test examples tell a score only so far: that of {best.title} lies"
            f" between {format_points(low)} and {format_points(high)} with 95 % confidence."
        )
    best_scores = scores_by_row.get(best.name)
    not_significant = [
        row.title
        for row in comparison.scored_rows
        if row.name != best.name
        and best_scores
        and (scores := scores_by_row.get(row.name))
        and not score_difference(best_scores, scores).is_significant
    ]
    if not_significant and not comparison.whole:
        names = " and ".join(filter(None, (", ".join(not_significant[:-1]), not_significant[-1])))
        notes.append(f"{names} cannot be told from {best.title}: the difference is within the noise of this test.")
    if comparison.num_seeds < 2 and len(comparison.scored_rows) > 1:
        notes.append(
            "One seed each: how much a score changes from one training to the next is not known (--seeds 3 tells)."
        )
    return notes


def _baseline_notes(comparison: TaskComparison) -> list[str]:
    """Notes on rows that do not beat a baseline or the linear model."""

    def titles_up_to(score: float, exclude: TaskComparisonRow | None = None) -> str:
        rows = comparison.scored_rows
        return ", ".join(row.title for row in rows if row is not exclude and (row.score or 0.0) <= score)

    notes = [
        f"No better than {baseline.name} ({format_points(baseline.score)}, {baseline.meaning}): {titles}."
        " More time, more examples, or another model may help."
        for baseline in comparison.baselines
        if (titles := titles_up_to(baseline.score))
    ]
    linear = next((row for row in comparison.scored_rows if row.milestone == "ngram"), None)
    if linear is not None and linear.score is not None and (titles := titles_up_to(linear.score, exclude=linear)):
        notes.append(f"No better than the linear model ({format_points(linear.score)}): {titles}.")
    return notes


def _data_notes(comparison: TaskComparison) -> list[str]:
    facts = comparison.facts
    counts, files = facts.get("examples", {}), facts.get("files", {})
    test_fraction = comparison.settings.get("test_share") or 0.0
    splits = []
    for split in ("train", "dev", "test"):
        if counts.get(split):
            origin = f"held out of {files.get('train', '')}" + (f", {test_fraction:.0%}" if split == "test" else "")
            splits.append(f"{split}: {counts[split]:,} examples ({files.get(split) or origin})")
    notes = ["; ".join(splits) + "."] if splits else []
    leaks = facts.get("leaks", {})
    if leaks.get("folded"):
        notes.append(
            f"{leaks['folded']:,} of {leaks['count']:,} test examples have a {leaks['of']} that is in the training"
            " examples too: scores are flattered, most of all those of models that remember."
        )
    return notes
