"""Commands on word vectors: `inspect neighbours`, `projection` and `norms`; `analogy`, `odd-one-out`, `similarity`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.cells import cell_len

from forebear.cli.batch_io import (
    STDIN_PATH,
    BatchInputOptions,
    FailedInput,
    InputLine,
    PartialResults,
    TextArguments,
    VectorRunArgument,
    WordRunArgument,
    open_run,
)
from forebear.cli.options import chosen_layers
from forebear.cli.output import (
    Console,
    ImageFile,
    Output,
    PictureOrPage,
    RenderFn,
    Switch,
    Table,
    count_phrase,
    number_cell,
    printable_cell,
    text_bar,
)
from forebear.embeddings.lexicon import AnalogyMethod
from forebear.errors import InputError
from forebear.inference.embed import EmbeddingPooling

if TYPE_CHECKING:
    from forebear.inference.similarity import Similarity
    from forebear.inspection.word_vector_geometry import VectorNorms, WordProjection

PAIRS_PER_BATCH = 1024
PLANE_HEIGHT = 26  # lines
MAX_NOTED_WORDS = 20  # listed words that a picture cannot show
MAX_NAMED_WORDS = 4  # listed words with the longest and shortest vectors
BAR_WIDTH = 20  # of cosines and lengths

LayersOfTexts = Annotated[
    str | None, Parameter(help="Compare texts by this layer, as for embed; words too are then read as texts.")
]
PoolingOfTexts = Annotated[
    EmbeddingPooling | None,
    Parameter(help="Compare texts with this pooling, as for embed; words too are then read as texts."),
]


def neighbours(
    run: WordRunArgument,
    words: TextArguments = None,
    /,
    *,
    top: int = 10,
    to: PictureOrPage = None,
    output: Output = Output(),
) -> None:
    """Show which words are nearest to a word, as bars of their cosines.

    ```
    forebear inspect neighbours runs/word2vec king river
    forebear inspect neighbours runs/zh 北京 苹果 --top 15 --to near.png
    ```

    Parameters
    ----------
    words
        The words, each by itself.
    top
        How many neighbours each gets.
    """
    loaded_run = open_run(run, "neighbours", output)
    if not words:
        raise InputError("there is no word", hint="forebear inspect neighbours RUN king")
    answers = loaded_run.neighbours(words, top=top)
    if to is not None and not any(answer.nearest for answer in answers):
        raise InputError(f"there is nothing to draw: {answers[0].note}", file=run)

    def draw(console: Console) -> None:
        for answer in answers:
            console.bold(answer.text, f"  ({printable_cell(answer.note)})" if answer.note else "")
            table = Table("word", ">cosine", "", ">seen")
            for neighbor in answer.nearest:
                bar = text_bar(min(max(neighbor.cosine, 0.0), 1.0))
                table.add_row(neighbor.word, f"{neighbor.cosine:.3f}", bar, number_cell(neighbor.count))
            if answer.nearest:
                console.print(table)

    answer_records = [answer.to_dict() for answer in answers]
    result = {"run": loaded_run.name, "what": "neighbours", "texts": answer_records}
    render = _renderer("neighbors", answers, f"{loaded_run.name}: the nearest words")
    output.emit_with_image(result, draw, to, render)


def _renderer(view: str, content: Any, title: str) -> RenderFn:
    """Render a view of word vectors as a page or as a picture."""

    def render(image_type: str) -> bytes | str:
        from forebear.inspection import embedding_visualization as plots

        page, plot = {
            "neighbors": (plots.neighbors_page, plots.plot_neighbors),
            "projection": (plots.projection_page, plots.plot_projection),
            "norms": (plots.norms_page, plots.plot_norms),
        }[view]
        return page(content, title) if image_type == "html" else plot(content, title, image_type)

    return render


def projection(
    run: WordRunArgument,
    words: TextArguments = None,
    /,
    *,
    top: int | None = None,
    near: int = 0,
    to: ImageFile = None,
    output: Output = Output(),
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
    words
        The words. [default: none, the most frequent ones]
    top
        So many of the most frequent words, where none are given. [default: 100]
    near
        Add so many neighbours of each word that is given, in its colour.
    to
        Write a picture (.png, .svg), or a page on which dots tell their names (.html).
    """
    from forebear.inspection.word_vector_geometry import project_words

    loaded_run = open_run(run, "neighbours", output)
    word_projection = project_words(loaded_run, list(words or ()), top=top, near=near)
    if to is not None and to.suffix.lower() != ".html":
        from forebear.reports.plotting import undrawable_texts

        if undrawable := undrawable_texts(word_projection.words):
            listed = ", ".join(undrawable[:MAX_NOTED_WORDS]) + " …" * (len(undrawable) > MAX_NOTED_WORDS)
            note = f"{count_phrase(len(undrawable), 'word is a dot', 'words are dots')} without a name, as no font"
            note += f" installed here has all characters: {listed}; --to FILE.html has names"
            word_projection = replace(word_projection, notes=(*word_projection.notes, note))
    num_words, (first, second) = len(word_projection.words), word_projection.explained_variance

    def draw(console: Console) -> None:
        lines, num_shown = _layout_words(word_projection, console.width - 1)
        console.lines(lines)
        room_note = f"; {num_shown:,} of {num_words:,} words have room" if num_shown < num_words else ""
        summary = f"to the right {first:.1%} of the variance, upwards {second:.1%}{room_note}"
        console.dim(summary, *word_projection.notes)

    result = {"run": loaded_run.name, "what": "projection"} | word_projection.to_dict()
    render = _renderer("projection", word_projection, f"{loaded_run.name}: {num_words:,} words")
    output.emit_with_image(result, draw, to, render)


def _layout_words(word_projection: WordProjection, width: int) -> tuple[list[str], int]:
    """The words at their positions on lines of text, without overlapping ones; the lines and the number shown."""
    minima, maxima = word_projection.points.min(0), word_projection.points.max(0)
    extents = [float(extent) or 1.0 for extent in maxima - minima]
    cells = [[" "] * width for _ in range(PLANE_HEIGHT)]
    num_shown = 0
    for row in sorted(range(len(word_projection.words)), key=lambda row: not word_projection.is_query[row]):
        word = word_projection.words[row]
        word = word if word.isprintable() else repr(word)[1:-1]
        word_width = cell_len(word)
        x, y = ((word_projection.points[row] - minima) / extents).tolist()
        line, column = round((1 - y) * (PLANE_HEIGHT - 1)), max(0, round(x * (width - word_width)))
        neighborhood = slice(max(0, column - 1), column + word_width + 1)
        if word_width <= width and all(cell == " " for cell in cells[line][neighborhood]):
            cells[line][column : column + word_width] = [word, *[""] * (word_width - 1)]
            num_shown += 1
    return ["".join(line).rstrip() for line in cells], num_shown


def norms(run: Path, /, *, to: PictureOrPage = None, output: Output = Output()) -> None:
    """Show how long vectors are beside how often their words were seen, and what else frequency does to them.

    ```
    forebear inspect norms runs/word2vec
    forebear inspect norms runs/zh --to norms.png
    ```

    Parameters
    ----------
    run
        The run's folder: one of word vectors, which knows how often it saw each word.
    """
    from forebear.inspection.word_vector_geometry import vector_norms

    loaded_run = open_run(run, "neighbours", output)
    norm_stats = vector_norms(loaded_run)
    result = {"run": loaded_run.name, "what": "norms"} | norm_stats.to_dict()
    render = _renderer("norms", norm_stats, f"{loaded_run.name}: lengths of vectors and frequency")
    output.emit_with_image(result, lambda console: _print_norms(console, norm_stats), to, render)


def _print_norms(console: Console, vector_norms: VectorNorms) -> None:
    table = Table(">times seen", ">words", ">median length", "", ">eight of ten", ">mean cosine of two")
    max_median = max((band.median for band in vector_norms.bands), default=1.0) or 1.0
    for band in vector_norms.bands:
        length_range = f"{band.quantile_10:.2f} to {band.quantile_90:.2f}"
        count_range = f"{band.min_count:,} to {band.max_count:,}"
        median = (f"{band.median:.3f}", text_bar(band.median / max_median, BAR_WIDTH))
        table.add_row(count_range, f"{band.num_words:,}", *median, length_range, number_cell(band.cosine, ".3f"))
    console.print(table)
    console.plain(f"Spearman's correlation of length and frequency: {vector_norms.correlations[0]}")
    console.plain(f"of a word's frequency and its neighbours': {vector_norms.correlations[1]}")
    console.plain(f"mean cosine of any two words: {number_cell(vector_norms.cosine, '.3f')}")
    for note in vector_norms.notes:
        console.plain(note)
    words, norms = vector_norms.words, vector_norms.norms
    for name, rows in zip(("longest", "shortest"), vector_norms.extremes, strict=True):
        if vector_norms.is_varying:
            console.dim(f"{name}: {', '.join(f'{words[row]} {norms[row]:.2f}' for row in rows[:MAX_NAMED_WORDS])}")


def analogy(
    run: WordRunArgument,
    first: str,
    second: str,
    third: str,
    /,
    *,
    top: int = 5,
    method: AnalogyMethod = "add",
    approximate: Switch = False,
    output: Output = Output(),
) -> None:
    """Answer: the first is to the second as the third is to what? The three themselves are no answers.

    ```
    forebear analogy runs/word2vec man king woman
    forebear analogy runs/zh 中国 北京 日本 --top 10
    forebear analogy runs/word2vec walk walked go --method multiply
    ```

    Parameters
    ----------
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
    loaded_run = open_run(run, "analogy", output)
    answer = loaded_run.analogy(first, second, third, top=top, method=method, approximate=approximate)
    result: dict[str, Any] = {"run": loaded_run.name, **answer.to_dict()}
    if approximate:
        result["recall"] = round(loaded_run.lexicon.index.recall(top), 4)

    def draw(console: Console) -> None:
        query = "{} is to {} as {} is to".format(*map(printable_cell, answer.query))
        best = printable_cell(answer.nearest[0].word) if answer.nearest else "no word more than to another"
        console.print(f"{query} [bold]{best}[/]", soft_wrap=True)
        if answer.nearest:
            rows = ((f"{word.cosine:.3f}", number_cell(word.count), word.word) for word in answer.nearest)
            console.table(">cosine" if answer.method == "add" else ">score", ">seen", "word", rows=rows)
        console.dim(*answer.notes)
        if approximate:
            console.print(f"the index finds {result['recall']:.1%} of the nearest, measured against exact search")

    output.emit(result, draw)


def odd_one_out(
    run: VectorRunArgument,
    texts: TextArguments = None,
    /,
    *,
    layers: LayersOfTexts = None,
    pooling: PoolingOfTexts = None,
    output: Output = Output(),
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
    texts
        Three words or texts, or more.
    """
    loaded_run = open_run(run, "odd-one-out", output)
    result = loaded_run.odd_one_out(list(texts or ()), layers=chosen_layers(layers), pooling=pooling)

    def draw(console: Console) -> None:
        if result.outlier is None:
            console.print("none is the odd one: all are as far from the others")
        else:
            console.print(f"[bold]{printable_cell(result.outlier)}[/] is the odd one, by {result.vector_kind}")
        table = Table(">mean cosine with the others", "", "")
        for text, cosine in zip(result.texts, result.cosines, strict=True):
            style = "bold" if text == result.outlier else ""
            table.add_row(f"{cosine:.3f}", text_bar(max(cosine, 0.0), BAR_WIDTH), text, style=style)
        console.print(table)
        console.dim(*result.notes)

    output.emit({"run": loaded_run.name, **result.to_dict()}, draw)


def similarity(
    run: VectorRunArgument,
    texts: TextArguments = None,
    /,
    *,
    layers: LayersOfTexts = None,
    pooling: PoolingOfTexts = None,
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
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
    texts
        Words or texts, two and two. A file named with --in has a pair a line, with a tab between.
    """
    from forebear.inference.similarity import text_similarities

    loaded_run = open_run(run, "similarity", output)
    options: dict[str, Any] = {"layers": chosen_layers(layers), "pooling": pooling}
    partial_results = PartialResults(lambda line: {"texts": line.split("\t")})

    def compare_batch(batch: list[str]) -> list[Similarity]:
        return text_similarities(loaded_run, list(_parse_pairs(batch)), **options)

    lines = _pair_lines(batch_input, list(texts or ()))
    answers = batch_input.run_batch(lines, compare_batch, batch_size=PAIRS_PER_BATCH, partial_results=partial_results)
    if not partial_results.count:
        raise InputError("there are no two texts to compare", hint="forebear similarity RUN king queen, or --in FILE")
    result: dict[str, Any] = {"run": loaded_run.name}
    partial_results.emit_failures(result, output)
    if batch_input.output_file is not None:
        summary = f"cosines of {count_phrase(partial_results.num_answered, 'pair')}"
        batch_input.emit_written(result | {"pairs": partial_results.count}, summary, output)
        return
    answered = [answer for answer in answers if not isinstance(answer, FailedInput)]

    def draw(console: Console) -> None:
        table = Table(">cosine", "", "", "", "by")
        for similarity in answered:
            bar = text_bar(max(similarity.cosine, 0.0), BAR_WIDTH)
            table.add_row(f"{similarity.cosine:.3f}", bar, *similarity.texts, similarity.vector_kind)
        console.print(table)
        console.dim(*dict.fromkeys(note for similarity in answered for note in similarity.notes))

    output.emit(result | {"pairs": [answer.to_dict() for answer in answers]}, draw)


def _pair_lines(batch_input: BatchInputOptions, arguments: list[str]) -> Iterator[InputLine]:
    """Pairs from arguments, as tab-separated lines, then those of the file."""
    texts = [text for text in arguments if text != STDIN_PATH]
    if len(texts) % 2:
        raise InputError(f"{texts[-1]!r} is left over", hint="give two texts, or four …")
    for first_text, second_text in zip(texts[::2], texts[1::2], strict=True):
        if "\t" in first_text + second_text:
            message = f"{first_text!r} and {second_text!r}: a tab parts the texts of a pair"
            raise InputError(message, hint="write a space instead")
        yield InputLine(f"{first_text}\t{second_text}")
    yield from batch_input.valid_inputs([STDIN_PATH] if STDIN_PATH in arguments else None)


def _parse_pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for index, line in enumerate(lines, 1):
        columns = line.split("\t")
        if len(columns) != 2:
            hint = "write two texts with a tab between them, a pair a line"
            raise InputError(f"{len(columns)} columns, not two", line=index, hint=hint)
        yield columns[0], columns[1]
