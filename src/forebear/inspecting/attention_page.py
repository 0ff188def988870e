"""Attention as one HTML page that needs nothing else: layers and heads to choose, and what each token looks at."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from forebear.inspecting.labels import notes_on
from forebear.inspecting.maps import Map
from forebear.inspecting.views import Head, Panel, View, roll_outs, view

CLOSED = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # the page cannot call home
ROWS = 20  # edges in the table that is there without a script
FINE = 65535  # steps from 0 to 1: two bytes a weight


def page(views: Sequence[tuple[View, int | None]], title: str) -> str:
    """The whole page. A view says what is shown first; with a number beside it, only so many edges of each head."""
    style, script = (
        files("forebear.inspecting").joinpath(name).read_text("utf-8") for name in ("attention.css", "attention.js")
    )
    data = json.dumps([_data(one, top) for one, top in views], ensure_ascii=False).replace("<", "\\u003c")
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CLOSED}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main><h1>{escape(title)}</h1>"
        f"{''.join(_section(number, one, top) for number, (one, top) in enumerate(views))}</main>"
        f'<script type="application/json" id="maps">{data}</script><script>{script}</script></body></html>\n'
    )
    return made.encode("utf-8", "replace").decode("utf-8")


def _section(number: int, of: View, top: int | None) -> str:
    """What can be read without a script; the script fills the empty part."""
    rows = "".join(
        f"<tr><td class=number>{edge.panel.layer}</td><td class=number>{edge.panel.head}</td>"
        f"<td>{escape(of.map.rows[edge.row])}</td><td>{escape(of.map.columns[edge.column])}</td>"
        f"<td class=number>{edge.weight:.3f}</td></tr>"
        for edge in of.edges(min(top or ROWS, ROWS))
    )
    head = "<thead><tr><th class=number>layer</th><th class=number>head</th><th>token</th><th>looks at</th>"
    return (
        f'<section data-map="{number}"><h2>{escape(of.map.name)}</h2><p class="about">{escape(_about(of.map))}</p>'
        '<div class="live"></div><noscript><p class="about">Choosing layers and heads needs scripts to be allowed; '
        "what is below is there without.</p></noscript>"
        f"<details><summary>The strongest edges of {escape(of.about)}</summary>"
        f"<table>{head}<th class=number>weight</th></tr></thead><tbody>{rows}</tbody></table></details></section>"
    )


def _about(of: Map) -> str:
    sees = {
        "self": "every token looks at all",
        "masked": "every token looks at itself and at those before it",
        "cross": "every token of the translation looks at all of the source",
    }
    notes = "; ".join(notes_on((*of.rows, *of.columns)))
    return f"{of.layers} layers of {of.heads} heads; {sees[of.kind]}. What a token looks at sums to 1." + (
        f" ({notes})" if notes else ""
    )


def _data(of: View, top: int | None) -> dict[str, Any]:
    """All weights, two bytes each; of a long text only the strongest edges of each head."""
    first = of.panels[0]
    start = (
        {"layer": first.layer, "head": first.head} if len(of.panels) == 1 else {"layer": first.layer, "head": "mean"}
    )
    told = of.map.facts() | {"columns": list(of.map.columns), "start": start}
    if top is None:
        fine = np.rint(of.map.weights * FINE).astype("<u2")
        return told | {"weights": base64.b64encode(fine.tobytes()).decode()} | _rolled(of.map)
    edges = [edge for one in _each(of.map) for edge in one.edges(top)]
    listed = [[edge.panel.layer, edge.panel.head, edge.row, edge.column, round(edge.weight, 4)] for edge in edges]
    return told | {"edges": listed}


def _rolled(of: Map) -> dict[str, Any]:
    if of.kind == "cross":
        return {}
    fine = np.rint(np.stack(list(roll_outs(of))) * FINE).astype("<u2")
    return {"rollout": base64.b64encode(fine.tobytes()).decode()}


def _each(of: Map) -> list[View]:
    """Every head of every layer, their means and the roll-outs, each by itself."""
    heads: list[Head] = [*range(1, of.heads + 1), "mean"]
    made = [view(of, layer, head) for layer in range(1, of.layers + 1) for head in heads]
    rolled = enumerate(roll_outs(of), 1) if of.kind != "cross" else ()
    return [*made, *(View(of, (Panel(layer, "roll-out", weights),), 1) for layer, weights in rolled)]
