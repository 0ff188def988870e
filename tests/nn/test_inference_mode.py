"""Inference mode records no gradients inside and restores them afterwards, whenever an interrupt arrives."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
import torch

from forebear.nn.inference_mode import in_inference_mode, inference_mode


@in_inference_mode
def nested_product(x: torch.Tensor) -> torch.Tensor:
    with inference_mode():
        y = x @ x
    with inference_mode(False):
        return y.clone() + 1


def interrupt_after(events: int) -> bool:
    """Whether KeyboardInterrupt was raised after that many calls and returns, where Python handles signals."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_return")  # not c_call: no signal is handled just before a native function
        if count > events:
            sys.setprofile(None)
            raise KeyboardInterrupt

    x = torch.ones(2, 2)
    try:
        sys.setprofile(profile)
        nested_product(x)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_gradient_mode_is_restored_after_an_interrupt_at_any_call():
    events = 0
    while interrupt_after(events):
        assert torch.is_grad_enabled(), f"after {events} events"
        assert not torch.is_inference_mode_enabled(), f"after {events} events"
        events += 1
    assert events > 4


def test_inference_mode_records_no_gradients_and_false_records_them():
    weight = torch.ones(2, 2, requires_grad=True)
    with inference_mode():
        assert not (weight @ weight).requires_grad
        with inference_mode(False):
            assert (weight @ weight).requires_grad
    assert nested_product(weight).shape == (2, 2)


def test_inference_mode_is_restored_after_an_error():
    @in_inference_mode
    def fail() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
