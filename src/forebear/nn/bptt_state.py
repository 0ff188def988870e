"""Truncated BPTT: hidden states carried from one window of a text to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

LayerState = tuple[Tensor, ...]


class BPTTState:
    """Hidden states at the end of each text stream, by stream index.

    States staged by a step take effect with `commit`, so the step can be split into micro-batches or repeated.
    """

    def __init__(self) -> None:
        self._states: list[list[Tensor]] = []  # per layer, the tensors of its state: (streams, ·)
        self._staged: list[list[Tensor]] = []

    def states_for(self, streams: Tensor, fresh: Tensor, zeros: Sequence[LayerState]) -> list[LayerState]:
        """Initial states of these streams: zeros where `fresh` is true or no state is stored."""
        if not self._states:
            return list(zeros)
        is_continued = (~fresh.bool())[:, None]
        return [
            tuple(torch.where(is_continued, tensors[streams], zero) for tensors, zero in zip(parts, layer, strict=True))
            for parts, layer in zip(self._states, zeros, strict=True)
        ]

    def stage(self, streams: Tensor, states: Sequence[LayerState]) -> None:
        """Stage the final states of these streams."""
        num_streams = int(streams.max()) + 1
        if not self._staged:
            self._staged = [[part.new_zeros(0, part.shape[1]) for part in layer] for layer in states]
        for tensors, layer in zip(self._staged, states, strict=True):
            for index, part in enumerate(layer):
                if len(tensors[index]) < num_streams:
                    padding = part.new_zeros(num_streams - len(tensors[index]), part.shape[1])
                    tensors[index] = torch.cat((tensors[index], padding))
                tensors[index][streams] = part.detach()

    def commit(self) -> None:
        """Make the staged states the initial states of the next step."""
        if self._staged:
            self._states, self._staged = self._staged, []

    def clear(self) -> None:
        self._states, self._staged = [], []

    def state_tensors(self) -> dict[str, Tensor]:
        """All states by name, for checkpoints."""
        return {
            f"{layer}.{index}": part for layer, parts in enumerate(self._states) for index, part in enumerate(parts)
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.clear()
        for name in sorted(tensors, key=lambda name: tuple(map(int, name.split(".")))):
            layer = int(name.split(".")[0])
            self._states += [[] for _ in range(layer + 1 - len(self._states))]
            self._states[layer].append(tensors[name].clone())
