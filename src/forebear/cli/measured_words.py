"""How good word vectors are, for people: agreement with what people say of pairs, and analogies by section."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import opened, plain
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput
from forebear.using.lexicon import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from forebear.using.word_measures import Agreement, Right, Solved


def told_of_words(
    run: Path,
    files: Sequence[str],
    speaking: Speaking,
    *,
    most_frequent: int | None,
    method: Method | None,
    encoding: str,
) -> None:
    """Measures a run's vectors by files of words and tells what was found."""
    from forebear.using.word_measures import Agreement, Solved

    using = opened(run, "similarity", speaking)
    how: dict[str, Any] = {"most_frequent": most_frequent, "method": method or "add", "encoding": encoding}
    found = using.measure_words(files, **how)
    asked = {"--most-frequent": most_frequent, "--method": method}
    for flag in (flag for flag, value in asked.items() if value is not None):
        if not any(isinstance(one, Solved) for one in found):
            raise BadInput(f"{flag} is about analogies, and these files have pairs", remedy="leave it out")
    facts = {"run": using.name, "files": [one.facts() for one in found]}
    pairs = [one for one in found if isinstance(one, Agreement)]
    solved = [one for one in found if isinstance(one, Solved)]
    speaking.tell(facts, lambda console: (_draw_pairs(console, pairs), [_draw(console, one) for one in solved]))


def _draw_pairs(console: Console, found: Sequence[Agreement]) -> None:
    from forebear.using.word_measures import LEFT_OUT

    if not found:
        return
    made = table("pairs of", ">covered", ">Spearman", ">Pearson", ">Spearman, all", ">Pearson, all")
    for one in found:
        figures = (one.spearman, one.pearson, one.spearman_all, one.pearson_all)
        cells = ("none" if value is None else f"{value:.4f}" for value in figures)
        made.add_row(plain(Path(one.file).name), f"{one.covered:,} of {one.pairs:,}", *cells)
    console.print(made)
    console.print(LEFT_OUT, style="dim", soft_wrap=True)
    for one in found:
        _draw_missing(console, one.file, one.missing)
        if one.composed:
            told = f"{Path(one.file).name}: {one.composed:,} words are not in the vocabulary: from their parts"
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
        f"answered by {found.words:,} words, the most frequent, by {way}; {WRONG}", style="dim", soft_wrap=True
    )
    _draw_missing(console, found.file, found.missing)


def _cells(right: Right) -> tuple[str, ...]:
    accuracy = "none" if right.accuracy is None else f"{right.accuracy:.2%}"
    return f"{right.right:,}", f"{right.covered:,} of {right.total:,}", accuracy, f"{right.accuracy_all:.2%}"


def _draw_missing(console: Console, file: str, missing: Sequence[str], most: int = 8) -> None:
    if missing:
        more = " …" * (len(missing) > most)
        told = f"{Path(file).name}: {len(missing):,} words missing: {', '.join(missing[:most])}{more}"
        console.print(told, style="dim", markup=False, soft_wrap=True)
