"""`forebear inspect next, layers, positions, gradients`: what single layers and position vectors hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.options import ReadingOptions
from forebear.cli.output import Console, Output, image_format, make_table, printable_cell, text_bar, write_image
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.inspection.gradient_distance import GradientReach
    from forebear.inspection.layer_weights import LayerWeights
    from forebear.inspection.logit_lens import LogitLens
    from forebear.inspection.position_embeddings import PositionTable

SHOWN_DISTANCES = (
    0,
    1,
    2,
    3,
    5,
    10,
    20,
    30,
    50,
    75,
    100,
    150,
    200,
    300,
    500,
)  # that are told in the terminal, and the last
LAYER_BAR_WIDTH = 24  # of a bar
MAX_SHOWN_POSITIONS = 24  # positions of a map in the terminal

# --- inspect next ---


def next(  # noqa: A001 - the command's name
    run: Path,
    text: str,
    /,
    *,
    at: int | None = None,
    top: int = 5,
    to: Path | None = None,
    speaking: Output = Output(),
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
    to
        Write a picture (.png, .svg).
    """
    from forebear.inference.run import Run
    from forebear.inspection.logit_lens import logit_lens

    image_type = image_format(to, "png", "svg")
    loaded_run = Run.open(run)
    lens = logit_lens(loaded_run, text, at=at, top=top)
    speaking.note(loaded_run.notes)
    result: dict[str, Any] = {"run": loaded_run.name, "what": "next"} | lens.to_dict()
    if to is not None:
        from forebear.inspection.logit_lens import plot_logit_lens
        from forebear.reports.plotting import title_quote

        write_image(to, plot_logit_lens(lens, f"{loaded_run.name}: {title_quote(text)}", image_type))
        result["to"] = str(to)
    speaking.emit(result, lambda console: _draw_logit_lens(console, lens, to))


def _draw_logit_lens(console: Console, lens: LogitLens, to: Path | None) -> None:
    token = printable_cell(lens.tokens[lens.position - 1])
    where = f"after {token}" if lens.head == "next" else f"in place of {token}"
    console.print(f"[bold]{printable_cell(lens.text)}[/]  {where} ({lens.position}), in the end: "
                  f"[bold]{printable_cell(lens.predicted_token.text)}[/]", soft_wrap=True)  # fmt: skip
    table = make_table(">layer", "likeliest", ">P of the last", ">rank", ">entropy", ">KL to the end")
    for layer in lens.layers:
        candidates = "  ".join(
            f"{printable_cell(candidate.text)} [dim]{candidate.probability:.1%}[/]" for candidate in layer.candidates
        )
        values = (f"{layer.probability:.2%}", f"{layer.rank:,}", f"{layer.entropy:.2f}", f"{layer.divergence:.2f}")
        table.add_row(str(layer.layer), candidates, *values)
    console.print(table)
    if to is not None:
        console.plain(f"written: {to}")


# --- inspect layers ---


def layers(
    runs: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    to: Path | None = None,
    speaking: Output = Output(),
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
    from forebear.inference.run import Run
    from forebear.inspection.layer_weights import layer_weights

    image_type = image_format(to, "png", "svg")
    mixtures: list[LayerWeights] = []
    for folder in runs:
        loaded_run = Run.open(folder)
        mixtures += layer_weights(loaded_run)
        speaking.note(loaded_run.notes)
    result: dict[str, Any] = {"what": "layers", "mixtures": [mixture.to_dict() for mixture in mixtures]}
    if to is not None:
        from forebear.inspection.layer_weights import plot_layer_weights

        write_image(to, plot_layer_weights(mixtures, image_type))
        result["to"] = str(to)
    speaking.emit(result, lambda console: _draw_layer_weights(console, mixtures, to))


def _draw_layer_weights(console: Console, mixtures: list[LayerWeights], to: Path | None) -> None:
    from forebear.inspection.layer_weights import layer_names

    highest = max(weight for mixture in mixtures for weight in mixture.weights)
    for mixture in mixtures:
        task = f", {printable_cell(mixture.task)}" if mixture.task else ""
        title = (
            f"[bold]{printable_cell(mixture.run)}[/]{task}, {printable_cell(mixture.position)}: γ {mixture.gain:.3f}"
        )
        console.print(title, soft_wrap=True)
        table = make_table("layer", ">weight", "", ">of an even share")
        for name, weight in reversed(list(zip(layer_names(mixture), mixture.weights, strict=True))):
            table.add_row(
                name,
                f"{weight:.4f}",
                text_bar(weight / highest, LAYER_BAR_WIDTH),
                f"{weight / mixture.uniform_weight:.2f} ×",
            )
        console.print(table)
    if to is not None:
        console.plain(f"written: {to}")


# --- inspect positions ---


def positions(
    run: Path | None = None,
    /,
    *,
    width: int | None = None,
    count: Annotated[int | None, Parameter(name="--positions")] = None,
    to: Path | None = None,
    speaking: Output = Output(),
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
    to
        Write a picture (.png, .svg).
    """
    from forebear.inference.run import Run
    from forebear.inspection.position_embeddings import position_table

    image_type = image_format(to, "png", "svg")
    loaded_run = None if run is None else Run.open(run)
    table = position_table(loaded_run, width=width, count=count)
    speaking.note(loaded_run.notes if loaded_run is not None else ())
    result: dict[str, Any] = {"what": "positions"} | table.to_dict()
    if to is not None:
        from forebear.inspection.position_embeddings import plot_positions

        rows, size = table.table.shape
        subject = "the Transformer's sinusoid" if loaded_run is None else f"{table.name} ({table.kind})"
        write_image(
            to, plot_positions(table, f"positions of {subject}: {rows:,}, each a vector of {size:,}", image_type)
        )
        result["to"] = str(to)
    speaking.emit(result, lambda console: _draw_positions(console, table, to))


def _draw_positions(console: Console, position_table: PositionTable, to: Path | None) -> None:
    import numpy as np

    from forebear.cli.output import small_heatmap

    count, width = position_table.table.shape
    console.print(f"[bold]{position_table.kind}[/] positions: {count:,}, each a vector of {width:,}")
    sampled = np.unique(np.linspace(0, count - 1, min(count, MAX_SHOWN_POSITIONS)).round().astype(int))
    cosines = np.clip(position_table.cosines[np.ix_(sampled, sampled)], 0, 1)
    console.print(
        f"cosines between {len(sampled)} of them, from 0 (or less) to 1" if len(sampled) < count else "cosines"
    )
    colors = console.color_system is not None
    names = [str(number) for number in sampled.tolist()]
    for line in small_heatmap(cosines, np.ones_like(cosines, bool), colours=colors, rows=names, highest_value=1.0):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    is_sinusoid = position_table.kind == "sinusoid"
    columns = (
        (">rotation's largest error", ">best map misses") if is_sinusoid else (">best map misses", ">a sinusoid's")
    )
    table = make_table(">positions further", *columns, ">of random numbers", ">mean cosine")
    by_distance = position_table.by_distance
    for step in position_table.steps:
        first = f"{step.map_error:.2%}" if step.rotation_error is None else f"{step.rotation_error:.1e}"
        cells = (first, f"{step.sinusoid_error:.2%}", f"{step.noise_error:.2%}", f"{by_distance[step.step]:.3f}")
        table.add_row(str(step.step), *cells)
    console.print(table)
    legend = "misses: the share of variance that the best linear map misses at positions it was not fitted to"
    console.print(legend, style="dim", soft_wrap=True)
    if to is not None:
        console.plain(f"written: {to}")


# --- inspect gradients ---


def gradients(
    runs: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    text: str | None = None,
    input_files: Annotated[list[str] | None, Parameter(name="--in", consume_multiple=True, negative="")] = None,
    far: int = 50,
    to: Path | None = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Output = Output(),
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
    to
        Write a picture (.png, .svg).
    """
    from forebear.inference.run import Run
    from forebear.inspection.gradient_distance import gradient_reach

    image_type = image_format(to, "png", "svg")
    if (text is None) == (input_files is None):
        message = "there is no text" if text is None else "there are two texts, --text and --in"
        raise InputError(message, hint='give --in FILE, or --text "a long text"')
    loaded_runs = [Run.open(folder) for folder in runs]
    texts = [text] if text is not None else _documents(input_files or [], reading)
    reaches = gradient_reach(loaded_runs, texts, max_distance=far)
    for loaded_run in loaded_runs:
        speaking.note(loaded_run.notes)
    result: dict[str, Any] = {"what": "gradients", "runs": [reach.to_dict() for reach in reaches]}
    if to is not None:
        from forebear.inspection.gradient_distance import plot_gradient_reach

        write_image(to, plot_gradient_reach(reaches, image_type))
        result["to"] = str(to)
    speaking.emit(result, lambda console: _draw_gradients(console, reaches, to))


def _documents(files: list[str], reading: ReadingOptions) -> list[str]:
    """Documents of the files, up to MAX_CHARACTERS in all."""
    from forebear.inspection.gradient_distance import MAX_CHARACTERS
    from forebear.inspection.occurrences import read_sense_texts

    texts, size = [], 0
    for document in read_sense_texts(files, reading.reading()):
        texts.append(document.text)
        size += len(document.text)
        if size >= MAX_CHARACTERS:
            break
    return texts


def _draw_gradients(console: Console, reaches: list[GradientReach], to: Path | None) -> None:
    furthest = max(reach.max_distance for reach in reaches)
    distances = [distance for distance in SHOWN_DISTANCES if distance < furthest] + [furthest]
    table = make_table(
        ">tokens back", *(cell for reach in reaches for cell in (f">{printable_cell(reach.name)}", ">of its own"))
    )
    for distance in distances:
        cells = []
        for reach in reaches:
            is_measured = distance <= reach.max_distance
            cells += (
                [f"{reach.magnitudes[distance]:.2e}", f"{reach.relative[distance]:.2e}"] if is_measured else ["", ""]
            )
        table.add_row(str(distance), *cells)
    console.print(table)
    for reach in reaches:
        limit = f" ({reach.limit})" if reach.limit else ""
        console.print(f"[bold]{printable_cell(reach.name)}[/] {reach.conclusion}{limit}", soft_wrap=True)
    legend = "of its own: of what it is at the token itself, 0 tokens back"
    console.print(legend, style="dim", soft_wrap=True)
    if to is not None:
        console.plain(f"written: {to}")
