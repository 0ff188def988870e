"""What a comparison on a task comes to, in words: which to take, what it costs, and what of it may be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from forebear.comparing.noise import difference
from forebear.comparing.task_outcomes import TaskComparison, TaskRow
from forebear.comparing.wording import size

Parts = Mapping[str, Sequence[np.ndarray]]  # of each row by its name: (N,) for each seed


def points(value: float) -> str:
    """A score, or a difference of scores, as people say it: in points of a hundred."""
    return f"{100 * value:.1f}"


def figure(comparison: TaskComparison) -> str:
    """The name of the score."""
    named = {"f1": "F1", "micro_f1": "micro F1", "spearman": "rank correlation"}
    return named.get(comparison.figure, comparison.figure.replace("_", " "))


def headline(comparison: TaskComparison) -> str:
    """The finding, in one line."""
    best = comparison.best
    if best is None or best.score is None:
        return "Nothing has come to a result"
    if comparison.whole:
        return f"What BERT's parts are worth for {comparison.task}"
    return f"{best.title} does best, with {figure(comparison)} {points(best.score)}"


def sentences(comparison: TaskComparison) -> list[str]:
    """What a person needs to choose."""
    best = comparison.best
    if best is None or best.score is None:
        return ["Nothing to compare yet: no model has answered the test."]
    if comparison.whole:
        return [told for row in comparison.rows if (told := _ablated(row))] or ["Only BERT as it is has a result."]
    spread = f" ± {points(best.spread)} over {len(best.of('score'))} seeds" if best.spread is not None else ""
    told = [
        f"{best.title} is best: {figure(comparison)} {points(best.score)}{spread} on {_tested(comparison):,} examples."
    ]
    small, quick = comparison.smallest, comparison.fastest
    if small is not None:
        told.append(_choice("smallest", small, best, f"{size(small.mean('disk') or 0)} on disk"))
    if quick is not None:
        told.append(_choice("fastest", quick, best, f"{quick.mean('milliseconds'):.2g} ms for one"))
    return told


def _choice(word: str, row: TaskRow, best: TaskRow, cost: str) -> str:
    own = f", {points(row.score or 0.0)}" if row.name != best.name else ", the best itself"
    return f"The {word} that is within 1 point of the best is {row.title}: {cost}{own}."


def _tested(comparison: TaskComparison) -> int:
    return int(comparison.facts.get("examples", {}).get("test", 0))


def _ablated(row: TaskRow) -> str:
    if row.versus is None:
        return ""
    value, noise = row.versus
    told = f"{points(abs(value))} points {'more' if value > 0 else 'less'} than the whole"
    told = "as many points as the whole" if points(abs(value)) == points(0.0) else told
    if abs(value) <= noise:
        noisy = f"within the noise of ± {points(noise)}: this budget and test say nothing about it"
        return f"BERT {row.title}: {told}, {noisy}."
    return f"BERT {row.title}: {told} (noise ± {points(noise)})."


def versus(comparison: TaskComparison, row: TaskRow, parts: Parts) -> tuple[float, float] | None:
    """A variant's score minus that of the whole, with what chance may make of nothing."""
    if not comparison.whole or row.name == comparison.whole or not parts.get(row.name):
        return None
    if not parts.get(comparison.whole):
        return None
    found = difference(parts[row.name], parts[comparison.whole])
    return found.value, found.noise


def remarks(comparison: TaskComparison, parts: Parts) -> list[str]:
    """What a reader must know before believing the table."""
    told = [] if not comparison.scored else [*_noise(comparison, parts), *_below(comparison, parts)]
    return [*told, *_data(comparison)]


def flattered(known: Mapping[str, Sequence[str]]) -> list[str]:
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
            f" {points(lows)} and {points(highs)} with 95 % confidence."
        )
    alike = []
    for row in comparison.scored:
        both = parts.get(row.name), parts.get(best.name)
        if row.name != best.name and both[0] and both[1] and not difference(both[1], both[0]).tells:
            alike.append(row.title)
    if alike and not comparison.whole:
        some = f"{', '.join(alike[:-1])} and {alike[-1]}" if len(alike) > 1 else alike[0]
        told.append(f"{some} cannot be told from {best.title}: the difference is within the noise of this test.")
    if len(comparison.settings.get("seeds", ())) < 2 and len(comparison.scored) > 1:
        told.append(
            "One seed each: how much a score changes from one training to the next is not known (--seeds 3 tells)."
        )
    return told


def _below(comparison: TaskComparison, parts: Parts) -> list[str]:
    """Those that do not do better than what needs no network, or no learning."""
    told = []
    for base in comparison.baselines:
        rows = [row.title for row in comparison.scored if (row.score or 0.0) <= base.score]
        if rows:
            told.append(
                f"No better than {base.name} ({points(base.score)}, {base.meaning}): {', '.join(rows)}."
                " More time, more examples, or another model may help."
            )
    linear = next((row for row in comparison.scored if row.milestone == "ngram"), None)
    if linear is not None and linear.score is not None:
        rows = [row.title for row in comparison.scored if row is not linear and (row.score or 0.0) <= linear.score]
        if rows:
            told.append(f"No better than the linear model ({points(linear.score)}): {', '.join(rows)}.")
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
