"""Which layers a task reads: the weights of the mixtures (softmax of s, and γ) that a run has learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput

if TYPE_CHECKING:
    from forebear.using.run import Run


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
    place: str
    weights: tuple[float, ...]
    gain: float
    normed: bool = False
    first: int = 0  # the number of the lowest

    @property
    def even(self) -> float:
        """What every layer would weigh in the plain mean, as which a mixture begins."""
        return 1 / len(self.weights)

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"run": self.run, "task": self.task, "place": self.place, "gain": round(self.gain, 6)}
        return told | {
            "normed": self.normed,
            "first": self.first,
            "weights": [round(weight, 6) for weight in self.weights],
        }


def layers(run: Run) -> list[LayerWeights]:
    """All mixtures of a run."""
    found = list(_mixtures(run))
    if not found:
        what = "has learned no mixture of layers"
        raise BadInput(
            what, file=run.folder.path, remedy="adapt one with --how features, or ELMo with --reader recurrent"
        )
    return found


def _mixtures(run: Run) -> Iterator[LayerWeights]:
    from torch import nn

    from forebear.networks.mixture import Mixture

    task = "" if run.task is None else run.task.name
    for name, module in run.network.named_modules() if isinstance(run.network, nn.Module) else ():
        if isinstance(module, Mixture):
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
    last = of.first + len(of.weights) - 1
    named = {last: f"{last}, the last", 0: "0, the embedding"}
    return [named.get(layer, str(layer)) for layer in range(of.first, last + 1)]
