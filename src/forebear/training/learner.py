"""What the loop asks of every way of learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from forebear.objectives.batch import Batch, Objective


class Learner(Protocol):
    """Holds a network and makes it better by batches; its files are all that is needed to go on."""

    network: Any
    notes: list[str]  # what it has to say to whoever watches; the loop tells it, and takes it away
    ended: bool = False  # whether there is nothing better to be found

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        """Learns from one batch, with this share of the full rate; the mean loss of each target before it."""
        ...

    def examine(self, batch: Batch) -> dict[str, float]:
        """The summed loss of each target, without learning."""
        ...

    def begin(self) -> None:
        """Gives the network its first values, a function of the seed."""
        ...

    def tried(self, batch: Batch) -> float:
        """Makes a few steps that will be forgotten, to learn how many seconds one takes, and how to be fast."""
        ...

    def settled(self) -> dict[str, Any]:
        """What of the recipe was left open and is now decided: the same again ends in the same weights."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the network and whatever else learning needs into a folder of its own."""
        ...

    def load(self, folder: Path) -> None: ...

    # Not every way of learning has to do with these.

    def meet(self, objective: Objective, source: Any) -> None:
        """Is shown all of the text, where it must know that before it begins."""
        return

    def told(self) -> dict[str, float]:
        """How many gradients were clipped since it was last asked, and how long the longest was, where it has any."""
        return {}

    def conclude(self) -> None:
        """Is told that nothing more will be learned."""
        return


WEIGHTS = "weights.safetensors"  # the network
REMEMBERED = "learner.safetensors"  # what else is needed to go on
