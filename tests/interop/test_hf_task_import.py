"""Task models of transformers become runs with the same predictions; unsupported ones are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_task_models import (
    CLASSES,
    MODELS_WITH_SEGMENTS,
    published_task_model,
    save_hf_task_model,
    train_tokenizers_by_model,
)
from safetensors.torch import load_file, save_file

from forebear.cli.main import main
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.interop import convert
from forebear.interop.huggingface import read_huggingface
from forebear.objectives.input_format import InputFormat
from forebear.tasks.task import task_from_json
from forebear.training.adaptation import Adaptation
from hf_peers import VOCABULARY, Rows, build_model

pytest.importorskip("transformers")


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


def hf_logits(hf_model: Any, head_kind: str, rows: Rows) -> dict[str, torch.Tensor]:
    """Logits by the names of forebear's heads, without those of padding."""
    inputs = rows.padded()
    mask = inputs["attention_mask"].bool()
    if hf_model.config.model_type in ("gpt2", "openai-gpt", "roberta"):
        del inputs["token_type_ids"]
    if head_kind == "choice":
        inputs = {name: value[None] for name, value in inputs.items()}
        if hf_model.config.model_type == "openai-gpt":
            del inputs["attention_mask"]  # this class cannot take it with choices, and a causal model sees no padding
        if hf_model.config.model_type in ("gpt2", "openai-gpt"):
            outputs = hf_model(**inputs, mc_token_ids=torch.tensor([rows.lengths]) - 1)
            return {"choice": outputs.mc_logits[0], "next": outputs.logits[0][mask]}
    outputs = hf_model(**inputs)
    if head_kind == "place":
        return {"start": outputs.start_logits[mask], "end": outputs.end_logits[mask]}
    return {
        head_kind: outputs.logits[mask] if head_kind == "tag" else outputs.logits.view(len(rows.lengths), -1).squeeze(1)
    }


@pytest.mark.parametrize("name", CLASSES)
def test_imported_task_model_gives_the_logits_of_transformers(name: str, tmp_path: Path):
    model_name, head = CLASSES[name]
    hf_model = save_hf_task_model(name, tmp_path)
    checkpoint = read_huggingface(tmp_path)
    assert (checkpoint.model, checkpoint.report.heads) == (model_name, checkpoint.heads)
    assert checkpoint.heads == (*head.heads, *(("next",) if head.has_lm_head else ()))
    input_format = InputFormat(pooling="last" if model_name in ("gpt", "gpt2") else "first")
    assert checkpoint.task is not None
    adaptation = Adaptation(dropout=checkpoint.adaptation["dropout"], language=checkpoint.adaptation["language"])
    model = adaptation.build_model(
        build_model(model_name, checkpoint.fields), task_from_json(checkpoint.task), input_format
    ).load(checkpoint.tensors)
    rows = Rows.random(segments=1 if model_name in ("gpt", "gpt2", "roberta") else 2)
    inputs = {
        name: value for name, value in rows.inputs.items() if name != "segments" or model_name in MODELS_WITH_SEGMENTS
    }
    with torch.no_grad():
        logits, expected = model.eval().logits(inputs), hf_logits(hf_model, head.kind, rows)
    assert logits.keys() == expected.keys()
    if head.zero_tensors:  # dropped on import: a constant for all choices moves no probability
        expected["choice"] = expected["choice"] - hf_model.multiple_choice_head.summary.bias
    for head_name, value in logits.items():
        assert value.std() > 0.05
        torch.testing.assert_close(value, expected[head_name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("config_overrides", "kind", "labels"),
    [
        ({"problem_type": "multi_label_classification"}, "several", ["好", "bad", "so-so"]),
        ({"problem_type": "single_label_classification"}, "one", ["好", "bad", "so-so"]),
        ({"id2label": None, "num_labels": 2}, "one", ["LABEL_0", "LABEL_1"]),
        ({"id2label": {0: "LABEL_0"}}, "number", []),
        ({"id2label": {0: "spam"}, "problem_type": "multi_label_classification"}, "several", ["spam"]),
    ],
)
def test_imported_classifier_kind_and_labels_follow_the_config(
    config_overrides: dict[str, Any], kind: str, labels: list[str], tmp_path: Path
):
    save_hf_task_model("BertForSequenceClassification", tmp_path, **config_overrides)
    assert read_huggingface(tmp_path).task == {"name": "classification", "labels": labels, "kind": kind}


@pytest.mark.parametrize(
    ("config_overrides", "message"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, "id2label does not name the 3 labels"),
        ({"id2label": ["a", "b", "c"]}, "id2label does not name the 3 labels"),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "labels twice: a"),
        ({"problem_type": "regression"}, "problem_type is 'regression' with 3 answers"),
        ({"problem_type": "ranking"}, "problem_type is 'ranking'"),
        ({"classifier_dropout": "much"}, "classifier_dropout is 'much'"),
        ({"forebear": {"task": {"name": "tagging"}}}, "not to be understood"),
        ({"forebear": {"task": {"name": "pairs", "windows": -1}}}, "not to be understood"),
        ({"forebear": {"task": {"name": "pairs", "windows": "many"}}}, "not to be understood"),
        ({"forebear": {"task": ["pairs"]}}, "not to be understood"),
    ],
)
def test_task_import_refuses_inconsistent_config(config_overrides: dict[str, Any], message: str, tmp_path: Path):
    save_hf_task_model("BertForSequenceClassification", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | config_overrides))
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as caught:
        read_huggingface(tmp_path)
    assert caught.value.hint
    assert read_huggingface(tmp_path, tasks=False).heads == ()


def test_task_import_refuses_unsupported_summary_activation(tmp_path: Path):
    save_hf_task_model("GPT2DoubleHeadsModel", tmp_path, summary_activation="tanh")
    with pytest.raises(InputError, match="summary_activation is 'tanh'"):
        read_huggingface(tmp_path)
    assert read_huggingface(tmp_path, tasks=False).heads == ("next",)


def test_task_import_refuses_incomplete_head_and_notes_missing_one(tmp_path: Path):
    save_hf_task_model("RobertaForSequenceClassification", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = {name: value.clone() for name, value in load_file(path).items()}
    save_file({name: value for name, value in tensors.items() if name != "classifier.dense.bias"}, path)
    with pytest.raises(InputError, match=r"classifier\.dense\.bias is missing"):
        read_huggingface(tmp_path)
    save_file({name: value for name, value in tensors.items() if not name.startswith("classifier")}, path)
    checkpoint = read_huggingface(tmp_path)
    assert (checkpoint.heads, checkpoint.task) == ((), None)
    assert any("no head 'label'" in note for note in checkpoint.report.notes())


def test_task_import_skips_and_names_leftover_pretraining_tensors(tmp_path: Path):
    """Folders fine-tuned from a pre-trained model may still hold its heads and its pooler."""
    save_hf_task_model("BertForTokenClassification", tmp_path)
    path = tmp_path / "model.safetensors"
    extra = {"bert.pooler.dense.weight": torch.zeros(24, 24), "bert.pooler.dense.bias": torch.zeros(24)}
    extra |= {"cls.predictions.bias": torch.zeros(VOCABULARY), "cls.predictions.decoder.bias": torch.zeros(VOCABULARY)}
    save_file({name: value.clone() for name, value in load_file(path).items()} | extra, path)
    checkpoint = read_huggingface(tmp_path)
    assert checkpoint.heads == ("tag",)
    assert {name for names in checkpoint.report.skipped_tensors.values() for name in names} == extra.keys()


# -- folders with tokenizers


def test_imported_classifier_is_text_or_pair_by_labels_or_by_option(
    tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """No folder says what its texts were: NLI labels tell, or --task does."""
    source = published_task_model("BertForSequenceClassification", tmp_path / "plain", tokenizers_by_model)
    assert main(["import", str(source), "--to", str(tmp_path / "one")]) == 0
    printed = capsys.readouterr().out
    assert "task: classification; labels: 好; bad; so-so; forebear classify" in printed
    assert "taken for a classifier of single texts" in printed
    run = Run.open(tmp_path / "one")
    assert run.classify("北京")[0].label in ("好", "bad", "so-so")
    assert main(["import", str(source), "--to", str(tmp_path / "two"), "--task", "pairs"]) == 0
    assert Run.open(tmp_path / "two").metadata["task"] | {"ordered": True} == run.metadata["task"] | {
        "name": "pairs",
        "ordered": True,
    }
    labels = {"0": "ENTAILMENT", "1": "NEUTRAL", "2": "CONTRADICTION"}
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"id2label": labels}))
    task = convert.import_model(str(source), str(tmp_path / "three")).metadata["task"]
    assert (task["name"], task["ordered"]) == ("pairs", True)
    assert main(["import", str(source), "--to", str(tmp_path / "four"), "--task", "none"]) == 0
    metadata = Run.open(tmp_path / "four").metadata
    assert (metadata["heads"], "task" in metadata) == ([], False)
    assert any("classifier.weight" in names for names in metadata["report"]["left_out"].values())


def test_task_import_refuses_a_task_without_head(tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path):
    source = published_task_model("BertForQuestionAnswering", tmp_path / "asks", tokenizers_by_model)
    with pytest.raises(InputError, match="no head for pairs"):
        convert.import_model(str(source), str(tmp_path / "x"), task="pairs")
    run = Run(convert.import_model(str(source), str(tmp_path / "run")))
    assert run.capabilities == ("answer", "measure", "embed", "neighbours", "similarity", "odd-one-out")
    assert run.answer("谁", "我喜欢你")[0].candidates


def test_task_import_refuses_another_input_format(tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path):
    """Most GPT-2 classifiers read the last token of the bare text; forebear puts end-of-text tokens around it."""
    source = published_task_model("GPT2ForSequenceClassification", tmp_path / "plain", tokenizers_by_model)
    tokenizer_spec = json.loads((source / "tokenizer.json").read_text())
    (source / "tokenizer.json").write_text(json.dumps(tokenizer_spec | {"post_processor": None}))
    with pytest.raises(
        InputError, match=r"its rows are a, and here they are <\|endoftext\|> a <\|endoftext\|>"
    ) as caught:
        convert.import_model(str(source), str(tmp_path / "x"))
    assert "--task none" in caught.value.hint
    assert not (tmp_path / "x").exists()
    assert convert.import_model(str(source), str(tmp_path / "run"), task="none").metadata["heads"] == ["next"]
    padded = tokenizer_spec | {
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0}
    }
    padded["padding"] |= {"pad_token": "!", "pad_to_multiple_of": None}
    (source / "tokenizer.json").write_text(json.dumps(padded))
    assert convert.import_model(str(source), str(tmp_path / "marked")).metadata["heads"] == ["label"]


TAGS = {
    "BMES": ("S-人", "M-人", "B-人", "E-人", "O"),
    "BILOU": ("O", "B-PER", "I-PER", "L-PER", "U-PER"),
    "BIO": ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
}


@pytest.mark.parametrize("scheme", TAGS)
def test_imported_bmes_bilou_and_bio_tags_get_iobes_prefixes(
    scheme: str, tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path
):
    """Only the prefixes change; the order of tags and the weights stay."""
    id2label = dict(enumerate(TAGS[scheme]))
    source = published_task_model(
        "BertForTokenClassification", tmp_path / "tags", tokenizers_by_model, id2label=id2label
    )
    run = Run(convert.import_model(str(source), str(tmp_path / "run")))
    assert run.metadata["task"]["scheme"] == scheme
    assert [tag[1:] for tag in run.metadata["task"]["tags"]] == [tag[1:] for tag in TAGS[scheme]]
    assert {tag[0] for tag in run.metadata["task"]["tags"]} == set("OBI" if scheme == "BIO" else "OBIES")
    assert len(run.tag("我喜欢北京")[0].tags) == 5


def test_task_import_refuses_labels_that_are_not_tags(tokenizers_by_model: dict[str, Tokenizer], tmp_path: Path):
    id2label = dict(enumerate(("NOUN", "VERB", "ADJ")))
    source = published_task_model(
        "BertForTokenClassification", tmp_path / "tags", tokenizers_by_model, id2label=id2label
    )
    with pytest.raises(InputError, match="its labels are no tags of names: 'NOUN'") as caught:
        convert.import_model(str(source), str(tmp_path / "run"))
    assert "--task none" in caught.value.hint
