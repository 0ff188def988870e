"""`forebear lineage`: the table of contents."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console


def lineage(*, speaking: Speaking = Speaking()) -> None:
    """List every milestone in the order of history: its idea, and what a run of it can be asked.

    ```
    forebear lineage
    forebear lineage --json
    ```
    """
    from forebear.lineage import LINEAGE
    from forebear.using.explaining import abilities

    told = []
    for entry in LINEAGE.values():
        verbs, wrong = abilities(entry.name)
        told.append({**asdict(entry), "verbs": verbs, "ready": not wrong, "error": wrong})
    speaking.tell({"milestones": told}, lambda console: _draw(console, told))


def _draw(console: Console, told: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    made = table(">year", "name", "milestone", "idea", "by", "can")
    for one in told:
        can = ", ".join(one["verbs"]) if one["ready"] else f"[red]not ready: {escape(one['error'])}[/]"
        name = f"[bold]{one['name']}[/]"
        made.add_row(str(one["year"]), name, escape(one["title"]), escape(one["idea"]), escape(one["authors"]), can)
    console.print(made)
    console.print("more about one: forebear explain NAME    train one: forebear pretrain NAME TEXT")
