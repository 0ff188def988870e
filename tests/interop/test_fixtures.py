"""Parity with transformers where it is not installed: against what it once answered (make_fixtures.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from forebear.interop.huggingface import ForeignCheckpoint, read_huggingface
from forebear.interop.tensor_names import ARCHITECTURES
from forebear.nn.model import Model
from peers import Rows, model_of, our_answers, our_pulls

FIXTURES = Path(__file__).parent / "fixtures"
VOCABULARY, LENGTHS = 17, (5, 3, 8)


def opened(milestone: str) -> tuple[ForeignCheckpoint, Model, Rows, dict[str, Any]]:
    found = read_huggingface(FIXTURES / milestone)
    held = load_file(FIXTURES / milestone / "expected.safetensors")
    rows = Rows(held["tokens"], held["segments"], LENGTHS, held["asked"], held["pairs"])
    model = model_of(found.model, found.fields, VOCABULARY).with_heads(found.heads).load(found.tensors)
    return found, model, rows, held


@pytest.mark.parametrize("milestone", ARCHITECTURES)
def test_logits(milestone: str):
    found, model, rows, held = opened(milestone)
    assert (found.model, found.report.skipped_tensors, found.report.missing) == (milestone, {}, {})
    answers = our_answers(model.eval(), rows, found.heads)
    assert {f"logits/{head}" for head in answers} == {name for name in held if name.startswith("logits/")}
    for head, value in answers.items():
        torch.testing.assert_close(value, held[f"logits/{head}"], rtol=0, atol=1e-4)
        alone = [our_answers(model, rows.one(row), found.heads)[head] for row in range(len(LENGTHS))]
        torch.testing.assert_close(torch.cat(alone), held[f"logits/{head}"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("milestone", ARCHITECTURES)
def test_gradients(milestone: str):
    _, model, rows, held = opened(milestone)
    pulls = our_pulls(model, milestone, rows, before=2 if milestone == "roberta" else 0, depth=2)
    wanted = {name.removeprefix("pull/"): value for name, value in held.items() if name.startswith("pull/")}
    assert len(wanted) >= 6
    for name, value in wanted.items():
        torch.testing.assert_close(pulls[name], value, rtol=0, atol=1e-4, msg=name)
