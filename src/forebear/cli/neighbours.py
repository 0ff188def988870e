"""`forebear neighbours`: the nearest sentences of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import ONE, Given, ManyOptions, opened, plain
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput
from forebear.using.vectors import Long, Pooling

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.neighbours import Neighbours

TOGETHER = 2048  # texts whose neighbours are looked for at once


def neighbours(
    run: Path,
    texts: Given = None,
    /,
    *,
    among: Path,
    top: int = 5,
    vectors: Path | None = None,
    approximate: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    layers: str = "-1",
    pooling: Pooling = "mean",
    long: Long = "windows",
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Find the sentences of a file that are nearest to a text, by the cosine of their vectors.

    The vectors of the file are made once and kept in the cache, or taken from a file that `embed` wrote. Search is
    exact; sentences that are equally near come in the order of the file.

    ```
    forebear neighbours runs/bert "a cat on a mat" --among sentences.txt
    forebear neighbours runs/bert --in questions.txt --among answers.txt --top 3 --out nearest.jsonl
    forebear neighbours runs/bert "今天下雨" --among sentences.txt --vectors vectors.npy
    ```

    Parameters
    ----------
    run
        The run's folder: any with an encoder, or one imported (sentence encoders of Hugging Face too).
    texts
        Texts, each by itself; - for the lines of standard input.
    among
        The file to search, a sentence a line (also .gz, .zst).
    top
        How many neighbours each text gets.
    vectors
        The vectors of that file, as embed --out wrote them (.npy, .safetensors). [default: kept in the cache]
    approximate
        Search by an index (usearch) that finds most of the nearest and looks at few: for millions of sentences. How
        many of the nearest it finds is measured and told.
    layers
        As for embed.
    pooling
        As for embed.
    long
        As for embed.
    """
    from forebear.using.neighbours import searched
    from forebear.using.vectors import layers_from, matrix_of

    using = opened(run, "neighbours", speaking)
    if top < 1:
        raise BadInput(f"--top is {top}", remedy="ask for at least one neighbour")
    how = {"layers": layers_from(layers), "pooling": pooling, "long": long}
    file = ManyOptions(among, encoding=many.encoding)
    file.count(None)
    with speaking.counting("sentences read") as progress:
        lines = (line.text for line in file.lines(None))
        found = searched(using, lines, vectors=vectors, progress=progress, **how)
    facts: dict[str, Any] = {"run": using.name, "among": str(among), "sentences": len(found.texts)}
    if approximate:
        facts["recall"] = round(found.index.recall(top), 4)
    count = 0

    def ask(group: list[str]) -> list[Neighbours]:
        nonlocal count
        count += len(group)
        return found.near(group, matrix_of(using, group, **how).vectors, top, approximate=approximate)

    answers = many.answer(many.lines(texts), ask, lambda answer: answer.facts(), TOGETHER)
    if not count:
        raise BadInput("there is no text", remedy='forebear neighbours RUN "some text" --among FILE, or --in FILE')
    if many.output_file is not None:
        facts |= {"texts": count, "out": str(many.output_file)}
    else:
        facts["texts"] = [answer.facts() for answer in answers]
    speaking.tell(facts, lambda console: _draw(console, facts, answers))


def _draw(console: Console, facts: dict[str, Any], answers: list[Neighbours]) -> None:
    for answer in answers:
        console.print(f"[bold]{plain(answer.text)}[/]", soft_wrap=True)
        made = table(">cosine", ">line", "sentence")
        for one in answer.nearest:
            made.add_row(f"{one.cosine:.3f}", f"{one.number:,}", plain(one.text))
        console.print(made)
    if "out" in facts:
        console.print(f"neighbours of {facts['texts']:,} texts: {facts['out']}", markup=False, soft_wrap=True)
    if "recall" in facts:
        console.print(f"the index finds {facts['recall']:.1%} of the nearest, measured against exact search")
