"""`forebear lineage`: the list of all models."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text

from forebear.cli.output import Console, Output, Table


def lineage(*, output: Output = Output()) -> None:
    """List every milestone in the order of history: its idea, and what a run of it can be asked.

    ```
    forebear lineage
    forebear lineage --json
    ```
    """
    from forebear.experiments.explain_model import model_capabilities
    from forebear.registry import LINEAGE

    models = []
    for entry in LINEAGE.values():
        verbs, error = model_capabilities(entry.name)
        models.append({**asdict(entry), "verbs": verbs, "ready": not error, "error": error})

    def draw(console: Console) -> None:
        table = Table(">year", "name", "milestone", "idea", "by", "can")
        for model in models:
            capabilities = ", ".join(model["verbs"]) if model["ready"] else Text(f"not ready: {model['error']}", "red")
            details = (model["title"], model["idea"], model["authors"])
            table.add_row(str(model["year"]), Text(model["name"], "bold"), *details, capabilities)
        console.print(table)
        console.print("more about one: forebear explain NAME    train one: forebear pretrain NAME TEXT")

    output.emit({"milestones": models}, draw)
