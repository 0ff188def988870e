"""`forebear inspect attention`: where tokens look, in the terminal, as a picture and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.many import Given, plain
from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inspecting.maps import Map
    from forebear.inspecting.views import View
    from forebear.using.run import Run

STRONGEST = 8  # edges below a map
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


def attention(
    run: Path,
    texts: Given = None,
    /,
    *,
    layer: int | None = None,
    head: Literal["mean"] | int | None = None,
    rollout: Switch = False,
    bare: Switch = False,
    part: Literal["cross", "source", "target"] | None = None,
    top: int | None = None,
    to: Path | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Show where the tokens of a text, or of two in one row, look: any layer, any head, their mean, or a roll-out.

    ```
    forebear inspect attention runs/bert "i have a dream" --layer 2 --head 1
    forebear inspect attention runs/bert "我很喜欢你" "我很中意你" --to heads.png
    forebear inspect attention runs/gpt2 "我有一个梦想" --head mean --to page.html
    forebear inspect attention runs/gpt2 "a long text …" --rollout --top 30
    forebear inspect attention runs/de-en "Ein Hund läuft." --head mean --layer -1 --to alignment.png
    ```

    Of a run that translates, the tokens of a translation (a second text, or its own) look at those of the source.

    Every row of a map sums to 1. In one that looks back, what comes later is empty: it is not seen. Where a run finds
    hidden tokens, ____ and [MASK] hide one.

    Parameters
    ----------
    run
        The run's folder: any with a Transformer, or seq2seq_attention.
    texts
        One text, or two that are laid out in one row as the milestone does ([CLS] A [SEP] B [SEP]).
    layer
        Only this layer, from 1, or from the end: -1 is the last. [default: all]
    head
        Only this head, from 1 or from the end; or mean, of all heads of a layer. [default: all]
    rollout
        What reaches the layer (by itself the last) from the beginning, if attention and what is carried past it were
        all there is: layers multiplied (Abnar & Zuidema 2020).
    bare
        Only the texts' own tokens: nothing before, between and behind them.
    part
        Of a run that translates: cross, from the translation to the source; source or target, within either.
        [default: cross for a picture, else all]
    top
        Only so many edges, the strongest of each head: a table, and lines in a picture. [default: for more than 60
        tokens 40]
    to
        Write a picture (.png, .svg), or a page (.html) in which layers and heads are chosen by hand.
    """
    from forebear.inspecting.maps import maps_of
    from forebear.inspecting.views import EDGES, view
    from forebear.using.run import Run

    if top is not None and top < 1:
        raise BadInput(f"--top is {top}", remedy="ask for at least 1 edge")
    form = form_of(to, "png", "svg", "html")
    using, given = Run.open(run), list(texts or ())
    maps = _parts(using, maps_of(using, given, bare=bare), part, to, rollout=rollout)
    speaking.note(using.notes)
    views = [view(one, layer, head, rollout=rollout) for one in maps]
    both = [(one, EDGES if top is None and one.is_long else top) for one in views]
    facts: dict[str, Any] = {"run": using.name, "what": "attention", "texts": given}
    facts["maps"] = [one.facts(most) for one, most in both]
    written = [] if to is None else _write(to, form, both, using.name, given)
    facts |= {"to": written} if written else {}
    speaking.tell(facts, lambda console: _draw_all(console, both, written))


def _parts(using: Run, maps: list[Map], part: str | None, to: Path | None, *, rollout: bool) -> list[Map]:
    """Of a run that translates, what was asked for; by itself a picture shows how a translation looks at its source."""
    from forebear.inspecting.translated_maps import SIDES

    if "translation" not in using.heads:
        if part is not None:
            raise BadInput(f"--part {part} is for runs that translate", remedy="leave it out")
        return [one for one in maps if not rollout or one.kind != "cross"]
    if len(maps) == 1 and (rollout or part in ("source", "target")):
        what = "nothing looks within the source or the translation, which are read token by token"
        raise BadInput(what, remedy="leave out --rollout" if rollout else f"leave out --part {part}")
    if rollout and part == "cross":
        raise BadInput("a source is not rolled out into a translation", remedy="--part source or --part target")
    if part is None and to is not None and to.suffix != ".html":
        part = "source" if rollout else "cross"
    chosen = maps if part is None else [maps[SIDES.index(part)]]
    return [one for one in chosen if not rollout or one.kind != "cross"]


def _write(to: Path, form: str, views: list[tuple[View, int | None]], run: str, texts: list[str]) -> list[str]:
    """One page for all maps, or a picture of each: several are numbered."""
    from forebear.inspecting.drawing import quoted

    title = f"{run}: " + " | ".join(map(quoted, texts))
    if form == "html":
        from forebear.inspecting.attention_page import page

        put(to, page(views, title).encode())
        return [str(to)]
    from forebear.inspecting.attention_picture import picture

    files = [to] if len(views) == 1 else [to.with_stem(f"{to.stem}-{number + 1}") for number in range(len(views))]
    made = [picture(one, title, form, most) for one, most in views]
    for file, content in zip(files, made, strict=True):
        put(file, content)
    return [str(file) for file in files]


def _draw_all(console: Console, views: list[tuple[View, int | None]], written: list[str]) -> None:
    for one, most in views:
        _draw(console, one, most)
    for file in written:
        console.print(f"written: {file}", markup=False, soft_wrap=True)


def _draw(console: Console, view: View, top: int | None) -> None:
    from forebear.inspecting.labels import notes_on

    of = view.map
    tokens = f"{len(of.rows):,} tokens" + (f" that look at {len(of.columns):,}" if of.kind == "cross" else "")
    shape = f"{of.layers} layer{'s' * (of.layers > 1)} of {of.heads} head{'s' * (of.heads > 1)}"
    console.print(f"[bold]{of.name}[/], {shape}, {tokens}")
    for note in notes_on((*of.rows, *of.columns)):
        console.print(note, style="dim")
    if top is None:
        _draw_maps(console, view)
    several = len(view.panels) > 1
    console.print("the strongest edges" if several else f"the strongest edges of {view.panels[0].title}")
    made = table(*([">layer", ">head"] if several else []), ">", "token", "looks at", ">", ">weight")
    for edge in view.edges(top or STRONGEST):
        where = [str(edge.panel.layer), str(edge.panel.head)] if several else []
        ends = (str(edge.row + 1), plain(of.rows[edge.row]), plain(of.columns[edge.column]), str(edge.column + 1))
        made.add_row(*where, *ends, f"{edge.weight:.3f}")
    console.print(made)


def _draw_maps(console: Console, view: View) -> None:
    """One map with its numbers; of several small ones, one for each layer where all heads of all were asked for."""
    from forebear.cli.heat import beside, heat, small
    from forebear.inspecting.views import view as chosen

    of, colours = view.map, console.color_system is not None
    if len(view.panels) == 1:
        console.print(f"{view.panels[0].title}: {view.sides[0]} (down) {view.sides[1]} (across)")
        how = {"width": console.width, "colours": colours, "borders": of.borders}
        lines = heat(of.rows, of.columns, view.panels[0].weights, of.seen, **how)
    else:
        heads = {panel.head for panel in view.panels}
        layers = {panel.layer for panel in view.panels}
        everything = len(heads) > 1 and len(layers) > 1
        shown = chosen(of, head="mean") if everything else view
        most = max(float(panel.weights.max()) for panel in shown.panels)
        told = [
            (shown.brief(one), list(small(one.weights, of.seen, colours=colours, most=most))) for one in shown.panels
        ]
        lines = beside(told, width=console.width)
        same = "down those that look, across those they look at"
        sides = [("down", of.rows), ("across", of.columns)] if of.kind == "cross" else [(same, of.rows)]
        for side, names in sides:
            console.print(f"{side}: {plain(' '.join(names))}", soft_wrap=True)
        if everything:
            more = "--layer N shows the heads of one layer, --layer N --head N one with its numbers"
            console.print(f"the mean of each layer's heads ({more})", style="dim")
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
