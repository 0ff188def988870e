"""`forebear inspect senses`: occurrences of a word, clustered by their contextual vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.text import Text

from forebear.cli.batch_io import VectorRunArgument
from forebear.cli.options import ReadingOptions, chosen_layers
from forebear.cli.output import Console, ImageFile, Output, Table, number_cell, printable, printable_cell
from forebear.data.sentences import SentenceMode
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.inspection.occurrences import Occurrence, SenseText
    from forebear.inspection.senses import SenseAnalysis

CLUSTER_STYLES = ("blue", "red", "green", "magenta", "yellow", "cyan", "bright_red", "bright_black")


def senses(
    run: VectorRunArgument,
    word: str,
    /,
    *,
    input_files: Annotated[list[str], Parameter(name="--in", consume_multiple=True, negative="")],
    layers: Annotated[str | None, Parameter(name=("--layers", "--layer"))] = None,
    groups: int | None = None,
    most: int = 200,
    top: int = 3,
    beside: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None,
    known: Annotated[bool, Parameter(name="--senses", negative="", show_default=False)] = False,
    sentences: SentenceMode = "split",
    to: ImageFile = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Output = Output(),
) -> None:
    """Group the sentences in which a word stands by what a run makes of the word there.

    ```
    forebear inspect senses runs/elmo bank --in book.txt
    forebear inspect senses runs/bert 苹果 --in 'news/*.txt' --layers -1 --to senses.html
    forebear inspect senses runs/elmo 打 --in book.txt --beside runs/word2vec --groups 4
    forebear inspect senses runs/elmo bank --in bank.tsv --senses --to senses.png
    ```

    A run that reads in context has another vector for every occurrence, a table of words the same for all: both are
    shown. There are as many groups as hang together best (silhouette), and one where no groups surpass what a cloud
    without any has by chance.

    The word is found as a whole word, also with other capitals; in Chinese where the segmenter ends words at both of
    its ends. The same sentence counts once.

    Parameters
    ----------
    word
        The word, or several that stand together.
    input_files
        Text files (also .gz, .zst), folders, quoted globs, - for standard input.
    layers
        A layer (0: the embedding, -1: the last), several for their mean (1,2), or with weights (1:0.3,2:0.7).
        [default: the mean of all above the embedding]
    groups
        So many groups, whether they hang together or not. [default: as many as do]
    most
        So many occurrences at most, evenly from all.
    top
        Sentences of each group that are shown, the most typical first.
    beside
        Runs to show beside. [default: the run's own vectors before it looks around]
    known
        The files have the meaning of the word, a tab and a sentence on each line: how far groups agree is told.
    sentences
        What is read at once: split, lines or flow as in pretrain; whole: documents.
    to
        Write a picture (.png, .svg), or a page with all sentences (.html).
    """
    from forebear.inference.run import Run
    from forebear.inspection.occurrences import find_occurrences, read_labeled_sense_texts, read_sense_texts
    from forebear.inspection.senses import analyze_occurrences

    if top < 0:
        raise InputError(f"--top is {top}", hint="give a number of sentences, or 0 for none")
    supported = ReadingOptions(encoding=reading.encoding, on_bad_bytes=reading.on_bad_bytes)
    if known and (reading != supported or sentences != "split"):
        hint = "leave it out, or leave out --senses"
        raise InputError("with --senses a line is a meaning, a tab and a sentence: how else to read is told", hint=hint)
    loaded_run, other_runs = Run.open(run), None if beside is None else [Run.open(folder) for folder in beside]
    layer_choice, read = chosen_layers(layers), read_labeled_sense_texts if known else read_sense_texts
    with speaking.counter("documents") as progress:

        def texts() -> Iterator[SenseText]:
            for number, text in enumerate(read(input_files, reading.reading()), 1):
                yield text
                progress(number, 0)

        found = find_occurrences(word, texts(), max_occurrences=most, sentences="whole" if known else sentences)
    analysis = analyze_occurrences(loaded_run, found, layers=layer_choice, groups=groups, beside=other_runs)
    for folder in (loaded_run, *(other_runs or ())):
        speaking.note(folder.notes)
    result = {"run": loaded_run.name, "what": "senses"} | analysis.to_dict()

    def render(image_type: str) -> bytes | str:
        from forebear.inspection.embedding_plots import plot_senses
        from forebear.inspection.senses_page import senses_page

        title = f"{loaded_run.name}: {word}"
        return senses_page(analysis, title) if image_type == "html" else plot_senses(analysis, title, image_type)

    speaking.emit_with_image(result, lambda console: _draw_senses(console, analysis, top), to, render)


def _draw_senses(console: Console, analysis: SenseAnalysis, top: int) -> None:
    result = analysis.result
    title = f" in {len(result.occurrences):,} places, by {printable_cell(result.name)}"
    console.bold(analysis.word, f"{title}: {printable_cell(result.conclusion)}")
    for number, group in enumerate(result.groups):
        size = f"{len(group.members):,} of {len(result.occurrences):,}, mean cosine {group.cohesion:.3f}"
        size += printable_cell(analysis.label_counts(group.members))
        style = CLUSTER_STYLES[number % len(CLUSTER_STYLES)]
        console.print(f"\n[bold {style}]group {number + 1}[/]  {size}", soft_wrap=True)
        for occurrence in result.typical_occurrences(number, top):
            console.print(_highlight_word(occurrence, style, console.color_system is not None), soft_wrap=True)
    console.print()
    _draw_comparison(console, analysis)
    if (baseline := result.clustering.baseline) is not None:
        silhouettes = (f"{choice.num_clusters}: {choice.silhouette:.2f}" for choice in result.clustering.candidates)
        noise = f"clouds without groups have {baseline.silhouette:.2f} on average"
        console.dim(f"silhouettes by number of groups: {'  '.join(silhouettes)}; {noise}")
    console.dim(*analysis.notes)


def _draw_comparison(console: Console, analysis: SenseAnalysis) -> None:
    """Prints a row for each run: its clusters, their silhouette and how far they agree with gold senses."""
    table = Table("vectors of", ">groups", ">silhouette", ">mean cosine", "")
    for result in (analysis.result, *analysis.others):
        clustering = result.clustering
        values = (str(clustering.num_clusters), number_cell(clustering.silhouette, ".3f"), f"{result.similarity:.3f}")
        table.add_row(result.name, *values, result.note)
    console.print(table)
    if analysis.labels:
        table = Table("vectors of", ">groups", ">purity", ">by chance", ">Rand index", ">of joined groups")
        for result in (analysis.result, *analysis.others):
            for agreement in dict.fromkeys(result.agreement or ()):
                values = (agreement.purity, agreement.chance, agreement.rand, agreement.merged_groups)
                table.add_row(result.name, str(agreement.groups), *(f"{value:.3f}" for value in values))
        console.print(table)
        joined = "joined: groups whose commonest meaning is the same are taken for one"
        console.dim(f"{joined}; Rand index: 0 by chance, 1 at best")


def _highlight_word(occurrence: Occurrence, style: str, colors: bool) -> Text:
    """The sentence with its word in the cluster's color, or between « » without colors."""
    word = printable(occurrence.surface)
    sentence = Text("  " + printable(occurrence.sentence[: occurrence.start]))
    sentence.append(word if colors else f"«{word}»", style=f"bold {style}" if colors else "")
    return sentence.append(printable(occurrence.sentence[occurrence.end :]))
