"""How a prediction forms, as a picture: the likeliest tokens of every layer, and how sure it is of the last one's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.inspecting.drawing import ACCENT, INK, SOFT, blues, drawing, new_figure, saved, short
from forebear.inspecting.labels import notes_on
from forebear.inspecting.lens import Lens

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def picture(lens: Lens, title: str, form: str) -> bytes:
    names = [[short(one.text, 10) for one in layer.candidates] for layer in lens.layers]
    asked = lens.tokens[lens.place - 1]
    with drawing([title, "“”", asked, lens.chosen.text, *(name for line in names for name in line)]):
        columns = len(names[0])
        figure = new_figure(0.85 * columns + 5.2, 0.46 * len(names) + 1.7)
        left, middle, right = figure.subplots(1, 3, width_ratios=(0.85 * columns, 1.7, 1.7), sharey=True)
        _candidates(left, lens, names)
        said = short(lens.chosen.text)
        layers = [layer.number for layer in lens.layers]
        sure = [100 * layer.probability for layer in lens.layers]
        unsure, further = ([getattr(layer, name) for layer in lens.layers] for name in ("entropy", "divergence"))
        how: Any = {"ms": 3.5, "clip_on": False, "zorder": 3}
        middle.plot(sure, layers, marker="o", color="#1c4f9c", **how)
        middle.set(xlim=(0, max(sure) * 1.1), xlabel=f"how sure of “{said}” (%)")
        right.plot(unsure, layers, marker="o", color=SOFT, label="entropy: how unsure", **how)
        right.plot(further, layers, marker="s", color=ACCENT, ls="--", label="KL: how far from the end", **how)
        right.set(xlabel="bits", xlim=(0, max(*unsure, *further, 0.1) * 1.1))
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False, fontsize=8)
        for axes in (middle, right):
            axes.locator_params(axis="x", nbins=4)
            axes.grid(axis="both", color="#eceae6", lw=0.6)
            axes.tick_params(length=0, labelleft=False)
            axes.spines[["top", "right"]].set_visible(False)
        after = f"comes after “{short(asked)}”" if lens.head == "next" else "is hidden"
        figure.suptitle(f"{title}\nwhat {after}, if each layer were the last", fontsize=11)
        return saved(figure, form)


def _candidates(axes: Axes, lens: Lens, names: list[list[str]]) -> None:
    """The likeliest first, coloured by how likely they are; what is said in the end is framed."""
    from matplotlib.patches import Rectangle

    shares = np.array([[one.probability for one in layer.candidates] for layer in lens.layers])
    axes.imshow(shares, cmap=blues(), vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for row, (layer, line) in enumerate(zip(lens.layers, names, strict=True)):
        for column, (one, name) in enumerate(zip(layer.candidates, line, strict=True)):
            colour = "white" if one.probability > 0.55 else INK
            axes.text(column, row - 0.04, name, ha="center", va="bottom", fontsize=8.5, color=colour)
            axes.text(column, row + 0.1, f"{one.probability:.1%}", ha="center", va="top", fontsize=6.5, color=colour)
            if one.id == lens.chosen.id:
                frame = Rectangle((column - 0.47, row - 0.44), 0.94, 0.88, fill=False, edgecolor=ACCENT, lw=1.2)
                axes.add_patch(frame)
    axes.set_yticks(range(len(names)), ["embedding", *(f"layer {layer.number}" for layer in lens.layers[1:])])
    axes.set_xticks(range(len(names[0])), [str(rank + 1) for rank in range(len(names[0]))])
    notes = notes_on([name for line in names for name in line])
    axes.set_xlabel("; ".join(["likeliest first", "framed: what is said in the end", *notes]))
    axes.tick_params(length=0)
