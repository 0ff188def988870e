"""PaddedModel gives what unpadded batches give: every model, every head, any amount of padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from forebear.errors import InputError
from forebear.interop.onnx import PaddedModel
from forebear.nn.heads import PoolerHead
from forebear.nn.model import Model
from forebear.objectives.input_format import InputFormat
from forebear.tasks.task import task_from_json
from forebear.training.adaptation import Adaptation
from hf_peers import Rows, build_model, model_inputs
from small_runs import TRANSFORMER_MODELS

SMALL_MODEL = {"width": 24, "depth": 2, "heads": 3, "context": 20}
TASKS: dict[str, dict[str, Any]] = {
    "label": {"name": "classification", "labels": ("a", "b", "c"), "kind": "one"},
    "tag": {"name": "tagging", "tags": ("O", "B-X", "I-X", "E-X", "S-X"), "characters": True},
    "place": {"name": "answering", "longest": 7},
    "choice": {"name": "choice"},
}


def with_large_weights(model: Model) -> Model:
    """With weights so large that every one affects the outputs."""
    model.initialize(3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(6).add_(0.1 * torch.randn(value.shape, generator=generator))
    return model.eval()


@torch.inference_mode()
def assert_padding_has_no_effect(model: Model, extra_padding: int = 0) -> None:
    segment_embedding: Any = model.encoder.embedding.segment  # pyright: ignore[reportAttributeAccessIssue]
    rows = Rows.random(segments=1 if segment_embedding is None else segment_embedding.num_embeddings)
    inputs, mask = rows.padded(), rows.padded()["attention_mask"].bool()
    if extra_padding:  # padding is random tokens, and longer than any row needs
        noise = torch.randint(5, 30, (len(mask), extra_padding), generator=torch.Generator().manual_seed(1))
        inputs["input_ids"] = torch.cat((inputs["input_ids"].where(mask, torch.tensor(7)), noise), 1)
        inputs["token_type_ids"] = torch.nn.functional.pad(inputs["token_type_ids"], (0, extra_padding))
        inputs["attention_mask"] = torch.nn.functional.pad(inputs["attention_mask"], (0, extra_padding))
        mask = inputs["attention_mask"].bool()
    padded = PaddedModel(model).eval()
    padded_outputs = dict(zip(padded.outputs, padded(*(inputs[name] for name in padded.inputs)), strict=True))
    states = model.encoder(**model_inputs(model, rows))
    expected = {"last_hidden_state": states.last}
    single = len(model.heads) == 1
    expected |= {"logits" if single else f"{name}_logits": head(states) for name, head in model.heads.items()}
    assert set(padded_outputs) == set(expected)
    for name, value in expected.items():
        unpadded = padded_outputs[name][mask] if len(value) == len(rows.tokens) else padded_outputs[name]
        assert unpadded.shape == value.shape, name
        assert (unpadded - value).abs().max() < 5e-5 * max(1, value.abs().max()), name


@pytest.mark.parametrize("extra_padding", [0, 5])
@pytest.mark.parametrize("name", TRANSFORMER_MODELS)
def test_padded_model_equals_unpadded_for_every_model(name: str, extra_padding: int):
    assert_padding_has_no_effect(
        with_large_weights(build_model(name, SMALL_MODEL | ({"table": 10} if name == "albert" else {}))), extra_padding
    )


@pytest.mark.parametrize("how", ["finetune", "features"])  # features mix all layers
@pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
@pytest.mark.parametrize("task", TASKS)
def test_padded_model_equals_unpadded_for_every_task_head_and_pooling(task: str, pooling: Any, how: Any):
    model = build_model("bert", SMALL_MODEL)
    adapted = Adaptation(how=how).build_model(
        model, task_from_json(TASKS[task]), InputFormat((0,), (2,), (2,), pooling=pooling, segments=True)
    )
    assert_padding_has_no_effect(with_large_weights(adapted), 3)


def test_padded_model_refuses_other_encoders_and_unknown_heads():
    model = build_model("bert", SMALL_MODEL)
    with pytest.raises(InputError, match="only a Transformer"):
        PaddedModel(Model(PoolerHead(4, 2), {}))
    model_with_unknown_head = PaddedModel(with_large_weights(Model(model.encoder, {"strange": torch.nn.Identity()})))
    with pytest.raises(InputError, match="Identity"):
        model_with_unknown_head(torch.ones(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64))
