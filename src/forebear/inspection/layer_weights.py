"""The learned layer weights (softmax of s, and γ) of a run's scalar mixes, and their plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebear.errors import InputError
from forebear.reports.plotting import ACCENT, BLUE, INK, SOFT, figure_bytes, new_figure, plot_style, shorten_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forebear.inference.run import Run


@dataclass(frozen=True)
class LayerWeights:
    """Weights of a scalar mix.

    position       where the mix is used: in a head, or before or after the task encoder
    weights        weight of each layer, lowest first; they sum to 1
    gain           γ
    is_normalized  whether layers are normalized first, which makes weights comparable
    """

    run: str
    task: str
    position: str
    weights: tuple[float, ...]
    gain: float
    is_normalized: bool = False
    first_layer: int = 0  # index of the lowest layer

    @property
    def uniform_weight(self) -> float:
        """The weight of each layer in a plain mean, the initial value."""
        return 1 / len(self.weights)

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"run": self.run, "task": self.task, "place": self.position, "gain": round(self.gain, 6)}
        data |= {"normed": self.is_normalized, "first": self.first_layer}
        return data | {"weights": [round(weight, 6) for weight in self.weights]}


def layer_weights(run: Run) -> list[LayerWeights]:
    """All scalar mixes of a run."""
    from torch import nn

    from forebear.nn.scalar_mix import ScalarMix

    task, mixes = "" if run.task is None else run.task.name, []
    for name, module in run.network.named_modules() if isinstance(run.network, nn.Module) else ():
        if isinstance(module, ScalarMix):
            weights = tuple(module.weights.detach().double().cpu().tolist())
            gain = 1 + float(module.gain_bias.detach())
            location = _position_name(name)
            mixes.append(LayerWeights(run.name, task, location, weights, gain, module.normalize, module.first_layer))
    if not mixes:
        hint = "adapt one with --how features, or ELMo with --reader recurrent"
        raise InputError("has learned no mixture of layers", file=run.folder.path, hint=hint)
    return mixes


def _position_name(name: str) -> str:
    """heads.tag.mixture → head tag; encoder.mixtures.before → before the reader."""
    module_name, *submodules = name.split(".")
    location = " ".join(name_part for name_part in submodules if name_part not in ("mixture", "mixtures"))
    if module_name == "heads":
        return f"head {location}"
    return f"{location} the reader" if location else module_name


def layer_names(mix: LayerWeights) -> list[str]:
    """Names of the layers, lowest first."""
    last_layer = mix.first_layer + len(mix.weights) - 1
    names = {last_layer: f"{last_layer}, the last", 0: "0, the embedding"}
    return [names.get(layer, str(layer)) for layer in range(mix.first_layer, last_layer + 1)]


# --- Figure: a panel per mix, a bar per layer, on a common scale ---

MAX_COLUMNS = 4  # panels per row


def plot_layer_weights(mixes: Sequence[LayerWeights], file_format: str) -> bytes:
    titles = [shorten_label(f"{mix.run}: {mix.task or mix.position}", 40) for mix in mixes]
    with plot_style([*titles, *(mix.position for mix in mixes), "γ"]):
        columns = min(MAX_COLUMNS, len(mixes))
        rows, max_layers = math.ceil(len(mixes) / columns), max(len(mix.weights) for mix in mixes)
        figure = new_figure(3.3 * columns + 0.6, rows * (0.3 * max_layers + 1.15) + 0.5)
        figure.set_layout_engine("constrained", wspace=0.06, hspace=0.08)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in grid[len(mixes) :]:
            axes.set_visible(False)
        max_weight = max(weight for mix in mixes for weight in mix.weights)
        for index, (axes, mix, title) in enumerate(zip(grid, mixes, titles, strict=False)):
            _plot_bars(axes, mix, title, max_weight, has_layer_names=index % columns == 0)
        figure.suptitle("which layers a task reads (dashed: all alike)", fontsize=11)
        return figure_bytes(figure, file_format)


def _plot_bars(axes: Axes, mix: LayerWeights, title: str, max_weight: float, *, has_layer_names: bool) -> None:
    """Horizontal bars, last layer on top."""
    layers = range(len(mix.weights))
    axes.barh(layers, mix.weights, color=BLUE, height=0.66)
    axes.axvline(mix.uniform_weight, color=ACCENT, lw=1, ls="--")
    axes.set_yticks(layers, layer_names(mix) if has_layer_names else [str(layer) for layer in layers])
    for layer, weight in zip(layers, mix.weights, strict=True):
        is_inside = weight > max_weight / 3
        color, align = ("white", "right") if is_inside else (INK, "left")
        axes.text(weight, layer, f" {weight:.3f} ", va="center", ha=align, color=color, fontsize=8)
    axes.set_xlim(0, max_weight * 1.06)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(f"{mix.position}, γ {mix.gain:.2f}", fontsize=8)
    axes.set_title(title, fontsize=10, loc="left", fontweight="bold")
    axes.tick_params(length=0, labelsize=8)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color(SOFT)
