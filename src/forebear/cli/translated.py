"""What `forebear measure` tells of a run that translates: BLEU, chrF, perplexity, and a few examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.parallel import PairReading
    from forebear.using.run import Run

ROWS = (  # name among the facts, in words, digits
    ("bleu", "BLEU", 2),
    ("chrf", "chrF", 2),
    ("perplexity", "perplexity of the references, by its own tokens", 2),
    ("nats_per_token", "nats per token", 4),
    ("pairs", "pairs", 0),
    ("beams", "beams", 0),
    ("seconds", "seconds", 2),
)


def told_of_pairs(
    using: Run,
    texts: Sequence[str],
    reading: PairReading,
    speaking: Speaking,
    *,
    beams: int,
    limit: int | None,
    out: Path | None,
) -> None:
    """Translates the sources of these pairs and compares with what stands beside them."""
    from itertools import islice

    from forebear.text.aside import disk_told, written_aside
    from forebear.text.ledger import Ledger
    from forebear.using.translations import measure_translations

    ledger = Ledger()
    pairs = list(islice(reading.read(list(texts), ledger), limit))
    with speaking.progress("translating") as progress:
        sources, references = [one for _, one, _ in pairs], [two for _, _, two in pairs]
        measured = measure_translations(using, sources, references, beams=beams, progress=progress)
    if out is not None:
        with disk_told(out), written_aside(out) as file:
            file.writelines(one.text.encode() + b"\n" for one in measured.translations)
    dropped = {reason: listed.count for reason, listed in ledger.drops.items()}
    facts = {"run": using.name, **measured.facts(), "dropped": dropped}
    speaking.tell(facts, lambda console: _drawn(console, facts))


def _drawn(console: Console, facts: dict[str, Any]) -> None:
    made = table("", ">")
    for name, about, digits in ROWS:
        made.add_row(about, f"{facts[name]:,.{digits}f}", style="bold" if name == "bleu" else "")
    console.print(made)
    for (_, words, _), signature in zip(ROWS, facts["signatures"].values(), strict=False):
        console.print(f"{words}: {signature}", style="dim", markup=False, soft_wrap=True)
    for example in facts["examples"]:
        console.print(f"\n{example['source']}", markup=False, soft_wrap=True)
        console.print(f"  {example['translation']}", markup=False, soft_wrap=True, style="bold")
        console.print(f"  {example['reference']}", markup=False, soft_wrap=True, style="dim")
    for reason, count in facts["dropped"].items():
        console.print(f"[yellow]{count:,} pairs were left out: {reason}[/]")
