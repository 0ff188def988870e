"""AdamW (Kingma and Ba 2014; Loshchilov and Hutter 2017) as one fused operation over all parameters.

torch.optim does the same, but loads torch's compiler first: seconds, before the first step of a small run.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # torch.optim's names for what it remembers of each parameter


class AdamW:
    """Matrices decay, vectors (norms and biases) do not. `shares` of the rate are by name; 1 where nothing is said."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        decay: float,
        memory: float,
        epsilon: float = 1e-8,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.parameters, self.memory, self.epsilon = dict(parameters), memory, epsilon
        self.state = {
            "step": {name: torch.zeros((), device=one.device) for name, one in self.parameters.items()},
            "exp_avg": {name: torch.zeros_like(one) for name, one in self.parameters.items()},
            "exp_avg_sq": {name: torch.zeros_like(one) for name, one in self.parameters.items()},
        }
        groups: dict[tuple[float, float], list[str]] = {}  # names by decay and share of the rate
        for name, one in self.parameters.items():
            groups.setdefault((decay if one.dim() > 1 else 0.0, (shares or {}).get(name, 1.0)), []).append(name)
        self._groups = groups

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for (decay, share), names in self._groups.items():
            learned = [name for name in names if self.parameters[name].grad is not None]
            if not learned:
                continue
            values = [self.parameters[name] for name in learned]
            steps, means, squares = ([self.state[moment][name] for name in learned] for moment in MOMENTS)
            gradients = [value.grad for value in values if value.grad is not None]
            torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                values,
                gradients,
                means,
                squares,
                [],
                steps,
                lr=rate * share,
                beta1=0.9,
                beta2=self.memory,
                weight_decay=decay,
                eps=self.epsilon,
                amsgrad=False,
                maximize=False,
            )

    def clear(self) -> None:
        """Forgets all gradients."""
        for value in self.parameters.values():
            value.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """All that it remembers, for saving."""
        return {f"{moment}.{name}": one for moment in MOMENTS for name, one in self.state[moment].items()}

    def load(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Takes what `tensors` gave, or nothing: then the names of what is missing, too much or of another shape."""
        own = self.tensors()
        strange = sorted(own.keys() ^ tensors.keys())
        strange += [name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape]
        for name, one in own.items() if not strange else ():
            one.copy_(tensors[name])
        return strange
