"""Recurrent layers for the tests of this room, with values, and what is asked of them."""

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


def filled(layer: nn.Module, seed: int = 0, *, spread: float = 0.6, dtype: torch.dtype = torch.float64) -> Any:
    """With weights so large that a wrong part would be seen."""
    generator = torch.Generator().manual_seed(seed)
    for part in layer.modules():
        for name, value in list(part.named_parameters(recurse=False)):
            drawn = spread * torch.randn(value.shape, generator=generator, dtype=torch.float64)
            setattr(part, name, nn.Parameter(drawn.to(dtype)))
    return layer


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def begun(layer: RecurrentLayer, rows: int, dtype: torch.dtype = torch.float64) -> RecurrentState:
    """A state to begin with that is not nothing, to be learned too."""
    zeros = layer.zero_state(rows, torch.empty(0, dtype=dtype))
    return tuple(drawn(*zero.shape, seed=20 + part, dtype=dtype).requires_grad_() for part, zero in enumerate(zeros))


def answered(found: list[Tensor], asked: list[Tensor]) -> list[Tensor]:
    """Gradients of `asked`, where each number found is wanted by another weight."""
    cost = sum((one * drawn(*one.shape, seed=40 + number, dtype=one.dtype)).sum() for number, one in enumerate(found))
    assert isinstance(cost, Tensor)
    return list(torch.autograd.grad(cost, asked))
