"""How much each token speaks for a network's score: gradient × input, and integrated gradients.

Both are taken at the output of the encoder's embedding, whatever encoder it is: a hook reads it, and puts another in
its place. Integrated gradients (Sundararajan et al. 2017) go from a baseline, the same rows with every token of text
hidden, to the real input. The attributions add up to what the score gains on the way, as far as the integral is exact:
it is Gauss's sum over STEPS places, and over more where those miss too much.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.inspection.attribution_targets import AttributionTarget
from forebear.nn.model import Model
from forebear.objectives.batch import TargetArrays

AttributionMethod = Literal["integrated", "gradients"]
STEPS, MOST_STEPS = 32, 512
TOLERANCE = 0.01  # of what the score gains: while the attributions miss more, the steps are doubled
LEAST_GAIN = 0.1  # nats; what gains less is measured as if it gained this
AT_ONCE = 4096  # tokens in one pass


@dataclass(frozen=True, eq=False)
class TokenAttribution:
    """values    (T,) of the tokens
    score     of the input, and of the baseline, where there is one
    steps     between them
    """

    values: np.ndarray
    score: float
    baseline: float | None = None
    steps: int | None = None

    @property
    def completeness_gap(self) -> float | None:
        """What the attributions miss of the gain: completeness wants 0."""
        return None if self.baseline is None else self.score - self.baseline - float(self.values.sum())

    @property
    def complete(self) -> bool:
        if self.baseline is None or self.completeness_gap is None:
            return True
        return abs(self.completeness_gap) <= TOLERANCE * max(abs(self.score - self.baseline), LEAST_GAIN)


def integrated_gradients(
    model: Model,
    inputs: TargetArrays,
    target: AttributionTarget,
    inside: np.ndarray,
    hidden: int | None,
    method: AttributionMethod,
) -> TokenAttribution:
    """Of one example: `inside` (T,) says which tokens are text, `hidden` which id stands for them in the baseline.

    Where none does, zeros stand for them.
    """
    path = _IntegrationPath(model.eval(), inputs, target, inside, hidden)
    if method == "gradients":
        score, slopes = path.slopes(path.real[None])
        return TokenAttribution(_products(slopes[0], path.real), float(score[0]))
    gain = path.real - path.baseline
    (low, high), _ = path.slopes(torch.stack((path.baseline, path.real)))
    steps = STEPS
    while True:
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        shares, weights = (nodes + 1) / 2, weights / 2
        slope = path.mean_slope(gain, shares, weights)
        found = TokenAttribution(_products(slope, gain), float(high), float(low), steps)
        if found.complete or steps >= MOST_STEPS:
            return found
        steps *= 2


def _products(slope: Tensor, x: Tensor) -> np.ndarray:
    return (slope.double() * x.double()).sum(1).cpu().numpy()


class _IntegrationPath:
    """The way from the baseline to the input, in the space of the embedding's output."""

    def __init__(
        self, model: Model, inputs: TargetArrays, target: AttributionTarget, inside: np.ndarray, hidden: int | None
    ) -> None:
        self.model, self.target, self.hidden = model, target, hidden
        self.inputs = {name: torch.from_numpy(array).to(model.device) for name, array in inputs.items()}
        self.inside = torch.from_numpy(inside).to(model.device)
        self.size = len(self.inputs["tokens"])

    @cached_property
    def real(self) -> Tensor:
        """(T, D) the embedding of the rows as they are."""
        return self._embedded(self.inputs["tokens"])

    @cached_property
    def baseline(self) -> Tensor:
        """The same with every token of text hidden: what stands around texts, where and in which of two, remains."""
        if self.hidden is None:
            return torch.where(self.inside[:, None], torch.zeros_like(self.real), self.real)
        return self._embedded(self.inputs["tokens"].masked_fill(self.inside, self.hidden))

    def mean_slope(self, gain: Tensor, shares: np.ndarray, weights: np.ndarray) -> Tensor:
        """(T, D) the slope along the way, weighed: at each of these shares of it."""
        total = torch.zeros_like(gain, dtype=torch.float64)
        together = max(1, AT_ONCE // self.size)
        for begin in range(0, len(shares), together):
            some, much = (gain.new_tensor(one[begin : begin + together]) for one in (shares, weights))
            _, slopes = self.slopes(self.baseline + some[:, None, None] * gain)
            total += torch.einsum("s,std->td", much.double(), slopes.double())
        return total

    def slopes(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """(S, T, D) embeddings → (S,) scores, and the slope of each by its embedding."""
        copies = len(points)
        with torch.enable_grad():
            x = points.detach().reshape(copies * self.size, -1).requires_grad_()
            inputs = {name: array.repeat(copies) for name, array in self.inputs.items()}
            if "groups" in inputs:  # of one example all rows have the number 0
                rows = len(self.inputs["groups"])
                inputs["groups"] = torch.arange(copies, device=x.device).repeat_interleave(rows)
            with _hooked(self.model, lambda _: x):
                scores = self.target.score(self._outputs(inputs, copies))
            (slope,) = torch.autograd.grad(scores.sum(), x)
        return scores.detach(), slope.reshape(points.shape)

    def _embedded(self, tokens: Tensor) -> Tensor:
        seen: list[Tensor] = []
        with torch.no_grad(), _hooked(self.model, lambda output: seen.append(output)):
            self._outputs({**self.inputs, "tokens": tokens}, 1)
        if len(seen) != 1 or seen[0].dim() != 2 or len(seen[0]) != self.size:
            raise ForebearError("this encoder's embedding does not give one vector for each token, once")
        return seen[0]

    def _outputs(self, inputs: dict[str, Tensor], copies: int) -> dict[str, Tensor]:
        """Only of the heads that are asked: a language model beside them would cost most of the time."""
        states = self.model.encode(inputs, dict.fromkeys(self.target.heads))
        found = {name: self.model.heads[name](states) for name in self.target.heads}
        return {name: logits.reshape(copies, -1, *logits.shape[1:]) for name, logits in found.items()}


@contextmanager
def _hooked(model: Model, look: Any) -> Iterator[None]:
    """While inside, `look` sees what the embedding gives, and what it returns, unless None, stands in its place."""
    embedding = model.encoder.embedding
    if embedding is None:
        raise ForebearError("this encoder has no embedding to look at")
    thread = threading.get_ident()  # others may ask the same network meanwhile

    def seen(_module: Any, _given: Any, output: Tensor) -> Any:
        return look(output) if threading.get_ident() == thread else None

    hook = embedding.register_forward_hook(seen)
    try:
        yield
    finally:
        hook.remove()
