"""Gradients and their integral: exact on networks that are linear or quadratic, and as differences say on BERT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from forebear.data.labeled.examples import LabeledExample
from forebear.inference.run import Run
from forebear.inspection.attribution import attribute
from forebear.inspection.attribution_targets import AttributionTarget, TargetOutput
from forebear.inspection.attribution_targets import log_odds as odds
from forebear.inspection.gradients import INITIAL_STEPS, MAX_STEPS, TokenAttribution, integrated_gradients
from forebear.nn.embedding import InputEmbedding
from forebear.nn.encoder import States
from forebear.nn.heads import LabelHead
from forebear.nn.model import Model
from planted_runs import SAID, Runs


class Bag(torch.nn.Module):
    """An encoder that is an embedding and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.width, self.depth = InputEmbedding(7, 3, positions=8, placing="none"), 3, 0

    def forward(self, tokens, lengths, segments=None, positions=None) -> States:
        rows = tuple(lengths.tolist())
        return States([self.embedding(tokens, rows)], rows)


class Square(torch.nn.Module):
    """(w · mean)² of each row, against 0."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, states: States) -> torch.Tensor:
        means = torch.stack([row.mean(0) for row in states.last.split(states.lengths)])
        return torch.stack((torch.zeros(len(means)), (means @ self.weight) ** 2), 1)

    def supervised_positions(self, lengths, target) -> None:
        return None


LABEL = AttributionTarget("yes", "yes", 0.5, lambda out: odds(out["label"][:, 0], 1), (TargetOutput("label", 0, 1),))
ROW, INSIDE = np.array([0, 3, 4, 4, 1]), np.array([False, True, True, True, False])


def found(model: Model, method: str, hidden: int | None = 2) -> TokenAttribution:
    inputs = {"tokens": ROW, "lengths": np.array([len(ROW)])}
    return integrated_gradients(model, inputs, LABEL, INSIDE, hidden, method)  # pyright: ignore[reportArgumentType]


def bag(head: torch.nn.Module) -> tuple[Model, np.ndarray]:
    model = Model(Bag(), {"label": head}).initialize(3)
    model.encoder.embedding.token.weight = torch.nn.Parameter(torch.randn(7, 3, generator=torch.manual_seed(1)))
    return model, model.encoder.embedding.token.weight.detach().double().numpy()


def test_on_a_linear_network_both_ways_are_exact():
    model, table = bag(LabelHead(3, 2, "mean", dense=False))
    choose: Any = model.heads["label"].choose
    choose.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]))
    choose.bias = torch.nn.Parameter(torch.tensor([0.3, -0.1]))
    apart = np.array([-0.75, 5.0, -1.5])  # between the two rows of weights, by hand
    by_hand = table[ROW] @ apart / 5
    gradients = found(model, "gradients")
    np.testing.assert_allclose(gradients.values, by_hand, atol=1e-6)
    assert gradients.score == pytest.approx(by_hand.sum() - 0.4, abs=1e-6)
    integrated = found(model, "integrated")
    np.testing.assert_allclose(integrated.values, np.where(INSIDE, (table[ROW] - table[2]) @ apart / 5, 0), atol=1e-6)
    assert integrated.steps == INITIAL_STEPS
    zeros = found(model, "integrated", hidden=None)
    np.testing.assert_allclose(zeros.values, np.where(INSIDE, by_hand, 0), atol=1e-6)


def test_on_a_square_integrated_gradients_are_exact_and_gradients_are_not():
    """∫ of the slope along the way from x' to x: (w·x + w·x') · w (x - x')."""
    weight = np.array([0.7, -1.1, 2.0])
    model, table = bag(Square(torch.tensor(weight, dtype=torch.float32)))
    model.heads["label"].weight = torch.nn.Parameter(torch.tensor(weight, dtype=torch.float32))
    real, hidden = table[ROW], np.where(INSIDE[:, None], table[2], table[ROW])
    by_hand = (real.mean(0) + hidden.mean(0)) @ weight * ((real - hidden) @ weight) / 5
    integrated = found(model, "integrated")
    np.testing.assert_allclose(integrated.values, by_hand, atol=1e-5)
    gain = (real.mean(0) @ weight) ** 2 - (hidden.mean(0) @ weight) ** 2
    assert integrated.score - (integrated.baseline or 0) == pytest.approx(gain, abs=1e-5)
    np.testing.assert_allclose(found(model, "gradients").values.sum(), 2 * (real.mean(0) @ weight) ** 2, atol=1e-5)


def test_steps_are_doubled_while_something_is_missing():
    class Step(Square):
        def forward(self, states: States) -> torch.Tensor:
            means = torch.stack([row.mean(0) for row in states.last.split(states.lengths)])
            steep = torch.sigmoid(3000 * (means @ self.weight - self.middle))  # hardly any place sees it rise
            return torch.stack((torch.zeros(len(means)), steep), 1)

    head = Step(torch.tensor([0.7, -1.1, 2.0]))
    model, table = bag(head)
    hidden = np.where(INSIDE[:, None], table[2], table[ROW])
    weight = head.weight.detach().double().numpy()
    head.middle = float((0.6 * table[ROW].mean(0) + 0.4 * hidden.mean(0)) @ weight)
    attribution = found(model, "integrated")
    assert attribution.steps is not None
    assert INITIAL_STEPS < attribution.steps <= MAX_STEPS


# -- against the network itself, by another way: its answers, with an embedding that is changed from outside


def log_odds(run: Run, inputs: dict[str, torch.Tensor], label: int, change) -> float:
    hook = run.network.encoder.embedding.register_forward_hook(lambda module, given, output: change(output))
    try:
        with torch.no_grad():
            logits = run.network.logits(inputs)["label"][0].double() / run.task.temperature  # pyright: ignore
    finally:
        hook.remove()
    return float(logits[label] - torch.cat((logits[:label], logits[label + 1 :])).logsumexp(0))


def test_gradients_and_their_integral_agree_with_differences(runs: Runs):
    run = runs("bert")
    task, tokenizer = run.task, run.tokenizer
    assert task is not None
    rows = task.encode([LabeledExample((SAID,))], tokenizer, run.folder.spec.input_format(tokenizer))
    inputs = {name: torch.from_numpy(array) for name, array in rows.make_batch([0]).inputs.items()}
    pieces = tokenizer.encode(SAID)
    told = attribute(run, SAID, method="gradients")
    label = task.labels.index(told.target)  # pyright: ignore[reportAttributeAccessIssue]
    at = next(word for word in told.words if word.text == "splendid")
    own = [n + 1 for n, (a, b) in enumerate(pieces.spans) if at.start <= a < at.end]  # [CLS] stands before

    def scaled(by: float):
        def change(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            x[own] *= by
            return x

        return log_odds(run, inputs, label, change)

    assert at.attribution == pytest.approx((scaled(1.01) - scaled(0.99)) / 0.02, rel=0.02)
    assert told.score == pytest.approx(scaled(1.0), abs=1e-4)

    # Integrated gradients of all words together: along the straight way, by small differences.
    told = attribute(run, SAID)
    hidden = inputs["tokens"].clone()
    hidden[1:-1] = tokenizer.special_roles["mask"]
    embedding = run.network.encoder.embedding
    with torch.no_grad():
        ends = [embedding(tokens, (len(hidden),), inputs["segments"]) for tokens in (hidden, inputs["tokens"])]
    assert told.baseline == pytest.approx(log_odds(run, inputs, label, lambda x: ends[0]), abs=1e-4)
    steps, little, total = 60, 1e-2, 0.0
    for number in range(steps):
        x = ends[0] + (number + 0.5) / steps * (ends[1] - ends[0])
        moved = torch.zeros_like(x)
        moved[own] = (ends[1] - ends[0])[own]
        sides = [log_odds(run, inputs, label, lambda _, x=x, m=moved, s=s: x + s * little * m) for s in (1, -1)]
        total += (sides[0] - sides[1]) / (2 * little) / steps
    assert next(word for word in told.words if word.text == "splendid").attribution == pytest.approx(total, rel=0.02)
