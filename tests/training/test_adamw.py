"""The fused optimiser is torch's own, step for step, bit for bit."""

from __future__ import annotations

import torch

from forebear.training.gradient import AdamW


def parameters() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shapes = {"matrix": (7, 5), "bias": (5,), "still": (3, 3)}
    return {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


def test_it_is_torchs_own():
    ours, theirs = parameters(), parameters()
    mine = AdamW(ours, weight_decay=0.1, beta2=0.95)
    groups = [
        {"params": [theirs["matrix"], theirs["still"]], "weight_decay": 0.1},
        {"params": [theirs["bias"]], "weight_decay": 0.0},
    ]
    other = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), fused=True)
    for step in range(5):
        for name in ("matrix", "bias"):
            gradient = torch.randn(ours[name].shape, generator=torch.Generator().manual_seed(step))
            ours[name].grad, theirs[name].grad = gradient.clone(), gradient.clone()
        mine.step(1e-2)
        other.step()
    for name in ours:
        assert torch.equal(ours[name], theirs[name])


def test_what_it_remembers_is_taken_strictly():
    one, other = AdamW(parameters(), weight_decay=0, beta2=0.9), AdamW(parameters(), weight_decay=0, beta2=0.9)
    one.parameters["matrix"].grad = torch.ones(7, 5)
    one.step(0.1)
    told = {name: tensor.clone() for name, tensor in one.state_tensors().items()}
    assert other.load({name: tensor for name, tensor in told.items() if name != "exp_avg.bias"}) == ["exp_avg.bias"]
    assert other.load(told | {"exp_avg.bias": torch.zeros(4)}) == ["exp_avg.bias"]
    assert not other.state["exp_avg"]["matrix"].any()
    assert other.load(told) == []
    assert torch.equal(other.state["exp_avg"]["matrix"], one.state["exp_avg"]["matrix"])
