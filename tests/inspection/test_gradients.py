"""Gradient × input and integrated gradients: exact on linear and quadratic networks, finite differences on BERT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cue_word_runs import ENGLISH_TEXT, RunCache
from forebear.data.labeled.examples import LabeledExample
from forebear.inference.run import Run
from forebear.inspection.attribution import attribute
from forebear.inspection.attribution_targets import AttributionTarget, TargetOutput, log_odds
from forebear.inspection.gradients import INITIAL_STEPS, MAX_STEPS, TokenAttribution, integrated_gradients
from forebear.nn.embedding import InputEmbedding
from forebear.nn.encoder import States
from forebear.nn.heads import LabelHead
from forebear.nn.model import Model


class EmbeddingEncoder(torch.nn.Module):
    """An encoder that only embeds its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.width, self.depth = InputEmbedding(7, 3, positions=8, placing="none"), 3, 0

    def forward(self, tokens, lengths, segments=None, positions=None) -> States:
        rows = tuple(lengths.tolist())
        return States([self.embedding(tokens, rows)], rows)


class SquareHead(torch.nn.Module):
    """Two logits per sequence: 0 and (w · mean)²."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, states: States) -> torch.Tensor:
        means = torch.stack([row.mean(0) for row in states.last.split(states.lengths)])
        return torch.stack((torch.zeros(len(means)), (means @ self.weight) ** 2), 1)

    def supervised_positions(self, lengths, target) -> None:
        return None


LABEL_TARGET = AttributionTarget(
    "yes", "yes", 0.5, lambda out: log_odds(out["label"][:, 0], 1), (TargetOutput("label", 0, 1),)
)
TOKEN_IDS, TEXT_MASK = np.array([0, 3, 4, 4, 1]), np.array([False, True, True, True, False])


def attribution_of(model: Model, method: str, baseline_token: int | None = 2) -> TokenAttribution:
    inputs = {"tokens": TOKEN_IDS, "lengths": np.array([len(TOKEN_IDS)])}
    return integrated_gradients(model, inputs, LABEL_TARGET, TEXT_MASK, baseline_token, method)  # pyright: ignore[reportArgumentType]


def embedding_model(head: torch.nn.Module) -> tuple[Model, np.ndarray]:
    model = Model(EmbeddingEncoder(), {"label": head}).initialize(3)
    model.encoder.embedding.token.weight = torch.nn.Parameter(torch.randn(7, 3, generator=torch.manual_seed(1)))
    return model, model.encoder.embedding.token.weight.detach().double().numpy()


def test_gradients_and_integrated_gradients_are_exact_on_linear_model():
    model, table = embedding_model(LabelHead(3, 2, "mean", dense=False))
    projection: Any = model.heads["label"].choose
    projection.weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]))
    projection.bias = torch.nn.Parameter(torch.tensor([0.3, -0.1]))
    weight_difference = np.array([-0.75, 5.0, -1.5])  # difference of the two rows of weights
    expected = table[TOKEN_IDS] @ weight_difference / 5
    gradients = attribution_of(model, "gradients")
    np.testing.assert_allclose(gradients.values, expected, atol=1e-6)
    assert gradients.score == pytest.approx(expected.sum() - 0.4, abs=1e-6)
    integrated = attribution_of(model, "integrated")
    np.testing.assert_allclose(
        integrated.values, np.where(TEXT_MASK, (table[TOKEN_IDS] - table[2]) @ weight_difference / 5, 0), atol=1e-6
    )
    assert integrated.steps == INITIAL_STEPS
    from_zeros = attribution_of(model, "integrated", baseline_token=None)
    np.testing.assert_allclose(from_zeros.values, np.where(TEXT_MASK, expected, 0), atol=1e-6)


def test_integrated_gradients_are_complete_on_quadratic_model_and_gradients_are_not():
    """The integral of the gradient along the line from x' to x: (w·x + w·x') · w (x - x')."""
    weight = np.array([0.7, -1.1, 2.0])
    model, table = embedding_model(SquareHead(torch.tensor(weight, dtype=torch.float32)))
    model.heads["label"].weight = torch.nn.Parameter(torch.tensor(weight, dtype=torch.float32))
    inputs, baseline = table[TOKEN_IDS], np.where(TEXT_MASK[:, None], table[2], table[TOKEN_IDS])
    expected = (inputs.mean(0) + baseline.mean(0)) @ weight * ((inputs - baseline) @ weight) / 5
    integrated = attribution_of(model, "integrated")
    np.testing.assert_allclose(integrated.values, expected, atol=1e-5)
    gain = (inputs.mean(0) @ weight) ** 2 - (baseline.mean(0) @ weight) ** 2
    assert integrated.score - (integrated.baseline or 0) == pytest.approx(gain, abs=1e-5)
    np.testing.assert_allclose(
        attribution_of(model, "gradients").values.sum(), 2 * (inputs.mean(0) @ weight) ** 2, atol=1e-5
    )


def test_integrated_gradients_double_their_steps_until_the_gap_closes():
    class StepHead(SquareHead):
        def forward(self, states: States) -> torch.Tensor:
            means = torch.stack([row.mean(0) for row in states.last.split(states.lengths)])
            step = torch.sigmoid(3000 * (means @ self.weight - self.middle))  # so steep that few steps sample the rise
            return torch.stack((torch.zeros(len(means)), step), 1)

    head = StepHead(torch.tensor([0.7, -1.1, 2.0]))
    model, table = embedding_model(head)
    baseline = np.where(TEXT_MASK[:, None], table[2], table[TOKEN_IDS])
    weight = head.weight.detach().double().numpy()
    head.middle = float((0.6 * table[TOKEN_IDS].mean(0) + 0.4 * baseline.mean(0)) @ weight)
    attribution = attribution_of(model, "integrated")
    assert attribution.steps is not None
    assert INITIAL_STEPS < attribution.steps <= MAX_STEPS


# -- finite differences: the network's own logits with a hook that changes the embedding


def run_log_odds(run: Run, inputs: dict[str, torch.Tensor], label: int, change) -> float:
    hook = run.network.encoder.embedding.register_forward_hook(lambda module, inputs_of_module, output: change(output))
    try:
        with torch.no_grad():
            logits = run.network.logits(inputs)["label"][0].double() / run.task.temperature  # pyright: ignore
    finally:
        hook.remove()
    return float(logits[label] - torch.cat((logits[:label], logits[label + 1 :])).logsumexp(0))


def test_bert_gradients_and_integrated_gradients_match_finite_differences(runs: RunCache):
    run = runs("bert")
    task, tokenizer = run.task, run.tokenizer
    assert task is not None
    rows = task.encode([LabeledExample((ENGLISH_TEXT,))], tokenizer, run.folder.spec.input_format(tokenizer))
    inputs = {name: torch.from_numpy(array) for name, array in rows.make_batch([0]).inputs.items()}
    encoding = tokenizer.encode(ENGLISH_TEXT)
    attribution = attribute(run, ENGLISH_TEXT, method="gradients")
    label = task.labels.index(attribution.target)  # pyright: ignore[reportAttributeAccessIssue]
    word = next(each_word for each_word in attribution.words if each_word.text == "splendid")
    # [CLS] precedes
    positions = [index + 1 for index, (start, end) in enumerate(encoding.spans) if word.start <= start < word.end]

    def scaled(factor: float):
        def change(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            x[positions] *= factor
            return x

        return run_log_odds(run, inputs, label, change)

    assert word.attribution == pytest.approx((scaled(1.01) - scaled(0.99)) / 0.02, rel=0.02)
    assert attribution.score == pytest.approx(scaled(1.0), abs=1e-4)

    # Integrated gradients along the straight path, by central differences.
    attribution = attribute(run, ENGLISH_TEXT)
    hidden = inputs["tokens"].clone()
    hidden[1:-1] = tokenizer.special_roles["mask"]
    embedding = run.network.encoder.embedding
    with torch.no_grad():
        endpoints = [embedding(tokens, (len(hidden),), inputs["segments"]) for tokens in (hidden, inputs["tokens"])]
    assert attribution.baseline == pytest.approx(run_log_odds(run, inputs, label, lambda x: endpoints[0]), abs=1e-4)
    steps, epsilon, total = 60, 1e-2, 0.0
    for number in range(steps):
        x = endpoints[0] + (number + 0.5) / steps * (endpoints[1] - endpoints[0])
        direction = torch.zeros_like(x)
        direction[positions] = (endpoints[1] - endpoints[0])[positions]
        scores = [
            run_log_odds(run, inputs, label, lambda _, x=x, m=direction, s=s: x + s * epsilon * m) for s in (1, -1)
        ]
        total += (scores[0] - scores[1]) / (2 * epsilon) / steps
    assert next(
        each_word for each_word in attribution.words if each_word.text == "splendid"
    ).attribution == pytest.approx(total, rel=0.02)
