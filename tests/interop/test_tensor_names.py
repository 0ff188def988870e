"""Tensor names of transformers: heads are recognized by them, and other tensors are reported or refused."""

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
from forebear.interop.hf_architectures import ARCHITECTURES, TOKEN_EMBEDDING
from forebear.interop.huggingface import model_name_of, read_huggingface, trim_vocabulary, write_huggingface
from forebear.interop.tensor_names import UNUSED_HEAD_NOTE, UNUSED_TASK_NOTE
from forebear.models.roberta import RobertaSpec
from hf_peers import SPECIALS, build_model

FIXTURES = Path(__file__).parent / "fixtures"
Tensors = dict[str, torch.Tensor]
POOLER = ("bert.pooler.dense.bias", "bert.pooler.dense.weight")


@pytest.fixture
def copy_fixture(tmp_path: Path) -> Callable[[str], Path]:
    """A function that makes a fresh copy of a tiny model."""

    def copy(model_name: str) -> Path:
        shutil.rmtree(tmp_path / model_name, ignore_errors=True)
        return Path(shutil.copytree(FIXTURES / model_name, tmp_path / model_name))

    return copy


def change_folder(folder: Path, change: Callable[[Tensors], Tensors | None], **config_changes) -> Path:
    """Change the weights, and entries of the config."""
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(change(tensors) or tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | config_changes))
    return folder


def dropping(*patterns: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {
        name: value for name, value in tensors.items() if not any(pattern in name for pattern in patterns)
    }


def read_error(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_huggingface(folder)
    assert caught.value.hint
    return str(caught.value)


def test_imported_heads_are_those_with_tensors(copy_fixture):
    checkpoint = read_huggingface(copy_fixture("bert"))
    assert (checkpoint.heads, checkpoint.fields["pairs"]) == (("token", "pair"), "next")
    assert checkpoint.report.notes() == [f"{checkpoint.report.num_matched} names are those of BERT, and were read"]
    for missing, heads, pairs in (
        (("seq_relationship", "pooler"), ("token",), "none"),
        (("predictions",), ("pair",), "next"),
        (("cls.", "pooler"), (), "none"),
    ):
        incomplete = read_huggingface(change_folder(copy_fixture("bert"), dropping(*missing)))
        assert (incomplete.heads, incomplete.fields["pairs"], incomplete.report.skipped_tensors) == (heads, pairs, {})
        assert {name.split(".")[1] for name in incomplete.tensors if name.startswith("heads.")} == set(heads)
        assert set(incomplete.report.missing) == {"token", "pair"} - set(heads)
        for head in incomplete.report.missing:
            assert any(f"no head {head!r}" in note for note in incomplete.report.notes())


def test_pooler_without_its_head_is_skipped_and_named(copy_fixture):
    checkpoint = read_huggingface(change_folder(copy_fixture("bert"), dropping("cls.")))
    assert (checkpoint.heads, checkpoint.report.skipped_tensors) == ((), {UNUSED_HEAD_NOTE: POOLER})
    assert f"left out ({UNUSED_HEAD_NOTE}): {'; '.join(POOLER)}" in checkpoint.report.notes()
    checkpoint = read_huggingface(change_folder(copy_fixture("albert"), dropping("sop_classifier")))
    assert checkpoint.report.skipped_tensors == {UNUSED_HEAD_NOTE: ("albert.pooler.bias", "albert.pooler.weight")}
    extra = {"roberta.pooler.dense.weight": torch.zeros(8, 8), "roberta.pooler.dense.bias": torch.zeros(8)}
    checkpoint = read_huggingface(change_folder(copy_fixture("roberta"), lambda tensors: tensors | extra))
    assert checkpoint.report.skipped_tensors == {UNUSED_HEAD_NOTE: tuple(sorted(extra))}


TASK_TENSORS = {
    "bert": ("classifier.weight", "classifier.bias"),
    "ernie": ("qa_outputs.weight", "qa_outputs.bias"),
    "albert": ("classifier.weight", "classifier.bias"),
    "roberta": ("classifier.dense.weight", "classifier.dense.bias", "classifier.out_proj.weight"),
    "gpt2": ("score.weight",),
    "gpt": ("multiple_choice_head.summary.weight",),
}


@pytest.mark.parametrize("model_name", TASK_TENSORS)
def test_task_heads_are_skipped_and_named_by_plain_import(copy_fixture, model_name):
    extra = {name: torch.zeros(3, 8) for name in TASK_TENSORS[model_name]}
    checkpoint = read_huggingface(change_folder(copy_fixture(model_name), lambda tensors: tensors | extra))
    assert checkpoint.report.skipped_tensors == {UNUSED_TASK_NOTE: tuple(sorted(extra))}
    assert checkpoint.report.to_dict()["left_out"] == {UNUSED_TASK_NOTE: sorted(extra)}
    assert json.dumps(checkpoint.report.to_dict())


def test_constant_buffers_of_old_versions_are_skipped_and_named(copy_fixture):
    position_ids = {"bert.embeddings.position_ids": torch.arange(10)[None]}
    checkpoint = read_huggingface(change_folder(copy_fixture("bert"), lambda tensors: tensors | position_ids))
    assert list(checkpoint.report.skipped_tensors.values()) == [tuple(position_ids)]
    masks = {"transformer.h.0.attn.bias": torch.ones(1, 1, 10, 10)}
    checkpoint = read_huggingface(change_folder(copy_fixture("gpt2"), lambda tensors: tensors | masks))
    assert list(checkpoint.report.skipped_tensors.values()) == [tuple(masks)]


@pytest.mark.parametrize("model_name", ["bert", "ernie", "roberta", "albert"])
def test_gamma_beta_and_unprefixed_names_are_read(copy_fixture, model_name):
    expected = read_huggingface(FIXTURES / model_name).tensors

    def old_names(tensors: Tensors) -> Tensors:
        names = {name: name.replace("LayerNorm.weight", "LayerNorm.gamma") for name in tensors}
        names = {name: renamed.replace("LayerNorm.bias", "LayerNorm.beta") for name, renamed in names.items()}
        return {names[name].removeprefix(f"{model_name}."): value for name, value in tensors.items()}

    checkpoint = read_huggingface(change_folder(copy_fixture(model_name), old_names))
    assert checkpoint.tensors.keys() == expected.keys()
    assert all(torch.equal(checkpoint.tensors[name], value) for name, value in expected.items())


def test_tied_tensors_stored_twice_must_be_equal(copy_fixture):
    def add_tied(tensors: Tensors) -> Tensors:
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        return tensors

    path = change_folder(copy_fixture("bert"), add_tied)
    checkpoint, expected = read_huggingface(path), read_huggingface(FIXTURES / "bert").tensors
    assert all(torch.equal(checkpoint.tensors[name], value) for name, value in expected.items())

    def break_tie(tensors: Tensors) -> None:
        tensors["cls.predictions.decoder.weight"] += 1

    message = read_error(change_folder(path, break_tie))
    assert "cls.predictions.decoder.weight is not the same as embeddings.word_embeddings.weight" in message


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("layer.1.", "num_hidden_layers is 2, and the weights have 1 blocks"),
        ("1.output.dense.bias", "encoder.layer.1.output.dense.bias is missing"),
        ("transform.dense.weight", "cls.predictions.transform.dense.weight is missing"),
        ("pooler.dense.bias", "pooler.dense.bias is missing"),
    ],
)
def test_missing_encoder_or_head_tensors_are_refused(copy_fixture, missing, message):
    assert message in read_error(change_folder(copy_fixture("bert"), dropping(missing)))


def test_unknown_encoder_tensor_is_refused(copy_fixture):
    unknown = {"bert.encoder.layer.0.attention.self.distance_embedding.weight": torch.zeros(3, 4)}
    message = read_error(change_folder(copy_fixture("bert"), lambda tensors: tensors | unknown))
    assert "encoder.layer.0.attention.self.distance_embedding.weight is not known" in message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["embeddings.LayerNorm.bias", "cls.seq_relationship.weight"])
def test_nan_and_infinity_in_weights_are_refused(copy_fixture, value, name):
    def change(tensors: Tensors) -> None:
        for tensor_name, tensor in tensors.items():
            if tensor_name.endswith(name):
                tensor.view(-1)[0] = value

    assert f"{name} holds what is no number" in read_error(change_folder(copy_fixture("bert"), change))


@pytest.mark.parametrize(
    ("model_name", "name", "shape", "message"),
    [
        ("bert", "bert.encoder.layer.0.attention.self.key.weight", (8, 4), "value.weight are not of one shape"),
        ("gpt2", "transformer.h.0.mlp.c_fc.weight", (8,), "h.0.mlp.c_fc.weight has the shape (8,)"),
        ("roberta", "roberta.embeddings.position_embeddings.weight", (2, 8), "weight has the shape (2, 8)"),
        ("ernie", "embeddings.LayerNorm.bias", (8,), "embeddings.LayerNorm.bias is there twice"),
    ],
)
def test_misshapen_and_duplicate_tensors_are_named(copy_fixture, model_name, name, shape, message):
    assert message in read_error(
        change_folder(copy_fixture(model_name), lambda tensors: tensors | {name: torch.zeros(shape)})
    )


@pytest.mark.parametrize("model_name", ARCHITECTURES)
def test_wrong_model_type_error_names_the_architecture_of_the_weights(copy_fixture, model_name):
    """Under every wrong model type, the right architecture is the nearest by names."""
    titles = {name: family.name_map.title for name, family in ARCHITECTURES.items()}
    for wrong_name, family in ARCHITECTURES.items():
        if wrong_name == model_name:
            continue
        # The other entries are valid: nothing but the model type is wrong.
        config_changes = {"model_type": family.model_type, "n_layer": 2, "hidden_act": "gelu"}
        config_changes["type_vocab_size"] = 1 if wrong_name == "roberta" else 2
        message = read_error(change_folder(copy_fixture(model_name), lambda tensors: None, **config_changes))
        assert f"these look like {titles[model_name]}'s" in message, message


def test_weights_without_any_known_name_are_refused(copy_fixture):
    message = read_error(change_folder(copy_fixture("bert"), lambda tensors: {"mystery": torch.zeros(3)}))
    assert "none of its names is one of BERT's" in message
    assert "look like" not in message


def test_config_without_known_model_type_is_refused_with_a_guess(copy_fixture):
    path = copy_fixture("albert")
    change_folder(path, lambda tensors: None, model_type=None)
    with pytest.raises(InputError, match="the weights look like ALBERT's") as caught:
        model_name_of(path)
    assert caught.value.hint == 'add "model_type": "albert" to it, if that is right'
    change_folder(path, lambda tensors: None, model_type="distilbert")
    with pytest.raises(InputError, match="'distilbert' cannot be imported") as caught:
        model_name_of(path)
    assert "openai-gpt, bert, gpt2, ernie, roberta, albert" in caught.value.hint


@pytest.mark.parametrize(
    ("model_name", "config_changes", "message"),
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
def test_unsupported_config_is_refused_by_name(copy_fixture, model_name, config_changes, message):
    assert message in read_error(change_folder(copy_fixture(model_name), lambda tensors: None, **config_changes))


def test_ernie_task_type_embeddings_are_skipped_if_unused(copy_fixture):
    """A vector of zeros has no effect, nor has one that is not used; any other is refused."""
    task_embeddings = {"ernie.embeddings.task_type_embeddings.weight": torch.zeros(3, 8)}
    path = copy_fixture("ernie")
    checkpoint = read_huggingface(change_folder(path, lambda tensors: tensors | task_embeddings, use_task_id=True))
    assert tuple(task_embeddings) in checkpoint.report.skipped_tensors.values()
    used_embeddings = {name: value + torch.tensor([[1.0], [0.0], [0.0]]) for name, value in task_embeddings.items()}
    assert "use_task_id is true" in read_error(change_folder(path, lambda tensors: tensors | used_embeddings))
    checkpoint = read_huggingface(change_folder(path, lambda tensors: None, use_task_id=False))
    assert tuple(task_embeddings) in checkpoint.report.skipped_tensors.values()
    assert "use_task_id is true" in read_error(change_folder(path, dropping("task_type"), use_task_id=True))


def test_pickle_error_names_the_class_that_loads_it(copy_fixture):
    for model_name, name in (("bert", "BertForPreTraining"), ("gpt", "OpenAIGPTLMHeadModel")):
        path = copy_fixture(model_name)
        (path / "model.safetensors").rename(path / "pytorch_model.bin")
        assert f"{name}.from_pretrained(OLD)" in read_error(path)
    config = json.loads((path / "config.json").read_text())
    for nonsense in ([], ["os.system('x')"], "Gpt"):
        (path / "config.json").write_text(json.dumps(config | {"architectures": nonsense}))
        assert "OpenAIGPTLMHeadModel.from_pretrained(OLD)" in read_error(path)


def test_trim_vocabulary_drops_extra_rows_and_refuses_missing_ones(copy_fixture):
    tensors = read_huggingface(copy_fixture("bert")).tensors
    assert trim_vocabulary(tensors, 17) == (tensors, [])
    trimmed, notes = trim_vocabulary(tensors, 12)
    assert (len(trimmed[TOKEN_EMBEDDING]), len(trimmed["heads.token.bias"])) == (12, 12)
    assert "5 entries more" in notes[0]
    with pytest.raises(InputError, match="its tokenizer has 18 tokens, and its table only 17"):
        trim_vocabulary(tensors, 18)


def test_export_skips_and_names_heads_unknown_to_transformers(tmp_path):
    fields = {"width": 8, "depth": 1, "heads": 2, "context": 9}
    pair_head = {
        name: tensor
        for name, tensor in build_model("bert", fields).initialize(0).tensors().items()
        if "heads.pair" in name
    }
    tensors = build_model("roberta", fields).initialize(0).tensors() | pair_head
    assert "heads.pair.choose.weight" in tensors
    notes = write_huggingface(tmp_path, "roberta", asdict(RobertaSpec(**fields)), tensors, SPECIALS)
    assert notes == ["RoBERTa of transformers has no head for 'pair': it is left out"]
    assert read_huggingface(tmp_path).heads == ("token",)
    with pytest.raises(InputError, match="no token for padding, from which RoBERTa counts positions"):
        write_huggingface(tmp_path, "roberta", asdict(RobertaSpec(**fields)), tensors, {"end": (2, "</s>")})


def test_model_refuses_heads_it_does_not_have():
    model = build_model("bert", {"width": 8, "depth": 1, "heads": 2, "context": 9})
    with pytest.raises(ForebearError, match="cannot have a head next"):
        model.with_heads(["token", "next"])
    assert list(model.with_heads(["pair"]).heads) == ["pair"]
    assert list(model.with_heads([]).heads) == []
