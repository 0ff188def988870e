"""`forebear quantise`: convert a run to int8 and measure the cost in quality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.output import Console, Output, Switch, Table
from forebear.settings.units import parse_count

if TYPE_CHECKING:
    from forebear.inference.run import Run

METRIC_LABELS = {  # key of the result → label, digits
    "perplexity": ("perplexity, by its own tokens", 4),
    "bits_per_byte": ("bits per byte", 4),
    "accuracy": ("accuracy", 4),
    "pair_accuracy": ("questions about two halves answered", 4),
    "bleu": ("BLEU", 2),
    "chrf": ("chrF", 2),
    "measuring_seconds": ("seconds to measure", 2),
    "embedding_seconds": ("seconds to read the sentences", 2),
}


def quantise(
    run: Path,
    /,
    *,
    to: Path,
    on: Annotated[tuple[str, ...], Parameter(consume_multiple=True, show_default=False)] = (),
    limit: str | None = None,
    overwrite: Switch = False,
    output: Output = Output(),
) -> None:
    """Make a run of small integers (8 bits) from one of floats: a quarter as large, faster, for reading only.

    Weights are rounded row by row, and what flows through them token by token, so that a text's answer does not depend
    on the others beside it. What that costs is measured on held-out text and told. It answers everything that the run
    answers, but cannot learn: train the run it was made of.

    ```
    forebear quantise runs/gpt2 --to runs/gpt2-int8
    forebear quantise runs/minilm --to runs/minilm-int8 --on held-out.txt
    forebear quantise runs/de-en --to runs/de-en-int8 --on test.de test.en
    ```

    Parameters
    ----------
    run
        A run with a network.
    to
        The folder for the run of integers.
    on
        What to measure the cost on: text; for a task a file of examples; for a translator pairs.
        [default: what the run held out, else text that comes with forebear]
    limit
        How much of it, in bytes, examples or pairs, such as 200k. [default: 100k bytes, 2,000 examples, 200 pairs]
    overwrite
        Replace another run at --to.
    """
    from forebear.experiments.quantize import quantize_run

    max_items = None if limit is None else parse_count(limit, "limit")
    with output.progress("measuring what it costs") as progress:
        quantized = quantize_run(run, to=to, on=on, limit=max_items, overwrite=overwrite, progress=progress)
    result = {"folder": str(quantized.folder.path), "notes": quantized.notes, **quantized.metadata["quantised"]}
    output.emit(result, lambda console: _print_quantized(console, quantized, result))


def _print_quantized(console: Console, quantized: Run, result: dict[str, Any]) -> None:
    table = Table("", ">floats", ">integers")
    table.add_row("megabytes", *(f"{result['bytes'][precision] / 1e6:,.1f}" for precision in ("floats", "integers")))
    for name, values in result.items():
        if isinstance(values, dict) and "floats" in values and name != "bytes":
            label, digits = METRIC_LABELS.get(name, (name.replace("_", " "), 4))
            label = f"pseudo-{label}" if result.get("pseudo") and name in ("perplexity", "bits_per_byte") else label
            table.add_row(label, *(f"{values[precision]:,.{digits}f}" for precision in ("floats", "integers")))
    console.print(table)
    if "perplexity" in result:
        change = result["perplexity"]["integers"] / result["perplexity"]["floats"] - 1
        console.print(f"perplexity changes by {change:+.2%}")
    if "cosine" in result:
        cosine = result["cosine"]
        summary = f"cosine to those of floats {cosine['mean']:.4f} in the mean, {cosine['least']:.4f} at least"
        console.print(f"vectors of {result['sentences']:,} sentences: {summary}")
        console.print(f"the nearest neighbour among them is the same for {result['same_neighbour']:.1%}")
    if "same_answers" in result:
        console.print(f"the same answer to {result['same_answers']:.1%}")
    console.plain(f"measured on {result['on']}")
    console.notes(result["notes"])
    console.plain(f"run: {quantized.folder.path}")
