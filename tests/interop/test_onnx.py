"""ONNX files: ONNX Runtime gives on padded batches what transformers and the run itself give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_task_models import adapted_run, train_tokenizers_by_model

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.run import Run
from forebear.interop import onnx
from small_runs import open_small_run

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizers_by_model() -> dict[str, Tokenizer]:
    return train_tokenizers_by_model()


def random_batch(vocabulary: int, segments: int, rows: int = 3, length: int = 9) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    ends = np.array([length, *rng.integers(1, length, rows - 1)])
    inputs = {"input_ids": rng.integers(0, vocabulary, (rows, length))}
    inputs["attention_mask"] = (np.arange(length) < ends[:, None]).astype(np.int64)
    if segments:
        inputs["token_type_ids"] = np.sort(rng.integers(0, segments, (rows, length)), axis=1)
    return inputs


def run_onnx(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == list(inputs)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("model_name", "class_name", "names"),
    [
        ("bert", "BertForPreTraining", {"token_logits": "prediction_logits", "pair_logits": "seq_relationship_logits"}),
        ("gpt2", "GPT2LMHeadModel", {"logits": "logits"}),
    ],
)
def test_onnx_logits_equal_those_of_transformers(
    model_name: str, class_name: str, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    run = open_small_run(model_name, tmp_path, steps=5)
    run.export(tmp_path / "theirs")
    run.export(tmp_path / "run.onnx", format="onnx")
    model = getattr(transformers, class_name).from_pretrained(tmp_path / "theirs").eval()
    for rows, length in ((1, 4), (4, 11)):
        inputs = random_batch(run.tokenizer.vocab_size, 2 if model_name == "bert" else 0, rows, length)
        with torch.inference_mode():
            hf_outputs = model(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        outputs, mask = run_onnx(tmp_path / "run.onnx", inputs), inputs["attention_mask"].astype(bool)
        for name, hf_name in names.items():
            positions: Any = slice(None) if name == "pair_logits" else mask
            assert outputs[name][positions] == pytest.approx(hf_outputs[hf_name].numpy()[positions], abs=1e-4), name


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("model_name", "task", "adaptation"),
    [
        ("albert", "one", "features"),
        ("gpt", "choice", "finetune"),
        ("bert", "tagging", "finetune"),
        ("bert", "number", "finetune"),
    ],
)
def test_onnx_export_of_adapted_runs_describes_inputs_and_outputs(
    model_name: str, task: str, adaptation: str, tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    run = adapted_run(model_name, task, tokenizers_by_model[model_name], tmp_path / "run", how=adaptation)
    run.export(tmp_path / "task.onnx", format="onnx")
    (note,) = [note for note in run.notes if "ONNX Runtime" in note]
    assert "differ by" in note
    description = json.loads((tmp_path / "task.json").read_text())
    assert description["task"] == json.loads(json.dumps(run.task.to_dict()))  # pyright: ignore[reportOptionalMemberAccess]
    assert description["largest_difference"] < 1e-4
    assert set(description["outputs"]) == {"last_hidden_state", "logits"}
    tokenizer = Tokenizer.load(tmp_path / description["tokenizer"])
    assert tokenizer.encode("the cat 北京").ids.tolist() == run.tokenizer.encode("the cat 北京").ids.tolist()
    outputs = run_onnx(tmp_path / "task.onnx", random_batch(run.tokenizer.vocab_size, 2 if model_name != "gpt" else 0))
    assert outputs["logits"].shape == {"one": (3, 3), "choice": (3,), "tagging": (3, 9, 5), "number": (3, 1)}[task]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "task.json", "task.onnx", "task.tokenizer.json"]


@pytest.fixture
def run(tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path) -> Run:
    return adapted_run("bert", "one", tokenizers_by_model["bert"], tmp_path / "run")


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_onnx_file_with_different_logits_is_not_kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx, "MAX_RELATIVE_DIFFERENCE", -1.0)
    with pytest.raises(ForebearError, match="differs by"):
        run.export(tmp_path / "task.onnx", format="onnx")
    assert file_names(tmp_path) == ["run"]


def test_onnx_export_refuses_bad_name_existing_file_size_and_missing_extra(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(onnx, "_write_model", lambda *_: pytest.fail("it worked"))
    with pytest.raises(InputError, match="ONNX file's name"):
        run.export(tmp_path / "task.bin", format="onnx")
    (tmp_path / "task.json").touch()
    with pytest.raises(InputError, match="exists already"):
        run.export(tmp_path / "task.onnx", format="onnx")
    monkeypatch.setattr(onnx, "MAX_MODEL_BYTES", 1000)
    with pytest.raises(InputError, match="2 GB"):
        run.export(tmp_path / "other.onnx", format="onnx")
    monkeypatch.setattr(onnx, "find_spec", lambda name: None)
    with pytest.raises(ForebearError, match="not installed") as caught:
        run.export(tmp_path / "other.onnx", format="onnx")
    assert "forebear[onnx]" in caught.value.hint
    assert file_names(tmp_path) == ["run", "task.json"]
