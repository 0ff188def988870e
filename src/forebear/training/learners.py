"""Which learner teaches a milestone, and how what it learned is read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forebear.milestones.milestone import Milestone
from forebear.objectives.batch import Objective
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.training.learner import Learner
from forebear.training.recipe import Recipe

KINDS = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}  # of arrays, as safetensors names them


def learner_for(
    milestone: Milestone, tokenizer: Tokenizer | Sides, recipe: Recipe, given: Mapping[str, Any] | None = None
) -> Learner:
    """`given` are tensors to begin with, where it is not from nothing."""
    network = milestone.network(tokenizer)
    if milestone.counts_again:
        from forebear.training.expecting import Expecting

        return Expecting(network, recipe)
    if milestone.learning == "counting":
        from forebear.training.counting import Counting

        return Counting(network, recipe)
    if milestone.learning == "sweeping":
        from forebear.training.sweeping import Sweeping

        return Sweeping(network, recipe, given)
    from forebear.training.descending import Descending
    from forebear.training.device import chosen

    return Descending(network, recipe, chosen(recipe), given)


def introduced(learner: Learner, objective: Objective, source: Any) -> None:
    """Shows the text to those that must know all of it before they begin."""
    learner.meet(objective, source)


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
    if milestone.learning == "counting":
        from safetensors.numpy import load_file

        network.load(load_file(weights))
        return network
    if milestone.learning == "sweeping":
        network.load(mapped(weights))
        return network
    if heads is not None:
        network = network.only(heads)
    return filled(network, weights, quantised)


def mapped(weights: Path) -> dict[str, np.ndarray]:
    """The arrays of a file where they lie: a table of millions of words is read as far as it is asked."""
    with open(weights, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        told = json.loads(file.read(size))
    made = {}
    for name, one in told.items():
        if name != "__metadata__":
            begin, end = one["data_offsets"]
            kind, shape = np.dtype(KINDS[one["dtype"]]), tuple(one["shape"])
            there = end > begin  # nothing cannot be mapped
            made[name] = np.memmap(weights, kind, "r", 8 + size + begin, shape) if there else np.zeros(shape, kind)
    return made


def filled(network: Any, weights: Path, quantised: bool) -> Any:
    """A network with these weights, which may be small integers."""
    from safetensors.torch import load_file

    if quantised:
        from forebear.networks.quantised import quantise

        quantise(network.encoder)
    return network.load(load_file(weights), file=str(weights)).eval()
