"""torch's inference mode, which is always left when Ctrl-C interrupts the code inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_T = TypeVar("_T")


def inference_mode(enabled: bool = True) -> torch._C._InferenceMode:
    """A context without gradients; with False, one with gradients, even inside an inference mode.

    `torch.inference_mode` enters and leaves in Python functions. An interrupt at the beginning of the second one leaves
    the thread without gradients for good, and later training fails. This is the native context that torch wraps:
    no interrupt can arrive between its body and its exit.
    """
    return torch._C._InferenceMode(enabled)


def in_inference_mode(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function, run in inference mode."""

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with inference_mode():
            return function(*args, **kwargs)

    return run
