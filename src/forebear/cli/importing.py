"""`forebear import`: another program's model becomes a run."""

from __future__ import annotations

from pathlib import Path

from forebear.cli.printing import Speaking


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
    speaking.tell(
        facts,
        lambda console: console.print(
            f"{facts['milestone']}, {facts['parameters']:,} parameters: {run.path}", markup=False, soft_wrap=True
        ),
    )
