"""`forebear runs` and `rerun`: list the runs in a folder; repeat a run and compare."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from forebear.cli.output import Console, Output, Switch, Table, number_cell, training_progress

if TYPE_CHECKING:
    from forebear.training.run_folder import RunSummary

STATE_COLORS = {"running": "green", "interrupted": "yellow", "begun": "yellow", "failed": "red", "broken": "red"}
MULTI_RUN_SUFFIXES = (".seeds", ".curve")  # how folders end that hold several runs of one command


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
    from forebear.training.run_folder import list_runs

    lines = list_runs(folder)
    facts = {"folder": str(folder), "runs": [asdict(line) for line in lines]}
    speaking.emit(facts, lambda console: _draw(console, folder, lines))


def _draw(console: Console, folder: Path, lines: list[RunSummary]) -> None:
    from forebear.settings.units import format_count, format_duration

    if not lines:
        console.print(f"no runs in {folder}; forebear pretrain MILESTONE TEXT makes one", markup=False)
        return
    columns = ("run", "milestone", "size", ">step", ">of", ">bits or score", ">time", ">parameters", "state", "began")
    table = Table(*columns)
    for line in lines:
        state = Text(line.state + (f": {line.reason}" if line.reason else ""), STATE_COLORS.get(line.state, ""))
        seconds = "" if line.seconds is None else format_duration(line.seconds)
        parameters = "" if line.parameters is None else format_count(line.parameters)
        milestone = line.milestone + (f" for {line.task}" if line.task else "")
        progress = (number_cell(line.step), number_cell(line.steps), _best_score(line), seconds, parameters)
        table.add_row(line.folder, milestone, line.size, *progress, state, line.began[:16].replace("T", " "))
    console.print(table)
    if interrupted := [line for line in lines if line.state == "interrupted"]:
        first = interrupted[0]
        hint = f"forebear {'adapt' if first.task else 'pretrain'} --resume {first.folder}"
        if Path(first.folder).absolute().parent.suffix in MULTI_RUN_SUFFIXES:
            hint = f"give the command again that {first.folder} belongs to: it goes on with all of them"
        console.plain(f"go on with one: {hint}")


def _best_score(line: RunSummary) -> str:
    """The main metric: bits per byte, MLM accuracy or the task score."""
    if line.score is not None:
        return f"{line.score[0].replace('_', ' ')} {line.score[1]:.3f}"
    if line.found is not None:
        return f"{line.found:.1%} found"
    return number_cell(line.bits_per_byte, ".3f")


def rerun(run: Path, /, *, to: Path | None = None, overwrite: Switch = False, speaking: Output = Output()) -> int:
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

    original = RunFolder.open(run)
    with training_progress(speaking) as callback:
        target = to or run.with_name(f"{run.name}-again")
        repeated = pipeline.repeat_run(run, target, overwrite=overwrite, callback=callback)
    same = original.metadata["weights"]["sha256"] == repeated.metadata["weights"]["sha256"]
    result = {"folder": str(repeated.path), "same": same, **repeated.metadata}
    reason, recipe = "other versions, hardware or threads", original.recipe
    if original.spec.learning == "sweeping" and not recipe.deterministic and recipe.threads != 1:
        reason = "threads that learn freely never end alike; --deterministic, or --threads 1, does"
    conclusion = "every weight is the same" if same else f"the weights differ: {reason}"
    speaking.emit_summary(result, f"{conclusion}: {repeated.path}")
    return 0 if same else 1
