"""`forebear inspect layers`: which layers a task reads, by the mixture of them that it has learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import plain
from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, bar, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inspecting.layer_weights import LayerWeights

WIDTH = 24  # of a bar


def layers(
    runs: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    to: Path | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Show how much each layer weighs in the mixture that a task has learned to read; several runs side by side.

    ```
    forebear inspect layers runs/names
    forebear inspect layers runs/names runs/reviews runs/answers --to layers.png
    ```

    ELMo's way: a task reads γ · Σ w · layer, where the weights w are a softmax and sum to 1. They begin even. The more
    a layer weighs, the more the task takes of it; unless layers are brought to one scale before (adapt --mixture-norm),
    one whose numbers are larger says more with the same weight.

    Parameters
    ----------
    runs
        Folders of runs that were adapted with --how features, or whose recurrent encoder has a --reader.
    to
        Write a picture (.png, .svg).
    """
    from forebear.inspecting.layer_weights import layers as looked_at
    from forebear.using.run import Run

    form = form_of(to, "png", "svg")
    found: list[LayerWeights] = []
    for folder in runs:
        run = Run.open(folder)
        found += looked_at(run)
        speaking.note(run.notes)
    facts: dict[str, Any] = {"what": "layers", "mixtures": [one.facts() for one in found]}
    if to is not None:
        from forebear.inspecting.layers_picture import picture

        put(to, picture(found, form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw(console, found, to))


def _draw(console: Console, found: list[LayerWeights], to: Path | None) -> None:
    from forebear.inspecting.layer_weights import layer_names

    most = max(weight for one in found for weight in one.weights)
    for one in found:
        task = f", {plain(one.task)}" if one.task else ""
        told = f"[bold]{plain(one.run)}[/]{task}, {plain(one.place)}: γ {one.gain:.3f}"
        console.print(told, soft_wrap=True)
        made = table("layer", ">weight", "", ">of an even share")
        for name, weight in reversed(list(zip(layer_names(one), one.weights, strict=True))):
            made.add_row(name, f"{weight:.4f}", bar(weight / most, WIDTH), f"{weight / one.even:.2f} ×")
        console.print(made)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)
