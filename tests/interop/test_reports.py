"""What a folder has, lacks and has too much: heads are found by names, all else is named or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from forebear.errors import ForebearError, InputError
from forebear.interop.huggingface import model_name_of, read_huggingface, trim_vocabulary, write_huggingface
from forebear.interop.tensor_names import ARCHITECTURES, TOKEN_TABLE, UNUSED_HEAD_NOTE, UNUSED_TASK_NOTE
from forebear.models.roberta import RobertaSpec
from peers import SPECIALS, model_of

FIXTURES = Path(__file__).parent / "fixtures"
Tensors = dict[str, torch.Tensor]
POOLER = ("bert.pooler.dense.bias", "bert.pooler.dense.weight")


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    """A fresh copy of a tiny model."""

    def copy(milestone: str) -> Path:
        shutil.rmtree(tmp_path / milestone, ignore_errors=True)
        return Path(shutil.copytree(FIXTURES / milestone, tmp_path / milestone))

    return copy


def changed(folder: Path, change: Callable[[Tensors], Tensors | None], **facts) -> Path:
    """With other weights, and other facts in its config."""
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(change(tensors) or tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | facts))
    return folder


def without(*parts: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: value for name, value in tensors.items() if not any(part in name for part in parts)}


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_huggingface(folder)
    assert caught.value.hint
    return str(caught.value)


def test_heads_are_those_that_are_there(folder):
    whole = read_huggingface(folder("bert"))
    assert (whole.heads, whole.fields["pairs"]) == (("token", "pair"), "next")
    assert whole.report.notes() == [f"{whole.report.num_matched} names are those of BERT, and were read"]
    for lacking, heads, pairs in (
        (("seq_relationship", "pooler"), ("token",), "none"),
        (("predictions",), ("pair",), "next"),
        (("cls.", "pooler"), (), "none"),
    ):
        found = read_huggingface(changed(folder("bert"), without(*lacking)))
        assert (found.heads, found.fields["pairs"], found.report.skipped_tensors) == (heads, pairs, {})
        assert {name.split(".")[1] for name in found.tensors if name.startswith("heads.")} == set(heads)
        assert set(found.report.missing) == {"token", "pair"} - set(heads)
        for head in found.report.missing:
            assert any(f"no head {head!r}" in note for note in found.report.notes())


def test_a_pooler_without_its_head_is_left_out_and_named(folder):
    found = read_huggingface(changed(folder("bert"), without("cls.")))
    assert (found.heads, found.report.skipped_tensors) == ((), {UNUSED_HEAD_NOTE: POOLER})
    assert f"left out ({UNUSED_HEAD_NOTE}): {'; '.join(POOLER)}" in found.report.notes()
    found = read_huggingface(changed(folder("albert"), without("sop_classifier")))
    assert found.report.skipped_tensors == {UNUSED_HEAD_NOTE: ("albert.pooler.bias", "albert.pooler.weight")}
    extra = {"roberta.pooler.dense.weight": torch.zeros(8, 8), "roberta.pooler.dense.bias": torch.zeros(8)}
    found = read_huggingface(changed(folder("roberta"), lambda tensors: tensors | extra))
    assert found.report.skipped_tensors == {UNUSED_HEAD_NOTE: tuple(sorted(extra))}


TASKS = {
    "bert": ("classifier.weight", "classifier.bias"),
    "ernie": ("qa_outputs.weight", "qa_outputs.bias"),
    "albert": ("classifier.weight", "classifier.bias"),
    "roberta": ("classifier.dense.weight", "classifier.dense.bias", "classifier.out_proj.weight"),
    "gpt2": ("score.weight",),
    "gpt": ("multiple_choice_head.summary.weight",),
}


@pytest.mark.parametrize("milestone", TASKS)
def test_heads_of_tasks_are_left_out_and_named(folder, milestone):
    extra = {name: torch.zeros(3, 8) for name in TASKS[milestone]}
    found = read_huggingface(changed(folder(milestone), lambda tensors: tensors | extra))
    assert found.report.skipped_tensors == {UNUSED_TASK_NOTE: tuple(sorted(extra))}
    assert found.report.to_dict()["left_out"] == {UNUSED_TASK_NOTE: sorted(extra)}
    assert json.dumps(found.report.to_dict())


def test_constants_of_old_versions_are_named(folder):
    places = {"bert.embeddings.position_ids": torch.arange(10)[None]}
    found = read_huggingface(changed(folder("bert"), lambda tensors: tensors | places))
    assert list(found.report.skipped_tensors.values()) == [tuple(places)]
    masks = {"transformer.h.0.attn.bias": torch.ones(1, 1, 10, 10)}
    found = read_huggingface(changed(folder("gpt2"), lambda tensors: tensors | masks))
    assert list(found.report.skipped_tensors.values()) == [tuple(masks)]


@pytest.mark.parametrize("milestone", ["bert", "ernie", "roberta", "albert"])
def test_old_names_and_names_without_a_prefix(folder, milestone):
    wanted = read_huggingface(FIXTURES / milestone).tensors

    def old(tensors: Tensors) -> Tensors:
        names = {name: name.replace("LayerNorm.weight", "LayerNorm.gamma") for name in tensors}
        names = {name: new.replace("LayerNorm.bias", "LayerNorm.beta") for name, new in names.items()}
        return {names[name].removeprefix(f"{milestone}."): value for name, value in tensors.items()}

    found = read_huggingface(changed(folder(milestone), old))
    assert found.tensors.keys() == wanted.keys()
    assert all(torch.equal(found.tensors[name], value) for name, value in wanted.items())


def test_what_is_tied_may_be_stored_twice_or_the_other_way_round(folder):
    def tied(tensors: Tensors) -> Tensors:
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        return tensors

    place = changed(folder("bert"), tied)
    found, wanted = read_huggingface(place), read_huggingface(FIXTURES / "bert").tensors
    assert all(torch.equal(found.tensors[name], value) for name, value in wanted.items())

    def untied(tensors: Tensors) -> None:
        tensors["cls.predictions.decoder.weight"] += 1

    said = refused(changed(place, untied))
    assert "cls.predictions.decoder.weight is not the same as embeddings.word_embeddings.weight" in said


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("layer.1.", "num_hidden_layers is 2, and the weights have 1 blocks"),
        ("1.output.dense.bias", "encoder.layer.1.output.dense.bias is missing"),
        ("transform.dense.weight", "cls.predictions.transform.dense.weight is missing"),
        ("pooler.dense.bias", "pooler.dense.bias is missing"),
    ],
)
def test_what_is_not_whole_is_refused(folder, lacking, said):
    assert said in refused(changed(folder("bert"), without(lacking)))


def test_what_the_encoder_does_not_have_is_refused(folder):
    strange = {"bert.encoder.layer.0.attention.self.distance_embedding.weight": torch.zeros(3, 4)}
    said = refused(changed(folder("bert"), lambda tensors: tensors | strange))
    assert "encoder.layer.0.attention.self.distance_embedding.weight is not known" in said


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["embeddings.LayerNorm.bias", "cls.seq_relationship.weight"])
def test_what_is_no_number_is_refused(folder, value, name):
    def change(tensors: Tensors) -> None:
        for own, tensor in tensors.items():
            if own.endswith(name):
                tensor.view(-1)[0] = value

    assert f"{name} holds what is no number" in refused(changed(folder("bert"), change))


@pytest.mark.parametrize(
    ("milestone", "name", "shape", "said"),
    [
        ("bert", "bert.encoder.layer.0.attention.self.key.weight", (8, 4), "value.weight are not of one shape"),
        ("gpt2", "transformer.h.0.mlp.c_fc.weight", (8,), "h.0.mlp.c_fc.weight has the shape (8,)"),
        ("roberta", "roberta.embeddings.position_embeddings.weight", (2, 8), "weight has the shape (2, 8)"),
        ("ernie", "embeddings.LayerNorm.bias", (8,), "embeddings.LayerNorm.bias is there twice"),
    ],
)
def test_misshapen_parts_are_named(folder, milestone, name, shape, said):
    assert said in refused(changed(folder(milestone), lambda tensors: tensors | {name: torch.zeros(shape)}))


@pytest.mark.parametrize("milestone", ARCHITECTURES)
def test_names_of_another_architecture_are_told(folder, milestone):
    """Under every wrong name of an architecture, the right one is the nearest."""
    titles = {name: family.name_map.title for name, family in ARCHITECTURES.items()}
    for other, family in ARCHITECTURES.items():
        if other == milestone:
            continue
        facts = {"model_type": family.model_type, "n_layer": 2, "hidden_act": "gelu"}  # nothing else shall be wrong
        facts["type_vocab_size"] = 1 if other == "roberta" else 2
        said = refused(changed(folder(milestone), lambda tensors: None, **facts))
        assert f"these look like {titles[milestone]}'s" in said, said


def test_names_of_nothing_are_refused(folder):
    said = refused(changed(folder("bert"), lambda tensors: {"mystery": torch.zeros(3)}))
    assert "none of its names is one of BERT's" in said
    assert "look like" not in said


def test_a_config_that_does_not_say_what_it_is(folder):
    place = folder("albert")
    changed(place, lambda tensors: None, model_type=None)
    with pytest.raises(InputError, match="the weights look like ALBERT's") as caught:
        model_name_of(place)
    assert caught.value.hint == 'add "model_type": "albert" to it, if that is right'
    changed(place, lambda tensors: None, model_type="distilbert")
    with pytest.raises(InputError, match="'distilbert' cannot be imported") as caught:
        model_name_of(place)
    assert "openai-gpt, bert, gpt2, ernie, roberta, albert" in caught.value.hint


@pytest.mark.parametrize(
    ("milestone", "facts", "said"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "here it can only be 'absolute'"),
        ("bert", {"is_decoder": True}, "is_decoder is True"),
        ("bert", {"add_cross_attention": True}, "add_cross_attention is True"),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ("bert", {"type_vocab_size": 1}, "type_vocab_size is 1; here it can only be 2"),
        ("bert", {"auto_map": {"AutoModel": "own.Model"}}, "auto_map is"),
        ("bert", {"hidden_act": "silu"}, "hidden_act is 'silu'"),
        ("bert", {"hidden_act": ["gelu"]}, r"hidden_act is ['gelu']"),
        ("bert", {"hidden_dropout_prob": 0.2}, "here one dropout serves all"),
        ("roberta", {"hidden_act": "relu"}, "hidden_act is 'relu'; here it can only be 'gelu'"),
        ("roberta", {"type_vocab_size": 2}, "here it can only be 1"),
        ("roberta", {"pad_token_id": None}, "pad_token_id is None"),
        ("roberta", {"pad_token_id": 9}, "no positions"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups is 2; here it can only be 1"),
        ("albert", {"inner_group_num": 2}, "inner_group_num is 2"),
        ("albert", {"embedding_size": 8}, "embedding_size equals hidden_size"),
        ("gpt", {"afn": "relu"}, "afn is 'relu'"),
    ],
)
def test_what_is_not_built_here_is_refused_by_name(folder, milestone, facts, said):
    assert said in refused(changed(folder(milestone), lambda tensors: None, **facts))


def test_ernie_with_tasks(folder):
    """A vector of zeros changes nothing, and one that is not used neither; any other is refused."""
    task = {"ernie.embeddings.task_type_embeddings.weight": torch.zeros(3, 8)}
    place = folder("ernie")
    found = read_huggingface(changed(place, lambda tensors: tensors | task, use_task_id=True))
    assert tuple(task) in found.report.skipped_tensors.values()
    used = {name: value + torch.tensor([[1.0], [0.0], [0.0]]) for name, value in task.items()}
    assert "use_task_id is true" in refused(changed(place, lambda tensors: tensors | used))
    found = read_huggingface(changed(place, lambda tensors: None, use_task_id=False))
    assert tuple(task) in found.report.skipped_tensors.values()
    assert "use_task_id is true" in refused(changed(place, without("task_type"), use_task_id=True))


def test_a_pickle_is_refused_with_the_class_that_opens_it(folder):
    for milestone, name in (("bert", "BertForPreTraining"), ("gpt", "OpenAIGPTLMHeadModel")):
        place = folder(milestone)
        (place / "model.safetensors").rename(place / "pytorch_model.bin")
        assert f"{name}.from_pretrained(OLD)" in refused(place)
    config = json.loads((place / "config.json").read_text())
    for nonsense in ([], ["os.system('x')"], "Gpt"):
        (place / "config.json").write_text(json.dumps(config | {"architectures": nonsense}))
        assert "OpenAIGPTLMHeadModel.from_pretrained(OLD)" in refused(place)


def test_a_table_of_another_size(folder):
    tensors = read_huggingface(folder("bert")).tensors
    assert trim_vocabulary(tensors, 17) == (tensors, [])
    cut, notes = trim_vocabulary(tensors, 12)
    assert (len(cut[TOKEN_TABLE]), len(cut["heads.token.bias"])) == (12, 12)
    assert "5 entries more" in notes[0]
    with pytest.raises(InputError, match="its tokenizer has 18 tokens, and its table only 17"):
        trim_vocabulary(tensors, 18)


def test_heads_that_transformers_does_not_have_are_left_out_and_named(tmp_path):
    fields = {"width": 8, "depth": 1, "heads": 2, "context": 9}
    pair = {name: one for name, one in model_of("bert", fields).initialize(0).tensors().items() if "heads.pair" in name}
    tensors = model_of("roberta", fields).initialize(0).tensors() | pair
    assert "heads.pair.choose.weight" in tensors
    notes = write_huggingface(tmp_path, "roberta", asdict(RobertaSpec(**fields)), tensors, SPECIALS)
    assert notes == ["RoBERTa of transformers has no head for 'pair': it is left out"]
    assert read_huggingface(tmp_path).heads == ("token",)
    with pytest.raises(InputError, match="no token for padding, from which RoBERTa counts positions"):
        write_huggingface(tmp_path, "roberta", asdict(RobertaSpec(**fields)), tensors, {"end": (2, "</s>")})


def test_a_model_has_no_heads_but_its_own():
    model = model_of("bert", {"width": 8, "depth": 1, "heads": 2, "context": 9})
    with pytest.raises(ForebearError, match="cannot have a head next"):
        model.with_heads(["token", "next"])
    assert list(model.with_heads(["pair"]).heads) == ["pair"]
    assert list(model.with_heads([]).heads) == []
