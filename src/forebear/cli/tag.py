"""`forebear tag`: names and other parts of a text, word by word."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.doing import NONE, ExampleOptions, do
from forebear.cli.many import Given, opened, plain
from forebear.cli.printing import Speaking, counted, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.tasks.examples import Tagged
    from forebear.tasks.tagging import Told

LEAST = 0.005  # a probability that is shown


def tag(
    run: Path,
    texts: Given = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleOptions = NONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Tag the words of texts with a run that was adapted to it; every word gets a tag, however long the text.

    A plain line of --in is a text. --out is CoNLL: a word and its tag a line, and an empty line behind each text.

    ```
    forebear tag runs/names "爱因斯坦在柏林发表演讲" --table
    forebear tag runs/names --in sentences.txt --out tagged.conll
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for tagging.
    texts
        Texts, each by itself. Words that have tags with them as those that the run learned from are taken without.
    show_table
        Show the probability of every tag for every word.
    """
    from forebear.using.doing import tagged, untagged

    using = opened(run, "tag", speaking)
    as_given = list(texts or ())  # in the order of the answers, as far as they are plain; what is written needs none
    with_tags = sum(untagged(using, text) is not None for text in as_given)

    def line(text: str) -> Tagged:
        nonlocal with_tags
        with_tags += untagged(using, text) is not None
        made = tagged(using, text)[0]
        if many.output_file is None:
            as_given.append(text)
        return made

    shown = iter(as_given)

    def draw(console: Console, told: Told) -> None:
        _draw(console, told, next(shown, None) or _joined(told.words), show_table)

    do(
        using,
        tagged(using, as_given),
        many,
        speaking,
        line=line,
        plain="a text",
        what="texts",
        draw=draw,
        write=_lines,
        gap="",
    )
    if with_tags and not speaking.quiet:
        told = f"{counted(with_tags, 'text')} with tags already, word/tag as the run learned it: read without them"
        print(f"note: {told}", file=sys.stderr)  # noqa: T201


def _lines(answer: Told) -> str:
    """A word and its tag a line, and a blank line behind."""
    return "".join(f"{word}\t{label}\n" for word, label in _pairs(answer)) + "\n"


def _pairs(answer: Told) -> Iterator[tuple[str, str]]:
    return zip(answer.words, answer.tags, strict=True)


def _joined(words: Sequence[str]) -> str:
    """The words of a file that gives no text."""
    from forebear.text.segmentation import has_han

    return ("" if has_han("".join(words)) else " ").join(words)


def _draw(console: Console, answer: Told, text: str, shown: bool) -> None:
    if answer.is_plain and not shown:
        console.print(" ".join(f"{plain(word)}[dim]/{plain(tag)}[/]" for word, tag in _pairs(answer)), soft_wrap=True)
        return
    found = table("", "kind", ">probability")
    for entity in answer.entities:
        found.add_row(f"[bold]{plain(entity.text)}[/]", plain(entity.kind), f"{entity.probability:.4f}")
    if answer.entities:
        console.print(found)
    elif not answer.is_plain:
        console.print(f"{plain(text[:80])}: nothing found")
    if shown and answer.words:
        used = [number for number, p in enumerate(answer.probabilities.max(axis=0).tolist()) if p >= LEAST]
        made = table("word", "tag", *(f">{plain(answer.labels[number])}" for number in used))
        for word, label, row in zip(answer.words, answer.tags, answer.probabilities.tolist(), strict=True):
            cells = (f"{row[number]:.3f}" if row[number] >= LEAST else "" for number in used)
            made.add_row(plain(word), plain(label), *cells)
        console.print(made)
