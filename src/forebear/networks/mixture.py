"""The mixture of all layers that a task learns for itself (ELMo, Peters et al. 2018): γ Σ softmax(s)_j · layer_j."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.networks.states import States


class Mixture(nn.Module):
    """Begins as the plain mean of the layers from `first` up to `depth`: both its parameters begin at zero.

    `normed`: each layer is first brought to the mean 0 and the spread 1, over all its numbers of each token, so that a
    weight says how much of a layer there is.
    """

    def __init__(self, depth: int, *, normed: bool = False, first: int = 0) -> None:
        super().__init__()
        self.normed, self.first = normed, first
        self.layer_bias = nn.Parameter(torch.empty(depth + 1 - first, device="meta"))  # s
        self.gain_bias = nn.Parameter(torch.empty(1, device="meta"))  # γ - 1

    @property
    def weights(self) -> Tensor:
        """Of the layers, the lowest first; their sum is 1."""
        return torch.softmax(self.layer_bias, 0)

    def forward(self, states: States, numbers: Tensor) -> Tensor:
        """(n, D) for the tokens with these numbers."""
        layers = [layer[numbers] for layer in states.layers[self.first : -1]] + [states.at(numbers)]
        layers = [functional.layer_norm(layer, layer.shape[1:]) for layer in layers] if self.normed else layers
        mixed = torch.einsum("l,lnd->nd", self.weights, torch.stack(layers))
        return (1 + self.gain_bias) * mixed
