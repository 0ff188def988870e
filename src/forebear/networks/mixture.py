"""The mixture of all layers that a task learns for itself (ELMo, Peters et al. 2018): γ Σ softmax(s)_j · layer_j."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from forebear.networks.states import States


class Mixture(nn.Module):
    """Begins as the plain mean of the `depth` + 1 layers: both its parameters begin at zero."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layer_bias = nn.Parameter(torch.empty(depth + 1, device="meta"))  # s
        self.gain_bias = nn.Parameter(torch.empty(1, device="meta"))  # γ - 1

    @property
    def weights(self) -> Tensor:
        """(depth + 1,) of the layers, the embedding's first; their sum is 1."""
        return torch.softmax(self.layer_bias, 0)

    def forward(self, states: States, numbers: Tensor) -> Tensor:
        """(n, D) for the tokens with these numbers."""
        layers = [layer[numbers] for layer in states.layers[:-1]] + [states.at(numbers)]
        mixed = torch.einsum("l,lnd->nd", self.weights, torch.stack(layers))
        return (1 + self.gain_bias) * mixed
