"""torch.compile on request: equal outputs, and a clear error where it cannot work."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from forebear.errors import ForebearError, InputError
from forebear.nn.encode_rows import compile_blocks
from forebear.nn.model import Model
from hf_peers import Rows, build_model, model_inputs


def test_compiled_blocks_give_equal_outputs(monkeypatch: pytest.MonkeyPatch):
    """The compiler only counts calls: torch's own takes minutes."""
    model, rows, called = (
        build_model("bert", {"width": 24, "depth": 2, "heads": 3, "context": 20}).initialize(1).eval(),
        Rows.random(),
        [],
    )

    def compiler(function, *, dynamic):
        assert dynamic
        assert os.environ["PYTHONSAFEPATH"] == "1"  # for the compiler's child processes
        return lambda x: called.append(len(x)) or function(x)

    monkeypatch.setattr(torch, "compile", compiler)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with torch.inference_mode():
        before = model.encoder(**model_inputs(model, rows)).last
        compile_blocks(model)
        assert len(called) == 2  # each block was called once to compile it
        after = model.encoder(**model_inputs(model, rows)).last
    assert called[2:] == [len(rows.tokens)] * 2
    assert torch.equal(before, after)
    assert "PYTHONSAFEPATH" not in os.environ


def test_missing_compiler_and_other_networks_are_reported(monkeypatch: pytest.MonkeyPatch):
    def broken(function, *, dynamic):
        def fail(x):
            raise RuntimeError("InvalidCxxCompiler: no working compiler\nand much more")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    model = build_model("gpt2", {"width": 24, "depth": 1, "heads": 3, "context": 20}).initialize(1)
    with pytest.raises(ForebearError, match="cannot compile the network here: InvalidCxx") as caught:
        compile_blocks(model)
    assert "--compile" in caught.value.hint
    with pytest.raises(InputError, match="only a Transformer"):
        compile_blocks(Model(nn.Identity(), {}))
