"""`forebear similarity`: how alike two words or texts are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import ONE, STDIN, Given, Line, ManyOptions, opened, plain
from forebear.cli.partly import Partly, Unanswered
from forebear.cli.printing import Speaking, bar, counted, table
from forebear.errors import BadInput
from forebear.using.vectors import AnyPooling

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.likeness import Similarity

TOGETHER = 1024  # pairs that are looked at at once
WIDTH = 20  # of a bar
FORM = "write two texts with a tab between them, a pair a line"


def similarity(
    run: Path,
    texts: Given = None,
    /,
    *,
    layers: str | None = None,
    pooling: AnyPooling | None = None,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Tell how alike two words or texts are: the cosine of their vectors, 1 for what points the same way.

    Words that the run knows are compared by their own vectors, where its tokens are words; all else as texts, by the
    vectors that `embed` makes. A pair that has no answer, such as one with an unknown word, keeps its place with an
    `error`, and is told.

    ```
    forebear similarity runs/word2vec king queen
    forebear similarity runs/zh 北京 上海 北京 苹果
    forebear similarity runs/bert "the cat sat" "a dog lay down" --layers 2
    forebear similarity runs/word2vec --in pairs.tsv --out cosines.jsonl
    ```

    Parameters
    ----------
    run
        The run's folder: any with vectors.
    texts
        Words or texts, two and two. A file named with --in has a pair a line, with a tab between.
    layers
        Compare texts by this layer, as for embed; words too are then read as texts.
    pooling
        Compare texts with this pooling, as for embed; words too are then read as texts.
    """
    from forebear.using.likeness import similarities
    from forebear.using.vectors import layers_from

    using = opened(run, "similarity", speaking)
    how: dict[str, Any] = {"layers": None if layers is None else layers_from(layers), "pooling": pooling}
    partly = Partly(lambda line: {"texts": line.split("\t")})

    def ask(group: list[str]) -> list[Similarity]:
        return similarities(using, list(_pairs(group)), **how)

    lines = _lines(many, list(texts or ()))
    answers = many.answer(lines, ask, lambda answer: answer.facts(), TOGETHER, partly)
    if not partly.count:
        raise BadInput("there are no two texts to compare", remedy="forebear similarity RUN king queen, or --in FILE")
    facts: dict[str, Any] = {"run": using.name}
    partly.tell(facts, quiet=speaking.quiet)
    if many.output_file is not None:
        facts |= {"pairs": partly.count, "out": str(many.output_file)}
        told = f"cosines of {counted(partly.answered, 'pair')}: {many.output_file}"
        speaking.tell(facts, lambda console: console.print(told, markup=False, soft_wrap=True))
        return
    facts["pairs"] = [answer.facts() for answer in answers]
    shown = [answer for answer in answers if not isinstance(answer, Unanswered)]
    speaking.tell(facts, lambda console: _draw(console, shown))


def _lines(many: ManyOptions, given: list[str]) -> Iterator[Line]:
    """Pairs of the command line as lines of a file, and those of the file."""
    own = [text for text in given if text != STDIN]
    if len(own) % 2:
        raise BadInput(f"{own[-1]!r} is left over", remedy="give two texts, or four …")
    for first, second in zip(own[::2], own[1::2], strict=True):
        if "\t" in first + second:
            raise BadInput(f"{first!r} and {second!r}: a tab parts the texts of a pair", remedy="write a space instead")
        yield Line(f"{first}\t{second}")
    yield from many.lines([STDIN] if STDIN in given else None)


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise BadInput(f"{len(parts)} columns, not two", line=number, remedy=FORM)
        yield parts[0], parts[1]


def _draw(console: Console, answers: list[Similarity]) -> None:
    made = table(">cosine", "", "", "", "by")
    for one in answers:
        shown = bar(max(one.cosine, 0.0), WIDTH)
        made.add_row(f"{one.cosine:.3f}", shown, plain(one.texts[0]), plain(one.texts[1]), one.by)
    console.print(made)
    for note in dict.fromkeys(note for one in answers for note in one.notes):
        console.print(plain(note), style="dim", soft_wrap=True)
