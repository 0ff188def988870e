"""`forebear inspect neighbours`, `projection` and `norms`: words by their vectors, in the terminal and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import Given, opened, plain
from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, bar, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inspecting.norms import Norms
    from forebear.inspecting.projection import Projection
    from forebear.using.lexicon import NearWords

FORMS = ("png", "svg", "html")
WIDTH = 30  # of a bar
HEIGHT = 26  # lines of a plane
NOTED = 20  # words that have no name in a picture
NAMED = 4  # words with the longest and shortest vectors that are told


def neighbours(
    run: Path,
    words: Given = None,
    /,
    *,
    top: int = 10,
    to: Path | None = None,
    speaking: Speaking = Speaking(),
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
    form = form_of(to, *FORMS)
    using = opened(run, "neighbours", speaking)
    if not words:
        raise BadInput("there is no word", remedy="forebear inspect neighbours RUN king")
    found = using.neighbours(words, top=top)
    facts: dict[str, Any] = {"run": using.name, "what": "neighbours", "texts": [one.facts() for one in found]}
    if to is not None:
        if not any(one.nearest for one in found):
            raise BadInput(f"there is nothing to draw: {found[0].note}", file=run)
        from forebear.inspecting import words_page, words_picture

        title = f"{using.name}: the nearest words"
        page = words_page.neighbours(found, title).encode() if form == "html" else None
        put(to, page or words_picture.neighbours(found, title, form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw_neighbours(console, found, to))


def _draw_neighbours(console: Console, found: list[NearWords], to: Path | None) -> None:
    for answer in found:
        note = f"  ({plain(answer.note)})" if answer.note else ""
        console.print(f"[bold]{plain(answer.text)}[/]{note}", soft_wrap=True)
        made = table("word", ">cosine", "", ">seen")
        for one in answer.nearest:
            seen = "" if one.count is None else f"{one.count:,}"
            made.add_row(plain(one.word), f"{one.cosine:.3f}", bar(min(max(one.cosine, 0.0), 1.0), WIDTH), seen)
        if answer.nearest:
            console.print(made)
    _written(console, to)


def projection(
    run: Path,
    words: Given = None,
    /,
    *,
    top: int | None = None,
    near: int = 0,
    to: Path | None = None,
    speaking: Speaking = Speaking(),
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
    from forebear.inspecting.projection import projection as looked_at

    form = form_of(to, *FORMS)
    using = opened(run, "neighbours", speaking)
    found = looked_at(using, list(words or ()), top=top, near=near)
    facts: dict[str, Any] = {"run": using.name, "what": "projection"} | found.facts()
    if to is not None:
        from forebear.inspecting import words_page, words_picture

        title = f"{using.name}: {len(found.words):,} words"
        page = words_page.projection(found, title).encode() if form == "html" else None
        put(to, page or words_picture.projection(found, title, form))
        facts["to"] = str(to)
        if page is None:
            found = replace(found, notes=(*found.notes, *_unwritten(found.words)))
            facts["notes"] = list(found.notes)
    speaking.tell(facts, lambda console: _draw_projection(console, found, to))


def _unwritten(words: Sequence[str]) -> Iterator[str]:
    """A note on the words that a picture shows without their names."""
    from forebear.inspecting.fonts import undrawable

    if lacking := undrawable(words):
        some = ", ".join(lacking[:NOTED]) + " …" * (len(lacking) > NOTED)
        has = "1 word is a dot" if len(lacking) == 1 else f"{len(lacking):,} words are dots"
        yield f"{has} without a name, as no font installed here has all characters: {some}; --to FILE.html has names"


def _draw_projection(console: Console, found: Projection, to: Path | None) -> None:
    lines, shown = _plane(found, console.width - 1)
    for line in lines:
        console.print(line, markup=False, no_wrap=True, overflow="ignore", crop=False)
    some = f"; {shown:,} of {len(found.words):,} words have room" if shown < len(found.words) else ""
    first, second = found.shares
    console.print(f"to the right {first:.1%} of the variance, upwards {second:.1%}{some}", style="dim", soft_wrap=True)
    for note in found.notes:
        console.print(plain(note), style="dim", soft_wrap=True)
    _written(console, to)


def _plane(found: Projection, width: int) -> tuple[list[str], int]:
    """The words on lines of text, each about where it lies; those that would lie on another are left out."""
    from rich.cells import cell_len

    low, high = found.points.min(0), found.points.max(0)
    span = [float(one) or 1.0 for one in high - low]
    cells = [[" "] * width for _ in range(HEIGHT)]
    shown = 0
    for place in sorted(range(len(found.words)), key=lambda place: not found.asked[place]):
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
    speaking: Speaking = Speaking(),
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
    from forebear.inspecting.norms import norms as looked_at

    form = form_of(to, *FORMS)
    using = opened(run, "neighbours", speaking)
    found = looked_at(using)
    facts: dict[str, Any] = {"run": using.name, "what": "norms"} | found.facts()
    if to is not None:
        from forebear.inspecting import words_page, words_picture

        title = f"{using.name}: lengths of vectors and frequency"
        page = words_page.norms(found, title).encode() if form == "html" else None
        put(to, page or words_picture.norms(found, title, form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw_norms(console, found, to))


def _draw_norms(console: Console, found: Norms, to: Path | None) -> None:
    made = table(">times seen", ">words", ">median length", "", ">eight of ten", ">mean cosine of two")
    most = max((band.median for band in found.bands), default=1.0) or 1.0
    for band in found.bands:
        spread = f"{band.shortest:.2f} to {band.longest:.2f}"
        alike = "" if band.alike is None else f"{band.alike:.3f}"
        times = f"{band.least:,} to {band.most:,}"
        made.add_row(times, f"{band.words:,}", f"{band.median:.3f}", bar(band.median / most, 20), spread, alike)
    console.print(made)
    told = (
        f"Spearman's correlation of length and frequency: {found.correlations[0]}",
        f"of a word's frequency and its neighbours': {found.correlations[1]}",
        f"mean cosine of any two words: {'' if found.alike is None else f'{found.alike:.3f}'}",
        *found.notes,
    )
    for line in told:
        console.print(line, soft_wrap=True)
    for name, rows in zip(("longest", "shortest"), found.extremes, strict=True) if found.differ else ():
        words = ", ".join(f"{plain(found.words[row])} {found.lengths[row]:.2f}" for row in rows[:NAMED])
        console.print(f"{name}: {words}", style="dim", soft_wrap=True)
    _written(console, to)


def _written(console: Console, to: Path | None) -> None:
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)
