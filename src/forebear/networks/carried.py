"""States that a step of training hands to the next: text that is cut into windows is read on where a window ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

State = tuple[Tensor, ...]


class Carried:
    """The states in which streams of text were left, by their numbers.

    What a step leaves counts from the next step on (`settle`): its parts may be made in any order, or once more.
    """

    def __init__(self) -> None:
        self._held: list[list[Tensor]] = []  # of each layer, the parts of its state: (streams, ·)
        self._left: list[list[Tensor]] = []

    def of(self, streams: Tensor, fresh: Tensor, zeros: Sequence[State]) -> list[State]:
        """What rows of these streams begin with: nothing, where they are fresh or were never read."""
        if not self._held:
            return list(zeros)
        goes_on = (~fresh.bool())[:, None]
        return [
            tuple(torch.where(goes_on, held[streams], zero) for held, zero in zip(parts, layer, strict=True))
            for parts, layer in zip(self._held, zeros, strict=True)
        ]

    def leave(self, streams: Tensor, states: Sequence[State]) -> None:
        """What rows of these streams ended with."""
        most = int(streams.max()) + 1
        if not self._left:
            self._left = [[part.new_zeros(0, part.shape[1]) for part in layer] for layer in states]
        for held, layer in zip(self._left, states, strict=True):
            for number, part in enumerate(layer):
                if len(held[number]) < most:
                    more = part.new_zeros(most - len(held[number]), part.shape[1])
                    held[number] = torch.cat((held[number], more))
                held[number][streams] = part.detach()

    def settle(self) -> None:
        """The step was made: from now on what it left is what the next begins with."""
        if self._left:
            self._held, self._left = self._left, []

    def forget(self) -> None:
        self._held, self._left = [], []

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, to be saved."""
        return {
            f"{layer}.{number}": part for layer, parts in enumerate(self._held) for number, part in enumerate(parts)
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.forget()
        for name in sorted(tensors, key=lambda name: tuple(map(int, name.split(".")))):
            layer = int(name.split(".")[0])
            self._held += [[] for _ in range(layer + 1 - len(self._held))]
            self._held[layer].append(tensors[name].clone())
