"""What the loop asks of every way of learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from forebear.objectives.batch import Batch


class Learner(Protocol):
    """Holds a network and makes it better by batches; its files are all that is needed to go on."""

    network: Any
    notes: list[str]  # what it has to say to whoever watches; the loop tells it, and takes it away

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


WEIGHTS = "weights.safetensors"  # the network
REMEMBERED = "learner.safetensors"  # what else is needed to go on
