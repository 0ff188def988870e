"""What of an attention map is looked at: some of its heads, their mean, a roll-out; and the strongest edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.maps import Map

Head = int | Literal["mean"]
LONG = 60  # tokens; a square of more cells is no picture any more
EDGES = 40  # of a long text


@dataclass(frozen=True, eq=False)
class Panel:
    """One square of weights (n, m): a head's, numbered from 1 as layers are; the mean of a layer's; a roll-out."""

    layer: int
    head: int | Literal["mean", "roll-out"]
    weights: np.ndarray

    @property
    def title(self) -> str:
        if self.head == "roll-out":
            return f"roll-out to layer {self.layer}"
        return f"layer {self.layer}, " + ("mean of its heads" if self.head == "mean" else f"head {self.head}")

    def facts(self) -> dict[str, Any]:
        return {"layer": self.layer, "head": self.head}


@dataclass(frozen=True)
class Edge:
    """One token looks at another so much; both are numbered from 1."""

    panel: Panel
    row: int
    column: int
    weight: float

    def facts(self, of: Map) -> dict[str, Any]:
        told = {"from": self.row + 1, "to": self.column + 1, "tokens": [of.rows[self.row], of.columns[self.column]]}
        return self.panel.facts() | told | {"weight": round(self.weight, 6)}


@dataclass(frozen=True, eq=False)
class View:
    """Panels of a map, `across` of them side by side."""

    map: Map
    panels: tuple[Panel, ...]
    across: int

    @property
    def is_long(self) -> bool:
        return max(self.map.weights.shape[2:]) > LONG

    @property
    def about(self) -> str:
        """What all panels have in common."""
        if len(self.panels) == 1:
            return self.panels[0].title
        layers, heads = {one.layer for one in self.panels}, {one.head for one in self.panels}
        if len(layers) == 1:
            return f"all {len(heads)} heads of layer {self.panels[0].layer}"
        if len(heads) > 1:
            return f"{len(layers)} layers × {len(heads)} heads"
        head = self.panels[0].head
        return f"{'the mean of all heads' if head == 'mean' else f'head {head}'} in each of {len(layers)} layers"

    def brief(self, panel: Panel) -> str:
        """What tells a panel from its neighbours."""
        layers, heads = {one.layer for one in self.panels}, {one.head for one in self.panels}
        if len(layers) == 1:
            return f"head {panel.head}"
        return f"layer {panel.layer}" if len(heads) == 1 else f"layer {panel.layer} · head {panel.head}"

    @property
    def sides(self) -> tuple[str, str]:
        """What stands at the rows and at the columns: one sentence, from the ones to the others."""
        if self.panels[0].head == "roll-out":
            return "in each token …", "… there is so much of these"
        if self.map.kind == "cross":
            return "to write each token …", "… it looks at these of the source"
        return "from each token …", "… to those it looks at"

    def edges(self, top: int) -> list[Edge]:
        """The strongest of each panel, so that one does not hide all others: `top` in all, at least one of each.

        The first token of a masked map can only look at itself, which says nothing.
        """
        each = max(1, top // len(self.panels))
        found = [self._strongest(panel, each + 1) for panel in self.panels]
        shared = [edge for edges in found for edge in edges[:each]]
        more = sorted((edge for edges in found for edge in edges[each:]), key=lambda edge: -edge.weight)
        shared += more[: max(0, top - len(shared))]
        return sorted(shared, key=lambda edge: -edge.weight)[:top]

    def _strongest(self, panel: Panel, count: int) -> list[Edge]:
        skipped = int(self.map.kind == "masked")
        flat = np.ascontiguousarray(panel.weights[skipped:]).ravel()  # what is not seen weighs nothing
        best = np.argpartition(-flat, count - 1)[:count] if count < len(flat) else np.arange(len(flat))
        best = best[np.lexsort((best, -flat[best]))]
        places = (divmod(int(at), panel.weights.shape[1]) for at in best)
        found = zip(places, flat[best].tolist(), strict=True)
        return [Edge(panel, row + skipped, column, weight) for (row, column), weight in found if weight > 0]

    def facts(self, top: int | None) -> dict[str, Any]:
        """As JSON values: all weights, or the strongest edges."""
        told = self.map.facts()
        if top is not None:
            return told | {"edges": [edge.facts(self.map) for edge in self.edges(top)]}
        weights = ((panel, np.round(panel.weights.astype(np.float64), 6).tolist()) for panel in self.panels)
        return told | {"panels": [panel.facts() | {"weights": values} for panel, values in weights]}


def view(of: Map, layer: int | None = None, head: Head | None = None, *, rollout: bool = False) -> View:
    """A layer's heads, one head of all layers, one of one, or all; both are numbered from 1, or from the end by -1, …

    rollout  what reaches a layer, by itself the last, from the tokens at the beginning
    """
    if rollout:
        if head is not None:
            raise BadInput("a roll-out is made of all heads", remedy="leave --head away")
        upto = of.layers if layer is None else _number(layer, of.layers, "layer")
        return View(of, (Panel(upto, "roll-out", rolled_out(of, upto)),), 1)
    layers = range(1, of.layers + 1) if layer is None else [_number(layer, of.layers, "layer")]
    heads: list[Head] = ["mean"] if head == "mean" else list(range(1, of.heads + 1))
    if isinstance(head, int):
        heads = [_number(head, of.heads, "head")]
    panels = tuple(_panel(of, one, other) for one in layers for other in heads)
    across = len(heads) if len(layers) > 1 and len(heads) > 1 else round(len(panels) ** 0.5 + 0.4)
    return View(of, panels, across)


def _panel(of: Map, layer: int, head: Head) -> Panel:
    weights = of.weights[layer - 1]
    return Panel(layer, head, weights.mean(0) if head == "mean" else weights[head - 1])


def _number(given: int, count: int, what: str) -> int:
    """From 1; from the end where it is negative."""
    number = given if given > 0 else count + 1 + given
    if given == 0 or not 1 <= number <= count:
        raise BadInput(f"there is no {what} {given}", remedy=f"{what}s are 1 to {count}, or -1 (the last) to -{count}")
    return number


def rolled_out(of: Map, layer: int | None = None) -> np.ndarray:
    """(n, n) how much of each token at the beginning is in each after so many layers, by itself after all."""
    *_, found = islice(roll_outs(of), layer)
    return found


def roll_outs(of: Map) -> Iterator[np.ndarray]:
    """(n, n) what of each token at the beginning is in each after every layer, if attention were all there is.

    (Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers.) Half of what a layer gives is taken to be what
    came in, since it is added; the other half is mixed by the mean of its heads; layers are multiplied.
    """
    if of.kind == "cross":
        raise BadInput("attention to a source is not rolled out", remedy="roll out self-attention")
    total = itself = np.eye(len(of.rows))
    for weights in of.weights:
        step = 0.5 * weights.mean(0, dtype=np.float64) + 0.5 * itself
        total = step / step.sum(1, keepdims=True) @ total
        yield total
