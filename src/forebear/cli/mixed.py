"""What `forebear measure --with` tells: several runs, each alone and their mixture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import opened
from forebear.cli.measure import learned_already
from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.text.reading import Reading
    from forebear.using.run import Run


def told_of_mixture(
    using: Run,
    others: Sequence[Path],
    texts: Sequence[str],
    speaking: Speaking,
    *,
    tune: str | None,
    limit: int | None,
    reading: Reading,
    workers: int | None,
) -> None:
    """Measures the runs together and prints what came of it."""
    from forebear.using.mixing import mixed

    runs = [using, *(opened(folder, "measure", speaking) for folder in others)]
    how: dict[str, Any] = {"tune": tune, "limit": limit, "reading": reading, "workers": workers}
    with speaking.progress("preparing") as prepared, speaking.progress("measuring") as progress:
        found = mixed(runs, texts, preparing=prepared, progress=progress, **how)
    facts = found.facts()
    facts["alone"] = [{"run": run.name, **one} for run, one in zip(runs, facts["alone"], strict=True)]
    speaking.tell(facts, lambda console: _drawn(console, facts))


def _drawn(console: Console, facts: dict[str, Any]) -> None:
    from rich.markup import escape

    made = table("run", ">weight", ">bits per byte", ">perplexity", ">nats per token")
    for one in facts["alone"]:
        made.add_row(escape(one["run"]), f"{one['weight']:.4f}", *_figures(one))
    together = facts["mixture"]
    made.add_row("together", f"{1:.4f}", *_figures(together), style="bold")
    console.print(made)
    tokens = f"{together['tokens']:,} tokens of {together['bytes']:,} bytes in {together['documents']:,} documents"
    weights = "found by text for tuning" if facts["tuned_tokens"] else "equal: --tune FILE finds better ones"
    console.print(f"[dim]{tokens}; weights {weights}[/]", soft_wrap=True)
    if together["learned_from"]:
        console.print(f"[yellow]{learned_already(together, 'a run')}[/]", soft_wrap=True)


def _figures(one: dict[str, Any]) -> list[str]:
    told = (("bits_per_byte", 4), ("perplexity", 2), ("nats_per_token", 4))
    return ["infinite" if one[name] is None else f"{one[name]:,.{digits}f}" for name, digits in told]
