"""Which milestone wins at which cost: computed from what was reached when, and said in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forebear.comparing.outcomes import Comparison, Row
from forebear.comparing.wording import duration

LEAST = 0.0005  # bits per byte: what is nearer than this is no victory
ALIKE = 1.1  # costs whose ratio is below this are about the same


@dataclass(frozen=True)
class Reign:
    """From `start` seconds of learning on, until the next reign, nobody has come lower than this milestone."""

    row: Row
    start: float
    first: float  # bits per byte when the reign begins
    last: float  # and when it ends


def frontier(rows: Iterable[Row]) -> list[tuple[float, float, Row]]:
    """(seconds, bits per byte, by whom) of every moment when the lowest of all falls.

    What is worse than the worst result of all is nobody's aim: who leads there, on the way down, is left out.
    """
    rows = list(rows)
    worst = max((bits for row in rows if (bits := row.mean("bits_per_byte")) is not None), default=0.0)
    reached = [(seconds, bits, row) for row in rows for seconds, bits in row.reached() if bits <= worst]
    falls: list[tuple[float, float, Row]] = []
    for seconds, bits, row in sorted(reached, key=lambda it: it[:2]):
        margin = 0 if falls and falls[-1][2].name == row.name else LEAST
        if not falls or bits < falls[-1][1] - margin:
            falls.append((seconds, bits, row))
    return falls


def reigns(rows: Iterable[Row]) -> list[Reign]:
    """Who is best from when on, in the order of time."""
    found: list[Reign] = []
    for seconds, bits, row in frontier(rows):
        if found and found[-1].row.name == row.name:
            found[-1] = Reign(row, found[-1].start, found[-1].first, bits)
        else:
            found.append(Reign(row, seconds, bits, bits))
    return found


def headline(comparison: Comparison) -> str:
    """The finding, in one line."""
    best = comparison.best
    if best is None:
        return "No milestone has come to a result"
    bits = best.mean("bits_per_byte")
    others = [row for row in comparison.rows if row.name != best.name and row.mean("bits_per_byte") is not None]
    but = f", {' and '.join(best.forgotten)} not counted" if best.forgotten else ""
    if not others:
        return f"{best.title} needs {bits:.3f} bits for a byte{but}"
    return f"{best.title} describes this text best, in {bits:.3f} bits a byte{but}"


def sentences(comparison: Comparison) -> list[str]:
    """Which wins at which cost; how far apart they are; how near to the yardsticks and to the limit."""
    found, finders = reigns(comparison.rows), [f"{row.title} {row.finds}." for row in comparison.rows if row.finds]
    if not found:
        return finders or ["Nothing to compare yet: no milestone has scored the held-out text."]
    told = [_story(found, several=len(comparison.rows) > 1), *_unpaid(comparison), *_ends(comparison), *finders]
    best = comparison.best
    if best is not None:
        told += [*_price(comparison, best), *_beside(comparison, best)]
    return told


def _story(found: list[Reign], *, several: bool) -> str:
    first, *later = found
    if not later:
        best = " is best at every cost" if several else ""
        return (
            f"{first.row.title}{best}: it gives its first answer after {duration(first.start)}"
            f" of learning and ends at {first.last:.3f} bits a byte."
        )
    parts = [f"up to {duration(later[0].start)} of learning, {first.row.title} is best ({first.last:.3f} bits a byte)"]
    for reign, after in zip(later, [*later[1:], None], strict=True):
        until = f" up to {duration(after.start)}" if after else " on"
        parts.append(f"from {duration(reign.start)}{until} {reign.row.title} ({reign.last:.3f})")
    text = ", ".join(parts) + "."
    return text[0].upper() + text[1:]


def _price(comparison: Comparison, best: Row) -> list[str]:
    """The best against the quickest of the others that has a result."""
    lowest, cost = best.mean("bits_per_byte"), best.mean("seconds")
    others = [row for row in comparison.rows if row.name != best.name and row.of("bits_per_byte")]
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


def _beside(comparison: Comparison, best: Row) -> list[str]:
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


def _unpaid(comparison: Comparison) -> list[str]:
    """Whose figures leave something out, because their tokenizers do."""
    told = []
    for row in comparison.rows:
        if row.forgotten and row.of("bits_per_byte"):
            kind = row.trials[0].tokenizer
            told.append(
                f"{row.title} does not pay for {' and '.join(row.forgotten)}: its tokenizer ({kind}) keeps none."
            )
    return told


APART = "perplexities of the two kinds cannot be compared"


def _ends(comparison: Comparison) -> list[str]:
    """Whose figures count more ends than others', because their texts are sentences and not documents."""
    paid = {row.name: max(row.of("ends")) for row in comparison.rows if row.of("bits_per_byte") and row.of("ends")}
    fewest = min(paid.values(), default=0)
    told = []
    for row in comparison.rows:
        if paid.get(row.name, fewest) > fewest:
            what = f"{row.title} takes each {row.trials[0].unit} for a text of its own"
            told.append(f"{what}, and pays for {paid[row.name]:,} ends where others pay for {fewest:,}: {APART}.")
    return told
