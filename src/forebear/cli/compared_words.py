"""Word vectors beside each other, for people: what milestones or finished runs reach on files of judged words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forebear.cli.many import plain
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.comparing.outcomes import Comparison
    from forebear.comparing.word_comparing import JudgedRun

LEGEND = (
    "files of words: Spearman's correlation with what people say of all pairs, a missing one having the mean cosine; "
    "or the share of all analogies that are solved, a missing one being wrong; in brackets how many are covered"
)
NOTHING = "—"


def on_words(runs: Sequence[str], files: Sequence[str], given: Mapping[str, Any], speaking: Speaking) -> None:
    """Finished runs by files of words; whatever is about training means nothing here."""
    from forebear.comparing.word_comparing import compare_words

    for name, value in given.items():
        if value:
            remedy = "leave it out: the runs are finished, and are measured as they are"
            raise BadInput(f"{name} means nothing beside --runs and --words", remedy=remedy)
    found = compare_words(runs, files)
    speaking.tell({"runs": [one.facts() for one in found]}, lambda console: _draw(console, found))


def _draw(console: Console, found: Sequence[JudgedRun]) -> None:
    names = list(dict.fromkeys(name for one in found for name in one.judged))
    made = table("run", ">year", "milestone", ">words", *(f">{name}" for name in names))
    for one in found:
        words = NOTHING if one.words is None else f"{one.words:,}"
        told = (one.judged.get(name) for name in names)
        cells = (NOTHING if at is None else _cell(at.figure, (at.covered, at.total)) for at in told)
        made.add_row(plain(one.run), str(one.year), plain(one.title), words, *cells)
    console.print(made)
    console.print(LEGEND, style="dim", soft_wrap=True)
    for one in found:
        if one.error:
            console.print(f"{one.run}: {one.error}", style="red", markup=False, soft_wrap=True)
        for why in dict.fromkeys(file.why for file in one.files if file.why):
            console.print(f"{one.run}: {why}", style="yellow", markup=False, soft_wrap=True)


def draw_other_figures(console: Console, found: Comparison) -> None:
    """What is no bits per byte, where a milestone has it: of neighbours, of hidden tokens, and of files of words."""
    shares = {"neighbours told apart": "told_apart", "hidden tokens found": "found"}
    shares = {name: what for name, what in shares.items() if any(row.of(what) for row in found.rows)}
    if not shares and not found.judged:
        return
    made = table("milestone", *(f">{name}" for name in (*shares, *found.judged)))
    for row in found.rows:
        cells = [NOTHING if (value := row.mean(what)) is None else f"{value:.1%}" for what in shares.values()]
        cells += [_cell(row.words(name), row.covered(name)) for name in found.judged]
        if set(cells) != {NOTHING}:
            made.add_row(plain(f"{row.title} {row.size}".strip()), *cells)
    if made.row_count:
        console.print(made)
        if found.judged:
            console.print(LEGEND, style="dim", soft_wrap=True)


def _cell(figure: float | None, covered: tuple[int, int] | None) -> str:
    told = NOTHING if figure is None else f"{figure:.3f}"
    return told if covered is None else f"{told} ({covered[0]:,} of {covered[1]:,})"
