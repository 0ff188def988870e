"""`forebear tag`: names and other parts of a text, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.doing import do
from forebear.cli.many import ONE, Given, ManyOptions, opened, plain
from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.tasks.tagging import Told

LEAST = 0.005  # a probability that is shown


def tag(
    run: Path,
    texts: Given = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Tag the words of texts with a run that was adapted to it; every word gets a tag, however long the text.

    ```
    forebear tag runs/names "爱因斯坦在柏林发表演讲" --table
    forebear tag runs/names --in sentences.txt --out tagged.conll
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for tagging.
    texts
        Texts, each by itself.
    show_table
        Show the probability of every tag for every word.
    """
    from forebear.using.doing import tagged

    using = opened(run, "tag", speaking)
    do(
        using,
        tagged(using, list(texts or ())),
        many,
        speaking,
        line=lambda text: tagged(using, text)[0],
        what="texts",
        draw=lambda console, answer: _draw(console, answer, show_table),
        write=_lines,
    )


def _lines(answer: Told) -> str:
    """A word and its tag a line, and a blank line behind."""
    rows = zip(answer.words, answer.tags, strict=True)
    return "".join(f"{word}\t{label}\n" for word, label in rows) + "\n"


def _draw(console: Console, answer: Told, shown: bool) -> None:
    found = table("", "kind", ">probability")
    for entity in answer.entities:
        found.add_row(f"[bold]{plain(entity.text)}[/]", plain(entity.kind), f"{entity.probability:.4f}")
    if answer.entities:
        console.print(found)
    else:
        console.print(f"{plain(''.join(answer.words)[:80])}: nothing found")
    if shown:
        used = [number for number, p in enumerate(answer.probabilities.max(axis=0).tolist()) if p >= LEAST]
        made = table("word", "tag", *(f">{plain(answer.labels[number])}" for number in used))
        for word, label, row in zip(answer.words, answer.tags, answer.probabilities.tolist(), strict=True):
            cells = (f"{row[number]:.3f}" if row[number] >= LEAST else "" for number in used)
            made.add_row(plain(word), plain(label), *cells)
        console.print(made)
