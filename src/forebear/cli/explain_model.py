"""`forebear explain`: the paper, settings, sizes and costs of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from forebear.cli.options import given_options
from forebear.cli.output import Console, Output, Table, number_cell

if TYPE_CHECKING:
    from forebear.experiments.explain_model import ModelExplanation


def explain(
    milestone: str,
    /,
    *,
    size: str | None = None,
    vocabulary: int | None = None,
    output: Output = Output(),
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
    from forebear.experiments.explain_model import explain_model

    explanation = explain_model(milestone, size=size, settings=given_options(**fields), vocabulary=vocabulary)
    output.emit(explanation.to_dict(), lambda console: _print_explanation(console, explanation))


def _print_explanation(console: Console, explanation: ModelExplanation) -> None:
    entry = explanation.entry
    console.print(f"[bold]{escape(entry.title)}[/] ({entry.year}, {escape(entry.authors)}): {escape(entry.idea)}\n")
    console.print(explanation.paper, style="italic", markup=False)
    console.print(explanation.changed + "\n", markup=False)
    console.print(explanation.sentence, style="cyan", markup=False)
    rows = ((Text(name, "dim"), *tokens) for name, tokens in explanation.example.items())
    console.table(*[""] * (len(explanation.example["seen"]) + 1), rows=rows)
    title = f"Fields of size {explanation.size}" if explanation.size else "Fields"
    fields = explanation.fields.items()
    rows = ((f"--{name.replace('_', '-')}", str(value), meaning) for name, (value, meaning) in fields)
    console.table("field", ">value", "meaning", title=title, rows=rows)
    _print_sizes(console, explanation)
    settings = []
    for name, value in explanation.recipe.items():
        value_text = f"{value:g}" if isinstance(value, float) else str(value)
        settings.append(f"--{name} {f'{value / 60:g}m' if name == 'time' else value_text}")
    console.print(f"Unless you say otherwise it learns with: {' '.join(settings)}", markup=False)
    console.print(f"A run of it can be asked to: {', '.join(explanation.verbs)}.")


def _print_sizes(console: Console, explanation: ModelExplanation) -> None:
    from forebear.settings.units import format_bytes, format_count

    if explanation.remark:
        rows = ((name, _differing_fields(size["fields"], explanation)) for name, size in explanation.sizes.items())
        console.table("size", "fields", title="Sizes", rows=rows)
        console.print(explanation.remark, markup=False)
        return
    columns = (">parameters", ">longest input", ">FLOPs a token", ">to train", ">to use", "fields")
    table = Table("size", *columns, title="Sizes")
    for name, size in explanation.sizes.items():
        figures: dict[str, Any] = size["figures"]
        counts = (f"{figures['parameters']:,}", number_cell(figures["longest_input"], ",", "any"))
        memory = (format_bytes(figures[use]) for use in ("memory_to_train", "memory_to_use"))
        cells = (name, *counts, format_count(figures["flops_per_token"]), *memory)
        style = "bold" if name == explanation.size else ""
        table.add_row(*cells, _differing_fields(size["fields"], explanation), style=style)
    console.print(table)
    batch = next(iter(explanation.sizes.values()))["figures"]["memory_to_train_parts"]["batch_tokens"]
    memory_parts = "the tables themselves; float32"
    if explanation.learning == "counting":
        memory_parts = "the tables, and as much for what is expected; float64"
    elif explanation.encoder:
        memory_parts = f"weights, gradients, Adam's moments, activations of {batch:,} tokens or one row; float32"
    conditions = f"a vocabulary of {explanation.vocabulary:,} (--vocabulary); FLOPs of reading a token forward"
    console.print(f"[dim]Computed for {conditions}; to train: {memory_parts}.[/]")


def _differing_fields(values: dict[str, Any], explanation: ModelExplanation) -> str:
    """The settings in which the sizes differ."""
    sizes = [size["fields"] for size in explanation.sizes.values()]
    differing = [name for name in values if len(sizes) == 1 or len({str(fields[name]) for fields in sizes}) > 1]
    return ", ".join(f"{name} {values[name]}" for name in differing)
