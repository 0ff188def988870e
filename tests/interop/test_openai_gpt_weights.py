"""GPT in OpenAI's own format: AllenNLP's tiny fixture, the parameters by position, and refused files."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from forebear.errors import InputError
from forebear.interop import openai_gpt_weights
from forebear.interop.hf_architectures import GPT
from forebear.interop.tensor_names import to_hf_names
from hf_peers import Rows, build_model, model_outputs

FIXTURE = "weights/openai_gpt_fixture"


def shapes(width: int, depth: int, vocabulary: int, context: int, inner: int) -> list[list[int]]:
    """As OpenAI wrote them: weights of layers have a leading dimension of 1."""
    block = [[1, width, 3 * width], [3 * width], [1, width, width], [width], [width], [width]]
    block += [[1, width, inner], [inner], [1, inner, width], [width], [width], [width]]
    return [[context, width], [vocabulary, width], *(block * depth)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A random model in three files."""
    folder = tmp_path / "model"
    folder.mkdir()
    parameter_shapes = shapes(width=8, depth=2, vocabulary=11, context=7, inner=20)
    values = (
        np.random.default_rng(0)
        .normal(0, 0.3, sum(int(np.prod(shape)) for shape in parameter_shapes))
        .astype(np.float32)
    )
    for index, shard in enumerate(np.array_split(values, 3)):
        np.save(folder / f"params_{index}.npy", shard)
    (folder / "params_shapes.json").write_text(json.dumps(parameter_shapes))
    return folder


def write_archive(folder: Path, path: Path, prefix: str = "model/") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for item in sorted(folder.iterdir()):
            member = archive.gettarinfo(item)
            member.name = prefix + item.name
            archive.addfile(member, io.BytesIO(item.read_bytes()))
    return path


def test_openai_gpt_parameters_are_read_by_position_from_folder_or_archive(folder, tmp_path):
    checkpoint = openai_gpt_weights.read_openai_gpt(folder, heads=2)
    expected_fields = {"width": 8, "depth": 2, "heads": 2, "context": 7, "inner": 20, "dropout": 0.1, "epsilon": 1e-5}
    assert (checkpoint.model, checkpoint.heads, checkpoint.fields) == ("gpt", ("next",), expected_fields)
    values = np.concatenate([np.load(folder / f"params_{n}.npy") for n in range(3)])
    tensors = {name: value.numpy() for name, value in checkpoint.tensors.items()}
    assert (tensors["encoder.embedding.position.weight"].ravel() == values[:56]).all()
    assert (tensors["encoder.embedding.token.weight"].ravel() == values[56:144]).all()
    first = tensors["encoder.blocks.0.attention.query_key_value.weight"]
    assert first.shape == (24, 8)
    assert (first.T.ravel() == values[144 : 144 + 192]).all()
    assert (tensors["encoder.blocks.1.feedforward_norm.bias"] == values[-8:]).all()
    from_archive = openai_gpt_weights.read_openai_gpt(write_archive(folder, tmp_path / "model.tar.gz"), heads=2)
    assert from_archive.fields == checkpoint.fields
    assert all(torch.equal(from_archive.tensors[name], value) for name, value in checkpoint.tensors.items())


def test_openai_gpt_fixture_gives_the_states_of_transformers(data):
    transformers = pytest.importorskip("transformers")
    checkpoint = openai_gpt_weights.read_openai_gpt(data / FIXTURE / "transformer_small.tar.gz", heads=2)
    assert {name: checkpoint.fields[name] for name in ("width", "depth", "heads", "context", "inner")} == {
        "width": 10, "depth": 2, "heads": 2, "context": 50, "inner": 0,
    }  # fmt: skip
    config = transformers.OpenAIGPTConfig(vocab_size=50, n_embd=10, n_layer=2, n_head=2, n_positions=50)
    hf_model = transformers.OpenAIGPTLMHeadModel(config).eval()
    hf_tensors = to_hf_names(GPT.name_map, checkpoint.tensors, depth=2)
    hf_outputs = hf_model.load_state_dict(hf_tensors, strict=False)
    assert (hf_outputs.missing_keys, hf_outputs.unexpected_keys) == (["lm_head.weight"], [])
    model = build_model("gpt", checkpoint.fields, 50).load(checkpoint.tensors).eval()
    rows = Rows.random((12,), vocabulary=50)
    hf_outputs = hf_model(rows.tokens[None], output_hidden_states=True)
    states = model.encoder(rows.tokens, [12])
    for layer, expected in zip(states.layers, hf_outputs.hidden_states, strict=True):
        torch.testing.assert_close(layer, expected[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(model_outputs(model, rows, ("next",))["next"], hf_outputs.logits[0], rtol=0, atol=1e-4)


def test_openai_gpt_fixture_equals_a_numpy_implementation(data):
    """GPT in a few lines of numpy, from the parameters in the order of the files."""
    with tarfile.open(data / FIXTURE / "transformer_small.tar.gz") as archive:
        files = {
            Path(member.name).name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()
        }
        parameter_shapes = json.load(files["params_shapes.json"])
        values = np.concatenate([np.load(io.BytesIO(files[f"params_{n}.npy"].read())) for n in range(2)])
    cuts = np.cumsum([np.prod(shape) for shape in parameter_shapes])[:-1]
    position, token, *rest = (
        section.reshape(shape) for section, shape in zip(np.split(values, cuts), parameter_shapes, strict=True)
    )
    ids = np.array([3, 17, 4, 44, 8, 0, 21])

    def norm(x, weight, bias):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def attend(x):
        query, key, value = (section.reshape(len(ids), 2, 5).transpose(1, 0, 2) for section in np.split(x, 3, -1))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(5)
        scores = np.where(np.tril(np.ones((len(ids), len(ids)), bool)), scores, -1e9)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return ((weights / weights.sum(-1, keepdims=True)) @ value).transpose(1, 0, 2).reshape(len(ids), 10)

    x = token[ids] + position[: len(ids)]
    for number in range(2):
        (
            qkv,
            qkv_bias,
            out,
            out_bias,
            norm_1,
            norm_1_bias,
            inner_weight,
            inner_bias,
            output_weight,
            output_bias,
            norm_2,
            norm_2_bias,
        ) = rest[12 * number : 12 * number + 12]
        x = norm(x + attend(x @ qkv + qkv_bias) @ out + out_bias, norm_1, norm_1_bias)
        inner = x @ inner_weight + inner_bias
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = norm(x + inner @ output_weight + output_bias, norm_2, norm_2_bias)
    checkpoint = openai_gpt_weights.read_openai_gpt(data / FIXTURE / "transformer_small.tar.gz", heads=2)
    states = (
        build_model("gpt", checkpoint.fields, 50)
        .load(checkpoint.tensors)
        .eval()
        .encoder(torch.from_numpy(ids), [len(ids)])
    )
    assert states.last.detach().numpy() == pytest.approx(x, abs=1e-5)


def test_openai_gpt_published_model_gives_the_published_vectors(data):
    """AllenNLP stored the last layer of the full model, to five decimals; the model is 460 MB and rarely at hand."""
    path = Path(os.environ.get("FOREBEAR_OPENAI_GPT", data / "weights" / "openai_gpt"))
    if not path.exists():
        pytest.skip(f"no GPT of OpenAI's at {path}; set FOREBEAR_OPENAI_GPT to the folder or archive")
    h5py = pytest.importorskip("h5py")
    checkpoint = openai_gpt_weights.read_openai_gpt(path)
    model = (
        build_model("gpt", checkpoint.fields, len(checkpoint.tensors["encoder.embedding.token.weight"]))
        .load(checkpoint.tensors)
        .eval()
    )
    for number, ids in enumerate(json.loads((data / FIXTURE / "indexed_text.json").read_text())):
        with h5py.File(data / FIXTURE / "expected_embeddings.hdf5") as file, torch.inference_mode():
            last = model.encoder(torch.tensor(ids), [len(ids)]).last
            assert last.numpy() == pytest.approx(file[str(number)][...], abs=2e-5)


def test_openai_gpt_number_of_heads_is_required_unless_width_tells(folder, tmp_path):
    with pytest.raises(InputError, match="do not tell how many heads") as caught:
        openai_gpt_weights.read_openai_gpt(folder)
    assert "--heads" in caught.value.hint
    with pytest.raises(InputError, match="cannot be shared by 3 heads"):
        openai_gpt_weights.read_openai_gpt(folder, heads=3)
    parameter_shapes = shapes(width=128, depth=1, vocabulary=3, context=2, inner=512)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "params_shapes.json").write_text(json.dumps(parameter_shapes))
    np.save(folder / "params_0.npy", np.zeros(sum(int(np.prod(shape)) for shape in parameter_shapes), np.float16))
    assert openai_gpt_weights.read_openai_gpt(folder).fields["heads"] == 2


def read_error(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        openai_gpt_weights.read_openai_gpt(path, heads=2)
    assert caught.value.hint
    return str(caught.value)


def test_openai_gpt_corrupt_parameter_files_are_refused(folder):
    last = np.load(folder / "params_2.npy")
    np.save(folder / "params_2.npy", last[:-1])
    assert "numbers, and the files have" in read_error(folder)
    np.save(folder / "params_2.npy", np.append(last, last))
    assert "the files have more" in read_error(folder)
    np.save(folder / "params_2.npy", np.where(last == last[0], np.nan, last))
    assert "holds what is no number" in read_error(folder)
    np.save(folder / "params_2.npy", last.astype(np.int32))
    assert "not a row of floating point numbers" in read_error(folder)
    np.save(folder / "params_2.npy", np.array([{"a": 1}]), allow_pickle=True)
    assert "params_2.npy is not a whole array" in read_error(folder)
    (folder / "params_2.npy").write_bytes(b"\x93NUMPY torn")
    assert "params_2.npy is not a whole array" in read_error(folder)
    (folder / "params_1.npy").unlink()
    assert "missing: params_1.npy" in read_error(folder)


@pytest.mark.parametrize(
    "nonsense", ["{", "{}", "[[1, 2]]", '[["a"]]', "[[0, 8], [1, 8]]", "[[1,2,3,4],[1]]", "[[true]]"]
)
def test_openai_gpt_invalid_shapes_are_refused(folder, nonsense):
    (folder / "params_shapes.json").write_text(nonsense)
    assert "params_shapes.json is not" in read_error(folder) or "are not two tables" in read_error(folder)


def test_openai_gpt_unsafe_and_corrupt_archives_are_refused(folder, tmp_path):
    for prefix in ("../", "/tmp/", "model/../../"):
        assert "leads outside" in read_error(write_archive(folder, tmp_path / "model.tar.gz", prefix))
    content = write_archive(folder, tmp_path / "model.tar.gz").read_bytes()
    (tmp_path / "model.tar.gz").write_bytes(content[: len(content) // 2])
    assert "not a whole archive" in read_error(tmp_path / "model.tar.gz")
    (tmp_path / "model.tar.gz").write_bytes(b"nothing of the kind")
    assert "not a whole archive" in read_error(tmp_path / "model.tar.gz")
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        for member_folder in ("a", "b"):
            archive.add(folder / "params_0.npy", f"{member_folder}/params_0.npy")
    assert "is there twice" in read_error(tmp_path / "twice.tar")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    assert "there is no params_shapes.json" in read_error(tmp_path / "empty.tar")
    with tarfile.open(tmp_path / "linked.tar", "w") as archive:
        link = tarfile.TarInfo("model/params_shapes.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert "there is no params_shapes.json" in read_error(tmp_path / "linked.tar")
