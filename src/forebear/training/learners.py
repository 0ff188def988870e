"""Which learner teaches a milestone, and how what it learned is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forebear.milestones.milestone import Milestone
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.training.learner import Learner
from forebear.training.recipe import Recipe


def learner_for(
    milestone: Milestone, tokenizer: Tokenizer | Sides, recipe: Recipe, given: Mapping[str, Any] | None = None
) -> Learner:
    """`given` are tensors to begin with, where it is not from nothing."""
    network = milestone.network(tokenizer)
    if milestone.learning == "counting":
        from forebear.training.counting import Counting

        return Counting(network)
    if milestone.learning == "sweeping":
        from forebear.training.sweeping import Sweeping

        return Sweeping(network, recipe, given)
    from forebear.training.descending import Descending
    from forebear.training.device import chosen

    return Descending(network, recipe, chosen(recipe), given)


def loaded(
    milestone: Milestone,
    tokenizer: Tokenizer | Sides,
    weights: Path,
    heads: Sequence[str] | None = None,
    *,
    quantised: bool = False,
) -> Any:
    """The network of a milestone with these weights, strictly; with all its heads, or with just these."""
    network = milestone.network(tokenizer)
    if milestone.learning != "descending":
        from safetensors.numpy import load_file

        network.load(load_file(weights))
        return network
    if heads is not None:
        network = network.only(heads)
    return filled(network, weights, quantised)


def filled(network: Any, weights: Path, quantised: bool) -> Any:
    """A network with these weights, which may be small integers."""
    from safetensors.torch import load_file

    if quantised:
        from forebear.networks.quantised import quantise

        quantise(network.encoder)
    return network.load(load_file(weights), file=str(weights)).eval()
