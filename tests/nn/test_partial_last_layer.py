"""The last layer computed at supervised positions only gives the losses and gradients of the full layer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forebear.nn import model as models
from forebear.nn.model import Model
from forebear.registry import model_spec

FIELDS = {"width": 24, "depth": 3, "heads": 4, "context": 32}


def network(name: str, **fields: Any) -> Model:
    tokenizer: Any = SimpleNamespace(vocab_size=50)
    model = model_spec(name)(**FIELDS, **fields).build(tokenizer).initialize(1)
    torch.manual_seed(2)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1 * torch.randn_like(value))
    return model


def batch(lengths: list[int], supervised: list[int], pairs: list[int] | None) -> tuple[dict, dict]:
    generator = torch.Generator().manual_seed(3)
    total = sum(lengths)
    inputs = {"tokens": torch.randint(0, 50, (total,), generator=generator), "lengths": torch.tensor(lengths)}
    target = torch.full((total,), -1)
    target[supervised] = torch.randint(0, 50, (len(supervised),), generator=generator)
    return inputs, {"token": target} | ({} if pairs is None else {"pair": torch.tensor(pairs)})


def losses_and_gradients(model: Model, inputs: dict, targets: dict) -> tuple[dict, dict]:
    model.zero_grad()
    losses = model(inputs, targets)
    torch.stack(list(losses.values())).sum().backward()
    gradients = ((name, parameter, parameter.grad) for name, parameter in model.named_parameters())
    return losses, {name: torch.zeros_like(parameter) if grad is None else grad for name, parameter, grad in gradients}


@pytest.mark.parametrize("name", ["bert", "albert", "ernie", "roberta"])
@pytest.mark.parametrize(
    ("lengths", "supervised"),
    [([9, 9, 5, 1, 12], [2, 3, 17, 30]), ([20], [0]), ([7, 8], []), ([4, 4, 4, 30], [41, 40, 12])],
)
def test_partial_last_layer_gives_losses_and_gradients_of_full_layer(
    name: str, lengths: list[int], supervised: list[int], monkeypatch: pytest.MonkeyPatch
):
    pairs = None if name == "roberta" else [n % 3 - 1 for n in range(len(lengths))]
    model = network(name, **({"table": 12} if name == "albert" else {}))
    inputs, targets = batch(lengths, sorted(supervised), pairs)
    is_partial = []
    monkeypatch.setattr(model.encoder, "forward", _recording_forward(model.encoder.forward, is_partial))
    partial = losses_and_gradients(model, inputs, targets)
    monkeypatch.setattr(models, "MAX_PARTIAL_FRACTION", 0.0)
    full = losses_and_gradients(model, inputs, targets)
    assert is_partial == [True, False]
    for loss in partial[0]:
        torch.testing.assert_close(partial[0][loss], full[0][loss], rtol=1e-5, atol=1e-5)
    for tensor, gradient in full[1].items():
        torch.testing.assert_close(partial[1][tensor], gradient, rtol=1e-3, atol=1e-4)


def _recording_forward(forward: Any, is_partial: list[bool]) -> Any:
    def recording(*arguments: Any, **options: Any):
        is_partial.append(options["positions"] is not None)
        return forward(*arguments, **options)

    return recording
