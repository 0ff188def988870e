"""Which layers a task reads: the weights of the mixtures (softmax of s, and γ) that a run has learned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebear.errors import InputError
from forebear.reports.plotting import ACCENT, INK, SOFT, figure_bytes, new_figure, plot_style, shorten_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forebear.inference.run import Run


@dataclass(frozen=True)
class LayerWeights:
    """A mixture of layers.

    place    where it is read: by a head, or before or after what reads an encoder
    weights  of each layer, the lowest first; they sum to 1
    gain     γ, what their sum is multiplied by
    normed   whether layers are brought to one scale before: then weights can be compared as they are
    """

    run: str
    task: str
    position: str
    weights: tuple[float, ...]
    gain: float
    is_normalized: bool = False
    first_layer: int = 0  # the number of the lowest

    @property
    def uniform_weight(self) -> float:
        """What every layer would weigh in the plain mean, as which a mixture begins."""
        return 1 / len(self.weights)

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"run": self.run, "task": self.task, "place": self.position, "gain": round(self.gain, 6)}
        return told | {
            "normed": self.is_normalized,
            "first": self.first_layer,
            "weights": [round(weight, 6) for weight in self.weights],
        }


def layer_weights(run: Run) -> list[LayerWeights]:
    """All mixtures of a run."""
    found = list(_mixtures(run))
    if not found:
        what = "has learned no mixture of layers"
        raise InputError(
            what, file=run.folder.path, hint="adapt one with --how features, or ELMo with --reader recurrent"
        )
    return found


def _mixtures(run: Run) -> Iterator[LayerWeights]:
    from torch import nn

    from forebear.nn.encoder import ScalarMix

    task = "" if run.task is None else run.task.name
    for name, module in run.network.named_modules() if isinstance(run.network, nn.Module) else ():
        if isinstance(module, ScalarMix):
            weights = tuple(module.weights.detach().double().cpu().tolist())
            gain = 1 + float(module.gain_bias.detach())
            yield LayerWeights(run.name, task, _place(name), weights, gain, module.normed, module.first)


def _place(name: str) -> str:
    """heads.tag.mixture: the head tag; encoder.mixtures.before: before the encoder's reader."""
    whose, *rest = name.split(".")
    own = " ".join(part for part in rest if part not in ("mixture", "mixtures"))
    if whose == "heads":
        return f"head {own}"
    return f"{own} the reader" if own else whose


def layer_names(of: LayerWeights) -> list[str]:
    """What its layers are called, the lowest first."""
    last = of.first_layer + len(of.weights) - 1
    named = {last: f"{last}, the last", 0: "0, the embedding"}
    return [named.get(layer, str(layer)) for layer in range(of.first_layer, last + 1)]


# Mixtures of layers as a picture: a panel for each, a bar for each layer, all to one scale.


BLUE = "#1c4f9c"
BESIDE = 4  # panels side by side


def plot_layer_weights(found: Sequence[LayerWeights], form: str) -> bytes:
    titles = [shorten_label(f"{one.run}: {one.task or one.position}", 40) for one in found]
    with plot_style([*titles, *(one.position for one in found), "γ"]):
        columns = min(BESIDE, len(found))
        rows, deepest = math.ceil(len(found) / columns), max(len(one.weights) for one in found)
        figure = new_figure(3.3 * columns + 0.6, rows * (0.3 * deepest + 1.15) + 0.5)
        figure.set_layout_engine("constrained", wspace=0.06, hspace=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(found) :]:
            axes.set_visible(False)
        most = max(weight for one in found for weight in one.weights)
        for number, (axes, one, title) in enumerate(zip(grid, found, titles, strict=False)):
            _bars(axes, one, title, most, first=number % columns == 0)
        figure.suptitle("which layers a task reads (dashed: all alike)", fontsize=11)
        return figure_bytes(figure, form)


def _bars(axes: Axes, one: LayerWeights, title: str, most: float, *, first: bool) -> None:
    """The last layer stands on top, as layers do."""
    places = range(len(one.weights))
    axes.barh(places, one.weights, color=BLUE, height=0.66)
    axes.axvline(one.uniform_weight, color=ACCENT, lw=1, ls="--")
    axes.set_yticks(places, layer_names(one) if first else [str(layer) for layer in places])
    for place, weight in zip(places, one.weights, strict=True):
        inside = weight > most / 3
        colour, side = ("white", "right") if inside else (INK, "left")
        axes.text(weight, place, f" {weight:.3f} ", va="center", ha=side, color=colour, fontsize=8)
    axes.set_xlim(0, most * 1.06)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(f"{one.position}, γ {one.gain:.2f}", fontsize=8)
    axes.set_title(title, fontsize=10, loc="left", fontweight="bold")
    axes.tick_params(length=0, labelsize=8)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(SOFT)
