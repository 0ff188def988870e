"""`forebear import`: another program's model becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forebear.cli.printing import Speaking

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.training.folder import RunFolder


def imported(source: str, /, *, to: Path, speaking: Speaking = Speaking()) -> None:
    """Make a run from a Hugging Face folder or hub name (GPT-2), or from an ARPA file (n-gram).

    ```
    forebear import ./gpt2 --to runs/gpt2
    forebear import openai-community/gpt2 --to runs/gpt2
    forebear import model.arpa --to runs/kenlm
    ```

    Parameters
    ----------
    source
        A folder that transformers' save_pretrained wrote, a name on the Hugging Face hub, or an ARPA file.
    to
        The run folder.
    """
    from forebear.using import exchanging

    run = exchanging.imported(source, str(to))
    facts = {"folder": str(run.path), **run.facts}
    speaking.tell(facts, lambda console: _draw(console, run))


def _draw(console: Console, run: RunFolder) -> None:
    told = f"{run.facts['milestone']}, {run.facts['parameters']:,} parameters: {run.path}"
    console.print(told, markup=False, soft_wrap=True)
    for note in run.facts["notes"]:
        console.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
