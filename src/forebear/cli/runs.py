"""`forebear runs`: the runs in a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.listing import Line

COLOURS = {
    "finished": "",
    "running": "green",
    "interrupted": "yellow",
    "begun": "yellow",
    "failed": "red",
    "broken": "red",
}

TOGETHER = (".seeds", ".curve")  # how folders end that hold several runs of one command


def runs(folder: Path = Path("runs"), /, *, speaking: Speaking = Speaking()) -> None:
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
    from forebear.using.listing import runs as listed

    lines = listed(folder)
    facts = {"folder": str(folder), "runs": [asdict(line) for line in lines]}
    speaking.tell(facts, lambda console: _draw(console, folder, lines))


def _draw(console: Console, folder: Path, lines: list[Line]) -> None:
    from rich.markup import escape

    from forebear.comparing.wording import duration, short

    if not lines:
        console.print(f"no runs in {folder}; forebear pretrain MILESTONE TEXT makes one", markup=False)
        return
    made = table("run", "milestone", "size", ">step", ">of", ">bits or score", ">time", ">parameters", "state", "began")
    for line in lines:
        state = line.state + (f": {line.reason}" if line.reason else "")
        made.add_row(
            escape(line.folder),
            line.milestone + (f" for {line.task}" if line.task else ""),
            escape(line.size),
            "" if line.step is None else f"{line.step:,}",
            "" if line.steps is None else f"{line.steps:,}",
            _reached(line),
            "" if line.seconds is None else duration(line.seconds),
            "" if line.parameters is None else short(line.parameters),
            f"[{COLOURS.get(line.state, '')}]{escape(state)}[/]" if COLOURS.get(line.state) else escape(state),
            line.began[:16].replace("T", " "),
        )
    console.print(made)
    if broken := [line for line in lines if line.state == "interrupted"]:
        console.print(f"go on with one: {_going_on(broken[0])}", markup=False, soft_wrap=True)


def _going_on(line: Line) -> str:
    """What goes on with it; with one of several that belong together, the command that made them all."""
    if Path(line.folder).absolute().parent.suffix in TOGETHER:
        return f"give the command again that {line.folder} belongs to: it goes on with all of them"
    return f"forebear {'adapt' if line.task else 'pretrain'} --resume {line.folder}"


def _reached(line: Line) -> str:
    """Bits per byte, or what of hidden tokens is found, or the figure of a task."""
    if line.score is not None:
        return f"{line.score[0].replace('_', ' ')} {line.score[1]:.3f}"
    if line.found is not None:
        return f"{line.found:.1%} found"
    return "" if line.bits_per_byte is None else f"{line.bits_per_byte:.3f}"
