"""`forebear inspect next, layers, positions, gradients`: what single layers and position vectors hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import printable_cell
from forebear.cli.options import ReadingOptions
from forebear.cli.output import Output, image_format, make_table, text_bar, write_image
from forebear.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

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

    form = image_format(to, "png", "svg")
    using = Run.open(run)
    found = logit_lens(using, text, at=at, top=top)
    speaking.note(using.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "next"} | found.to_dict()
    if to is not None:
        from forebear.inspection.logit_lens import plot_logit_lens
        from forebear.reports.plotting import title_quote

        write_image(to, plot_logit_lens(found, f"{using.name}: {title_quote(text)}", form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _draw_logit_lens(console, found, to))


def _draw_logit_lens(console: Console, found: LogitLens, to: Path | None) -> None:
    asked = printable_cell(found.tokens[found.position - 1])
    where = f"after {asked}" if found.head == "next" else f"in place of {asked}"
    console.print(f"[bold]{printable_cell(found.text)}[/]  {where} ({found.position}), in the end: "
                  f"[bold]{printable_cell(found.predicted_token.text)}[/]", soft_wrap=True)  # fmt: skip
    made = make_table(">layer", "likeliest", ">P of the last", ">rank", ">entropy", ">KL to the end")
    for layer in found.layers:
        told = "  ".join(f"{printable_cell(one.text)} [dim]{one.probability:.1%}[/]" for one in layer.candidates)
        figures = (f"{layer.probability:.2%}", f"{layer.rank:,}", f"{layer.entropy:.2f}", f"{layer.divergence:.2f}")
        made.add_row(str(layer.layer), told, *figures)
    console.print(made)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


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
    from forebear.inspection.layer_weights import layer_weights as looked_at

    form = image_format(to, "png", "svg")
    found: list[LayerWeights] = []
    for folder in runs:
        run = Run.open(folder)
        found += looked_at(run)
        speaking.note(run.notes)
    facts: dict[str, Any] = {"what": "layers", "mixtures": [one.to_dict() for one in found]}
    if to is not None:
        from forebear.inspection.layer_weights import plot_layer_weights

        write_image(to, plot_layer_weights(found, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _draw_layer_weights(console, found, to))


def _draw_layer_weights(console: Console, found: list[LayerWeights], to: Path | None) -> None:
    from forebear.inspection.layer_weights import layer_names

    most = max(weight for one in found for weight in one.weights)
    for one in found:
        task = f", {printable_cell(one.task)}" if one.task else ""
        told = f"[bold]{printable_cell(one.run)}[/]{task}, {printable_cell(one.position)}: γ {one.gain:.3f}"
        console.print(told, soft_wrap=True)
        made = make_table("layer", ">weight", "", ">of an even share")
        for name, weight in reversed(list(zip(layer_names(one), one.weights, strict=True))):
            made.add_row(
                name,
                f"{weight:.4f}",
                text_bar(weight / most, LAYER_BAR_WIDTH),
                f"{weight / one.uniform_weight:.2f} ×",
            )
        console.print(made)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


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
    from forebear.inspection.position_embeddings import position_table as looked_at

    form = image_format(to, "png", "svg")
    using = None if run is None else Run.open(run)
    found = looked_at(using, width=width, count=count)
    speaking.note(using.notes if using is not None else ())
    facts: dict[str, Any] = {"what": "positions"} | found.to_dict()
    if to is not None:
        from forebear.inspection.position_embeddings import plot_positions

        rows, wide = found.table.shape
        whose = "the Transformer's sinusoid" if using is None else f"{found.name} ({found.kind})"
        write_image(to, plot_positions(found, f"positions of {whose}: {rows:,}, each a vector of {wide:,}", form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _draw_positions(console, found, to))


def _draw_positions(console: Console, found: PositionTable, to: Path | None) -> None:
    import numpy as np

    from forebear.cli.output import small_heatmap

    count, width = found.table.shape
    console.print(f"[bold]{found.kind}[/] positions: {count:,}, each a vector of {width:,}")
    shown = np.unique(np.linspace(0, count - 1, min(count, MAX_SHOWN_POSITIONS)).round().astype(int))
    cosines = np.clip(found.cosines[np.ix_(shown, shown)], 0, 1)
    console.print(f"cosines between {len(shown)} of them, from 0 (or less) to 1" if len(shown) < count else "cosines")
    colours = console.color_system is not None
    names = [str(number) for number in shown.tolist()]
    for line in small_heatmap(cosines, np.ones_like(cosines, bool), colours=colours, rows=names, highest_value=1.0):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    turns = found.kind == "sinusoid"
    own = (">rotation's largest error", ">best map misses") if turns else (">best map misses", ">a sinusoid's")
    made = make_table(">positions further", *own, ">of random numbers", ">mean cosine")
    by_distance = found.by_distance
    for step in found.steps:
        first = f"{step.map_error:.2%}" if step.rotation_error is None else f"{step.rotation_error:.1e}"
        cells = (first, f"{step.sinusoid_error:.2%}", f"{step.noise_error:.2%}", f"{by_distance[step.step]:.3f}")
        made.add_row(str(step.step), *cells)
    console.print(made)
    about = "misses: the share of variance that the best linear map misses at positions it was not fitted to"
    console.print(about, style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


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
    from forebear.inspection.gradient_distance import gradient_reach as looked_at

    form = image_format(to, "png", "svg")
    if (text is None) == (input_files is None):
        what = "there is no text" if text is None else "there are two texts, --text and --in"
        raise InputError(what, hint='give --in FILE, or --text "a long text"')
    using = [Run.open(folder) for folder in runs]
    texts = [text] if text is not None else _documents(input_files or [], reading)
    found = looked_at(using, texts, far=far)
    for run in using:
        speaking.note(run.notes)
    facts: dict[str, Any] = {"what": "gradients", "runs": [one.to_dict() for one in found]}
    if to is not None:
        from forebear.inspection.gradient_distance import plot_gradient_reach

        write_image(to, plot_gradient_reach(found, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _draw_gradients(console, found, to))


def _documents(files: list[str], reading: ReadingOptions) -> list[str]:
    """As many as are enough."""
    from forebear.inspection.gradient_distance import MAX_CHARACTERS
    from forebear.inspection.occurrences import read_sense_texts

    made, size = [], 0
    for document in read_sense_texts(files, reading.reading()):
        made.append(document.text)
        size += len(document.text)
        if size >= MAX_CHARACTERS:
            break
    return made


def _draw_gradients(console: Console, found: list[GradientReach], to: Path | None) -> None:
    furthest = max(one.max_distance for one in found)
    told = [distance for distance in SHOWN_DISTANCES if distance < furthest] + [furthest]
    made = make_table(
        ">tokens back", *(cell for one in found for cell in (f">{printable_cell(one.name)}", ">of its own"))
    )
    for distance in told:
        cells = []
        for one in found:
            there = distance <= one.max_distance
            cells += [f"{one.magnitudes[distance]:.2e}", f"{one.relative[distance]:.2e}"] if there else ["", ""]
        made.add_row(str(distance), *cells)
    console.print(made)
    for one in found:
        limit = f" ({one.limit})" if one.limit else ""
        console.print(f"[bold]{printable_cell(one.name)}[/] {one.conclusion}{limit}", soft_wrap=True)
    about = "of its own: of what it is at the token itself, 0 tokens back"
    console.print(about, style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)
