"""The fused AdamW equals torch's, step for step and bit for bit."""

from __future__ import annotations

import torch

from forebear.training.gradient_learner import AdamW


def parameters() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shapes = {"matrix": (7, 5), "bias": (5,), "still": (3, 3)}
    return {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


def test_adamw_equals_torch_bit_for_bit():
    parameters_ours, parameters_torch = parameters(), parameters()
    optimizer = AdamW(parameters_ours, weight_decay=0.1, beta2=0.95)
    groups = [
        {"params": [parameters_torch["matrix"], parameters_torch["still"]], "weight_decay": 0.1},
        {"params": [parameters_torch["bias"]], "weight_decay": 0.0},
    ]
    torch_optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), fused=True)
    for step in range(5):
        for name in ("matrix", "bias"):
            gradient = torch.randn(parameters_ours[name].shape, generator=torch.Generator().manual_seed(step))
            parameters_ours[name].grad, parameters_torch[name].grad = gradient.clone(), gradient.clone()
        optimizer.step(1e-2)
        torch_optimizer.step()
    for name in parameters_ours:
        assert torch.equal(parameters_ours[name], parameters_torch[name])


def test_adamw_load_names_missing_and_misshapen_tensors():
    optimizer, restored = AdamW(parameters(), weight_decay=0, beta2=0.9), AdamW(parameters(), weight_decay=0, beta2=0.9)
    optimizer.parameters["matrix"].grad = torch.ones(7, 5)
    optimizer.step(0.1)
    state = {name: tensor.clone() for name, tensor in optimizer.state_tensors().items()}
    assert restored.load({name: tensor for name, tensor in state.items() if name != "exp_avg.bias"}) == ["exp_avg.bias"]
    assert restored.load(state | {"exp_avg.bias": torch.zeros(4)}) == ["exp_avg.bias"]
    assert not restored.state["exp_avg"]["matrix"].any()
    assert restored.load(state) == []
    assert torch.equal(restored.state["exp_avg"]["matrix"], optimizer.state["exp_avg"]["matrix"])
