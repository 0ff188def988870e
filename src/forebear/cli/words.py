"""`forebear inspect neighbours`, `projection` and `norms`: words by their vectors, in the terminal and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import (
    SINGLE_INPUT,
    STDIN_PATH,
    BatchInputOptions,
    FailedInput,
    InputLine,
    PartialResults,
    TextArguments,
    open_run,
    printable_cell,
)
from forebear.cli.output import Output, count_phrase, image_format, make_table, text_bar, write_image
from forebear.embeddings.lexicon import AnalogyMethod
from forebear.errors import InputError
from forebear.inference.embed import EmbeddingPooling

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.embeddings.lexicon import Analogy, WordNeighbors
    from forebear.inference.similarity import OutlierResult, Similarity
    from forebear.inspection.embedding_space import VectorNorms, WordProjection

FORMS = ("png", "svg", "html")
WIDTH = 30  # of a bar
HEIGHT = 26  # lines of a plane
NOTED = 20  # words that have no name in a picture
NAMED = 4  # words with the longest and shortest vectors that are told


def neighbours(
    run: Path,
    words: TextArguments = None,
    /,
    *,
    top: int = 10,
    to: Path | None = None,
    speaking: Output = Output(),
) -> None:
    """Show which words are nearest to a word, as bars of their cosines.

    ```
    forebear inspect neighbours runs/word2vec king river
    forebear inspect neighbours runs/zh 北京 苹果 --top 15 --to near.png
    ```

    Parameters
    ----------
    run
        The run's folder: one whose tokens are words.
    words
        The words, each by itself.
    top
        How many neighbours each gets.
    to
        Write a picture (.png, .svg) or a page (.html).
    """
    form = image_format(to, *FORMS)
    using = open_run(run, "neighbours", speaking)
    if not words:
        raise InputError("there is no word", hint="forebear inspect neighbours RUN king")
    found = using.neighbours(words, top=top)
    facts: dict[str, Any] = {"run": using.name, "what": "neighbours", "texts": [one.to_dict() for one in found]}
    if to is not None:
        if not any(one.nearest for one in found):
            raise InputError(f"there is nothing to draw: {found[0].note}", file=run)
        from forebear.inspection import embedding_plots

        title = f"{using.name}: the nearest words"
        page = embedding_plots.neighbors_page(found, title).encode() if form == "html" else None
        write_image(to, page or embedding_plots.plot_neighbors(found, title, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _draw_neighbours(console, found, to))


def _draw_neighbours(console: Console, found: list[WordNeighbors], to: Path | None) -> None:
    for answer in found:
        note = f"  ({printable_cell(answer.note)})" if answer.note else ""
        console.print(f"[bold]{printable_cell(answer.text)}[/]{note}", soft_wrap=True)
        made = make_table("word", ">cosine", "", ">seen")
        for one in answer.nearest:
            seen = "" if one.count is None else f"{one.count:,}"
            made.add_row(
                printable_cell(one.word), f"{one.cosine:.3f}", text_bar(min(max(one.cosine, 0.0), 1.0), WIDTH), seen
            )
        if answer.nearest:
            console.print(made)
    _written(console, to)


def projection(
    run: Path,
    words: TextArguments = None,
    /,
    *,
    top: int | None = None,
    near: int = 0,
    to: Path | None = None,
    speaking: Output = Output(),
) -> None:
    """Show words as points of a plane: the two directions in which their vectors differ most (PCA).

    ```
    forebear inspect projection runs/word2vec king queen man woman --near 8 --to plane.html
    forebear inspect projection runs/zh --top 200 --to plane.png
    ```

    Vectors are taken with length 1. How much of their variance the plane shows is told: where it is little, words that
    are near in the plane need not be near.

    Parameters
    ----------
    run
        The run's folder: one whose tokens are words.
    words
        The words. [default: none, the most frequent ones]
    top
        So many of the most frequent words, where none are given. [default: 100]
    near
        Add so many neighbours of each word that is given, in its colour.
    to
        Write a picture (.png, .svg), or a page on which dots tell their names (.html).
    """
    from forebear.inspection.embedding_space import project_words as looked_at

    form = image_format(to, *FORMS)
    using = open_run(run, "neighbours", speaking)
    found = looked_at(using, list(words or ()), top=top, near=near)
    facts: dict[str, Any] = {"run": using.name, "what": "projection"} | found.to_dict()
    if to is not None:
        from forebear.inspection import embedding_plots

        title = f"{using.name}: {len(found.words):,} words"
        page = embedding_plots.projection_page(found, title).encode() if form == "html" else None
        write_image(to, page or embedding_plots.plot_projection(found, title, form))
        facts["to"] = str(to)
        if page is None:
            found = replace(found, notes=(*found.notes, *_unwritten(found.words)))
            facts["notes"] = list(found.notes)
    speaking.emit(facts, lambda console: _draw_projection(console, found, to))


def _unwritten(words: Sequence[str]) -> Iterator[str]:
    """A note on the words that a picture shows without their names."""
    from forebear.reports.plotting import undrawable_texts

    if lacking := undrawable_texts(words):
        some = ", ".join(lacking[:NOTED]) + " …" * (len(lacking) > NOTED)
        has = "1 word is a dot" if len(lacking) == 1 else f"{len(lacking):,} words are dots"
        yield f"{has} without a name, as no font installed here has all characters: {some}; --to FILE.html has names"


def _draw_projection(console: Console, found: WordProjection, to: Path | None) -> None:
    lines, shown = _plane(found, console.width - 1)
    for line in lines:
        console.print(line, markup=False, no_wrap=True, overflow="ignore", crop=False)
    some = f"; {shown:,} of {len(found.words):,} words have room" if shown < len(found.words) else ""
    first, second = found.explained_variance
    console.print(f"to the right {first:.1%} of the variance, upwards {second:.1%}{some}", style="dim", soft_wrap=True)
    for note in found.notes:
        console.print(printable_cell(note), style="dim", soft_wrap=True)
    _written(console, to)


def _plane(found: WordProjection, width: int) -> tuple[list[str], int]:
    """The words on lines of text, each about where it lies; those that would lie on another are left out."""
    from rich.cells import cell_len

    low, high = found.points.min(0), found.points.max(0)
    span = [float(one) or 1.0 for one in high - low]
    cells = [[" "] * width for _ in range(HEIGHT)]
    shown = 0
    for place in sorted(range(len(found.words)), key=lambda place: not found.query_words[place]):
        word = found.words[place] if found.words[place].isprintable() else repr(found.words[place])[1:-1]
        wide = cell_len(word)
        x, y = ((found.points[place] - low) / span).tolist()
        line, column = round((1 - y) * (HEIGHT - 1)), max(0, round(x * (width - wide)))
        around = slice(max(0, column - 1), column + wide + 1)
        if wide <= width and all(cell == " " for cell in cells[line][around]):
            cells[line][column : column + wide] = [word, *[""] * (wide - 1)]
            shown += 1
    return ["".join(line).rstrip() for line in cells], shown


def norms(
    run: Path,
    /,
    *,
    to: Path | None = None,
    speaking: Output = Output(),
) -> None:
    """Show how long vectors are beside how often their words were seen, and what else frequency does to them.

    ```
    forebear inspect norms runs/word2vec
    forebear inspect norms runs/zh --to norms.png
    ```

    Parameters
    ----------
    run
        The run's folder: one of word vectors, which knows how often it saw each word.
    to
        Write a picture (.png, .svg) or a page (.html).
    """
    from forebear.inspection.embedding_space import vector_norms as looked_at

    form = image_format(to, *FORMS)
    using = open_run(run, "neighbours", speaking)
    found = looked_at(using)
    facts: dict[str, Any] = {"run": using.name, "what": "norms"} | found.to_dict()
    if to is not None:
        from forebear.inspection import embedding_plots

        title = f"{using.name}: lengths of vectors and frequency"
        page = embedding_plots.norms_page(found, title).encode() if form == "html" else None
        write_image(to, page or embedding_plots.plot_norms(found, title, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _draw_norms(console, found, to))


def _draw_norms(console: Console, found: VectorNorms, to: Path | None) -> None:
    made = make_table(">times seen", ">words", ">median length", "", ">eight of ten", ">mean cosine of two")
    most = max((band.median for band in found.bands), default=1.0) or 1.0
    for band in found.bands:
        spread = f"{band.shortest:.2f} to {band.longest:.2f}"
        alike = "" if band.cosine is None else f"{band.cosine:.3f}"
        times = f"{band.min_count:,} to {band.max_count:,}"
        made.add_row(times, f"{band.words:,}", f"{band.median:.3f}", text_bar(band.median / most, 20), spread, alike)
    console.print(made)
    told = (
        f"Spearman's correlation of length and frequency: {found.correlations[0]}",
        f"of a word's frequency and its neighbours': {found.correlations[1]}",
        f"mean cosine of any two words: {'' if found.cosine is None else f'{found.cosine:.3f}'}",
        *found.notes,
    )
    for line in told:
        console.print(line, soft_wrap=True)
    for name, rows in zip(("longest", "shortest"), found.extremes, strict=True) if found.is_varying else ():
        words = ", ".join(f"{printable_cell(found.words[row])} {found.lengths[row]:.2f}" for row in rows[:NAMED])
        console.print(f"{name}: {words}", style="dim", soft_wrap=True)
    _written(console, to)


def _written(console: Console, to: Path | None) -> None:
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


# `forebear analogy`: what is to one word as another is to a third.


def analogy(
    run: Path,
    first: str,
    second: str,
    third: str,
    /,
    *,
    top: int = 5,
    method: AnalogyMethod = "add",
    approximate: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    speaking: Output = Output(),
) -> None:
    """Answer: the first is to the second as the third is to what? The three themselves are no answers.

    ```
    forebear analogy runs/word2vec man king woman
    forebear analogy runs/zh 中国 北京 日本 --top 10
    forebear analogy runs/word2vec walk walked go --method multiply
    ```

    Parameters
    ----------
    run
        The run's folder: one whose tokens are words.
    first
        A word, such as man.
    second
        What belongs to it, such as king.
    third
        Another word, such as woman.
    top
        How many answers are told.
    method
        add: words near to second - first + third; multiply: words near to second and third and far from the first,
        by the product of cosines, so that no one of them decides.
    approximate
        Search by an index (usearch) that finds most of the nearest and looks at few: for millions of words.
    """
    using = open_run(run, "analogy", speaking)
    found = using.analogy(first, second, third, top=top, method=method, approximate=approximate)
    facts: dict[str, Any] = {"run": using.name, **found.to_dict()}
    if approximate:
        facts["recall"] = round(using.lexicon.index.recall(top), 4)
    speaking.emit(facts, lambda console: _draw(console, found, facts))


def _draw(console: Console, found: Analogy, facts: dict[str, Any]) -> None:
    first, second, third = map(printable_cell, found.query)
    best = printable_cell(found.nearest[0].word) if found.nearest else "no word more than to another"
    console.print(f"{first} is to {second} as {third} is to [bold]{best}[/]", soft_wrap=True)
    made = make_table(">cosine" if found.method == "add" else ">score", ">seen", "word")
    for one in found.nearest:
        made.add_row(f"{one.cosine:.3f}", "" if one.count is None else f"{one.count:,}", printable_cell(one.word))
    if found.nearest:
        console.print(made)
    for note in found.notes:
        console.print(printable_cell(note), style="dim", soft_wrap=True)
    if "recall" in facts:
        console.print(f"the index finds {facts['recall']:.1%} of the nearest, measured against exact search")


# `forebear odd-one-out`: which of some words or texts is least like the others.


ODD_ONE_OUT_WIDTH = 20  # of a bar


def odd_one_out(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    layers: str | None = None,
    pooling: EmbeddingPooling | None = None,
    speaking: Output = Output(),
) -> None:
    """Tell which of some words or texts is least like the others: the mean of its cosines with them is the lowest.

    Words that the run knows are compared by their own vectors, where its tokens are words; all else as texts, by the
    vectors that `embed` makes.

    ```
    forebear odd-one-out runs/word2vec breakfast lunch dinner king
    forebear odd-one-out runs/zh 北京 上海 苹果 天津
    forebear odd-one-out runs/bert "the cat sat" "a dog lay" "taxes rose" --layers 2
    ```

    Parameters
    ----------
    run
        The run's folder: any with vectors.
    texts
        Three words or texts, or more.
    layers
        Compare texts by this layer, as for embed; words too are then read as texts.
    pooling
        Compare texts with this pooling, as for embed; words too are then read as texts.
    """
    from forebear.inference.embed import parse_layers

    using = open_run(run, "odd-one-out", speaking)
    chosen = None if layers is None else parse_layers(layers)
    found = using.odd_one_out(list(texts or ()), layers=chosen, pooling=pooling)
    speaking.emit({"run": using.name, **found.to_dict()}, lambda console: _odd_one_out_draw(console, found))


def _odd_one_out_draw(console: Console, found: OutlierResult) -> None:
    told = "none is the odd one: all are as far from the others" if found.outlier is None else ""
    console.print(told or f"[bold]{printable_cell(found.outlier or '')}[/] is the odd one, by {found.vector_kind}")
    made = make_table(">mean cosine with the others", "", "")
    for text, cosine in zip(found.texts, found.cosines, strict=True):
        style = "bold" if text == found.outlier else ""
        made.add_row(f"{cosine:.3f}", text_bar(max(cosine, 0.0), ODD_ONE_OUT_WIDTH), printable_cell(text), style=style)
    console.print(made)
    for note in found.notes:
        console.print(printable_cell(note), style="dim", soft_wrap=True)


# `forebear similarity`: how alike two words or texts are.


TOGETHER = 1024  # pairs that are looked at at once
SIMILARITY_WIDTH = 20  # of a bar
FORM = "write two texts with a tab between them, a pair a line"


def similarity(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    layers: str | None = None,
    pooling: EmbeddingPooling | None = None,
    many: BatchInputOptions = SINGLE_INPUT,
    speaking: Output = Output(),
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
    from forebear.inference.embed import parse_layers
    from forebear.inference.similarity import text_similarities

    using = open_run(run, "similarity", speaking)
    how: dict[str, Any] = {"layers": None if layers is None else parse_layers(layers), "pooling": pooling}
    partly = PartialResults(lambda line: {"texts": line.split("\t")})

    def ask(group: list[str]) -> list[Similarity]:
        return text_similarities(using, list(_pairs(group)), **how)

    lines = _lines(many, list(texts or ()))
    answers = many.run_batch(lines, ask, lambda answer: answer.to_dict(), TOGETHER, partly)
    if not partly.count:
        raise InputError("there are no two texts to compare", hint="forebear similarity RUN king queen, or --in FILE")
    facts: dict[str, Any] = {"run": using.name}
    partly.emit_failures(facts, quiet=speaking.quiet)
    if many.output_file is not None:
        facts |= {"pairs": partly.count, "out": str(many.output_file)}
        told = f"cosines of {count_phrase(partly.answered, 'pair')}: {many.output_file}"
        speaking.emit(facts, lambda console: console.print(told, markup=False, soft_wrap=True))
        return
    facts["pairs"] = [answer.to_dict() for answer in answers]
    shown = [answer for answer in answers if not isinstance(answer, FailedInput)]
    speaking.emit(facts, lambda console: _similarity_draw(console, shown))


def _lines(many: BatchInputOptions, given: list[str]) -> Iterator[InputLine]:
    """Pairs of the command line as lines of a file, and those of the file."""
    own = [text for text in given if text != STDIN_PATH]
    if len(own) % 2:
        raise InputError(f"{own[-1]!r} is left over", hint="give two texts, or four …")
    for first, second in zip(own[::2], own[1::2], strict=True):
        if "\t" in first + second:
            raise InputError(f"{first!r} and {second!r}: a tab parts the texts of a pair", hint="write a space instead")
        yield InputLine(f"{first}\t{second}")
    yield from many.valid_inputs([STDIN_PATH] if STDIN_PATH in given else None)


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise InputError(f"{len(parts)} columns, not two", line=number, hint=FORM)
        yield parts[0], parts[1]


def _similarity_draw(console: Console, answers: list[Similarity]) -> None:
    made = make_table(">cosine", "", "", "", "by")
    for one in answers:
        shown = text_bar(max(one.cosine, 0.0), SIMILARITY_WIDTH)
        made.add_row(
            f"{one.cosine:.3f}", shown, printable_cell(one.texts[0]), printable_cell(one.texts[1]), one.vector_kind
        )
    console.print(made)
    for note in dict.fromkeys(note for one in answers for note in one.notes):
        console.print(printable_cell(note), style="dim", soft_wrap=True)
