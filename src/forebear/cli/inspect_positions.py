"""`forebear inspect positions`: what a run, or the sinusoid, knows of places in a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inspecting.positions import Positions

SHOWN = 24  # positions of a map in the terminal


def positions(
    run: Path | None = None,
    /,
    *,
    width: int | None = None,
    count: Annotated[int | None, Parameter(name="--positions")] = None,
    to: Path | None = None,
    speaking: Speaking = Speaking(),
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
    from forebear.inspecting.positions import positions as looked_at
    from forebear.using.run import Run

    form = form_of(to, "png", "svg")
    using = None if run is None else Run.open(run)
    found = looked_at(using, width=width, count=count)
    speaking.note(using.notes if using is not None else ())
    facts: dict[str, Any] = {"what": "positions"} | found.facts()
    if to is not None:
        from forebear.inspecting.positions_picture import picture

        rows, wide = found.table.shape
        whose = "the Transformer's sinusoid" if using is None else f"{found.name} ({found.placing})"
        put(to, picture(found, f"positions of {whose}: {rows:,}, each a vector of {wide:,}", form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw(console, found, to))


def _draw(console: Console, found: Positions, to: Path | None) -> None:
    import numpy as np

    from forebear.cli.heat import small

    count, width = found.table.shape
    console.print(f"[bold]{found.placing}[/] positions: {count:,}, each a vector of {width:,}")
    shown = np.unique(np.linspace(0, count - 1, min(count, SHOWN)).round().astype(int))
    cosines = np.clip(found.cosines[np.ix_(shown, shown)], 0, 1)
    console.print(f"cosines between {len(shown)} of them, from 0 (or less) to 1" if len(shown) < count else "cosines")
    colours = console.color_system is not None
    names = [str(number) for number in shown.tolist()]
    for line in small(cosines, np.ones_like(cosines, bool), colours=colours, rows=names, most=1.0):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    turns = found.placing == "sinusoid"
    own = (">rotation's largest error", ">best map misses") if turns else (">best map misses", ">a sinusoid's")
    made = table(">positions further", *own, ">of random numbers", ">mean cosine")
    by_distance = found.by_distance
    for step in found.steps:
        first = f"{step.missed:.2%}" if step.turned is None else f"{step.turned:.1e}"
        cells = (first, f"{step.waves:.2%}", f"{step.noise:.2%}", f"{by_distance[step.step]:.3f}")
        made.add_row(str(step.step), *cells)
    console.print(made)
    about = "misses: the share of variance that the best linear map misses at positions it was not fitted to"
    console.print(about, style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)
