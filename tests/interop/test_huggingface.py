"""Folders of transformers for GPT-2: what is read, what is written, and what is refused by name."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from forebear.errors import InputError
from forebear.interop.hf_architectures import ARCHITECTURES, GPT2
from forebear.interop.huggingface import model_name_of, read_huggingface, write_huggingface
from forebear.interop.tensor_names import to_hf_names, to_our_names

WIDTH, DEPTH, VOCABULARY, CONTEXT = 16, 2, 31, 12
FIELDS = {"width": WIDTH, "depth": DEPTH, "heads": 2, "context": CONTEXT, "inner": 0, "dropout": 0.1, "epsilon": 1e-5}
SPECIALS = {"end": (30, "<|endoftext|>")}


def gpt2_tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shapes = {"wte": (VOCABULARY, WIDTH), "wpe": (CONTEXT, WIDTH)}
    shapes |= {"c_attn": (3 * WIDTH, WIDTH), "attn.c_proj": (WIDTH, WIDTH)}
    shapes |= {"c_fc": (4 * WIDTH, WIDTH), "mlp.c_proj": (WIDTH, 4 * WIDTH)}
    tensors = {}
    for rule in GPT2.name_map.expand_rules(DEPTH):
        shape = next((shape for pattern, shape in shapes.items() if pattern in rule.hf_names[0]), (WIDTH,))
        tensors[rule.our_name] = torch.randn(shape if rule.our_name.endswith("weight") else shape[:1])
    return tensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_huggingface(tmp_path / "gpt2", "gpt2", FIELDS, gpt2_tensors(), SPECIALS)
    return tmp_path / "gpt2"


def change_config(folder: Path, **changes) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def change_weights(folder: Path, change) -> None:
    file = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    save_file(change(tensors) or tensors, file)


def test_huggingface_write_and_read_round_trip(folder):
    checkpoint = read_huggingface(folder)
    assert model_name_of(folder) == checkpoint.model == "gpt2"
    assert (checkpoint.fields, checkpoint.heads) == (FIELDS, ("next",))
    tensors, expected = checkpoint.tensors, gpt2_tensors()
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)


def test_huggingface_n_inner_equal_to_the_default_is_read_as_zero(folder):
    change_config(folder, n_inner=4 * WIDTH)
    assert read_huggingface(folder).fields["inner"] == 0
    change_config(folder, n_inner=40)
    assert read_huggingface(folder).fields["inner"] == 40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llama"}, "model_type 'llama' cannot be imported"),
        ({"activation_function": "relu"}, "activation_function is 'relu'; here it can only be 'gelu_new'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        ({"scale_attn_weights": False}, "scale_attn_weights is False"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"quantization_config": {"bits": 8}}, "quantization_config is"),
        ({"attn_pdrop": 0.3}, "attn_pdrop 0.3: here one dropout serves all"),
    ],
)
def test_huggingface_unsupported_config_is_refused_by_name(folder, changes, message):
    change_config(folder, **changes)
    with pytest.raises(InputError) as caught:
        read_huggingface(folder)
    assert message in str(caught.value)
    assert "config.json: " in str(caught.value)


def test_huggingface_missing_unknown_and_integer_tensors_are_named(folder):
    def change(tensors):
        del tensors["transformer.h.1.mlp.c_fc.bias"]
        tensors["transformer.adapter.weight"] = torch.zeros(2, WIDTH)
        tensors["transformer.h.0.attn.c_attn.weight"] = torch.zeros(4, 4, dtype=torch.int8)

    change_weights(folder, change)
    with pytest.raises(InputError) as caught:
        read_huggingface(folder)
    message = str(caught.value)
    assert "h.1.mlp.c_fc.bias is missing" in message
    assert "adapter.weight is not known" in message
    assert "h.0.attn.c_attn.weight is of torch.int8" in message


def test_huggingface_unprefixed_names_masks_and_tied_heads_of_old_versions_are_read(folder):
    def change(tensors):
        unprefixed = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        masks = {"h.0.attn.bias": torch.ones(1, 1, 4, 4), "h.1.attn.masked_bias": torch.tensor(-1e4)}
        return unprefixed | masks | {"lm_head.weight": unprefixed["wte.weight"].clone()}

    change_weights(folder, change)
    tensors = read_huggingface(folder).tensors
    assert all(torch.equal(tensors[name], value) for name, value in gpt2_tensors().items())
    change_weights(folder, lambda tensors: tensors | {"lm_head.weight": tensors["lm_head.weight"] + 1})
    with pytest.raises(InputError, match=r"lm_head\.weight is not the same as wte\.weight"):
        read_huggingface(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_huggingface_half_precision_is_read_as_float32(folder, dtype):
    change_weights(folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    tensors = read_huggingface(folder).tensors
    for name, value in gpt2_tensors().items():
        assert tensors[name].dtype == torch.float32
        assert torch.equal(tensors[name], value.to(dtype).float())


def test_huggingface_sharded_weights_are_read_and_faulty_indexes_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    half = len(tensors) // 2
    shards = {"model-00001-of-00002.safetensors": list(tensors)[:half]}
    shards["model-00002-of-00002.safetensors"] = list(tensors)[half:]
    weight_map = {name: file for file, members in shards.items() for name in members}
    for file, members in shards.items():
        save_file({name: tensors[name].clone() for name in members}, folder / file)
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert all(torch.equal(read_huggingface(folder).tensors[name], value) for name, value in gpt2_tensors().items())
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(InputError, match=r"model-00002-of-00002\.safetensors: this file is missing"):
        read_huggingface(folder)
    index.write_text(json.dumps({"weight_map": {"wte.weight": "../elsewhere.safetensors"}}))
    with pytest.raises(InputError, match="outside its folder"):
        read_huggingface(folder)
    for nonsense in ("[]", "{", '{"weight_map": [1]}'):
        index.write_text(nonsense)
        with pytest.raises(InputError, match=r"index\.json: this is not"):
            read_huggingface(folder)


def test_huggingface_pickled_weights_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled") as caught:
        read_huggingface(folder)
    assert "save_pretrained" in caught.value.hint


def test_huggingface_incomplete_folders_are_refused(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match=r"model\.safetensors: this is not a whole safetensors file"):
        read_huggingface(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"there is no model\.safetensors"):
        read_huggingface(folder)
    for nonsense in ("{", "[]"):
        (folder / "config.json").write_text(nonsense)
        with pytest.raises(InputError, match=r"config\.json: this is not"):
            read_huggingface(folder)
    with pytest.raises(InputError, match=r"there is no config\.json"):
        read_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_layer", "two"), ("n_layer", 2.0), ("n_layer", True), ("n_head", 0), ("n_embd", -8), ("n_positions", None),
        ("layer_norm_epsilon", math.nan), ("layer_norm_epsilon", "1e-5"), ("resid_pdrop", 1.5), ("n_inner", -1),
        ("n_inner", "wide"),
    ],
)  # fmt: skip
def test_huggingface_invalid_config_values_are_named(folder, name, value):
    change_config(folder, **{name: value})
    with pytest.raises(InputError, match=f"{name} is {value!r}"):
        read_huggingface(folder)


def test_huggingface_tensors_of_another_model_are_not_written(tmp_path):
    tensors = gpt2_tensors()
    tensors["heads.token.bias"] = tensors.pop("encoder.final_norm.bias")
    with pytest.raises(InputError, match=r"encoder\.final_norm\.bias; heads\.token\.bias"):
        to_hf_names(GPT2.name_map, tensors, depth=DEPTH)


def random_tensors(model_name: str) -> dict[str, torch.Tensor]:
    """Tensors of every name of an architecture, of shapes that need not fit a model."""
    torch.manual_seed(0)
    tensors = {}
    for rule in ARCHITECTURES[model_name].name_map.expand_rules(DEPTH):
        num_rows = 4 * len(rule.hf_names)
        tensors[rule.our_name] = (
            torch.randn(num_rows)
            if "norm" in rule.our_name or rule.our_name.endswith("bias")
            else torch.randn(num_rows, 5)
        )
    return tensors


@pytest.mark.parametrize("model_name", ARCHITECTURES)
def test_tensor_names_map_to_transformers_and_back_bit_for_bit(model_name):
    name_map, tensors = ARCHITECTURES[model_name].name_map, random_tensors(model_name)
    hf_tensors = to_hf_names(name_map, tensors, depth=DEPTH, num_offset_rows=2)
    restored, report = to_our_names(name_map, hf_tensors, depth=DEPTH, num_offset_rows=2)
    assert restored.keys() == tensors.keys()
    assert all(torch.equal(restored[name], value) for name, value in tensors.items())
    assert (report.num_matched, report.heads, report.missing, report.skipped_tensors) == (
        len(hf_tensors),
        name_map.heads,
        {},
        {},
    )


@pytest.mark.parametrize("model_name", ARCHITECTURES)
def test_tensor_name_maps_have_no_duplicate_names(model_name):
    rules = ARCHITECTURES[model_name].name_map.expand_rules(3)
    hf_names = [name for rule in rules for name in rule.hf_names]
    assert len(set(hf_names)) == len(hf_names)
    assert len({rule.our_name for rule in rules}) == len(rules)
