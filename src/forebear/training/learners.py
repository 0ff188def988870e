"""Which learner teaches a milestone, and how what it learned is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forebear.milestones.milestone import Milestone
from forebear.text.tokenizer import Tokenizer
from forebear.training.learner import Learner
from forebear.training.recipe import Recipe


def learner_for(milestone: Milestone, tokenizer: Tokenizer, recipe: Recipe) -> Learner:
    network = milestone.network(tokenizer)
    if milestone.learning == "counting":
        from forebear.training.counting import Counting

        return Counting(network)
    from forebear.training.descending import Descending
    from forebear.training.device import chosen

    return Descending(network, recipe, chosen(recipe))


def loaded(milestone: Milestone, tokenizer: Tokenizer, weights: Path) -> Any:
    """The network of a milestone with these weights, strictly."""
    network = milestone.network(tokenizer)
    if milestone.learning == "counting":
        from safetensors.numpy import load_file

        network.load(load_file(weights))
        return network
    from safetensors.torch import load_file

    return network.load(load_file(weights), file=str(weights)).eval()
