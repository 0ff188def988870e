"""ONNX files: ONNX Runtime says of padded batches what transformers says of the same weights, and the run itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from task_peers import run_for, tokenizers_for_all

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.run import Run
from forebear.interop import onnx
from small_runs import opened

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def cutters() -> dict[str, Tokenizer]:
    return tokenizers_for_all()


def batch(vocabulary: int, segments: int, rows: int = 3, length: int = 9) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    ends = np.array([length, *rng.integers(1, length, rows - 1)])
    made = {"input_ids": rng.integers(0, vocabulary, (rows, length))}
    made["attention_mask"] = (np.arange(length) < ends[:, None]).astype(np.int64)
    if segments:
        made["token_type_ids"] = np.sort(rng.integers(0, segments, (rows, length)), axis=1)
    return made


def answered(file: Path, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == list(given)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("milestone", "kind", "names"),
    [
        ("bert", "BertForPreTraining", {"token_logits": "prediction_logits", "pair_logits": "seq_relationship_logits"}),
        ("gpt2", "GPT2LMHeadModel", {"logits": "logits"}),
    ],
)
def test_what_transformers_says_of_the_same_weights(
    milestone: str, kind: str, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    run = opened(milestone, tmp_path, steps=5)
    run.export(tmp_path / "theirs")
    run.export(tmp_path / "run.onnx", format="onnx")
    model = getattr(transformers, kind).from_pretrained(tmp_path / "theirs").eval()
    for rows, length in ((1, 4), (4, 11)):
        given = batch(run.tokenizer.vocab_size, 2 if milestone == "bert" else 0, rows, length)
        with torch.inference_mode():
            theirs = model(**{name: torch.from_numpy(value) for name, value in given.items()})
        found, inside = answered(tmp_path / "run.onnx", given), given["attention_mask"].astype(bool)
        for name, other in names.items():
            places: Any = slice(None) if name == "pair_logits" else inside
            assert found[name][places] == pytest.approx(theirs[other].numpy()[places], abs=1e-4), name


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("milestone", "task", "how"),
    [
        ("albert", "one", "features"),
        ("gpt", "choice", "finetune"),
        ("bert", "tagging", "finetune"),
        ("bert", "number", "finetune"),
    ],
)
def test_adapted_runs_say_what_they_do(
    milestone: str, task: str, how: str, cutters: dict[str, Tokenizer], tmp_path: Path
):
    run = run_for(milestone, task, cutters[milestone], tmp_path / "run", how=how)
    run.export(tmp_path / "task.onnx", format="onnx")
    (note,) = [note for note in run.notes if "ONNX Runtime" in note]
    assert "differ by" in note
    told = json.loads((tmp_path / "task.json").read_text())
    assert told["task"] == json.loads(json.dumps(run.task.to_dict()))  # pyright: ignore[reportOptionalMemberAccess]
    assert told["largest_difference"] < 1e-4
    assert set(told["outputs"]) == {"last_hidden_state", "logits"}
    same = Tokenizer.load(tmp_path / told["tokenizer"])
    assert same.encode("the cat 北京").ids.tolist() == run.tokenizer.encode("the cat 北京").ids.tolist()
    found = answered(tmp_path / "task.onnx", batch(run.tokenizer.vocab_size, 2 if milestone != "gpt" else 0))
    assert found["logits"].shape == {"one": (3, 3), "choice": (3,), "tagging": (3, 9, 5), "number": (3, 1)}[task]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "task.json", "task.onnx", "task.tokenizer.json"]


@pytest.fixture
def run(cutters: dict[str, Tokenizer], tmp_path: Path) -> Run:
    return run_for("bert", "one", cutters["bert"], tmp_path / "run")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_differs_gets_no_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx, "MAX_RELATIVE_DIFFERENCE", -1.0)
    with pytest.raises(ForebearError, match="differs by"):
        run.export(tmp_path / "task.onnx", format="onnx")
    assert left(tmp_path) == ["run"]


def test_what_cannot_be_is_refused_before_any_work(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
    assert left(tmp_path) == ["run", "task.json"]
