"""The last layer computed only where something is asked gives the losses and gradients of all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forebear.nn import model as models
from forebear.nn.model import Model
from forebear.registry import model_spec

FIELDS = {"width": 24, "depth": 3, "heads": 4, "context": 32}


def network(name: str, **more: Any) -> Model:
    tokenizer: Any = SimpleNamespace(vocab_size=50)
    made = model_spec(name)(**FIELDS, **more).build(tokenizer).initialize(1)
    torch.manual_seed(2)
    with torch.no_grad():
        for value in made.parameters():
            value.add_(0.1 * torch.randn_like(value))
    return made


def batch(lengths: list[int], asked: list[int], pairs: list[int] | None) -> tuple[dict, dict]:
    generator = torch.Generator().manual_seed(3)
    total = sum(lengths)
    inputs = {"tokens": torch.randint(0, 50, (total,), generator=generator), "lengths": torch.tensor(lengths)}
    target = torch.full((total,), -1)
    target[asked] = torch.randint(0, 50, (len(asked),), generator=generator)
    return inputs, {"token": target} | ({} if pairs is None else {"pair": torch.tensor(pairs)})


def losses_and_gradients(made: Model, inputs: dict, targets: dict) -> tuple[dict, dict]:
    made.zero_grad()
    losses = made(inputs, targets)
    torch.stack(list(losses.values())).sum().backward()
    found = ((name, one, one.grad) for name, one in made.named_parameters())
    return losses, {name: torch.zeros_like(one) if grad is None else grad for name, one, grad in found}


@pytest.mark.parametrize("name", ["bert", "albert", "ernie", "roberta"])
@pytest.mark.parametrize(
    ("lengths", "asked"),
    [([9, 9, 5, 1, 12], [2, 3, 17, 30]), ([20], [0]), ([7, 8], []), ([4, 4, 4, 30], [41, 40, 12])],
)
def test_nothing_changes(name: str, lengths: list[int], asked: list[int], monkeypatch: pytest.MonkeyPatch):
    pairs = None if name == "roberta" else [n % 3 - 1 for n in range(len(lengths))]
    made = network(name, **({"table": 12} if name == "albert" else {}))
    inputs, targets = batch(lengths, sorted(asked), pairs)
    seen = []
    monkeypatch.setattr(made.encoder, "forward", _watched(made.encoder.forward, seen))
    some = losses_and_gradients(made, inputs, targets)
    monkeypatch.setattr(models, "MAX_PARTIAL_SHARE", 0.0)
    whole = losses_and_gradients(made, inputs, targets)
    assert seen == [True, False]
    for loss in some[0]:
        torch.testing.assert_close(some[0][loss], whole[0][loss], rtol=1e-5, atol=1e-5)
    for tensor, gradient in whole[1].items():
        torch.testing.assert_close(some[1][tensor], gradient, rtol=1e-3, atol=1e-4)


def _watched(forward: Any, seen: list[bool]) -> Any:
    def watched(*given: Any, **more: Any):
        seen.append(more["positions"] is not None)
        return forward(*given, **more)

    return watched
