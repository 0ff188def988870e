"""`forebear inspect senses`: one word in many sentences, grouped by what a run makes of it there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import plain, printable
from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions
from forebear.errors import BadInput
from forebear.text.sentences import Mode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text as Marked

    from forebear.inspecting.occurrences import Occurrence, Text
    from forebear.inspecting.senses import Senses

FORMS = ("png", "svg", "html")
STYLES = ("blue", "red", "green", "magenta", "yellow", "cyan", "bright_red", "bright_black")


def senses(
    run: Path,
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
    sentences: Mode = "split",
    to: Path | None = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
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
    run
        The run's folder: any with vectors.
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
    from forebear.inspecting.occurrences import occurrences
    from forebear.inspecting.senses import looked_at
    from forebear.using.run import Run
    from forebear.using.vectors import layers_from

    form = form_of(to, *FORMS)
    if top < 0:
        raise BadInput(f"--top is {top}", remedy="give a number of sentences, or 0 for none")
    using, others = Run.open(run), None if beside is None else [Run.open(one) for one in beside]
    chosen = None if layers is None else layers_from(layers)
    texts = _texts(input_files, known, reading, sentences)
    with speaking.counting("documents") as look:
        found = occurrences(word, _counted(texts, look), most=most, sentences="whole" if known else sentences)
    told = looked_at(using, found, layers=chosen, groups=groups, beside=others)
    for one in (using, *(others or ())):
        speaking.note(one.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "senses"} | told.facts()
    if to is not None:
        from forebear.inspecting.senses_page import page
        from forebear.inspecting.senses_picture import picture

        title = f"{using.name}: {word}"
        put(to, page(told, title).encode() if form == "html" else picture(told, title, form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw(console, told, top, to))


def _texts(files: list[str], known: bool, reading: ReadingOptions, sentences: Mode) -> Iterator[Text]:
    from forebear.inspecting.occurrences import read, read_known

    if not known:
        return read(files, reading.reading())
    usual = ReadingOptions(encoding=reading.encoding, on_bad_bytes=reading.on_bad_bytes)
    if reading != usual or sentences != "split":
        remedy = "leave it out, or leave out --senses"
        raise BadInput(
            "with --senses a line is a meaning, a tab and a sentence: how else to read is told", remedy=remedy
        )
    return read_known(files, replace(usual).reading())


def _counted(texts: Iterable[Text], look: Any) -> Iterator[Text]:
    for number, text in enumerate(texts, 1):
        yield text
        look(number, 0)


def _draw(console: Console, told: Senses, top: int, to: Path | None) -> None:
    own = told.own
    places = f"[bold]{plain(told.word)}[/] in {len(own.occurrences):,} places, by {plain(own.name)}"
    console.print(f"{places}: {plain(own.verdict)}", soft_wrap=True)
    for number, group in enumerate(own.groups):
        size = f"{len(group.members):,} of {len(own.occurrences):,}, mean cosine {group.cohesion:.3f}"
        size += plain(told.meant(group.members))
        console.print(f"\n[bold {_style(number)}]group {number + 1}[/]  {size}", soft_wrap=True)
        for one in own.typical(number, top):
            console.print(marked(one, _style(number), console.color_system is not None), soft_wrap=True)
    console.print()
    console.print(_compared(told))
    if told.known:
        console.print(_agreed(told))
        about = (
            "joined: groups whose commonest meaning is the same are taken for one; Rand index: 0 by chance, 1 at best"
        )
        console.print(about, style="dim", soft_wrap=True)
    if own.grouping.chance is not None:
        looked = "  ".join(f"{one.groups}: {one.silhouette:.2f}" for one in own.grouping.tried)
        chance = f"clouds without groups have {own.grouping.chance.silhouette:.2f} on average"
        console.print(f"silhouettes by number of groups: {looked}; {chance}", style="dim", soft_wrap=True)
    for note in told.notes:
        console.print(plain(note), style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


def _compared(told: Senses) -> Any:
    """A row for each run: its groups, and how well they hang together."""
    made = table("vectors of", ">groups", ">silhouette", ">mean cosine", "")
    for one in (told.own, *told.beside):
        silhouette = one.grouping.silhouette
        figures = ("" if silhouette is None else f"{silhouette:.3f}", f"{one.alike:.3f}")
        made.add_row(plain(one.name), str(one.grouping.count), *figures, plain(one.remark))
    return made


def _agreed(told: Senses) -> Any:
    """A row for each run and number of groups: how far they agree with known meanings."""
    made = table("vectors of", ">groups", ">purity", ">by chance", ">Rand index", ">of joined groups")
    for one in (told.own, *told.beside):
        for agreement in dict.fromkeys(one.agreement or ()):
            figures = (agreement.purity, agreement.chance, agreement.rand, agreement.joined)
            made.add_row(plain(one.name), str(agreement.groups), *(f"{figure:.3f}" for figure in figures))
    return made


def _style(number: int) -> str:
    return STYLES[number % len(STYLES)]


def marked(one: Occurrence, style: str, colours: bool) -> Marked:
    """The sentence, its word in the group's colour, or between signs where there are no colours."""
    from rich.text import Text as Marked

    before, behind = one.sentence[: one.start], one.sentence[one.end :]
    made = Marked("  " + printable(before))
    if colours:
        made.append(printable(one.written), style=f"bold {style}")
    else:
        made.append(f"«{printable(one.written)}»")
    return made.append(printable(behind))
