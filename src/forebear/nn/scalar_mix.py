"""Scalar mix of layers (ELMo, Peters et al. 2018): γ Σ softmax(s)_j · layer_j."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.encoder import States


class ScalarMix(nn.Module):
    """Learned weighted sum of the layers from `first_layer` to `depth`.

    Both parameters start at zero, which is the mean of the layers. With `normalize`, each layer is first normalized per
    token to mean 0 and variance 1, so that weights are comparable.
    """

    def __init__(self, depth: int, *, normalize: bool = False, first_layer: int = 0) -> None:
        super().__init__()
        self.normalize, self.first_layer = normalize, first_layer
        self.layer_bias = nn.Parameter(torch.empty(depth + 1 - first_layer, device="meta"))  # s
        self.gain_bias = nn.Parameter(torch.empty(1, device="meta"))  # γ - 1

    @property
    def weights(self) -> Tensor:
        """Layer weights, lowest layer first; they sum to 1."""
        return torch.softmax(self.layer_bias, 0)

    def forward(self, states: States, token_indices: Tensor) -> Tensor:
        """(n, D) for these tokens."""
        lower_layers = [layer[token_indices] for layer in states.layers[self.first_layer : -1]]
        layers = [*lower_layers, states.last_at(token_indices)]
        layers = [functional.layer_norm(layer, layer.shape[1:]) for layer in layers] if self.normalize else layers
        mixed = torch.einsum("l,lnd->nd", self.weights, torch.stack(layers))
        return (1 + self.gain_bias) * mixed
