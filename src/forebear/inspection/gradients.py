"""Token attribution by gradients: gradient × input, and integrated gradients.

Both use the output of the encoder's embedding, which a hook records and replaces. Integrated gradients (Sundararajan
et al. 2017) follow a straight path from a baseline, in which every token of text is masked, to the input. The
attributions sum to the change of the score, up to the error of Gauss–Legendre quadrature; if that is too large, the
number of steps is doubled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.inspection.attribution_targets import AttributionMethod, AttributionTarget
from forebear.nn.inference_mode import inference_mode
from forebear.nn.model import Model
from forebear.objectives.batch import TargetArrays

INITIAL_STEPS, MAX_STEPS = 32, 512
RELATIVE_TOLERANCE = 0.01  # accepted gap, relative to the change of the score
MIN_SCORE_CHANGE = 0.1  # nats; smaller changes count as this one
MAX_TOKENS = 4096  # tokens per forward pass


@dataclass(frozen=True, eq=False)
class TokenAttribution:
    """values    (T,) attribution of each token
    score     of the input; `baseline` is that of the baseline, if there is one
    steps     integration steps
    gap       change of the score minus the sum of the attributions
    """

    values: np.ndarray
    score: float
    baseline: float | None = None
    steps: int | None = None
    gap: float | None = None


def integrated_gradients(
    model: Model,
    inputs: TargetArrays,
    target: AttributionTarget,
    is_text: np.ndarray,
    baseline_id: int | None,
    method: AttributionMethod,
) -> TokenAttribution:
    """Attribution for one example; the baseline replaces its text tokens, `is_text` (T,), by `baseline_id` or zeros."""
    path = _IntegrationPath(model.eval(), inputs, target, is_text, baseline_id)
    if method == "gradients":
        score, gradients = path.scores_and_gradients(path.input[None])
        return TokenAttribution(_dot_products(gradients[0], path.input), float(score[0]))
    difference = path.input - path.baseline
    baseline, score = path.scores_and_gradients(torch.stack((path.baseline, path.input)))[0].tolist()
    tolerance, steps = RELATIVE_TOLERANCE * max(abs(score - baseline), MIN_SCORE_CHANGE), INITIAL_STEPS
    while True:
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        values = _dot_products(path.mean_gradient(difference, (nodes + 1) / 2, weights / 2), difference)
        gap = score - baseline - float(values.sum())
        if abs(gap) <= tolerance or steps >= MAX_STEPS:
            return TokenAttribution(values, score, baseline, steps, gap)
        steps *= 2


def _dot_products(gradients: Tensor, x: Tensor) -> np.ndarray:
    return (gradients.double() * x.double()).sum(1).cpu().numpy()


class _IntegrationPath:
    """The straight path from the baseline to the input, in embedding space."""

    def __init__(
        self,
        model: Model,
        inputs: TargetArrays,
        target: AttributionTarget,
        is_text: np.ndarray,
        baseline_id: int | None,
    ) -> None:
        if model.encoder.embedding is None:
            raise ForebearError("this encoder has no embedding to look at")
        self.model, self.embedding, self.target, self.baseline_id = model, model.encoder.embedding, target, baseline_id
        self.inputs = {name: torch.from_numpy(array).to(model.device) for name, array in inputs.items()}
        self.is_text = torch.from_numpy(is_text).to(model.device)
        self.num_tokens = len(self.inputs["tokens"])

    @cached_property
    def input(self) -> Tensor:
        """(T, D) embedding of the input."""
        return self._embedding_output(self.inputs["tokens"])

    @cached_property
    def baseline(self) -> Tensor:
        """(T, D) the same with all text tokens masked; special tokens, positions and segments remain."""
        if self.baseline_id is None:
            return torch.where(self.is_text[:, None], torch.zeros_like(self.input), self.input)
        return self._embedding_output(self.inputs["tokens"].masked_fill(self.is_text, self.baseline_id))

    def mean_gradient(self, difference: Tensor, fractions: np.ndarray, weights: np.ndarray) -> Tensor:
        """(T, D) weighted mean gradient at these fractions of the path."""
        gradient_sum = torch.zeros_like(difference, dtype=torch.float64)
        points_per_batch = max(1, MAX_TOKENS // self.num_tokens)
        for start in range(0, len(fractions), points_per_batch):
            end = start + points_per_batch
            points = self.baseline + difference.new_tensor(fractions[start:end])[:, None, None] * difference
            _, gradients = self.scores_and_gradients(points)
            batch_weights = difference.new_tensor(weights[start:end]).double()
            gradient_sum += torch.einsum("s,std->td", batch_weights, gradients.double())
        return gradient_sum

    def scores_and_gradients(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """(S, T, D) embeddings → (S,) scores and their gradients."""
        num_copies = len(points)
        with inference_mode(False):
            x = points.detach().reshape(num_copies * self.num_tokens, -1).requires_grad_()
            inputs = {name: array.repeat(num_copies) for name, array in self.inputs.items()}
            if "groups" in inputs:  # all sequences of one example have group 0
                num_rows = len(self.inputs["groups"])
                inputs["groups"] = torch.arange(num_copies, device=x.device).repeat_interleave(num_rows)
            with embedding_hook(self.embedding, lambda _: x):
                scores = self.target.score(self._outputs(inputs, num_copies))
            (gradient,) = torch.autograd.grad(scores.sum(), x)
        return scores.detach(), gradient.reshape(points.shape)

    def _embedding_output(self, tokens: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        with inference_mode(False), torch.no_grad(), embedding_hook(self.embedding, outputs.append):
            self._outputs({**self.inputs, "tokens": tokens}, 1)
        if len(outputs) != 1 or outputs[0].dim() != 2 or len(outputs[0]) != self.num_tokens:
            raise ForebearError("this encoder's embedding does not give one vector for each token, once")
        return outputs[0]

    def _outputs(self, inputs: dict[str, Tensor], num_copies: int) -> dict[str, Tensor]:
        """Outputs of the needed heads only: a language-model head would take most of the time."""
        states = self.model.encode(inputs, dict.fromkeys(self.target.heads))
        outputs = {name: self.model.heads[name](states) for name in self.target.heads}
        return {name: logits.reshape(num_copies, -1, *logits.shape[1:]) for name, logits in outputs.items()}


@contextmanager
def embedding_hook(embedding: torch.nn.Module, replace_output: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    """While active, `replace_output` receives the embedding's output and may return a replacement."""
    thread_id = threading.get_ident()  # other threads may use the same network

    def hook_output(_module: Any, _inputs: Any, output: Tensor) -> Tensor | None:
        return replace_output(output) if threading.get_ident() == thread_id else None

    hook = embedding.register_forward_hook(hook_output)
    try:
        yield
    finally:
        hook.remove()
