"""Folders of transformers that do a task become runs that answer alike; what cannot be done here is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from task_peers import CLASSES, SEGMENTED, peer_for, published, tokenizers_for_all

from forebear.cli.main import main
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.interop import convert
from forebear.interop.huggingface import read_huggingface
from forebear.objectives.input_format import InputFormat
from forebear.tasks.task import task_from_json
from forebear.training.adaptation import Adaptation
from peers import VOCABULARY, Rows, model_of

pytest.importorskip("transformers")


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


def their_answers(peer: Any, shape: str, rows: Rows) -> dict[str, torch.Tensor]:
    """Logits by our names, without what they answer to padding."""
    given = rows.padded()
    mask = given["attention_mask"].bool()
    if peer.config.model_type in ("gpt2", "openai-gpt", "roberta"):
        del given["token_type_ids"]
    if shape == "choice":
        given = {name: value[None] for name, value in given.items()}
        if peer.config.model_type == "openai-gpt":
            del given["attention_mask"]  # which this class cannot take with choices; what looks back sees no padding
        if peer.config.model_type in ("gpt2", "openai-gpt"):
            found = peer(**given, mc_token_ids=torch.tensor([rows.lengths]) - 1)
            return {"choice": found.mc_logits[0], "next": found.logits[0][mask]}
    found = peer(**given)
    if shape == "place":
        return {"start": found.start_logits[mask], "end": found.end_logits[mask]}
    return {shape: found.logits[mask] if shape == "tag" else found.logits.view(len(rows.lengths), -1).squeeze(1)}


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_of_theirs_answers_alike_here(name: str, tmp_path: Path):
    milestone, head = CLASSES[name]
    peer = peer_for(name, tmp_path)
    found = read_huggingface(tmp_path)
    assert (found.model, found.report.heads) == (milestone, found.heads)
    assert found.heads == (*head.heads, *(("next",) if head.has_lm_head else ()))
    layout = InputFormat(pooling="last" if milestone in ("gpt", "gpt2") else "first")
    assert found.task is not None
    adaptation = Adaptation(dropout=found.adaptation["dropout"], language=found.adaptation["language"])
    model = adaptation.build_model(model_of(milestone, found.fields), task_from_json(found.task), layout).load(
        found.tensors
    )
    rows = Rows.drawn(segments=1 if milestone in ("gpt", "gpt2", "roberta") else 2)
    inputs = {name: value for name, value in rows.inputs.items() if name != "segments" or milestone in SEGMENTED}
    with torch.no_grad():
        answers, wanted = model.eval().logits(inputs), their_answers(peer, head.kind, rows)
    assert answers.keys() == wanted.keys()
    if head.zero_tensors:  # the same for every choice, so that it is left out: it moves no probability
        wanted["choice"] = wanted["choice"] - peer.multiple_choice_head.summary.bias
    for one, value in answers.items():
        assert value.std() > 0.05
        torch.testing.assert_close(value, wanted[one], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("facts", "kind", "labels"),
    [
        ({"problem_type": "multi_label_classification"}, "several", ["好", "bad", "so-so"]),
        ({"problem_type": "single_label_classification"}, "one", ["好", "bad", "so-so"]),
        ({"id2label": None, "num_labels": 2}, "one", ["LABEL_0", "LABEL_1"]),
        ({"id2label": {0: "LABEL_0"}}, "number", []),
        ({"id2label": {0: "spam"}, "problem_type": "multi_label_classification"}, "several", ["spam"]),
    ],
)
def test_what_a_classifier_is_asked(facts: dict[str, Any], kind: str, labels: list[str], tmp_path: Path):
    peer_for("BertForSequenceClassification", tmp_path, **facts)
    assert read_huggingface(tmp_path).task == {"name": "classification", "labels": labels, "kind": kind}


@pytest.mark.parametrize(
    ("facts", "said"),
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
def test_a_config_that_cannot_be_meant_is_refused(facts: dict[str, Any], said: str, tmp_path: Path):
    peer_for("BertForSequenceClassification", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | facts))
    with pytest.raises(InputError, match=said.replace("(", r"\(")) as caught:
        read_huggingface(tmp_path)
    assert caught.value.hint
    assert read_huggingface(tmp_path, tasks=False).heads == ()


def test_a_summary_that_is_not_built_here_is_refused(tmp_path: Path):
    peer_for("GPT2DoubleHeadsModel", tmp_path, summary_activation="tanh")
    with pytest.raises(InputError, match="summary_activation is 'tanh'"):
        read_huggingface(tmp_path)
    assert read_huggingface(tmp_path, tasks=False).heads == ("next",)


def test_a_head_that_is_torn_or_gone(tmp_path: Path):
    peer_for("RobertaForSequenceClassification", tmp_path)
    file = tmp_path / "model.safetensors"
    whole = {name: value.clone() for name, value in load_file(file).items()}
    save_file({name: value for name, value in whole.items() if name != "classifier.dense.bias"}, file)
    with pytest.raises(InputError, match=r"classifier\.dense\.bias is missing"):
        read_huggingface(tmp_path)
    save_file({name: value for name, value in whole.items() if not name.startswith("classifier")}, file)
    found = read_huggingface(tmp_path)
    assert (found.heads, found.task) == ((), None)
    assert any("no head 'label'" in note for note in found.report.notes())


def test_what_stands_beside_the_head_is_left_out_and_named(tmp_path: Path):
    """Folders that were made from a pre-trained model may still hold its heads and its pooler."""
    peer_for("BertForTokenClassification", tmp_path)
    file = tmp_path / "model.safetensors"
    extra = {"bert.pooler.dense.weight": torch.zeros(24, 24), "bert.pooler.dense.bias": torch.zeros(24)}
    extra |= {"cls.predictions.bias": torch.zeros(VOCABULARY), "cls.predictions.decoder.bias": torch.zeros(VOCABULARY)}
    save_file({name: value.clone() for name, value in load_file(file).items()} | extra, file)
    found = read_huggingface(tmp_path)
    assert found.heads == ("tag",)
    assert {name for names in found.report.skipped_tensors.values() for name in names} == extra.keys()


# -- whole folders


def test_texts_or_pairs(cutters: dict[str, Tokenizer], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No folder says what its texts were: labels of entailment tell, or a person does."""
    source = published("BertForSequenceClassification", tmp_path / "plain", cutters)
    assert main(["import", str(source), "--to", str(tmp_path / "one")]) == 0
    said = capsys.readouterr().out
    assert "task: classification; labels: 好; bad; so-so; forebear classify" in said
    assert "taken for a classifier of single texts" in said
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
    told = convert.import_model(str(source), str(tmp_path / "three")).metadata["task"]
    assert (told["name"], told["ordered"]) == ("pairs", True)
    assert main(["import", str(source), "--to", str(tmp_path / "four"), "--task", "none"]) == 0
    facts = Run.open(tmp_path / "four").metadata
    assert (facts["heads"], "task" in facts) == ([], False)
    assert any("classifier.weight" in names for names in facts["report"]["left_out"].values())


def test_a_task_that_is_not_there(cutters: dict[str, Tokenizer], tmp_path: Path):
    source = published("BertForQuestionAnswering", tmp_path / "asks", cutters)
    with pytest.raises(InputError, match="no head for pairs"):
        convert.import_model(str(source), str(tmp_path / "x"), task="pairs")
    run = Run(convert.import_model(str(source), str(tmp_path / "run")))
    assert run.capabilities == ("answer", "measure", "embed", "neighbours", "similarity", "odd-one-out")
    assert run.answer("谁", "我喜欢你")[0].candidates


def test_rows_that_are_made_otherwise_are_refused(cutters: dict[str, Tokenizer], tmp_path: Path):
    """GPT-2's classifiers mostly read the last token of the bare text, which nobody does here."""
    source = published("GPT2ForSequenceClassification", tmp_path / "plain", cutters)
    blueprint = json.loads((source / "tokenizer.json").read_text())
    (source / "tokenizer.json").write_text(json.dumps(blueprint | {"post_processor": None}))
    with pytest.raises(
        InputError, match=r"its rows are a, and here they are <\|endoftext\|> a <\|endoftext\|>"
    ) as caught:
        convert.import_model(str(source), str(tmp_path / "x"))
    assert "--task none" in caught.value.hint
    assert not (tmp_path / "x").exists()
    assert convert.import_model(str(source), str(tmp_path / "run"), task="none").metadata["heads"] == ["next"]
    padded = blueprint | {"padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0}}
    padded["padding"] |= {"pad_token": "!", "pad_to_multiple_of": None}
    (source / "tokenizer.json").write_text(json.dumps(padded))
    assert convert.import_model(str(source), str(tmp_path / "marked")).metadata["heads"] == ["label"]


TAGS = {
    "BMES": ("S-人", "M-人", "B-人", "E-人", "O"),
    "BILOU": ("O", "B-PER", "I-PER", "L-PER", "U-PER"),
    "BIO": ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
}


@pytest.mark.parametrize("scheme", TAGS)
def test_tags_of_other_schemes(scheme: str, cutters: dict[str, Tokenizer], tmp_path: Path):
    """Their letters become ours, in their order; the weights stay as they are."""
    id2label = dict(enumerate(TAGS[scheme]))
    source = published("BertForTokenClassification", tmp_path / "tags", cutters, id2label=id2label)
    run = Run(convert.import_model(str(source), str(tmp_path / "run")))
    assert run.metadata["task"]["scheme"] == scheme
    assert [tag[1:] for tag in run.metadata["task"]["tags"]] == [tag[1:] for tag in TAGS[scheme]]
    assert {tag[0] for tag in run.metadata["task"]["tags"]} == set("OBI" if scheme == "BIO" else "OBIES")
    assert len(run.tag("我喜欢北京")[0].tags) == 5


def test_labels_that_are_no_tags_are_refused(cutters: dict[str, Tokenizer], tmp_path: Path):
    names = dict(enumerate(("NOUN", "VERB", "ADJ")))
    source = published("BertForTokenClassification", tmp_path / "tags", cutters, id2label=names)
    with pytest.raises(InputError, match="its labels are no tags of names: 'NOUN'") as caught:
        convert.import_model(str(source), str(tmp_path / "run"))
    assert "--task none" in caught.value.hint
