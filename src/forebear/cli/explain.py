"""`forebear explain` and `lineage`: a model's paper, settings and sizes; the list of all models."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from forebear.cli.output import Console, Output, make_table

if TYPE_CHECKING:
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
    from forebear.experiments.explain import explain_model

    settings = {name.replace("-", "_"): value for name, value in fields.items()}
    explanation = explain_model(milestone, size=size, settings=settings, vocabulary=vocabulary)
    speaking.emit(explanation.to_dict(), lambda console: _draw_explanation(console, explanation))


def _draw_explanation(console: Console, explanation: ModelExplanation) -> None:
    entry = explanation.entry
    console.print(f"[bold]{escape(entry.title)}[/] ({entry.year}, {escape(entry.authors)}): {escape(entry.idea)}\n")
    console.print(explanation.paper, style="italic", markup=False)
    console.print(explanation.changed + "\n", markup=False)
    console.print(explanation.sentence, style="cyan", markup=False)
    table = make_table(*[""] * (len(explanation.example["seen"]) + 1))
    for name, tokens in explanation.example.items():
        table.add_row(f"[dim]{escape(name)}[/]", *map(escape, tokens))
    console.print(table)
    size_note = f" of size {explanation.size}" if explanation.size else ""
    table = make_table("field", ">value", "meaning", title=f"Fields{size_note}")
    for name, (value, meaning) in explanation.fields.items():
        table.add_row(f"--{name.replace('_', '-')}", escape(str(value)), escape(meaning))
    console.print(table)
    _draw_sizes(console, explanation)
    settings = " ".join(f"--{name} {_format_setting(name, value)}" for name, value in explanation.recipe.items())
    console.print(f"Unless you say otherwise it learns with: {settings}", markup=False)
    console.print(f"A run of it can be asked to: {', '.join(explanation.verbs)}.")


def _format_setting(name: str, value: Any) -> str:
    """The value as written on the command line."""
    return f"{value / 60:g}m" if name == "time" else f"{value:g}" if isinstance(value, float) else str(value)


def _draw_sizes(console: Console, explanation: ModelExplanation) -> None:
    from forebear.settings.units import format_bytes, format_count

    if explanation.remark:
        table = make_table("size", "fields", title="Sizes")
        for name, size in explanation.sizes.items():
            table.add_row(name, _differing_fields(size["fields"], explanation))
        console.print(table)
        console.print(explanation.remark, markup=False)
        return
    columns = (">parameters", ">longest input", ">FLOPs a token", ">to train", ">to use", "fields")
    table = make_table("size", *columns, title="Sizes")
    for name, size in explanation.sizes.items():
        figures: dict[str, Any] = size["figures"]
        table.add_row(
            name,
            f"{figures['parameters']:,}",
            "any" if figures["longest_input"] is None else f"{figures['longest_input']:,}",
            format_count(figures["flops_per_token"]),
            format_bytes(figures["memory_to_train"]),
            format_bytes(figures["memory_to_use"]),
            _differing_fields(size["fields"], explanation),
            style="bold" if name == explanation.size else "",
        )
    console.print(table)
    batch = next(iter(explanation.sizes.values()))["figures"]["memory_to_train_parts"]["batch_tokens"]
    memory_parts = "the tables themselves; float32"
    if explanation.learning == "counting":
        memory_parts = "the tables, and as much for what is expected; float64"
    elif explanation.encoder:
        memory_parts = f"weights, gradients, Adam's moments, activations of {batch:,} tokens or one row; float32"
    subject = f"a vocabulary of {explanation.vocabulary:,} (--vocabulary); FLOPs of reading a token forward"
    console.print(f"[dim]Computed for {subject}; to train: {memory_parts}.[/]")


def _differing_fields(values: dict[str, Any], explanation: ModelExplanation) -> str:
    """The settings in which the sizes differ."""
    sizes = [size["fields"] for size in explanation.sizes.values()]
    differing = [name for name in values if len(sizes) == 1 or len({str(fields[name]) for fields in sizes}) > 1]
    return ", ".join(f"{name} {values[name]}" for name in differing)


# --- lineage ---


def lineage(*, speaking: Output = Output()) -> None:
    """List every milestone in the order of history: its idea, and what a run of it can be asked.

    ```
    forebear lineage
    forebear lineage --json
    ```
    """
    from forebear.experiments.explain import model_capabilities
    from forebear.registry import LINEAGE

    models = []
    for entry in LINEAGE.values():
        verbs, error = model_capabilities(entry.name)
        models.append({**asdict(entry), "verbs": verbs, "ready": not error, "error": error})
    speaking.emit({"milestones": models}, lambda console: _draw_lineage(console, models))


def _draw_lineage(console: Console, models: list[dict[str, Any]]) -> None:
    table = make_table(">year", "name", "milestone", "idea", "by", "can")
    for model in models:
        capabilities = ", ".join(model["verbs"]) if model["ready"] else f"[red]not ready: {escape(model['error'])}[/]"
        name = f"[bold]{model['name']}[/]"
        details = (escape(model[column]) for column in ("title", "idea", "authors"))
        table.add_row(str(model["year"]), name, *details, capabilities)
    console.print(table)
    console.print("more about one: forebear explain NAME    train one: forebear pretrain NAME TEXT")
