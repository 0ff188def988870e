"""`forebear inspect next, layers, positions, gradients`: logit lens, layer weights, positions, gradient reach."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from forebear.cli.options import ReadingOptions
from forebear.cli.output import (
    Console,
    Output,
    PictureFile,
    Table,
    number_cell,
    printable_cell,
    small_heatmap,
    text_bar,
)
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.inspection.layer_weights import LayerWeights
    from forebear.inspection.position_embeddings import PositionTable

# Distances shown in the terminal, in addition to the last.
SHOWN_DISTANCES = (0, 1, 2, 3, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500)
LAYER_BAR_WIDTH = 24
MAX_SHOWN_POSITIONS = 24  # positions of a map in the terminal


def next(  # noqa: A001 - the command's name
    run: Path, text: str, /, *, at: int | None = None, top: int = 5, to: PictureFile = None, output: Output = Output()
) -> None:
    """Show what every layer would say comes next, or is hidden, as if it were the last ("logit lens").

    ```
    forebear inspect next runs/gpt2 "Once upon a"
    forebear inspect next runs/gpt2 "我有一个梦想" --at 3 --to forming.png
    forebear inspect next runs/bert "the ____ sat on the mat" --top 3
    ```

    Each layer's state goes through the norm at the end and through the head, as the last one's does; the last row is
    what forebear next says. Entropy tells how unsure a layer is, the divergence (KL) how far from what is said in the
    end, both in bits.

    Parameters
    ----------
    run
        The run's folder: one that predicts the next token or finds hidden ones.
    text
        What is to be gone on with; for one that finds hidden tokens, a text with ____ or its mask.
    at
        After which token of the text, from 1 or from the end (-1); where tokens are hidden, which of those. [default:
        the last; the first that is hidden]
    top
        Candidates of each layer.
    """
    from forebear.inference.run import Run
    from forebear.inspection.logit_lens import logit_lens, plot_logit_lens

    loaded_run = Run.open(run)
    lens = logit_lens(loaded_run, text, at=at, top=top)
    output.note(loaded_run.notes)

    def render(image_type: str) -> bytes:
        from forebear.reports.plotting import title_quote

        return plot_logit_lens(lens, f"{loaded_run.name}: {title_quote(text)}", image_type)

    def draw(console: Console) -> None:
        location, token = "after" if lens.head == "next" else "in place of", lens.tokens[lens.position - 1]
        prediction = f"[bold]{printable_cell(lens.predicted_token.text)}[/]"
        console.bold(lens.text, f"  {location} {printable_cell(token)} ({lens.position}), in the end: {prediction}")
        table = Table(">layer", "likeliest", ">P of the last", ">rank", ">entropy", ">KL to the end")
        for layer in lens.layers:
            pairs = (f"{printable_cell(token.text)} [dim]{token.probability:.1%}[/]" for token in layer.candidates)
            values = (f"{layer.probability:.2%}", f"{layer.rank:,}", f"{layer.entropy:.2f}", f"{layer.divergence:.2f}")
            table.add_row(str(layer.layer), Text.from_markup("  ".join(pairs)), *values)
        console.print(table)

    output.emit_with_image({"run": loaded_run.name, "what": "next"} | lens.to_dict(), draw, to, render)


def layers(
    runs: Annotated[list[Path], Parameter(negative="")], /, *, to: PictureFile = None, output: Output = Output()
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
    """
    from forebear.inference.run import Run
    from forebear.inspection.layer_weights import layer_names, layer_weights, plot_layer_weights

    mixtures: list[LayerWeights] = []
    for folder in runs:
        loaded_run = Run.open(folder)
        mixtures += layer_weights(loaded_run)
        output.note(loaded_run.notes)

    def draw(console: Console) -> None:
        max_weight = max(weight for mixture in mixtures for weight in mixture.weights)
        for mixture in mixtures:
            task = f", {printable_cell(mixture.task)}" if mixture.task else ""
            console.bold(mixture.run, f"{task}, {printable_cell(mixture.position)}: γ {mixture.gain:.3f}")
            table = Table("layer", ">weight", "", ">of an even share")
            for name, weight in reversed(list(zip(layer_names(mixture), mixture.weights, strict=True))):
                bar = text_bar(weight / max_weight, LAYER_BAR_WIDTH)
                table.add_row(name, f"{weight:.4f}", bar, f"{weight / mixture.uniform_weight:.2f} ×")
            console.print(table)

    result = {"what": "layers", "mixtures": [mixture.to_dict() for mixture in mixtures]}
    output.emit_with_image(result, draw, to, functools.partial(plot_layer_weights, mixtures))


def positions(
    run: Path | None = None,
    /,
    *,
    width: int | None = None,
    count: Annotated[int | None, Parameter(name="--positions")] = None,
    to: PictureFile = None,
    output: Output = Output(),
) -> None:
    """Show a table of positions, how alike they are, and that a step further is a linear map.

    ```
    forebear inspect positions
    forebear inspect positions --width 64 --positions 100 --to waves.png
    forebear inspect positions runs/bert --to learned.svg
    ```

    In the sinusoid a step of k positions turns each pair of dimensions by an angle of its own, wherever it is taken:
    the map is known beforehand, and its largest error is told. A learned table promises nothing of the kind: the best
    map by least squares is tried at positions it was not fitted to, beside a sinusoid and random numbers of the size.

    Parameters
    ----------
    run
        The run's folder: any with a Transformer. [default: none, the sinusoid of the Transformer]
    width
        Without a run: numbers in the vector of a position. [default: 128]
    count
        So many positions. [default: 64; of a run all it has]
    """
    from forebear.inference.run import Run
    from forebear.inspection.position_embeddings import plot_positions, position_table

    loaded_run = None if run is None else Run.open(run)
    table = position_table(loaded_run, width=width, count=count)
    output.note(loaded_run.notes if loaded_run is not None else ())
    num_positions, vector_size = table.table.shape
    subject = "the Transformer's sinusoid" if loaded_run is None else f"{table.name} ({table.kind})"
    title = f"positions of {subject}: {num_positions:,}, each a vector of {vector_size:,}"
    render = functools.partial(plot_positions, table, title)
    result = {"what": "positions"} | table.to_dict()
    output.emit_with_image(result, lambda console: _print_positions(console, table), to, render)


def _print_positions(console: Console, position_table: PositionTable) -> None:
    import numpy as np

    count, width = position_table.table.shape
    console.print(f"[bold]{position_table.kind}[/] positions: {count:,}, each a vector of {width:,}")
    sampled = np.unique(np.linspace(0, count - 1, min(count, MAX_SHOWN_POSITIONS)).round().astype(int))
    cosines = np.clip(position_table.cosines[np.ix_(sampled, sampled)], 0, 1)
    sample_note = f" between {len(sampled)} of them, from 0 (or less) to 1" if len(sampled) < count else ""
    console.print(f"cosines{sample_note}")
    options: dict[str, Any] = {"use_color": console.color_system is not None, "max_value": 1.0}
    names = [str(number) for number in sampled.tolist()]
    console.lines(small_heatmap(cosines, np.ones_like(cosines, bool), rows=names, **options))
    columns = (">best map misses", ">a sinusoid's")
    if position_table.kind == "sinusoid":
        columns = (">rotation's largest error", ">best map misses")
    table = Table(">positions further", *columns, ">of random numbers", ">mean cosine")
    for step in position_table.steps:
        first_error = f"{step.map_error:.2%}" if step.rotation_error is None else f"{step.rotation_error:.1e}"
        errors = (first_error, f"{step.sinusoid_error:.2%}", f"{step.noise_error:.2%}")
        table.add_row(str(step.step), *errors, f"{position_table.by_distance[step.step]:.3f}")
    console.print(table)
    console.dim("misses: the share of variance that the best linear map misses at positions it was not fitted to")


def gradients(
    runs: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    text: str | None = None,
    input_files: Annotated[list[str] | None, Parameter(name="--in", consume_multiple=True, negative="")] = None,
    far: int = 50,
    to: PictureFile = None,
    reading: ReadingOptions = ReadingOptions(),
    output: Output = Output(),
) -> None:
    """Show how much what a run knows at a token depends on the tokens before it, by their distance.

    ```
    forebear inspect gradients runs/rnn runs/lstm runs/gpt2 --in book.txt --to reach.png
    forebear inspect gradients runs/lstm --text "a text of more than twenty words …" --far 20
    ```

    It is the size of the derivative of a state, in a direction by chance, by the vector of the token so far back: the
    mean over 32 places of the text and 4 directions of each. What it is in one direction of time a mistake is in the
    other: where the gradient vanishes nothing can be learned from so far back.

    Parameters
    ----------
    runs
        Folders of runs that look back: nnlm, rnn, lstm, gpt2, …
    text
        A text that is long enough.
    input_files
        Text files (also .gz, .zst), folders, quoted globs, - for standard input: documents that are long enough.
    far
        So many tokens back.
    """
    from forebear.inference.run import Run
    from forebear.inspection.gradient_reach import MAX_CHARACTERS, gradient_reach, plot_gradient_reach
    from forebear.inspection.occurrences import read_sense_texts

    if (text is None) == (input_files is None):
        message = "there is no text" if text is None else "there are two texts, --text and --in"
        raise InputError(message, hint='give --in FILE, or --text "a long text"')
    loaded_runs = [Run.open(folder) for folder in runs]
    texts, num_characters = [] if text is None else [text], 0
    for document in read_sense_texts(input_files, reading.text_format()) if input_files else ():
        texts.append(document.text)
        num_characters += len(document.text)
        if num_characters >= MAX_CHARACTERS:
            break
    reaches = gradient_reach(loaded_runs, texts, max_distance=far)
    for loaded_run in loaded_runs:
        output.note(loaded_run.notes)

    def draw(console: Console) -> None:
        max_distance = max(reach.max_distance for reach in reaches)
        columns = (column for reach in reaches for column in (f">{printable_cell(reach.name)}", ">of its own"))
        table = Table(">tokens back", *columns)
        for distance in [*(distance for distance in SHOWN_DISTANCES if distance < max_distance), max_distance]:
            cells = []
            for reach in reaches:
                is_reached = distance <= reach.max_distance
                values = (reach.norms[distance], reach.relative[distance]) if is_reached else (None, None)
                cells += [number_cell(value, ".2e") for value in values]
            table.add_row(str(distance), *cells)
        console.print(table)
        for reach in reaches:
            console.bold(reach.name, f" {reach.conclusion}" + (f" ({reach.limit})" if reach.limit else ""))
        console.dim("of its own: of what it is at the token itself, 0 tokens back")

    result = {"what": "gradients", "runs": [reach.to_dict() for reach in reaches]}
    output.emit_with_image(result, draw, to, functools.partial(plot_gradient_reach, reaches))
