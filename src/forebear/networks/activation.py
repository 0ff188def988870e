"""The curves between two linear layers, by the names that milestones give them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional


def gelu_tanh(x: Tensor) -> Tensor:
    """The GELU of GPT and GPT-2, which approximates the Gaussian's integral by a tanh."""
    return functional.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu-tanh": gelu_tanh,
    "relu": functional.relu,
}
