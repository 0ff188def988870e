"""Small recurrent layers with large weights, random inputs and states, and weighted gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from forebear.nn.recurrent import ElmanLayer, GRULayer, LSTMLayer, RecurrentLayer, RecurrentState

INPUTS, WIDTH, NARROW = 5, 6, 3
KINDS: dict[str, tuple[type[RecurrentLayer], type[nn.RNNBase], dict[str, Any]]] = {
    "rnn": (ElmanLayer, nn.RNN, {}),
    "gru": (GRULayer, nn.GRU, {}),
    "lstm": (LSTMLayer, nn.LSTM, {}),
    "projected": (LSTMLayer, nn.LSTM, {"project": NARROW}),
}
LENGTHS = {"equal": (4, 4, 4), "ragged": (3, 7, 1, 5, 3)}


def fill_parameters(layer: nn.Module, seed: int = 0, *, spread: float = 0.6, dtype: torch.dtype = torch.float64) -> Any:
    """Random parameters, large enough that an error in any of them would show."""
    generator = torch.Generator().manual_seed(seed)
    for module in layer.modules():
        for name, value in list(module.named_parameters(recurse=False)):
            values = spread * torch.randn(value.shape, generator=generator, dtype=torch.float64)
            setattr(module, name, nn.Parameter(values.to(dtype)))
    return layer


def random_tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_initial_state(layer: RecurrentLayer, rows: int, dtype: torch.dtype = torch.float64) -> RecurrentState:
    """A random initial state that requires gradients."""
    zeros = layer.zero_state(rows, torch.empty(0, dtype=dtype))
    return tuple(
        random_tensor(*zero.shape, seed=20 + index, dtype=dtype).requires_grad_() for index, zero in enumerate(zeros)
    )


def weighted_gradients(outputs: list[Tensor], parameters: list[Tensor]) -> list[Tensor]:
    """Gradients of a sum of the outputs in which each element has its own weight."""
    cost = sum(
        (output * random_tensor(*output.shape, seed=40 + number, dtype=output.dtype)).sum()
        for number, output in enumerate(outputs)
    )
    assert isinstance(cost, Tensor)
    return list(torch.autograd.grad(cost, parameters))
