"""Adapted runs exported to transformers and imported again: same class, same tokens, same predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_task_models import (
    CLASSES,
    COMMON_TASKS,
    LINES,
    TASKS,
    TEXTS,
    adapted_run,
    examples_for,
    train_tokenizers_by_model,
)

from forebear.data.labeled.examples import LabeledExample, QuestionExample, TaggedExample
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.inference import task_predictions
from forebear.inference.run import Run
from forebear.interop import convert, hf_tasks
from forebear.tasks.task import predict_logits, task_from_json

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Models this small gain nothing from more threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizers_by_model() -> dict[str, Tokenizer]:
    return train_tokenizers_by_model()


def hf_inputs(hf_tokenizer: Any, example: Any, space_before_words: bool) -> Any:
    """An example encoded by the exported tokenizer; with `space_before_words`, words keep the space before them."""
    match example:
        case LabeledExample():
            return hf_tokenizer(*example.texts, return_tensors="pt")
        case TaggedExample():
            words = [f" {word}" if space_before_words and word == "cat" else word for word in example.words]
            return hf_tokenizer(words, is_split_into_words=True, return_tensors="pt")
        case QuestionExample():
            return hf_tokenizer(example.question, example.passage, return_tensors="pt")
    choice_inputs = [hf_tokenizer(example.text, choice) for choice in example.choices]
    return [{name: torch.tensor([value]) for name, value in encoding.items()} for encoding in choice_inputs]


def assert_same_predictions(run: Run, task_key: str, folder: Path, architecture: str) -> None:
    """transformers loads the folder with the right class, tokenizes alike and predicts alike."""
    hf_class = getattr(transformers, architecture)
    model, loading_info = hf_class.from_pretrained(folder, output_loading_info=True)
    assert not loading_info["missing_keys"]
    assert not loading_info["unexpected_keys"]
    assert not loading_info["mismatched_keys"]
    model.eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    task, examples = run.task, examples_for(task_key)
    assert task is not None
    rows = task.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    logits, answers = (
        predict_logits(run.network, rows),
        task.predictions(examples, rows, predict_logits(run.network, rows)),
    )
    for number, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        inputs = hf_inputs(hf_tokenizer, example, run.tokenizer.kind == "bytepair")
        input_rows = inputs if isinstance(inputs, list) else [inputs]
        row_starts = np.concatenate(([0], np.cumsum(rows.lengths)))
        for row, inputs_of_row in zip(rows.row_range(number), input_rows, strict=False):
            span = slice(row_starts[row], row_starts[row + 1])
            assert inputs_of_row["input_ids"][0].tolist() == rows.tokens[span].tolist()
            if "token_type_ids" in inputs_of_row:
                assert inputs_of_row["token_type_ids"][0].tolist() == rows.segments[span].tolist()
        if TASKS[task_key]["name"] == "choice":  # without a mask: GPT's class cannot take one with choices
            input_rows = [
                {k: value[None] for k, value in inputs_of_row.items() if k != "attention_mask"}
                for inputs_of_row in input_rows
            ]
        with torch.inference_mode():
            outputs = [model(**inputs_of_row) for inputs_of_row in input_rows]
        assert_same_outputs(
            task, example, answer, {head: values[number] for head, values in logits.items()}, outputs, model
        )


def assert_same_outputs(
    task: Any, example: Any, answer: Any, logits: dict[str, Any], outputs: list[Any], model: Any
) -> None:
    if task.name in ("classification", "pairs"):
        scores = outputs[0].logits[0]
        if task.kind == "number":
            assert float(scores[0]) == pytest.approx(answer.label, abs=1e-5)
            return
        torch.testing.assert_close(scores, torch.from_numpy(logits["label"]) / task.temperature, rtol=0, atol=1e-5)
        probabilities = scores.sigmoid() if task.kind == "several" else scores.softmax(0)
        assert list(answer.probabilities.values()) == pytest.approx(probabilities.tolist(), abs=1e-5)
        labels = [model.config.id2label[index] for index in range(len(probabilities))]
        assert tuple(labels) == task.labels
        if task.kind == "one":
            assert labels[int(probabilities.argmax())] == answer.label
    elif task.name == "tagging":
        torch.testing.assert_close(outputs[0].logits[0], torch.from_numpy(logits["tag"]), rtol=0, atol=1e-5)
        assert tuple(model.config.id2label.values()) == task.tags
    elif task.name == "answering":
        for head, hf_logits in (("start", outputs[0].start_logits), ("end", outputs[0].end_logits)):
            torch.testing.assert_close(hf_logits[0], torch.from_numpy(logits[head]), rtol=0, atol=1e-5)
    else:
        scores = torch.cat(
            [(output.mc_logits if "mc_logits" in output else output.logits).reshape(1) for output in outputs]
        )
        assert answer.probabilities == pytest.approx(tuple(scores.softmax(0).tolist()), abs=1e-5)
        assert int(scores.argmax()) == answer.choice


GRID = [(model_name, task) for model_name in hf_tasks.TASK_HEADS for task in COMMON_TASKS]
GRID += [
    (model_name, task)
    for model_name in ("gpt", "gpt2", "bert", "roberta")
    for task in TASKS
    if task not in COMMON_TASKS
]


@pytest.mark.sample(15)
@pytest.mark.parametrize(("model_name", "task"), GRID)
def test_exported_task_gives_the_same_predictions_in_transformers_and_back(
    model_name: str, task: str, tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    run = adapted_run(model_name, task, tokenizers_by_model[model_name], tmp_path / "run")
    task_name = TASKS[task]["name"]
    if model_name == "gpt" and task_name in ("tagging", "answering"):
        with pytest.raises(InputError, match=f"GPT of transformers has no class for {task_name}") as caught:
            run.export(tmp_path / "theirs")
        assert "classification, pairs, choice" in caught.value.hint
        assert not (tmp_path / "theirs").exists()
        return
    run.export(tmp_path / "theirs")
    (architecture,) = json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"]
    assert CLASSES[architecture][0] == model_name
    averages_both_orders = task == "unordered_pairs" and model_name in ("gpt", "gpt2")
    assert any("both orders" in note for note in run.notes) == averages_both_orders
    if not averages_both_orders:
        assert_same_predictions(run, task, tmp_path / "theirs", architecture)
    imported = Run(convert.import_model(str(tmp_path / "theirs"), str(tmp_path / "back")))
    baked_in = {"temperature": 1.0} if "temperature" in run.metadata["task"] else {}
    baked_in |= {"centre": 0.0, "spread": 1.0} if "spread" in run.metadata["task"] else {}
    assert imported.metadata["task"] == json.loads(json.dumps(run.metadata["task"])) | baked_in
    dropout = 0.2 if CLASSES[architecture][1].dropout_key else 0.0
    assert imported.metadata["adaptation"] == run.metadata["adaptation"] | {"dropout": dropout}
    if not {"temperature", "spread"} & TASKS[task].keys():
        assert imported.metadata["weights"]["sha256"] == run.metadata["weights"]["sha256"]
    assert (imported.heads, imported.capabilities) == (run.heads, run.capabilities)
    assert [prediction.to_dict() for prediction in task_predictions.predict(imported, examples_for(task))] == [
        approx_floats(prediction.to_dict()) for prediction in task_predictions.predict(run, examples_for(task))
    ]


def approx_floats(value: Any) -> Any:
    """The value with floats replaced by approximate ones."""
    if isinstance(value, dict):
        return {name: approx_floats(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [approx_floats(item) for item in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_exported_unordered_pair_logits_must_be_averaged_over_both_orders(
    tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    """As the note of the export says."""
    run = adapted_run("gpt2", "unordered_pairs", tokenizers_by_model["gpt2"], tmp_path / "run")
    run.export(tmp_path / "theirs")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    first, second = TEXTS[0]
    with torch.inference_mode():
        logits = [
            model(**hf_tokenizer(*pair, return_tensors="pt")).logits[0] for pair in ((first, second), (second, first))
        ]
    (prediction,) = run.classify([(first, second)])
    assert list(prediction.probabilities.values()) == pytest.approx(
        ((logits[0] + logits[1]) / 2).softmax(0).tolist(), abs=1e-5
    )


def test_exported_classifier_takes_padded_batches_where_a_padding_token_exists(
    tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    """Without a padding token the export notes that sequences must be passed one at a time."""
    run = adapted_run("roberta", "one", tokenizers_by_model["roberta"], tmp_path / "run")
    run.export(tmp_path / "theirs")
    assert not any("padding" in note for note in run.notes)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts = [text for text, _ in TEXTS]
    with torch.inference_mode():
        probabilities = model(**hf_tokenizer(texts, padding=True, return_tensors="pt")).logits.softmax(1)
    for row, prediction in zip(probabilities, run.classify(texts), strict=True):
        assert list(prediction.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-5)
    run = adapted_run("gpt2", "one", tokenizers_by_model["gpt2"], tmp_path / "back")
    run.export(tmp_path / "others")
    assert any("one row at a time" in note for note in run.notes)


def test_task_export_refuses_what_no_transformers_class_computes(
    tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    run = adapted_run("bert", "one", tokenizers_by_model["bert"], tmp_path / "mixed", how="features")
    with pytest.raises(InputError, match="a mixture of all layers") as caught:
        run.export(tmp_path / "x")
    assert "--how finetune" in caught.value.hint
    run = adapted_run("bert", "one", tokenizers_by_model["bert"], tmp_path / "mean", read="mean")
    with pytest.raises(
        InputError, match="reads the mean of a row, and the classes of transformers the first"
    ) as caught:
        run.export(tmp_path / "x")
    assert "without --read" in caught.value.hint
    TASKS["chained"] = TASKS["tagging"] | {"crf": True}
    run = adapted_run("bert", "chained", tokenizers_by_model["bert"], tmp_path / "chained")
    del TASKS["chained"]
    with pytest.raises(InputError, match="judged together by a CRF") as caught:
        run.export(tmp_path / "x")
    assert "without --crf" in caught.value.hint
    assert not (tmp_path / "x").exists()


def test_exported_auxiliary_language_model_is_kept_for_choice_and_dropped_for_label(
    tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    """GPT's auxiliary objective: transformers has a class with both heads for multiple choice, none for labels."""
    run = adapted_run("gpt2", "choice", tokenizers_by_model["gpt2"], tmp_path / "choice", language=0.25)
    run.export(tmp_path / "theirs")
    imported = Run(convert.import_model(str(tmp_path / "theirs"), str(tmp_path / "back")))
    assert (imported.heads, imported.metadata["adaptation"]["language"]) == (("choice", "next"), 0.25)
    assert imported.score(LINES) == run.score(LINES)
    run = adapted_run("gpt2", "one", tokenizers_by_model["gpt2"], tmp_path / "label", language=0.25)
    run.export(tmp_path / "labels")
    imported = Run(convert.import_model(str(tmp_path / "labels"), str(tmp_path / "again")))
    assert (imported.heads, imported.metadata["adaptation"]["language"]) == (("label",), 0.0)


def test_baked_regression_weights_predict_in_original_units():
    """Where a head has no bias, the bias of the final norm absorbs the mean."""
    generator = torch.Generator().manual_seed(1)
    weight, norm_bias = torch.randn(1, 16, generator=generator), torch.randn(16, generator=generator)
    tensors = {"heads.label.choose.weight": weight, "encoder.final_norm.bias": norm_bias}
    baked = hf_tasks.bake_temperature(tensors, TASKS["number"] | {"temperature": 1.0}, 2)
    state = torch.randn(16, generator=generator)
    expected = float(weight[0] @ (state + norm_bias)) * 2.5 + 3.25
    assert float(baked["heads.label.choose.weight"][0] @ (state + baked["encoder.final_norm.bias"])) == pytest.approx(
        expected
    )
    with pytest.raises(InputError, match="learned nothing"):
        hf_tasks.bake_temperature({**tensors, "heads.label.choose.weight": 0 * weight}, TASKS["number"], 2)


def test_task_config_fields_are_fields_of_tasks():
    """The `forebear` section of config.json has only fields that some task has."""
    fields = {name for task in TASKS.values() for name in task_from_json(task).to_dict()}
    assert set(hf_tasks.TASK_FIELDS) <= fields
    head = hf_tasks.TaskHeadMapping("Any", "choice", (), dropout_key="")
    assert hf_tasks.task_config(head, TASKS["choice"], 0.1, 0.0) == {"forebear": {"task": {"name": "choice"}}}
