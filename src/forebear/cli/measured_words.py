"""How good word vectors are, for people: agreement with what people say of pairs, and analogies by section."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from forebear.cli.many import opened, plain
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions
from forebear.errors import BadInput
from forebear.using.lexicon import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from forebear.using.word_measures import Agreement, Right, Solved


@Parameter(name="*", group=Group("Words"))
@dataclass(frozen=True)
class WordOptions:
    """Files by which word vectors are measured."""

    words: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """Files of pairs with how alike people find them (word, word and number), or of analogies (four words a line,
    sections begin with a colon). What is missing from the vocabulary is told."""
    most_frequent: int | None = None
    "Analogies: so many words may be answers; 0 for all. [default: 30000]"
    method: Method | None = None
    "Analogies: add (b - a + c), or multiply cosines. [default: add]"

    def alone(self, given: dict[str, Any], reading: ReadingOptions) -> None:
        """Refuses what concerns texts: it means nothing to files of words."""
        for name, value in given.items():
            if value:
                remedy = "measure with words and with texts one after the other"
                raise BadInput(f"{name} and --words do not go together", remedy=remedy)
        if replace(reading, encoding=ReadingOptions.encoding) != ReadingOptions():
            remedy = "leave the others out"
            raise BadInput("files of words are read as they are: only --encoding matters", remedy=remedy)

    def none(self, texts: list[str] | None) -> list[str]:
        """The texts to measure with, where there are no files of words."""
        for flag, value in (("--most-frequent", self.most_frequent), ("--method", self.method)):
            if value is not None:
                raise BadInput(f"{flag} is about analogies", remedy="name them: --words FILE")
        if texts is None:
            remedy = "forebear measure RUN TEXT…, or RUN --words FILE…"
            raise BadInput("there is nothing to measure with", remedy=remedy)
        return texts


NO_WORDS = WordOptions()


def told_of_words(run: Path, options: WordOptions, encoding: str, speaking: Speaking) -> None:
    """Measures a run's vectors by files of words and tells what was found."""
    from forebear.using.word_measures import Agreement, Solved

    using = opened(run, "similarity", speaking)
    how: dict[str, Any] = {"most_frequent": options.most_frequent, "method": options.method or "add"}
    found = using.measure_words(options.words or [], encoding=encoding, **how)
    pairs = [one for one in found if isinstance(one, Agreement)]
    solved = [one for one in found if isinstance(one, Solved)]
    for flag, value in (("--most-frequent", options.most_frequent), ("--method", options.method)):
        if value is not None and not solved:
            raise BadInput(f"{flag} is about analogies, and these files have pairs", remedy="leave it out")
    facts = {"run": using.name, "files": [one.facts() for one in found]}
    speaking.tell(facts, lambda console: (_draw_pairs(console, pairs), [_draw(console, one) for one in solved]))


def _draw_pairs(console: Console, found: Sequence[Agreement]) -> None:
    from forebear.using.word_measures import LEFT_OUT

    if not found:
        return
    made = table("file of pairs", ">covered", ">Spearman", ">Pearson", ">Spearman, all", ">Pearson, all")
    for one in found:
        figures = (one.spearman, one.pearson, one.spearman_all, one.pearson_all)
        cells = ("none" if value is None else f"{value:.4f}" for value in figures)
        made.add_row(plain(Path(one.file).name), f"{one.covered:,} of {one.pairs:,}", *cells)
    console.print(made)
    console.print(LEFT_OUT, style="dim", soft_wrap=True)
    for one in found:
        if one.headings:
            told = f"{Path(one.file).name}: its first line is taken for headings: {one.headings[:80]!r}"
            console.print(told, style="yellow", markup=False, soft_wrap=True)
        if one.undefined:
            told = f"{Path(one.file).name}: none: {one.undefined}"
            console.print(told, style="yellow", markup=False, soft_wrap=True)
        _draw_missing(console, one.file, one.missing, one.why)
        if one.composed:
            own = "1 word has a vector" if one.composed == 1 else f"{one.composed:,} words have vectors"
            told = f"{Path(one.file).name}: {own} composed of parts, for want of one in the vocabulary"
            console.print(told, style="dim", markup=False, soft_wrap=True)


def _draw(console: Console, found: Solved) -> None:
    from forebear.using.word_measures import WRONG

    made = table("analogies", ">right", ">covered", ">accuracy", ">accuracy, all", title=plain(Path(found.file).name))
    for section, right in found.sections:
        made.add_row(plain(section.name or "(no name)"), *_cells(right))
    for kind, right in found.kinds.items() if len(found.kinds) > 1 else ():
        made.add_row(kind, *_cells(right), style="bold")
    made.add_row("in all", *_cells(found.whole), style="bold")
    console.print(made)
    way = "b - a + c" if found.method == "add" else "products of cosines"
    console.print(
        f"answered with the {found.words:,} most frequent words, by {way}; {WRONG}", style="dim", soft_wrap=True
    )
    _draw_missing(console, found.file, found.missing, found.why)


def _cells(right: Right) -> tuple[str, ...]:
    accuracy = "none" if right.accuracy is None else f"{right.accuracy:.2%}"
    return f"{right.right:,}", f"{right.covered:,} of {right.total:,}", accuracy, f"{right.accuracy_all:.2%}"


def _draw_missing(console: Console, file: str, missing: Sequence[str], why: str, most: int = 8) -> None:
    if missing:
        more = ", …" * (len(missing) > most)
        count = "1 word is" if len(missing) == 1 else f"{len(missing):,} words are"
        told = f"{Path(file).name}: {count} missing: {', '.join(missing[:most])}{more}"
        console.print(told, style="dim", markup=False, soft_wrap=True)
    if why:
        console.print(f"{Path(file).name}: {why}", style="yellow", markup=False, soft_wrap=True)
