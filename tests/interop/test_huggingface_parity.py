"""Parity with transformers where it is not installed: against stored logits (make_huggingface_fixtures.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from forebear.interop.hf_architectures import ARCHITECTURES
from forebear.interop.huggingface import ImportedCheckpoint, read_huggingface
from forebear.nn.model import Model
from hf_peers import Rows, build_model, model_gradients, model_outputs

FIXTURES = Path(__file__).parent / "fixtures"
VOCABULARY, LENGTHS = 17, (5, 3, 8)


def load_fixture(model_name: str) -> tuple[ImportedCheckpoint, Model, Rows, dict[str, Any]]:
    checkpoint = read_huggingface(FIXTURES / model_name)
    expected = load_file(FIXTURES / model_name / "expected.safetensors")
    rows = Rows(expected["tokens"], expected["segments"], LENGTHS, expected["asked"], expected["pairs"])
    model = (
        build_model(checkpoint.model, checkpoint.fields, VOCABULARY)
        .with_heads(checkpoint.heads)
        .load(checkpoint.tensors)
    )
    return checkpoint, model, rows, expected


@pytest.mark.parametrize("model_name", ARCHITECTURES)
def test_imported_fixture_gives_the_stored_logits_of_transformers(model_name: str):
    checkpoint, model, rows, expected = load_fixture(model_name)
    assert (checkpoint.model, checkpoint.report.skipped_tensors, checkpoint.report.missing) == (model_name, {}, {})
    logits = model_outputs(model.eval(), rows, checkpoint.heads)
    assert {f"logits/{head}" for head in logits} == {name for name in expected if name.startswith("logits/")}
    for head, value in logits.items():
        torch.testing.assert_close(value, expected[f"logits/{head}"], rtol=0, atol=1e-4)
        single_row_logits = [
            model_outputs(model, rows.single(row), checkpoint.heads)[head] for row in range(len(LENGTHS))
        ]
        torch.testing.assert_close(torch.cat(single_row_logits), expected[f"logits/{head}"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("model_name", ARCHITECTURES)
def test_imported_fixture_gives_the_stored_gradients_of_transformers(model_name: str):
    _, model, rows, stored = load_fixture(model_name)
    gradients = model_gradients(model, model_name, rows, num_offset_rows=2 if model_name == "roberta" else 0, depth=2)
    expected = {name.removeprefix("pull/"): value for name, value in stored.items() if name.startswith("pull/")}
    assert len(expected) >= 6
    for name, value in expected.items():
        torch.testing.assert_close(gradients[name], value, rtol=0, atol=1e-4, msg=name)
