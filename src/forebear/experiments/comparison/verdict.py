"""Conclusions of comparisons in words: which model is best at which cost, and what may be noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.experiments.comparison.results import TaskComparison, TaskComparisonRow, TextComparison, TextComparisonRow
from forebear.experiments.comparison.significance import score_difference
from forebear.settings.units import format_bytes, format_duration

MIN_IMPROVEMENT = 0.0005  # bits per byte: a smaller improvement does not take the lead
SIMILAR_COST_RATIO = 1.1  # costs with a ratio below this count as equal


@dataclass(frozen=True)
class LeadInterval:
    """A span of training time, from `start` seconds to the next interval, in which this model leads."""

    row: TextComparisonRow
    start: float
    first: float  # bits per byte at its start
    last: float  # and at its end


def time_frontier(rows: Iterable[TextComparisonRow]) -> list[tuple[float, float, TextComparisonRow]]:
    """(seconds, bits per byte, row) of each new minimum over all rows.

    Points above the worst final result are left out: leading there is irrelevant.
    """
    rows = list(rows)
    worst = max((bits for row in rows if (bits := row.mean("bits_per_byte")) is not None), default=0.0)
    reached = [(seconds, bits, row) for row in rows for seconds, bits in row.best_so_far() if bits <= worst]
    frontier: list[tuple[float, float, TextComparisonRow]] = []
    for seconds, bits, row in sorted(reached, key=lambda point: point[:2]):
        margin = 0 if frontier and frontier[-1][2].name == row.name else MIN_IMPROVEMENT
        if not frontier or bits < frontier[-1][1] - margin:
            frontier.append((seconds, bits, row))
    return frontier


def lead_intervals(rows: Iterable[TextComparisonRow]) -> list[LeadInterval]:
    """Intervals of training time with the leading row of each, in order of time."""
    intervals: list[LeadInterval] = []
    for seconds, bits, row in time_frontier(rows):
        if intervals and intervals[-1].row.name == row.name:
            intervals[-1] = LeadInterval(row, intervals[-1].start, intervals[-1].first, bits)
        else:
            intervals.append(LeadInterval(row, seconds, bits, bits))
    return intervals


def text_headline(comparison: TextComparison) -> str:
    """The main finding in one line."""
    best = comparison.best
    if best is None:
        return "No milestone has come to a result"
    bits = best.mean("bits_per_byte")
    others = [row for row in comparison.rows if row.name != best.name and row.mean("bits_per_byte") is not None]
    caveat = f", {' and '.join(best.lossy_features)} not counted" if best.lossy_features else ""
    if not others:
        return f"{best.title} needs {bits:.3f} bits for a byte{caveat}"
    return f"{best.title} describes this text best, in {bits:.3f} bits a byte{caveat}"


def text_conclusions(comparison: TextComparison) -> list[str]:
    """Which model leads at which cost, by how much, and the distance to the baselines and the entropy bound."""
    intervals, other_metrics = (
        lead_intervals(comparison.rows),
        [f"{row.title} {row.other_metrics}." for row in comparison.rows if row.other_metrics],
    )
    if not intervals:
        return other_metrics or ["Nothing to compare yet: no milestone has scored the held-out text."]
    conclusions = [
        _lead_summary(intervals, several=len(comparison.rows) > 1),
        *_lossy_tokenizer_notes(comparison),
        *_text_unit_notes(comparison),
        *other_metrics,
    ]
    best = comparison.best
    if best is not None:
        conclusions += [*_cost_comparison(comparison, best), *_scale_references(comparison, best)]
    return conclusions


def _lead_summary(intervals: list[LeadInterval], *, several: bool) -> str:
    first, *later = intervals
    if not later:
        best = " is best at every cost" if several else ""
        return (
            f"{first.row.title}{best}: it gives its first answer after {format_duration(first.start)}"
            f" of learning and ends at {first.last:.3f} bits a byte."
        )
    parts = [
        f"up to {format_duration(later[0].start)} of learning, {first.row.title} is best ({first.last:.3f} bits a byte)"
    ]
    for interval, following in zip(later, [*later[1:], None], strict=True):
        span = f" up to {format_duration(following.start)}" if following else " on"
        parts.append(f"from {format_duration(interval.start)}{span} {interval.row.title} ({interval.last:.3f})")
    text = ", ".join(parts) + "."
    return text[0].upper() + text[1:]


def _cost_comparison(comparison: TextComparison, best: TextComparisonRow) -> list[str]:
    """The best row against the fastest of the others with a result."""
    lowest, cost = best.mean("bits_per_byte"), best.mean("seconds")
    others = [row for row in comparison.rows if row.name != best.name and row.trial_values("bits_per_byte")]
    fastest = min(others, key=lambda row: row.mean("seconds") or float("inf"), default=None)
    if fastest is None or lowest is None or not cost or not (other_cost := fastest.mean("seconds")):
        return []
    saving = 1 - lowest / (fastest.mean("bits_per_byte") or lowest)
    ratio = cost / other_cost
    cost_text = f"for {ratio:.3g} times the seconds" if ratio > SIMILAR_COST_RATIO else "for about the same seconds"
    if ratio < 1 / SIMILAR_COST_RATIO:
        cost_text = f"and learns {1 / ratio:.3g} times as fast"
    bits = f"{saving:.0%} fewer bits than" if round(saving, 2) else "hardly fewer bits than"
    return [f"{best.title} needs {bits} {fastest.title}, {cost_text}."]


def _scale_references(comparison: TextComparison, best: TextComparisonRow) -> list[str]:
    lowest, sentences = best.mean("bits_per_byte"), []
    if lowest is None:
        return []
    if baselines := sorted(comparison.yardsticks, key=lambda baseline: baseline.bits_per_byte):
        sentences.append(
            "For scale: " + ", ".join(f"{baseline.name} {baseline.bits_per_byte:.3f}" for baseline in baselines) + "."
        )
        if baselines[0].bits_per_byte < lowest:
            sentences.append(f"No milestone has come below {baselines[0].name} yet: more time, or more text, may.")
    if comparison.limit is not None:
        sentences.append(
            f"The text's true entropy is {comparison.limit:.3f}: the best is {lowest - comparison.limit:.3f} above what"
            " no model can go below."
        )
    return sentences


def _lossy_tokenizer_notes(comparison: TextComparison) -> list[str]:
    """Notes on rows whose tokenizers are lossy."""
    notes = []
    for row in comparison.rows:
        if row.lossy_features and row.trial_values("bits_per_byte"):
            tokenizer_kind = row.trials[0].tokenizer
            notes.append(
                f"{row.title} does not pay for {' and '.join(row.lossy_features)}:"
                f" its tokenizer ({tokenizer_kind}) keeps none."
            )
    return notes


NOT_COMPARABLE = "perplexities of the two kinds cannot be compared"


def _text_unit_notes(comparison: TextComparison) -> list[str]:
    """Notes on rows that score sentences instead of documents, and so predict more end tokens."""
    num_ends = {
        row.name: max(row.trial_values("ends"))
        for row in comparison.rows
        if row.trial_values("bits_per_byte") and row.trial_values("ends")
    }
    fewest = min(num_ends.values(), default=0)
    notes = []
    for row in comparison.rows:
        if num_ends.get(row.name, fewest) > fewest:
            description = f"{row.title} takes each {row.trials[0].unit} for a text of its own"
            notes.append(
                f"{description}, and pays for {num_ends[row.name]:,} ends where others pay for {fewest:,}:"
                f" {NOT_COMPARABLE}."
            )
    return notes


# --- Comparison on a task ---

ScoresByRow = Mapping[str, Sequence[np.ndarray]]  # (N,) per-example scores for each seed, by row name


def format_points(value: float) -> str:
    """A score or difference in points of a hundred."""
    return f"{100 * value:.1f}"


def metric_name(comparison: TaskComparison) -> str:
    """The display name of the metric."""
    named = {"f1": "F1", "micro_f1": "micro F1", "spearman": "rank correlation"}
    return named.get(comparison.figure, comparison.figure.replace("_", " "))


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
        return [conclusions for row in comparison.rows if (conclusions := _ablation_conclusion(row))] or [
            "Only BERT as it is has a result."
        ]
    spread = (
        f" ± {format_points(best.spread)} over {len(best.trial_values('score'))} seeds"
        if best.spread is not None
        else ""
    )
    conclusions = [
        f"{best.title} is best: {metric_name(comparison)} {format_points(best.score)}{spread}"
        f" on {_num_test_examples(comparison):,} examples."
    ]
    smallest, fastest = comparison.smallest, comparison.fastest
    if smallest is not None:
        conclusions.append(
            _recommendation("smallest", smallest, best, f"{format_bytes(smallest.mean('disk') or 0)} on disk")
        )
    if fastest is not None:
        conclusions.append(_recommendation("fastest", fastest, best, f"{fastest.mean('milliseconds'):.2g} ms for one"))
    return conclusions


def _recommendation(word: str, row: TaskComparisonRow, best: TaskComparisonRow, cost: str) -> str:
    score_text = f", {format_points(row.score or 0.0)}" if row.name != best.name else ", the best itself"
    return f"The {word} that is within 1 point of the best is {row.title}: {cost}{score_text}."


def _num_test_examples(comparison: TaskComparison) -> int:
    return int(comparison.facts.get("examples", {}).get("test", 0))


def _ablation_conclusion(row: TaskComparisonRow) -> str:
    if row.versus is None:
        return ""
    value, noise = row.versus
    text = f"{format_points(abs(value))} points {'more' if value > 0 else 'less'} than the whole"
    text = "as many points as the whole" if format_points(abs(value)) == format_points(0.0) else text
    if abs(value) <= noise:
        noise_text = f"within the noise of ± {format_points(noise)}: this budget and test say nothing about it"
        return f"BERT {row.title}: {text}, {noise_text}."
    return f"BERT {row.title}: {text} (noise ± {format_points(noise)})."


def score_versus_reference(
    comparison: TaskComparison, row: TaskComparisonRow, parts: ScoresByRow
) -> tuple[float, float] | None:
    """The score of an ablation minus that of the reference, and the noise of this difference."""
    if not comparison.whole or row.name == comparison.whole or not parts.get(row.name):
        return None
    if not parts.get(comparison.whole):
        return None
    difference = score_difference(parts[row.name], parts[comparison.whole])
    return difference.value, difference.noise


def comparison_notes(comparison: TaskComparison, parts: ScoresByRow) -> list[str]:
    """Caveats: uncertainty, rows below a baseline, and data splits."""
    notes = (
        []
        if not comparison.scored_rows
        else [*_uncertainty_notes(comparison, parts), *_baseline_notes(comparison, parts)]
    )
    return [*notes, *_data_notes(comparison)]


def contaminated_rows(known: Mapping[str, Sequence[str]]) -> list[str]:
    """Notes on rows whose base run was trained on files that are now evaluated on."""
    return [
        f"The run that {title} begins with has learned from {' and '.join(files)} already:"
        " its scores on held-out parts of that say too much."
        for title, files in known.items()
        if files
    ]


def _uncertainty_notes(comparison: TaskComparison, parts: ScoresByRow) -> list[str]:
    best = comparison.best
    assert best is not None
    lows, highs = best.mean("low"), best.mean("high")
    notes = []
    if lows is not None and highs is not None:
        notes.append(
            f"{_num_test_examples(comparison):,} test examples tell a score only so far: that of {best.title} lies"
            f" between {format_points(lows)} and {format_points(highs)} with 95 % confidence."
        )
    indistinguishable = []
    for row in comparison.scored_rows:
        scores = parts.get(row.name), parts.get(best.name)
        if (
            row.name != best.name
            and scores[0]
            and scores[1]
            and not score_difference(scores[1], scores[0]).is_significant
        ):
            indistinguishable.append(row.title)
    if indistinguishable and not comparison.whole:
        names = (
            f"{', '.join(indistinguishable[:-1])} and {indistinguishable[-1]}"
            if len(indistinguishable) > 1
            else indistinguishable[0]
        )
        notes.append(f"{names} cannot be told from {best.title}: the difference is within the noise of this test.")
    if len(comparison.settings.get("seeds", ())) < 2 and len(comparison.scored_rows) > 1:
        notes.append(
            "One seed each: how much a score changes from one training to the next is not known (--seeds 3 tells)."
        )
    return notes


def _baseline_notes(comparison: TaskComparison, parts: ScoresByRow) -> list[str]:
    """Notes on rows that do not beat a baseline or the linear model."""
    notes = []
    for baseline in comparison.baselines:
        rows = [row.title for row in comparison.scored_rows if (row.score or 0.0) <= baseline.score]
        if rows:
            notes.append(
                f"No better than {baseline.name} ({format_points(baseline.score)}, {baseline.meaning}):"
                f" {', '.join(rows)}. More time, more examples, or another model may help."
            )
    linear = next((row for row in comparison.scored_rows if row.milestone == "ngram"), None)
    if linear is not None and linear.score is not None:
        rows = [row.title for row in comparison.scored_rows if row is not linear and (row.score or 0.0) <= linear.score]
        if rows:
            notes.append(f"No better than the linear model ({format_points(linear.score)}): {', '.join(rows)}.")
    return notes


def _data_notes(comparison: TaskComparison) -> list[str]:
    facts = comparison.facts
    counts, files = facts.get("examples", {}), facts.get("files", {})
    share = comparison.settings.get("test_share") or 0.0
    splits = []
    for split in ("train", "dev", "test"):
        if counts.get(split):
            origin = f"held out of {files.get('train', '')}" + (f", {share:.0%}" if split == "test" else "")
            splits.append(f"{split}: {counts[split]:,} examples ({files.get(split) or origin})")
    notes = ["; ".join(splits) + "."] if splits else []
    leaks = facts.get("leaks", {})
    if leaks.get("folded"):
        notes.append(
            f"{leaks['folded']:,} of {leaks['count']:,} test examples have a {leaks['of']} that is in the training"
            " examples too: scores are flattered, most of all those of models that remember."
        )
    return notes
