"""`forebear import`: another program's model becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forebear.cli.printing import Speaking
from forebear.errors import several

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.training.folder import RunFolder


def imported(
    source: str,
    /,
    *,
    to: Path,
    heads: int | None = None,
    task: Literal["classification", "pairs", "none"] | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Make a run from a Hugging Face folder or hub name, from OpenAI's files of GPT, or from an ARPA file (n-gram).

    Of Hugging Face: openai-gpt, bert, gpt2, ernie, roberta and albert, with whatever heads the folder has: what was
    fine-tuned to classify, tag, answer or choose can be asked to at once. What was read, what it lacks and what was
    left out is told, and kept in the run.

    ```
    forebear import ./bert-base-chinese --to runs/bert
    forebear import openai-community/gpt2 --to runs/gpt2
    forebear import ./roberta-large-mnli --task pairs --to runs/mnli
    forebear import model.arpa --to runs/kenlm
    ```

    Parameters
    ----------
    source
        A folder that transformers' save_pretrained wrote, a name on the Hugging Face hub, a folder or archive of
        params_0.npy … that OpenAI published, or an ARPA file.
    to
        The run folder.
    heads
        Of attention, for OpenAI's files, which do not tell. [default: one for every 64 numbers of width]
    task
        What a classifier was trained on, single texts or pairs, which its folder does not tell; none: leave the head
        for its task out, whatever it is. [default: pairs where labels are those of entailment]
    """
    from forebear.using import exchanging

    run = exchanging.imported(source, str(to), heads=heads, task=task)
    facts = {"folder": str(run.path), **run.facts}
    speaking.tell(facts, lambda console: _draw(console, run, [] if speaking.quiet else run.facts["notes"]))


def _draw(console: Console, run: RunFolder, notes: list[str]) -> None:
    told = f"{run.facts['milestone']}, {run.facts['parameters']:,} parameters: {run.path}"
    console.print(told, markup=False, soft_wrap=True)
    if "heads" in run.facts:
        heads = ", ".join(run.facts["heads"]) or "none, an encoder only"
        console.print(f"heads: {heads}", markup=False, soft_wrap=True)
    if run.task is not None:
        labels = getattr(run.task, "labels", ()) or getattr(run.task, "tags", ())
        named = f"; labels: {several(labels)}" if labels else ""
        told = f"task: {run.task.name}{named}; forebear {run.task.verb} {run.path}"
        console.print(told, markup=False, soft_wrap=True)
    for note in notes:
        console.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
