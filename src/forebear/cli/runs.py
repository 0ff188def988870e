"""`forebear runs`: the runs in a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.output import Output, make_table, watching

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.training.run_folder import RunFolder, RunSummary

COLOURS = {
    "finished": "",
    "running": "green",
    "interrupted": "yellow",
    "begun": "yellow",
    "failed": "red",
    "broken": "red",
}

TOGETHER = (".seeds", ".curve")  # how folders end that hold several runs of one command


def runs(folder: Path = Path("runs"), /, *, speaking: Output = Output()) -> None:
    """List the runs in a folder and below it: what they are, how far they came, how well they predict.

    ```
    forebear runs
    forebear runs comparison/ --json
    ```

    Parameters
    ----------
    folder
        Where to look.
    """
    from forebear.training.run_folder import list_runs as listed

    lines = listed(folder)
    facts = {"folder": str(folder), "runs": [asdict(line) for line in lines]}
    speaking.emit(facts, lambda console: _draw(console, folder, lines))


def _draw(console: Console, folder: Path, lines: list[RunSummary]) -> None:
    from rich.markup import escape

    from forebear.settings.units import format_count, format_duration

    if not lines:
        console.print(f"no runs in {folder}; forebear pretrain MILESTONE TEXT makes one", markup=False)
        return
    made = make_table(
        "run", "milestone", "size", ">step", ">of", ">bits or score", ">time", ">parameters", "state", "began"
    )
    for line in lines:
        state = line.state + (f": {line.reason}" if line.reason else "")
        made.add_row(
            escape(line.folder),
            line.milestone + (f" for {line.task}" if line.task else ""),
            escape(line.size),
            "" if line.step is None else f"{line.step:,}",
            "" if line.steps is None else f"{line.steps:,}",
            _reached(line),
            "" if line.seconds is None else format_duration(line.seconds),
            "" if line.parameters is None else format_count(line.parameters),
            f"[{COLOURS.get(line.state, '')}]{escape(state)}[/]" if COLOURS.get(line.state) else escape(state),
            line.began[:16].replace("T", " "),
        )
    console.print(made)
    if broken := [line for line in lines if line.state == "interrupted"]:
        console.print(f"go on with one: {_going_on(broken[0])}", markup=False, soft_wrap=True)


def _going_on(line: RunSummary) -> str:
    """What goes on with it; with one of several that belong together, the command that made them all."""
    if Path(line.folder).absolute().parent.suffix in TOGETHER:
        return f"give the command again that {line.folder} belongs to: it goes on with all of them"
    return f"forebear {'adapt' if line.task else 'pretrain'} --resume {line.folder}"


def _reached(line: RunSummary) -> str:
    """Bits per byte, or what of hidden tokens is found, or the figure of a task."""
    if line.score is not None:
        return f"{line.score[0].replace('_', ' ')} {line.score[1]:.3f}"
    if line.found is not None:
        return f"{line.found:.1%} found"
    return "" if line.bits_per_byte is None else f"{line.bits_per_byte:.3f}"


# `forebear rerun`: a finished run is made again, and compared.


def rerun(
    run: Path,
    /,
    *,
    to: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    speaking: Output = Output(),
) -> int:
    """Make a finished run again, step by step, from the same text, and say whether every weight is the same.

    Given a time, a run decides on its way how many steps it can make; the repetition makes as many.

    ```
    forebear rerun runs/book --to runs/book-again
    ```

    Parameters
    ----------
    run
        A finished run.
    to
        Where the repetition goes. [default: beside it, with -again at its name]
    overwrite
        Replace another run there.
    """
    from forebear.experiments import pipeline
    from forebear.training.run_folder import RunFolder

    before = RunFolder.open(run)
    with watching(speaking) as watcher:
        place = to or run.with_name(f"{run.name}-again")
        after = pipeline.repeat_run(run, place, overwrite=overwrite, watcher=watcher)
    same = before.metadata["weights"]["sha256"] == after.metadata["weights"]["sha256"]
    facts = {"folder": str(after.path), "same": same, **after.metadata}
    words = "every weight is the same" if same else f"the weights differ: {_why(before)}"
    speaking.emit(facts, lambda console: console.print(f"{words}: {after.path}", markup=False, soft_wrap=True))
    return 0 if same else 1


def _why(run: RunFolder) -> str:
    recipe = run.recipe
    if run.spec.learning == "sweeping" and not recipe.deterministic and recipe.threads != 1:
        return "threads that learn freely never end alike; --deterministic, or --threads 1, does"
    return "other versions, hardware or threads"
