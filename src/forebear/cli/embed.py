"""`forebear embed`: vectors of texts and of words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.many import ONE, Given, ManyOptions, opened, plain
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput
from forebear.using.vectors import Long, Pooling

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.vectors import Embedded

SHOWN = 12  # texts or words whose cosines fit into a table


def embed(
    run: Path,
    texts: Given = None,
    /,
    *,
    layers: str = "-1",
    pooling: Pooling = "mean",
    words: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    long: Long = "windows",
    normalise: bool = True,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Turn texts, or their words in context, into vectors; several are shown with the cosines between them.

    ```
    forebear embed runs/bert "我很喜欢你" "我很中意你" "今天下雨"
    forebear embed runs/bert "the bank of the river" "money in the bank" --words --layers 2
    forebear embed runs/bert --in sentences.txt --out vectors.npy
    forebear embed runs/bert "a text" --layers 0:0.2,3:0.3,4:0.5 --json
    ```

    Parameters
    ----------
    run
        The run's folder: any with an encoder, or one imported (sentence encoders of Hugging Face too).
    texts
        Texts, each by itself; - for the lines of standard input.
    layers
        A layer (0: the embedding, -1: the last), several for their mean (1,2,3), or with weights (2:0.5,4:0.5).
    pooling
        A text's vector is the mean of its tokens' vectors, the first one's ([CLS]), the last one's, or their max.
    words
        Each word its own vector, the mean of its tokens'; Chinese is cut into words.
    long
        A text longer than the context is read in windows, or truncated; what is left away is told.
    normalise
        Vectors of length 1.
    """
    from forebear.using.vectors import layers_from

    using = opened(run, "embed", speaking)
    count = cut = 0

    def ask(group: list[str]) -> list[Embedded]:
        nonlocal count, cut
        how = {"pooling": pooling, "words": words, "long": long, "normalise": normalise}
        made = using.embed(group, layers=layers_from(layers), **how)
        count, cut = count + len(made), cut + sum(one.cut for one in made)
        return made

    output = many.output_file
    as_array = output is not None and output.suffix == ".npy"
    if as_array and words:
        raise BadInput("--words gives texts different numbers of vectors", remedy="write them to a .jsonl file")
    asked = ManyOptions(many.input_file) if as_array else many
    answers: list[Embedded] = asked.answer(many.lines(texts), ask, lambda answer: answer.facts())
    if not count:
        raise BadInput("there is no text to embed", remedy='forebear embed RUN "some text", or --in FILE')
    if output is not None:
        if as_array:
            _save(output, answers)
        facts = {"run": using.name, "texts": count, "cut": cut, "out": str(output)}
        speaking.tell(facts, lambda console: console.print(f"vectors of {count:,} texts: {output}", markup=False))
        return
    facts = {"run": using.name, "texts": [answer.facts() for answer in answers]}
    speaking.tell(facts, lambda console: _draw(console, answers))


def _save(file: Path, answers: list[Embedded]) -> None:
    import numpy as np

    from forebear.text.aside import disk_told, written_aside

    with disk_told(file), written_aside(file) as opened_aside:
        np.save(opened_aside, np.stack([answer.vector for answer in answers]).astype(np.float32), allow_pickle=False)


def _draw(console: Console, answers: list[Embedded]) -> None:
    import numpy as np

    words = [(word.text, word.vector) for answer in answers for word in answer.words or ()]
    named = words or [(answer.text, answer.vector) for answer in answers]
    for answer in answers:
        told = f"{len(answer.vector):,} numbers from {answer.tokens:,} tokens"
        console.print(f"{plain(answer.text)}: {told}" + (f", {answer.cut:,} left away" if answer.cut else ""))
    named = named[:SHOWN]
    if len(named) < 2:
        console.print("(--json or --out has the numbers)", style="dim")
        return
    units = np.stack([vector / max(float(np.linalg.norm(vector)), 1e-12) for _, vector in named])
    made = table("cosine", *(f">{at}" for at in range(1, len(named) + 1)))
    for at, ((text, _), row) in enumerate(zip(named, units @ units.T, strict=True), 1):
        made.add_row(f"{at} {plain(text[:40])}", *(f"{value:.3f}" for value in row))
    console.print(made)
