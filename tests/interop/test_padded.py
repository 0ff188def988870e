"""Padded batches give what rows without padding give: every milestone, every head, any length behind the text."""

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
from peers import Rows, inputs_for, model_of
from small_runs import TRANSFORMERS

SMALL = {"width": 24, "depth": 2, "heads": 3, "context": 20}
TASKS: dict[str, dict[str, Any]] = {
    "label": {"name": "classification", "labels": ("a", "b", "c"), "kind": "one"},
    "tag": {"name": "tagging", "tags": ("O", "B-X", "I-X", "E-X", "S-X"), "characters": True},
    "place": {"name": "answering", "longest": 7},
    "choice": {"name": "choice"},
}


def drawn(model: Model) -> Model:
    """With values so large that every part matters."""
    model.initialize(3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(6).add_(0.1 * torch.randn(value.shape, generator=generator))
    return model.eval()


@torch.inference_mode()
def compared(model: Model, beyond: int = 0) -> None:
    table: Any = model.encoder.embedding.segment  # pyright: ignore[reportAttributeAccessIssue]
    rows = Rows.drawn(segments=1 if table is None else table.num_embeddings)
    given, mask = rows.padded(), rows.padded()["attention_mask"].bool()
    if beyond:  # padding is noise, and more of it than any row needs
        noise = torch.randint(5, 30, (len(mask), beyond), generator=torch.Generator().manual_seed(1))
        given["input_ids"] = torch.cat((given["input_ids"].where(mask, torch.tensor(7)), noise), 1)
        given["token_type_ids"] = torch.nn.functional.pad(given["token_type_ids"], (0, beyond))
        given["attention_mask"] = torch.nn.functional.pad(given["attention_mask"], (0, beyond))
        mask = given["attention_mask"].bool()
    padded = PaddedModel(model).eval()
    found = dict(zip(padded.outputs, padded(*(given[name] for name in padded.inputs)), strict=True))
    states = model.encoder(**inputs_for(model, rows))
    answers = {"last_hidden_state": states.last}
    single = len(model.heads) == 1
    answers |= {"logits" if single else f"{name}_logits": head(states) for name, head in model.heads.items()}
    assert set(found) == set(answers)
    for name, own in answers.items():
        other = found[name][mask] if len(own) == len(rows.tokens) else found[name]
        assert other.shape == own.shape, name
        assert (other - own).abs().max() < 5e-5 * max(1, own.abs().max()), name


@pytest.mark.parametrize("beyond", [0, 5])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_milestone(name: str, beyond: int):
    compared(drawn(model_of(name, SMALL | ({"table": 10} if name == "albert" else {}))), beyond)


@pytest.mark.parametrize("how", ["finetune", "features"])  # features read a mixture of all layers
@pytest.mark.parametrize("read", ["first", "last", "mean", "max"])
@pytest.mark.parametrize("task", TASKS)
def test_every_head_of_a_task(task: str, read: Any, how: Any):
    model = model_of("bert", SMALL)
    adapted = Adaptation(how=how).build_model(
        model, task_from_json(TASKS[task]), InputFormat((0,), (2,), (2,), pooling=read, segments=True)
    )
    compared(drawn(adapted), 3)


def test_what_is_unknown_is_refused():
    model = model_of("bert", SMALL)
    with pytest.raises(InputError, match="only a Transformer"):
        PaddedModel(Model(PoolerHead(4, 2), {}))
    strange = PaddedModel(drawn(Model(model.encoder, {"strange": torch.nn.Identity()})))
    with pytest.raises(InputError, match="Identity"):
        strange(torch.ones(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64))
