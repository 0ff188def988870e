"""`forebear explain`: what a milestone is, and what it weighs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from forebear.cli.output import Output, make_table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.experiments.explain import ModelExplanation


def explain(
    milestone: str,
    /,
    *,
    size: str | None = None,
    vocabulary: int | None = None,
    speaking: Output = Output(),
    **fields: str,
) -> None:
    """Explain a milestone: its paper, what it changed, what it predicts from what, its fields, what each size weighs.

    Parameters, work and memory are computed from the network itself, not quoted. Its fields are options (--width …).

    ```
    forebear explain gpt2
    forebear explain gpt2 --size small --vocabulary 8000
    forebear explain gpt2 --width 256 --depth 8 --heads 8 --json
    ```

    Parameters
    ----------
    milestone
        One of forebear lineage.
    size
        One of its sizes, for the values of the fields.
    vocabulary
        Entries of the vocabulary for which sizes are computed. [default: GPT-2's]
    """
    from forebear.experiments.explain import explain_model as explained

    settings = {name.replace("-", "_"): value for name, value in fields.items()}
    told = explained(milestone, size=size, settings=settings, vocabulary=vocabulary)
    speaking.emit(told.to_dict(), lambda console: _draw(console, told))


def _draw(console: Console, told: ModelExplanation) -> None:
    from rich.markup import escape

    entry = told.entry
    console.print(f"[bold]{escape(entry.title)}[/] ({entry.year}, {escape(entry.authors)}): {escape(entry.idea)}\n")
    console.print(told.paper, style="italic", markup=False)
    console.print(told.changed + "\n", markup=False)
    console.print(told.sentence, style="cyan", markup=False)
    _draw_example(console, told)
    made = make_table("field", ">value", "meaning", title=f"Fields{f' of size {told.size}' if told.size else ''}")
    for name, (value, meaning) in told.fields.items():
        made.add_row(f"--{name.replace('_', '-')}", escape(str(value)), escape(meaning))
    console.print(made)
    _draw_sizes(console, told)
    settings = " ".join(f"--{name} {_shown(name, value)}" for name, value in told.recipe.items())
    console.print(f"Unless you say otherwise it learns with: {settings}", markup=False)
    console.print(f"A run of it can be asked to: {', '.join(told.verbs)}.")


def _shown(name: str, value: Any) -> str:
    """As it is written on the command line."""
    return f"{value / 60:g}m" if name == "time" else f"{value:g}" if isinstance(value, float) else str(value)


def _draw_example(console: Console, told: ModelExplanation) -> None:
    """Tokens over what is asked of them, as a table whose columns are tokens."""
    from rich.markup import escape

    width = len(told.example["seen"])
    made = make_table(*[""] * (width + 1))
    for name, tokens in told.example.items():
        made.add_row(f"[dim]{escape(name)}[/]", *(escape(token) for token in tokens))
    console.print(made)


def _draw_sizes(console: Console, told: ModelExplanation) -> None:
    from forebear.settings.units import format_bytes, format_count

    if told.remark:
        made = make_table("size", "fields", title="Sizes")
        for name, one in told.sizes.items():
            made.add_row(name, _fields(one["fields"], told))
        console.print(made)
        console.print(told.remark, markup=False)
        return
    columns = (">parameters", ">longest input", ">FLOPs a token", ">to train", ">to use", "fields")
    made = make_table("size", *columns, title="Sizes")
    for name, one in told.sizes.items():
        figures: dict[str, Any] = one["figures"]
        made.add_row(
            name,
            f"{figures['parameters']:,}",
            "any" if figures["longest_input"] is None else f"{figures['longest_input']:,}",
            format_count(figures["flops_per_token"]),
            format_bytes(figures["memory_to_train"]),
            format_bytes(figures["memory_to_use"]),
            _fields(one["fields"], told),
            style="bold" if name == told.size else "",
        )
    console.print(made)
    batch = next(iter(told.sizes.values()))["figures"]["memory_to_train_parts"]["batch_tokens"]
    parts = f"weights, gradients, Adam's moments, activations of {batch:,} tokens or one row"
    parts = parts if told.encoder else "the tables themselves"
    exact = "float32"
    if told.learning == "counting":
        parts, exact = "the tables, and as much for what is expected", "float64"
    console.print(
        f"[dim]Computed for a vocabulary of {told.vocabulary:,} (--vocabulary); FLOPs of reading a token forward;"
        f" to train: {parts}; {exact}.[/]"
    )


def _fields(own: dict[str, Any], told: ModelExplanation) -> str:
    """What distinguishes the sizes: the fields in which they are not all alike."""
    alike = {
        name
        for name in own
        if len({str(one["fields"][name]) for one in told.sizes.values()}) == 1 and len(told.sizes) > 1
    }
    return ", ".join(f"{name} {value}" for name, value in own.items() if name not in alike)


# `forebear lineage`: the table of contents.


def lineage(*, speaking: Output = Output()) -> None:
    """List every milestone in the order of history: its idea, and what a run of it can be asked.

    ```
    forebear lineage
    forebear lineage --json
    ```
    """
    from forebear.experiments.explain import model_capabilities
    from forebear.registry import LINEAGE

    told = []
    for entry in LINEAGE.values():
        verbs, wrong = model_capabilities(entry.name)
        told.append({**asdict(entry), "verbs": verbs, "ready": not wrong, "error": wrong})
    speaking.emit({"milestones": told}, lambda console: _lineage_draw(console, told))


def _lineage_draw(console: Console, told: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    made = make_table(">year", "name", "milestone", "idea", "by", "can")
    for one in told:
        can = ", ".join(one["verbs"]) if one["ready"] else f"[red]not ready: {escape(one['error'])}[/]"
        name = f"[bold]{one['name']}[/]"
        made.add_row(str(one["year"]), name, escape(one["title"]), escape(one["idea"]), escape(one["authors"]), can)
    console.print(made)
    console.print("more about one: forebear explain NAME    train one: forebear pretrain NAME TEXT")
