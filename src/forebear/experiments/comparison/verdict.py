"""Which milestone wins at which cost: computed from what was reached when, and said in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebear.experiments.comparison.results import TaskComparison, TaskComparisonRow, TextComparison, TextComparisonRow
from forebear.experiments.comparison.significance import score_difference
from forebear.settings.units import format_bytes, format_duration

LEAST = 0.0005  # bits per byte: what is nearer than this is no victory
ALIKE = 1.1  # costs whose ratio is below this are about the same


@dataclass(frozen=True)
class LeadInterval:
    """From `start` seconds of learning on, until the next reign, nobody has come lower than this milestone."""

    row: TextComparisonRow
    start: float
    first: float  # bits per byte when the reign begins
    last: float  # and when it ends


def time_frontier(rows: Iterable[TextComparisonRow]) -> list[tuple[float, float, TextComparisonRow]]:
    """(seconds, bits per byte, by whom) of every moment when the lowest of all falls.

    What is worse than the worst result of all is nobody's aim: who leads there, on the way down, is left out.
    """
    rows = list(rows)
    worst = max((bits for row in rows if (bits := row.mean("bits_per_byte")) is not None), default=0.0)
    reached = [(seconds, bits, row) for row in rows for seconds, bits in row.reached() if bits <= worst]
    falls: list[tuple[float, float, TextComparisonRow]] = []
    for seconds, bits, row in sorted(reached, key=lambda it: it[:2]):
        margin = 0 if falls and falls[-1][2].name == row.name else LEAST
        if not falls or bits < falls[-1][1] - margin:
            falls.append((seconds, bits, row))
    return falls


def reigns(rows: Iterable[TextComparisonRow]) -> list[LeadInterval]:
    """Who is best from when on, in the order of time."""
    found: list[LeadInterval] = []
    for seconds, bits, row in time_frontier(rows):
        if found and found[-1].row.name == row.name:
            found[-1] = LeadInterval(row, found[-1].start, found[-1].first, bits)
        else:
            found.append(LeadInterval(row, seconds, bits, bits))
    return found


def text_headline(comparison: TextComparison) -> str:
    """The finding, in one line."""
    best = comparison.best
    if best is None:
        return "No milestone has come to a result"
    bits = best.mean("bits_per_byte")
    others = [row for row in comparison.rows if row.name != best.name and row.mean("bits_per_byte") is not None]
    but = f", {' and '.join(best.lossy_features)} not counted" if best.lossy_features else ""
    if not others:
        return f"{best.title} needs {bits:.3f} bits for a byte{but}"
    return f"{best.title} describes this text best, in {bits:.3f} bits a byte{but}"


def text_conclusions(comparison: TextComparison) -> list[str]:
    """Which wins at which cost; how far apart they are; how near to the yardsticks and to the limit."""
    found, finders = reigns(comparison.rows), [f"{row.title} {row.finds}." for row in comparison.rows if row.finds]
    if not found:
        return finders or ["Nothing to compare yet: no milestone has scored the held-out text."]
    told = [_story(found, several=len(comparison.rows) > 1), *_unpaid(comparison), *_ends(comparison), *finders]
    best = comparison.best
    if best is not None:
        told += [*_price(comparison, best), *_beside(comparison, best)]
    return told


def _story(found: list[LeadInterval], *, several: bool) -> str:
    first, *later = found
    if not later:
        best = " is best at every cost" if several else ""
        return (
            f"{first.row.title}{best}: it gives its first answer after {format_duration(first.start)}"
            f" of learning and ends at {first.last:.3f} bits a byte."
        )
    parts = [
        f"up to {format_duration(later[0].start)} of learning, {first.row.title} is best ({first.last:.3f} bits a byte)"
    ]
    for reign, after in zip(later, [*later[1:], None], strict=True):
        until = f" up to {format_duration(after.start)}" if after else " on"
        parts.append(f"from {format_duration(reign.start)}{until} {reign.row.title} ({reign.last:.3f})")
    text = ", ".join(parts) + "."
    return text[0].upper() + text[1:]


def _price(comparison: TextComparison, best: TextComparisonRow) -> list[str]:
    """The best against the quickest of the others that has a result."""
    lowest, cost = best.mean("bits_per_byte"), best.mean("seconds")
    others = [row for row in comparison.rows if row.name != best.name and row.values("bits_per_byte")]
    quick = min(others, key=lambda row: row.mean("seconds") or float("inf"), default=None)
    if quick is None or lowest is None or not cost or not (paid := quick.mean("seconds")):
        return []
    fewer = 1 - lowest / (quick.mean("bits_per_byte") or lowest)
    ratio = cost / paid
    price = f"for {ratio:.3g} times the seconds" if ratio > ALIKE else "for about the same seconds"
    if ratio < 1 / ALIKE:
        price = f"and learns {1 / ratio:.3g} times as fast"
    bits = f"{fewer:.0%} fewer bits than" if round(fewer, 2) else "hardly fewer bits than"
    return [f"{best.title} needs {bits} {quick.title}, {price}."]


def _beside(comparison: TextComparison, best: TextComparisonRow) -> list[str]:
    lowest, told = best.mean("bits_per_byte"), []
    if lowest is None:
        return []
    if sticks := sorted(comparison.yardsticks, key=lambda stick: stick.bits_per_byte):
        told.append("For scale: " + ", ".join(f"{stick.name} {stick.bits_per_byte:.3f}" for stick in sticks) + ".")
        if sticks[0].bits_per_byte < lowest:
            told.append(f"No milestone has come below {sticks[0].name} yet: more time, or more text, may.")
    if comparison.limit is not None:
        told.append(
            f"The text's true entropy is {comparison.limit:.3f}: the best is {lowest - comparison.limit:.3f} above what"
            " no model can go below."
        )
    return told


def _unpaid(comparison: TextComparison) -> list[str]:
    """Whose figures leave something out, because their tokenizers do."""
    told = []
    for row in comparison.rows:
        if row.lossy_features and row.values("bits_per_byte"):
            kind = row.trials[0].tokenizer
            told.append(
                f"{row.title} does not pay for {' and '.join(row.lossy_features)}: its tokenizer ({kind}) keeps none."
            )
    return told


APART = "perplexities of the two kinds cannot be compared"


def _ends(comparison: TextComparison) -> list[str]:
    """Whose figures count more ends than others', because their texts are sentences and not documents."""
    paid = {
        row.name: max(row.values("ends"))
        for row in comparison.rows
        if row.values("bits_per_byte") and row.values("ends")
    }
    fewest = min(paid.values(), default=0)
    told = []
    for row in comparison.rows:
        if paid.get(row.name, fewest) > fewest:
            what = f"{row.title} takes each {row.trials[0].unit} for a text of its own"
            told.append(f"{what}, and pays for {paid[row.name]:,} ends where others pay for {fewest:,}: {APART}.")
    return told


# What a comparison on a task comes to, in words: which to take, what it costs, and what of it may be chance.


Parts = Mapping[str, Sequence[np.ndarray]]  # of each row by its name: (N,) for each seed


def format_points(value: float) -> str:
    """A score, or a difference of scores, as people say it: in points of a hundred."""
    return f"{100 * value:.1f}"


def metric_name(comparison: TaskComparison) -> str:
    """The name of the score."""
    named = {"f1": "F1", "micro_f1": "micro F1", "spearman": "rank correlation"}
    return named.get(comparison.figure, comparison.figure.replace("_", " "))


def task_headline(comparison: TaskComparison) -> str:
    """The finding, in one line."""
    best = comparison.best
    if best is None or best.score is None:
        return "Nothing has come to a result"
    if comparison.whole:
        return f"What BERT's parts are worth for {comparison.task}"
    return f"{best.title} does best, with {metric_name(comparison)} {format_points(best.score)}"


def task_conclusions(comparison: TaskComparison) -> list[str]:
    """What a person needs to choose."""
    best = comparison.best
    if best is None or best.score is None:
        return ["Nothing to compare yet: no model has answered the test."]
    if comparison.whole:
        return [told for row in comparison.rows if (told := _ablated(row))] or ["Only BERT as it is has a result."]
    spread = (
        f" ± {format_points(best.spread)} over {len(best.values('score'))} seeds" if best.spread is not None else ""
    )
    told = [
        f"{best.title} is best: {metric_name(comparison)} {format_points(best.score)}{spread} on {_tested(comparison):,} examples."
    ]
    small, quick = comparison.smallest, comparison.fastest
    if small is not None:
        told.append(_choice("smallest", small, best, f"{format_bytes(small.mean('disk') or 0)} on disk"))
    if quick is not None:
        told.append(_choice("fastest", quick, best, f"{quick.mean('milliseconds'):.2g} ms for one"))
    return told


def _choice(word: str, row: TaskComparisonRow, best: TaskComparisonRow, cost: str) -> str:
    own = f", {format_points(row.score or 0.0)}" if row.name != best.name else ", the best itself"
    return f"The {word} that is within 1 point of the best is {row.title}: {cost}{own}."


def _tested(comparison: TaskComparison) -> int:
    return int(comparison.facts.get("examples", {}).get("test", 0))


def _ablated(row: TaskComparisonRow) -> str:
    if row.versus is None:
        return ""
    value, noise = row.versus
    told = f"{format_points(abs(value))} points {'more' if value > 0 else 'less'} than the whole"
    told = "as many points as the whole" if format_points(abs(value)) == format_points(0.0) else told
    if abs(value) <= noise:
        noisy = f"within the noise of ± {format_points(noise)}: this budget and test say nothing about it"
        return f"BERT {row.title}: {told}, {noisy}."
    return f"BERT {row.title}: {told} (noise ± {format_points(noise)})."


def score_versus_reference(
    comparison: TaskComparison, row: TaskComparisonRow, parts: Parts
) -> tuple[float, float] | None:
    """A variant's score minus that of the whole, with what chance may make of nothing."""
    if not comparison.whole or row.name == comparison.whole or not parts.get(row.name):
        return None
    if not parts.get(comparison.whole):
        return None
    found = score_difference(parts[row.name], parts[comparison.whole])
    return found.value, found.noise


def comparison_notes(comparison: TaskComparison, parts: Parts) -> list[str]:
    """What a reader must know before believing the table."""
    told = [] if not comparison.scored_rows else [*_noise(comparison, parts), *_below(comparison, parts)]
    return [*told, *_data(comparison)]


def contaminated_rows(known: Mapping[str, Sequence[str]]) -> list[str]:
    """Rows whose run has learned before from files that now examine it."""
    return [
        f"The run that {title} begins with has learned from {' and '.join(files)} already:"
        " its scores on held-out parts of that say too much."
        for title, files in known.items()
        if files
    ]


def _noise(comparison: TaskComparison, parts: Parts) -> list[str]:
    best = comparison.best
    assert best is not None
    lows, highs = best.mean("low"), best.mean("high")
    told = []
    if lows is not None and highs is not None:
        told.append(
            f"{_tested(comparison):,} test examples tell a score only so far: that of {best.title} lies between"
            f" {format_points(lows)} and {format_points(highs)} with 95 % confidence."
        )
    alike = []
    for row in comparison.scored_rows:
        both = parts.get(row.name), parts.get(best.name)
        if row.name != best.name and both[0] and both[1] and not score_difference(both[1], both[0]).is_significant:
            alike.append(row.title)
    if alike and not comparison.whole:
        some = f"{', '.join(alike[:-1])} and {alike[-1]}" if len(alike) > 1 else alike[0]
        told.append(f"{some} cannot be told from {best.title}: the difference is within the noise of this test.")
    if len(comparison.settings.get("seeds", ())) < 2 and len(comparison.scored_rows) > 1:
        told.append(
            "One seed each: how much a score changes from one training to the next is not known (--seeds 3 tells)."
        )
    return told


def _below(comparison: TaskComparison, parts: Parts) -> list[str]:
    """Those that do not do better than what needs no network, or no learning."""
    told = []
    for base in comparison.baselines:
        rows = [row.title for row in comparison.scored_rows if (row.score or 0.0) <= base.score]
        if rows:
            told.append(
                f"No better than {base.name} ({format_points(base.score)}, {base.meaning}): {', '.join(rows)}."
                " More time, more examples, or another model may help."
            )
    linear = next((row for row in comparison.scored_rows if row.milestone == "ngram"), None)
    if linear is not None and linear.score is not None:
        rows = [row.title for row in comparison.scored_rows if row is not linear and (row.score or 0.0) <= linear.score]
        if rows:
            told.append(f"No better than the linear model ({format_points(linear.score)}): {', '.join(rows)}.")
    return told


def _data(comparison: TaskComparison) -> list[str]:
    facts = comparison.facts
    counts, files = facts.get("examples", {}), facts.get("files", {})
    share = comparison.settings.get("test_share") or 0.0
    sides = []
    for side in ("train", "dev", "test"):
        if counts.get(side):
            held = f"held out of {files.get('train', '')}" + (f", {share:.0%}" if side == "test" else "")
            sides.append(f"{side}: {counts[side]:,} examples ({files.get(side) or held})")
    told = ["; ".join(sides) + "."] if sides else []
    leaks = facts.get("leaks", {})
    if leaks.get("folded"):
        told.append(
            f"{leaks['folded']:,} of {leaks['count']:,} test examples have a {leaks['of']} that is in the training"
            " examples too: scores are flattered, most of all those of models that remember."
        )
    return told
