"""Adapted runs to transformers and back: its classes open them, cut texts alike and answer alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from task_peers import CLASSES, EVERYWHERE, LINES, TASKS, TEXTS, examples_for, run_for, tokenizers_for_all

from forebear.data.labeled.examples import LabeledExample, QuestionExample, TaggedExample
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.inference import predict
from forebear.inference.run import Run
from forebear.interop import convert, hf_tasks
from forebear.tasks.task import predict_logits, task_from_json

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Such small models gain nothing by more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def cutters() -> dict[str, Tokenizer]:
    return tokenizers_for_all()


def given_for(cutter: Any, example: Any, spaced: bool) -> Any:
    """An example through their own tokenizer files; `spaced`, words are given with the space before them."""
    match example:
        case LabeledExample():
            return cutter(*example.texts, return_tensors="pt")
        case TaggedExample():
            words = [f" {word}" if spaced and word == "cat" else word for word in example.words]
            return cutter(words, is_split_into_words=True, return_tensors="pt")
        case QuestionExample():
            return cutter(example.question, example.passage, return_tensors="pt")
    each = [cutter(example.text, choice) for choice in example.choices]
    return [{name: torch.tensor([value]) for name, value in one.items()} for one in each]


def compared(run: Run, task: str, folder: Path, architecture: str) -> None:
    """transformers opens the folder with the right class, cuts alike, and answers alike."""
    kind = getattr(transformers, architecture)
    model, told = kind.from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    assert not told["mismatched_keys"]
    model.eval()
    cutter = transformers.AutoTokenizer.from_pretrained(folder)
    own, examples = run.task, examples_for(task)
    assert own is not None
    rows = own.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    logits, answers = (
        predict_logits(run.network, rows),
        own.predictions(examples, rows, predict_logits(run.network, rows)),
    )
    for number, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        given = given_for(cutter, example, run.tokenizer.kind == "bytepair")
        each = given if isinstance(given, list) else [given]
        begins = np.concatenate(([0], np.cumsum(rows.lengths)))
        for row, one in zip(rows.row_range(number), each, strict=False):
            place = slice(begins[row], begins[row + 1])
            assert one["input_ids"][0].tolist() == rows.tokens[place].tolist()
            if "token_type_ids" in one:
                assert one["token_type_ids"][0].tolist() == rows.segments[place].tolist()
        if TASKS[task]["name"] == "choice":  # without a mask, which GPT's class cannot take with choices
            each = [{k: value[None] for k, value in one.items() if k != "attention_mask"} for one in each]
        with torch.inference_mode():
            found = [model(**one) for one in each]
        close(own, example, answer, {head: values[number] for head, values in logits.items()}, found, model)


def close(task: Any, example: Any, answer: Any, ours: dict[str, Any], found: list[Any], model: Any) -> None:
    if task.name in ("classification", "pairs"):
        scores = found[0].logits[0]
        if task.kind == "number":
            assert float(scores[0]) == pytest.approx(answer.label, abs=1e-5)
            return
        torch.testing.assert_close(scores, torch.from_numpy(ours["label"]) / task.temperature, rtol=0, atol=1e-5)
        p = scores.sigmoid() if task.kind == "several" else scores.softmax(0)
        assert list(answer.probabilities.values()) == pytest.approx(p.tolist(), abs=1e-5)
        labels = [model.config.id2label[place] for place in range(len(p))]
        assert tuple(labels) == task.labels
        if task.kind == "one":
            assert labels[int(p.argmax())] == answer.label
    elif task.name == "tagging":
        torch.testing.assert_close(found[0].logits[0], torch.from_numpy(ours["tag"]), rtol=0, atol=1e-5)
        assert tuple(model.config.id2label.values()) == task.tags
    elif task.name == "answering":
        for head, told in (("start", found[0].start_logits), ("end", found[0].end_logits)):
            torch.testing.assert_close(told[0], torch.from_numpy(ours[head]), rtol=0, atol=1e-5)
    else:
        scores = torch.cat([(one.mc_logits if "mc_logits" in one else one.logits).reshape(1) for one in found])
        assert answer.probabilities == pytest.approx(tuple(scores.softmax(0).tolist()), abs=1e-5)
        assert int(scores.argmax()) == answer.choice


GRID = [(milestone, task) for milestone in hf_tasks.TASK_HEADS for task in EVERYWHERE]
GRID += [
    (milestone, task) for milestone in ("gpt", "gpt2", "bert", "roberta") for task in TASKS if task not in EVERYWHERE
]


@pytest.mark.sample(15)
@pytest.mark.parametrize(("milestone", "task"), GRID)
def test_every_task_to_transformers_and_back(milestone: str, task: str, cutters: dict[str, Tokenizer], tmp_path: Path):
    run = run_for(milestone, task, cutters[milestone], tmp_path / "run")
    name = TASKS[task]["name"]
    if milestone == "gpt" and name in ("tagging", "answering"):
        with pytest.raises(InputError, match=f"GPT of transformers has no class for {name}") as caught:
            run.export(tmp_path / "theirs")
        assert "classification, pairs, choice" in caught.value.hint
        assert not (tmp_path / "theirs").exists()
        return
    run.export(tmp_path / "theirs")
    (architecture,) = json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"]
    assert CLASSES[architecture][0] == milestone
    both = task == "alike" and milestone in ("gpt", "gpt2")
    assert any("both orders" in note for note in run.notes) == both
    if not both:
        compared(run, task, tmp_path / "theirs", architecture)
    back = Run(convert.import_model(str(tmp_path / "theirs"), str(tmp_path / "back")))
    settled = {"temperature": 1.0} if "temperature" in run.metadata["task"] else {}
    settled |= {"centre": 0.0, "spread": 1.0} if "spread" in run.metadata["task"] else {}
    assert back.metadata["task"] == json.loads(json.dumps(run.metadata["task"])) | settled
    kept = 0.2 if CLASSES[architecture][1].dropout else 0.0
    assert back.metadata["adaptation"] == run.metadata["adaptation"] | {"dropout": kept}
    if not {"temperature", "spread"} & TASKS[task].keys():
        assert back.metadata["weights"]["sha256"] == run.metadata["weights"]["sha256"]
    assert (back.heads, back.capabilities) == (run.heads, run.capabilities)
    assert [one.to_dict() for one in predict.predict(back, examples_for(task))] == [
        approximately(one.to_dict()) for one in predict.predict(run, examples_for(task))
    ]


def approximately(value: Any) -> Any:
    """Equal but for the last digits of numbers."""
    if isinstance(value, dict):
        return {name: approximately(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [approximately(one) for one in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_both_orders_are_the_mean_of_both_logits(cutters: dict[str, Tokenizer], tmp_path: Path):
    """What the note of an export says."""
    run = run_for("gpt2", "alike", cutters["gpt2"], tmp_path / "run")
    run.export(tmp_path / "theirs")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    cutter = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    one, other = TEXTS[0]
    with torch.inference_mode():
        both = [model(**cutter(*pair, return_tensors="pt")).logits[0] for pair in ((one, other), (other, one))]
    (answer,) = run.classify([(one, other)])
    assert list(answer.probabilities.values()) == pytest.approx(((both[0] + both[1]) / 2).softmax(0).tolist(), abs=1e-5)


def test_rows_of_unequal_length_side_by_side(cutters: dict[str, Tokenizer], tmp_path: Path):
    """Padding, where there is a token for it; where there is none it is said."""
    run = run_for("roberta", "one", cutters["roberta"], tmp_path / "run")
    run.export(tmp_path / "theirs")
    assert not any("padding" in note for note in run.notes)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    cutter = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts = [one for one, _ in TEXTS]
    with torch.inference_mode():
        p = model(**cutter(texts, padding=True, return_tensors="pt")).logits.softmax(1)
    for row, answer in zip(p, run.classify(texts), strict=True):
        assert list(answer.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-5)
    run = run_for("gpt2", "one", cutters["gpt2"], tmp_path / "back")
    run.export(tmp_path / "others")
    assert any("one row at a time" in note for note in run.notes)


def test_what_no_class_does_is_refused(cutters: dict[str, Tokenizer], tmp_path: Path):
    run = run_for("bert", "one", cutters["bert"], tmp_path / "mixed", how="features")
    with pytest.raises(InputError, match="a mixture of all layers") as caught:
        run.export(tmp_path / "x")
    assert "--how finetune" in caught.value.hint
    run = run_for("bert", "one", cutters["bert"], tmp_path / "mean", read="mean")
    with pytest.raises(
        InputError, match="reads the mean of a row, and the classes of transformers the first"
    ) as caught:
        run.export(tmp_path / "x")
    assert "without --read" in caught.value.hint
    TASKS["chained"] = TASKS["tagging"] | {"crf": True}
    run = run_for("bert", "chained", cutters["bert"], tmp_path / "chained")
    del TASKS["chained"]
    with pytest.raises(InputError, match="judged together by a CRF") as caught:
        run.export(tmp_path / "x")
    assert "without --crf" in caught.value.hint
    assert not (tmp_path / "x").exists()


def test_a_language_model_beside_the_task(cutters: dict[str, Tokenizer], tmp_path: Path):
    """GPT's auxiliary objective: with a choice both go together, with a label there is no place for it."""
    run = run_for("gpt2", "choice", cutters["gpt2"], tmp_path / "choice", language=0.25)
    run.export(tmp_path / "theirs")
    back = Run(convert.import_model(str(tmp_path / "theirs"), str(tmp_path / "back")))
    assert (back.heads, back.metadata["adaptation"]["language"]) == (("choice", "next"), 0.25)
    assert back.score(LINES) == run.score(LINES)
    run = run_for("gpt2", "one", cutters["gpt2"], tmp_path / "label", language=0.25)
    run.export(tmp_path / "labels")
    back = Run(convert.import_model(str(tmp_path / "labels"), str(tmp_path / "again")))
    assert (back.heads, back.metadata["adaptation"]["language"]) == (("label",), 0.0)


def test_settled_weights_answer_in_their_own_units():
    """Where a head has no bias, the last norm gives what it cannot."""
    generator = torch.Generator().manual_seed(1)
    weight, norm = torch.randn(1, 16, generator=generator), torch.randn(16, generator=generator)
    tensors = {"heads.label.choose.weight": weight, "encoder.final_norm.bias": norm}
    found = hf_tasks.bake_temperature(tensors, TASKS["number"] | {"temperature": 1.0}, 2)
    h = torch.randn(16, generator=generator)
    wanted = float(weight[0] @ (h + norm)) * 2.5 + 3.25
    assert float(found["heads.label.choose.weight"][0] @ (h + found["encoder.final_norm.bias"])) == pytest.approx(
        wanted
    )
    with pytest.raises(InputError, match="learned nothing"):
        hf_tasks.bake_temperature({**tensors, "heads.label.choose.weight": 0 * weight}, TASKS["number"], 2)


def test_own_words_are_fields_of_tasks():
    """What a folder may say of a task beside labels: nothing that no task has."""
    fields = {name for task in TASKS.values() for name in task_from_json(task).to_dict()}
    assert set(hf_tasks.TASK_FIELDS) <= fields
    head = hf_tasks.TaskHeadMapping("Any", "choice", (), dropout="")
    assert hf_tasks.task_config(head, TASKS["choice"], 0.1, 0.0) == {"forebear": {"task": {"name": "choice"}}}
