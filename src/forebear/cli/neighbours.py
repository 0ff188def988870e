"""`forebear neighbours`: the nearest words of a run, or the nearest sentences of a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import ONE, Given, ManyOptions, opened, plain
from forebear.cli.partly import Partly, Unanswered
from forebear.cli.printing import Speaking, counted, table
from forebear.errors import BadInput
from forebear.using.vectors import AnyPooling, Long

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forebear.using.lexicon import Lexicon, NearWords
    from forebear.using.neighbours import Neighbours, Searched
    from forebear.using.run import Run

TOGETHER = 2048  # texts whose neighbours are looked for at once
WORDS, SENTENCES = 10, 5  # shown, unless another number is asked for

Ask = Callable[[list[str]], Sequence[Any]]


def neighbours(
    run: Path,
    texts: Given = None,
    /,
    *,
    among: Path | None = None,
    top: int | None = None,
    vectors: Path | None = None,
    approximate: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    layers: str | None = None,
    pooling: AnyPooling | None = None,
    long: Long | None = None,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Find the words that are nearest to a word, or the sentences of a file nearest to a text, by their cosines.

    Words are those that the run knows, if its tokens are words; each is told with how often it was seen. With --among,
    sentences of a file are searched: their vectors are made once and kept in the cache, or taken from a file that
    `embed` wrote. Search is exact; what is equally near comes in the order of the vocabulary or file. A text that has
    no answer, such as an unknown word, keeps its place with an `error`, and is told.

    ```
    forebear neighbours runs/word2vec king "new york"
    forebear neighbours runs/zh 北京 --top 20
    forebear neighbours runs/bert "a cat on a mat" --among sentences.txt
    forebear neighbours runs/bert --in questions.txt --among answers.txt --top 3 --out nearest.jsonl
    forebear neighbours runs/bert "今天下雨" --among sentences.txt --vectors vectors.npy
    ```

    Parameters
    ----------
    run
        The run's folder: any with vectors, or one imported (sentence encoders of Hugging Face too).
    texts
        Words or texts, each by itself; - for the lines of standard input. Several words in one are taken for a phrase
        that the run knows, or for their mean.
    among
        The file to search, a sentence a line (also .gz, .zst). [default: none, the run's own words]
    top
        How many neighbours each gets. [default: 10 words, or 5 sentences]
    vectors
        The vectors of that file, as embed --out wrote them (.npy, .safetensors). [default: kept in the cache]
    approximate
        Search by an index (usearch) that finds most of the nearest and looks at few: for millions. How many of the
        nearest it finds is measured and told.
    layers
        Of sentences, as for embed.
    pooling
        Of sentences, as for embed.
    long
        Of sentences, as for embed.
    """
    from forebear.using.embedding import matrix_of
    from forebear.using.neighbours import Searched, own_words
    from forebear.using.vectors import layers_from

    using = opened(run, "neighbours", speaking)
    how = {"layers": None if layers is None else layers_from(layers), "pooling": pooling, "long": long}
    if top is not None and top < 1:
        raise BadInput(f"--top is {top}", remedy="ask for at least one neighbour")
    facts: dict[str, Any] = {"run": using.name}
    searching: Searched | Lexicon
    if among is None:
        own_words({**how, "vectors": vectors})
        most, searching = top or WORDS, using.lexicon
        facts["words"] = len(using.words.words)
    else:
        file = ManyOptions(among, encoding=many.encoding)
        most, searching = top or SENTENCES, _searched(using, file, speaking, vectors=vectors, **how)
        facts |= {"among": str(among), "sentences": len(searching.texts)}
    if approximate:
        facts["recall"] = round(searching.index.recall(most), 4)

    def ask(group: list[str]) -> list[NearWords] | list[Neighbours]:
        if isinstance(searching, Searched):
            return searching.near(group, matrix_of(using, group, **how).vectors, most, approximate=approximate)
        return searching.neighbours(group, most, approximate=approximate)

    _answer(facts, many, texts, ask, speaking)


def _searched(run: Run, file: ManyOptions, speaking: Speaking, **how: Any) -> Searched:
    """The sentences of a file with their vectors; a fault in its last line is told before any work."""
    from forebear.using.neighbours import searched
    from forebear.using.words import is_table

    file.count(None, blank=is_table(run))
    with speaking.counting("sentences read") as progress:
        return searched(run, (line.text for line in file.lines(None)), progress=progress, **how)


def _answer(facts: dict[str, Any], many: ManyOptions, texts: list[str] | None, ask: Ask, speaking: Speaking) -> None:
    """Tells what is near to each text, or writes it to a file."""
    partly = Partly()
    answers = many.answer(
        many.lines(texts), lambda group: list(ask(group)), lambda answer: answer.facts(), TOGETHER, partly
    )
    if not partly.count:
        remedy = 'forebear neighbours RUN word, or RUN "some text" --among FILE, or --in FILE'
        raise BadInput("there is no text", remedy=remedy)
    if many.output_file is not None:
        facts |= {"texts": partly.count, "out": str(many.output_file)}
    else:
        facts["texts"] = [answer.facts() for answer in answers]
    partly.tell(facts, quiet=speaking.quiet)
    shown = [answer for answer in answers if not isinstance(answer, Unanswered)]
    speaking.tell(facts, lambda console: _draw(console, facts, shown))


def _table(answer: Neighbours | NearWords) -> Table:
    from forebear.using.neighbours import Neighbours

    if isinstance(answer, Neighbours):
        made = table(">cosine", ">line", "sentence")
        for one in answer.nearest:
            made.add_row(f"{one.cosine:.3f}", f"{one.number:,}", plain(one.text))
        return made
    counted = any(one.count is not None for one in answer.nearest)
    made = table(">cosine", *[">seen"] * counted, "word")
    for one in answer.nearest:
        seen = ["" if one.count is None else f"{one.count:,}"] * counted
        made.add_row(f"{one.cosine:.3f}", *seen, plain(one.word))
    return made


def _draw(console: Console, facts: dict[str, Any], answers: list[Neighbours | NearWords]) -> None:
    from forebear.using.lexicon import NearWords

    for answer in answers:
        note = answer.note if isinstance(answer, NearWords) else ""
        console.print(f"[bold]{plain(answer.text)}[/]" + (f"  ({plain(note)})" if note else ""), soft_wrap=True)
        if answer.nearest:
            console.print(_table(answer))
    if "out" in facts:
        some = f"{facts['texts'] - facts['unanswered']:,} of " if "unanswered" in facts else ""
        console.print(
            f"neighbours of {some}{counted(facts['texts'], 'text')}: {facts['out']}", markup=False, soft_wrap=True
        )
    if "recall" in facts:
        console.print(f"the index finds {facts['recall']:.1%} of the nearest, measured against exact search")
