"""`forebear runs`: list the runs in a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from forebear.cli.output import Console, Output, Table, number_cell

if TYPE_CHECKING:
    from forebear.training.run_folder import RunSummary

STATE_COLORS = {"running": "green", "interrupted": "yellow", "begun": "yellow", "failed": "red", "broken": "red"}
MULTI_RUN_SUFFIXES = (".seeds", ".curve")  # suffixes of folders with several runs of one command


def runs(folder: Path = Path("runs"), /, *, output: Output = Output()) -> None:
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

    summaries = list_runs(folder)
    result = {"folder": str(folder), "runs": [asdict(summary) for summary in summaries]}
    output.emit(result, lambda console: _print_result(console, folder, summaries))


def _print_result(console: Console, folder: Path, summaries: list[RunSummary]) -> None:
    from forebear.settings.units import format_count, format_duration

    if not summaries:
        console.print(f"no runs in {folder}; forebear pretrain MILESTONE TEXT makes one", markup=False)
        return
    columns = ("run", "milestone", "size", ">step", ">of", ">bits or score", ">time", ">parameters", "state", "began")
    table = Table(*columns)
    for summary in summaries:
        reason = f": {summary.reason}" if summary.reason else ""
        state = Text(f"{summary.state}{reason}", STATE_COLORS.get(summary.state, ""))
        seconds = "" if summary.seconds is None else format_duration(summary.seconds)
        parameters = "" if summary.parameters is None else format_count(summary.parameters)
        milestone = summary.milestone + (f" for {summary.task}" if summary.task else "")
        progress = (number_cell(summary.step), number_cell(summary.steps), _best_score(summary), seconds, parameters)
        table.add_row(summary.folder, milestone, summary.size, *progress, state, summary.began[:16].replace("T", " "))
    console.print(table)
    if interrupted := [summary for summary in summaries if summary.state == "interrupted"]:
        first_interrupted = interrupted[0]
        hint = f"forebear {'adapt' if first_interrupted.task else 'pretrain'} --resume {first_interrupted.folder}"
        if Path(first_interrupted.folder).absolute().parent.suffix in MULTI_RUN_SUFFIXES:
            hint = f"give the command again that {first_interrupted.folder} belongs to: it goes on with all of them"
        console.plain(f"go on with one: {hint}")


def _best_score(summary: RunSummary) -> str:
    """The main metric: bits per byte, MLM accuracy or the task score."""
    if summary.score is not None:
        return f"{summary.score[0].replace('_', ' ')} {summary.score[1]:.3f}"
    if summary.found is not None:
        return f"{summary.found:.1%} found"
    return number_cell(summary.bits_per_byte, ".3f")
